//! Check scheduling, and health as a state machine.
//!
//! ```text
//! score   0 ......... rise-1 | rise ......... rise+fall-1
//!         Down               | Up (or Stopping, if the last check was conditional)
//!         a failure: back to 0; a success: +1, and at rise to the top
//! ```
//!
//! A server begins at `rise`: up, and down after its first failure. Pure: time and random numbers
//! are arguments.

use std::time::{Duration, Instant};

use crate::balance::member::Health;

/// Check settings of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckPlan {
    /// Successful checks until it is up; at least 1.
    pub(crate) rise: u32,
    /// Failed checks until it is down; at least 1.
    pub(crate) fall: u32,
    /// Time between two checks.
    pub(crate) interval: Duration,
    /// The interval during a transition between up and down; default: `interval`.
    pub(crate) fast_interval: Option<Duration>,
    /// The interval while it is down; default: `interval`.
    pub(crate) down_interval: Option<Duration>,
    /// Random deviation of the interval, in percent.
    pub(crate) spread_percent: u32,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckOutcome {
    /// Success.
    Passed,
    /// Success, but persistent sessions only.
    Conditional,
    /// Failure.
    Failed,
}

/// The action on too many errors of observed traffic (`on-error`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Use the fast interval. The other actions do this too.
    FastInter,
    /// Count as a failed check.
    FailCheck,
    /// Count as a failed check, and the next failed check marks it down.
    SuddenDeath,
    /// Mark it down.
    MarkDown,
}

/// The effect of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthUpdate {
    /// False if the result repeated the current state.
    pub(crate) counts: bool,
    /// The new health, if it changed.
    pub(crate) change: Option<Health>,
}

/// The health of a server.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    plan: CheckPlan,
    score: u32,
    health: Health,
    next: Instant,
}

impl Monitor {
    /// Up until a check fails; the first check is at `first`.
    pub(crate) fn new(plan: CheckPlan, first: Instant) -> Self {
        let plan = CheckPlan { rise: plan.rise.max(1), fall: plan.fall.max(1), ..plan };
        Self { score: plan.rise, plan, health: Health::Up, next: first }
    }

    /// The same with a known health at the start.
    #[must_use]
    pub(crate) fn known_as(mut self, health: Health) -> Self {
        self.force(health);
        self
    }

    /// The check settings.
    pub(crate) fn plan(&self) -> &CheckPlan {
        &self.plan
    }

    /// The time of the next check.
    pub(crate) fn next_check(&self) -> Instant {
        self.next
    }

    /// Postpones the next check: the server is not checked now.
    pub(crate) fn skip(&mut self, now: Instant) {
        self.next = now + self.interval();
    }

    /// Handles the result of a check. `dice`: a random number for the spread of checks.
    pub(crate) fn handle_result(
        &mut self,
        now: Instant,
        outcome: CheckOutcome,
        dice: u32,
    ) -> HealthUpdate {
        let before = self.score;
        match outcome {
            CheckOutcome::Failed => self.fall_one(),
            CheckOutcome::Passed | CheckOutcome::Conditional => self.rise_one(),
        }
        let change = self.judge(outcome);
        self.next = now + self.spread(self.interval(), dice);
        HealthUpdate { counts: self.score != before, change }
    }

    /// Handles too many consecutive errors of observed traffic.
    pub(crate) fn handle_errors(&mut self, now: Instant, reaction: Reaction) -> HealthUpdate {
        let before = self.score;
        match reaction {
            Reaction::FastInter => {}
            Reaction::FailCheck => self.fall_one(),
            Reaction::SuddenDeath => {
                self.score = self.score.min(self.plan.rise + 1);
                self.fall_one();
            }
            Reaction::MarkDown => {
                self.score = self.score.min(self.plan.rise);
                self.fall_one();
            }
        }
        let change = match reaction {
            Reaction::FastInter => None,
            Reaction::FailCheck | Reaction::SuddenDeath | Reaction::MarkDown => {
                self.judge(CheckOutcome::Failed)
            }
        };
        let soon = now + self.plan.fast_interval.unwrap_or(self.plan.interval);
        self.next = self.next.min(soon);
        HealthUpdate { counts: self.score != before, change }
    }

