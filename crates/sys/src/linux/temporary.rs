//! Files that have no name until they are complete.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ledger::syscall;

/// `openat(2)` with `O_TMPFILE`, for reading and writing: an unnamed file on the file system of
/// `dir`. It is deleted on close if it was not given a name.
///
/// # Errors
/// `EOPNOTSUPP`, `EISDIR` or `EINVAL` if the file system or kernel does not support it; otherwise
/// see the manual page.
pub fn create_unnamed(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero byte; the call only reads it.
    let fd = unsafe { libc::openat(dir.as_raw_fd(), c".".as_ptr(), flags, FILE_MODE) };
    let fd = syscall!(openat, fd)?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `linkat(2)`: gives a file of [`create_unnamed`] a name in `dir`, which must not exist.
///
/// # Errors
/// `EEXIST` if the name exists; `ENOENT` without `/proc`, which is used to name the file; otherwise
/// see the manual page.
pub fn link_unnamed(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let path = path.expect("a number has no zero byte");
    let (to, flags) = (dir.as_raw_fd(), libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::linkat(libc::AT_FDCWD, path.as_ptr(), to, name.as_ptr(), flags) };
    syscall!(linkat, result).map(drop)
}

/// `renameat2(2)` without flags, within `dir`: atomically replaces an existing file.
///
/// # Errors
/// `EISDIR` if the new name is a directory; otherwise see the manual page.
pub fn rename(dir: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let fd = dir.as_raw_fd();
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::renameat2(fd, from.as_ptr(), fd, to.as_ptr(), 0) };
    syscall!(renameat2, result).map(drop)
}

/// Mode of created files, reduced by the umask.
const FILE_MODE: libc::c_uint = 0o644;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{create_new, open_dir, write};
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn an_unnamed_file_is_named_when_complete() {
        let place = tempfile::tempdir().unwrap();
        let dir = open_dir(place.path()).unwrap();
        let file = create_unnamed(dir.as_fd()).unwrap();
        write(file.as_fd(), b"abc").unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        link_unnamed(file.as_fd(), dir.as_fd(), c"a").unwrap();
        assert_eq!(fs::read(place.path().join("a")).unwrap(), b"abc");
        let again = link_unnamed(file.as_fd(), dir.as_fd(), c"a").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        drop(create_unnamed(dir.as_fd()).unwrap());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        create_new(dir.as_fd(), c"b").unwrap();
        rename(dir.as_fd(), c"a", c"b").unwrap();
        assert_eq!(fs::read(place.path().join("b")).unwrap(), b"abc");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
