//! A client that asks, and reads the whole answer.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use fulmar_sys as sys;

use super::Scenario;
use crate::Error;
use crate::lab::Lab;

/// On one connection, from the clients' core.
#[derive(Debug)]
pub(super) struct Asker {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where this thread may run otherwise.
    elsewhere: Vec<usize>,
}

impl Asker {
    pub(super) fn connect(lab: &Lab, port: u16) -> Result<Self, Error> {
        let elsewhere = sys::allowed_cpus().map_err(Error::io("the processors"))?;
        let connect = || -> io::Result<TcpStream> {
            sys::run_on_cpus(&lab.cores.client)?;
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = connect().map_err(Error::io("connecting to a server"))?;
        Ok(Self { stream, buffer: vec![0; 256 * 1024], elsewhere })
    }

    /// One request and its answer, which has to be what it should be.
    pub(super) fn ask(&mut self, scenario: &Scenario) -> Result<(), Error> {
        self.exchange(scenario).map_err(Error::io(format!("GET {}", scenario.target)))
    }

    fn exchange(&mut self, scenario: &Scenario) -> io::Result<()> {
        let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", scenario.target);
        self.stream.write_all(request.as_bytes())?;
        let mut len = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[len..])?;
            len += read;
            match complete(&self.buffer[..len], scenario.body_len) {
                Some(true) => return Ok(()),
                Some(false) => return Err(io::Error::other("not the answer that was expected")),
                None if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }

    /// Packets with data that have arrived so far.
    pub(super) fn packets(&self) -> Result<f64, Error> {
        let info = sys::tcp_info(self.stream.as_fd()).map_err(Error::io("TCP_INFO"))?;
        Ok(f64::from(info.data_packets_in))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = sys::run_on_cpus(&self.elsewhere); // they were ours before
    }
}

/// Whether an answer has come whole, and is the one that was expected; `None` while it has not.
fn complete(bytes: &[u8], body_len: usize) -> Option<bool> {
    let head_len = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_len]).to_ascii_lowercase();
    let body = &bytes[head_len..];
    if !head.starts_with("http/1.1 200 ") {
        return Some(false);
    }
    if head.contains("transfer-encoding: chunked") {
        let ended = body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n");
        let letters = body.iter().filter(|byte| **byte == b'x').count();
        return ended.then_some(letters == body_len);
    }
    let told = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok();
    if told != Some(body_len) {
        return Some(false);
    }
    (body.len() >= body_len).then_some(body.len() == body_len)
}

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn answers_are_complete_when_they_are() {
        let fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxxx";
        for len in 0..fixed.len() {
            assert_eq!(complete(&fixed[..len], 3), None, "{len}");
        }
        assert_eq!(complete(fixed, 3), Some(true));
        assert_eq!(complete(fixed, 4), Some(false));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n";
        assert_eq!(complete(&chunked[..chunked.len() - 1], 2), None);
        assert_eq!(complete(chunked, 2), Some(true));
        assert_eq!(complete(chunked, 3), Some(false));
        assert_eq!(complete(b"HTTP/1.1 404 No\r\n\r\n", 0), Some(false));
    }
}
