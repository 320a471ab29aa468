//! How a time is written: compiled from the arguments of a converter.

use jiff::tz::TimeZone;

/// A format, and the zone that its times are in.
#[derive(Clone, Debug)]
pub(crate) struct TimeFormat {
    pub(crate) format: Box<[u8]>,
    pub(crate) zone: TimeZone,
}
