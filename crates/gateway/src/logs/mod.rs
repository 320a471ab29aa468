//! Log output: syslog over UDP, a Unix datagram socket, an open descriptor.
//!
//! One [`Logs`] is shared by all threads. It is opened while paths and privileges are those of the
//! start. Each thread has a [`LineWriter`]. To a socket, each line is one non-blocking call: a line
//! that does not fit is dropped and counted. To a descriptor, all lines of a loop turn are one
//! call, which does not block either.

mod frame;
mod outlet;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fulmar_haproxy::model::LogTarget;
use fulmar_haproxy::{Config, Global};
use fulmar_proxy::{LogSeverity, ProxyLog};

use crate::error::Error;
use frame::Frame;
pub(crate) use frame::machine_name;
use outlet::Outlet;

/// All log outputs. Cheap to clone.
#[derive(Clone)]
pub struct Logs(Arc<LogOutlets>);

struct LogOutlets {
    outlets: Vec<Outlet>,
    samples: Vec<(LogTarget, AtomicU32)>,
    frame: Frame,
    lost: AtomicU64,
}

impl Logs {
    /// Opens the logs in `config`.
    ///
    /// # Errors
    /// A socket cannot be created. A missing receiver is no error.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let frontends = config.frontends.iter().flat_map(|frontend| &frontend.logs);
        let backends = config.backends.iter().flat_map(|backend| &backend.logs);
        Self::of(&config.global, frontends.chain(backends))
    }

    /// Opens the logs of `global`, and others.
    fn of<'t>(
        global: &'t Global,
        others: impl Iterator<Item = &'t LogTarget>,
    ) -> Result<Self, Error> {
        let mut outlets: Vec<Outlet> = Vec::new();
        let mut samples: Vec<(LogTarget, AtomicU32)> = Vec::new();
        for target in global.logs.iter().chain(others) {
            if !outlets.iter().any(|outlet| outlet.address == target.to) {
                let outlet = Outlet::open(target.to.clone());
                outlets.push(outlet.map_err(|error| Error::Log { to: target.to.clone(), error })?);
            }
            if target.sample.is_some() && !samples.iter().any(|(known, _)| known == target) {
                samples.push((target.clone(), AtomicU32::new(0)));
            }
        }
        let frame = Frame::new(global);
        Ok(Self(Arc::new(LogOutlets { outlets, samples, frame, lost: AtomicU64::new(0) })))
    }

    /// Number of lines dropped because of a full buffer or a missing receiver.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Writes buffered lines. Call it before an immediate exit.
    pub fn flush(&self) {
        self.0.outlets.iter().for_each(|outlet| self.0.lose(outlet.flush()));
    }

    /// A writer for one thread. Its lines carry the current process number, so create it after
    /// going to the background.
    pub fn writer(&self) -> LineWriter {
        LineWriter {
            logs: self.clone(),
            process: std::process::id(),
            line: Vec::new(),
            unwritten: false,
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("outlets", &self.0.outlets.len()).finish_non_exhaustive()
    }
}

/// The log writer of one thread.
#[derive(Debug)]
pub struct LineWriter {
    logs: Logs,
    process: u32,
    line: Vec<u8>, // of the last call; kept for its memory
    unwritten: bool,
}

impl ProxyLog for LineWriter {
    fn log(&mut self, to: &[LogTarget], tag: Option<&str>, severity: LogSeverity, line: &[u8]) {
        let shared = &*self.logs.0;
        for target in to {
            let level = severity as u8;
            if level > target.level_max || !shared.is_sampled(target) {
                continue;
            }
            let Some(outlet) = shared.outlets.iter().find(|it| it.address == target.to) else {
                continue; // every configured address is opened, so this is never taken
            };
            self.line.clear();
            let level = level.max(target.level_min);
            shared.frame.begin(&mut self.line, target, level, tag, self.process);
            append(&mut self.line, line);
            self.line.truncate(target.line_size_max);
            self.line.push(b'\n');
            shared.lose(outlet.send(&self.line));
            self.unwritten = true;
        }
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.unwritten) {
            self.logs.flush();
        }
    }
}

/// The logs of `global`, for messages of a process in the background.
#[derive(Debug)]
pub(crate) struct GlobalLog {
    targets: Vec<LogTarget>,
    writer: LineWriter,
}

impl GlobalLog {
    /// Opens them.
    ///
    /// # Errors
    /// As [`Logs::open`].
    pub(crate) fn open(global: &Global) -> Result<Self, Error> {
        let writer = Logs::of(global, std::iter::empty())?.writer();
        Ok(Self { targets: global.logs.clone(), writer })
    }

    /// Logs a line.
    pub(crate) fn log(&mut self, severity: LogSeverity, line: &str) {
        self.writer.log(&self.targets, None, severity, line.as_bytes());
        self.writer.flush();
    }
}

/// Appends a line without control characters, so that it cannot be split and cannot control a
/// terminal. As HAProxy does for captured fields, a control character is written as its code
/// (`#1B`). Tabs stay, and line ends become blanks. Formats have escaped most peer data before;
/// error texts of systems and peers are not escaped before.
fn append(out: &mut Vec<u8>, line: &[u8]) {
    for byte in line {
        match *byte {
            b'\n' => out.push(b' '),
            b'\t' => out.push(b'\t'),
            0..=0x1f | 0x7f => {
                let digit = |value: u8| HEX[usize::from(value)];
                out.extend([b'#', digit(byte >> 4), digit(byte & 0xf)]);
            }
            byte => out.push(byte),
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LogOutlets {
    fn lose(&self, lines: u64) {
        if lines > 0 {
            self.lost.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// `sample`: true if the line's number is in one of the ranges.
    fn is_sampled(&self, target: &LogTarget) -> bool {
        let Some((ranges, of)) = &target.sample else { return true };
        let Some((_, count)) = self.samples.iter().find(|(known, _)| known == target) else {
            return true;
        };
        let number = count.fetch_add(1, Ordering::Relaxed) % (*of).max(1) + 1;
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_speak_to_a_terminal() {
        let mut out = b"<6>".to_vec();
        append(&mut out, b"name \x1b[2Ja\r\nb\tc\x00\x7f \xc3\xa4");
        assert_eq!(out, b"<6>name #1B[2Ja#0D b\tc#00#7F \xc3\xa4");
    }
}