    /// Sets the health on behalf of an operator, until a check changes it.
    pub(crate) fn force(&mut self, health: Health) {
        self.health = health;
        self.score = if health == Health::Down { 0 } else { self.top() };
    }

    /// Resumes after maintenance: up until a check fails; a check is due now.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.health = Health::Up;
        self.score = self.plan.rise;
        self.next = now;
    }

    /// Progress: while down, successful checks and `rise`; while up, remaining failures and `fall`.
    pub(crate) fn progress(&self) -> (u32, u32) {
        match self.score >= self.plan.rise {
            true => (self.score - self.plan.rise + 1, self.plan.fall),
            false => (self.score, self.plan.rise),
        }
    }

    /// The score: up from `rise` on.
    pub(crate) fn score(&self) -> u32 {
        self.score
    }

    fn top(&self) -> u32 {
        self.plan.rise + self.plan.fall - 1
    }

    fn fall_one(&mut self) {
        self.score = self.score.saturating_sub(1);
        if self.score < self.plan.rise {
            self.score = 0;
        }
    }

    fn rise_one(&mut self) {
        if self.score < self.top() {
            self.score += 1;
        }
        if self.score >= self.plan.rise {
            self.score = self.top();
        }
    }

    /// Derives the health from the score.
    fn judge(&mut self, outcome: CheckOutcome) -> Option<Health> {
        let health = match outcome {
            _ if self.score < self.plan.rise => Health::Down,
            CheckOutcome::Passed => Health::Up,
            CheckOutcome::Conditional => Health::Stopping,
            CheckOutcome::Failed => self.health,
        };
        debug_assert!(self.score <= self.top(), "the score stays in its range");
        let changed = health != self.health;
        self.health = health;
        changed.then_some(health)
    }

    /// Time until the next check, depending on the state: up, down, or in transition.
    fn interval(&self) -> Duration {
        let CheckPlan { interval, fast_interval, down_interval, .. } = self.plan;
        match self.score {
            0 => down_interval.unwrap_or(interval),
            score if score == self.top() => interval,
            _ => fast_interval.unwrap_or(interval),
        }
    }

    /// The interval with a random deviation.
    fn spread(&self, interval: Duration, dice: u32) -> Duration {
        let range = interval * self.plan.spread_percent.min(SPREAD_MAX) / 100;
        let part = (range * 2).mul_f64(f64::from(dice) / f64::from(u32::MAX));
        (interval + part).saturating_sub(range)
    }
}

