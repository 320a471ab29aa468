//! What was counted: calls by name, errors by number, bytes. Every counter fills it, every report
//! reads it.
//!
//! Counts only grow while a program runs, so a stretch of it (without its start, say) is the
//! difference of two snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

/// What the watched processes asked of the kernel, from the first moment or in a stretch.
///
/// ```
/// use fulmar_audit::{Backend, Counts, Tally};
/// let mut counts = Counts::none(Backend::Ebpf);
/// counts.calls.insert("recvfrom".into(), Tally { count: 3, bytes: 80, ..Tally::default() });
/// let earlier = counts.clone();
/// counts.calls.get_mut("recvfrom").unwrap().count = 5;
/// let stretch = counts.minus(&earlier);
/// assert_eq!(stretch.calls["recvfrom"].count, 2);
/// assert_eq!(stretch.total(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Calls that returned, by the kernel's name: `epoll_wait`. A number that has no name (a newer
    /// kernel's) is `syscall_N`. Calls that never return (`exit`, `exit_group`) and those still
    /// waiting at the end are in no count, as in `strace -c`.
    pub calls: BTreeMap<String, Tally>,
    /// Operations of io_uring, by the name of the opcode: `recv`. `None` where the kernel does not
    /// tell; then `ring_why` says so. A result of an operation that repeats itself (multishot) is
    /// not told with its name: it is entered as `(repeated)`, and was submitted once.
    pub ring: Option<BTreeMap<String, Tally>>,
    /// Why operations of io_uring, or only their results, were not counted: one sentence. Empty if
    /// they were.
    pub ring_why: String,
    /// Clock reads that need no system call (`vdso(7)`). `None` if nobody asked for them, or no
    /// program loaded what counts them.
    pub clock_reads: Option<u64>,
    /// What was seen and could not be entered. Counts are exact if this is zero.
    pub lost: u64,
    /// How many of these were calls of 32-bit programs, and of others whose numbers of calls mean
    /// something else (x32).
    pub foreign: u64,
    /// Threads that were ever watched.
    pub threads: u64,
    /// Processes that were ever watched.
    pub processes: u64,
    /// From the first moment to the snapshot, or between two of them.
    pub elapsed: Duration,
    /// Who counted.
    pub backend: Backend,
    /// The same calls by what the program was doing. `None` if nobody asked for it.
    pub by_phase: Option<ByPhase>,
    /// The same of operations of io_uring, once they are done. `None` if nobody asked for it, or the
    /// kernel does not tell.
    pub ring_by_phase: Option<ByPhase>,
}

/// Calls, or operations, by the part of a connection's life that they belong to, and by name.
pub type ByPhase = BTreeMap<Phase, BTreeMap<String, Tally>>;

impl Counts {
    /// Nothing was counted yet.
    pub fn none(backend: Backend) -> Self {
        Self {
            calls: BTreeMap::new(),
            ring: None,
            ring_why: String::new(),
            clock_reads: None,
            lost: 0,
            foreign: 0,
            threads: 0,
            processes: 0,
            elapsed: Duration::ZERO,
            backend,
            by_phase: None,
            ring_by_phase: None,
        }
    }

    /// All calls together.
    pub fn total(&self) -> u64 {
        self.calls.values().map(|tally| tally.count).sum()
    }

    /// All calls that failed with this number of `errno(3)`.
    pub fn failed_with(&self, errno: i32) -> u64 {
        self.calls.values().filter_map(|tally| tally.errors.get(&errno)).sum()
    }

