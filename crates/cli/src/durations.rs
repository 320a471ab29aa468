//! Durations on the command line.

use std::time::Duration;

/// `10`, `10s`, `1.5s`, `250ms`, `2m`, `1h`: greater than 0. A number without a unit is in seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?}: use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
    let duration = Duration::try_from_secs_f64(number * scale);
    duration
        .ok()
        .filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or_else(|| "must be greater than 0 and at most 1000h".to_owned())
}

const LONGEST: Duration = Duration::from_secs(3_600_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("10", 10_000), ("1.5s", 1_500), ("250ms", 250), ("2m", 120_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "-1", "s", "1 s", "1d", "nan", "inf", "1e9h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
