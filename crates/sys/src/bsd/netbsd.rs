//! NetBSD 9 and later.

use std::io;
use std::os::fd::BorrowedFd;

use crate::process::CpuTimes;
use crate::unsupported;

pub use crate::opened::pipe;
pub(crate) use crate::opened::{accept_into, socket_of};

/// `SO_NOSIGPIPE`.
///
/// # Errors
/// `Unsupported`: each send sets `MSG_NOSIGNAL` instead.
pub fn set_no_signal(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("SO_NOSIGPIPE, for which there is MSG_NOSIGNAL"))
}

/// Linux's `sendfile(2)`.
///
/// # Errors
/// `Unsupported`: a file is read and written.
pub fn send_file(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: u64, _: u64) -> io::Result<usize> {
    Err(unsupported("sendfile"))
}

/// FreeBSD's `sendfile(2)`.
///
/// # Errors
/// `Unsupported`: a file is read and written.
pub fn send_file_with_head<'a>(
    _: BorrowedFd<'_>,
    _: impl Iterator<Item = &'a [u8]>,
    _: BorrowedFd<'_>,
    _: u64,
    _: u64,
) -> io::Result<usize> {
    Err(unsupported("sendfile"))
}

/// Linux's `RUSAGE_THREAD`.
///
/// # Errors
/// `Unsupported`.
pub fn thread_cpu() -> io::Result<CpuTimes> {
    Err(unsupported("RUSAGE_THREAD"))
}

/// Nanoseconds of the time of the last modification.
pub(crate) fn modified_nanos(stat: &libc::stat) -> i64 {
    stat.st_mtimensec
}

pub(crate) fn device(stat: &libc::stat) -> u64 {
    stat.st_dev
}

/// A flag of `recvmsg(2)`: received descriptors are closed on `execve(2)`.
pub(crate) const RECEIVE_CLOSED_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
/// A flag of `send(2)`: no `SIGPIPE`.
pub(crate) const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// `poll(2)` does not report that the peer has shut down its side; a read does.
pub(crate) const RDHUP: libc::c_short = 0;
/// Several listeners share a port.
pub(crate) const REUSE_PORT: libc::c_int = libc::SO_REUSEPORT;
/// Idle seconds before the first probe.
pub(crate) const KEEP_IDLE: libc::c_int = libc::TCP_KEEPIDLE;
/// No limit besides the hard limit.
pub(super) const DESCRIPTORS_MAX: Option<libc::rlim_t> = None;
