//! NetBSD 9 and later.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ledger::syscall;
use crate::process::CpuTimes;
use crate::socket::STORAGE_LEN;
use crate::unsupported;

/// `socket(2)`: a non-blocking socket of this family and kind.
pub(crate) fn socket_of(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) takes no pointers.
    let fd = syscall!(socket, unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `accept4(2)`; the peer's address goes into `storage`.
pub(crate) fn accept_into(
    listener: BorrowedFd<'_>,
    storage: &mut libc::sockaddr_storage,
) -> io::Result<OwnedFd> {
    let mut len = STORAGE_LEN;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let address = std::ptr::from_mut(storage).cast();
    // SAFETY: `storage` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe { libc::accept4(listener.as_raw_fd(), address, &raw mut len, flags) };
    let fd = syscall!(accept4, result)?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `pipe2(2)` with `O_NONBLOCK` and `O_CLOEXEC`: returns the read end and the write end.
///
/// # Errors
/// See the manual page; `EMFILE` if there are no free descriptors.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [libc::c_int; 2] = [-1; 2];
    // SAFETY: `ends` has room for two descriptors, which is what the kernel writes.
    let result = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) };
    syscall!(pipe2, result)?;
    // SAFETY: the call returned two new descriptors without another owner.
    let [reader, writer] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((reader, writer))
}

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
