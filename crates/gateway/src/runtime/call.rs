//! A command being run, as passed to its function.

use std::time::Instant;

use super::context::{ConsoleSettings, RuntimeContext};

/// A command being run.
pub(super) struct CommandCall<'a> {
    pub(super) context: &'a RuntimeContext,
    pub(super) console_settings: &'a mut ConsoleSettings,
    pub(super) now: Instant,
    /// The words after the command.
    pub(super) rest: &'a [String],
    /// The lines after `<<`.
    pub(super) payload: Option<&'a str>,
}

impl<'a> CommandCall<'a> {
    /// A word after the command, by position.
    pub(super) fn word(&self, at: usize) -> Option<&'a str> {
        self.rest.get(at).map(String::as_str)
    }

    /// True if one of the words after the command is this one.
    pub(super) fn has(&self, word: &str) -> bool {
        self.rest.iter().any(|it| it == word)
    }
}
