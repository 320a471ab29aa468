//! The entry: texts in, a configuration or everything that is wrong with it out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::diagnostics::{Diagnostic, Diagnostics, Severity};
use crate::machine::Machine;
use crate::model::{Config, Place};
use crate::read::Reader;

/// A piece of configuration. Several are read as if they were one.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file; or a directory, of which all files that end in `.cfg` are read in the order of
    /// their names, but none whose name begins with a dot.
    Path(PathBuf),
    /// A text, and what messages call it.
    Text {
        /// What messages call it.
        name: String,
        /// The text.
        text: String,
    },
}

impl Source {
    /// A text, called `name` in messages.
    pub fn text(name: &str, text: &str) -> Self {
        Self::Text { name: name.to_owned(), text: text.to_owned() }
    }
}

/// Variables that texts can refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        let variables = std::env::vars_os();
        let known = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(variables.filter_map(known).collect())
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

/// How a text is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is a warning instead of an error.
    pub lenient: Leniency,
}

/// What is a warning instead of an error, one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// Keywords that are not known or not supported: the line is left out; of a `bind` or
    /// `server` line, the one word.
    pub keywords: bool,
    /// Sections that are not known or not supported are left out.
    pub sections: bool,
    /// Servers whose names have no address are down.
    pub names: bool,
}

impl Leniency {
    /// From a list of words with commas: `keywords`, `sections`, `names`, or `all`.
    ///
    /// # Errors
    /// The word that is none of these.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut lenient = Self::default();
        for word in list.split(',') {
            match word {
                "all" => lenient = Self { keywords: true, sections: true, names: true },
                "keywords" => lenient.keywords = true,
                "sections" => lenient.sections = true,
                "names" => lenient.names = true,
                _ => return Err(word.to_owned()),
            }
        }
        Ok(lenient)
    }
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is worth knowing about it; nothing here is an error.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a configuration.
///
/// # Errors
/// Everything that is wrong with it, and the warnings in between, in the order of the text.
pub fn load(
    sources: &[Source],
    environment: &Environment,
    machine: &dyn Machine,
    options: &Options,
) -> Result<Loaded, Diagnostics> {
    let mut texts = Vec::new();
    let mut found = Vec::new();
    for source in sources {
        match source {
            Source::Text { name, text } => texts.push((name.clone(), text.clone())),
            Source::Path(path) => {
                if let Err(diagnostic) = gather(path, machine, &mut texts) {
                    found.push(diagnostic);
                }
            }
        }
    }
    let mut reader = Reader::new(environment, machine, *options, &texts);
    reader.found = found;
    for (name, text) in &texts {
        if !reader.file(name, text) {
            break;
        }
    }
    let (config, found) = reader.finish();
    let is_wrong = found.iter().any(|diagnostic| diagnostic.severity == Severity::Alert);
    match is_wrong {
        true => Err(Diagnostics(found)),
        false => Ok(Loaded { config, warnings: found }),
    }
}

/// A file's text, or those of a directory.
fn gather(
    path: &Path,
    machine: &dyn Machine,
    texts: &mut Vec<(String, String)>,
) -> Result<(), Diagnostic> {
    let wrong = |path: &Path, error: std::io::Error| {
        let place = Place { file: path.display().to_string().into(), line: 0 };
        let message = format!("cannot be read: {error}");
        Diagnostic::about(Severity::Alert, Some(place), message)
    };
    let paths = match machine.list(path).map_err(|error| wrong(path, error))? {
        None => vec![path.to_owned()],
        Some(mut paths) => {
            paths.retain(|path| is_part(path));
            paths.sort();
            paths
        }
    };
    for path in paths {
        let bytes = machine.read(&path).map_err(|error| wrong(&path, error))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        texts.push((path.display().to_string(), text));
    }
    Ok(())
}

/// Whether a file of a directory is read.
fn is_part(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.ends_with(".cfg") && !name.starts_with('.'))
}
