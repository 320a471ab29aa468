//! Wakes another thread through a pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::file;
use crate::platform::own::pipe;

/// A descriptor that becomes readable when another thread wakes it.
#[derive(Debug)]
pub struct Wakeup {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Wakeup {
    /// Creates a pipe.
    ///
    /// # Errors
    /// See the manual page.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        Ok(Self { reader, writer })
    }

    /// `write(2)`: makes the descriptor readable.
    ///
    /// # Errors
    /// See the manual page.
    pub fn wake(&self) -> io::Result<()> {
        file::write(self.writer.as_fd(), b"w").map(drop)
    }

    /// `read(2)`: resets the descriptor, however many wake-ups there were.
    ///
    /// # Errors
    /// See the manual page; `EAGAIN` if there was no wake-up.
    pub fn drain(&self) -> io::Result<()> {
        let mut bytes = [0_u8; 64];
        file::read(self.reader.as_fd(), &mut bytes).map(drop)
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
