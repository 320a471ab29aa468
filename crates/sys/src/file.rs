//! Files: names are resolved without leaving a directory.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ledger::syscall;
use crate::platform::{device, modified_nanos};

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link; returned only by [`stat_link`].
    Link,
    /// A pipe, a device, or a socket.
    Other,
}

/// The result of `fstat(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The file type.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// The time of the last modification: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// The inode number on its device.
    pub inode: u64,
    /// The device number.
    pub device: u64,
}

/// `openat(2)` with `O_NOFOLLOW`, for reading: one component of a name, not a link.
///
/// # Errors
/// `ELOOP` if it is a symbolic link; otherwise see the manual page.
pub fn open_step(dir: BorrowedFd<'_>, component: &CStr) -> io::Result<OwnedFd> {
    open_at(dir.as_raw_fd(), component, READ | libc::O_NOFOLLOW)
}

/// `openat(2)` with `O_DIRECTORY`: any directory given by the user.
///
/// # Errors
/// See the manual page.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    open_at(libc::AT_FDCWD, &c_path(path)?, READ | libc::O_DIRECTORY)
}

/// `openat(2)`: any file, for reading.
///
/// # Errors
/// See the manual page.
pub fn open_read(path: &Path) -> io::Result<OwnedFd> {
    open_at(libc::AT_FDCWD, &c_path(path)?, READ)
}

/// `openat(2)` for appending; creates the file if it does not exist.
///
/// # Errors
/// See the manual page.
pub fn open_log(path: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    open_at(libc::AT_FDCWD, &c_path(path)?, flags)
}

/// `openat(2)` with `O_CREAT` and `O_EXCL`, for writing: a new file.
///
/// # Errors
/// `EEXIST` if the name exists; otherwise see the manual page.
pub fn create_new(dir: BorrowedFd<'_>, component: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    open_at(dir.as_raw_fd(), component, flags)
}

/// `openat(2)` with `O_NOFOLLOW`, for reading and writing: an existing file, not a link.
///
/// # Errors
/// `ELOOP` if it is a symbolic link; otherwise see the manual page.
pub fn open_write(dir: BorrowedFd<'_>, component: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    open_at(dir.as_raw_fd(), component, flags)
}

