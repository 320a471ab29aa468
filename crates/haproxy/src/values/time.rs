//! Times (HAProxy's configuration manual, §2.5).

use std::time::Duration;

use crate::rules::{Word, WordError};

/// The unit of a number without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
}

/// Parses a time.
///
/// # Errors
/// It is not a time, or is longer than HAProxy's limit.
pub(crate) fn duration(word: &Word, unit: TimeUnit) -> Result<Duration, WordError> {
    parse(&word.text, unit)
        .map_err(|wrong| WordError::new(word.column, format!("'{}': {wrong}", word.text)))
}

fn parse(text: &str, unit: TimeUnit) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let wrong = "expected a number with an optional unit (us, ms, s, m, h, d)";
    if number.is_empty() {
        return Err(wrong.to_owned());
    }
    let micros: u64 = match (suffix, unit) {
        ("us", _) => 1,
        ("ms", _) | ("", TimeUnit::Millis) => 1000,
        ("s", _) | ("", TimeUnit::Seconds) => 1_000_000,
        ("m", _) => 60_000_000,
        ("h", _) => 3_600_000_000,
        ("d", _) => 86_400_000_000,
        _ => return Err(wrong.to_owned()),
    };
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(micros));
    let millis = total.map(|micros| micros.div_ceil(1000)).filter(|&millis| millis <= MILLIS_MAX);
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| format!("the limit is {MILLIS_MAX} ms (about 24.8 days)"))
}

/// HAProxy's limit.
const MILLIS_MAX: u64 = 2_147_483_647;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, unit, millis) in [
            ("5000", TimeUnit::Millis, 5000),
            ("5", TimeUnit::Seconds, 5000),
            ("0", TimeUnit::Millis, 0),
            ("1us", TimeUnit::Millis, 1),
            ("1500us", TimeUnit::Seconds, 2),
            ("7ms", TimeUnit::Seconds, 7),
            ("10s", TimeUnit::Millis, 10_000),
            ("2m", TimeUnit::Millis, 120_000),
            ("1h", TimeUnit::Millis, 3_600_000),
            ("24d", TimeUnit::Millis, 2_073_600_000),
            ("2147483647", TimeUnit::Millis, 2_147_483_647),
        ] {
            assert_eq!(parse(text, unit), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "3x", "-1", "1.5s", "1 s", "25d", "99999999999999999999", "5S"] {
            assert!(parse(text, TimeUnit::Millis).is_err(), "{text}");
        }
    }
}
