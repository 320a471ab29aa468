//! New descriptors, from calls that take the flags for non-blocking and close-on-exec: Linux,
//! FreeBSD and NetBSD. macOS sets them with `fcntl(2)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ledger::syscall;
use crate::socket::STORAGE_LEN;

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
