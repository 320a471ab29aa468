//! The delay before a retry of a URL.

use std::time::Duration;

/// The delay before retry `number`, counted from 0. It doubles each time up to [`WAIT_MAX`]. A
/// random part (`random` is `0.0..1.0`) spreads the retries of URLs that failed together.
pub(crate) fn wait(number: u32, random: f64) -> Duration {
    let whole = WAIT_FIRST.saturating_mul(1_u32.checked_shl(number).unwrap_or(u32::MAX));
    whole.min(WAIT_MAX).mul_f64(random.mul_add(0.5, 0.5))
}

const WAIT_FIRST: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_vary_by_half() {
        for (number, ms) in [(0, 500), (1, 1_000), (5, 16_000), (7, 60_000), (99, 60_000)] {
            assert_eq!(wait(number, 1.0), Duration::from_millis(ms));
            assert_eq!(wait(number, 0.0), Duration::from_millis(ms / 2));
        }
    }
}
