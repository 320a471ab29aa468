//! `fulmar audit`: counts the system calls of a program, optionally under a load.

mod arguments;
mod endpoint;
mod measure;
mod print;
mod program;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use fulmar_audit::report::{AuditRun, Budget, Excess};

pub(crate) use arguments::AuditArguments;

use crate::files::{self, InputFile, OutputFile};
use crate::output::{ToolFailure, warn};
use crate::signals::INTERRUPTED;
use arguments::AuditPlan;
use measure::{InterruptFlag, MeasuredRun};

pub(crate) fn run(arguments: &AuditArguments) -> Result<ExitCode, ToolFailure> {
    match audit(arguments) {
        Err(ToolFailure::Message(message)) => {
            warn(&message);
            Ok(ExitCode::from(NOT_MEASURED))
        }
        done => done,
    }
}

fn audit(arguments: &AuditArguments) -> Result<ExitCode, ToolFailure> {
    let plan = arguments.plan()?;
    check_streams(arguments, &plan)?;
    let budget = arguments.budget.as_ref().map(|file| read(file, Budget::parse)).transpose()?;
    let stored = plan.stored.as_ref().map(|file| read(file, AuditRun::read)).transpose()?;
    let interrupt = InterruptFlag::install()?;
    let MeasuredRun { run: this, mut failure } = measure::run(&plan.this, &plan, &interrupt)?;
    let other = match (&plan.other, stored) {
        (Some(other), _) if failure.is_none() && !interrupt.is_raised() => {
            let other = measure::run(other, &plan, &interrupt)?;
            failure = other.failure;
            Some(other.run)
        }
        (_, stored) => stored,
    };
    let recorded = arguments.record.as_ref().filter(|_| failure.is_none());
    let recorded = recorded.map(|file| file.write(this.record().as_bytes()));
    let exceeded = budget.as_ref().map(|budget| budget.exceeded(&this));
    print::print(arguments, &plan, &this, other.as_ref(), exceeded.as_deref())?;
    recorded.transpose()?; // after printing: the report is useful without its record
    if interrupt.is_raised() {
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

/// Standard output is used only once.
fn check_streams(arguments: &AuditArguments, plan: &AuditPlan) -> Result<(), ToolFailure> {
    let inputs = [("--budget", &arguments.budget), ("--compare", &plan.stored)];
    files::check_inputs(inputs.map(|(name, file)| (name, file.as_ref())))?;
    match arguments.record {
        Some(OutputFile::Stdout) if arguments.json => {
            let message =
                "standard output is used twice: by --record and --json; use a file for one of them";
            Err(ToolFailure::Usage(message.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Reports the exceeded lines of a budget. Fails if some lines could not be checked.
fn judge(
    path: &Path,
    budget: &Budget,
    exceeded: &[Excess],
    run: &AuditRun,
) -> Result<ExitCode, ToolFailure> {
    for line in exceeded {
        warn(&format!("{}: {line}", path.display()));
    }
    if !exceeded.is_empty() {
        return Ok(ExitCode::from(EXCEEDED));
    }
    match budget.uncounted(run).first() {
        Some(name) => Err(ToolFailure::new(
            path.display(),
            format!("cannot check `{name}`: this backend does not count it"),
        )),
        None if run.counts.lost > 0 => Err(ToolFailure::new(
            path.display(),
            format!("cannot check the budget: {} events were lost", run.counts.lost),
        )),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Reads a budget or a record. An invalid one is a usage error.
fn read<T, E: Display>(
    file: &InputFile,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ToolFailure> {
    let wrong = |why: &dyn Display| ToolFailure::Usage(format!("{}: {why}", file.name().display()));
    let bytes = file.try_read_at_most(FILE_SIZE_MAX + 1).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    if text.len() as u64 > FILE_SIZE_MAX {
        return Err(wrong(&"too long for a record or budget (at most 1 MiB)"));
    }
    parse(&text).map_err(|error| wrong(&error))
}

/// The size limit of a record; budgets are shorter.
const FILE_SIZE_MAX: u64 = 1 << 20;

/// A budget is exceeded.
const EXCEEDED: u8 = 1;
/// Nothing was measured, or not everything requested.
const NOT_MEASURED: u8 = 3;
