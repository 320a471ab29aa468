//! Where lines of logs go.

use std::fmt;

use fulmar_haproxy::model::LogTarget;

use crate::http::Explanation;

/// How bad it is (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// Nobody is served.
    Emergency = 0,
    /// Somebody has to act at once.
    Alert = 1,
    /// Critical.
    Critical = 2,
    /// An error.
    Error = 3,
    /// A warning.
    Warning = 4,
    /// Normal, and worth a line.
    Notice = 5,
    /// Traffic.
    Info = 6,
    /// For whoever looks for a fault.
    Debug = 7,
}

impl Severity {
    /// By its number.
    pub fn of(number: u8) -> Self {
        match number {
            0 => Self::Emergency,
            1 => Self::Alert,
            2 => Self::Critical,
            3 => Self::Error,
            4 => Self::Warning,
            5 => Self::Notice,
            6 => Self::Info,
            _ => Self::Debug,
        }
    }
}

/// Takes lines, and brings them where they are to go; it never waits, and may lose some.
pub trait Journal: fmt::Debug {
    /// One line, without an end, for each of these targets that wants it so severe.
    fn log(&mut self, to: &[LogTarget], tag: Option<&str>, severity: Severity, line: &[u8]);

    /// The thread has nothing more to do for now: what was kept until then is written.
    fn flush(&mut self) {}

    /// Why a client was answered by an error of our own. A line has been written of it, too.
    fn explain(&mut self, _explanation: &Explanation) {}
}
