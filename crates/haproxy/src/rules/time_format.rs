//! A format of times: compiled from the arguments of a converter.

use jiff::tz::TimeZone;

/// A format and its time zone.
#[derive(Clone, Debug)]
pub(crate) struct TimeFormat {
    pub(crate) format: Box<[u8]>,
    pub(crate) zone: TimeZone,
}
