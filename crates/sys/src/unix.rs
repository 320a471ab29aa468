//! Unix sockets (`unix(7)`): addresses are paths, or abstract names beginning with `@`.

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
/// As the manual page says; `EMFILE` when descriptors are used up.
pub fn unix_socket() -> io::Result<OwnedFd> {
    socket_of(libc::AF_UNIX, libc::SOCK_STREAM)
}

/// `socket(2)`: a non-blocking Unix datagram socket.
///
/// # Errors
/// As the manual page says.
pub fn unix_datagram_socket() -> io::Result<OwnedFd> {
    socket_of(libc::AF_UNIX, libc::SOCK_DGRAM)
}

/// `bind(2)`: makes the socket's file, or takes the abstract name.
///
/// # Errors
/// `InvalidInput` if `path` is no address; otherwise as the manual page says: `EADDRINUSE` also
/// when there is any file of that name.
pub fn bind_unix(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (address, len) = to_raw(path)?;
    // SAFETY: `address` is live for `len` bytes; the call only reads it.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    syscall!(bind, result).map(drop)
}

/// `connect(2)`: done or refused at once.
///
/// # Errors
/// `InvalidInput` if `path` is no address; otherwise as the manual page says: `EAGAIN` when the
/// listener's backlog is full.
pub fn connect_unix(fd: BorrowedFd<'_>, path: &Path) -> io::Result<Connect> {
    let (address, len) = to_raw(path)?;
    // SAFETY: `address` is live for `len` bytes; the call only reads it.
    let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) };
    connected(syscall!(connect, result))
}

/// `fchmod(2)`. On a socket that is not bound yet: the most that its file will allow.
///
/// # Errors
/// As the manual page says.
pub fn fchmod(fd: BorrowedFd<'_>, permissions: u32) -> io::Result<()> {
    // SAFETY: fchmod(2) takes no pointers.
    syscall!(fchmod, unsafe { libc::fchmod(fd.as_raw_fd(), mode(permissions)) }).map(drop)
}

/// `fchmodat(2)`: what a file allows to whom.
///
/// # Errors
/// As the manual page says.
pub fn chmod(path: &Path, permissions: u32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` ends with a zero byte; the call only reads it.
    let result = unsafe { libc::fchmodat(libc::AT_FDCWD, path.as_ptr(), mode(permissions), 0) };
    syscall!(fchmodat, result).map(drop)
}

/// `fstatat(2)` with `AT_SYMLINK_NOFOLLOW`: whether `path` is the file of a socket.
///
/// # Errors
/// As the manual page says; `ENOENT` if there is nothing.
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

/// `unlinkat(2)`: removes a file's name.
///
/// # Errors
/// As the manual page says.
pub fn unlink(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` ends with a zero byte; the call only reads it.
    let result = unsafe { libc::unlinkat(libc::AT_FDCWD, path.as_ptr(), 0) };
    syscall!(unlinkat, result).map(drop)
}

#[allow(clippy::cast_possible_truncation, reason = "twelve bits, and some systems have 16")]
fn mode(permissions: u32) -> libc::mode_t {
    (permissions & 0o7777) as libc::mode_t
}

/// The three kinds of address of `unix(7)`, without the unnamed one: an empty path would have
/// the kernel choose a name.
fn to_raw(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let name = path.as_os_str().as_bytes();
    let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if name.is_empty() {
        return invalid("the path of a Unix socket is empty");
    }
    if name.contains(&0) {
        return invalid("the path of a Unix socket contains a zero byte");
    }
    if name.len() > UNIX_PATH_SIZE_MAX {
        let text = format!(
            "the path of a Unix socket is longer than {UNIX_PATH_SIZE_MAX} bytes; use a shorter one"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // SAFETY: sockaddr_un is plain data; all-zero is a valid value of it.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = FAMILY;
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    // An abstract name begins with a zero byte and has its length; a path ends with a zero byte.
    let is_abstract = name[0] == b'@';
    if is_abstract && !ABSTRACT_NAMES {
        return Err(unsupported("a Unix socket without a file (@name)"));
    }
    if is_abstract {
        address.sun_path[0] = 0;
    }
    let len = PATH_AT + name.len() + usize::from(!is_abstract);
    let len = libc::socklen_t::try_from(len).expect("an address has some hundred bytes");
    Ok((address, len))
}

/// Bytes of a path, or of an abstract name with its `@`: 107 on Linux (`unix(7)`).
pub const UNIX_PATH_SIZE_MAX: usize = size_of::<libc::sockaddr_un>() - PATH_AT - 1;
const PATH_AT: usize = std::mem::offset_of!(libc::sockaddr_un, sun_path);
#[expect(clippy::cast_possible_truncation, reason = "families are small numbers")]
const FAMILY: libc::sa_family_t = libc::AF_UNIX as libc::sa_family_t;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_with_a_zero_byte_and_abstract_names_begin_with_one() {
        let (address, len) = to_raw(Path::new("/a")).unwrap();
        assert_eq!((address.sun_path[..3].to_vec(), len), (vec![47, 97, 0], 2 + 3));
        let (address, len) = to_raw(Path::new("@a")).unwrap();
        assert_eq!((address.sun_path[..3].to_vec(), len), (vec![0, 97, 0], 2 + 2));
    }

    #[test]
    fn what_is_no_address_is_said() {
        for (path, why) in [("", "empty"), ("a\0b", "zero byte"), (&"x".repeat(108), "107 bytes")] {
            let error = to_raw(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(why), "{error}");
        }
        assert!(to_raw(Path::new(&"x".repeat(UNIX_PATH_SIZE_MAX))).is_ok());
    }
}
