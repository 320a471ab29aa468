//! Files that have no name until they are complete, of which there are none: who makes one knows
//! another way for file systems that lack them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::ledger::syscall;
use crate::unsupported;

/// Linux's `O_TMPFILE`.
///
/// # Errors
/// `EOPNOTSUPP`, as where a file system cannot do this.
pub fn create_unnamed(_: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// A name for a file of [`create_unnamed`].
///
/// # Errors
/// `Unsupported`: there is no such file.
pub fn link_unnamed(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: &CStr) -> io::Result<()> {
    Err(unsupported("naming a file without a name"))
}

/// `renameat(2)`, within `dir`: what is there is replaced, at once.
///
/// # Errors
/// `EISDIR` when the new name is that of a directory; otherwise as the manual page says.
pub fn rename(dir: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let fd = dir.as_raw_fd();
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) };
    syscall!(renameat, result).map(drop)
}
