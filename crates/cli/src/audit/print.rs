//! Prints the report.

use fulmar_audit::report::{AuditRun, Excess, RunComparison};

use super::arguments::{AuditArguments, AuditPlan};
use crate::files::OutputFile;
use crate::output::{ToolFailure, print_stderr, print_stdout};

/// A table or JSON on standard output. In a comparison, a second command is the second column and a
/// stored run is the first.
pub(crate) fn print(
    arguments: &AuditArguments,
    plan: &AuditPlan,
    this: &AuditRun,
    other: Option<&AuditRun>,
    exceeded: Option<&[Excess]>,
) -> Result<(), ToolFailure> {
    let compare = |first, second| {
        RunComparison::new(first, second).map_err(|error| ToolFailure::Message(error.to_string()))
    };
    let text = match other {
        _ if arguments.json => {
            let compared = other.map(|other| compare(other, this)).transpose()?;
            this.json(compared.as_ref(), exceeded) + "\n"
        }
        Some(other) if plan.other.is_some() => compare(this, other)?.text(),
        Some(stored) => compare(stored, this)?.text(),
        None => this.text(),
    };
    match arguments.record {
        Some(OutputFile::Stdout) => print_stderr(&text),
        _ => print_stdout(&text),
    }
}
