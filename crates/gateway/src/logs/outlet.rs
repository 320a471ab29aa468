//! One log output.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fulmar_haproxy::model::LogAddress;
use fulmar_sys as sys;

use super::stream::{LogStream, LostLines};

/// One log output, shared by all threads.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) address: LogAddress,
    sink: OutletKind,
}

#[derive(Debug)]
enum OutletKind {
    /// One datagram per line.
    Socket(OwnedFd),
    /// A descriptor of any kind: the lines of a turn are buffered, and written with one call.
    LogStream(LogStream),
}

impl Outlet {
    /// Creates the socket, and connects it if there is a receiver: a line is then one call without
    /// an address.
    pub(super) fn open(address: LogAddress) -> io::Result<Self> {
        let sink = match &address {
            LogAddress::Udp(peer) => OutletKind::Socket(sys::udp_socket(*peer)?),
            LogAddress::Unix(_) => OutletKind::Socket(sys::unix_datagram_socket()?),
            LogAddress::Descriptor(number) => {
                OutletKind::LogStream(LogStream::new(sys::duplicate(*number)?.into()))
            }
        };
        let outlet = Self { address, sink };
        let _ = outlet.connect(); // retried for each line while there is no receiver
        Ok(outlet)
    }

    fn connect(&self) -> io::Result<()> {
        let OutletKind::Socket(socket) = &self.sink else { return Ok(()) };
        match &self.address {
            LogAddress::Udp(peer) => sys::connect(socket.as_fd(), *peer).map(drop),
            LogAddress::Unix(path) => sys::connect_unix(socket.as_fd(), path).map(drop),
            LogAddress::Descriptor(_) => Ok(()),
        }
    }

    /// Sends a line, or buffers it until [`Outlet::flush`].
    pub(super) fn send(&self, line: &[u8]) -> LostLines {
        match &self.sink {
            OutletKind::Socket(socket) => match sys::send(socket.as_fd(), line, false) {
                Ok(_) => 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 1,
                // The receiver is missing or was replaced: connect again. On UDP, the error belongs
                // to an earlier line.
                Err(_) => {
                    let sent = self.connect().and_then(|()| sys::send(socket.as_fd(), line, false));
                    LostLines::from(sent.is_err())
                }
            },
            OutletKind::LogStream(stream) => stream.push(line),
        }
    }

    /// Writes buffered lines.
    pub(super) fn flush(&self) -> LostLines {
        match &self.sink {
            OutletKind::Socket(_) => 0,
            OutletKind::LogStream(stream) => stream.flush(),
        }
    }
}
