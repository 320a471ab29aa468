//! The program that is counted: started, waited for, ended.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fulmar_audit::report::Run;
use fulmar_audit::{AuditError, Clock, Counter, Counts, End, Refusal, Timeline};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::arguments::{Asked, Who};
use crate::output::{Failure, complain};

/// A program with its counter. What we have started ends with this, at the latest.
#[derive(Debug)]
pub(crate) struct Program {
    counter: Counter,
    /// For people.
    pub(crate) command: String,
    is_ours: bool,
    /// How long an orderly end may take.
    stop_timeout: Duration,
    end: Option<End>,
}

impl Program {
    /// Starts or joins it, and says so if the kernel does not count. What it prints goes to
    /// standard error: standard output is for the report.
    pub(crate) fn new(who: &Who, asked: &Asked) -> Result<Self, Failure> {
        let (counter, command) = match who {
            Who::Command(words) => (start(words, asked)?, line(words)),
            Who::Process(pid) => {
                (Counter::join(*pid, asked.scope).map_err(failure)?, command_of(*pid))
            }
        };
        if let Some(why) = counter.refused().filter(|why| **why != Refusal::Asked) {
            complain(&format!("{why}; using ptrace instead (same counts, slower program)"));
        }
        let is_ours = matches!(who, Who::Command(_));
        Ok(Self { counter, command, is_ours, stop_timeout: asked.stop_timeout, end: None })
    }

    /// Waits for its end, for at most `timeout`. True if it has ended.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<bool, Failure> {
        if self.end.is_none() {
            self.end = self.counter.wait(Some(timeout)).map_err(failure)?;
        }
        Ok(self.end.is_some())
    }

    /// What was counted so far.
    pub(crate) fn snapshot(&self) -> Result<Counts, Failure> {
        self.counter.snapshot().map_err(failure)
    }

    /// Begins the timeline anew.
    pub(crate) fn record(&self) -> Result<(), Failure> {
        self.counter.record().map_err(failure)
    }

    /// What was called since then, if that was asked for.
    pub(crate) fn timeline(&self) -> Result<Option<Timeline>, Failure> {
        self.counter.timeline().map_err(failure)
    }

    /// What was counted when nothing more happens: a connection that was closed is closed by the
    /// other end too, a moment later. A program that is kept from running is not quiet; one that
    /// never is, is not waited for.
    pub(crate) fn settled(&mut self) -> Result<Counts, Failure> {
        let mut before = self.snapshot()?;
        let mut quiet = 0;
        for _ in 0..SETTLE_LOOKS_MAX {
            let ended = self.wait(SETTLE_LOOK)?;
            let now = self.snapshot()?;
            let is_quiet = now.total() == before.total() && rests(self.counter.pid());
            quiet = if is_quiet { quiet + 1 } else { 0 };
            before = now;
            if quiet >= SETTLE_LOOKS || ended {
                break;
            }
        }
        Ok(before)
    }

    /// How it ended, if it has and we have started it.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        match self.end {
            Some(End::Ended(status)) => Some(status),
            _ => None,
        }
    }

    /// How it ended, for people.
    pub(crate) fn ending(&self) -> Option<String> {
        self.end?;
        Some(self.status().map_or_else(|| "it is gone".to_owned(), |status| status.to_string()))
    }

    /// Ends it, if it is ours: first it is asked to.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        if !self.is_ours || self.end.is_some() {
            return Ok(());
        }
        self.counter.signal(SIGTERM).map_err(failure)?;
        if self.wait(self.stop_timeout)? {
            return Ok(());
        }
        complain(&format!("{}: it does not end by SIGTERM, and is killed", self.command));
        if self.kill()? {
            return Ok(());
        }
        Err(Failure::new(&self.command, "it can neither be ended nor killed"))
    }

    /// Kills it and then what it leaves behind. True if all have ended.
    fn kill(&mut self) -> Result<bool, Failure> {
        for _ in 0..KILLS_MAX {
            self.counter.signal(SIGKILL).map_err(failure)?;
            if self.wait(KILL_TIME)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_ours && self.end.is_none() {
            let _ = self.kill(); // something else has failed, which is what is told
        }
    }
}

fn start(words: &[OsString], asked: &Asked) -> Result<Counter, Failure> {
    let (program, arguments) = words.split_first().expect("a command has a word");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    let clock = asked.clock.then(|| Clock::prepare(&mut command));
    let clock = clock.transpose().map_err(failure)?;
    let counter = Counter::start(command, asked.scope).map_err(failure)?;
    Ok(match clock {
        Some(clock) => counter.with_clock(clock),
        None => counter,
    })
}

fn line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Run::command_of(words.iter().map(AsRef::as_ref))
}

/// The command line of a process (proc(5)); one that hides it is known by its number.
fn command_of(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    match words.trim_end_matches('\0') {
        "" => format!("process {pid}"),
        words => Run::command_of(words.split('\0')),
    }
}

/// True if no thread of a process has anything to do (`R` and `D` of proc_pid_stat(5)), or is held by
/// its tracer (`t`). Who is not there any more has nothing to do.
fn rests(pid: u32) -> bool {
    let has_work = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['R', 'D', 't']))
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    !threads.is_ok_and(|threads| threads.flatten().any(has_work))
}

fn failure(error: AuditError) -> Failure {
    Failure::Message(error.to_string())
}

/// Between two looks at a program that may still be busy.
const SETTLE_LOOK: Duration = Duration::from_millis(20);
/// As many looks without a call make it quiet.
const SETTLE_LOOKS: u32 = 3;
/// Two seconds; then the program has a clock of its own.
const SETTLE_LOOKS_MAX: u32 = 100;
const KILL_TIME: Duration = Duration::from_secs(1);
/// Each generation that is killed may leave another.
const KILLS_MAX: u32 = 10;
