//! The ledger: counts the system calls of each thread by name, where they are made.
//!
//! Calls made by libraries (the allocator's `mmap`, thread creation) are not counted.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of calls, whatever their result.
    pub calls: u64,
    /// Number of calls that returned `EAGAIN`: avoidable calls.
    pub eagain: u64,
}

macro_rules! names {
    ($(#[$about:meta])* $type:ident: $($name:ident),* $(,)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each has the name of its manual page")]
        #[expect(non_camel_case_types, reason = "names of system calls")]
        pub enum $type { $($name),* }

        impl $type {
            /// All of them, in the order of reports.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kernel's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

names!(
    /// A system call of this crate. `epoll_wait_empty` is an `epoll_wait` for busy polling that
    /// found nothing: the cost of polling has its own count.
    Call:
    accept4,
    accept,
    socket,
    connect,
    bind,
    listen,
    getsockname,
    getsockopt,
    setsockopt,
    recv,
    send,
    sendmsg,
    sendfile,
    recvmsg,
    splice,
    pipe2,
    pipe,
    fcntl,
    ioctl,
    shutdown,
    close,
    epoll_create1,
    epoll_ctl,
    epoll_wait,
    epoll_wait_empty,
    epoll_pwait2,
    poll,
    eventfd2,
    openat,
    openat2,
    fstat,
    newfstatat,
    fchmod,
    fchmodat,
    unlinkat,
    getdents64,
    pread64,
    pwrite64,
    read,
    write,
    ftruncate,
    fsync,
    syncfs,
    renameat2,
    renameat,
    linkat,
    mkdirat,
    flock,
    madvise,
    getrusage,
    prlimit64,
    getrlimit,
    setrlimit,
    sched_getaffinity,
    sched_setaffinity,
    geteuid,
    fork,
    dup2,
    setsid,
    setuid,
    setgid,
    setgroups,
    kill,
    io_uring_setup,
    io_uring_enter,
    io_uring_register,
    sched_yield,
    prctl,
    rt_sigprocmask,
    gettid,
    pidfd_open,
    wait4,
    ptrace,
    tgkill,
    rt_sigaction,
);

names!(
    /// An operation of `io_uring_enter(2)`: not a system call, but with similar work.
    Operation: accept, recv, send, close
);

/// The system calls of one or more threads.
///
/// ```
/// use fulmar_sys::{Call, Ledger};
/// let before = Ledger::here();
/// fulmar_sys::epoll_create().unwrap();
/// let made = Ledger::here() - before;
/// assert_eq!(made.count(Call::epoll_create1).calls, 1);
/// assert_eq!(made.total(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    counts: [Count; LEN],
    operations: [Count; OPERATIONS_LEN],
    clock_reads: u64,
}

impl Ledger {
    /// No calls.
    pub const ZERO: Self = Self {
        counts: [Count { calls: 0, eagain: 0 }; LEN],
        operations: [Count { calls: 0, eagain: 0 }; OPERATIONS_LEN],
        clock_reads: 0,
    };

    /// The counts of the calling thread since its start.
    pub fn here() -> Self {
        COUNTERS.with(|counters| counters.read())
    }

    /// The count of one system call.
    pub fn count(&self, call: Call) -> Count {
        self.counts[call as usize]
    }

    /// All system calls with a count above zero.
    pub fn iter(&self) -> impl Iterator<Item = (Call, Count)> {
        Call::ALL.iter().map(|call| (*call, self.count(*call))).filter(|(_, c)| c.calls > 0)
    }

    /// The count of one operation inside `io_uring_enter(2)`; operations are not calls.
    pub fn operation(&self, operation: Operation) -> Count {
        self.operations[operation as usize]
    }

    /// All operations inside `io_uring_enter(2)` with a count above zero.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, Count)> {
        let all = Operation::ALL.iter().map(|it| (*it, self.operation(*it)));
        all.filter(|(_, count)| count.calls > 0)
    }

    /// The sum of all operations inside `io_uring_enter(2)`.
    pub fn operations_total(&self) -> u64 {
        self.operations.iter().map(|count| count.calls).sum()
    }

    /// The sum of all calls.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.calls).sum()
    }

    /// The number of calls, and operations inside them, that returned `EAGAIN`.
    pub fn eagain(&self) -> u64 {
        self.counts.iter().chain(&self.operations).map(|count| count.eagain).sum()
    }

    /// The number of clock reads. On Linux they are no system calls (`vdso(7)`), but have a cost.
    pub fn clock_reads(&self) -> u64 {
        self.clock_reads
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64 + Copy) -> Self {
        Self {
            counts: zip(self.counts, other.counts, with),
            operations: zip(self.operations, other.operations, with),
            clock_reads: with(self.clock_reads, other.clock_reads),
        }
    }
}

fn zip<const N: usize>(
    ours: [Count; N],
    others: [Count; N],
    with: impl Fn(u64, u64) -> u64,
) -> [Count; N] {
    std::array::from_fn(|at| Count {
        calls: with(ours[at].calls, others[at].calls),
        eagain: with(ours[at].eagain, others[at].eagain),
    })
}

impl Default for Ledger {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Sub for Ledger {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, |now, then| now - then)
    }
}

