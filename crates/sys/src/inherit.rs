//! Sockets of other processes: inherited from the parent process, or shared with other processes.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::ledger::syscall;
use crate::socket::len_of;

/// `fcntl(2)`, `F_GETFD` and `F_SETFD`: takes over a descriptor inherited from the parent process.
/// It gets close-on-exec, so it can be taken over only once.
///
/// # Errors
/// `EBADF` if the number is not open. `InvalidInput` if it is a standard stream, was taken over
/// before, or was opened by this process.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        let why = "standard streams cannot be inherited";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // SAFETY: the command takes no pointers.
    let flags = syscall!(fcntl, unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        let why = format!("descriptor {number} is already owned by this process");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let flags = flags | libc::FD_CLOEXEC;
    // SAFETY: the command takes no pointers.
    syscall!(fcntl, unsafe { libc::fcntl(number, libc::F_SETFD, flags) })?;
    // SAFETY: it is open, and this process did not open it. Rust opens files with close-on-exec,
    // and inherited descriptors get that flag here. So it has no owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Removes environment variables, if no other thread can read them. Returns false and does nothing
/// if there is another thread, or no `/proc`.
pub fn forget_environment(names: &[&str]) -> bool {
    let alone = is_single_threaded();
    if alone {
        for name in names {
            // SAFETY: this is the only thread, so the environment is not accessed concurrently.
            unsafe { std::env::remove_var(name) };
        }
    }
    alone
}

/// True if this process has a single thread, according to `/proc`.
pub(crate) fn is_single_threaded() -> bool {
    // The link count of a directory: its parent's link, its own, and one for each subdirectory
    // (thread).
    std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3)
}

/// `getsockopt(2)`, `SO_ACCEPTCONN`: true if the socket listens.
///
/// # Errors
/// See the manual page; `ENOTSOCK` if it is not a socket.
pub fn accepts(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut listens: libc::c_int = 0;
    let mut len = len_of::<libc::c_int>();
    // SAFETY: `listens` has room for `len` bytes, which is what the kernel may write.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut listens).cast(),
            &raw mut len,
        )
    };
    syscall!(getsockopt, result)?;
    Ok(listens != 0)
}

/// `ioctl(2)`, `FIONBIO`: makes the open file non-blocking, in all processes that share it.
///
/// # Errors
/// See the manual page.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut on: libc::c_int = 1;
    // SAFETY: `on` is a live int, which is what FIONBIO reads.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut on) };
    syscall!(ioctl, result).map(drop)
}

/// `getsockname(2)` of a Unix socket: its path, or `@` and its abstract name.
///
/// # Errors
/// See the manual page; `Unsupported` if it is not a Unix socket, or has no name.
pub fn local_path(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    // SAFETY: sockaddr_un is plain data; all-zero is a valid value of it.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut len = len_of::<libc::sockaddr_un>();
    // SAFETY: `address` has room for `len` bytes, which is what the kernel may write.
    let result =
        unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    syscall!(getsockname, result)?;
    let path_at = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    let name_len = usize::try_from(len).unwrap_or(0).saturating_sub(path_at);
    let bytes = address.sun_path.iter().take(name_len).map(|byte| *byte as u8);
    let mut name: Vec<u8> = bytes.collect();
    if i32::from(address.sun_family) != libc::AF_UNIX || name.is_empty() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "not a Unix socket with a name"));
    }
    match name[0] {
        0 => name[0] = b'@',
        _ => name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len())),
    }
    Ok(PathBuf::from(OsStr::from_bytes(&name)))
}

/// `geteuid(2)`: the effective user of this process.
///
/// # Errors
/// None: it always succeeds.
pub fn user() -> io::Result<u32> {
    // SAFETY: geteuid(2) takes nothing.
    let user = unsafe { libc::geteuid() };
    syscall!(geteuid, i64::from(user))?;
    Ok(user)
}
