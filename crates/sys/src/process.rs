//! This process and its threads: limits, processor time, memory, wake-ups.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use crate::file;
use crate::ledger::syscall;
use crate::socket;

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

/// `getrusage(2)` of the calling thread.
///
/// # Errors
/// As the manual page says.
pub fn thread_cpu() -> io::Result<CpuTimes> {
    usage(libc::RUSAGE_THREAD)
}

/// `getrusage(2)` of the whole process.
///
/// # Errors
/// As the manual page says.
pub fn process_cpu() -> io::Result<CpuTimes> {
    usage(libc::RUSAGE_SELF)
}

fn usage(who: libc::c_int) -> io::Result<CpuTimes> {
    // SAFETY: rusage is plain data; all-zero is a valid value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is live; the kernel fills it.
    let result = unsafe { libc::getrusage(who, &raw mut usage) };
    syscall!(getrusage, result)?;
    Ok(CpuTimes { user: duration(usage.ru_utime), system: duration(usage.ru_stime) })
}

fn duration(time: libc::timeval) -> Duration {
    let (seconds, micros) = (time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// `sched_getaffinity(2)`: the processors that the calling thread may run on.
///
/// # Errors
/// As the manual page says.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut set = no_cpus();
    // SAFETY: `set` is live for the size given; the kernel fills it.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    syscall!(sched_getaffinity, result)?;
    let len = usize::try_from(libc::CPU_SETSIZE).expect("a size");
    // SAFETY: every number is below CPU_SETSIZE, the number of bits of the set.
    Ok((0..len).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// `sched_setaffinity(2)`: the calling thread, and those that it starts, run on these processors.
///
/// # Errors
/// `EINVAL` if there is none of them.
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

/// `prlimit(2)`: raises the soft limit on descriptors to the hard one.
///
/// # Errors
/// As the manual page says.
pub fn raise_descriptors() -> io::Result<Descriptors> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: no new limit is given, and `limit` is live for the old one.
    let result = unsafe { libc::prlimit(0, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    syscall!(prlimit64, result)?;
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    if raised.rlim_cur != limit.rlim_cur {
        // SAFETY: `raised` is live; the old limit is not asked for.
        let result = unsafe {
            libc::prlimit(0, libc::RLIMIT_NOFILE, &raw const raised, std::ptr::null_mut())
        };
        syscall!(prlimit64, result)?;
    }
    Ok(Descriptors { before: limit.rlim_cur, now: raised.rlim_cur, hard: limit.rlim_max })
}

/// `eventfd(2)`: a descriptor on which another thread can wake this one.
///
/// # Errors
/// As the manual page says.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd(2) takes no pointers.
    let result = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    let fd = syscall!(eventfd2, result)?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `write(2)` on an eventfd: it becomes readable.
///
/// # Errors
/// As the manual page says.
pub fn eventfd_wake(fd: BorrowedFd<'_>) -> io::Result<()> {
    file::write(fd, &1_u64.to_ne_bytes()).map(drop)
}

/// `read(2)` on an eventfd: it is readable no more.
///
/// # Errors
/// As the manual page says; `EAGAIN` when nobody had woken it.
pub fn eventfd_drain(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut count = [0_u8; 8];
    file::read(fd, &mut count).map(drop)
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

/// `malloc_trim(3)`: free memory goes back to the system, which the allocator would keep for
/// later. Entered as one `madvise`, whatever calls it takes. Other C libraries than glibc have
/// nothing of the kind: there it does nothing.
pub fn trim_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: malloc_trim(3) takes no pointers, and touches free memory only.
        let result = unsafe { libc::malloc_trim(0) };
        let _ = syscall!(madvise, result); // whether there was any, nobody needs to know
    }
}

/// Memory of this process that is resident, from `/proc/self/statm` (`proc(5)`).
///
/// # Errors
/// There is no `/proc`, or it says something else.
pub fn resident_bytes() -> io::Result<u64> {
    let fd = file::open_read(Path::new("/proc/self/statm"))?;
    let mut buffer = [0_u8; 128];
    let read = file::pread(std::os::fd::AsFd::as_fd(&fd), &mut buffer, 0);
    socket::close(fd);
    let text = String::from_utf8_lossy(&buffer[..read?]).into_owned();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|field| field.parse().ok());
    // SAFETY: sysconf(3) takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = u64::try_from(page).map_err(io::Error::other)?;
    pages.map(|n| n * page).ok_or_else(|| io::Error::other("/proc/self/statm has no second field"))
}
