//! One place that lines go to.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fulmar_haproxy::model::LogAddress;
use fulmar_sys as sys;

use super::stream::{Lost, Stream};

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
    /// Whatever it is: lines wait for the end of a thread's turn, and go with one call.
    Stream(Stream),
}

impl Outlet {
    /// Makes the socket, and connects it if anybody is there: then a line is one call, without an
    /// address to be looked up.
    pub(super) fn open(address: LogAddress) -> io::Result<Self> {
        let sink = match &address {
            LogAddress::Udp(peer) => Sink::Socket(sys::udp_socket(*peer)?),
            LogAddress::Unix(_) => Sink::Socket(sys::unix_datagram_socket()?),
            LogAddress::Descriptor(number) => {
                Sink::Stream(Stream::new(sys::duplicate(*number)?.into()))
            }
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

    /// Sends a line, or keeps it until [`Outlet::flush`].
    pub(super) fn send(&self, line: &[u8]) -> Lost {
        match &self.sink {
            Sink::Socket(socket) => match sys::send(socket.as_fd(), line, false) {
                Ok(_) => 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 1,
                // Nobody was there, or is not any more: a new reader has a new socket. And what
                // UDP tells here is what became of an earlier line.
                Err(_) => {
                    let sent = self.connect().and_then(|()| sys::send(socket.as_fd(), line, false));
                    Lost::from(sent.is_err())
                }
            },
            Sink::Stream(stream) => stream.push(line),
        }
    }

    /// Writes what waits.
    pub(super) fn flush(&self) -> Lost {
        match &self.sink {
            Sink::Socket(_) => 0,
            Sink::Stream(stream) => stream.flush(),
        }
    }
}
