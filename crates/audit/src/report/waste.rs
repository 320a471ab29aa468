//! Avoidable calls, and how to avoid them.
//!
//! Each class is a pure function of the counts. If the counter has read the arguments
//! ([`CallTally::kinds`]) a class is exact. Otherwise it is estimated from the number of calls, and
//! marked so.

use super::errno::EAGAIN;
use super::group::CallGroup;
use super::run::AuditRun;
use super::unit::{accepted, connected};
use crate::counts::{CallCounts, CallTally};

/// A pattern of avoidable calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Reads that failed with `EAGAIN`.
    EagainReads,
    /// Accepts that failed with `EAGAIN`.
    EagainAccepts,
    /// `epoll_ctl` calls beyond one for each connection.
    WatchChurn,
    /// Waits with a timeout of 0.
    ZeroWaits,
    /// `poll` in a program that waits with epoll.
    PollAfterEpoll,
    /// Options set again on the same socket.
    RepeatedOptions,
    /// `fcntl` to make a descriptor non-blocking.
    FcntlNonblock,
    /// `rt_sigaction`, mostly in pairs: ignore and restore.
    SignalPairs,
    /// Examines files by name or descriptor.
    FileLooks,
    /// System calls that read the clock.
    ClockCalls,
    /// At least one clock read for each unit, without a system call.
    ClockReads,
}

/// The size of a class in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waste {
    /// The class.
    pub class: Class,
    /// The number of calls.
    pub count: u64,
    /// True if it follows from arguments; false if it is estimated from the number of calls.
    pub exact: bool,
}

/// The avoidable calls of a run above a threshold, the most first.
///
/// The threshold is 0.01 calls for each unit, or 1 % of all calls without a unit. Unless the unit
/// is a request, start and exit of the program are counted too. Then the calls must also exceed
/// what a program makes for these.
pub fn wastes(run: &AuditRun) -> Vec<Waste> {
    let matters = |waste: &Waste| match &run.unit {
        Some(unit) => {
            (unit.noun() == "request" || waste.count >= COUNT_MIN)
                && unit.share(waste.count) >= waste.class.share_min()
        }
        None => waste.count >= COUNT_MIN && waste.count >= run.counts.total() / 100,
    };
    let found = Class::ALL.into_iter().filter_map(|class| class.found(&run.counts));
    let mut found: Vec<_> = found.filter(|waste| waste.count > 0 && matters(waste)).collect();
    found.sort_by_key(|waste| std::cmp::Reverse(waste.count));
    found
}

