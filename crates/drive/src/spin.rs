//! Polling for a while before sleeping.
//!
//! A thread that sleeps takes some 50 us until it runs again: longer than a request takes. So a
//! loop that expects an event soon polls instead, and yields its core after each poll to other
//! threads.
//!
//! Polling pays off if the event arrives while the loop has the core. If the event comes from a
//! thread on the same core, it arrives only once the core is yielded, which a sleep does at less
//! cost. So from time to time a poll checks whether another thread had the core. Polls that did not
//! pay off are followed by rests, which grow with their number.

use std::time::{Duration, Instant};

/// Polling before sleeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Never.
    #[default]
    Off,
    /// For at most the time that a sleep and its end take.
    Auto,
    /// For at most so long.
    Within(Duration),
}

/// How the next wait begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It sleeps, and the duration is not measured.
    Rest,
    /// It sleeps.
    Sleep,
    /// It polls for at most so long.
    Poll {
        /// As long as that.
        budget: Duration,
        /// Whether the core was given away meanwhile is looked at.
        watched: bool,
    },
}

/// What came of polling in a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// There was none, or no need of it.
    No,
    /// Something was ready in time.
    Found,
    /// The same, but another thread had the core meanwhile.
    Ceded,
    /// Nothing was ready in time; it took so long.
    InVain(Duration),
}

/// How long waits have been of late, what came of polling, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    spin: Spin,
    budget_ns: u64,
    mean_ns: u64,
    /// What may be polled in vain: a share of all time.
    allowance_ns: u64,
    /// Grows with each poll that did not pay, and shrinks with each that did: for so many times as
    /// long as the next one that does not pay, there is a rest.
    doubt: u32,
    rests_until: Option<Instant>,
    polls: u32,
}

impl Habit {
    /// `None`: no polling.
    pub(crate) fn new(spin: Spin) -> Option<Self> {
        let budget_ns = match spin {
            Spin::Off => return None,
            Spin::Auto => AUTO_NS,
            Spin::Within(time) => nanos(time),
        };
        Some(Self {
            spin,
            budget_ns,
            mean_ns: 0, // the first waits are given a chance
            allowance_ns: ALLOWANCE_MAX * budget_ns,
            doubt: 0,
            rests_until: None,
            polls: 0,
        })
    }

    pub(crate) fn spin(self) -> Spin {
        self.spin
    }

    /// How the next wait begins.
    pub(crate) fn plan(&mut self, now: Instant) -> Plan {
        if self.rests_until.is_some_and(|until| now < until) {
            return Plan::Rest;
        }
        if self.mean_ns > MEAN_TIMES * self.budget_ns || self.allowance_ns < self.budget_ns {
            return Plan::Sleep;
        }
        self.polls = self.polls.wrapping_add(1);
        let watched = self.doubt > 0 || self.polls.is_multiple_of(WATCH_EVERY);
        Plan::Poll { budget: Duration::from_nanos(self.budget_ns), watched }
    }

    /// A wait that took so long has ended `now`.
    pub(crate) fn learn(&mut self, now: Instant, waited: Duration, polled: PollOutcome) {
        let waited_ns = nanos(waited);
        let counted = waited_ns.min(LONGEST_TIMES * self.budget_ns);
        self.mean_ns = (self.mean_ns * 7 + counted) / 8;
        let in_vain = if let PollOutcome::InVain(time) = polled { nanos(time) } else { 0 };
        let saved = self.allowance_ns.saturating_add(waited_ns / IDLE_SHARE);
        self.allowance_ns = saved.saturating_sub(in_vain).min(ALLOWANCE_MAX * self.budget_ns);
        match polled {
            PollOutcome::No => {}
            PollOutcome::Found => self.doubt /= 2,
            PollOutcome::Ceded => self.rest(now, waited),
            PollOutcome::InVain(time) => self.rest(now, time),
        }
    }

    /// Polling for `time` did not pay.
    fn rest(&mut self, now: Instant, time: Duration) {
        debug_assert!(self.doubt <= DOUBT_MAX, "doubt is bounded");
        self.rests_until = now.checked_add(time.saturating_mul(self.doubt));
        self.doubt = (self.doubt * 2).clamp(1, DOUBT_MAX);
    }
}

/// As much as can be reckoned with: an hour is for ever.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.min(Duration::from_secs(3600)).as_nanos()).expect("an hour fits")
}

