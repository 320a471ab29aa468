//! `poll(2)`: for an array of descriptors, or for a set that is waited on repeatedly.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use crate::events::Events;
use crate::ledger::syscall;

/// A descriptor for [`poll`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PollEntry<'fd> {
    entry: libc::pollfd,
    fd: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> PollEntry<'fd> {
    /// Waits until `fd` is readable, writable, or closed by the peer.
    pub fn new(fd: BorrowedFd<'fd>) -> Self {
        let wanted = Events::READABLE | Events::WRITABLE | Events::HANGUP;
        Self { entry: entry(fd.as_raw_fd(), wanted), fd: PhantomData }
    }

    /// Waits until `fd` is readable, or closed by the peer.
    pub fn reading(fd: BorrowedFd<'fd>) -> Self {
        let wanted = Events::READABLE | Events::HANGUP;
        Self { entry: entry(fd.as_raw_fd(), wanted), fd: PhantomData }
    }

    /// The readiness.
    pub fn events(&self) -> Events {
        reported(&self.entry)
    }
}

impl fmt::Debug for PollEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PollEntry({}, {:?})", self.entry.fd, self.events())
    }
}

/// `poll(2)` with a timeout of 0.
///
/// # Errors
/// See the manual page; `EINVAL` if there are more entries than the limit of open descriptors.
pub fn poll_now(entries: &mut [PollEntry<'_>]) -> io::Result<()> {
    poll_for(entries, 0)
}

/// `poll(2)`: waits until one of `entries` is ready, for at most `timeout` (rounded up to
/// milliseconds), or indefinitely without one.
///
/// # Errors
/// See the manual page; `EINTR` after a signal.
pub fn poll(entries: &mut [PollEntry<'_>], timeout: Option<Duration>) -> io::Result<()> {
    poll_for(entries, timeout.map_or(-1, millis))
}

fn poll_for(entries: &mut [PollEntry<'_>], timeout: libc::c_int) -> io::Result<()> {
    let len = libc::nfds_t::try_from(entries.len()).map_err(io::Error::other)?;
    // SAFETY: `PollEntry` is a pollfd, and there are `len` of them for the kernel to write to.
    let result = unsafe { libc::poll(entries.as_mut_ptr().cast(), len, timeout) };
    syscall!(poll, result).map(drop)
}

/// A set of descriptors, identified by their position. A descriptor must be removed before it is
/// closed, because its number can be reused.
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// The number of descriptors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends a descriptor.
    pub fn push(&mut self, fd: BorrowedFd<'_>, wanted: Events) {
        self.entries.push(entry(fd.as_raw_fd(), wanted));
    }

    /// Changes the events of a descriptor. Errors and hang-ups are always reported.
    pub fn set(&mut self, at: usize, wanted: Events) {
        self.entries[at].events = bits(wanted);
        self.entries[at].fd = self.descriptor(at);
    }

    /// Waits for no event, not even errors, until [`set`](Self::set) is called.
    pub fn mute(&mut self, at: usize) {
        self.entries[at].fd = !self.descriptor(at); // negative numbers are ignored by poll(2)
    }

    /// Removes a descriptor; the last one moves to its position.
    pub fn swap_remove(&mut self, at: usize) {
        self.entries.swap_remove(at);
    }

    /// The descriptor at a position.
    pub fn descriptor(&self, at: usize) -> RawFd {
        match self.entries[at].fd {
            muted @ ..0 => !muted,
            fd => fd,
        }
    }

    /// The events that the last wait reported for a position.
    pub fn events(&self, at: usize) -> Events {
        reported(&self.entries[at])
    }

    /// `poll(2)`: returns the number of ready descriptors. Without `timeout` it waits indefinitely;
    /// a timeout is rounded up to milliseconds.
    ///
    /// # Errors
    /// See the manual page; `EINTR` after a signal.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let len = libc::nfds_t::try_from(self.entries.len()).map_err(io::Error::other)?;
        let ms = timeout.map_or(-1, millis);
        // SAFETY: there are `len` live entries for the kernel to read and to write to.
        let n = syscall!(poll, unsafe { libc::poll(self.entries.as_mut_ptr(), len, ms) })?;
        Ok(n.unsigned_abs() as usize)
    }
}

impl fmt::Debug for PollSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PollSet({} descriptors)", self.len())
    }
}

fn entry(fd: RawFd, wanted: Events) -> libc::pollfd {
    libc::pollfd { fd, events: bits(wanted), revents: 0 }
}

#[expect(clippy::cast_possible_truncation, reason = "the bits of poll(2) are a short")]
fn bits(wanted: Events) -> libc::c_short {
    wanted.bits() as libc::c_short
}

fn reported(entry: &libc::pollfd) -> Events {
    Events::from_bits(u32::from(entry.revents.cast_unsigned()))
}

/// Rounded up: after an early return the caller would only wait again.
pub(crate) fn millis(timeout: Duration) -> libc::c_int {
    let millis = timeout.as_secs().saturating_mul(1_000);
    let rest = timeout.subsec_nanos().div_ceil(1_000_000);
    libc::c_int::try_from(millis.saturating_add(rest.into())).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_set_reports_the_requested_events() {
        let (reader, writer) = crate::pipe().unwrap();
        let mut set = PollSet::default();
        set.push(reader.as_fd(), Events::READABLE);
        set.push(writer.as_fd(), Events::NONE);
        assert_eq!(set.wait(Some(Duration::ZERO)).unwrap(), 0);
        set.set(1, Events::WRITABLE);
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(set.events(1).is_writable() && set.events(0).is_empty());
        crate::write(writer.as_fd(), b"x").unwrap();
        set.swap_remove(0); // the last one moves to position 0
        assert_eq!((set.len(), set.descriptor(0)), (1, writer.as_raw_fd()));
        drop(reader);
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(set.events(0).is_dead(), "always reported");
    }

    #[test]
    fn a_wait_lasts_at_least_its_timeout() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(20_001)), 21);
        assert_eq!(millis(Duration::MAX), libc::c_int::MAX);
    }

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

    #[test]
    fn room_to_send_is_not_readable() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut entries = [PollEntry::reading(near.as_fd())];
        poll_now(&mut entries).unwrap();
        assert!(entries[0].events().is_empty());
        drop(far);
        poll_now(&mut entries).unwrap();
        assert!(entries[0].events().is_readable() && entries[0].events().is_hangup());
    }
}
