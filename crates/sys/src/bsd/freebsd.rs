//! FreeBSD 13 and later.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::ledger::syscall;
use crate::platform::vector::Vector;
use crate::process::{CpuTimes, usage};
use crate::unsupported;

pub use crate::opened::pipe;
pub(crate) use crate::opened::{accept_into, socket_of};

/// `SO_NOSIGPIPE`.
///
/// # Errors
/// `Unsupported`: each send sets `MSG_NOSIGNAL` instead.
pub fn set_no_signal(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(unsupported("SO_NOSIGPIPE (use MSG_NOSIGNAL)"))
}

/// `sendfile(2)`: sends at most `len` bytes of `file` from `offset`; 0 at the end of the file.
///
/// # Errors
/// See the manual page; `EAGAIN` if the send buffer is full.
pub fn send_file(
    fd: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> io::Result<usize> {
    send(fd, Vector::new(std::iter::empty()), file, offset, len)
}

/// `sendfile(2)` with bytes from memory before the file.
///
/// # Errors
/// See the manual page; `EAGAIN` if the send buffer is full.
pub fn send_file_with_head<'a>(
    fd: BorrowedFd<'_>,
    head: impl Iterator<Item = &'a [u8]>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> io::Result<usize> {
    send(fd, Vector::new(head), file, offset, len)
}

/// If bytes were sent, an error of the call is ignored.
fn send(
    fd: BorrowedFd<'_>,
    mut head: Vector,
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut frame = libc::sf_hdtr {
        headers: head.entries.as_mut_ptr(),
        hdr_cnt: head.len,
        trailers: std::ptr::null_mut(),
        trl_cnt: 0,
    };
    let frame = if head.len == 0 { std::ptr::null_mut() } else { &raw mut frame };
    let mut moved: libc::off_t = 0;
    let (from, to) = (file.as_raw_fd(), fd.as_raw_fd());
    // SAFETY: the first `hdr_cnt` entries of `frame`, if it is there, name live bytes that the call
    // only reads; `moved` is live for the kernel to write.
    let result = unsafe { libc::sendfile(from, to, offset, len, frame, &raw mut moved, 0) };
    syscall!(sendfile, if moved > 0 { 0 } else { result })?;
    usize::try_from(moved).map_err(io::Error::other)
}

/// `getrusage(2)` of the calling thread.
///
/// # Errors
/// See the manual page.
pub fn thread_cpu() -> io::Result<CpuTimes> {
    usage(libc::RUSAGE_THREAD)
}

/// Nanoseconds of the time of the last modification.
pub(crate) fn modified_nanos(stat: &libc::stat) -> i64 {
    stat.st_mtime_nsec
}

pub(crate) fn device(stat: &libc::stat) -> u64 {
    stat.st_dev
}

/// A flag of `recvmsg(2)`: received descriptors are closed on `execve(2)`.
pub(crate) const RECEIVE_CLOSED_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
/// A flag of `send(2)`: no `SIGPIPE`.
pub(crate) const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// The event of `poll(2)` when the peer has shut down its side.
pub(crate) const RDHUP: libc::c_short = libc::POLLRDHUP;
/// Several listeners share a port, and the kernel distributes connections.
pub(crate) const REUSE_PORT: libc::c_int = libc::SO_REUSEPORT_LB;
/// Idle seconds before the first probe.
pub(crate) const KEEP_IDLE: libc::c_int = libc::TCP_KEEPIDLE;
/// No limit besides the hard limit.
pub(super) const DESCRIPTORS_MAX: Option<libc::rlim_t> = None;
