//! HTTP dates (RFC 9110 §5.6.7), as seconds since 1970.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;

/// Formats an IMF-fixdate (§5.6.7); times outside of HTTP's range are clamped.
pub fn format_date(unix: i64) -> [u8; DATE_LEN] {
    let seconds = unix.clamp(0, LAST_SECOND).unsigned_abs();
    let mut text = [b' '; DATE_LEN];
    let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds));
    write!(&mut text[..], "{date}").expect("an IMF-fixdate has 29 bytes");
    text
}

/// Parses any of the three forms of an HTTP-date, as seconds since 1970.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// True for times that HTTP can represent: the years 1970 to 9999.
pub fn is_http_time(unix: i64) -> bool {
    (0..=LAST_SECOND).contains(&unix)
}

/// Length of an IMF-fixdate.
pub const DATE_LEN: usize = 29;

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip() {
        assert_eq!(&format_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format_date(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(&format_date(-5), b"Thu, 01 Jan 1970 00:00:00 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in ["", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT", "0"] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_date(b"\xff"), None);
    }
}
