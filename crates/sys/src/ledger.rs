//! System calls made by this thread, by name; counted where the call is made.
//!
//! Libraries' own calls (the allocator's `mmap`, a thread's start) are outside the ledger.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a system call was made, and how often it had nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Calls, whatever their result.
    pub calls: u64,
    /// Those that answered `EAGAIN`: calls that need not have been made.
    pub eagain: u64,
}

macro_rules! names {
    ($(#[$about:meta])* $type:ident: $($name:ident),* $(,)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each is named for its manual page")]
        #[expect(non_camel_case_types, reason = "the kernel's names")]
        pub enum $type { $($name),* }

        impl $type {
            /// Every one of them, in the order in which reports show them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kernel's name for it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

names!(
    /// A system call that we make. `epoll_wait_empty` is an `epoll_wait` of who polls
    /// instead of sleeping, that found nothing: what polling costs has a line of its own.
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
    /// What an `io_uring_enter(2)` is asked to do: no system call, and work like one.
    Operation: accept, recv, send, close
);

/// What one thread, or several, asked of the kernel.
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
    /// Nothing counted.
    pub const ZERO: Self = Self {
        counts: [Count { calls: 0, eagain: 0 }; LEN],
        operations: [Count { calls: 0, eagain: 0 }; OPERATIONS_LEN],
        clock_reads: 0,
    };

    /// What the calling thread has done since it began.
    pub fn here() -> Self {
        BOOK.with(|book| book.read())
    }

    /// The count of one call.
    pub fn count(&self, call: Call) -> Count {
        self.counts[call as usize]
    }

    /// The calls that were made at all, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Call, Count)> {
        Call::ALL.iter().map(|call| (*call, self.count(*call))).filter(|(_, c)| c.calls > 0)
    }

    /// The count of one operation inside `io_uring_enter(2)`; none of them is a call.
    pub fn operation(&self, operation: Operation) -> Count {
        self.operations[operation as usize]
    }

    /// The operations inside `io_uring_enter(2)` that there were at all, with their counts.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, Count)> {
        let all = Operation::ALL.iter().map(|it| (*it, self.operation(*it)));
        all.filter(|(_, count)| count.calls > 0)
    }

    /// All operations inside `io_uring_enter(2)` together.
    pub fn operations_total(&self) -> u64 {
        self.operations.iter().map(|count| count.calls).sum()
    }

    /// All calls together.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.calls).sum()
    }

    /// All calls, and operations inside them, that answered `EAGAIN`.
    pub fn eagain(&self) -> u64 {
        self.counts.iter().chain(&self.operations).map(|count| count.eagain).sum()
    }

    /// How often the clock was read. On Linux that is no system call (`vdso(7)`), but not free.
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

/// The ledger of one thread, for all others: it is read as it stands, and outlives its thread.
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
pub struct ThreadLedger(Arc<Book>);

impl ThreadLedger {
    /// That of the calling thread.
    pub fn here() -> Self {
        Self(BOOK.with(Arc::clone))
    }

    /// What its thread has done so far.
    pub fn read(&self) -> Ledger {
        self.0.read()
    }
}

impl fmt::Debug for ThreadLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadLedger").field(&self.read().total()).finish()
    }
}

/// The ledger of a thread while it is being written. Only its thread writes, so no write needs to
/// be one step with its read.
struct Book {
    counts: [Entry; LEN],
    operations: [Entry; OPERATIONS_LEN],
    clock_reads: AtomicU64,
}

#[derive(Default)]
struct Entry {
    calls: AtomicU64,
    eagain: AtomicU64,
}

impl Entry {
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

impl Book {
    fn new() -> Self {
        Self {
            counts: std::array::from_fn(|_| Entry::default()),
            operations: std::array::from_fn(|_| Entry::default()),
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

thread_local!(static BOOK: Arc<Book> = Arc::new(Book::new()));

/// Enters a call and whether it had nothing to do. A thread whose memory is being taken down
/// enters nothing any more.
pub(crate) fn enter(call: Call, eagain: bool) {
    let _ = BOOK.try_with(|book| book.counts[call as usize].add(eagain));
}

/// Enters an operation that an `io_uring_enter(2)` has done.
#[cfg(target_os = "linux")]
pub(crate) fn enter_operation(operation: Operation, eagain: bool) {
    let _ = BOOK.try_with(|book| book.operations[operation as usize].add(eagain));
}

pub(crate) fn enter_clock_read() {
    let _ = BOOK.try_with(|book| increase(&book.clock_reads));
}

const LEN: usize = Call::ALL.len();
const OPERATIONS_LEN: usize = Operation::ALL.len();

/// Makes a call, enters it, and turns -1 into the error it stands for.
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
