//! Outgoing sockets that the application opens, and sockets that it closes.
//!
//! Nothing of the application runs within a turn. The reactor keeps the connects of a turn until
//! the application polls them, and the descriptors of closed sockets until it takes them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fulmar_engine::{Endpoint, Engine, SocketEvent, SocketId};
use fulmar_sys::{self as sys, Connect};

use crate::connect::{new_socket, set_options, start};
use crate::external_loop::ExternalLoop;
use crate::reactor::Reactor;

/// The application's part of a connect.
#[derive(Debug)]
pub enum OutgoingSocket {
    /// A socket to be connected. It may block; it will not any more.
    Unconnected(OwnedFd),
    /// A socket that is connected already.
    Connected(OwnedFd),
}

impl OutgoingSocket {
    /// A new socket with the options of an endpoint, not connected.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(endpoint: &Endpoint) -> io::Result<OwnedFd> {
        let fd = new_socket(endpoint)?;
        set_options(fd.as_fd(), endpoint)?;
        Ok(fd)
    }

    /// Sets the options of an endpoint on a socket of the application. It may be of a kind that
    /// has none of them: failures are ignored.
    pub fn prepare(fd: BorrowedFd<'_>, endpoint: &Endpoint) {
        let _: io::Result<()> = set_options(fd, endpoint);
    }
}

impl<E: Engine> Reactor<E, ExternalLoop> {
    /// From now on the application opens outgoing sockets ([`Reactor::poll_connect`]) and closes
    /// the descriptors of sockets ([`Reactor::poll_closed`]).
    pub fn hand_over_sockets(&mut self) {
        self.handed_connects.get_or_insert_default();
        self.selector.keep_closed();
    }

    /// A socket that the engine has requested. The application calls [`Reactor::connect_with`] or
    /// [`Reactor::fail_connect`] for it, before anything else.
    pub fn poll_connect(&mut self) -> Option<(SocketId, Endpoint)> {
        self.handed_connects.as_mut()?.pop_front()
    }

    /// Connects a socket that was polled to an endpoint, which need not be the requested one.
    pub fn connect_with(&mut self, id: SocketId, endpoint: &Endpoint, socket: OutgoingSocket) {
        let now = sys::now();
        let (fd, started) = match socket {
            OutgoingSocket::Connected(fd) => {
                let ready = sys::set_nonblocking(fd.as_fd()).map(|()| Connect::Done);
                (fd, ready)
            }
            OutgoingSocket::Unconnected(fd) => {
                let ready = sys::set_nonblocking(fd.as_fd());
                let started = ready.and_then(|()| start(fd.as_fd(), endpoint));
                (fd, started)
            }
        };
        match started {
            Ok(connect) => self.admit_opened(now, id, Ok((fd, connect)), endpoint),
            Err(error) => {
                self.selector.retire_unwatched(fd);
                self.admit_opened(now, id, Err(error), endpoint);
            }
        }
        self.leave(now);
    }

    /// A socket that was polled cannot be opened.
    pub fn fail_connect(&mut self, id: SocketId, error: io::Error) {
        let now = sys::now();
        self.report(now, id, SocketEvent::Failed(error));
        self.leave(now);
    }

    /// A descriptor to close, of a socket that no loop waits for any more. Poll after all changes.
    pub fn poll_closed(&mut self) -> Option<OwnedFd> {
        self.selector.poll_closed()
    }
}
