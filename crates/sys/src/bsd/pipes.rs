//! Linux's `splice(2)`, which does not exist here: bytes for files pass through memory.

use std::io;
use std::os::fd::BorrowedFd;

use crate::unsupported;

/// Linux's `F_SETPIPE_SZ`.
///
/// # Errors
/// `Unsupported`.
pub fn set_pipe_size(_: BorrowedFd<'_>, _: u32) -> io::Result<()> {
    Err(unsupported("F_SETPIPE_SZ"))
}

/// Linux's `splice(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn splice_in(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: usize) -> io::Result<usize> {
    Err(unsupported("splice"))
}

/// Linux's `splice(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn splice_out(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: u64, _: usize) -> io::Result<usize> {
    Err(unsupported("splice"))
}

/// Linux's `splice(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn splice_on(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: usize, _: bool) -> io::Result<usize> {
    Err(unsupported("splice"))
}
