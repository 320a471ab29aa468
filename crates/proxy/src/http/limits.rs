//! Deadlines that requests bring with them: rules may take one from each (`set-timeout`).
//!
//! Connections name their deadlines by number, and there are 65,536 numbers. The first few thousand
//! different times are kept as they are; those that come later are rounded up to the next of a
//! scale that all of them share, the coarser the fuller the table is.

use std::time::Duration;

use fulmar_engine::{Links, Timeouts, TimeoutsId};
use fulmar_proto::Connection;

/// The set of deadlines that `of` makes of a time: exactly, or of one that is a little longer.
/// `None`: there are so many sets that there is no room for another.
pub(super) fn set<C: Connection, T>(
    links: &mut Links<C, T>,
    time: Duration,
    of: impl FnOnce(Duration) -> Timeouts,
) -> Option<TimeoutsId> {
    let known = links.timeouts_len();
    (known < LEN_MAX).then(|| links.add_timeouts(of(rounded(time, known))))
}

/// The time that is kept in place of this one, where so many sets are known.
fn rounded(time: Duration, known: usize) -> Duration {
    let steps = match known {
        ..EXACT_LEN_MAX => return time,
        EXACT_LEN_MAX..FINE_LEN_MAX => FINE_STEPS,
        _ => COARSE_STEPS,
    };
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(TIME_MAX);
    let octave = millis.checked_ilog2().map_or(1, |bits| 1 << bits);
    let step = (octave / steps).max(1);
    Duration::from_millis(millis.next_multiple_of(step))
}

/// Times are kept as they are up to so many sets.
const EXACT_LEN_MAX: usize = 4_096;
/// Up to so many they are at most 1.6 % longer: 1,800 different ones for each server.
const FINE_LEN_MAX: usize = 32_768;
const FINE_STEPS: u64 = 64;
/// Beyond, at most a quarter: 160 different ones for each server.
const COARSE_STEPS: u64 = 4;
/// What is left belongs to the configuration.
const LEN_MAX: usize = 61_440;
/// As long as HAProxy has them: 24 days.
const TIME_MAX: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_time_is_never_shortened_and_little_longer() {
        let times = (0..31).flat_map(|bits| [1 << bits, (1 << bits) + 1, (3 << bits) / 2 + 1]);
        let parts = [(0, u64::MAX), (EXACT_LEN_MAX, FINE_STEPS), (FINE_LEN_MAX, COARSE_STEPS)];
        for (millis, (known, part)) in times.flat_map(|it| parts.map(|part| (it, part))) {
            let kept = rounded(Duration::from_millis(millis), known).as_millis();
            let most = u128::from(millis + millis / part);
            assert!((millis.into()..=most).contains(&kept), "{kept} of {millis} at {known}");
        }
        assert_eq!(rounded(Duration::ZERO, FINE_LEN_MAX), Duration::ZERO);
    }

    #[test]
    fn kept_times_are_few() {
        let spread = || (0..200_000_u64).map(|at| Duration::from_millis(at * at % TIME_MAX));
        let kept = |known| spread().map(|it| rounded(it, known)).collect::<BTreeSet<_>>().len();
        assert!(kept(EXACT_LEN_MAX) <= 32 * 64, "{}", kept(EXACT_LEN_MAX));
        assert!(kept(FINE_LEN_MAX) <= 32 * 5, "{}", kept(FINE_LEN_MAX));
    }
}
