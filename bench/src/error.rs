//! Why an experiment brought no figure.

use std::fmt;
use std::io;

/// Why an experiment brought no figure.
#[derive(Debug)]
pub(crate) enum Error {
    /// The run was stopped.
    Stopped,
    /// There is no experiment of this name.
    Unknown {
        /// As given.
        name: String,
    },
    /// The kernel or a file said no.
    Io {
        /// What was being done.
        doing: String,
        /// What it said.
        error: io::Error,
    },
    /// A process that takes part ended, or said something else than it should.
    Process {
        /// Its command line.
        command: String,
        /// What went wrong, with what it wrote to standard error.
        why: String,
    },
    /// Several of these.
    Several(Vec<Self>),
}

impl Error {
    /// None, one, or several that were put off; each is told once.
    pub(crate) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        let mut told = Vec::new();
        errors.retain(|error| {
            let text = error.to_string();
            let is_new = !told.contains(&text);
            told.push(text);
            is_new
        });
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }

    /// A process has printed something else than its report.
    pub(crate) fn unreadable(command: &str) -> impl FnOnce(serde_json::Error) -> Self {
        let command = command.to_owned();
        move |error| Self::Process { command, why: format!("no report: {error}") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Unknown { name } => {
                write!(f, "no experiment is called {name}; fulmar bench --list names them")
            }
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
            Self::Process { command, why } => write!(f, "{command}: {why}"),
            Self::Several(errors) => {
                let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&told.join("; "))
            }
        }
    }
}

impl std::error::Error for Error {}
