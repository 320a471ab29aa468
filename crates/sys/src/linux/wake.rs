//! Wakes another thread through `eventfd(2)`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::file;
use crate::ledger::syscall;

/// A descriptor that becomes readable when another thread wakes it.
#[derive(Debug)]
pub struct Wakeup(OwnedFd);

impl Wakeup {
    /// Creates an `eventfd(2)`.
    ///
    /// # Errors
    /// See the manual page.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd(2) takes no pointers.
        let result = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let fd = syscall!(eventfd2, result)?;
        // SAFETY: the call returned a new descriptor without another owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// `write(2)`: makes the descriptor readable.
    ///
    /// # Errors
    /// See the manual page.
    pub fn wake(&self) -> io::Result<()> {
        file::write(self.0.as_fd(), &1_u64.to_ne_bytes()).map(drop)
    }

    /// `read(2)`: resets the descriptor.
    ///
    /// # Errors
    /// See the manual page; `EAGAIN` if there was no wake-up.
    pub fn drain(&self) -> io::Result<()> {
        let mut count = [0_u8; 8];
        file::read(self.0.as_fd(), &mut count).map(drop)
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
