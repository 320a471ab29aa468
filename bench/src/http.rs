//! A blocking HTTP client for single requests: to check a server, to read its counters, to open
//! connections that stay idle.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fulmar_sys as sys;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A connection to a server.
pub(crate) struct BenchConnection {
    socket: TcpStream,
    stream: Box<dyn ReadWrite>,
    buffer: Vec<u8>,
}

trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for BenchConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BenchConnection").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl BenchConnection {
    /// Connects; with `certificate` over TLS, where this certificate is trusted.
    pub(crate) fn open(to: SocketAddr, certificate: Option<&Path>) -> io::Result<Self> {
        Self::over(TcpStream::connect(to)?, certificate)
    }

    /// Connects from this address of loopback.
    pub(crate) fn from(address: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = sys::tcp_socket(to)?;
        sys::bind(socket.as_fd(), SocketAddr::new(address, 0))?;
        sys::connect(socket.as_fd(), to)?;
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false)?;
        Self::over(socket, None)
    }

    fn over(socket: TcpStream, certificate: Option<&Path>) -> io::Result<Self> {
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        socket.set_nodelay(true)?;
        let stream: Box<dyn ReadWrite> = match certificate {
            None => Box::new(socket.try_clone()?),
            Some(path) => {
                let session = session(path).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, socket.try_clone()?))
            }
        };
        Ok(Self { socket, stream, buffer: Vec::new() })
    }

    /// Sends a request and reads the whole response.
    pub(crate) fn get(&mut self, target: &str, field: &str) -> io::Result<HttpResponse> {
        // In one write: the server would receive pieces of it, with more calls.
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.buffer.clear();
        loop {
            if let Some(response) = parse(&self.buffer) {
                return Ok(response);
            }
            let len = self.buffer.len();
            self.buffer.resize(len + READ_SIZE, 0);
            let read = self.stream.read(&mut self.buffer[len..])?;
            self.buffer.truncate(len + read);
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The received packets with data so far.
    pub(crate) fn packets(&self) -> io::Result<f64> {
        Ok(f64::from(sys::tcp_info(self.socket.as_fd())?.data_packets_in))
    }
}

fn session(
    certificate: &Path,
) -> Result<ClientConnection, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&fs::read(certificate)?)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), "127.0.0.1".try_into()?)?)
}

/// A response that has arrived whole: with a length, or in chunks.
fn parse(bytes: &[u8]) -> Option<HttpResponse> {
    let head_len = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_len]).to_ascii_lowercase();
    let body = &bytes[head_len..];
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let field = |name: &str| head.split(name).nth(1)?.split("\r\n").next();
    if head.contains("transfer-encoding: chunked") {
        return Some(HttpResponse { status, body: dechunk(body)? });
    }
    let len = field("\r\ncontent-length: ")?.parse::<usize>().ok()?;
    (body.len() >= len).then(|| HttpResponse { status, body: body[..len].to_vec() })
}

/// The body of whole chunks; `None` while the last one is missing.
fn dechunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|end| end == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        let chunk = bytes.get(end + 2..end + 2 + size + 2)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(&chunk[..size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
}

const READ_TIMEOUT: Duration = Duration::from_secs(60);
const READ_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_complete_only_with_their_last_byte() {
        let fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxxx";
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n1\r\nx\r\n0\r\n\r\n";
        for bytes in [&fixed[..], chunked] {
            for len in 0..bytes.len() {
                assert_eq!(parse(&bytes[..len]), None, "{len}");
            }
            let whole = HttpResponse { status: 200, body: b"xxx".to_vec() };
            assert_eq!(parse(bytes), Some(whole));
        }
        let missing = parse(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert_eq!((missing.status, missing.body.len()), (404, 0));
    }
}
