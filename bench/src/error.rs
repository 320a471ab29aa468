//! Why a scenario brought no figure.

use std::fmt;
use std::io;

/// Why a scenario brought no figure.
#[derive(Debug)]
pub(crate) enum BenchError {
    /// The run was stopped.
    Stopped,
    /// No scenario has this name.
    UnknownScenario(String),
    /// A program or library that is not installed, and how to install it.
    Missing(String),
    /// A system call failed.
    Io {
        doing: String,
        error: io::Error,
    },
    /// A process ended early, or its output is not what it should be.
    Process {
        command: String,
        why: String,
    },
    Several(Vec<Self>),
}

impl BenchError {
    /// No error, one, or several; each text once.
    pub(crate) fn all(errors: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut texts = Vec::new();
        let mut errors: Vec<Self> = errors.into_iter().flat_map(Self::flat).collect();
        errors.retain(|error| {
            let text = error.to_string();
            let is_new = !texts.contains(&text);
            texts.push(text);
            is_new
        });
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// The single errors.
    pub(crate) fn flat(self) -> Vec<Self> {
        match self {
            Self::Several(errors) => errors.into_iter().flat_map(Self::flat).collect(),
            error => vec![error],
        }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }

    pub(crate) fn process(command: &str, why: impl Into<String>) -> Self {
        Self::Process { command: command.to_owned(), why: why.into() }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::UnknownScenario(name) => {
                write!(f, "no scenario '{name}'; 'fulmar bench --list' names them")
            }
            Self::Missing(what) => f.write_str(what),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
            Self::Process { command, why } => write!(f, "{command}: {why}"),
            Self::Several(errors) => {
                let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("; "))
            }
        }
    }
}

impl std::error::Error for BenchError {}
