//! A command that is being run, as its function gets it.

use std::time::Instant;

use super::world::{Asker, World};

/// A command that is being run.
pub(super) struct Call<'a> {
    pub(super) world: &'a World,
    pub(super) asker: &'a mut Asker,
    pub(super) now: Instant,
    /// What stands behind the words that it begins with.
    pub(super) rest: &'a [String],
    /// What stands on the lines below it.
    pub(super) payload: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// One of the words behind it.
    pub(super) fn word(&self, at: usize) -> Option<&'a str> {
        self.rest.get(at).map(String::as_str)
    }

    /// True if one of the words behind it is this one.
    pub(super) fn has(&self, word: &str) -> bool {
        self.rest.iter().any(|it| it == word)
    }
}
