//! Times as the caches write them: `20191231 23:59:59`, in UTC.

/// Parses a date in any form that `curl_getdate` accepts; `None` if it has no such form.
///
/// The engines of this crate get it as an argument, so that they depend on no date parser.
pub type DateParser = fn(&[u8]) -> Option<i64>;

/// Parses the form of this module; in the tests, this is the date parser.
#[cfg(test)]
pub(crate) fn parse_stamp(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (date, clock) = text.split_once(' ')?;
    let number = |text: &str| text.parse::<u8>().ok();
    let (year, month) = (date.get(..4)?.parse().ok()?, number(date.get(4..6)?)?);
    let month = time::Month::try_from(month).ok()?;
    let date = time::Date::from_calendar_date(year, month, number(date.get(6..)?)?).ok()?;
    let parts: Vec<_> = clock.split(':').filter_map(number).collect();
    let [hour, minute, second] = parts[..] else { return None };
    Some(date.with_hms(hour, minute, second).ok()?.assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc() {
        assert_eq!(parse_stamp(b"20190124 22:34:21"), Some(1_548_369_261));
        assert_eq!(parse_stamp(b"20190124"), None);
    }
}
