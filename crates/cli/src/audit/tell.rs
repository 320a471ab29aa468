//! Prints what was counted.

use fulmar_audit::report::{Comparison, Excess, Run};

use super::arguments::{Arguments, Asked};
use crate::files::OutputFile;
use crate::output::{Failure, say, say_beside};

/// A table or JSON on standard output. With another run: that of a second command stands behind
/// this one, and one that was kept before it.
pub(crate) fn print(
    arguments: &Arguments,
    asked: &Asked,
    this: &Run,
    other: Option<&Run>,
    exceeded: Option<&[Excess]>,
) -> Result<(), Failure> {
    let compare = |first, second| {
        Comparison::new(first, second).map_err(|error| Failure::Message(error.to_string()))
    };
    let text = match other {
        _ if arguments.json => {
            let compared = other.map(|other| compare(other, this)).transpose()?;
            this.json(compared.as_ref(), exceeded) + "\n"
        }
        Some(other) if asked.other.is_some() => compare(this, other)?.text(),
        Some(kept) => compare(kept, this)?.text(),
        None => this.text(),
    };
    match arguments.record {
        Some(OutputFile::Stdout) => say_beside(&text),
        _ => say(&text),
    }
}