    /// The stretch since an earlier snapshot of the same counter: what did not grow is left out.
    /// Threads and processes are not subtracted; they were there.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let none = BTreeMap::new();
        let ring = self.ring.as_ref();
        // They stand in memory that the program can write to, which promises nothing.
        let reads = |now: u64| now.saturating_sub(earlier.clock_reads.unwrap_or(0));
        Self {
            calls: minus(&self.calls, &earlier.calls),
            ring: ring.map(|ring| minus(ring, earlier.ring.as_ref().unwrap_or(&none))),
            ring_why: self.ring_why.clone(),
            clock_reads: self.clock_reads.map(reads),
            lost: self.lost - earlier.lost,
            foreign: self.foreign - earlier.foreign,
            threads: self.threads,
            processes: self.processes,
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            backend: self.backend,
            by_phase: phases_minus(self.by_phase.as_ref(), earlier.by_phase.as_ref()),
            ring_by_phase: phases_minus(
                self.ring_by_phase.as_ref(),
                earlier.ring_by_phase.as_ref(),
            ),
        }
    }

    /// Both together: two programs, or two stretches of one.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        add(&mut sum.calls, &other.calls);
        if let Some(ring) = &other.ring {
            add(sum.ring.get_or_insert_default(), ring);
        }
        if let Some(reads) = other.clock_reads {
            *sum.clock_reads.get_or_insert(0) += reads;
        }
        sum.lost += other.lost;
        sum.foreign += other.foreign;
        sum.threads += other.threads;
        sum.processes += other.processes;
        sum.elapsed += other.elapsed;
        phases_plus(&mut sum.by_phase, other.by_phase.as_ref());
        phases_plus(&mut sum.ring_by_phase, other.ring_by_phase.as_ref());
        sum
    }
}

fn phases_minus(now: Option<&ByPhase>, earlier: Option<&ByPhase>) -> Option<ByPhase> {
    let none = BTreeMap::new();
    let since = |(phase, calls): (&Phase, &BTreeMap<_, _>)| {
        let before = earlier.and_then(|phases| phases.get(phase));
        (*phase, minus(calls, before.unwrap_or(&none)))
    };
    Some(now?.iter().map(since).filter(|(_, calls)| !calls.is_empty()).collect())
}

fn phases_plus(sum: &mut Option<ByPhase>, other: Option<&ByPhase>) {
    for (phase, calls) in other.into_iter().flatten() {
        add(sum.get_or_insert_default().entry(*phase).or_default(), calls);
    }
}

/// One system call, or one operation: how often, how it failed, what it moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that returned, whatever their result.
    pub count: u64,
    /// How many of them failed, by `errno(3)`. Numbers from 512 on are the kernel's own: calls
    /// that a signal interrupted and that it makes again.
    pub errors: BTreeMap<i32, u64>,
    /// Bytes that it moved: the sum of its results, where these are bytes. Otherwise 0.
    pub bytes: u64,
    /// How many of them, by what an argument asked for: `ADD`, `MOD` and `DEL` of `epoll_ctl`. Each
    /// call is of one kind. Empty where the counter does not look at arguments.
    pub kinds: BTreeMap<String, u64>,
}

impl Tally {
    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn minus(&self, earlier: &Self) -> Self {
        Self {
            count: self.count - earlier.count,
            errors: since(&self.errors, &earlier.errors),
            bytes: self.bytes - earlier.bytes,
            kinds: since(&self.kinds, &earlier.kinds),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        for (errno, count) in &other.errors {
            *self.errors.entry(*errno).or_default() += count;
        }
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
    }
}

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A program in the kernel: exact, and hardly felt.
    Ebpf,
    /// `ptrace(2)`: exact, and two stops for each call.
    Ptrace,
}

impl Backend {
    /// Its name in reports and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::Ptrace => "ptrace",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Ebpf, Self::Ptrace].into_iter().find(|backend| backend.name() == name)
    }
}

/// What a program was doing for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Until the connection was there: `accept4` and what it takes to prepare its socket.
    Accept,
    /// The same for a connection that it begins: `socket`, `connect`.
    Connect,
    /// The handshake of TLS.
    Tls,
    /// From the first byte of a request until an answer has begun.
    Head,
    /// What follows a head, until the next request.
    Body,
    /// The end of the connection.
    Close,
    /// What belongs to no connection: waiting, logs, the clock.
    Other,
}

