//! Why a URL failed.

use std::fmt;
use std::io;

use fulmar_client::{BuildError, Error, Tried};
use fulmar_proto::PeerError;
use fulmar_semantics::content_range::RangeError;
use fulmar_tls::TlsError;

use crate::checksum::FileChecksum;
use crate::list::ListLineError;
use crate::name::NameError;

/// Why a URL failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchFault {
    /// The line of the list is invalid.
    Line(ListLineError),
    /// The URL cannot be requested.
    Request(BuildError),
    /// The file name is not allowed.
    Name(NameError),
    /// Another URL in progress has the same file name.
    Duplicate,
    /// A file with this name exists already.
    Exists,
    /// The status of the response is not successful.
    Status(u16),
    /// A response to plain HTTP, with 400, that the port is for HTTPS.
    NeedsTls,
    /// An unexpected or wrong partial response.
    Range(RangeError),
    /// The server sent more bytes than announced.
    Excess,
    /// The kept part and the server's version differ.
    Changed,
    /// The file has another checksum than the list.
    Checksum {
        /// The checksum in the list.
        expected: FileChecksum,
        /// The checksum of the file.
        found: FileChecksum,
    },
    /// A file operation failed.
    File {
        /// The operation.
        doing: FileOperation,
        /// The cause.
        error: io::Error,
    },
    /// The transfer failed.
    Transfer(Error),
}

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Opening its directory.
    Directory,
    /// Creating it.
    Create,
    /// Writing it.
    Write,
    /// Reading its kept part.
    Read,
    /// Comparing an existing file with its checksum.
    Verify,
    /// Renaming it to its final name.
    Rename,
    /// Writing the journal.
    Journal,
}

impl FetchFault {
    /// The kind of the failure for programs, stable across versions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Line(_) => "list",
            Self::Request(_) => "url",
            Self::Name(_) => "name",
            Self::Duplicate => "duplicate",
            Self::Exists => "exists",
            Self::Status(_) | Self::NeedsTls => "status",
            Self::Excess => "excess",
            Self::Range(_) | Self::Changed => "range",
            Self::Checksum { .. } => "checksum",
            Self::File { .. } => "write",
            Self::Transfer(error) => error.kind(),
        }
    }

    /// True if a body with status 400 reports that the port is for HTTPS, in the words of fulmar,
    /// nginx, Go or Apache.
    pub(crate) fn needs_tls(body: &[u8]) -> bool {
        let words: [&[u8]; 3] = [b"HTTPS port", b"HTTPS server", b"SSL-enabled server"];
        let has = |word: &[u8]| body.windows(word.len()).any(|piece| piece == word);
        words.into_iter().any(has)
    }

    /// True if a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Changed => true,
            Self::Status(status) => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Transfer(Error::Peer(error)) => is_lost(*error),
            Self::Transfer(Error::Layer(error)) => {
                error.downcast_ref() == Some(&TlsError::Truncated)
            }
            Self::Transfer(error) => matches!(
                error,
                Error::Connect(_)
                    | Error::Reset(_)
                    | Error::Closed
                    | Error::Io(_)
                    | Error::TimedOut(_)
                    | Error::TooSlow
                    | Error::Resolve(_)
                    | Error::ResolveProxy(_)
            ),
            _ => false,
        }
    }

    /// True if the received bytes are valid.
    pub(crate) fn keeps_part(&self) -> bool {
        match self {
            Self::Status(_) => true,
            // As `Excess`: either the length or the body may be wrong.
            Self::Transfer(Error::Write(_) | Error::Peer(PeerError::BodyTooLong)) => false,
            Self::Transfer(_) => true,
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

impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Duplicate => f.write_str(
                "another URL in progress has the same output name: \
                 name one of them in the list, or use --mirror",
            ),
            Self::Exists => f.write_str(
                "the output file exists: from before, or another URL of the list has the same \
                 name; use --skip-existing, --mirror or another name",
            ),
            Self::Status(status) => write!(f, "the server responded with status {status}"),
            Self::NeedsTls => f.write_str(
                "the server responded with status 400, and speaks TLS on this port: use https:// \
                 in the URL",
            ),
            Self::Excess => f.write_str("the server sent more bytes than announced"),
            Self::Range(error) => error.fmt(f),
            Self::Changed => f.write_str("the resource has changed since a part of it was kept"),
            Self::Checksum { expected, found } => {
                write!(f, "the file has the checksum {found} instead of {expected}")
            }
            Self::File { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::Transfer(error @ Error::Peer(PeerError::OnlyHttp2)) => {
                write!(f, "{error}: use --http2-prior-knowledge")
            }
            Self::Transfer(error @ Error::Peer(PeerError::OnlyTls)) => {
                write!(f, "{error}: use https:// in the URL")
            }
            Self::Transfer(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "opening the output directory",
            Self::Create => "creating the output",
            Self::Write => "writing the output",
            Self::Read => "reading the kept part of the output",
            Self::Verify => "verifying the existing file",
            Self::Rename => "renaming the output",
            Self::Journal => "writing the journal",
        })
    }
}

impl std::error::Error for FetchFault {}

/// True if the connection has failed, not the response: a malformed one would be the same again.
fn is_lost(error: PeerError) -> bool {
    matches!(
        error,
        PeerError::UnexpectedEof
            | PeerError::BodyTooShort
            | PeerError::Unsolicited // the end of an idle connection, often with a 408
            | PeerError::Goaway(_)
            | PeerError::Http2(_)
    )
}

/// Adds the operation to an error of the file system.
pub(crate) fn file(doing: FileOperation) -> impl Fn(io::Error) -> FetchFault {
    move |error| FetchFault::File { doing, error }
}

#[cfg(test)]
mod tests {
    use fulmar_proto::h2::ErrorCode;

    use super::*;

    /// HTTP/2 reports it as an error, HTTP/1 when the response is complete.
    #[test]
    fn too_many_bytes_are_one_fault_in_both_versions() {
        let of_http2 = FetchFault::Transfer(Error::Peer(PeerError::BodyTooLong));
        for fault in [of_http2, FetchFault::Excess] {
            assert_eq!(fault.kind(), "excess");
            assert!(!fault.keeps_part() && !fault.is_transient(), "{fault:?}");
        }
        let lost = FetchFault::Transfer(Error::Peer(PeerError::UnexpectedEof));
        assert!(lost.keeps_part() && lost.is_transient());
    }

    #[test]
    fn truncated_tls_is_a_lost_connection() {
        let fault = |error: TlsError| FetchFault::Transfer(Error::Layer(error.into()));
        let lost = fault(TlsError::Truncated);
        assert_eq!(lost.kind(), "truncated");
        assert!(lost.keeps_part() && lost.is_transient());
        for error in [TlsError::HandshakeEof, TlsError::BadRecord, TlsError::NotTls] {
            let failed = fault(error);
            assert_eq!(failed.kind(), "tls");
            assert!(!failed.is_transient(), "{failed:?}");
        }
    }

    #[test]
    fn malformed_responses_are_not_fetched_again() {
        let is_transient =
            |error: PeerError| FetchFault::Transfer(Error::Peer(error)).is_transient();
        let malformed = [
            PeerError::BadStartLine,
            PeerError::BadChunk,
            PeerError::OnlyHttp2,
            PeerError::OnlyTls,
        ];
        for error in malformed {
            assert!(!is_transient(error), "{error}");
        }
        let lost = [
            PeerError::BodyTooShort,
            PeerError::Unsolicited,
            PeerError::Goaway(ErrorCode::NoError),
        ];
        for error in lost {
            assert!(is_transient(error), "{error}");
        }
    }
}
