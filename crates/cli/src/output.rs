//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Why a tool exits early.
#[derive(Debug)]
pub(crate) enum ToolFailure {
    /// The reader of standard output has closed the pipe, which is no error.
    ReaderGone,
    /// An error for standard error.
    Message(String),
    /// The same for a command line that is invalid, or names input that cannot be used.
    Usage(String),
}

impl ToolFailure {
    /// An operation and why it failed.
    pub(crate) fn new(doing: impl Display, why: impl Display) -> Self {
        Self::Message(format!("{doing}: {why}"))
    }

    /// An argument, or what it names, and why it cannot be used.
    pub(crate) fn usage(argument: impl Display, why: impl Display) -> Self {
        Self::Usage(format!("{argument}: {why}"))
    }
}

/// Writes to standard output. A closed pipe is not an error, a full disk is.
pub(crate) fn print_stdout(text: &str) -> Result<(), ToolFailure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ToolFailure::ReaderGone),
        Err(e) => Err(ToolFailure::new("standard output", e)),
    }
}

/// Writes to standard error, if standard output carries other data. Errors are ignored, because
/// they cannot be reported.
pub(crate) fn print_stderr(text: &str) -> Result<(), ToolFailure> {
    let _ = io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}

/// Writes a message to standard error. Errors are ignored.
pub(crate) fn warn(message: &str) {
    let _ = writeln!(io::stderr(), "fulmar: {}", printable(message));
}

/// Messages may quote input, so control characters are replaced.
fn printable(message: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    message.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\x1b[31m\0\u{9b}b\nc é"), "a\u{fffd}[31m\u{fffd}\u{fffd}b\nc é");
    }
}
