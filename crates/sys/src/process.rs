//! This process and its threads: limits and CPU time.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::ledger::syscall;

/// CPU time used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl CpuTimes {
    /// The sum of both.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// The limit on open descriptors, `RLIMIT_NOFILE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The previous soft limit.
    pub before: u64,
    /// The current soft limit.
    pub now: u64,
    /// The hard limit.
    pub hard: u64,
}

/// `getrusage(2)` of the whole process.
///
/// # Errors
/// See the manual page.
pub fn process_cpu() -> io::Result<CpuTimes> {
    usage(libc::RUSAGE_SELF)
}

/// `sched_yield(2)`: lets other threads run on this core first. It never fails on systems with
/// threads.
pub fn sched_yield() {
    // SAFETY: sched_yield(2) takes no arguments.
    let _ = syscall!(sched_yield, unsafe { libc::sched_yield() });
}

pub(crate) fn usage(who: libc::c_int) -> io::Result<CpuTimes> {
    let usage = rusage(who)?;
    Ok(CpuTimes { user: duration(usage.ru_utime), system: duration(usage.ru_stime) })
}

pub(crate) fn rusage(who: libc::c_int) -> io::Result<libc::rusage> {
    // SAFETY: rusage is plain data; all-zero is a valid value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is live; the kernel fills it.
    let result = unsafe { libc::getrusage(who, &raw mut usage) };
    syscall!(getrusage, result).map(|_| usage)
}

fn duration(time: libc::timeval) -> Duration {
    let micros = u32::try_from(time.tv_usec).unwrap_or(0);
    Duration::new(time.tv_sec.unsigned_abs(), micros * 1_000)
}

/// `pthread_sigmask(3)`: blocks `SIGPIPE` and `SIGXFSZ` in the calling thread, and in the threads
/// it starts. A send on a closed connection then only returns an error, also with `sendfile(2)` and
/// `splice(2)`, which have no flag for it. The same applies to a write beyond the limit of the file
/// size (`RLIMIT_FSIZE`).
///
/// # Errors
/// See the manual page: none with these arguments.
pub fn block_write_signals() -> io::Result<()> {
    let mut set = no_signals();
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: `set` is live; the call writes to it.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: `set` is live, and the call only reads it; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => syscall!(rt_sigprocmask, 0).map(drop),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data; all-zero is a valid value of it.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live; the call writes to it.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

/// `fcntl(2)`, `F_DUPFD_CLOEXEC`: duplicates a descriptor of another library. The copy can be
/// watched even after the library has closed its own.
///
/// # Errors
/// See the manual page: `EBADF` if the number is not open, `EMFILE`.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the command takes no pointers and does not change the original descriptor.
    let fd = syscall!(fcntl, unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the call returned a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `fcntl(2)`, `F_SETFD`: for systems that cannot set it when they create a descriptor.
pub(crate) fn close_on_exec(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes an int and no pointers.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    syscall!(fcntl, result).map(drop)
}
