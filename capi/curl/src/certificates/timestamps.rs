//! Times as OpenSSL prints them.

use x509_parser::time::ASN1Time;

/// A time in seconds since 1970, with a fraction of the second; `None` if it is out of range.
pub(super) fn date(seconds: i64, fraction: &str) -> Option<String> {
    let time = ASN1Time::from_timestamp(seconds).ok()?.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month())) - 1];
    let (day, year) = (time.day(), time.year());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    Some(format!("{month} {day:2} {hour:02}:{minute:02}:{second:02}{fraction} {year} GMT"))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
