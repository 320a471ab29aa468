//! One place that lines go to.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fulmar_haproxy::model::LogAddress;
use fulmar_sys as sys;

/// One place that lines go to, for all threads.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) address: LogAddress,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// A datagram a line.
    Socket(OwnedFd),
    /// Whatever it is, a write a line; a pipe takes a line of up to 4 KB as one piece.
    File(OwnedFd),
}

impl Outlet {
    /// Makes the socket, and connects it if anybody is there: then a line is one call, without an
    /// address to be looked up.
    pub(super) fn open(address: LogAddress) -> io::Result<Self> {
        let sink = match &address {
            LogAddress::Udp(peer) => Sink::Socket(sys::udp_socket(*peer)?),
            LogAddress::Unix(_) => Sink::Socket(sys::unix_datagram_socket()?),
            LogAddress::Descriptor(number) => Sink::File(sys::duplicate(*number)?),
        };
        let outlet = Self { address, sink };
        let _ = outlet.connect(); // tried again for each line, as long as nobody is there
        Ok(outlet)
    }

    fn connect(&self) -> io::Result<()> {
        let Sink::Socket(socket) = &self.sink else { return Ok(()) };
        match &self.address {
            LogAddress::Udp(peer) => sys::connect(socket.as_fd(), *peer).map(drop),
            LogAddress::Unix(path) => sys::connect_unix(socket.as_fd(), path).map(drop),
            LogAddress::Descriptor(_) => Ok(()),
        }
    }

    /// False if the line is lost.
    pub(super) fn send(&self, line: &[u8]) -> bool {
        match &self.sink {
            Sink::Socket(socket) => match sys::send(socket.as_fd(), line, false) {
                Ok(_) => true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                // Nobody was there, or is not any more: a new reader has a new socket. And what
                // UDP tells here is what became of an earlier line.
                Err(_) => self.connect().is_ok() && sys::send(socket.as_fd(), line, false).is_ok(),
            },
            Sink::File(file) => sys::write(file.as_fd(), line).is_ok(),
        }
    }
}