/// About as long as one sleep and the way back from it.
const AUTO_NS: u64 = 50_000;
/// Mean waits up to so many budgets are given a chance: a sleep makes them longer than they would
/// be.
const MEAN_TIMES: u64 = 8;
/// A single long wait weighs no more than so many budgets.
const LONGEST_TIMES: u64 = 128;
/// One part in so many of all time may be polled in vain: 5 %.
const IDLE_SHARE: u64 = 20;
/// Of what was not polled in vain, so many budgets are kept for later.
const ALLOWANCE_MAX: u64 = 16;
/// Less than 1 % of all time is spent on polls that never pay off. A loop that has the core alone
/// again, or gets events sooner, detects it within a few milliseconds.
const DOUBT_MAX: u32 = 128;
/// Without doubt, one check for other threads per this number of polls: it takes two calls.
const WATCH_EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(time: u64) -> Duration {
        Duration::from_micros(time)
    }

    /// What is waited for.
    #[derive(Clone, Copy)]
    enum WaitCase {
        /// It comes from elsewhere, so long after the beginning of a wait; a sleep adds this.
        OwnCore { after: Duration, wake: Duration },
        /// It comes from this core, once that is given away for so long.
        OneCore { after: Duration },
        /// The same, and yielding does not give it away.
        OtherGroup { after: Duration },
    }

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Seen {
        polls: u32,
        watched: u32,
        lost: Duration, // by polling in vain, or while another thread had the core
        time: Duration,
    }

    struct Life {
        habit: Habit,
        now: Instant,
    }

    impl Life {
        fn new(spin: Spin) -> Self {
            Self { habit: Habit::new(spin).unwrap(), now: fulmar_sys::now() }
        }

        fn waits(&mut self, count: u32, world: WaitCase) -> Seen {
            let mut seen = Seen::default();
            for _ in 0..count {
                let waited = self.wait(world, &mut seen);
                self.now += waited;
                seen.time += waited;
            }
            seen
        }

        fn wait(&mut self, world: WaitCase, seen: &mut Seen) -> Duration {
            let (waited, polled) = match (self.habit.plan(self.now), world) {
                (Plan::Rest, _) => return sleep(world),
                (Plan::Sleep, _) => (sleep(world), PollOutcome::No),
                (Plan::Poll { budget, watched }, _) => {
                    seen.polls += 1;
                    seen.watched += u32::from(watched);
                    match world {
                        WaitCase::OwnCore { after, .. } if after <= budget => {
                            (after, PollOutcome::Found)
                        }
                        WaitCase::OneCore { after } if after <= budget && watched => {
                            (after, PollOutcome::Ceded)
                        }
                        WaitCase::OneCore { after } if after <= budget => {
                            (after, PollOutcome::Found)
                        }
                        WaitCase::OneCore { after } => (after, PollOutcome::InVain(after)),
                        WaitCase::OwnCore { .. } | WaitCase::OtherGroup { .. } => {
                            (budget + sleep(world), PollOutcome::InVain(budget))
                        }
                    }
                }
            };
            seen.lost += match polled {
                PollOutcome::Ceded => waited,
                PollOutcome::InVain(time) => time,
                PollOutcome::No | PollOutcome::Found => Duration::ZERO,
            };
            self.habit.learn(self.now + waited, waited, polled);
            waited
        }
    }

    fn sleep(world: WaitCase) -> Duration {
        match world {
            WaitCase::OwnCore { after, wake } => after + wake,
            WaitCase::OneCore { after } | WaitCase::OtherGroup { after } => after,
        }
    }

    fn own(after: u64) -> WaitCase {
        WaitCase::OwnCore { after: us(after), wake: us(50) }
    }

    #[test]
    fn short_waits_are_polled_for_and_long_ones_slept_through() {
        let mut life = Life::new(Spin::Auto);
        let seen = life.waits(1600, own(10));
        assert_eq!((seen.polls, seen.watched), (1600, 100));
        life.waits(100, own(5_000)); // it takes a few to unlearn
        assert_eq!(life.waits(1000, own(5_000)).polls, 0);
        assert_eq!(Habit::new(Spin::Off).map(|_| ()), None);
    }

    #[test]
    fn waits_that_sleeping_has_made_long_become_short_again() {
        let mut life = Life::new(Spin::Auto);
        life.waits(1000, own(150));
        life.waits(200, own(10));
        assert_eq!(life.waits(1000, own(10)).polls, 1000);
    }

    /// One of a hundred waits is long, and does not keep the others from being polled for.
    #[test]
    fn a_long_wait_now_and_then_is_forgiven() {
        let mut life = Life::new(Spin::Auto);
        let mut polls = 0;
        for _ in 0..100 {
            life.waits(1, own(70));
            polls += life.waits(99, own(10)).polls;
        }
        assert!(polls > 9_800, "{polls}");
    }

    /// Whether yielding gives the core to the other thread, or not, as in another scheduling group.
    #[test]
    fn on_a_core_that_is_shared_there_are_few_trials() {
        for after in [3, 10, 49, 60, 200] {
            for world in
                [WaitCase::OneCore { after: us(after) }, WaitCase::OtherGroup { after: us(after) }]
            {
                let mut life = Life::new(Spin::Auto);
                life.waits(3_000, world); // it takes some to learn
                let seen = life.waits(100_000, world);
                assert!(seen.lost < seen.time / 100, "{after}: {seen:?}");
                let yields = !matches!(world, WaitCase::OtherGroup { .. });
                assert!(!yields || seen.polls < 1_000, "{after}: {seen:?}");
            }
        }
    }

    #[test]
    fn a_core_without_other_threads_is_detected_soon() {
        let mut life = Life::new(Spin::Auto);
        life.waits(10_000, WaitCase::OneCore { after: us(10) });
        life.waits(100, own(10)); // 6 ms, as they sleep
        assert_eq!(life.waits(1000, own(10)).polls, 1000);
        // Something that runs for once, however long, is forgotten at once.
        life.waits(1, WaitCase::OneCore { after: us(3_000) });
        life.waits(40, own(10));
        assert_eq!(life.waits(1000, own(10)).polls, 1000);
    }

    #[test]
    fn what_is_polled_in_vain_is_a_twentieth_of_all_time() {
        for after in [us(51), us(60), us(200), us(390), us(2_000), us(1_000_000)] {
            let mut life = Life::new(Spin::Auto);
            let seen = life.waits(100_000, WaitCase::OwnCore { after, wake: Duration::ZERO });
            assert!(seen.lost <= seen.time / 20 + us(50) * 16, "{after:?}: {seen:?}");
        }
    }

    #[test]
    fn any_budget_will_do() {
        for budget in [Duration::ZERO, us(1), Duration::MAX] {
            let mut life = Life::new(Spin::Within(budget));
            life.waits(1000, own(10));
            for polled in
                [PollOutcome::InVain(Duration::MAX), PollOutcome::Ceded, PollOutcome::Ceded]
            {
                life.habit.learn(life.now, Duration::MAX, polled);
            }
            life.waits(1000, own(10));
        }
    }
}
