//! Calls that a program could do without, and how.
//!
//! Each class is a pure function of the counts. Where a counter tells calls apart by their
//! arguments ([`Tally::kinds`]) a class is exact; otherwise it goes by how often the call was made,
//! and says so.

use super::errno::EAGAIN;
use super::group::Group;
use super::run::Run;
use super::unit::{accepted, connected};
use crate::counts::{Counts, Tally};

/// A way of making more calls than the work needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Reads that found nothing.
    EagainReads,
    /// Accepts that found nobody.
    EagainAccepts,
    /// Changes of what is waited for, beyond one for each connection.
    WatchChurn,
    /// Waits that are told not to wait.
    ZeroWaits,
    /// `poll` in a program that waits with epoll.
    PollAfterEpoll,
    /// Options that are set again on a socket that has them.
    RepeatedOptions,
    /// `fcntl` to make a descriptor non-blocking.
    FcntlNonblock,
    /// `rt_sigaction`, mostly in pairs: ignore and restore.
    SignalPairs,
    /// Looks at files by their names or descriptors.
    FileLooks,
    /// System calls that read the clock.
    ClockCalls,
    /// More than one clock read for each unit, without a system call.
    ClockReads,
}

/// What a class comes to in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waste {
    /// What was wasted.
    pub class: Class,
    /// So many calls.
    pub count: u64,
    /// True if arguments told; false if it is what the number of calls suggests.
    pub exact: bool,
}

