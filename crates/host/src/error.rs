//! Why a host did not start, or ended before it was stopped.

use std::error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::address::Address;

/// Why a host did not start, or ended before it was stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to listen on.
    NoListener,
    /// There can be no listener.
    Listen {
        /// The requested address; `None` for an inherited socket without an address.
        address: Option<Address>,
        /// Why not.
        error: io::Error,
    },
    /// A thread could not start, or its loop failed.
    Thread {
        /// Which one, from 0.
        number: usize,
        /// Why.
        error: io::Error,
    },
    /// A thread panicked: the application has a bug, or we do. Panics of handlers end a thread
    /// with [`crate::OnPanic::StopServer`] only.
    Panic {
        /// Which one, from 0.
        number: usize,
        /// The message of the panic.
        message: Box<str>,
    },
    /// The listeners could not be taken over from the process that has them.
    HandOver {
        /// The path.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener => f.write_str("nothing to listen on: call Host::listen"),
            Self::Listen { address: Some(address), error } => {
                write!(f, "cannot listen on {address}: {error}")
            }
            Self::Listen { address: None, error } => {
                write!(f, "cannot listen on an inherited socket: {error}")
            }
            Self::Thread { number, error } => write!(f, "thread {number}: {error}"),
            Self::Panic { number, message } => write!(f, "thread {number} panicked: {message}"),
            Self::HandOver { path, error } => {
                write!(f, "cannot take the listeners over at {}: {error}", path.display())
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Listen { error, .. }
            | Self::Thread { error, .. }
            | Self::HandOver { error, .. } => Some(error),
            Self::NoListener | Self::Panic { .. } => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NoListener => io::ErrorKind::InvalidInput,
            Error::Panic { .. } => io::ErrorKind::Other,
            Error::Listen { error, .. }
            | Error::Thread { error, .. }
            | Error::HandOver { error, .. } => error.kind(),
        };
        Self::new(kind, error)
    }
}
