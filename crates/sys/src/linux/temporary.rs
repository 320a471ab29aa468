//! Files that have no name until they are complete.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ledger::syscall;

/// `openat(2)` with `O_TMPFILE`, for reading and writing: a file on the file system of `dir` that
/// has no name, and is gone when it is closed without having been given one.
///
/// # Errors
/// `EOPNOTSUPP`, `EISDIR` or `EINVAL` where file system or kernel cannot do this; otherwise as the
/// manual page says.
pub fn create_unnamed(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero byte; the call only reads it.
    let fd = unsafe { libc::openat(dir.as_raw_fd(), c".".as_ptr(), flags, FILE_MODE) };
    let fd = syscall!(openat, fd)?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `linkat(2)`: gives a file of [`create_unnamed`] a name in `dir`, which must not be taken.
///
/// # Errors
/// `EEXIST` when the name is taken; `ENOENT` without `/proc`, by which the file is named; otherwise
/// as the manual page says.
pub fn link_unnamed(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let path = path.expect("a number has no zero byte");
    let (to, flags) = (dir.as_raw_fd(), libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::linkat(libc::AT_FDCWD, path.as_ptr(), to, name.as_ptr(), flags) };
    syscall!(linkat, result).map(drop)
}

/// `renameat2(2)` without flags, within `dir`: what is there is replaced, at once.
///
/// # Errors
/// `EISDIR` when the new name is that of a directory; otherwise as the manual page says.
pub fn rename(dir: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let fd = dir.as_raw_fd();
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::renameat2(fd, from.as_ptr(), fd, to.as_ptr(), 0) };
    syscall!(renameat2, result).map(drop)
}

/// As every other file that we make: what the umask leaves of it.
const FILE_MODE: libc::c_uint = 0o644;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{create_new, open_dir, write};
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_gets_its_name_last() {
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
