//! What was counted: calls by name, errors by number, bytes. Counters fill it and reports read it.
//!
//! Counts only grow while a program runs. So an interval (for example, without the start) is the
//! difference of two snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call_times::{CallTimes, times_since};

/// System calls of the watched processes, since the start or in an interval.
///
/// ```
/// use fulmar_audit::{CountingBackend, CallCounts, CallTally};
/// let mut counts = CallCounts::none(CountingBackend::Ebpf);
/// let tally = CallTally { count: 3, bytes: 80, ..CallTally::default() };
/// counts.calls.insert("recvfrom".into(), tally);
/// let earlier = counts.clone();
/// counts.calls.get_mut("recvfrom").unwrap().count = 5;
/// let interval = counts.minus(&earlier);
/// assert_eq!(interval.calls["recvfrom"].count, 2);
/// assert_eq!(interval.total(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls that returned, by the kernel's name: `epoll_wait`. A number without a name (from a
    /// newer kernel) is `syscall_N`. Calls that never return (`exit`, `exit_group`) and those still
    /// blocked at the end are not counted, as in `strace -c`.
    pub calls: BTreeMap<String, CallTally>,
    /// Operations of io_uring, by the name of the opcode: `recv`. `None` if the kernel does not
    /// report them; `ring_why` has the reason. The kernel reports repeated (multishot) results
    /// without a name: they are entered as `(repeated)`, and the operation was submitted once.
    pub ring: Option<BTreeMap<String, CallTally>>,
    /// Why operations of io_uring, or only their results, were not counted: one sentence. Empty if
    /// they were counted.
    pub ring_why: String,
    /// Clock reads without a system call (`vdso(7)`). `None` if they were not counted, or no
    /// program loaded the counting library.
    pub clock_reads: Option<u64>,
    /// Events that could not be counted. If zero, the counts are exact.
    pub lost: u64,
    /// How many of these were calls of 32-bit programs, or used another numbering of calls (x32).
    pub foreign: u64,
    /// Number of threads watched so far.
    pub threads: u64,
    /// Number of processes watched so far.
    pub processes: u64,
    /// From the start of counting to the snapshot, or between two snapshots.
    pub elapsed: Duration,
    /// Which backend counted.
    pub backend: CountingBackend,
    /// The same calls by the phase of their connection. `None` if phases were not requested.
    pub by_phase: Option<ByPhase>,
    /// Completed operations of io_uring by the phase of their connection. `None` if phases were not
    /// requested, or the kernel does not report operations.
    pub ring_by_phase: Option<ByPhase>,
    /// The time in calls and between them. `None` if times were not requested.
    pub times: Option<CallTimes>,
}

/// Calls, or operations, by the phase of their connection, then by name.
pub type ByPhase = BTreeMap<ConnectionPhase, BTreeMap<String, CallTally>>;

impl CallCounts {
    /// Empty counts.
    pub fn none(backend: CountingBackend) -> Self {
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
            times: None,
        }
    }

    /// The sum of all calls.
    pub fn total(&self) -> u64 {
        self.calls.values().map(|tally| tally.count).sum()
    }

    /// All calls that failed with this `errno(3)`.
    pub(crate) fn failed_with(&self, errno: i32) -> u64 {
        self.calls.values().filter_map(|tally| tally.errors.get(&errno)).sum()
    }

    /// The counts since an earlier snapshot of the same counter. Entries that did not grow are left
    /// out. Threads and processes are not subtracted: they still existed.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let none = BTreeMap::new();
        let ring = self.ring.as_ref();
        // The count is in memory that the program can write to, so it may decrease.
        let reads = |now: u64| now.saturating_sub(earlier.clock_reads.unwrap_or(0));
        Self {
            calls: minus(&self.calls, &earlier.calls),
            ring: ring.map(|ring| minus(ring, earlier.ring.as_ref().unwrap_or(&none))),
            ring_why: self.ring_why.clone(),
            clock_reads: self.clock_reads.map(reads),
            // Phases may have received events since that were late at the earlier snapshot.
            lost: self.lost.saturating_sub(earlier.lost),
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
            times: self
                .times
                .as_ref()
                .map(|now| times_since(now, earlier.times.as_ref().unwrap_or(&CallTimes::new()))),
        }
    }

    /// The sum of both: of two programs, or of two intervals of one.
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
        for (name, time) in other.times.iter().flatten() {
            sum.times.get_or_insert_default().entry(name.clone()).or_default().add(*time);
        }
        sum
    }
}

