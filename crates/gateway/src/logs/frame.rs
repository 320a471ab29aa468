//! The header of a log line: RFC 3164, RFC 5424, a journal level, or nothing.

use std::io::Write;

use fulmar_haproxy::Global;
use fulmar_haproxy::model::{LogLine, LogTarget};
use fulmar_sys as sys;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Values that all lines share.
#[derive(Debug)]
pub(super) struct Frame {
    /// `log-send-hostname`.
    hostname: Option<String>,
    /// RFC 3164 lines carry the host name.
    sends_hostname: bool,
    tag: String,
    zone: TimeZone,
}

impl Frame {
    /// Reads the time zone of the machine, once.
    pub(super) fn new(global: &Global) -> Self {
        let hostname = global.log_hostname.clone().filter(|name| !name.is_empty());
        Self {
            sends_hostname: global.log_hostname.is_some(),
            hostname,
            tag: global.log_tag.clone().unwrap_or_else(|| TAG.to_owned()),
            zone: TimeZone::system(),
        }
    }

    /// Writes everything before the text.
    pub(super) fn begin(
        &self,
        line: &mut Vec<u8>,
        target: &LogTarget,
        level: u8,
        tag: Option<&str>,
        process: u32,
    ) {
        let priority = u32::from(target.facility) * 8 + u32::from(level);
        let tag = tag.unwrap_or(&self.tag);
        let host = self.hostname.as_deref();
        let moment = || Timestamp::try_from(sys::wall_clock()).unwrap_or_default();
        let here = |moment: Timestamp| moment.to_zoned(self.zone.clone());
        let old = || here(moment()).strftime("%b %e %H:%M:%S").to_string();
        let iso = || here(moment()).strftime("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string();
        let written = match target.format {
            LogLine::Usual | LogLine::Rfc3164 if self.names_host(target.format) => {
                let host = host.unwrap_or(LOCALHOST);
                write!(line, "<{priority}>{} {host} {tag}[{process}]: ", old())
            }
            LogLine::Usual | LogLine::Local | LogLine::Rfc3164 => {
                write!(line, "<{priority}>{} {tag}[{process}]: ", old())
            }
            LogLine::Rfc5424 => {
                let host = host.unwrap_or(NOBODY);
                write!(line, "<{priority}>1 {} {host} {tag} {process} - - ", iso())
            }
            LogLine::Priority => write!(line, "<{priority}>"),
            LogLine::Short => write!(line, "<{level}>"),
            LogLine::Timed => write!(line, "<{level}>{} ", iso()),
            LogLine::Iso => write!(line, "{} ", iso()),
            LogLine::Raw => Ok(()),
        };
        written.expect("memory takes everything");
    }
}

impl Frame {
    fn names_host(&self, format: LogLine) -> bool {
        self.sends_hostname || format == LogLine::Rfc3164
    }
}

/// The host name of the machine; `-` if it is unknown.
pub(crate) fn machine_name() -> String {
    let name = std::fs::read_to_string(HOSTNAME);
    name.map_or_else(|_| "-".to_owned(), |name| name.trim().to_owned())
}

/// The default tag of HAProxy, which scripts and filters expect.
const TAG: &str = "haproxy";
/// HAProxy's host name in RFC 5424 lines without `log-send-hostname`.
const LOCALHOST: &str = "localhost";
/// Nil value (RFC 5424 §6).
const NOBODY: &str = "-";
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
