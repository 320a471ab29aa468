//! Observing other processes: notification of their end.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::ledger::syscall;

/// `pidfd_open(2)`: a descriptor that becomes readable when the process ends.
///
/// # Errors
/// See the manual page: `ESRCH` if it does not exist, `EINVAL` if it is a thread.
pub fn open_process(pid: u32) -> io::Result<OwnedFd> {
    let pid = number(pid)?;
    // SAFETY: pidfd_open(2) takes no pointers.
    let fd = syscall!(pidfd_open, unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `prctl(2)`, `PR_SET_CHILD_SUBREAPER`: orphaned descendants become children of this process.
///
/// # Errors
/// See the manual page.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the command takes a number and no pointers.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    syscall!(prctl, result).map(drop)
}

/// `prctl(2)`, `PR_SET_PDEATHSIG`: sends SIGTERM to this process when the thread that started it
/// ends. This persists across `execve(2)`.
///
/// # Errors
/// See the manual page.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: the command takes a number and no pointers.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
    syscall!(prctl, result).map(drop)
}

/// `wait4(2)` without waiting: the exit status of a child. `None` while it runs.
///
/// # Errors
/// See the manual page: `ECHILD` if it is not a child of this process.
pub fn reap(pid: u32) -> io::Result<Option<ExitStatus>> {
    let (pid, mut status) = (number(pid)?, 0);
    let nothing = std::ptr::null_mut();
    // SAFETY: `status` is live for the kernel to write to; no usage is requested.
    let result = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, nothing) };
    let found = syscall!(wait4, result)?;
    Ok((found != 0).then(|| ExitStatus::from_raw(status)))
}

/// `gettid(2)`: the number of the calling thread.
///
/// # Errors
/// None on Linux.
pub fn thread_number() -> io::Result<u32> {
    // SAFETY: gettid(2) takes nothing.
    syscall!(gettid, unsafe { libc::gettid() }).map(libc::pid_t::unsigned_abs)
}

/// Checks that a process can have this number.
pub(crate) fn number(pid: u32) -> io::Result<libc::pid_t> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}
