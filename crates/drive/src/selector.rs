//! Who waits for descriptors: our epoll, or the application's own loop.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use fulmar_engine::{ListenerId, SocketId};

/// What a watched descriptor is to the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A connection.
    Socket(SocketId),
    /// A listening socket.
    Listener(ListenerId),
    /// What other threads wake us with.
    Waker,
    /// A resolver's socket, by a number that is never given again.
    Foreign(u32),
}

/// Readiness that is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, a connection, or the peer's end.
    pub read: bool,
    /// Room to send, or that a connection stands.
    pub write: bool,
}

/// Readiness that was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to read.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
    /// The peer has closed its side or the socket failed: a short read is not the end of what
    /// there is to read.
    pub hangup: bool,
    /// Both directions are gone (`POLLHUP`, `POLLERR`).
    pub failed: bool,
}

/// Who waits for descriptors.
pub trait Selector {
    /// What drove the loop, for reports.
    fn name(&self) -> &'static str;

    /// A descriptor is new, and wanted for longer than this turn.
    ///
    /// # Errors
    /// The kernel can watch no more descriptors.
    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// What is waited for has changed.
    ///
    /// # Errors
    /// As the kernel says.
    fn set_interest(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()>;

    /// A descriptor is done with. The selector closes it, once nobody waits for it any more.
    fn retire(&mut self, fd: OwnedFd);

    /// The next moment `handle_timeout` is due. Called when it moves earlier, is gone, or the one
    /// told last has passed; a later one is no news.
    fn set_deadline(&mut self, deadline: Option<Instant>);
}
