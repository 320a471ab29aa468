//! Scripted peers: servers in threads, with blocking sockets and a reader of requests of their own,
//! so that the client is not tested with its own parser.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::process::PATIENCE;

/// A request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// The index of its connection, from 0 in the order of their accepts.
    pub connection: usize,
    /// As the request line has it.
    pub method: String,
    /// As the request line has it.
    pub target: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// Without its framing.
    pub body: Vec<u8>,
}

impl RequestRecord {
    /// The value of a field; the name in lower case.
    ///
    /// # Panics
    /// It occurs twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} twice in {self:?}");
        value
    }

    /// Reads a head; `None` at the end of the connection.
    ///
    /// # Errors
    /// It is none.
    pub fn read_head(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(line) = read_line(from)? else { return Ok(None) };
        let mut words = line.split(' ').map(str::to_owned);
        let (Some(method), Some(target), Some(_), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(bad(&line));
        };
        let mut asked = Self { method, target, ..Self::default() };
        loop {
            let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Some(asked));
            }
            let (name, value) = line.split_once(": ").ok_or_else(|| bad(&line))?;
            asked.fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    /// Reads the body as framed by the head.
    ///
    /// # Errors
    /// It is truncated, or its framing is wrong.
    pub fn read_body(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        if self.field("transfer-encoding") == Some("chunked") {
            loop {
                let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let len = usize::from_str_radix(&line, 16).map_err(|_| bad(&line))?;
                let start = self.body.len();
                self.body.resize(start + len, 0);
                from.read_exact(&mut self.body[start..])?;
                let end = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                if !end.is_empty() {
                    return Err(bad(&end));
                }
                if len == 0 {
                    return Ok(());
                }
            }
        }
        let len = self.field("content-length").map_or(Ok(0), str::parse);
        self.body = vec![0; len.map_err(|_| bad("Content-Length"))?];
        from.read_exact(&mut self.body)
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    String::from_utf8(text.to_vec()).map(Some).map_err(|_| bad("not UTF-8"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a request: {what}"))
}

/// A response with a body and its length, and these further fields (`"Name: value\r\n"...`).
pub fn answer(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut head = format!("HTTP/1.1 {status} Whatever\r\n{fields}");
    if status != 204 && status != 304 {
        write!(head, "Content-Length: {}\r\n", body.len()).expect("room");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A server in threads, one for each connection.
#[derive(Debug)]
pub struct ThreadedServer {
    /// Where it listens, on loopback.
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<RequestRecord>>>,
}

/// The requests that scripted servers received.
#[derive(Clone, Debug)]
pub struct RequestLog(Arc<Mutex<Vec<RequestRecord>>>);

impl RequestLog {
    /// One more request.
    pub fn push(&self, asked: RequestRecord) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }
}

impl ThreadedServer {
    /// A server that responds to each request with the result of `script`, byte for byte; a
    /// response with `Connection: close` is the last on its connection.
    pub fn start(script: impl Fn(&RequestRecord) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::with_connections(move |connection, stream, log| {
            let mut from = BufReader::new(stream);
            while let Some(mut asked) = RequestRecord::read_head(&mut from)? {
                asked.connection = connection;
                asked.read_body(&mut from)?;
                log.push(asked.clone());
                let bytes = script(&asked);
                from.get_ref().write_all(&bytes)?;
                let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(0);
                if String::from_utf8_lossy(&bytes[..head]).contains("Connection: close") {
                    return from.get_ref().shutdown(Shutdown::Write);
                }
            }
            Ok(())
        })
    }

    /// A server that runs `script` on each connection; an error ends it.
    ///
    /// # Panics
    /// There is no port.
    pub fn with_connections(
        script: impl Fn(usize, TcpStream, &RequestLog) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let log = Arc::default();
        let (script, noted) = (Arc::new(script), RequestLog(Arc::clone(&log)));
        // The threads end with the test's process; each waits only for its client.
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let (script, noted) = (Arc::clone(&script), noted.clone());
                std::thread::spawn(move || {
                    // Clients may close at any time: only their requests matter.
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    let _ = stream.set_nodelay(true);
                    let _ = script(connection, stream, &noted);
                });
            }
        });
        Self { address, log }
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of connections with requests.
    pub fn connections(&self) -> usize {
        let mut connections: Vec<usize> = self.requests().iter().map(|a| a.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        connections.len()
    }

    /// A URL of the server's.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A server on loopback that runs `serve` on each connection, in a thread of its own.
///
/// # Panics
/// There is no port.
pub fn serve_each<R>(serve: impl Fn(TcpStream) -> R + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let address = listener.local_addr().expect("it is bound");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                drop(serve(stream));
            });
        }
    });
    address
}

/// Copies bytes both ways until either side ends, then ends the other.
///
/// # Errors
/// A descriptor cannot be shared.
pub fn relay(a: &TcpStream, b: &TcpStream) -> io::Result<()> {
    let (mut from_a, mut to_b) = (a.try_clone()?, b.try_clone()?);
    let back = std::thread::spawn(move || {
        let _ = io::copy(&mut from_a, &mut to_b);
        to_b.shutdown(Shutdown::Write)
    });
    let (mut from_b, mut to_a) = (b.try_clone()?, a.try_clone()?);
    let _ = io::copy(&mut from_b, &mut to_a);
    let _ = to_a.shutdown(Shutdown::Write);
    let _ = back.join();
    Ok(())
}
