//! Times as the caches write them: `20191231 23:59:59`, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::date::getdate;

/// Parses a date in any form that `curl_getdate` accepts; `None` if it has no such form.
pub(crate) fn parse_date(text: &[u8]) -> Option<i64> {
    Some(getdate(text)).filter(|seconds| *seconds != -1)
}

/// Seconds since 1970.
pub(crate) fn unix_time(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |secs| -secs),
    }
}

/// Formats seconds since 1970. `None` if the year has more than 31 bits, as in C.
pub(crate) fn format_stamp(seconds: i64) -> Option<String> {
    let ([year, month, day], [hour, minute, second]) = civil(seconds)?;
    Some(format!("{year}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}"))
}

/// A date of HTTP (RFC 9110 §5.6.7), as in `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(seconds: i64) -> Option<String> {
    let ([year, month, day], [hour, minute, second]) = civil(seconds)?;
    let at = |names: &[&'static str], at: i64| usize::try_from(at).map(|at| names[at]).ok();
    let weekday = at(&WEEKDAYS, seconds.div_euclid(DAY).rem_euclid(7))?;
    let month = at(&MONTHS, month - 1)?;
    Some(format!("{weekday}, {day:02} {month} {year:4} {hour:02}:{minute:02}:{second:02} GMT"))
}

/// Year, month and day, and hour, minute and second.
fn civil(seconds: i64) -> Option<([i64; 3], [i64; 3])> {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Years begin in March, so that the leap day is the last one; eras have 400 years.
    let (era, day) = ((days + EPOCH).div_euclid(ERA), (days + EPOCH).rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + i64::from(month > 9);
    let month = if month > 9 { month - 9 } else { month + 3 };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    i32::try_from(year).ok()?;
    Some(([year, month, day], [hour, minute, second]))
}

/// From the first day of 1970 on.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Days of 400 years.
const ERA: i64 = 146_097;

/// Days from March 1 of year 0 to 1970.
const EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_have_their_weekday() {
        let dates = [784_111_777, 0, -1].map(http_date).map(Option::unwrap);
        assert_eq!(dates[0], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(dates[1], "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(dates[2], "Wed, 31 Dec 1969 23:59:59 GMT");
    }

    #[test]
    fn stamps_are_utc() {
        for (seconds, text) in [
            (1_548_369_261, "20190124 22:34:21"),
            (0, "19700101 00:00:00"),
            (951_782_400, "20000229 00:00:00"),
            (4_107_542_399, "21000228 23:59:59"),
            (-1, "19691231 23:59:59"),
            (253_402_300_799, "99991231 23:59:59"),
        ] {
            assert_eq!(format_stamp(seconds).as_deref(), Some(text));
            // libcurl has no date of -1, which is its error.
            assert_eq!(parse_date(text.as_bytes()), Some(if seconds == -1 { 0 } else { seconds }));
        }
        assert_eq!(format_stamp(1_795_552_764 + 9_999_999_999_999).unwrap(), "3189140414 14:26:03");
        assert_eq!((format_stamp(i64::MAX), format_stamp(i64::MIN)), (None, None));
        assert_eq!(parse_date(b"bad"), None);
    }
}