/// `linkat(2)`: a second name for a file; the name must not exist.
///
/// # Errors
/// `EEXIST` if the new name exists; otherwise see the manual page.
pub fn link(
    (from_dir, from): (BorrowedFd<'_>, &CStr),
    (to_dir, to): (BorrowedFd<'_>, &CStr),
) -> io::Result<()> {
    let (from_dir, to_dir) = (from_dir.as_raw_fd(), to_dir.as_raw_fd());
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::linkat(from_dir, from.as_ptr(), to_dir, to.as_ptr(), 0) };
    syscall!(linkat, result).map(drop)
}

/// `unlinkat(2)`: removes a name of a file (not a directory).
///
/// # Errors
/// See the manual page.
pub fn unlink_at(dir: BorrowedFd<'_>, component: &CStr) -> io::Result<()> {
    // SAFETY: the name ends with a zero byte; the call only reads it.
    let result = unsafe { libc::unlinkat(dir.as_raw_fd(), component.as_ptr(), 0) };
    syscall!(unlinkat, result).map(drop)
}

/// `unlinkat(2)` with `AT_REMOVEDIR`: removes an empty directory.
///
/// # Errors
/// `ENOTEMPTY` if it is not empty; otherwise see the manual page.
pub fn remove_dir(dir: BorrowedFd<'_>, component: &CStr) -> io::Result<()> {
    let (dir, flag) = (dir.as_raw_fd(), libc::AT_REMOVEDIR);
    // SAFETY: the name ends with a zero byte; the call only reads it.
    let result = unsafe { libc::unlinkat(dir, component.as_ptr(), flag) };
    syscall!(unlinkat, result).map(drop)
}

/// `mkdirat(2)`.
///
/// # Errors
/// `EEXIST` if the name exists; otherwise see the manual page.
pub fn make_dir(dir: BorrowedFd<'_>, component: &CStr) -> io::Result<()> {
    // SAFETY: the name ends with a zero byte; the call only reads it.
    let result = unsafe { libc::mkdirat(dir.as_raw_fd(), component.as_ptr(), DIR_MODE) };
    syscall!(mkdirat, result).map(drop)
}

/// `ftruncate(2)`.
///
/// # Errors
/// See the manual page.
pub fn truncate(fd: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: ftruncate(2) takes no pointers.
    syscall!(ftruncate, unsafe { libc::ftruncate(fd.as_raw_fd(), len) }).map(drop)
}

/// `fsync(2)`: writes all data of the file or directory to the disk.
///
/// # Errors
/// `EIO`, `ENOSPC`, `EDQUOT`: data written earlier is lost; `EINVAL`, `EROFS`: the file cannot be
/// synced. Otherwise see the manual page.
pub fn fsync(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fsync(2) takes no pointers.
    syscall!(fsync, unsafe { libc::fsync(fd.as_raw_fd()) }).map(drop)
}

/// `flock(2)` with `LOCK_EX` and `LOCK_NB`: an exclusive lock until the file is closed.
///
/// # Errors
/// `EWOULDBLOCK` if the file is locked already.
pub fn lock(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: flock(2) takes no pointers.
    let result = unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    syscall!(flock, result).map(drop)
}

/// `fstat(2)`.
///
/// # Errors
/// See the manual page.
pub fn fstat(fd: BorrowedFd<'_>) -> io::Result<FileInfo> {
    // SAFETY: `stat` is plain data; all-zero is a valid value of it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is live; the kernel fills it.
    let result = unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) };
    syscall!(fstat, result)?;
    Ok(file_info(&stat))
}

/// `fstatat(2)` with `AT_SYMLINK_NOFOLLOW`: describes a link itself, not its target.
///
/// # Errors
/// See the manual page.
pub fn stat_link(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<FileInfo> {
    // SAFETY: `stat` is plain data; all-zero is a valid value of it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: `name` ends with a zero byte and `stat` is live; the kernel fills it.
    let result = unsafe { libc::fstatat(dir.as_raw_fd(), name.as_ptr(), &raw mut stat, flags) };
    syscall!(newfstatat, result)?;
    Ok(file_info(&stat))
}

fn file_info(stat: &libc::stat) -> FileInfo {
    let kind = match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Link,
        _ => FileKind::Other,
    };
    FileInfo {
        kind,
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified: (stat.st_mtime, u32::try_from(modified_nanos(stat)).unwrap_or(0)),
        inode: stat.st_ino,
        device: device(stat),
    }
}

/// `pread(2)`; 0 at the end of the file.
///
/// # Errors
/// See the manual page.
pub fn pread(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `buffer` is live for its length, which is what the kernel may write.
    let result =
        unsafe { libc::pread(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), offset) };
    Ok(syscall!(pread64, result)?.unsigned_abs())
}

/// `pwrite(2)`.
///
/// # Errors
/// See the manual page; `ENOSPC` on a full disk.
pub fn pwrite(fd: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (at, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: `bytes` is live for its length; the call only reads it.
    let result = unsafe { libc::pwrite(fd.as_raw_fd(), at.cast(), len, offset) };
    Ok(syscall!(pwrite64, result)?.unsigned_abs())
}

/// `read(2)`; 0 at the end of the file. Waits if the descriptor is blocking.
///
/// # Errors
/// See the manual page.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: `buffer` is live for its length, which is what the kernel may write.
    let result = unsafe { libc::read(fd.as_raw_fd(), at.cast(), len) };
    Ok(syscall!(read, result)?.unsigned_abs())
}

/// `write(2)`.
///
/// # Errors
/// See the manual page; `ENOSPC` on a full disk.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is live for its length; the call only reads it.
    let result = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    Ok(syscall!(write, result)?.unsigned_abs())
}

