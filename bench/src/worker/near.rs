//! The other ends of transfers, in the process that is measured.
//!
//! The same thread sends exactly the bytes of an event just before it, so no time is spent waiting
//! for another process. The calls made here are not in the ledger, except for
//! [`NearEnds::packets_in`], and are not timed.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use fulmar_sys as sys;

/// A listener and its connections.
#[derive(Debug)]
pub(crate) struct NearEnds {
    listener: TcpListener,
    silent: Vec<TcpStream>, // without a request yet
    ends: Vec<TcpStream>,
}

impl NearEnds {
    /// On a free port of loopback.
    pub(crate) fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, silent: Vec::new(), ends: Vec::new() })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The number of started responses.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Accepts connections, and starts the responses to their requests.
    pub(crate) fn respond_all(&mut self) -> io::Result<()> {
        self.accept_all()?;
        for mut end in std::mem::take(&mut self.silent) {
            // The request has to arrive before the response is sent: otherwise the kernel treats
            // the client as interactive and delays acknowledgements, which makes events cheaper.
            // Unread requests would turn a close into a reset (`tcp(7)`).
            match end.read(&mut [0; REQUEST_SIZE_MAX]) {
                Ok(_) => {
                    end.set_nonblocking(false)?;
                    end.write_all(HEAD)?;
                    self.ends.push(end);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.silent.push(end),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn accept_all(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((end, _)) => {
                    end.set_nonblocking(true)?;
                    end.set_nodelay(true)?;
                    self.silent.push(end);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the bytes on each connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ends.iter_mut().try_for_each(|end| end.write_all(bytes))
    }

    /// Received packets: requests and acknowledgements.
    pub(crate) fn packets_in(&self) -> io::Result<u64> {
        let of_each = self.ends.iter().map(|end| sys::tcp_info(end.as_fd()));
        of_each.map(|info| info.map(|it| u64::from(it.packets_in))).sum()
    }

    /// Ends responses until this many are left.
    pub(crate) fn shrink(&mut self, left: usize) {
        self.ends.truncate(left);
    }
}

/// The body ends with the connection.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
/// More than the size of a request.
const REQUEST_SIZE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_starts_only_after_its_request() {
        let mut ends = NearEnds::listen().unwrap();
        let mut peer = TcpStream::connect(ends.address().unwrap()).unwrap();
        peer.set_nonblocking(true).unwrap();
        while ends.silent.is_empty() {
            ends.respond_all().unwrap();
        }
        let early = peer.read(&mut [0; 1]).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        peer.set_nonblocking(false).unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        while ends.len() == 0 {
            ends.respond_all().unwrap();
        }
        ends.send(b"x").unwrap();
        ends.shrink(0);
        let mut response = Vec::new();
        peer.read_to_end(&mut response).unwrap();
        assert_eq!(response, [HEAD, b"x"].concat());
    }
}
