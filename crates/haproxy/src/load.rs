//! The entry point: parses texts into a configuration, or returns all errors.

use std::path::{Path, PathBuf};

use crate::config_reader::ConfigReader;
use crate::diagnostics::{Diagnostic, Diagnostics, Severity};
use crate::environment::Environment;
use crate::machine::Machine;
use crate::model::{Config, Position};
use crate::options::Options;

/// A configuration source. All sources are parsed as one configuration.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// A file, or a directory: its files that end in `.cfg`, except hidden ones, are read in
    /// alphabetical order.
    Path(PathBuf),
    /// A text, with its name in messages.
    Text {
        /// The name in messages.
        name: String,
        /// The text.
        text: String,
    },
}

impl ConfigSource {
    /// A text with the given name in messages.
    pub fn text(name: &str, text: &str) -> Self {
        Self::Text { name: name.to_owned(), text: text.to_owned() }
    }
}

/// The parsed words.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notices.
    pub warnings: Vec<Diagnostic>,
}

/// Loads a configuration.
///
/// # Errors
/// All errors and warnings, in the order of the text.
pub fn load(
    sources: &[ConfigSource],
    environment: &Environment,
    machine: &dyn Machine,
    options: &Options,
) -> Result<Loaded, Diagnostics> {
    let mut texts = Vec::new();
    let mut found = Vec::new();
    for source in sources {
        match source {
            ConfigSource::Text { name, text } => texts.push((name.clone(), text.clone())),
            ConfigSource::Path(path) => {
                if let Err(diagnostic) = gather(path, machine, &mut texts) {
                    found.push(diagnostic);
                }
            }
        }
    }
    let mut reader = ConfigReader::new(environment, machine, *options, &texts);
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

/// The text of a file, or the texts of a directory.
fn gather(
    path: &Path,
    machine: &dyn Machine,
    texts: &mut Vec<(String, String)>,
) -> Result<(), Diagnostic> {
    let wrong = |path: &Path, error: std::io::Error| {
        let place = Position { file: path.display().to_string().into(), line: 0 };
        let message = format!("cannot read: {error}");
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

/// True if a file of a directory is read.
fn is_part(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.ends_with(".cfg") && !name.starts_with('.'))
}
