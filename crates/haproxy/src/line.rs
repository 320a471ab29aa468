//! A line of a section, while its keyword's function reads it.

use std::path::{Path, PathBuf};

use crate::diagnostics::Severity;
use crate::draft::{Globals, Paths};
use crate::environment::Environment;
use crate::machine::Machine;
use crate::rules::subject::Fact;
use crate::rules::{Fault, Word, Words};
use crate::spot::{Said, Spot};

/// The words of a line behind its keyword, and what is around them.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// What is left to read.
    pub(crate) words: Words<'a>,
    /// The keyword, as its table calls it.
    pub(crate) keyword: &'static str,
    /// What stands in front of the keyword.
    pub(crate) said: Said,
    /// Where it stands.
    pub(crate) spot: &'a Spot,
    /// What was said for the whole process so far.
    pub(crate) globals: &'a Globals,
    /// Variables, as they are now.
    pub(crate) environment: &'a Environment,
    /// Files and names.
    pub(crate) machine: &'a dyn Machine,
    /// A host without an address makes a server that is down, and a warning.
    pub(crate) lenient_names: bool,
    /// What conditions ask the proxy about, and the column of where: names in it are looked up
    /// when everything has been read.
    pub(crate) facts: Vec<(u32, Fact)>,
    /// What was found beside the error that ends the line.
    pub(crate) found: Vec<(Severity, Fault)>,
}

impl Line<'_> {
    /// Something that is worth a warning.
    pub(crate) fn warn(&mut self, column: u32, message: impl Into<String>) {
        self.found.push((Severity::Warning, Fault::new(column, message)));
    }

    /// Something that is wrong, while the rest of the line is still read.
    pub(crate) fn complain(&mut self, fault: Fault) {
        self.found.push((Severity::Alert, fault));
    }

    /// The next word, which has to be there.
    pub(crate) fn word(&mut self, what: &str) -> Result<Word, Fault> {
        self.words.expect(what).cloned()
    }

    /// The directory that relative paths of files are in; empty where the program was started.
    pub(crate) fn folder(&self) -> PathBuf {
        let config = || Path::new(&*self.spot.place.file).parent().unwrap_or_else(|| Path::new(""));
        match &self.globals.paths {
            Paths::Current => PathBuf::new(),
            Paths::Config => config().to_owned(),
            Paths::Parent => config().join(".."),
            Paths::Origin(path) => path.clone(),
        }
    }

    /// The path of a file to be read, which is in `base` unless it is absolute.
    pub(crate) fn path(&mut self, what: &str, base: Option<&PathBuf>) -> Result<PathBuf, Fault> {
        let word = self.word(what)?;
        let path = match base {
            Some(base) => base.join(&word.text),
            None => word.text.into(),
        };
        Ok(self.folder().join(path))
    }

    /// A word with variables that stand outside of quotes replaced.
    pub(crate) fn expanded(&self, word: &Word) -> Result<String, Fault> {
        crate::text::expand(&word.text, &|name| self.environment.value(name))
            .map_err(|message| Fault::new(word.column, message))
    }
}
