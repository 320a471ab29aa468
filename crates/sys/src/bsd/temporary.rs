//! Files without a name, which do not exist here. Callers have a fallback, because some file
//! systems of Linux lack them too.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::ledger::syscall;
use crate::unsupported;

/// Linux's `O_TMPFILE`.
///
/// # Errors
/// `EOPNOTSUPP`, as on a file system without support.
pub fn create_unnamed(_: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// Names a file of [`create_unnamed`].
///
/// # Errors
/// `Unsupported`: such files do not exist here.
pub fn link_unnamed(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: &CStr) -> io::Result<()> {
    Err(unsupported("linkat of an unnamed file"))
}

/// `renameat(2)`, within `dir`: atomically replaces an existing file.
///
/// # Errors
/// `EISDIR` if the new name is a directory; otherwise see the manual page.
pub fn rename(dir: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let fd = dir.as_raw_fd();
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) };
    syscall!(renameat, result).map(drop)
}
