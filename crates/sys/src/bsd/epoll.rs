//! Linux's `epoll(7)`, which does not exist here; `poll(2)` replaces it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::events::Events;
use crate::unsupported;

/// An event of `epoll_wait`; never created here.
#[derive(Clone, Copy, Debug)]
pub struct EpollEvent;

impl EpollEvent {
    /// No event.
    pub const EMPTY: Self = Self;

    /// The tag given at registration.
    pub fn tag(&self) -> u64 {
        0
    }

    /// The readiness.
    pub fn events(&self) -> Events {
        Events::NONE
    }
}

/// `epoll_create1(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_create() -> io::Result<OwnedFd> {
    Err(unsupported("epoll"))
}

/// `epoll_ctl(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_add(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: Events, _: u64) -> io::Result<()> {
    Err(unsupported("epoll"))
}

/// `epoll_ctl(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_modify(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: Events, _: u64) -> io::Result<()> {
    Err(unsupported("epoll"))
}

/// `epoll_ctl(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_delete(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("epoll"))
}

/// `epoll_wait(2)` with a timeout of 0.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_look(_: BorrowedFd<'_>, _: &mut [EpollEvent]) -> io::Result<usize> {
    Err(unsupported("epoll"))
}

/// `epoll_pwait2(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_pwait2(_: BorrowedFd<'_>, _: &mut [EpollEvent], _: Duration) -> io::Result<usize> {
    Err(unsupported("epoll"))
}

/// `epoll_wait(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn epoll_wait(
    _: BorrowedFd<'_>,
    _: &mut [EpollEvent],
    _: Option<Duration>,
) -> io::Result<usize> {
    Err(unsupported("epoll"))
}
