//! Why a URL failed.

use std::fmt;
use std::io;

use fulmar_client::{BuildError, Error, Tried};
use fulmar_semantics::content_range::RangeError;

use crate::checksum::Checksum;
use crate::list::LineError;
use crate::name::NameError;

/// Why a URL failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The line of the list cannot be used.
    Line(LineError),
    /// The URL cannot be asked for.
    Request(BuildError),
    /// The file cannot have its name.
    Name(NameError),
    /// Another URL that is being fetched has the same name.
    Duplicate,
    /// Something has the name already.
    Exists,
    /// The answer has another status than success.
    Status(u16),
    /// A partial answer that was not asked for, or another part.
    Range(RangeError),
    /// The server sent more than the length that it said.
    Excess,
    /// A beginning that was kept, and what the server has, are not the same.
    Changed,
    /// The file is not what the list says.
    Checksum {
        /// The list's.
        expected: Checksum,
        /// The file's.
        found: Checksum,
    },
    /// Writing the file failed.
    File {
        /// What was being done to it.
        doing: Doing,
        /// Why it failed.
        error: io::Error,
    },
    /// The transfer failed.
    Transfer(Error),
}

/// What was being done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Opening its directory.
    Directory,
    /// Making it.
    Create,
    /// Writing it.
    Write,
    /// Reading what was kept of it.
    Read,
    /// Comparing an existing one with its checksum.
    Verify,
    /// Giving it its name.
    Rename,
    /// Writing the journal.
    Journal,
}

impl Fault {
    /// A word for machines: the kind of the fault, stable across versions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Line(_) => "list",
            Self::Request(_) => "url",
            Self::Name(_) => "name",
            Self::Duplicate => "duplicate",
            Self::Exists => "exists",
            Self::Status(_) => "status",
            Self::Excess => "excess",
            Self::Range(_) | Self::Changed => "range",
            Self::Checksum { .. } => "checksum",
            Self::File { .. } => "write",
            Self::Transfer(error) => error.kind(),
        }
    }

    /// True if another attempt may end otherwise.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Changed => true,
            Self::Status(status) => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Transfer(error) => matches!(
                error,
                Error::Connect(_)
                    | Error::Closed
                    | Error::Io(_)
                    | Error::TimedOut(_)
                    | Error::TooSlow
                    | Error::Peer(_)
                    | Error::Resolve(_)
                    | Error::ResolveProxy(_)
            ),
            _ => false,
        }
    }

    /// True if what has arrived is good as far as it goes.
    pub(crate) fn leaves_a_beginning(&self) -> bool {
        match self {
            Self::Status(_) => true,
            Self::Transfer(error) => !matches!(error, Error::Write(_)),
            _ => false,
        }
    }

    /// The addresses that could not be connected to.
    pub(crate) fn tried(&self) -> impl Iterator<Item = &Tried> {
        let tried = match self {
            Self::Transfer(Error::Connect(error)) => &error.tried[..],
            _ => &[],
        };
        tried.iter().map(|(peer, _)| peer)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Duplicate => f.write_str(
                "another URL that is being fetched has the same output name: \
                 name one of them in the list, or use --mirror",
            ),
            Self::Exists => f.write_str(
                "the output exists: it was there before, or another URL of the list has the same \
                 name; use --skip-existing, --mirror or another name",
            ),
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::Excess => f.write_str("the server sent more than the length that it said"),
            Self::Range(error) => error.fmt(f),
            Self::Changed => f.write_str("the resource has changed since its beginning was kept"),
            Self::Checksum { expected, found } => {
                write!(f, "the file has the checksum {found} instead of {expected}")
            }
            Self::File { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::Transfer(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "opening the output's directory",
            Self::Create => "making the output",
            Self::Write => "writing the output",
            Self::Read => "reading what was kept of the output",
            Self::Verify => "verifying the existing output",
            Self::Rename => "naming the output",
            Self::Journal => "writing the journal",
        })
    }
}

impl std::error::Error for Fault {}

/// An error of the file system, and what led to it.
pub(crate) fn file(doing: Doing) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::File { doing, error }
}
