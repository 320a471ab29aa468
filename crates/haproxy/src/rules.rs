//! Where crate `rules` reads words: conditions, expressions, formats.

use fulmar_rules::{Condition, Fault, Format, Word};

use crate::draft::Draft;
use crate::line::Line;

/// The condition at the end of a line, if there is one.
pub(crate) fn condition(_draft: &Draft, line: &mut Line<'_>) -> Result<Option<Condition>, Fault> {
    match line.words.is_empty() {
        true => Ok(None),
        false => Err(Fault::new(line.words.column(), "conditions cannot be read yet")),
    }
}

/// The condition at the end of a line, which has to be there.
pub(crate) fn required_condition(draft: &Draft, line: &mut Line<'_>) -> Result<Condition, Fault> {
    let column = line.words.column();
    let missing = || Fault::new(column, "a condition that begins with if or unless is missing");
    condition(draft, line)?.ok_or_else(missing)
}

/// A word that is a format.
pub(crate) fn format(_word: &Word, _line: &Line<'_>) -> Result<Format, Fault> {
    Ok(Format::default())
}

/// A word that is the format of a log.
pub(crate) fn log_format(word: &Word, line: &Line<'_>) -> Result<Format, Fault> {
    format(word, line)
}

/// A format of our own.
pub(crate) fn built_in_format(_text: &str) -> Format {
    Format::default()
}
