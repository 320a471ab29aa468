//! Times (HAProxy's configuration manual, §2.5).

use std::time::Duration;

use crate::rules::{Fault, Word};

/// The unit of a number without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
}

/// Parses a time.
///
/// # Errors
/// It is not a time, or is longer than HAProxy's limit.
pub(crate) fn duration(word: &Word, unit: Unit) -> Result<Duration, Fault> {
    parse(&word.text, unit)
        .map_err(|wrong| Fault::new(word.column, format!("'{}': {wrong}", word.text)))
}

fn parse(text: &str, unit: Unit) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let wrong = "expected a number with an optional unit (us, ms, s, m, h, d)";
    if number.is_empty() {
        return Err(wrong.to_owned());
    }
    let micros: u64 = match (suffix, unit) {
        ("us", _) => 1,
        ("ms", _) | ("", Unit::Millis) => 1000,
        ("s", _) | ("", Unit::Seconds) => 1_000_000,
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
            ("5000", Unit::Millis, 5000),
            ("5", Unit::Seconds, 5000),
            ("0", Unit::Millis, 0),
            ("1us", Unit::Millis, 1),
            ("1500us", Unit::Seconds, 2),
            ("7ms", Unit::Seconds, 7),
            ("10s", Unit::Millis, 10_000),
            ("2m", Unit::Millis, 120_000),
            ("1h", Unit::Millis, 3_600_000),
            ("24d", Unit::Millis, 2_073_600_000),
            ("2147483647", Unit::Millis, 2_147_483_647),
        ] {
            assert_eq!(parse(text, unit), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "3x", "-1", "1.5s", "1 s", "25d", "99999999999999999999", "5S"] {
            assert!(parse(text, Unit::Millis).is_err(), "{text}");
        }
    }
}
