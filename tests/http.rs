//! A minimal HTTP client: it sends given bytes, and reads replies with a parser of its own, so that
//! the engine is not tested with itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::process::PATIENCE;

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpReply {
    /// Of its status line.
    pub status: u16,
    /// `HTTP/1.1`.
    pub version: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// As it was framed.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// Reads a head from lines.
    ///
    /// # Errors
    /// It ends too early, or is no head.
    pub fn read_head(from: &mut impl BufRead) -> io::Result<Self> {
        let line = read_line(from)?;
        let (version, rest) = line.split_once(' ').ok_or_else(|| bad(&line))?;
        let status = rest.get(..3).and_then(|text| text.parse().ok()).ok_or_else(|| bad(&line))?;
        let mut reply = Self { status, version: version.to_owned(), ..Self::default() };
        loop {
            let line = read_line(from)?;
            if line.is_empty() {
                return Ok(reply);
            }
            let (name, value) = line.split_once(": ").ok_or_else(|| bad(&line))?;
            reply.fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    fn read_body(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        if self.field("transfer-encoding") == Some("chunked") {
            return self.read_chunks(from);
        }
        match self.field("content-length").map(str::parse) {
            Some(Ok(len)) => {
                self.body = vec![0; len];
                from.read_exact(&mut self.body)
            }
            Some(Err(_)) => Err(bad("Content-Length")),
            None => from.read_to_end(&mut self.body).map(drop),
        }
    }

    fn read_chunks(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        loop {
            let line = read_line(from)?;
            let len = usize::from_str_radix(&line, 16).map_err(|_| bad(&line))?;
            let start = self.body.len();
            self.body.resize(start + len, 0);
            from.read_exact(&mut self.body[start..])?;
            let end = read_line(from)?;
            if !end.is_empty() {
                return Err(bad(&end));
            }
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// The value of a field that may occur once; the name in lower case.
    ///
    /// # Panics
    /// It occurs twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} twice in {self:?}");
        value
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    let text = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    String::from_utf8(text.to_vec()).map_err(|_| bad("not UTF-8"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply: {what}"))
}

/// A connection to a server; every wait on it ends after [`PATIENCE`].
#[derive(Debug)]
pub struct HttpClient {
    stream: BufReader<TcpStream>,
}

impl HttpClient {
    /// Connects.
    ///
    /// # Panics
    /// Connection refused.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a good time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a good time");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream: BufReader::new(stream) }
    }

    /// The socket: for time limits, and to write while replies are read.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// The connection fails.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket().write_all(bytes.as_ref()).expect("the server takes bytes");
    }

    /// Sends a GET.
    pub fn send_get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }

    /// Fetches something.
    ///
    /// # Panics
    /// The reply is none.
    pub fn get(&mut self, target: &str) -> HttpReply {
        self.send_get(target);
        self.read_reply().unwrap_or_else(|error| panic!("{target}: {error}"))
    }

    /// Shuts down the sending side.
    ///
    /// # Panics
    /// The connection is gone.
    pub fn finish(&mut self) {
        self.socket().shutdown(Shutdown::Write).expect("the connection stands");
    }

    /// Reads a head only.
    ///
    /// # Errors
    /// It ends too early, or is no head.
    pub fn read_head(&mut self) -> io::Result<HttpReply> {
        HttpReply::read_head(&mut self.stream)
    }

    /// Reads a reply, with a body if its framing declares one.
    ///
    /// # Errors
    /// It ends too early, or is no reply.
    pub fn read_reply(&mut self) -> io::Result<HttpReply> {
        let mut reply = self.read_head()?;
        if reply.status >= 200 && !matches!(reply.status, 204 | 304) {
            reply.read_body(&mut self.stream)?;
        }
        Ok(reply)
    }

    /// Reads `len` bytes of a body.
    ///
    /// # Panics
    /// They do not come.
    pub fn read_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("so many bytes");
        bytes
    }

    /// Reads until the server closes; a reset is an error.
    ///
    /// # Errors
    /// A reset, or [`PATIENCE`] is at its end.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The counts of the server at `/.ledger`, by name; `requests` among them.
    ///
    /// # Panics
    /// The response is not as documented.
    pub fn ledger(&mut self) -> LedgerCounts {
        let reply = self.get("/.ledger");
        let json: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
        let calls = json["syscalls"].as_object().expect("an object");
        let count = |(name, count): (&String, &serde_json::Value)| {
            (name.clone(), count["calls"].as_u64().expect("a number"))
        };
        LedgerCounts(calls.iter().map(count).collect())
    }
}

/// Numbers of system calls, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerCounts(pub std::collections::BTreeMap<String, u64>);

impl LedgerCounts {
    /// Of one call.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Of all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |(name, n): (&String, &u64)| (name.clone(), n - earlier.of(name));
        Self(self.0.iter().map(added).filter(|(_, n)| *n > 0).collect())
    }
}

/// All replies of a reader.
///
/// # Errors
/// The last one is truncated, or something is no reply.
pub fn replies(mut bytes: &[u8]) -> io::Result<Vec<HttpReply>> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let mut reply = HttpReply::read_head(&mut bytes)?;
        if !matches!(reply.status, 100..=199 | 204 | 304) {
            reply.read_body(&mut bytes)?;
        }
        replies.push(reply);
    }
    Ok(replies)
}