/// Limit of the configuration, in percent.
const SPREAD_MAX: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: CheckPlan = CheckPlan {
        rise: 2,
        fall: 3,
        interval: Duration::from_secs(2),
        fast_interval: Some(Duration::from_millis(500)),
        down_interval: Some(Duration::from_secs(5)),
        spread_percent: 0,
    };

    #[expect(clippy::disallowed_methods, reason = "a test needs a start time")]
    fn start_time() -> Instant {
        Instant::now()
    }

    /// Runs checks given as one letter each. Returns for each: health, next check, progress.
    fn run(monitor: &mut Monitor, checks: &str) -> Vec<(Option<Health>, u128, (u32, u32))> {
        let mut now = monitor.next_check();
        let mut step = |check| {
            let outcome = match check {
                '+' => CheckOutcome::Passed,
                '~' => CheckOutcome::Conditional,
                _ => CheckOutcome::Failed,
            };
            let verdict = monitor.handle_result(now, outcome, 0);
            let wait = monitor.next_check() - now;
            now = monitor.next_check();
            (verdict.change, wait.as_millis(), monitor.progress())
        };
        checks.chars().map(&mut step).collect()
    }

    #[test]
    fn the_first_failure_of_a_new_server_marks_it_down() {
        let now = start_time();
        let mut monitor = Monitor::new(PLAN, now);
        assert_eq!(
            run(&mut monitor, "--"),
            [(Some(Health::Down), 5_000, (0, 2)), (None, 5_000, (0, 2)),]
        );
    }

    #[test]
    fn rise_and_fall_count_in_a_row() {
        let mut monitor = Monitor::new(PLAN, start_time());
        assert_eq!(
            run(&mut monitor, "+--+---+-++"),
            [
                (None, 2_000, (3, 3)),
                (None, 500, (2, 3)),
                (None, 500, (1, 3)),
                (None, 2_000, (3, 3)),
                (None, 500, (2, 3)),
                (None, 500, (1, 3)),
                (Some(Health::Down), 5_000, (0, 2)),
                (None, 500, (1, 2)),
                (None, 5_000, (0, 2)),
                (None, 500, (1, 2)),
                (Some(Health::Up), 2_000, (3, 3)),
            ]
        );
    }

    #[test]
    fn a_conditional_success_stops_and_another_starts_again() {
        let mut monitor = Monitor::new(PLAN, start_time());
        let changes: Vec<_> = run(&mut monitor, "~~+~-~--+++").iter().map(|it| it.0).collect();
        let (up, stops, down) = (Some(Health::Up), Some(Health::Stopping), Some(Health::Down));
        assert_eq!(changes, [stops, None, up, stops, None, None, None, None, up, None, None]);
        let changes: Vec<_> = run(&mut monitor, "---~~").iter().map(|it| it.0).collect();
        assert_eq!(changes, [None, None, down, None, stops]);
    }

    #[test]
    fn session_errors_trigger_the_configured_reaction() {
        let cases = [
            (Reaction::FastInter, None, (3, 3), None),
            (Reaction::FailCheck, None, (2, 3), None),
            (Reaction::SuddenDeath, None, (1, 3), Some(Health::Down)),
            (Reaction::MarkDown, Some(Health::Down), (0, 2), None),
        ];
        for (reaction, change, progress, after_failure) in cases {
            let mut monitor = Monitor::new(PLAN, start_time());
            run(&mut monitor, "+");
            let now = monitor.next_check() - Duration::from_secs(2);
            let verdict = monitor.handle_errors(now, reaction);
            assert_eq!((verdict.change, monitor.progress()), (change, progress), "{reaction:?}");
            assert_eq!(verdict.counts, reaction != Reaction::FastInter);
            assert_eq!(monitor.next_check() - now, Duration::from_millis(500));
            assert_eq!(run(&mut monitor, "-")[0].0, after_failure, "{reaction:?}");
        }
    }

    #[test]
    fn health_set_by_an_operator_holds_until_a_check_changes_it() {
        let mut monitor = Monitor::new(PLAN, start_time());
        monitor.force(Health::Down);
        assert_eq!(run(&mut monitor, "++")[1].0, Some(Health::Up));
        monitor.force(Health::Stopping);
        assert_eq!(run(&mut monitor, "-+")[1].0, Some(Health::Up));
        monitor.force(Health::Down);
        let now = monitor.next_check();
        monitor.resume(now);
        assert_eq!((monitor.next_check(), monitor.progress()), (now, (1, 3)));
        assert_eq!(run(&mut monitor, "-")[0].0, Some(Health::Down));
    }

    #[test]
    fn checks_are_spread_within_their_percents() {
        let plan = CheckPlan { spread_percent: 10, ..PLAN };
        let now = start_time();
        let mut monitor = Monitor::new(plan, now);
        for (dice, millis) in [(0, 1_800), (u32::MAX, 2_200)] {
            monitor.handle_result(now, CheckOutcome::Passed, dice);
            assert_eq!((monitor.next_check() - now).as_millis(), millis);
        }
    }
}
