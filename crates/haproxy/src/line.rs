//! A line of a section, as passed to the parser of its keyword.

use std::path::{Path, PathBuf};

use crate::diagnostics::Severity;
use crate::draft::{Globals, Paths};
use crate::environment::Environment;
use crate::machine::Machine;
use crate::position::{KeywordPrefix, LineRef};
use crate::rules::eval_context::Fact;
use crate::rules::{Word, WordCursor, WordError};

/// The words after the keyword, and their context.
#[derive(Debug)]
pub(crate) struct KeywordLine<'a> {
    /// The words not yet parsed.
    pub(crate) words: WordCursor<'a>,
    /// The keyword, as in its table.
    pub(crate) keyword: &'static str,
    /// `no` or `default` before the keyword.
    pub(crate) said: KeywordPrefix,
    /// Position of the line.
    pub(crate) spot: &'a LineRef,
    /// Global settings so far.
    pub(crate) globals: &'a Globals,
    /// The environment variables at this line.
    pub(crate) environment: &'a Environment,
    /// Files and name resolution.
    pub(crate) machine: &'a dyn Machine,
    /// A host name without an address is a warning, and the server is down.
    pub(crate) lenient_names: bool,
    /// State of the proxy that conditions refer to, and the column. The names are resolved at the
    /// end.
    pub(crate) facts: Vec<(u32, Fact)>,
    /// Diagnostics in addition to the error that ends the line.
    pub(crate) found: Vec<(Severity, WordError)>,
}

impl KeywordLine<'_> {
    /// Adds a warning.
    pub(crate) fn warn(&mut self, column: u32, message: impl Into<String>) {
        self.found.push((Severity::Warning, WordError::new(column, message)));
    }

    /// Adds an error, and parsing of the line continues.
    pub(crate) fn report_error(&mut self, fault: WordError) {
        self.found.push((Severity::Alert, fault));
    }

    /// The next word; an error if there is none.
    pub(crate) fn word(&mut self, what: &str) -> Result<Word, WordError> {
        self.words.expect(what).cloned()
    }

    /// The directory of relative paths; empty for the working directory.
    pub(crate) fn folder(&self) -> PathBuf {
        let config = || Path::new(&*self.spot.place.file).parent().unwrap_or_else(|| Path::new(""));
        match &self.globals.paths {
            Paths::Current => PathBuf::new(),
            Paths::Config => config().to_owned(),
            Paths::Parent => config().join(".."),
            Paths::Origin(path) => path.clone(),
        }
    }

    /// The path of a file; relative paths are in `base`.
    pub(crate) fn path(
        &mut self,
        what: &str,
        base: Option<&PathBuf>,
    ) -> Result<PathBuf, WordError> {
        let word = self.word(what)?;
        let path = match base {
            Some(base) => base.join(&word.text),
            None => word.text.into(),
        };
        Ok(self.folder().join(path))
    }

    /// A word with unquoted variables replaced.
    pub(crate) fn expanded(&self, word: &Word) -> Result<String, WordError> {
        crate::text::expand(&word.text, &|name| self.environment.value(name))
            .map_err(|message| WordError::new(word.column, message))
    }
}
