//! The destination of log lines.

use std::fmt;

use fulmar_haproxy::model::LogTarget;

use crate::http::Explanation;

/// The severity of a log line (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogSeverity {
    /// The service is unusable.
    Emergency = 0,
    /// An operator has to act at once.
    Alert = 1,
    /// Critical.
    Critical = 2,
    /// An error.
    Error = 3,
    /// A warning.
    Warning = 4,
    /// Normal, but significant.
    Notice = 5,
    /// Traffic.
    Info = 6,
    /// Debugging.
    Debug = 7,
}

impl LogSeverity {
    /// The severity with this number; larger numbers are `Debug`.
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

/// Writes log lines. It never blocks, and may lose lines.
pub trait ProxyLog: fmt::Debug {
    /// Logs a line, without its end, at each target that accepts this severity.
    fn log(&mut self, to: &[LogTarget], tag: Option<&str>, severity: LogSeverity, line: &[u8]);

    /// The thread is about to wait: writes the buffered lines.
    fn flush(&mut self) {}

    /// Reports why the proxy generated an error response. The log line was written before.
    fn explain(&mut self, _explanation: &Explanation) {}
}
