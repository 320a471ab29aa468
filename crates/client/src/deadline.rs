//! Deadlines that cannot overflow.

use std::time::{Duration, Instant};

/// `from` plus `span`, but at most a hundred years: an `Instant` that overflows panics.
pub(crate) fn later(from: Instant, span: Duration) -> Instant {
    from + span.min(FOREVER)
}

/// A hundred years. It can be added many times.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn no_span_is_too_long() {
        let now = Instant::now();
        assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
        let mut far = now;
        for _ in 0..1_000 {
            far = later(far, Duration::MAX);
        }
        assert!(far > later(now, Duration::MAX));
    }
}
