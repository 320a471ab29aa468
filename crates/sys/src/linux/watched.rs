//! Other processes: heard of when they end, whoever started them.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::ledger::syscall;

/// `pidfd_open(2)`: a descriptor that can be read from once the process has ended.
///
/// # Errors
/// As the manual page says: `ESRCH` if there is none, `EINVAL` if it is a thread.
pub fn open_process(pid: u32) -> io::Result<OwnedFd> {
    let pid = number(pid)?;
    // SAFETY: pidfd_open(2) takes no pointers.
    let fd = syscall!(pidfd_open, unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `prctl(2)`, `PR_SET_CHILD_SUBREAPER`: processes whose parents end become children of ours, if
/// a child of ours is among their ancestors.
///
/// # Errors
/// As the manual page says.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the command takes a number and no pointers.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    syscall!(prctl, result).map(drop)
}

/// `prctl(2)`, `PR_SET_PDEATHSIG`: when the thread that started this process ends, it gets SIGTERM.
/// That holds also for a program that this process becomes.
///
/// # Errors
/// As the manual page says.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: the command takes a number and no pointers.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
    syscall!(prctl, result).map(drop)
}

/// `wait4(2)` without waiting: how a child of ours ended. `None` while it runs.
///
/// # Errors
/// As the manual page says: `ECHILD` if it is none of ours.
pub fn reap(pid: u32) -> io::Result<Option<ExitStatus>> {
    let (pid, mut status) = (number(pid)?, 0);
    let nothing = std::ptr::null_mut();
    // SAFETY: `status` is live for the kernel to write to; no usage is asked for.
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

/// A number that a process can have.
pub(crate) fn number(pid: u32) -> io::Result<libc::pid_t> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}
