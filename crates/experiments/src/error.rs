//! Why an experiment brought no figure.

use std::fmt;
use std::io;

/// Why an experiment brought no figure.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
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
}

impl Error {
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
        }
    }
}

impl std::error::Error for Error {}