fn phases_minus(now: Option<&ByPhase>, earlier: Option<&ByPhase>) -> Option<ByPhase> {
    let none = BTreeMap::new();
    let since = |(phase, calls): (&ConnectionPhase, &BTreeMap<_, _>)| {
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

/// One system call, or one operation: number of calls, errors, bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTally {
    /// Calls that returned, with any result.
    pub count: u64,
    /// How many of them failed, by `errno(3)`. Numbers from 512 on are internal to the kernel:
    /// calls that a signal interrupted and that the kernel restarts.
    pub errors: BTreeMap<i32, u64>,
    /// Bytes transferred: the sum of the results if they are byte counts, otherwise 0.
    pub bytes: u64,
    /// How many of them, by an argument: `ADD`, `MOD` and `DEL` of `epoll_ctl`. Each call has one
    /// kind. Empty if the counter does not read this call's arguments.
    pub kinds: BTreeMap<String, u64>,
}

impl CallTally {
    /// The number of failed calls.
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

/// The mechanism that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountingBackend {
    /// A program in the kernel: exact, with little overhead.
    Ebpf,
    /// `ptrace(2)`: exact, with two stops for each call.
    Ptrace,
}

impl CountingBackend {
    /// Its name in reports and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::Ptrace => "ptrace",
        }
    }

    /// The backend with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Ebpf, Self::Ptrace].into_iter().find(|backend| backend.name() == name)
    }
}

/// What a program was doing for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionPhase {
    /// Accepting a connection: `accept4` and the preparation of its socket.
    Accept,
    /// Opening a connection: `socket`, `connect`.
    Connect,
    /// The TLS handshake.
    Tls,
    /// From the first byte of a request to the first bytes of the response.
    Head,
    /// The rest of the response, up to the next request; and the body of a request.
    Body,
    /// Closing the connection.
    Close,
    /// Outside any connection: waiting, logs, the clock.
    Other,
}

impl ConnectionPhase {
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
    now: &BTreeMap<String, CallTally>,
    earlier: &BTreeMap<String, CallTally>,
) -> BTreeMap<String, CallTally> {
    let none = CallTally::default();
    let since = |(name, tally): (&String, &CallTally)| {
        (name.clone(), tally.minus(earlier.get(name).unwrap_or(&none)))
    };
    now.iter().map(since).filter(|(_, tally)| !tally.is_empty()).collect()
}

/// The entries that grew, with their growth.
fn since<K: Clone + Ord>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let grown =
        |(key, now): (&K, &u64)| (key.clone(), now - earlier.get(key).copied().unwrap_or(0));
    now.iter().map(grown).filter(|(_, count)| *count > 0).collect()
}

fn add(sum: &mut BTreeMap<String, CallTally>, other: &BTreeMap<String, CallTally>) {
    for (name, tally) in other {
        sum.entry(name.clone()).or_default().add(tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_times::CallTime;

    /// Name, calls, and how many of them failed, by number.
    type Row<'a> = (&'a str, u64, &'a [(i32, u64)]);

    fn counts(calls: &[Row<'_>]) -> CallCounts {
        let tally = |count, errors: &[(i32, u64)]| CallTally {
            count,
            errors: errors.iter().copied().collect(),
            bytes: count * 10,
            kinds: [("any".to_owned(), count)].into(),
        };
        let mut counts = CallCounts::none(CountingBackend::Ebpf);
        let entry = |(name, count, errors): &Row<'_>| ((*name).to_owned(), tally(*count, errors));
        counts.calls = calls.iter().map(entry).collect();
        counts
    }

    #[test]
    fn a_difference_leaves_out_what_did_not_grow() {
        let before = counts(&[("read", 3, &[(11, 1)]), ("open", 2, &[])]);
        let after = counts(&[("read", 5, &[(11, 1), (4, 2)]), ("open", 2, &[]), ("write", 1, &[])]);
        let interval = after.minus(&before);
        assert_eq!(interval, counts(&[("read", 2, &[(4, 2)]), ("write", 1, &[])]));
        assert_eq!(
            (interval.total(), interval.failed_with(4), interval.failed_with(11)),
            (3, 2, 0)
        );
    }

    #[test]
    fn a_sum_less_one_part_is_the_other() {
        let mut one = counts(&[("read", 3, &[(11, 1)])]);
        one.by_phase = Some(BTreeMap::from([(ConnectionPhase::Head, one.calls.clone())]));
        one.ring_by_phase = one.by_phase.clone();
        one.ring = Some(one.calls.clone());
        one.clock_reads = Some(4);
        let mut other = counts(&[("read", 1, &[]), ("write", 7, &[(32, 7)])]);
        other.by_phase = Some(BTreeMap::from([(ConnectionPhase::Body, other.calls.clone())]));
        other.ring_by_phase = other.by_phase.clone();
        let time = |inside_ns, before_ns| CallTime { inside_ns, before_ns };
        one.times = Some([("read".to_owned(), time(5, 2))].into());
        other.times =
            Some([("read".to_owned(), time(1, 0)), ("write".to_owned(), time(0, 9))].into());
        other.ring = Some(BTreeMap::new());
        other.clock_reads = Some(0);
        let (sum, nothing) = (one.plus(&other), counts(&[]));
        assert_eq!(sum.minus(&one), other);
        assert_eq!(sum.minus(&nothing), sum);
        assert_eq!(sum.by_phase.as_ref().map(BTreeMap::len), Some(2));
    }

    #[test]
    fn backends_are_known_by_their_names() {
        for backend in [CountingBackend::Ebpf, CountingBackend::Ptrace] {
            assert_eq!(CountingBackend::named(backend.name()), Some(backend));
        }
        assert_eq!(CountingBackend::named("strace"), None);
    }
}
