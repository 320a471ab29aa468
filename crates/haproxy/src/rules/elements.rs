//! Words that several rules share: a format, a field name.

use crate::rules::compile_context::CompileContext;
use crate::rules::format::{FormatOptions, FormatString};
use crate::rules::words::{WordCursor, WordError};

/// A format in one word.
pub(crate) fn format(
    words: &mut WordCursor<'_>,
    options: FormatOptions,
    context: &CompileContext<'_>,
) -> Result<FormatString, WordError> {
    let word = words.expect("a format")?;
    FormatString::parse_in(&word.text, word.column, options, context)
}

/// A field name.
pub(crate) fn field_name(words: &mut WordCursor<'_>) -> Result<String, WordError> {
    let word = words.expect("the name of a field")?;
    if !fulmar_proto::is_token(word.text.as_bytes()) {
        let message = format!("invalid field name '{}'", word.text);
        return Err(WordError::new(word.column, message));
    }
    Ok(word.text.clone())
}
