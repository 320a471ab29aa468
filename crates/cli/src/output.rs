//! Talking to people and pipes.

use std::fmt::Display;
use std::io::{self, Write};

/// Why a tool ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever read our output has gone: nothing is wrong.
    ReaderGone,
    /// For standard error.
    Message(String),
    /// For standard error: the command line is wrong.
    Usage(String),
}

impl Failure {
    /// What was being done, and what came in the way.
    pub(crate) fn new(doing: impl Display, why: impl Display) -> Self {
        Self::Message(format!("{doing}: {why}"))
    }
}

/// Writes to standard output; a reader that has gone is told apart from a disk that is full.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderGone),
        Err(e) => Err(Failure::new("standard output", e)),
    }
}

/// Writes to standard error, where standard output carries something else. An error is ignored:
/// without standard error nothing can be reported.
pub(crate) fn say_beside(text: &str) -> Result<(), Failure> {
    let _ = io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}

/// Writes a line to standard error; if that is gone too, there is nobody to tell.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "fulmar: {}", printable(message));
}

/// What others have written may be quoted in it, and a terminal obeys control characters.
fn printable(message: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    message.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(printable("a\x1b[31m\0\u{9b}b\nc é"), "a\u{fffd}[31m\u{fffd}\u{fffd}b\nc é");
    }
}
