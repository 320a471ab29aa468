//! Whether it pays to poll for a while before sleeping.
//!
//! A thread that sleeps takes some 50 us until it runs again: longer than a request takes. So who
//! is about to be needed polls instead. It does so only while waits have been that short of late,
//! and gives its core away after each poll to whoever else wants it.

use std::time::Duration;

/// Polling before sleeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Never.
    #[default]
    Off,
    /// For at most as long as a sleep and its end take.
    Auto,
    /// For at most so long.
    Within(Duration),
}

/// What came of polling in a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// It was not tried.
    No,
    /// Something was ready before the wait had to sleep.
    Found,
    /// Nothing was, for so long.
    InVain(Duration),
}

/// How long waits have been of late, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    spin: Spin,
    budget_ns: u64,
    mean_ns: u64,
    waits: u32,
    /// What may be polled in vain: a share of all time.
    allowance_ns: u64,
}

impl Habit {
    /// `None`: nobody wants to poll.
    pub(crate) fn new(spin: Spin) -> Option<Self> {
        let budget_ns = match spin {
            Spin::Off => return None,
            Spin::Auto => AUTO_NS,
            Spin::Within(time) => nanos(time),
        };
        let mean_ns = 0; // the first waits are given a chance
        Some(Self { spin, budget_ns, mean_ns, waits: 0, allowance_ns: ALLOWANCE_MAX * budget_ns })
    }

    pub(crate) fn spin(self) -> Spin {
        self.spin
    }

    /// For how long the next wait begins with polling.
    pub(crate) fn budget(&mut self) -> Option<Duration> {
        self.waits = self.waits.wrapping_add(1);
        // Sleeping itself makes waits longer than they would be: without trials it would never end.
        let is_trial =
            self.mean_ns <= TRIAL_TIMES * self.budget_ns && self.waits.is_multiple_of(TRIAL_EVERY);
        let pays = self.mean_ns <= self.budget_ns || is_trial;
        (pays && self.allowance_ns >= self.budget_ns)
            .then_some(Duration::from_nanos(self.budget_ns))
    }

    /// A wait has taken so long.
    pub(crate) fn learn(&mut self, waited: Duration, polled: Polled) {
        let waited = nanos(waited);
        let counted = waited.min(LONGEST_TIMES * self.budget_ns);
        self.mean_ns = match polled {
            // Waits were that long because of the sleep in them.
            Polled::Found if self.mean_ns > self.budget_ns => counted,
            _ => (self.mean_ns * 7 + counted) / 8,
        };
        let saved = self.allowance_ns.saturating_add(waited / IDLE_SHARE);
        let spent = if let Polled::InVain(time) = polled { nanos(time) } else { 0 };
        self.allowance_ns = saved.saturating_sub(spent).min(ALLOWANCE_MAX * self.budget_ns);
    }
}

/// As much as can be reckoned with: an hour is for ever.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.min(Duration::from_secs(3600)).as_nanos()).expect("an hour fits")
}

/// About as long as one sleep and the way back from it.
const AUTO_NS: u64 = 50_000;
/// Mean waits up to so many budgets are given a chance.
const TRIAL_TIMES: u64 = 8;
/// One wait in so many is a trial while the mean forbids polling.
const TRIAL_EVERY: u32 = 16;
/// A single long wait weighs no more than so many budgets.
const LONGEST_TIMES: u64 = 128;
/// One part in so many of all time may be polled in vain: 5 %.
const IDLE_SHARE: u64 = 20;
/// Of what was not polled in vain, so many budgets are kept for later.
const ALLOWANCE_MAX: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(time: u64) -> Duration {
        Duration::from_micros(time)
    }

    /// How many of `waits` waits begin with polling, if something comes `after` each.
    fn polled(habit: &mut Habit, waits: u32, after: Duration) -> u32 {
        let mut polled = 0;
        for _ in 0..waits {
            let came = match habit.budget() {
                Some(budget) if after <= budget => Polled::Found,
                Some(budget) => Polled::InVain(budget),
                None => Polled::No,
            };
            polled += u32::from(came != Polled::No);
            habit.learn(after, came);
        }
        polled
    }

    #[test]
    fn short_waits_are_polled_for_and_long_ones_slept_through() {
        let mut habit = Habit::new(Spin::Auto).unwrap();
        assert_eq!(polled(&mut habit, 1000, us(10)), 1000);
        polled(&mut habit, 100, us(5_000)); // it takes a few to unlearn
        assert_eq!(polled(&mut habit, 1000, us(5_000)), 0);
        assert_eq!(Habit::new(Spin::Off).map(|_| ()), None);
    }

    /// Each wait takes 100 us because of the sleep in it; awake, it would be 10.
    #[test]
    fn waits_that_sleeping_has_made_long_become_short_again() {
        let mut habit = Habit::new(Spin::Auto).unwrap();
        polled(&mut habit, 200, us(150));
        let mut spun = 0;
        for _ in 0..400 {
            match habit.budget() {
                Some(_) => {
                    spun += 1;
                    habit.learn(us(10), Polled::Found);
                }
                None => habit.learn(us(150), Polled::No),
            }
        }
        assert!(spun > 200, "{spun} of 400");
    }

    #[test]
    fn what_is_polled_in_vain_is_a_twentieth_of_all_time() {
        for after in [us(51), us(60), us(200), us(390), us(2_000), us(1_000_000)] {
            let mut habit = Habit::new(Spin::Auto).unwrap();
            let waits = 100_000;
            let in_vain = us(50) * polled(&mut habit, waits, after);
            assert!(
                in_vain <= after * waits / 20 + us(50) * 16,
                "{in_vain:?} of {waits} {after:?}"
            );
        }
    }

    #[test]
    fn any_budget_will_do() {
        for budget in [Duration::ZERO, us(1), Duration::MAX] {
            let mut habit = Habit::new(Spin::Within(budget)).unwrap();
            polled(&mut habit, 1000, us(10));
            polled(&mut habit, 1000, Duration::MAX);
        }
    }
}
