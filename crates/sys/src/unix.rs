//! Unix sockets (`unix(7)`): addresses are paths, or `@` and an abstract name.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ledger::syscall;
use crate::platform::{ABSTRACT_NAMES, socket_of};
use crate::socket::{Connect, connected};
use crate::unsupported;

/// `socket(2)`: a non-blocking Unix stream socket.
///
/// # Errors
/// See the manual page; `EMFILE` if there are no free descriptors.
pub fn unix_socket() -> io::Result<OwnedFd> {
    socket_of(libc::AF_UNIX, libc::SOCK_STREAM)
}

/// `socket(2)`: a non-blocking Unix datagram socket.
///
/// # Errors
/// See the manual page.
pub fn unix_datagram_socket() -> io::Result<OwnedFd> {
    socket_of(libc::AF_UNIX, libc::SOCK_DGRAM)
}

/// `bind(2)`: creates the socket file, or reserves the abstract name.
///
/// # Errors
/// `InvalidInput` if `path` is not a valid address. Otherwise see the manual page: `EADDRINUSE`
/// also if any file of that name exists.
pub fn bind_unix(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (address, len) = to_raw(path)?;
    // SAFETY: `address` is live for `len` bytes; the call only reads it.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    syscall!(bind, result).map(drop)
}

/// `connect(2)`: completes or fails at once.
///
/// # Errors
/// `InvalidInput` if `path` is not a valid address. Otherwise see the manual page: `EAGAIN` if the
/// backlog of the listener is full.
pub fn connect_unix(fd: BorrowedFd<'_>, path: &Path) -> io::Result<Connect> {
    let (address, len) = to_raw(path)?;
    // SAFETY: `address` is live for `len` bytes; the call only reads it.
    let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) };
    connected(syscall!(connect, result))
}

/// `fchmod(2)`. On an unbound socket: the maximum permissions of its file.
///
/// # Errors
/// See the manual page.
pub fn fchmod(fd: BorrowedFd<'_>, permissions: u32) -> io::Result<()> {
    // SAFETY: fchmod(2) takes no pointers.
    syscall!(fchmod, unsafe { libc::fchmod(fd.as_raw_fd(), mode(permissions)) }).map(drop)
}

/// `fchmodat(2)`: the permissions of a file.
///
/// # Errors
/// See the manual page.
pub fn chmod(path: &Path, permissions: u32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` ends with a zero byte; the call only reads it.
    let result = unsafe { libc::fchmodat(libc::AT_FDCWD, path.as_ptr(), mode(permissions), 0) };
    syscall!(fchmodat, result).map(drop)
}

/// `fstatat(2)` with `AT_SYMLINK_NOFOLLOW`: true if `path` is a socket file.
///
/// # Errors
/// See the manual page; `ENOENT` if it does not exist.
pub fn is_socket(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `stat` is plain data; all-zero is a valid value of it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: `path` ends with a zero byte and `stat` is live; the kernel fills it.
    let result = unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &raw mut stat, flags) };
    syscall!(newfstatat, result)?;
    Ok(stat.st_mode & libc::S_IFMT == libc::S_IFSOCK)
}

/// `unlinkat(2)`: removes a file.
///
/// # Errors
/// See the manual page.
pub fn unlink(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` ends with a zero byte; the call only reads it.
    let result = unsafe { libc::unlinkat(libc::AT_FDCWD, path.as_ptr(), 0) };
    syscall!(unlinkat, result).map(drop)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "permissions have twelve bits, some systems have 16"
)]
fn mode(permissions: u32) -> libc::mode_t {
    (permissions & 0o7777) as libc::mode_t
}

/// Pathname and abstract addresses of `unix(7)`. Unnamed ones are rejected: with an empty path the
/// kernel would choose a name.
fn to_raw(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let name = path.as_os_str().as_bytes();
    let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if name.is_empty() {
        return invalid("Unix socket path is empty");
    }
    if name.contains(&0) {
        return invalid("Unix socket path contains a zero byte");
    }
    if name.len() > UNIX_PATH_SIZE_MAX {
        let text = format!(
            "Unix socket path is longer than {UNIX_PATH_SIZE_MAX} bytes; use a shorter one"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // SAFETY: sockaddr_un is plain data; all-zero is a valid value of it.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = FAMILY;
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    // An abstract name begins with a zero byte and is not terminated; a path ends with a zero byte.
    let is_abstract = name[0] == b'@';
    if is_abstract && !ABSTRACT_NAMES {
        return Err(unsupported("an abstract Unix socket (@name)"));
    }
    if is_abstract {
        address.sun_path[0] = 0;
    }
    let len = PATH_AT + name.len() + usize::from(!is_abstract);
    let len = libc::socklen_t::try_from(len).expect("addresses have about a hundred bytes");
    Ok((address, len))
}

/// Maximum size of a path, or of an abstract name with its `@`: 107 bytes on Linux (`unix(7)`).
pub const UNIX_PATH_SIZE_MAX: usize = size_of::<libc::sockaddr_un>() - PATH_AT - 1;
const PATH_AT: usize = std::mem::offset_of!(libc::sockaddr_un, sun_path);
#[expect(clippy::cast_possible_truncation, reason = "families are small numbers")]
const FAMILY: libc::sa_family_t = libc::AF_UNIX as libc::sa_family_t;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_abstract_names_are_encoded_with_zero_bytes() {
        let (address, len) = to_raw(Path::new("/a")).unwrap();
        assert_eq!((address.sun_path[..3].to_vec(), len), (vec![47, 97, 0], 2 + 3));
        let (address, len) = to_raw(Path::new("@a")).unwrap();
        assert_eq!((address.sun_path[..3].to_vec(), len), (vec![0, 97, 0], 2 + 2));
    }

    #[test]
    fn invalid_paths_are_reported() {
        for (path, why) in [("", "empty"), ("a\0b", "zero byte"), (&"x".repeat(108), "107 bytes")] {
            let error = to_raw(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(why), "{error}");
        }
        assert!(to_raw(Path::new(&"x".repeat(UNIX_PATH_SIZE_MAX))).is_ok());
    }
}