/// What a run wastes, as far as it matters: the worst first.
///
/// What matters is a hundredth of a call for each unit or more. Without a unit, it is a hundredth
/// of all calls, and more than a program makes to begin and to end.
pub fn wastes(run: &Run) -> Vec<Waste> {
    let matters = |waste: &Waste| match &run.unit {
        Some(unit) => unit.share(waste.count) >= waste.class.share_min(),
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

    /// What to do instead: sentences.
    pub fn advice(self) -> &'static str {
        match self {
            Self::EagainReads => {
                "Reads that found nothing. Read when an event told of something, and stop at a read \
                 that did not fill its buffer: the socket is empty."
            }
            Self::EagainAccepts => {
                "Accepts that found nobody. Accept once for each event of a level-triggered \
                 listener: it tells again if there are more."
            }
            Self::WatchChurn => {
                "epoll_ctl beyond one for each connection. Register once, for reading, and wait for \
                 room to write only after EAGAIN; close(2) removes a registration by itself."
            }
            Self::ZeroWaits => {
                "Waits with a timeout of 0. Do what is at hand and then wait once, until the next \
                 deadline: what is ready is told by that wait too."
            }
            Self::PollAfterEpoll => {
                "poll(2) beside epoll. The event has already said that the socket is ready; try the \
                 call, and register the descriptor if it says EAGAIN."
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
                "Looks at files that were just looked at. Keep the descriptor and what fstat(2) \
                 said for as long as an answer may be old, and let inotify(7) or a second do the rest."
            }
            Self::ClockCalls => {
                "The clock read by a system call. clock_gettime(2) needs none for CLOCK_MONOTONIC \
                 and CLOCK_REALTIME where the clock source allows it (vdso(7)); for clocks of \
                 processor time it always does."
            }
            Self::ClockReads => {
                "The clock read more than once for each unit. Read it once after a wait, and use \
                 that time for everything that the wait led to."
            }
        }
    }

    /// What it comes to; `None` if these counts do not tell.
    pub fn found(self, counts: &Counts) -> Option<Waste> {
        let (count, exact) = match self {
            Self::EagainReads => (eagain(counts, Group::Receive), true),
            Self::EagainAccepts => (eagain(counts, Group::Accept), true),
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

    /// So many for each unit matter.
    fn share_min(self) -> f64 {
        if self == Self::ClockReads { 1.0 } else { 0.01 }
    }
}

fn eagain(counts: &Counts, group: Group) -> u64 {
    let ours = counts.calls.iter().filter(|(name, _)| Group::of(name) == group);
    ours.filter_map(|(_, tally)| tally.errors.get(&EAGAIN)).sum()
}

/// A connection is registered once. Changes and removals are known as such or, without arguments,
/// are what exceeds the connections.
fn watch_churn(counts: &Counts) -> (u64, bool) {
    match counts.calls.get("epoll_ctl") {
        Some(tally) if !tally.kinds.is_empty() => (kinds(tally, &["MOD", "DEL"]), true),
        Some(tally) => (tally.count.saturating_sub(accepted(counts) + connected(counts)), false),
        None => (0, true),
    }
}

/// Polls beside epoll are in a class of their own. `None` if there are waits, and of none is known
/// how long they were to be.
fn zero_waits(counts: &Counts) -> Option<u64> {
    let is_wait = |name: &str| Group::of(name) == Group::Wait && name != "io_uring_enter";
    let is_beside = |name: &str| poll_after_epoll(counts) > 0 && POLLS.contains(&name);
    let waits = counts.calls.iter().filter(|(name, _)| is_wait(name) && !is_beside(name));
    let waits: Vec<_> = waits.map(|(_, tally)| tally).collect();
    let is_told = waits.is_empty() || waits.iter().any(|tally| !tally.kinds.is_empty());
    is_told.then(|| waits.iter().map(|tally| kinds(tally, &["zero"])).sum())
}

/// Polls of no time ask about what a wait has told of, each about one of its events. Others wait
/// themselves: of a program that hardly does so with epoll they are the usual way.
fn poll_after_epoll(counts: &Counts) -> u64 {
    let waits = sum(counts, &["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
    let polls = POLLS.iter().filter_map(|poll| counts.calls.get(*poll));
    let asking = polls.map(|tally| kinds(tally, &["zero"])).sum();
    let waiting = sum(counts, POLLS).saturating_sub(asking);
    let beside =
        |polls: u64, most: u64| if waits.saturating_mul(most) >= polls { polls } else { 0 };
    beside(asking, ASKING_MAX) + beside(waiting, WAITING_MAX)
}

/// Each option once for each socket. Without arguments, [`OPTIONS_USUAL`] of them may be different.
fn repeated_options(counts: &Counts) -> (u64, bool) {
    let Some(tally) = counts.calls.get("setsockopt") else { return (0, true) };
    let sockets = accepted(counts) + sum(counts, &["socket"]);
    if tally.kinds.is_empty() {
        return (tally.count.saturating_sub(sockets * OPTIONS_USUAL), false);
    }
    (tally.kinds.values().map(|count| count.saturating_sub(sockets)).sum(), true)
}

fn fcntl_nonblock(counts: &Counts) -> (u64, bool) {
    let ioctl = counts.calls.get("ioctl").map_or(0, |tally| kinds(tally, &["FIONBIO"]));
    match counts.calls.get("fcntl") {
        Some(tally) if tally.kinds.is_empty() => (tally.count + ioctl, false),
        Some(tally) => (kinds(tally, &["F_GETFL", "F_SETFL"]) + ioctl, true),
        None => (ioctl, true),
    }
}

fn sum(counts: &Counts, calls: &[&str]) -> u64 {
    calls.iter().filter_map(|call| counts.calls.get(*call)).map(|tally| tally.count).sum()
}

fn kinds(tally: &Tally, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| tally.kinds.get(*name)).sum()
}

const POLLS: &[&str] = &["poll", "ppoll", "select", "pselect6"];
/// Polls of no time beside one wait, at most: it tells of some hundred events, seldom of more, and
/// some ask twice about each.
const ASKING_MAX: u64 = 4_096;
/// Other polls beside one wait, at most.
const WAITING_MAX: u64 = 100;
const LOOKS: &[&str] =
    &["stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"];
const CLOCK: &[&str] = &["clock_gettime", "gettimeofday", "time"];
/// Programs that begin and end make fewer of any class.
const COUNT_MIN: u64 = 100;
/// As many different options a server may set on a socket before it counts as a habit.
const OPTIONS_USUAL: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run::tests::{fail, run};

    /// Calls that waste, of 1,000 requests on 10 connections, and what they come to.
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
            run.counts.calls.insert("accept4".into(), Tally { count: 10, ..Tally::default() });
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
        fail(&mut run.counts, "sendto", EAGAIN, 9); // a full socket is nobody's fault
        let found: Vec<_> = wastes(&run).into_iter().map(|w| (w.class, w.count)).collect();
        assert_eq!(found, [(Class::EagainReads, 995), (Class::EagainAccepts, 10)]);
    }

    /// A call with its arguments, and the class it is looked at for.
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
    fn what_happens_now_and_then_is_no_waste() {
        let mut run = run(1_000, &[("rt_sigaction", 9), ("newfstatat", 9), ("read", 9_000)]);
        run.counts.clock_reads = Some(999);
        assert_eq!(wastes(&run), []);
        run.counts.clock_reads = Some(1_000);
        run.counts.calls.get_mut("newfstatat").unwrap().count = 10;
        let classes = |run: &Run| wastes(run).iter().map(|w| w.class).collect::<Vec<_>>();
        assert_eq!(classes(&run), [Class::ClockReads, Class::FileLooks]);
        run.unit = None;
        assert_eq!(classes(&run), [Class::ClockReads], "less than a hundred, and a hundredth");
    }

    #[test]
    fn a_poll_of_no_time_beside_epoll_is_counted_once() {
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

    /// As many as there are events, of which a busy machine has many in a wait.
    #[test]
    fn polls_of_no_time_are_beside_epoll_however_many_events_a_wait_tells_of() {
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
            assert_eq!(Group::named(class.name()), None, "a budget would not know which is meant");
        }
    }
}
