//! `poll(2)`: once over many descriptors, or over a set of them again and again.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use crate::events::Events;
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
        let wanted = Events::READABLE | Events::WRITABLE | Events::HANGUP;
        Self { entry: entry(fd.as_raw_fd(), wanted), fd: PhantomData }
    }

    /// To ask whether `fd` can be read from, or has ended.
    pub fn reading(fd: BorrowedFd<'fd>) -> Self {
        Self { entry: entry(fd.as_raw_fd(), Events::READABLE), fd: PhantomData }
    }

    /// What it is ready for.
    pub fn events(&self) -> Events {
        reported(&self.entry)
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
    poll_for(entries, timeout.map_or(-1, millis))
}

fn poll_for(entries: &mut [PollEntry<'_>], timeout: libc::c_int) -> io::Result<()> {
    let len = libc::nfds_t::try_from(entries.len()).map_err(io::Error::other)?;
    // SAFETY: `PollEntry` is a pollfd, and there are `len` of them for the kernel to write to.
    let result = unsafe { libc::poll(entries.as_mut_ptr().cast(), len, timeout) };
    syscall!(poll, result).map(drop)
}

/// Descriptors that are waited for, by their places in a list. Who adds one removes it before it
/// is closed: its number may mean something else afterwards.
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a descriptor in the last place.
    pub fn push(&mut self, fd: BorrowedFd<'_>, wanted: Events) {
        self.entries.push(entry(fd.as_raw_fd(), wanted));
    }

    /// Waits for something else from now on. Errors, and the end of both sides, are told even if
    /// nothing is wanted.
    pub fn set(&mut self, at: usize, wanted: Events) {
        self.entries[at].events = bits(wanted);
        self.entries[at].fd = self.descriptor(at);
    }

    /// Waits for nothing, not even for errors, until something is [`set`](Self::set) again.
    pub fn mute(&mut self, at: usize) {
        self.entries[at].fd = !self.descriptor(at); // which poll(2) ignores
    }

    /// Removes the descriptor at a place, which the last one takes.
    pub fn swap_remove(&mut self, at: usize) {
        self.entries.swap_remove(at);
    }

    /// The descriptor at a place.
    pub fn descriptor(&self, at: usize) -> RawFd {
        match self.entries[at].fd {
            muted @ ..0 => !muted,
            fd => fd,
        }
    }

    /// What the last wait reported of a place.
    pub fn events(&self, at: usize) -> Events {
        reported(&self.entries[at])
    }

    /// `poll(2)`: how many descriptors are ready. Without `timeout` it waits for as long as it
    /// takes; a timeout is rounded up to milliseconds.
    ///
    /// # Errors
    /// As the manual page says; `EINTR` after a signal.
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

#[expect(clippy::cast_possible_truncation, reason = "bits of poll(2) are a short's")]
fn bits(wanted: Events) -> libc::c_short {
    wanted.bits() as libc::c_short
}

fn reported(entry: &libc::pollfd) -> Events {
    Events::from_bits(u32::from(entry.revents.cast_unsigned()))
}

/// Rounded up: waking a millisecond early would only mean another wait.
pub(crate) fn millis(timeout: Duration) -> libc::c_int {
    let millis = timeout.as_secs().saturating_mul(1_000);
    let rest = timeout.subsec_nanos().div_ceil(1_000_000);
    libc::c_int::try_from(millis.saturating_add(rest.into())).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_set_tells_what_is_wanted_of_it() {
        let (reader, writer) = crate::pipe().unwrap();
        let mut set = PollSet::default();
        set.push(reader.as_fd(), Events::READABLE);
        set.push(writer.as_fd(), Events::NONE);
        assert_eq!(set.wait(Some(Duration::ZERO)).unwrap(), 0);
        set.set(1, Events::WRITABLE);
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(set.events(1).is_writable() && set.events(0).is_empty());
        crate::write(writer.as_fd(), b"x").unwrap();
        set.swap_remove(0); // the last takes its place
        assert_eq!((set.len(), set.descriptor(0)), (1, writer.as_raw_fd()));
        drop(reader);
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(set.events(0).is_dead(), "told even if nobody asks");
    }

    #[test]
    fn a_wait_is_not_shorter_than_its_timeout() {
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
}