impl Class {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::EagainReads,
        Self::EagainAccepts,
        Self::WatchChurn,
        Self::ZeroWaits,
        Self::PollAfterEpoll,
        Self::RepeatedOptions,
        Self::FcntlNonblock,
        Self::SignalPairs,
        Self::FileLooks,
        Self::ClockCalls,
        Self::ClockReads,
    ];

    /// Its name in reports and budgets.
    pub fn name(self) -> &'static str {
        match self {
            Self::EagainReads => "eagain-reads",
            Self::EagainAccepts => "eagain-accepts",
            Self::WatchChurn => "watch-churn",
            Self::ZeroWaits => "zero-waits",
            Self::PollAfterEpoll => "poll-after-epoll",
            Self::RepeatedOptions => "repeated-options",
            Self::FcntlNonblock => "fcntl-nonblock",
            Self::SignalPairs => "signal-pairs",
            Self::FileLooks => "file-looks",
            Self::ClockCalls => "clock-calls",
            Self::ClockReads => "clock-reads",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Advice, in sentences.
    pub fn advice(self) -> &'static str {
        match self {
            Self::EagainReads => {
                "Reads that found no data. Read after an event only, and stop after a read \
                 that did not fill its buffer: the socket is empty."
            }
            Self::EagainAccepts => {
                "Accepts that found no connection. Accept once for each event of a level-triggered \
                 listener: it reports again if there are more."
            }
            Self::WatchChurn => {
                "epoll_ctl beyond one for each connection. Register once, for reading, and wait \
                 for room to write only after EAGAIN; close(2) removes a registration by itself."
            }
            Self::ZeroWaits => {
                "Waits with a timeout of 0. Handle all pending events and then wait once, until \
                 the next deadline: that wait also returns what is ready now."
            }
            Self::PollAfterEpoll => {
                "poll(2) beside epoll. The event already reports that the socket is ready; try the \
                 call, and register the descriptor after EAGAIN."
            }
            Self::RepeatedOptions => {
                "Options set again on the same socket. TCP_NODELAY is set once, or inherited from \
                 the listener; send(2) with MSG_MORE does what TCP_CORK on and off does."
            }
            Self::FcntlNonblock => {
                "fcntl(2) or ioctl(2) to make a socket non-blocking. accept4(2) and socket(2) take \
                 SOCK_NONBLOCK."
            }
            Self::SignalPairs => {
                "rt_sigaction(2) around calls. send(2) with MSG_NOSIGNAL raises no SIGPIPE; or \
                 ignore it once, at the start."
            }
            Self::FileLooks => {
                "Calls that examine files. If they are the same files each time, cache the \
                 descriptor and the result of fstat(2) for as long as a response may be stale, and \
                 invalidate it with inotify(7) or a timeout."
            }
            Self::ClockCalls => {
                "The clock read by a system call. clock_gettime(2) needs none for CLOCK_MONOTONIC \
                 and CLOCK_REALTIME where the clock source allows it (vdso(7)); for clocks of \
                 processor time it always needs one."
            }
            Self::ClockReads => {
                "The clock read once for each unit, or more often. Read it once after a wait, and \
                 use that time for all events of that wait."
            }
        }
    }

    /// The size of this class. `None` if it does not follow from these counts.
    pub fn found(self, counts: &CallCounts) -> Option<Waste> {
        let (count, exact) = match self {
            Self::EagainReads => (eagain(counts, CallGroup::Receive), true),
            Self::EagainAccepts => (eagain(counts, CallGroup::Accept), true),
            Self::WatchChurn => watch_churn(counts),
            Self::ZeroWaits => (zero_waits(counts)?, true),
            Self::PollAfterEpoll => (poll_after_epoll(counts), true),
            Self::RepeatedOptions => repeated_options(counts),
            Self::FcntlNonblock => fcntl_nonblock(counts),
            Self::SignalPairs => (sum(counts, &["rt_sigaction"]), true),
            Self::FileLooks => (sum(counts, LOOKS), true),
            Self::ClockCalls => (sum(counts, CLOCK), true),
            Self::ClockReads => (counts.clock_reads?, true),
        };
        Some(Waste { class: self, count, exact })
    }

    /// The threshold for each unit.
    fn share_min(self) -> f64 {
        if self == Self::ClockReads { 1.0 } else { 0.01 }
    }
}

fn eagain(counts: &CallCounts, group: CallGroup) -> u64 {
    let ours = counts.calls.iter().filter(|(name, _)| CallGroup::of(name) == group);
    ours.filter_map(|(_, tally)| tally.errors.get(&EAGAIN)).sum()
}

/// A connection needs one registration. Changes and removals are known from arguments, or else are
/// the calls that exceed the connections.
fn watch_churn(counts: &CallCounts) -> (u64, bool) {
    match counts.calls.get("epoll_ctl") {
        Some(tally) if !tally.kinds.is_empty() => (kinds(tally, &["MOD", "DEL"]), true),
        Some(tally) => (tally.count.saturating_sub(accepted(counts) + connected(counts)), false),
        None => (0, true),
    }
}

/// Polls beside epoll are in a class of their own. `None` if there are waits, but all timeouts are
/// unknown.
fn zero_waits(counts: &CallCounts) -> Option<u64> {
    let is_wait = |name: &str| CallGroup::of(name) == CallGroup::Wait && name != "io_uring_enter";
    let is_beside = |name: &str| poll_after_epoll(counts) > 0 && POLLS.contains(&name);
    let waits = counts.calls.iter().filter(|(name, _)| is_wait(name) && !is_beside(name));
    let waits: Vec<_> = waits.map(|(_, tally)| tally).collect();
    let is_known = waits.is_empty() || waits.iter().any(|tally| !tally.kinds.is_empty());
    is_known.then(|| waits.iter().map(|tally| kinds(tally, &["zero"])).sum())
}

