//! `fulmar audit`: counts the system calls of a program, under a load, and says what they are for.

mod arguments;
mod door;
mod measure;
mod program;
mod tell;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use fulmar_audit::report::{Budget, Excess, Run};

pub(crate) use arguments::Arguments;

use crate::files::{self, InputFile, OutputFile};
use crate::output::{Failure, complain};
use crate::signals::INTERRUPTED;
use arguments::Asked;
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
    check_streams(arguments, &asked)?;
    let budget = arguments.budget.as_ref().map(|file| read(file, Budget::parse)).transpose()?;
    let kept = asked.kept.as_ref().map(|file| read(file, Run::read)).transpose()?;
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
    let recorded = arguments.record.as_ref().filter(|_| failure.is_none());
    let recorded = recorded.map(|file| file.write(this.record().as_bytes()));
    let exceeded = budget.as_ref().map(|budget| budget.exceeded(&this));
    tell::print(arguments, &asked, &this, other.as_ref(), exceeded.as_deref())?;
    recorded.transpose()?; // not before: what was counted is worth something without its record
    if bell.has_rung() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    match (&arguments.budget, &budget, &exceeded) {
        (Some(file), Some(budget), Some(exceeded)) => judge(file.name(), budget, exceeded, &this),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// No stream is used twice.
fn check_streams(arguments: &Arguments, asked: &Asked) -> Result<(), Failure> {
    let inputs = [("--budget", &arguments.budget), ("--compare", &asked.kept)];
    files::check_inputs(inputs.map(|(name, file)| (name, file.as_ref())))?;
    match arguments.record {
        Some(OutputFile::Stdout) if arguments.json => {
            let message = "standard output is named twice: --record and --json; use a file for one";
            Err(Failure::Usage(message.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Says what exceeds a budget, or that nobody knows whether it holds.
fn judge(
    path: &Path,
    budget: &Budget,
    exceeded: &[Excess],
    run: &Run,
) -> Result<ExitCode, Failure> {
    for line in exceeded {
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

/// A budget or a record: what is wrong with one is wrong with the command line.
fn read<T, E: Display>(
    file: &InputFile,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Failure> {
    let wrong = |why: &dyn Display| Failure::Usage(format!("{}: {why}", file.name().display()));
    let bytes = file.try_read_at_most(FILE_SIZE_MAX + 1).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    if text.len() as u64 > FILE_SIZE_MAX {
        return Err(wrong(&"it is longer than any record or budget"));
    }
    parse(&text).map_err(|error| wrong(&error))
}

/// As much as a record may have; no budget comes near it.
const FILE_SIZE_MAX: u64 = 1 << 20;

/// A budget does not hold.
const EXCEEDED: u8 = 1;
/// Nothing was measured, or not what was asked for.
const NOT_MEASURED: u8 = 3;
