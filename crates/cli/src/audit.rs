//! `fulmar audit`: starts a program or joins one, counts until it ends, says what was counted.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use clap::Args;
use fulmar_audit::{AuditError, Counter, Counts, End};
use fulmar_sys as sys;
use signal_hook::consts::SIGTERM;

use crate::output::{Failure, complain, say};
use crate::signals::{self, Interrupt};

/// Count the system calls of a program.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// Join a process that runs, instead of starting a command
    #[arg(
        long,
        value_name = "PID",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    pid: Option<u32>,

    /// The command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let counter = match arguments.pid {
        Some(pid) => Counter::join(pid),
        None => Counter::start(command(&arguments.command)),
    };
    let counter = match counter {
        Ok(counter) => counter,
        Err(e @ AuditError::Command { .. }) => {
            complain(&e.to_string());
            return Ok(ExitCode::from(NOT_STARTED));
        }
        Err(e) => return Err(Failure::Message(e.to_string())),
    };
    watch(&counter, arguments.pid.is_none())?;
    let end = counter.wait(None).map_err(failure)?;
    let counts = counter.snapshot().map_err(failure)?;
    report(&counts)?;
    match end {
        Some(End::Ended(status)) => Ok(code(status)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// From now on a signal that would end us ends a command that we started, and then the report
/// follows; a process that we joined goes on.
fn watch(counter: &Counter, is_ours: bool) -> Result<(), Failure> {
    let (pid, stopper) = (counter.pid(), counter.stopper());
    let act = move |interrupt| match interrupt {
        // A terminal has sent it to the command as well.
        Interrupt::Interrupt if is_ours => {}
        Interrupt::Terminate if is_ours => {
            if let Some(target) = sys::Target::process(pid) {
                let _ = sys::send_signal(target, SIGTERM); // it may have ended meanwhile
            }
        }
        _ => {
            let _ = stopper.stop(); // a second signal ends us
        }
    };
    signals::watch(act).map_err(|e| Failure::new("signals", e))
}

fn report(counts: &Counts) -> Result<(), Failure> {
    let mut text = String::new();
    for (name, tally) in &counts.calls {
        text += &format!("{:>10} {:>10} {name}\n", tally.count, tally.failed());
    }
    text += &format!("{counts:#?}\n");
    say(&text)
}

/// The command's own status; 128 and the number of the signal that ended it, as a shell says.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn failure(error: AuditError) -> Failure {
    Failure::Message(error.to_string())
}

const SIGNALLED: i32 = 128;
/// As a shell says of a command that is not there.
const NOT_STARTED: u8 = 127;
const HELP: &str = "\
Exit status:
  the command's own, when it ends; 128 and the number of the signal that ended it";
