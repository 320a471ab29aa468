//! macOS: some flags that other systems set in one call need `fcntl(2)` here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ledger::syscall;
use crate::platform::vector::Vector;
use crate::process::{CpuTimes, close_on_exec};
use crate::socket::{STORAGE_LEN, switch_on};
use crate::unsupported;

/// `socket(2)`: a stream socket, made non-blocking.
pub(crate) fn socket_of(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = syscall!(socket, unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the call returned a new descriptor without another owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    close_on_exec(&fd)?;
    make_nonblocking(&fd)?;
    Ok(fd)
}

/// `accept(2)`; the peer's address is written to `storage`. The new socket is non-blocking like its
/// listener.
pub(crate) fn accept_into(
    listener: BorrowedFd<'_>,
    storage: &mut libc::sockaddr_storage,
) -> io::Result<OwnedFd> {
    let mut len = STORAGE_LEN;
    let address = std::ptr::from_mut(storage).cast();
    // SAFETY: `storage` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe { libc::accept(listener.as_raw_fd(), address, &raw mut len) };
    let fd = syscall!(accept, result)?;
    // SAFETY: the call returned a new descriptor without another owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    close_on_exec(&fd)?;
    Ok(fd)
}

/// `pipe(2)`, made non-blocking: returns the read end and the write end.
///
/// # Errors
/// See the manual page; `EMFILE` if there are no free descriptors.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [libc::c_int; 2] = [-1; 2];
    // SAFETY: `ends` has room for two descriptors, which is what the kernel writes.
    let result = unsafe { libc::pipe(ends.as_mut_ptr()) };
    syscall!(pipe, result)?;
    // SAFETY: the call returned two new descriptors without another owner.
    let [reader, writer] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    for end in [&reader, &writer] {
        close_on_exec(end)?;
        make_nonblocking(end)?;
    }
    Ok((reader, writer))
}

/// New sockets and pipes have no other flags that this would clear.
fn make_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: F_SETFL takes an int and no pointers.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    syscall!(fcntl, result).map(drop)
}

/// `SO_NOSIGPIPE`: a send on a closed connection raises no signal.
///
/// # Errors
/// See the manual page; `EINVAL` if the connection is already closed.
pub fn set_no_signal(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(fd, libc::SOL_SOCKET, libc::SO_NOSIGPIPE)
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

/// If bytes were sent, an error of the call is ignored. The length argument includes the head, and
/// returns the number of bytes sent.
fn send(
    fd: BorrowedFd<'_>,
    mut head: Vector,
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let whole = len.saturating_add(head.size as u64);
    let mut moved = libc::off_t::try_from(whole).unwrap_or(libc::off_t::MAX);
    let mut frame = libc::sf_hdtr {
        headers: head.entries.as_mut_ptr(),
        hdr_cnt: head.len,
        trailers: std::ptr::null_mut(),
        trl_cnt: 0,
    };
    let frame = if head.len == 0 { std::ptr::null_mut() } else { &raw mut frame };
    let (from, to) = (file.as_raw_fd(), fd.as_raw_fd());
    // SAFETY: the first `hdr_cnt` entries of `frame`, if it is there, name live bytes that the call
    // only reads; `moved` is live for the kernel to read and write.
    let result = unsafe { libc::sendfile(from, to, offset, &raw mut moved, frame, 0) };
    // `EAGAIN` and `EINTR` return the number of bytes sent; other errors leave the length
    // unchanged.
    let partial =
        matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
    let progress = result < 0 && partial && moved > 0;
    syscall!(sendfile, if progress { 0 } else { result })?;
    usize::try_from(moved).map_err(io::Error::other)
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
    stat.st_mtime_nsec
}

pub(crate) fn device(stat: &libc::stat) -> u64 {
    u64::from(stat.st_dev.cast_unsigned())
}

/// Not every version has `MSG_NOSIGNAL`; [`set_no_signal`] works in all of them.
pub(crate) const NO_SIGNAL: libc::c_int = 0;
/// No flag of `recvmsg(2)` sets close-on-exec on received descriptors.
pub(crate) const RECEIVE_CLOSED_ON_EXEC: libc::c_int = 0;
/// `poll(2)` does not report that the peer has shut down its side; a read does.
pub(crate) const RDHUP: libc::c_short = 0;
/// Several listeners share a port.
pub(crate) const REUSE_PORT: libc::c_int = libc::SO_REUSEPORT;
/// Idle seconds before the first probe.
pub(crate) const KEEP_IDLE: libc::c_int = libc::TCP_KEEPALIVE;
/// `OPEN_MAX`: higher limits are rejected.
pub(super) const DESCRIPTORS_MAX: Option<libc::rlim_t> = Some(10_240);
