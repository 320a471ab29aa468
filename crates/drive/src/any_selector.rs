//! The selector that a driver names, chosen at run time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use crate::epoll::Epoll;
use crate::poll::Poll;
use crate::selector::{Interest, Ready, Selector, ShortRead, Tag, Until, Waiter};

/// A selector that waits itself: the one that a [`crate::Driver`] names.
#[derive(Debug)]
pub enum AnySelector {
    /// epoll, edge-triggered or level-triggered.
    Epoll(Epoll),
    /// `poll(2)`.
    Poll(Poll),
}

impl AnySelector {
    /// The epoll instance; `None` with `poll(2)`.
    pub fn epoll_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Epoll(epoll) => Some(epoll.as_fd()),
            Self::Poll(_) => None,
        }
    }

    /// The descriptors that `poll(2)` waits for; `None` with epoll, whose list is in the kernel.
    pub fn descriptors(&self) -> Option<Vec<RawFd>> {
        match self {
            Self::Epoll(_) => None,
            Self::Poll(poll) => Some(poll.descriptors().collect()),
        }
    }
}

impl Selector for AnySelector {
    const EXTERNAL: bool = false;

    fn name(&self) -> &'static str {
        match self {
            Self::Epoll(epoll) => epoll.name(),
            Self::Poll(poll) => poll.name(),
        }
    }

    fn watches_all(&self) -> bool {
        match self {
            Self::Epoll(epoll) => epoll.watches_all(),
            Self::Poll(poll) => poll.watches_all(),
        }
    }

    fn watching_costs(&self) -> bool {
        match self {
            Self::Epoll(epoll) => epoll.watching_costs(),
            Self::Poll(poll) => poll.watching_costs(),
        }
    }

    fn trusts_short_reads(&self) -> bool {
        true // both do
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.watch(fd, tag, interest),
            Self::Poll(poll) => poll.watch(fd, tag, interest),
        }
    }

    fn set_interest(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.set_interest(fd, tag, interest),
            Self::Poll(poll) => poll.set_interest(fd, tag, interest),
        }
    }

    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.rearm(fd, tag, interest),
            Self::Poll(poll) => poll.rearm(fd, tag, interest),
        }
    }

    fn retire(&mut self, fd: OwnedFd) {
        match self {
            Self::Epoll(epoll) => epoll.retire(fd),
            Self::Poll(poll) => poll.retire(fd),
        }
    }

    fn retire_shared(&mut self, fd: OwnedFd) {
        match self {
            Self::Epoll(epoll) => epoll.retire_shared(fd),
            Self::Poll(poll) => poll.retire_shared(fd),
        }
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        match self {
            Self::Epoll(epoll) => epoll.set_deadline(deadline),
            Self::Poll(poll) => poll.set_deadline(deadline),
        }
    }
}

impl Waiter for AnySelector {
    fn wait(&mut self, now: Instant, until: Until) -> io::Result<usize> {
        match self {
            Self::Epoll(epoll) => epoll.wait(now, until),
            Self::Poll(poll) => poll.wait(now, until),
        }
    }

    #[inline]
    fn event(&self, at: usize) -> (Tag, Ready) {
        match self {
            Self::Epoll(epoll) => epoll.event(at),
            Self::Poll(poll) => poll.event(at),
        }
    }

    #[inline]
    fn short_read(&self, at: usize) -> ShortRead {
        match self {
            Self::Epoll(epoll) => epoll.short_read(at),
            Self::Poll(poll) => poll.short_read(at),
        }
    }
}
