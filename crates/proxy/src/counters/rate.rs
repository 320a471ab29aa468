//! Events per second.
//!
//! A period of a second begins with its first event. Events of the previous period count as far as
//! it overlaps the last 1,000 ms, as if they had been spread evenly. No list of times is kept.

use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum RateKind {
    /// `rate`.
    Sessions,
    /// `req_rate`.
    Requests,
    /// `conn_rate`.
    Connections,
}

impl RateKind {
    /// Number of rates.
    pub const LEN: usize = Self::Connections as usize + 1;
}

/// One rate. Written by one thread, read by any: a concurrent reader may miss one event.
#[derive(Debug, Default)]
pub(super) struct PerSecond {
    began: AtomicU64,
    current: AtomicU64,
    previous: AtomicU64,
    max: AtomicU64,
}

impl PerSecond {
    pub(super) fn add(&self, now: u64, amount: u64) {
        let began = self.began.load(Ordering::Relaxed);
        let current = self.current.load(Ordering::Relaxed);
        let (current, previous) = match now.saturating_sub(began) {
            0..SECOND => (current + amount, None),
            SECOND..TWO => (amount, Some((began + SECOND, current))),
            _ => (amount, Some((now, 0))),
        };
        if let Some((began, previous)) = previous {
            self.began.store(began, Ordering::Relaxed);
            self.previous.store(previous, Ordering::Relaxed);
        }
        self.current.store(current, Ordering::Relaxed);
        super::raise(&self.max, self.at(now));
    }

    pub(super) fn at(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.began.load(Ordering::Relaxed));
        let current = self.current.load(Ordering::Relaxed);
        match elapsed {
            0..SECOND => {
                let previous = self.previous.load(Ordering::Relaxed);
                current + previous * (SECOND - elapsed) / SECOND
            }
            SECOND..TWO => current * (TWO - elapsed) / SECOND,
            _ => 0,
        }
    }

    pub(super) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self, all: bool) {
        self.max.store(0, Ordering::Relaxed);
        if all {
            self.current.store(0, Ordering::Relaxed);
            self.previous.store(0, Ordering::Relaxed);
        }
    }
}

/// Milliseconds.
const SECOND: u64 = 1_000;
const TWO: u64 = 2 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_fades_within_the_next_second() {
        let rate = PerSecond::default();
        rate.add(10_000, 100);
        let seen = [10_000, 10_999, 11_000, 11_500, 11_990, 12_000].map(|now| rate.at(now));
        assert_eq!(seen, [100, 100, 100, 50, 1, 0]);
        assert_eq!(rate.max(), 100);
    }

    #[test]
    fn a_steady_flow_is_its_rate() {
        let rate = PerSecond::default();
        for now in (20_000..30_000).step_by(10) {
            rate.add(now, 1);
        }
        assert!((99..=101).contains(&rate.at(29_995)), "{}", rate.at(29_995));
        assert!((99..=101).contains(&rate.max()), "{}", rate.max());
    }

    #[test]
    fn a_pause_resets_the_rate() {
        let rate = PerSecond::default();
        rate.add(1_000, 50);
        rate.add(9_000, 1);
        assert_eq!(rate.at(9_000), 1);
        rate.clear(true);
        assert_eq!((rate.at(9_000), rate.max()), (0, 0));
    }
}
