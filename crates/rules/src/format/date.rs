//! Dates of a log (HAProxy's manual, §8.2.6): days and months in English, whatever the locale.

use std::io::Write;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Where clocks are set as those that dates are shown for. Found once, when a format is read:
/// later there may be no file to ask (`chroot`).
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// This machine's.
    pub(super) fn local() -> Self {
        Self(TimeZone::system())
    }
}

/// How a date is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DateForm {
    /// `06/Feb/2009:12:14:14.655`, local.
    Millis,
    /// `06/Feb/2009:12:14:14 +0100`, local.
    Local,
    /// `06/Feb/2009:11:14:14 +0000`.
    Utc,
    /// Seconds since 1970.
    Seconds,
    /// `655`.
    MillisOnly,
}

/// Writes a moment, in milliseconds since 1970; far ones are shown as the farthest that a calendar
/// has.
pub(super) fn write(ms: i64, form: DateForm, Zone(zone): &Zone, out: &mut Vec<u8>) {
    let bounds = Timestamp::MIN.as_millisecond()..=Timestamp::MAX.as_millisecond();
    let ms = ms.clamp(*bounds.start(), *bounds.end());
    let moment = Timestamp::from_millisecond(ms).expect("it is within the bounds");
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
