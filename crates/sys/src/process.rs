//! This process and its threads: limits, processor time.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::ledger::syscall;

/// Processor time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In our own code and libraries.
    pub user: Duration,
    /// In the kernel on our behalf.
    pub system: Duration,
}

impl CpuTimes {
    /// Both together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// The limit on open descriptors, `RLIMIT_NOFILE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// What the process had.
    pub before: u64,
    /// What it has now.
    pub now: u64,
    /// What it could be given without privileges.
    pub hard: u64,
}

/// `getrusage(2)` of the whole process.
///
/// # Errors
/// As the manual page says.
pub fn process_cpu() -> io::Result<CpuTimes> {
    usage(libc::RUSAGE_SELF)
}

/// `sched_yield(2)`: whoever else wants this core has it first. It never fails where there are
/// threads at all.
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

/// `pthread_sigmask(3)`: neither `SIGPIPE` nor `SIGXFSZ` is delivered to the calling thread from now on,
/// nor to those that it starts. A send to a connection that is gone only fails then, also by
/// `sendfile(2)` and `splice(2)`, which cannot be asked not to raise the one; and so does a write
/// beyond the limit on a file's size (`RLIMIT_FSIZE`), where the other comes from.
///
/// # Errors
/// As the manual page says: none with these arguments.
pub fn block_write_signals() -> io::Result<()> {
    let mut set = no_signals();
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: `set` is live; the call writes to it.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: `set` is live, and the call only reads it; the old mask is not asked for.
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

/// `fcntl(2)`, `F_DUPFD_CLOEXEC`: a descriptor of our own for what a library has open under a
/// number, so that it can be watched until we are done with it, whenever the library closes its.
///
/// # Errors
/// As the manual page says: `EBADF` if the number is not open, `EMFILE`.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the command takes no pointers; what is open under the number stays as it is.
    let fd = syscall!(fcntl, unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `fcntl(2)`, `F_SETFD`: for systems whose calls do not make descriptors that way.
pub(crate) fn close_on_exec(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes an int and no pointers.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    syscall!(fcntl, result).map(drop)
}
