//! The other ends of transfers, held by the process that is measured.
//!
//! What arrives is then exactly what was sent just before, by the same thread: an event carries as
//! many bytes as it should, and nobody waits for another process. The calls made here are in no
//! ledger, and nothing of it is timed.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// A listener, and what it accepted.
#[derive(Debug)]
pub(crate) struct NearEnds {
    listener: TcpListener,
    ends: Vec<TcpStream>,
}

impl NearEnds {
    /// On a free port of loopback.
    pub(crate) fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, ends: Vec::new() })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Takes those that have connected, and begins their answers.
    pub(crate) fn accept_all(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((mut end, _)) => {
                    end.set_nonblocking(false)?;
                    end.set_nodelay(true)?;
                    end.write_all(HEAD)?;
                    self.ends.push(end);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// As many bytes to each of them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ends.iter_mut().try_for_each(|end| end.write_all(bytes))
    }

    /// Ends answers, until so many are left. A request that was not read would make the end a
    /// reset (`tcp(7)`).
    pub(crate) fn shrink(&mut self, left: usize) -> io::Result<()> {
        while self.ends.len() > left
            && let Some(mut end) = self.ends.pop()
        {
            let _ = end.read(&mut [0; 1024])?;
        }
        Ok(())
    }
}

/// The body ends with the connection.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
