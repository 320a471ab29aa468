//! Dates in cookies (RFC 6265bis §5.1.1), in all formats that servers use.
//!
//! These are not HTTP dates: the parts are recognized by their form, in any order.

use time::{Date, Month, Time, UtcDateTime};

/// Seconds since 1970, negative before; `None` if the text is not a date.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        if time.is_none() && take(&mut time, clock(token))
            || day.is_none() && take(&mut day, number(token, 1..=2))
            || month.is_none() && take(&mut month, month_of(token))
        {
            continue;
        }
        if year.is_none() {
            year = number(token, 2..=4);
        }
    }
    let year = match year? {
        short @ 0..=69 => short + 2000,
        short @ 70..=99 => short + 1900,
        ..YEAR_MIN => return None,
        year => year,
    };
    let date = Date::from_calendar_date(year.into(), month?, u8::try_from(day?).ok()?).ok()?;
    Some(UtcDateTime::new(date, time?).unix_timestamp())
}

/// Fills an empty option. Returns true if `found` has a value.
fn take<T>(place: &mut Option<T>, found: Option<T>) -> bool {
    let is_found = found.is_some();
    *place = found;
    is_found
}

fn is_delimiter(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~')
}

/// `hour:minute:second`, optionally followed by text that does not begin with a digit.
fn clock(token: &[u8]) -> Option<Time> {
    let mut parts = token.splitn(3, |byte| *byte == b':');
    let mut whole = || {
        let part = parts.next()?;
        number(part, 1..=2).filter(|_| part.iter().all(u8::is_ascii_digit))
    };
    let (hour, minute) = (whole()?, whole()?);
    let second = number(parts.next()?, 1..=2)?;
    let byte = |n| u8::try_from(n).ok();
    Time::from_hms(byte(hour)?, byte(minute)?, byte(second)?).ok()
}

/// A number with as many digits as allowed, optionally followed by text that does not begin with a
/// digit.
fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<u16> {
    let len = token.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(token.len());
    let sum = |sum: u16, byte: &u8| sum * 10 + u16::from(byte - b'0');
    digits.contains(&len).then(|| token[..len].iter().fold(0, sum))
}

fn month_of(token: &[u8]) -> Option<Month> {
    let name = token.get(..3)?;
    let at = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month))?;
    u8::try_from(at + 1).ok().and_then(|number| Month::try_from(number).ok())
}

const MONTHS: [&[u8]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// The minimum year of §5.1.1.
const YEAR_MIN: u16 = 1601;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_in_all_formats() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "6 nov 1994 8:49:37",
            "08:49:37 6 November 94",
            "1994 06 08:49:37x NOVEMBRE",
            "06 Nov 1994 08:49:37 +0200",
            "Sun, 06-Nov-1994 08:49:37 GMT; 7 Dec 2000",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse(b"1 Jan 1601 00:00:00"), Some(-11_644_473_600));
        assert_eq!(parse(b"29 Feb 2024 23:59:59"), Some(1_709_251_199));
        assert_eq!(parse(b"1 Jan 69 0:0:0"), parse(b"1 Jan 2069 0:0:0"));
        assert_eq!(parse(b"1 Jan 9999 0:0:0"), Some(253_370_764_800));
    }

    #[test]
    fn invalid_dates() {
        for text in [
            "",
            "0",
            "06 Nov 1994",
            "06 Nov 08:49:37",
            "Nov 1994 08:49:37",
            "06 1994 08:49:37",
            "32 Nov 1994 08:49:37",
            "0 Nov 1994 08:49:37",
            "31 Nov 1994 08:49:37",
            "29 Feb 2023 08:49:37",
            "06 Nov 1600 08:49:37",
            "06 Nov 19940 08:49:37",
            "06 Nov 1994 24:00:00",
            "06 Nov 1994 08:60:00",
            "06 Nov 1994 08:49:60",
            "06 Nov 1994 08:49",
            "06 Nov 1994 08:49:370",
            "06 Nov 1994 008:49:37",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_a_date_or_none(text in prop::collection::vec(any::<u8>(), 0..64)) {
            parse(&text);
        }

        #[test]
        fn random_words_are_a_date_or_none(text in "([0-9]{1,5}[ :-]{0,2}|jan |FEB-|:){0,12}") {
            parse(text.as_bytes());
        }
    }
}