/// A poll without a timeout checks one event of an epoll wait. Polls with a timeout wait by
/// themselves; a program that hardly uses epoll usually waits that way.
fn poll_after_epoll(counts: &CallCounts) -> u64 {
    let waits = sum(counts, &["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
    let polls = POLLS.iter().filter_map(|poll| counts.calls.get(*poll));
    let checking = polls.map(|tally| kinds(tally, &["zero"])).sum();
    let waiting = sum(counts, POLLS).saturating_sub(checking);
    let beside =
        |polls: u64, most: u64| if waits.saturating_mul(most) >= polls { polls } else { 0 };
    beside(checking, CHECKING_MAX) + beside(waiting, WAITING_MAX)
}

/// Each option once for each socket. Without arguments, [`OPTIONS_USUAL`] options are assumed to
/// differ.
fn repeated_options(counts: &CallCounts) -> (u64, bool) {
    let Some(tally) = counts.calls.get("setsockopt") else { return (0, true) };
    let sockets = accepted(counts) + sum(counts, &["socket"]);
    if tally.kinds.is_empty() {
        return (tally.count.saturating_sub(sockets * OPTIONS_USUAL), false);
    }
    (tally.kinds.values().map(|count| count.saturating_sub(sockets)).sum(), true)
}

fn fcntl_nonblock(counts: &CallCounts) -> (u64, bool) {
    let ioctl = counts.calls.get("ioctl").map_or(0, |tally| kinds(tally, &["FIONBIO"]));
    match counts.calls.get("fcntl") {
        Some(tally) if tally.kinds.is_empty() => (tally.count + ioctl, false),
        Some(tally) => (kinds(tally, &["F_GETFL", "F_SETFL"]) + ioctl, true),
        None => (ioctl, true),
    }
}

fn sum(counts: &CallCounts, calls: &[&str]) -> u64 {
    calls.iter().filter_map(|call| counts.calls.get(*call)).map(|tally| tally.count).sum()
}

fn kinds(tally: &CallTally, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| tally.kinds.get(*name)).sum()
}

const POLLS: &[&str] = &["poll", "ppoll", "select", "pselect6"];
/// The most polls without a timeout for each wait. A wait returns some hundred events, seldom more,
/// and some programs poll twice for each.
const CHECKING_MAX: u64 = 4_096;
/// The most other polls for each wait.
const WAITING_MAX: u64 = 100;
const LOOKS: &[&str] =
    &["stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"];
const CLOCK: &[&str] = &["clock_gettime", "gettimeofday", "time"];
/// Programs make fewer of any class to start and to exit.
const COUNT_MIN: u64 = 100;
/// As many different options are usual on a server's socket.
const OPTIONS_USUAL: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{fail, run};
    use crate::report::unit::CountUnit;

    /// Avoidable calls of 1,000 requests on 10 connections, and the size of the class.
    type Case<'a> = (Class, &'a [(&'a str, u64)], u64, bool);

    #[test]
    fn each_class_has_its_calls() {
        let cases: &[Case<'_>] = &[
            (Class::WatchChurn, &[("epoll_ctl", 2_010)], 2_000, false),
            (Class::PollAfterEpoll, &[("epoll_wait", 900), ("poll", 1_000)], 1_000, true),
            (Class::RepeatedOptions, &[("setsockopt", 9_000)], 9_000 - 40, false),
            (Class::FcntlNonblock, &[("fcntl", 20)], 20, false),
            (Class::SignalPairs, &[("rt_sigaction", 2_000)], 2_000, true),
            (Class::FileLooks, &[("newfstatat", 1_000), ("fstat", 1_000)], 2_000, true),
            (Class::ClockCalls, &[("clock_gettime", 3_000)], 3_000, true),
        ];
        for (class, calls, count, exact) in cases {
            let mut run = run(1_000, calls);
            run.counts
                .calls
                .insert("accept4".into(), CallTally { count: 10, ..CallTally::default() });
            let found = [Waste { class: *class, count: *count, exact: *exact }];
            assert_eq!(wastes(&run), found, "{class:?}");
        }
    }

    #[test]
    fn calls_that_had_nothing_to_do() {
        let mut run =
            run(1_000, &[("recvfrom", 1_990), ("read", 5), ("accept4", 20), ("sendto", 9)]);
        fail(&mut run.counts, "recvfrom", EAGAIN, 990);
        fail(&mut run.counts, "recvfrom", libc::ECONNRESET, 3);
        fail(&mut run.counts, "read", EAGAIN, 5);
        fail(&mut run.counts, "accept4", EAGAIN, 10);
        fail(&mut run.counts, "sendto", EAGAIN, 9); // a full socket is not avoidable
        let found: Vec<_> = wastes(&run).into_iter().map(|w| (w.class, w.count)).collect();
        assert_eq!(found, [(Class::EagainReads, 995), (Class::EagainAccepts, 10)]);
    }

    /// A call with its arguments, and the class that reads them.
    #[test]
    fn arguments_make_a_class_exact() {
        for (class, call, kinds, count) in [
            (Class::WatchChurn, "epoll_ctl", &[("ADD", 900), ("MOD", 40), ("DEL", 60)][..], 100),
            (Class::ZeroWaits, "epoll_wait", &[("zero", 300), ("other", 700)], 300),
            (Class::RepeatedOptions, "setsockopt", &[("TCP_NODELAY", 10), ("TCP_CORK", 500)], 490),
            (Class::FcntlNonblock, "fcntl", &[("F_SETFL", 10), ("F_SETFD", 500)], 10),
            (Class::FcntlNonblock, "ioctl", &[("FIONBIO", 40), ("other", 5)], 40),
        ] {
            let calls = kinds.iter().map(|(_, count)| count).sum();
            let mut run = run(1_000, &[(call, calls), ("accept4", 10)]);
            let tally = run.counts.calls.get_mut(call).unwrap();
            tally.kinds = kinds.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect();
            assert_eq!(wastes(&run), [Waste { class, count, exact: true }], "{call}");
        }
    }

    #[test]
    fn rare_calls_are_no_waste() {
        let mut run = run(1_000, &[("rt_sigaction", 9), ("newfstatat", 9), ("read", 9_000)]);
        run.counts.clock_reads = Some(999);
        assert_eq!(wastes(&run), []);
        run.counts.clock_reads = Some(1_000);
        run.counts.calls.get_mut("newfstatat").unwrap().count = 10;
        let classes = |run: &AuditRun| wastes(run).iter().map(|w| w.class).collect::<Vec<_>>();
        assert_eq!(classes(&run), [Class::ClockReads, Class::FileLooks]);
        run.unit = CountUnit::new("item", 1_000);
        assert_eq!(classes(&run), [Class::ClockReads], "fewer than to begin and to end");
        run.unit = None;
        assert_eq!(classes(&run), [Class::ClockReads], "less than a hundred, and a hundredth");
    }

    #[test]
    fn a_zero_poll_beside_epoll_is_counted_once() {
        let mut run = run(1_000, &[("epoll_wait", 1_000), ("poll", 2_000)]);
        let zeros = [("zero".to_owned(), 2_000)].into();
        run.counts.calls.get_mut("poll").unwrap().kinds = zeros;
        let timed = [("timed".to_owned(), 1_000)].into();
        run.counts.calls.get_mut("epoll_wait").unwrap().kinds = timed;
        let poll = Waste { class: Class::PollAfterEpoll, count: 2_000, exact: true };
        assert_eq!(wastes(&run), [poll]);
        run.counts.calls.remove("epoll_wait");
        assert_eq!(wastes(&run), [Waste { class: Class::ZeroWaits, ..poll }]);
    }

    /// There may be one for each event, and a wait on a busy machine returns many events.
    #[test]
    fn zero_polls_are_beside_epoll_for_any_number_of_events() {
        for waits in [1, 10, 2_000] {
            let mut run = run(1_000, &[("epoll_wait", waits), ("poll", 2_100)]);
            let poll = run.counts.calls.get_mut("poll").unwrap();
            poll.kinds = [("zero".to_owned(), 2_000), ("timed".to_owned(), 100)].into();
            let timed = [("timed".to_owned(), waits)].into();
            run.counts.calls.get_mut("epoll_wait").unwrap().kinds = timed;
            let count = 2_100;
            assert_eq!(wastes(&run), [Waste { class: Class::PollAfterEpoll, count, exact: true }]);
        }
    }

    #[test]
    fn polls_without_epoll_are_no_waste() {
        assert_eq!(wastes(&run(1_000, &[("poll", 1_000)])), []);
        assert_eq!(wastes(&run(1_000, &[("poll", 1_000), ("epoll_wait", 9)])), []);
    }

    #[test]
    fn classes_are_known_by_their_names_and_all_have_advice() {
        for class in Class::ALL {
            assert_eq!(Class::named(class.name()), Some(class));
            assert!(class.advice().ends_with('.'));
            assert_eq!(
                CallGroup::named(class.name()),
                None,
                "a budget would not know which is meant"
            );
        }
    }
}
