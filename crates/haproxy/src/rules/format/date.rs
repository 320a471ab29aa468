//! Dates of log lines (HAProxy's manual, §8.2.6): English names of days and months in every locale.

use std::io::Write;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The time zone of dates. Determined when a format is parsed: later, its files may be unreachable
/// (`chroot`).
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// The time zone of this machine.
    pub(super) fn local() -> Self {
        Self(TimeZone::system())
    }
}

/// The format of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DateForm {
    /// `06/Feb/2009:12:14:14.655`, local.
    Millis,
    /// `06/Feb/2009:12:14:14 +0100`, local.
    Local,
    /// `06/Feb/2009:11:14:14 +0000`.
    Utc,
    /// `date`: seconds since 1970.
    Seconds,
    /// `655`.
    MillisOnly,
}

/// Writes a time in milliseconds since 1970. Times beyond the calendar are clamped.
pub(super) fn write(ms: i64, form: DateForm, Zone(zone): &Zone, out: &mut Vec<u8>) {
    let farthest = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let moment = Timestamp::from_millisecond(ms).unwrap_or(farthest);
    let zone = match form {
        DateForm::Millis | DateForm::Local => zone.clone(),
        _ => TimeZone::UTC,
    };
    let date = moment.to_zoned(zone);
    match form {
        DateForm::Millis => {
            write_seconds(&date, out);
            let _ = write!(out, ".{:03}", date.millisecond());
        }
        DateForm::Local | DateForm::Utc => {
            write_seconds(&date, out);
            let minutes = date.offset().seconds() / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.abs();
            let _ = write!(out, " {sign}{:02}{:02}", minutes / 60, minutes % 60);
        }
        DateForm::Seconds => {
            let _ = write!(out, "{}", ms.div_euclid(1000));
        }
        DateForm::MillisOnly => {
            let _ = write!(out, "{:03}", ms.rem_euclid(1000));
        }
    }
}

fn write_seconds(date: &Zoned, out: &mut Vec<u8>) {
    let month = usize::try_from(date.month() - 1).expect("months begin with 1");
    let (day, year) = (date.day(), date.year());
    let (hour, minute, second) = (date.hour(), date.minute(), date.second());
    let month = MONTHS[month];
    let _ = write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02}");
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    fn written(ms: i64, form: DateForm, zone: &Zone) -> String {
        let mut out = Vec::new();
        write(ms, form, zone, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_those_of_their_zone() {
        let east = Zone(TimeZone::fixed(Offset::from_seconds(20_700).unwrap()));
        let west = Zone(TimeZone::fixed(Offset::constant(-3)));
        for (form, zone, expected) in [
            (DateForm::Millis, &east, "07/Feb/2009:04:59:14.655"),
            (DateForm::Local, &east, "07/Feb/2009:04:59:14 +0545"),
            (DateForm::Local, &west, "06/Feb/2009:20:14:14 -0300"),
            (DateForm::Utc, &west, "06/Feb/2009:23:14:14 +0000"),
            (DateForm::Seconds, &west, "1233962054"),
            (DateForm::MillisOnly, &west, "655"),
        ] {
            assert_eq!(written(1_233_962_054_655, form, zone), expected);
        }
    }

    #[test]
    fn days_that_no_calendar_has_are_the_last_of_it() {
        let utc = Zone::default();
        assert!(written(i64::MAX, DateForm::Utc, &utc).starts_with("30/Dec/9999"));
        assert!(written(i64::MIN, DateForm::Utc, &utc).contains("/-9999:"));
        assert_eq!(written(-1, DateForm::MillisOnly, &utc), "999");
    }
}
