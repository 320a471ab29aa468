//! This process and its threads: Linux calls.

use std::io;
use std::path::Path;

use crate::file;
use crate::ledger::syscall;
use crate::process::{CpuTimes, Descriptors, rusage, usage};
use crate::socket;

/// `getrusage(2)` of the calling thread.
///
/// # Errors
/// See the manual page.
pub fn thread_cpu() -> io::Result<CpuTimes> {
    usage(libc::RUSAGE_THREAD)
}

/// `getrusage(2)` of the calling thread: the number of involuntary context switches, including
/// those after `sched_yield(2)`.
///
/// # Errors
/// See the manual page.
pub fn thread_switches() -> io::Result<u64> {
    Ok(rusage(libc::RUSAGE_THREAD)?.ru_nivcsw.unsigned_abs())
}

/// `sched_getaffinity(2)`: the CPUs that the calling thread may run on.
///
/// # Errors
/// See the manual page.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut set = no_cpus();
    // SAFETY: `set` is live for the size given; the kernel fills it.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    syscall!(sched_getaffinity, result)?;
    let len = usize::try_from(libc::CPU_SETSIZE).expect("a size");
    // SAFETY: every number is below CPU_SETSIZE, the number of bits of the set.
    Ok((0..len).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// `sched_setaffinity(2)`: restricts the calling thread, and the threads it starts, to these CPUs.
///
/// # Errors
/// `EINVAL` if none of them exists.
pub fn run_on_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = no_cpus();
    let len = usize::try_from(libc::CPU_SETSIZE).expect("a size");
    for cpu in cpus.iter().filter(|cpu| **cpu < len) {
        // SAFETY: the number is below CPU_SETSIZE, the number of bits of the set.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: `set` is live for the size given; the call only reads it.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    syscall!(sched_setaffinity, result).map(drop)
}

fn no_cpus() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is plain data; all-zero is a valid value of it.
    unsafe { std::mem::zeroed() }
}

/// `prlimit(2)`: raises the soft limit of open descriptors to the hard limit.
///
/// # Errors
/// See the manual page.
pub fn raise_descriptors() -> io::Result<Descriptors> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: no new limit is given, and `limit` is live for the old one.
    let result = unsafe { libc::prlimit(0, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    syscall!(prlimit64, result)?;
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    if raised.rlim_cur != limit.rlim_cur {
        // SAFETY: `raised` is live; the old limit is not requested.
        let result = unsafe {
            libc::prlimit(0, libc::RLIMIT_NOFILE, &raw const raised, std::ptr::null_mut())
        };
        syscall!(prlimit64, result)?;
    }
    Ok(Descriptors { before: limit.rlim_cur, now: raised.rlim_cur, hard: limit.rlim_max })
}

/// `prlimit(2)`: sets the limit of open descriptors to `count`. Privileged processes may exceed the
/// hard limit.
///
/// # Errors
/// See the manual page.
pub fn allow_descriptors(count: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: `limit` is live; the old one is not requested.
    let result =
        unsafe { libc::prlimit(0, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    syscall!(prlimit64, result).map(drop)
}

/// `prlimit(2)`: the soft and hard limits of locked memory in bytes.
///
/// # Errors
/// See the manual page.
pub fn locked_memory() -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: no new limit is given, and `limit` is live for the old one.
    let result =
        unsafe { libc::prlimit(0, libc::RLIMIT_MEMLOCK, std::ptr::null(), &raw mut limit) };
    syscall!(prlimit64, result)?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// `prlimit(2)`: sets the soft and hard limits of locked memory in bytes.
///
/// # Errors
/// See the manual page.
pub fn allow_locked_memory(soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` is live; the old one is not requested.
    let result =
        unsafe { libc::prlimit(0, libc::RLIMIT_MEMLOCK, &raw const limit, std::ptr::null_mut()) };
    syscall!(prlimit64, result).map(drop)
}

/// `malloc_trim(3)`: returns free memory of the allocator to the system. Counted as one `madvise`,
/// whatever calls it makes. Only glibc has it; with other C libraries this does nothing.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim(3) takes no pointers, and touches free memory only.
        let result = unsafe { libc::malloc_trim(0) };
        let _ = syscall!(madvise, result); // the result does not matter
    }
}

/// Resident memory of this process in bytes, from `/proc/self/statm` (`proc(5)`).
///
/// # Errors
/// There is no `/proc`, or the file has another format.
pub fn resident_bytes() -> io::Result<u64> {
    let text = read_text("/proc/self/statm")?;
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|field| field.parse().ok());
    // SAFETY: sysconf(3) takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = u64::try_from(page).map_err(io::Error::other)?;
    pages.map(|n| n * page).ok_or_else(|| io::Error::other("/proc/self/statm has no second field"))
}

/// An identifier of the current boot: `/proc/sys/kernel/random/boot_id`.
///
/// # Errors
/// See `openat(2)` and `pread(2)`.
pub fn boot_id() -> io::Result<String> {
    read_text("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// Reads a short file of `/proc`.
fn read_text(path: &str) -> io::Result<String> {
    let fd = file::open_read(Path::new(path))?;
    let mut buffer = [0_u8; 128];
    let read = file::pread(std::os::fd::AsFd::as_fd(&fd), &mut buffer, 0);
    socket::close(fd);
    Ok(String::from_utf8_lossy(&buffer[..read?]).into_owned())
}
