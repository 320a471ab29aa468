//! Which servers an exchange was tried at, and what came of it: the record that explains an error.

use std::fmt;
use std::io;
use std::time::Duration;

use fulmar_proto::PeerError;

/// An attempt at a server that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// By its place in the backend.
    pub(super) server: usize,
    /// Exchanges that its connection had had before.
    pub(super) uses: u32,
    /// How old that connection was.
    pub(super) age: Duration,
    pub(super) failure: Failure,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection could not be made.
    Refused(io::ErrorKind),
    /// The connection did not stand in time.
    ConnectTimeout,
    /// What lies below HTTP, such as TLS, could not be agreed on.
    Layer(String),
    /// The connection ended without a byte of a response.
    Empty,
    /// The connection was reset.
    Reset(io::ErrorKind),
    /// The response did not begin in time.
    Silent,
    /// What came was no response.
    Junk(PeerError),
    /// The response had a status that the configuration wants another attempt for.
    Status(u16),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(kind) => write!(f, "cannot connect: {kind}"),
            Self::ConnectTimeout => f.write_str("no connection in time"),
            Self::Layer(error) => write!(f, "{error}"),
            Self::Empty => f.write_str("closed without an answer"),
            Self::Reset(kind) => write!(f, "{kind}"),
            Self::Silent => f.write_str("no answer in time"),
            Self::Junk(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "answered {status}"),
        }
    }
}