impl Phase {
    /// In the order of a connection's life.
    pub const ALL: [Self; 7] =
        [Self::Accept, Self::Connect, Self::Tls, Self::Head, Self::Body, Self::Close, Self::Other];

    /// Its name in reports and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Head => "head",
            Self::Body => "body",
            Self::Close => "close",
            Self::Other => "other",
        }
    }
}

fn minus(
    now: &BTreeMap<String, Tally>,
    earlier: &BTreeMap<String, Tally>,
) -> BTreeMap<String, Tally> {
    let none = Tally::default();
    let since = |(name, tally): (&String, &Tally)| {
        (name.clone(), tally.minus(earlier.get(name).unwrap_or(&none)))
    };
    now.iter().map(since).filter(|(_, tally)| !tally.is_empty()).collect()
}

/// What grew, and by how much.
fn since<K: Clone + Ord>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let grown =
        |(key, now): (&K, &u64)| (key.clone(), now - earlier.get(key).copied().unwrap_or(0));
    now.iter().map(grown).filter(|(_, count)| *count > 0).collect()
}

fn add(sum: &mut BTreeMap<String, Tally>, other: &BTreeMap<String, Tally>) {
    for (name, tally) in other {
        sum.entry(name.clone()).or_default().add(tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, calls, and how many of them failed, by number.
    type Row<'a> = (&'a str, u64, &'a [(i32, u64)]);

    fn counts(calls: &[Row<'_>]) -> Counts {
        let tally = |count, errors: &[(i32, u64)]| Tally {
            count,
            errors: errors.iter().copied().collect(),
            bytes: count * 10,
            kinds: [("any".to_owned(), count)].into(),
        };
        let mut counts = Counts::none(Backend::Ebpf);
        let entry = |(name, count, errors): &Row<'_>| ((*name).to_owned(), tally(*count, errors));
        counts.calls = calls.iter().map(entry).collect();
        counts
    }

    #[test]
    fn a_difference_leaves_out_what_did_not_grow() {
        let before = counts(&[("read", 3, &[(11, 1)]), ("open", 2, &[])]);
        let after = counts(&[("read", 5, &[(11, 1), (4, 2)]), ("open", 2, &[]), ("write", 1, &[])]);
        let stretch = after.minus(&before);
        assert_eq!(stretch, counts(&[("read", 2, &[(4, 2)]), ("write", 1, &[])]));
        assert_eq!((stretch.total(), stretch.failed_with(4), stretch.failed_with(11)), (3, 2, 0));
    }

    #[test]
    fn a_sum_less_one_part_is_the_other() {
        let mut one = counts(&[("read", 3, &[(11, 1)])]);
        one.by_phase = Some(BTreeMap::from([(Phase::Head, one.calls.clone())]));
        one.ring_by_phase = one.by_phase.clone();
        one.ring = Some(one.calls.clone());
        one.clock_reads = Some(4);
        let mut other = counts(&[("read", 1, &[]), ("write", 7, &[(32, 7)])]);
        other.by_phase = Some(BTreeMap::from([(Phase::Body, other.calls.clone())]));
        other.ring_by_phase = other.by_phase.clone();
        other.ring = Some(BTreeMap::new());
        other.clock_reads = Some(0);
        let (sum, nothing) = (one.plus(&other), counts(&[]));
        assert_eq!(sum.minus(&one), other);
        assert_eq!(sum.minus(&nothing), sum);
        assert_eq!(sum.by_phase.as_ref().map(BTreeMap::len), Some(2));
    }

    #[test]
    fn backends_are_known_by_their_names() {
        for backend in [Backend::Ebpf, Backend::Ptrace] {
            assert_eq!(Backend::named(backend.name()), Some(backend));
        }
        assert_eq!(Backend::named("strace"), None);
    }
}
