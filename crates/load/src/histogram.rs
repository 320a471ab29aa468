//! Latencies: 1 us to 1 h, three digits, constant memory.

use serde::Serialize;

/// A histogram of durations. Records nanoseconds, reports microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

/// Figures of a histogram, in microseconds. All are `None`, and `null` in JSON, if nothing was
/// recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min: Option<u64>,
    /// The mean.
    pub mean: Option<f64>,
    /// Half were at most this.
    pub p50: Option<u64>,
    /// 90 % were at most this.
    pub p90: Option<u64>,
    /// 99 % were at most this.
    pub p99: Option<u64>,
    /// 99.9 % were at most this.
    pub p999: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_US, DIGITS);
        Self { counts: counts.expect("the bounds are constants") }
    }

    /// Records a duration. Less than 1 us counts as 1 us, more than an hour as an hour.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts.saturating_record((nanos / 1_000).clamp(1, HIGHEST_US));
    }

    /// Adds the records of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("the bounds are the same");
    }

    /// The value at `quantile`, in microseconds; `None` without records.
    pub(crate) fn at(&self, quantile: f64) -> Option<u64> {
        let value = self.counts.value_at_quantile(quantile).min(self.counts.max());
        (!self.counts.is_empty()).then_some(value)
    }

    pub(crate) fn summary(&self) -> Latency {
        if self.counts.is_empty() {
            return Latency::default();
        }
        Latency {
            min: Some(self.counts.min()),
            mean: Some((self.counts.mean() * 10.0).round() / 10.0),
            p50: self.at(0.5),
            p90: self.at(0.9),
            p99: self.at(0.99),
            p999: self.at(0.999),
            max: Some(self.counts.max()),
        }
    }
}

const HIGHEST_US: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_merge_to_what_one_would_have_recorded() {
        let (mut one, mut a, mut b) = (Histogram::new(), Histogram::new(), Histogram::new());
        for us in 1..=10_000_u64 {
            one.record(us * 1_000);
            if us % 3 == 0 { &mut a } else { &mut b }.record(us * 1_000);
        }
        a.merge(&b);
        assert_eq!(a.summary(), one.summary());
        let summary = a.summary();
        assert_eq!(summary.min, Some(1));
        let tens = [summary.p50, summary.p90].map(|us| us.unwrap() / 10);
        assert_eq!(tens, [500, 900]);
        assert!((summary.mean.unwrap() - 5_000.5).abs() < 10.0, "{summary:?}");
    }

    #[test]
    fn the_ends_of_the_range_are_kept() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.summary(), Latency::default());
        histogram.record(3);
        histogram.record(u64::MAX);
        let summary = histogram.summary();
        assert_eq!(summary.min, Some(1));
        assert!(summary.max.unwrap().abs_diff(HIGHEST_US) < HIGHEST_US / 1_000, "{summary:?}");
    }
}
