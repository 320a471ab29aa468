//! When requests are due, and how many are left. Pure: time is an argument, in nanoseconds of the
//! run.

use std::collections::VecDeque;

/// Planned times of an open loop: request `k` of the whole run is due at `k / rate` seconds, and
/// thread `t` of `n` makes the requests `t, t + n, t + 2n, ...`. Exact, whatever the rate: the
/// remainder of the division is carried along, so no error adds up.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    next: u64,
    step: u64,
    step_rest: u64, // in units of 1/rate nanoseconds
    rest: u64,
    rate: u64,
}

impl Schedule {
    /// The share of `thread` out of `threads` in `rate` requests per second.
    pub(crate) fn new(rate: u64, thread: u32, threads: u32) -> Self {
        assert!(rate > 0 && thread < threads, "options are checked before");
        let first = u64::from(thread) * SECOND;
        let step = u64::from(threads) * SECOND;
        Self {
            next: first / rate,
            rest: first % rate,
            step: step / rate,
            step_rest: step % rate,
            rate,
        }
    }

    /// When the next request is due.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Advances to the next request.
    fn advance(&mut self) {
        self.next += self.step;
        self.rest += self.step_rest;
        if self.rest >= self.rate {
            self.rest -= self.rate;
            self.next += 1;
        }
    }
}

/// How many requests a whole run plans within `elapsed` nanoseconds.
pub(crate) fn planned_within(rate: u64, elapsed: u64, limit: Option<u64>) -> u64 {
    let planned = (u128::from(elapsed) * u128::from(rate)).div_ceil(u128::from(SECOND));
    u64::try_from(planned).unwrap_or(u64::MAX).min(limit.unwrap_or(u64::MAX))
}

/// The requests that one thread has yet to send.
///
/// Due requests without a free connection are not stored: they are the distance between the next
/// planned time and now.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    left: u64,
    pace: LoopKind,
}

#[derive(Debug)]
enum LoopKind {
    /// A request is due whenever a connection is free.
    Closed,
    /// At planned times; `again` are requests that a closing server did not process.
    Open { schedule: Schedule, again: VecDeque<u64> },
}

impl RequestQueue {
    /// `count` requests (`None`: no end), in a closed loop or by a schedule.
    pub(crate) fn new(count: Option<u64>, schedule: Option<Schedule>) -> Self {
        let pace = match schedule {
            Some(schedule) => LoopKind::Open { schedule, again: VecDeque::new() },
            None => LoopKind::Closed,
        };
        Self { left: count.unwrap_or(u64::MAX), pace }
    }

    /// The number of requests not yet sent, due or not.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Takes a due request: its planned time.
    pub(crate) fn take(&mut self, now: u64) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let planned = match &mut self.pace {
            LoopKind::Closed => now,
            LoopKind::Open { schedule, again } => match again.pop_front() {
                Some(planned) => planned,
                None if schedule.next() > now => return None,
                None => {
                    let planned = schedule.next();
                    schedule.advance();
                    planned
                }
            },
        };
        self.left -= 1;
        Some(planned)
    }

    /// Returns a request that was not processed: it is due again.
    pub(crate) fn give_back(&mut self, planned: u64) {
        self.left = self.left.saturating_add(1);
        if let LoopKind::Open { again, .. } = &mut self.pace {
            again.push_back(planned);
        }
    }

    /// When [`RequestQueue::take`] returns a request; `None` if none is left.
    pub(crate) fn next(&self) -> Option<u64> {
        match &self.pace {
            _ if self.left == 0 => None,
            LoopKind::Closed => Some(0),
            LoopKind::Open { again, .. } if !again.is_empty() => Some(0),
            LoopKind::Open { schedule, .. } => Some(schedule.next()),
        }
    }
}

/// The share of thread `thread` in `count` requests: as many as its part of the schedule has.
pub(crate) fn share(count: u64, thread: u32, threads: u32) -> u64 {
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    count / threads + u64::from(thread < count % threads)
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut schedule: Schedule, n: usize) -> Vec<u64> {
        let step = |_| {
            let at = schedule.next();
            schedule.advance();
            at
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn planned_times_are_even_and_exact() {
        assert_eq!(times(Schedule::new(2_000, 0, 1), 3), [0, 500_000, 1_000_000]);
        for rate in [1, 3, 7, 999, 12_345, 1_000_003, 3_000_000_000] {
            let k = 10_000;
            let last = *times(Schedule::new(rate, 0, 1), k + 1).last().unwrap();
            let exact = u128::try_from(k).unwrap() * 1_000_000_000 / u128::from(rate);
            assert_eq!(u128::from(last), exact, "{rate}");
        }
    }

    #[test]
    fn threads_share_one_schedule() {
        let whole = times(Schedule::new(7, 0, 1), 30);
        let mut shared: Vec<_> = (0..3).flat_map(|t| times(Schedule::new(7, t, 3), 10)).collect();
        shared.sort_unstable();
        assert_eq!(shared, whole);
        let shares: Vec<_> = (0..4).map(|t| share(10, t, 4)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }

    #[test]
    fn what_was_planned_is_counted_without_walking() {
        for (elapsed, planned) in [(0, 0), (1, 1), (500_000, 1), (500_001, 2), (SECOND, 2_000)] {
            assert_eq!(planned_within(2_000, elapsed, None), planned, "{elapsed}");
        }
        assert_eq!(planned_within(2_000, SECOND, Some(7)), 7);
        assert_eq!(planned_within(u64::MAX, u64::MAX, None), u64::MAX);
    }

    #[test]
    fn work_ends_and_what_is_given_back_comes_first() {
        let mut work = RequestQueue::new(Some(3), Some(Schedule::new(10, 0, 1)));
        assert_eq!((work.take(0), work.take(0)), (Some(0), None));
        assert_eq!(work.next(), Some(100_000_000));
        work.give_back(0);
        assert_eq!(work.next(), Some(0));
        let late = 5 * SECOND;
        let taken: Vec<_> = std::iter::from_fn(|| work.take(late)).collect();
        assert_eq!(taken, [0, 100_000_000, 200_000_000]);
        assert_eq!(work.next(), None);
        let mut endless = RequestQueue::new(None, None);
        assert_eq!((endless.take(5), endless.next()), (Some(5), Some(0)));
    }
}
