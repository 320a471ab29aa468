//! Files: Linux calls beyond `openat(2)` and similar calls.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::file::READ;
use crate::ledger::syscall;

/// `openat2(2)` with `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS`, for reading. Symbolic links are
/// followed if they stay inside `dir`.
///
/// # Errors
/// `EXDEV` if the name leads out of `dir`. `ENOSYS`, or `EPERM` under some seccomp profiles, if the
/// kernel does not support it: use [`crate::open_step`] instead.
pub fn open_beneath(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: open_how is plain data; all-zero is a valid value of it.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from(READ.cast_unsigned());
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: `name` ends with a zero byte and `how` is live; the call only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir.as_raw_fd(),
            name.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    let fd = syscall!(openat2, result)?;
    let fd = libc::c_int::try_from(fd).expect("a descriptor is an int");
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `renameat2(2)` with `RENAME_NOREPLACE`, within `dir`: never replaces an existing file.
///
/// # Errors
/// `EEXIST` if the new name exists; `EINVAL` if the file system does not support it: use
/// [`crate::link`] and [`crate::unlink_at`].
pub fn rename_new(dir: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let fd = dir.as_raw_fd();
    let flags = libc::RENAME_NOREPLACE;
    // SAFETY: both names end with a zero byte; the call only reads them.
    let result = unsafe { libc::renameat2(fd, from.as_ptr(), fd, to.as_ptr(), flags) };
    syscall!(renameat2, result).map(drop)
}

/// `syncfs(2)`: like [`crate::fsync`], for all files of the file system of `fd`.
///
/// # Errors
/// See the manual page; Linux before 5.8 reports no errors of earlier writes.
pub fn sync_file_system(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: syncfs(2) takes no pointers.
    syscall!(syncfs, unsafe { libc::syncfs(fd.as_raw_fd()) }).map(drop)
}

/// `getdents64(2)`, once: appends names of the directory to `names`, in the order of the file
/// system, without `.` and `..`. Returns false at the end of the directory.
///
/// # Errors
/// See the manual page; `ENOTDIR` if `dir` is not a directory.
pub fn read_dir(dir: BorrowedFd<'_>, names: &mut Vec<CString>) -> io::Result<bool> {
    let mut buffer = vec![0_u8; DIRENT_BUFFER_SIZE];
    let (fd, at, size) = (dir.as_raw_fd(), buffer.as_mut_ptr(), buffer.len());
    // SAFETY: `buffer` is live for `size` bytes, which is what the kernel may write.
    let result = unsafe { libc::syscall(libc::SYS_getdents64, fd, at, size) };
    let filled = usize::try_from(syscall!(getdents64, result)?).expect("no less than zero");
    let mut rest = &buffer[..filled];
    while let Some((name, later)) = split_dirent(rest) {
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
        rest = later;
    }
    Ok(filled > 0)
}

/// Splits off the name in the first `struct linux_dirent64` of `bytes`. The length of the record is
/// a `u16` at offset 16, the type a byte at 18; the name begins at 19 and ends with NUL.
fn split_dirent(bytes: &[u8]) -> Option<(&CStr, &[u8])> {
    let len = u16::from_ne_bytes(bytes.get(16..18)?.try_into().ok()?);
    let (record, later) = bytes.split_at_checked(usize::from(len))?;
    Some((CStr::from_bytes_until_nul(record.get(19..)?).ok()?, later))
}

/// Size in bytes of about 1,000 names.
const DIRENT_BUFFER_SIZE: usize = 32 * 1024;

/// Nanoseconds of the time of the last modification.
pub(crate) fn modified_nanos(stat: &libc::stat) -> i64 {
    stat.st_mtime_nsec
}

pub(crate) fn device(stat: &libc::stat) -> u64 {
    stat.st_dev
}
