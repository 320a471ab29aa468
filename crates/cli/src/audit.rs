//! `fulmar audit`: counts the system calls of a program, under a load, and says what they are for.

mod arguments;
mod door;
mod measure;
mod program;
mod tell;

use std::path::Path;
use std::process::ExitCode;

use fulmar_audit::report::{Budget, Run};

pub(crate) use arguments::Arguments;

use crate::output::{Failure, complain};
use crate::signals::INTERRUPTED;
use measure::{Bell, Measured};

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match audit(arguments) {
        Err(Failure::Message(message)) => {
            complain(&message);
            Ok(ExitCode::from(NOT_MEASURED))
        }
        done => done,
    }
}

fn audit(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let asked = arguments.asked()?;
    let budget = arguments.budget.as_deref().map(budget).transpose()?;
    let kept = asked.kept.as_deref().map(kept).transpose()?;
    let bell = Bell::hang()?;
    let Measured { run: this, mut failure } = measure::run(&asked.this, &asked, &bell)?;
    let other = match (&asked.other, kept) {
        (Some(other), _) if failure.is_none() && !bell.has_rung() => {
            let other = measure::run(other, &asked, &bell)?;
            failure = other.failure;
            Some(other.run)
        }
        (_, kept) => kept,
    };
    let recorded = arguments.record.as_deref().filter(|_| failure.is_none());
    let recorded = recorded.map(|path| record(path, &this));
    let exceeded = budget.as_ref().map(|budget| budget.exceeded(&this));
    tell::print(arguments, &asked, &this, other.as_ref(), exceeded.as_deref())?;
    recorded.transpose()?; // not before: what was counted is worth something without its record
    if bell.has_rung() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    judge(arguments, &this, budget.as_ref())
}

fn record(path: &Path, run: &Run) -> Result<(), Failure> {
    std::fs::write(path, run.record()).map_err(|e| Failure::new(path.display(), e))
}

/// Holds a run against its budget.
fn judge(arguments: &Arguments, run: &Run, budget: Option<&Budget>) -> Result<ExitCode, Failure> {
    let (Some(budget), Some(path)) = (budget, &arguments.budget) else {
        return Ok(ExitCode::SUCCESS);
    };
    let exceeded = budget.exceeded(run);
    for line in &exceeded {
        complain(&format!("{}: {line}", path.display()));
    }
    if !exceeded.is_empty() {
        return Ok(ExitCode::from(EXCEEDED));
    }
    match budget.uncounted(run).first() {
        Some(name) => Err(Failure::new(
            path.display(),
            format!("nobody knows whether `{name}` holds: this counter does not count it"),
        )),
        None if run.counts.lost > 0 => Err(Failure::new(
            path.display(),
            format!("nobody knows whether it holds: {} events were lost", run.counts.lost),
        )),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What is wrong with a budget or a record is wrong with the command line.
fn budget(path: &Path) -> Result<Budget, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Budget::parse(&text).map_err(|error| wrong(error.to_string()))
}

fn kept(path: &Path) -> Result<Run, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Run::read(&text).map_err(|error| wrong(error.to_string()))
}

/// A budget does not hold.
const EXCEEDED: u8 = 1;
/// Nothing was measured, or not what was asked for.
const NOT_MEASURED: u8 = 3;
