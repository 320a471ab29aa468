//! Clients in threads of their own, which repeat requests while something else happens.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use fulmar_tls::ClientTls;

use crate::http::HttpReply;
use crate::process::{PATIENCE, eventually};
use crate::tls_end::TlsPeer;

/// The clients.
#[derive(Debug, Default)]
pub struct ClientThreads {
    enough: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

impl ClientThreads {
    /// Adds a client that repeats `act` and counts its responses; after an error it ends.
    pub fn add(&mut self, act: impl Fn(&AtomicU64) -> Result<(), String> + Send + 'static) {
        let (enough, answered) = (Arc::clone(&self.enough), Arc::clone(&self.answered));
        self.clients.push(std::thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                act(&answered)?;
            }
            Ok(())
        }));
    }

    /// Waits until `more` further responses have arrived, or a client has failed.
    ///
    /// # Panics
    /// No response arrives.
    pub fn wait(&self, more: u64) {
        let start = self.answered.load(Ordering::Relaxed);
        let failed = || self.clients.iter().any(JoinHandle::is_finished);
        eventually("clients are answered", || {
            failed() || self.answered.load(Ordering::Relaxed) >= start + more
        });
    }

    /// Why each that failed did.
    ///
    /// # Panics
    /// A response differs from the expected one.
    pub fn end(self) -> Vec<String> {
        self.enough.store(true, Ordering::Relaxed);
        let ends = self.clients.into_iter().map(|client| client.join().expect("a right answer"));
        ends.filter_map(Result::err).collect()
    }
}

/// Up to `requests` requests on one connection, each with this response body; a response with
/// `Connection: close` must be the last. Every response is counted.
///
/// # Errors
/// The request that failed, and the cause.
///
/// # Panics
/// An answer is another one.
pub fn repeat_requests(
    stream: impl Read + Write,
    requests: u32,
    body: &[u8],
    count: &AtomicU64,
) -> Result<(), String> {
    let mut stream = BufReader::new(stream);
    for nth in 0..requests {
        let failed = |what: &str, error: io::Error| format!("request {nth}: {what}: {error}");
        let sent = stream.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        sent.map_err(|error| failed("send", error))?;
        let head = HttpReply::read_head(&mut stream).map_err(|error| failed("head", error))?;
        let mut got = vec![0; body.len()];
        stream.read_exact(&mut got).map_err(|error| failed("body", error))?;
        assert_eq!((head.status, &got[..]), (200, body));
        count.fetch_add(1, Ordering::Relaxed);
        if head.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            let rest = stream.fill_buf().map_err(|error| failed("end", error))?;
            assert_eq!(rest, b"", "nothing follows the last answer");
            return Ok(());
        }
    }
    Ok(())
}

/// A connection with timeouts.
///
/// # Errors
/// There is none.
pub fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a good time");
    stream.set_nodelay(true).expect("a socket");
    Ok(stream)
}

/// A session of TLS that is read and written like a socket.
#[derive(Debug)]
pub struct TlsStream(TlsPeer);

impl TlsStream {
    /// Connects, and waits for the end of the handshake.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn connect(tls: &ClientTls, address: SocketAddr) -> Result<Self, String> {
        let mut this = Self(TlsPeer::on(tls, connect(address)?));
        while !this.0.end.established {
            this.exchange().map_err(|error| format!("handshake: {error}"))?;
        }
        this.flush().map_err(|error| format!("handshake: {error}"))?;
        Ok(this)
    }

    /// Sends pending bytes, and receives the next ones; false: the end.
    fn exchange(&mut self) -> io::Result<bool> {
        self.flush()?;
        let mut bytes = [0; 16 * 1024];
        let n = self.0.stream.read(&mut bytes)?;
        let end = &mut self.0.end;
        end.eof = n == 0;
        end.wire.extend_from_slice(&bytes[..n]);
        end.open().map_err(|error| io::Error::other(format!("{error:?}")))?;
        if n == 0 && !end.ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(n > 0 && !end.ended)
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.0.end.above.is_empty() {
            if !self.exchange()? && self.0.end.above.is_empty() {
                return Ok(0);
            }
        }
        let n = into.len().min(self.0.end.above.len());
        into[..n].copy_from_slice(&self.0.end.above.split_to(n));
        Ok(n)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.end.send(bytes);
        self.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = self.0.end.take();
        self.0.stream.write_all(&bytes)
    }
}