fn open_at(dir: libc::c_int, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `name` ends with a zero byte; the call only reads it. The mode applies only to
    // created files.
    let fd = syscall!(openat, unsafe { libc::openat(dir, name.as_ptr(), flags, FILE_MODE) })?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Open flags for reading: never block on a pipe, never get a controlling terminal.
pub(crate) const READ: libc::c_int =
    libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
const FILE_MODE: libc::c_uint = 0o644;
const DIR_MODE: libc::mode_t = 0o755;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::platform::{boot_id, read_dir, rename_new, sync_file_system};
    use std::os::fd::AsFd;

    #[test]
    fn files_directories_and_file_systems_are_synced() {
        let place = tempfile::tempdir().unwrap();
        let dir = open_dir(place.path()).unwrap();
        let file = create_new(dir.as_fd(), c"a").unwrap();
        let before = Ledger::here();
        fsync(file.as_fd()).unwrap();
        fsync(dir.as_fd()).unwrap();
        sync_file_system(dir.as_fd()).unwrap();
        let calls = Ledger::here() - before;
        assert_eq!(calls.total(), 3, "{calls:?}");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(fsync(ours.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn boot_id_is_a_constant_uuid() {
        let id = boot_id().unwrap();
        assert!(id.len() == 36 && id == boot_id().unwrap(), "{id:?}");
    }

    #[test]
    fn a_new_name_never_replaces_a_file() {
        let place = tempfile::tempdir().unwrap();
        let dir = open_dir(place.path()).unwrap();
        let dir = dir.as_fd();
        let taken = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        };
        let fd = create_new(dir, c"a").unwrap();
        write(fd.as_fd(), b"12345").unwrap();
        taken(create_new(dir, c"a").map(drop));
        rename_new(dir, c"a", c"b").unwrap();
        create_new(dir, c"c").unwrap();
        taken(rename_new(dir, c"c", c"b"));
        taken(link((dir, c"c"), (dir, c"b")));
        link((dir, c"b"), (dir, c"d")).unwrap();
        unlink_at(dir, c"b").unwrap();
        make_dir(dir, c"e").unwrap();
        taken(make_dir(dir, c"d"));
        assert!(unlink_at(dir, c"e").is_err(), "a directory");
        let again = open_write(dir, c"d").unwrap();
        truncate(again.as_fd(), 3).unwrap();
        pwrite(again.as_fd(), b"x", 3).unwrap();
        let mut buffer = [0; 9];
        assert_eq!(pread(again.as_fd(), &mut buffer, 0).unwrap(), 4);
        assert_eq!(&buffer[..4], b"123x");
        let input = open_step(dir, c"d").unwrap();
        assert_eq!(read(input.as_fd(), &mut buffer).unwrap(), 4);
        assert_eq!(read(input.as_fd(), &mut buffer).unwrap(), 0);
        lock(again.as_fd()).unwrap();
        assert_eq!(lock(input.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        std::os::unix::fs::symlink("d", place.path().join("l")).unwrap();
        assert_eq!(open_write(dir, c"l").unwrap_err().raw_os_error(), Some(libc::ELOOP));
        taken(create_new(dir, c"l").map(drop));
    }

    #[test]
    fn a_directory_is_read_to_its_end() {
        let dir = open_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let mut names = Vec::new();
        while read_dir(dir.as_fd(), &mut names).unwrap() {}
        assert!(names.contains(&c"Cargo.toml".to_owned()) && names.contains(&c"src".to_owned()));
        assert!(!names.contains(&c".".to_owned()) && !names.contains(&c"..".to_owned()));
        assert_eq!(stat_link(dir.as_fd(), c"src").unwrap().kind, FileKind::Directory);
        assert_eq!(stat_link(dir.as_fd(), c"Cargo.toml").unwrap().kind, FileKind::Regular);
    }

    #[test]
    fn reading_a_file_as_directory_fails() {
        let file = open_read(Path::new("/dev/null")).unwrap();
        let error = read_dir(file.as_fd(), &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
    }
}
