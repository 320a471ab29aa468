//! Pipes, and moving bytes through them without copying: `pipe(2)`, `splice(2)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::ledger::syscall;

/// `fcntl(2)`, `F_SETPIPE_SZ`: sets the capacity of a pipe in bytes, rounded up to a power of two.
///
/// # Errors
/// See the manual page; `EPERM` beyond `/proc/sys/fs/pipe-max-size`, or at the user's limit of pipe
/// memory.
pub fn set_pipe_size(pipe: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: F_SETPIPE_SZ takes an int and no pointers.
    let result = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
    syscall!(fcntl, result).map(drop)
}

/// `splice(2)` from a socket into a pipe: at most `len` bytes; 0 at the end of the stream.
///
/// # Errors
/// See the manual page; `EAGAIN` if the socket has no data or the pipe is full.
pub fn splice_in(socket: BorrowedFd<'_>, pipe: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    splice(socket, pipe, None, len, false)
}

/// `splice(2)` from a pipe into a file, starting at `offset`: at most `len` bytes.
///
/// # Errors
/// See the manual page; `ENOSPC` on a full disk, `EFBIG` beyond the maximum file size, and `EINVAL`
/// if the file is open for appending or its file system does not support it.
pub fn splice_out(
    pipe: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    let offset = libc::loff_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    splice(pipe, file, Some(offset), len, false)
}

/// `splice(2)` from a pipe into a socket: at most `len` bytes. `more`: more data follows at once,
/// and the kernel delays a partial packet for it (`SPLICE_F_MORE`).
///
/// # Errors
/// See the manual page; `EAGAIN` if the socket's send buffer is full.
pub fn splice_on(
    pipe: BorrowedFd<'_>,
    socket: BorrowedFd<'_>,
    len: usize,
    more: bool,
) -> io::Result<usize> {
    splice(pipe, socket, None, len, more)
}

fn splice(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    mut offset: Option<libc::loff_t>,
    len: usize,
    more: bool,
) -> io::Result<usize> {
    let none = std::ptr::null_mut();
    let offset = offset.as_mut().map_or(none, std::ptr::from_mut);
    let more = if more { libc::SPLICE_F_MORE } else { 0 };
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | more;
    // SAFETY: `offset` is null or a live loff_t that the kernel may read and write.
    let result =
        unsafe { libc::splice(from.as_raw_fd(), none, to.as_raw_fd(), offset, len, flags) };
    Ok(syscall!(splice, result)?.unsigned_abs())
}