impl Add for Ledger {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

/// The ledger of one thread, readable by other threads. It outlives its thread.
///
/// ```
/// use fulmar_sys::{Call, ThreadLedger};
/// let thread = std::thread::spawn(|| {
///     let ledger = ThreadLedger::here();
///     fulmar_sys::epoll_create().unwrap();
///     ledger
/// });
/// let ledger = thread.join().unwrap().read();
/// assert_eq!(ledger.count(Call::epoll_create1).calls, 1);
/// ```
#[derive(Clone)]
pub struct ThreadLedger(Arc<ThreadCounters>);

impl ThreadLedger {
    /// The ledger of the calling thread.
    pub fn here() -> Self {
        Self(COUNTERS.with(Arc::clone))
    }

    /// The counts so far.
    pub fn read(&self) -> Ledger {
        self.0.read()
    }
}

impl fmt::Debug for ThreadLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadLedger").field(&self.read().total()).finish()
    }
}

/// The counters of a thread. Only its thread writes, so increments need no atomic
/// read-modify-write.
struct ThreadCounters {
    counts: [CallCounter; LEN],
    operations: [CallCounter; OPERATIONS_LEN],
    clock_reads: AtomicU64,
}

#[derive(Default)]
struct CallCounter {
    calls: AtomicU64,
    eagain: AtomicU64,
}

impl CallCounter {
    fn read(&self) -> Count {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Count { calls: of(&self.calls), eagain: of(&self.eagain) }
    }

    fn add(&self, eagain: bool) {
        increase(&self.calls);
        if eagain {
            increase(&self.eagain);
        }
    }
}

impl ThreadCounters {
    fn new() -> Self {
        Self {
            counts: std::array::from_fn(|_| CallCounter::default()),
            operations: std::array::from_fn(|_| CallCounter::default()),
            clock_reads: AtomicU64::new(0),
        }
    }

    fn read(&self) -> Ledger {
        Ledger {
            counts: std::array::from_fn(|at| self.counts[at].read()),
            operations: std::array::from_fn(|at| self.operations[at].read()),
            clock_reads: self.clock_reads.load(Ordering::Relaxed),
        }
    }
}

fn increase(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

thread_local!(static COUNTERS: Arc<ThreadCounters> = Arc::new(ThreadCounters::new()));

/// Counts a call, and whether it returned `EAGAIN`. During the destruction of thread-local storage
/// nothing is counted.
pub(crate) fn enter(call: Call, eagain: bool) {
    let _ = COUNTERS.try_with(|counters| counters.counts[call as usize].add(eagain));
}

/// Counts an operation completed by `io_uring_enter(2)`.
#[cfg(target_os = "linux")]
pub(crate) fn enter_operation(operation: Operation, eagain: bool) {
    let _ = COUNTERS.try_with(|counters| counters.operations[operation as usize].add(eagain));
}

pub(crate) fn enter_clock_read() {
    let _ = COUNTERS.try_with(|counters| increase(&counters.clock_reads));
}

const LEN: usize = Call::ALL.len();
const OPERATIONS_LEN: usize = Operation::ALL.len();

/// Makes a call, counts it, and converts -1 into the error.
macro_rules! syscall {
    ($name:ident, $call:expr) => {{
        let result = $call;
        let outcome =
            if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) };
        let eagain = matches!(&outcome, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
        $crate::ledger::enter($crate::ledger::Call::$name, eagain);
        outcome
    }};
}
pub(crate) use syscall;
