//! Resource limits of this process. Other information has no call that all three systems share.

use std::io;

use crate::ledger::syscall;
use crate::platform::own::DESCRIPTORS_MAX;
use crate::process::Descriptors;
use crate::unsupported;

/// Linux's `sched_getaffinity(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    Err(unsupported("sched_getaffinity"))
}

/// Linux's `sched_setaffinity(2)`.
///
/// # Errors
/// `Unsupported`.
pub fn run_on_cpus(_: &[usize]) -> io::Result<()> {
    Err(unsupported("sched_setaffinity"))
}

/// Linux's `getrusage(2)` of a thread.
///
/// # Errors
/// `Unsupported`.
pub fn thread_switches() -> io::Result<u64> {
    Err(unsupported("RUSAGE_THREAD"))
}

/// `getrlimit(2)` and `setrlimit(2)`: raises the soft limit of open descriptors to the hard limit.
///
/// # Errors
/// See the manual pages.
pub fn raise_descriptors() -> io::Result<Descriptors> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live; the kernel fills it.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    syscall!(getrlimit, result)?;
    let hard = limit.rlim_max;
    let wanted = DESCRIPTORS_MAX.map_or(hard, |max| hard.min(max));
    let raised = libc::rlimit { rlim_cur: wanted.max(limit.rlim_cur), rlim_max: hard };
    if raised.rlim_cur != limit.rlim_cur {
        // SAFETY: `raised` is live; the call only reads it.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        syscall!(setrlimit, result)?;
    }
    let (before, now) = (count(limit.rlim_cur), count(raised.rlim_cur));
    Ok(Descriptors { before, now, hard: count(hard) })
}

/// `setrlimit(2)`: sets the limit of open descriptors to `count`. Privileged processes may exceed
/// the hard limit.
///
/// # Errors
/// See the manual page.
pub fn allow_descriptors(count: u64) -> io::Result<()> {
    let count = libc::rlim_t::try_from(count).unwrap_or(libc::rlim_t::MAX);
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: `limit` is live; the call only reads it.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    syscall!(setrlimit, result).map(drop)
}

/// Linux's `prlimit(2)` for locked memory.
///
/// # Errors
/// `Unsupported`: nothing here needs locked memory.
pub fn locked_memory() -> io::Result<(u64, u64)> {
    Err(unsupported("RLIMIT_MEMLOCK"))
}

/// Linux's `prlimit(2)` for locked memory.
///
/// # Errors
/// `Unsupported`, as above.
pub fn allow_locked_memory(_soft: u64, _hard: u64) -> io::Result<()> {
    Err(unsupported("RLIMIT_MEMLOCK"))
}

#[allow(clippy::useless_conversion, reason = "FreeBSD's limits have a sign")]
fn count(limit: libc::rlim_t) -> u64 {
    u64::try_from(limit).unwrap_or(u64::MAX)
}

/// Linux's `malloc_trim(3)`: the allocators here return memory themselves.
pub fn trim_memory() {}

/// Resident memory of this process: Linux's `/proc/self/statm`.
///
/// # Errors
/// `Unsupported`.
pub fn resident_bytes() -> io::Result<u64> {
    Err(unsupported("resident memory"))
}

/// Linux's `/proc/sys/kernel/random/boot_id`.
///
/// # Errors
/// `Unsupported`.
pub fn boot_id() -> io::Result<String> {
    Err(unsupported("the boot id"))
}
