//! Files. Calls that only Linux has fail like on an old Linux, for which callers have fallbacks.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::unsupported;

/// Linux's `openat2(2)`.
///
/// # Errors
/// `ENOSYS`: walk with [`crate::open_step`].
pub fn open_beneath(_: BorrowedFd<'_>, _: &CStr) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Linux's `renameat2(2)`.
///
/// # Errors
/// `EINVAL`: use [`crate::link`] and [`crate::unlink_at`].
pub fn rename_new(_: BorrowedFd<'_>, _: &CStr, _: &CStr) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// Linux's `syncfs(2)`.
///
/// # Errors
/// `Unsupported`: use [`crate::fsync`].
pub fn sync_file_system(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("syncfs"))
}

/// Linux's `getdents64(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn read_dir(_: BorrowedFd<'_>, _: &mut Vec<CString>) -> io::Result<bool> {
    Err(unsupported("getdents64"))
}
