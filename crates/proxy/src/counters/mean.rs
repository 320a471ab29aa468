//! Means over the last exchanges.
//!
//! The sum of the window is kept without a list of its values: each new time replaces the mean of
//! the previous ones.

use std::sync::atomic::{AtomicU64, Ordering};

/// A period of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Timing {
    /// `qtime`: in the queue.
    Queue,
    /// `ctime`: until the server's connection was established.
    Connect,
    /// `rtime`: until the response began.
    Response,
    /// `ttime`: the whole exchange.
    Total,
}

impl Timing {
    /// Number of timings.
    pub const LEN: usize = Self::Total as usize + 1;
    /// Maximum number of exchanges of a mean (HAProxy's management guide, §9.1).
    pub const WINDOW: u64 = 1_024;
}

/// The mean of one timing, written by one thread.
#[derive(Debug, Default)]
pub(super) struct Mean {
    sum: AtomicU64,
    max: AtomicU64,
}

impl Mean {
    /// Adds a value, after `before` others.
    pub(super) fn add(&self, value: u64, before: u64) {
        let sum = self.sum.load(Ordering::Relaxed);
        let is_full = before >= Timing::WINDOW;
        let pushed_out = if is_full { sum.div_ceil(Timing::WINDOW) } else { 0 };
        self.sum.store((sum + value).saturating_sub(pushed_out), Ordering::Relaxed);
        super::raise(&self.max, value);
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    pub(super) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self, all: bool) {
        self.max.store(0, Ordering::Relaxed);
        if all {
            self.sum.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_values_leave_the_mean() {
        let mean = Mean::default();
        for before in 0..5_000 {
            mean.add(1_000, before);
        }
        for _ in 0..20_000 {
            mean.add(10, Timing::WINDOW);
        }
        assert!((9..=11).contains(&(mean.sum() / Timing::WINDOW)), "{}", mean.sum());
        assert_eq!(mean.max(), 1_000);
    }
}
