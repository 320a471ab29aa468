//! Words that several rules share: a format, a field name.

use crate::rules::context::Context;
use crate::rules::format::{Format, Options};
use crate::rules::words::{Fault, Words};

/// A format in one word.
pub(crate) fn format(
    words: &mut Words<'_>,
    options: Options,
    context: &Context<'_>,
) -> Result<Format, Fault> {
    let word = words.expect("a format")?;
    Format::parse_in(&word.text, word.column, options, context)
}

/// A field name.
pub(crate) fn field_name(words: &mut Words<'_>) -> Result<String, Fault> {
    let word = words.expect("the name of a field")?;
    if !fulmar_proto::is_token(word.text.as_bytes()) {
        let message = format!("invalid field name '{}'", word.text);
        return Err(Fault::new(word.column, message));
    }
    Ok(word.text.clone())
}
