//! One place that lines go to.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

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
    /// Whatever it is: lines wait for the end of a thread's turn, and go with one call.
    File(OwnedFd, Mutex<Vec<u8>>),
}

/// How many lines were lost.
pub(super) type Lost = u64;

impl Outlet {
    /// Makes the socket, and connects it if anybody is there: then a line is one call, without an
    /// address to be looked up.
    pub(super) fn open(address: LogAddress) -> io::Result<Self> {
        let sink = match &address {
            LogAddress::Udp(peer) => Sink::Socket(sys::udp_socket(*peer)?),
            LogAddress::Unix(_) => Sink::Socket(sys::unix_datagram_socket()?),
            LogAddress::Descriptor(number) => {
                Sink::File(sys::duplicate(*number)?, Mutex::default())
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
            Sink::File(file, waiting) => {
                let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.extend_from_slice(line);
                if waiting.len() < WAITING_SIZE_MAX { 0 } else { write(file, &mut waiting) }
            }
        }
    }

    /// Writes what waits.
    pub(super) fn flush(&self) -> Lost {
        let Sink::File(file, waiting) = &self.sink else { return 0 };
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        write(file, &mut waiting)
    }
}

/// All of it, as far as it is taken: what is left is lost.
fn write(file: &OwnedFd, waiting: &mut Vec<u8>) -> Lost {
    let mut rest = &waiting[..];
    while !rest.is_empty() {
        match sys::write(file.as_fd(), rest) {
            Ok(0) => break,
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let lost = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
    waiting.clear();
    lost
}

/// What a turn writes is far less; more goes in several calls.
const WAITING_SIZE_MAX: usize = 64 * 1024;
