//! Starts, waits for and stops the counted program.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fulmar_audit::report::AuditRun;
use fulmar_audit::{
    AuditError, CallCounts, ClockShim, Counter, CounterEnd, KernelRefusal, Timeline,
};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::arguments::{AuditPlan, AuditedProgram};
use crate::output::{ToolFailure, warn};

/// A program with its counter. A command started here is killed on drop at the latest.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    counter: Counter,
    /// The command line, for messages.
    pub(crate) command: String,
    is_ours: bool,
    /// Timeout from SIGTERM to SIGKILL.
    stop_timeout: Duration,
    end: Option<CounterEnd>,
}

impl RunningProgram {
    /// Starts the command or attaches to the process. Warns if eBPF is not used. The program's
    /// output goes to standard error, because standard output is for the report.
    pub(crate) fn new(program: &AuditedProgram, plan: &AuditPlan) -> Result<Self, ToolFailure> {
        let (counter, command) = match program {
            AuditedProgram::Command(words) => (start(words, plan)?, line(words)),
            AuditedProgram::Process(pid) => {
                (Counter::join(*pid, plan.scope).map_err(failure)?, command_of(*pid))
            }
        };
        if let Some(why) = counter.refused().filter(|why| **why != KernelRefusal::Requested) {
            warn(&format!("{why}; using ptrace instead (same counts, slower program)"));
        }
        let is_ours = matches!(program, AuditedProgram::Command(_));
        Ok(Self { counter, command, is_ours, stop_timeout: plan.stop_timeout, end: None })
    }

    /// Waits for the exit, for at most `timeout`. True if the program has ended.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<bool, ToolFailure> {
        if self.end.is_none() {
            self.end = self.counter.wait(Some(timeout)).map_err(failure)?;
        }
        Ok(self.end.is_some())
    }

    /// The counts so far.
    pub(crate) fn snapshot(&self) -> Result<CallCounts, ToolFailure> {
        self.counter.snapshot().map_err(failure)
    }

    /// Restarts the timeline.
    pub(crate) fn record(&self) -> Result<(), ToolFailure> {
        self.counter.record().map_err(failure)
    }

    /// The timeline since then, if it was requested.
    pub(crate) fn timeline(&self) -> Result<Option<Timeline>, ToolFailure> {
        self.counter.timeline().map_err(failure)
    }

    /// The counts once the program is idle: after the client closes, the program still closes its
    /// end. A runnable or traced program is not idle. Gives up after two seconds.
    pub(crate) fn settled(&mut self) -> Result<CallCounts, ToolFailure> {
        let mut before = self.snapshot()?;
        let mut quiet = 0;
        for _ in 0..SETTLE_POLLS_MAX {
            let ended = self.wait(SETTLE_POLL)?;
            let now = self.snapshot()?;
            let is_quiet = now.total() == before.total() && is_idle(self.counter.pid());
            quiet = if is_quiet { quiet + 1 } else { 0 };
            before = now;
            if quiet >= SETTLE_POLLS || ended {
                break;
            }
        }
        Ok(before)
    }

    /// The exit status, if this process started the program and it has ended.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        match self.end {
            Some(CounterEnd::Ended(status)) => Some(status),
            _ => None,
        }
    }

    /// The exit status as text. `None` while it runs.
    pub(crate) fn ending(&self) -> Option<String> {
        self.end?;
        Some(
            self.status()
                .map_or_else(|| "the process is gone".to_owned(), |status| status.to_string()),
        )
    }

    /// Stops a started command with SIGTERM, and with SIGKILL after the timeout.
    pub(crate) fn stop(mut self) -> Result<(), ToolFailure> {
        if !self.is_ours || self.end.is_some() {
            return Ok(());
        }
        self.counter.signal(SIGTERM).map_err(failure)?;
        if self.wait(self.stop_timeout)? {
            return Ok(());
        }
        warn(&format!("{}: no exit after SIGTERM, sending SIGKILL", self.command));
        if self.kill()? {
            return Ok(());
        }
        Err(ToolFailure::new(&self.command, "no exit after SIGKILL"))
    }

    /// Kills the program and then its adopted descendants. True if all have ended.
    fn kill(&mut self) -> Result<bool, ToolFailure> {
        for _ in 0..KILLS_MAX {
            self.counter.signal(SIGKILL).map_err(failure)?;
            if self.wait(KILL_TIME)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if self.is_ours && self.end.is_none() {
            let _ = self.kill(); // another failure is reported already
        }
    }
}

fn start(words: &[OsString], plan: &AuditPlan) -> Result<Counter, ToolFailure> {
    let (program, arguments) = words.split_first().expect("a command has a word");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    let clock = plan.clock.then(|| ClockShim::prepare(&mut command));
    let clock = clock.transpose().map_err(failure)?;
    let counter = Counter::start(command, plan.scope).map_err(failure)?;
    Ok(match clock {
        Some(clock) => counter.with_clock(clock),
        None => counter,
    })
}

fn line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    AuditRun::command_of(words.iter().map(AsRef::as_ref))
}

/// The command line of a process (proc(5)); its number if the command line is empty.
fn command_of(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    match words.trim_end_matches('\0') {
        "" => format!("process {pid}"),
        words => AuditRun::command_of(words.split('\0')),
    }
}

/// True if no thread of a process is runnable or in disk sleep (`R` and `D` of proc_pid_stat(5)),
/// or stopped by its tracer (`t`); also if the process is gone.
fn is_idle(pid: u32) -> bool {
    let has_work = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['R', 'D', 't']))
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    !threads.is_ok_and(|threads| threads.flatten().any(has_work))
}

fn failure(error: AuditError) -> ToolFailure {
    ToolFailure::Message(error.to_string())
}

/// Poll interval of a busy program.
const SETTLE_POLL: Duration = Duration::from_millis(20);
/// A program is idle after as many polls without a call.
const SETTLE_POLLS: u32 = 3;
/// Two seconds; a program still busy then has periodic work.
const SETTLE_POLLS_MAX: u32 = 100;
const KILL_TIME: Duration = Duration::from_secs(1);
/// Each killed generation may leave another one.
const KILLS_MAX: u32 = 10;
