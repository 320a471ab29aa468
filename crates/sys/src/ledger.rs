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

macro_rules! calls {
    ($($name:ident),* $(,)?) => {
        /// A system call that we make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each is named for its manual page")]
        #[expect(non_camel_case_types, reason = "the kernel's names")]
        pub enum Call { $($name),* }

        impl Call {
            /// Every one of them, in the order in which reports show them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kernel's name for it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

calls!(
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
    prctl,
    gettid,
    pidfd_open,
    wait4,
    ptrace,
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
    clock_reads: u64,
}

impl Ledger {
    /// Nothing counted.
    pub const ZERO: Self = Self { counts: [Count { calls: 0, eagain: 0 }; LEN], clock_reads: 0 };

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

    /// All calls together.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.calls).sum()
    }

    /// All calls that answered `EAGAIN`.
    pub fn eagain(&self) -> u64 {
        self.counts.iter().map(|count| count.eagain).sum()
    }

    /// How often the clock was read. On Linux that is no system call (`vdso(7)`), but not free.
    pub fn clock_reads(&self) -> u64 {
        self.clock_reads
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let counts = std::array::from_fn(|at| Count {
            calls: with(self.counts[at].calls, other.counts[at].calls),
            eagain: with(self.counts[at].eagain, other.counts[at].eagain),
        });
        Self { counts, clock_reads: with(self.clock_reads, other.clock_reads) }
    }
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
    clock_reads: AtomicU64,
}

struct Entry {
    calls: AtomicU64,
    eagain: AtomicU64,
}

impl Book {
    fn new() -> Self {
        let entry = |_| Entry { calls: AtomicU64::new(0), eagain: AtomicU64::new(0) };
        Self { counts: std::array::from_fn(entry), clock_reads: AtomicU64::new(0) }
    }

    fn read(&self) -> Ledger {
        let count = |entry: &Entry| Count {
            calls: entry.calls.load(Ordering::Relaxed),
            eagain: entry.eagain.load(Ordering::Relaxed),
        };
        Ledger {
            counts: std::array::from_fn(|at| count(&self.counts[at])),
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
    let _ = BOOK.try_with(|book| {
        let entry = &book.counts[call as usize];
        increase(&entry.calls);
        if eagain {
            increase(&entry.eagain);
        }
    });
}

pub(crate) fn enter_clock_read() {
    let _ = BOOK.try_with(|book| increase(&book.clock_reads));
}

const LEN: usize = Call::ALL.len();

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
