//! `poll(2)`, once over many descriptors.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::epoll::Events;
use crate::ledger::syscall;

/// One descriptor that is asked about.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PollEntry<'fd> {
    entry: libc::pollfd,
    fd: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> PollEntry<'fd> {
    /// To ask whether `fd` can be read from, written to, or has ended.
    pub fn new(fd: BorrowedFd<'fd>) -> Self {
        let events = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
        let entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        Self { entry, fd: PhantomData }
    }

    /// To ask whether `fd` can be read from, or has ended.
    pub fn reading(fd: BorrowedFd<'fd>) -> Self {
        let entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        Self { entry, fd: PhantomData }
    }

    /// What it is ready for: the bits of `poll(2)` and `epoll(7)` are the same.
    pub fn events(&self) -> Events {
        Events::from_poll(self.entry.revents)
    }
}

impl fmt::Debug for PollEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PollEntry({}, {:?})", self.entry.fd, self.events())
    }
}

/// `poll(2)` without waiting: asks about all `entries`.
///
/// # Errors
/// As the manual page says; `EINVAL` if there are more than the process may have descriptors.
pub fn poll_now(entries: &mut [PollEntry<'_>]) -> io::Result<()> {
    poll_for(entries, 0)
}

/// `poll(2)`: waits until one of `entries` is ready, for at most `timeout` in whole milliseconds
/// (rounded up), or for as long as it takes.
///
/// # Errors
/// As the manual page says; `EINTR` after a signal.
pub fn poll(entries: &mut [PollEntry<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let millis = |time: Duration| {
        let whole = time.as_micros().div_ceil(1_000);
        libc::c_int::try_from(whole).unwrap_or(libc::c_int::MAX)
    };
    poll_for(entries, timeout.map_or(-1, millis))
}

fn poll_for(entries: &mut [PollEntry<'_>], timeout: libc::c_int) -> io::Result<()> {
    let len = libc::nfds_t::try_from(entries.len()).map_err(io::Error::other)?;
    // SAFETY: `PollEntry` is a pollfd, and there are `len` of them for the kernel to write to.
    let result = unsafe { libc::poll(entries.as_mut_ptr().cast(), len, timeout) };
    syscall!(poll, result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_pipe_is_writable_first_and_then_readable() {
        let (reader, writer) = crate::pipe().unwrap();
        let mut entries = [PollEntry::new(reader.as_fd()), PollEntry::new(writer.as_fd())];
        poll_now(&mut entries).unwrap();
        assert!(!entries[0].events().is_readable() && entries[1].events().is_writable());
        crate::write(writer.as_fd(), b"x").unwrap();
        poll_now(&mut entries).unwrap();
        assert!(entries[0].events().is_readable() && !entries[0].events().is_hangup());
    }
}
