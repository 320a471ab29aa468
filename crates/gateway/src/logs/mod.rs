//! Where lines of logs go: syslog by UDP, a Unix datagram socket, an open descriptor.
//!
//! [`Logs`] is one for all threads, and opened while paths are still what they are and privileges
//! are there. Each thread has a [`LineWriter`]. To a socket, a line is a call that never waits: what
//! finds no room is lost, and counted. To a descriptor, the lines of a turn are one call.

mod frame;
mod outlet;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fulmar_haproxy::Config;
use fulmar_haproxy::model::LogTarget;
use fulmar_proxy::{Journal, Severity};

use crate::error::Error;
use frame::Frame;
pub(crate) use frame::machine_name;
use outlet::Outlet;

/// All places that lines go to. Cheap to clone.
#[derive(Clone)]
pub struct Logs(Arc<Shared>);

struct Shared {
    outlets: Vec<Outlet>,
    samples: Vec<(LogTarget, AtomicU32)>,
    frame: Frame,
    lost: AtomicU64,
}

impl Logs {
    /// Opens what `config` names.
    ///
    /// # Errors
    /// A socket cannot be made. That nobody listens at its other end is none.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let mut outlets: Vec<Outlet> = Vec::new();
        let mut samples: Vec<(LogTarget, AtomicU32)> = Vec::new();
        let frontends = config.frontends.iter().flat_map(|frontend| &frontend.logs);
        let backends = config.backends.iter().flat_map(|backend| &backend.logs);
        for target in config.global.logs.iter().chain(frontends).chain(backends) {
            if !outlets.iter().any(|outlet| outlet.address == target.to) {
                let outlet = Outlet::open(target.to.clone());
                outlets.push(outlet.map_err(|error| Error::Log { to: target.to.clone(), error })?);
            }
            if target.sample.is_some() && !samples.iter().any(|(known, _)| known == target) {
                samples.push((target.clone(), AtomicU32::new(0)));
            }
        }
        let frame = Frame::new(&config.global);
        Ok(Self(Arc::new(Shared { outlets, samples, frame, lost: AtomicU64::new(0) })))
    }

    /// Lines that found no room, or nobody to take them.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Writes what threads have kept for the ends of their turns: before the process ends at once.
    pub fn flush(&self) {
        self.0.outlets.iter().for_each(|outlet| self.0.lose(outlet.flush()));
    }

    /// The number of this process is written from now on: it is another one in the background.
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

/// The journal of one thread.
#[derive(Debug)]
pub struct LineWriter {
    logs: Logs,
    process: u32,
    line: Vec<u8>, // of the last call, for its memory
    unwritten: bool,
}

impl Journal for LineWriter {
    fn log(&mut self, to: &[LogTarget], tag: Option<&str>, severity: Severity, line: &[u8]) {
        let shared = &*self.logs.0;
        for target in to {
            let level = severity as u8;
            if level > target.level_max || !shared.is_sampled(target) {
                continue;
            }
            let Some(outlet) = shared.outlets.iter().find(|it| it.address == target.to) else {
                continue; // the configuration names all, so there is one
            };
            self.line.clear();
            let level = level.max(target.level_min);
            shared.frame.begin(&mut self.line, target, level, tag, self.process);
            self.line.extend(line.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
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

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Shared {
    fn lose(&self, lines: u64) {
        if lines > 0 {
            self.lost.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// `sample`: of so many lines, those whose numbers are in its ranges.
    fn is_sampled(&self, target: &LogTarget) -> bool {
        let Some((ranges, of)) = &target.sample else { return true };
        let Some((_, count)) = self.samples.iter().find(|(known, _)| known == target) else {
            return true;
        };
        let number = count.fetch_add(1, Ordering::Relaxed) % (*of).max(1) + 1;
        ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}
