//! The `Retry-After` field (RFC 9110 §10.2.3).

use std::time::{Duration, SystemTime};

/// The time to wait, at most `cap`: from seconds, or from a date relative to `now`, which gives 0
/// if it has passed. `None` if the value is neither.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use fulmar_semantics::retry_after::retry_after;
///
/// let wait = retry_after(b"120", SystemTime::UNIX_EPOCH, Duration::from_secs(600));
/// assert_eq!(wait, Some(Duration::from_secs(120)));
/// ```
pub fn retry_after(value: &[u8], now: SystemTime, cap: Duration) -> Option<Duration> {
    let value = std::str::from_utf8(value).ok()?;
    let wait = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // Digits only fail to parse if there are too many.
        value.parse().map_or(Duration::MAX, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(value).ok()?;
        date.duration_since(now).unwrap_or(Duration::ZERO)
    };
    Some(wait.min(cap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAP: Duration = Duration::from_secs(3_600);

    /// Sun, 06 Nov 1994 08:49:37 GMT, the date in the RFC's examples.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    #[test]
    fn seconds_and_dates_are_capped() {
        let seconds = |value: &str| retry_after(value.as_bytes(), now(), CAP).map(|d| d.as_secs());
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("0120"), Some(120));
        assert_eq!(seconds("3601"), Some(3_600));
        assert_eq!(seconds("99999999999999999999999999"), Some(3_600));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(seconds("Sunday, 06-Nov-94 08:50:37 GMT"), Some(60));
        assert_eq!(seconds("Sun Nov  6 08:50:37 1994"), Some(60));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:36 GMT"), Some(0));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(3_600));
        for bad in ["", " ", "-1", "+1", "1.5", "1s", "0x10", "1, 2", "soon", "Sun, 06 Nov 1994"] {
            assert_eq!(seconds(bad), None, "{bad:?}");
        }
        assert_eq!(retry_after(b"\xff", now(), CAP), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let wait = retry_after(&value, now(), CAP);
            prop_assert!(wait.is_none_or(|wait| wait <= CAP));
        }
    }
}
