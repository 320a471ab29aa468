//! How a client authenticates, for which request, and why it may be unable to.

use std::fmt;

/// An authentication scheme; stronger schemes are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// The password itself, readable by everything that sees the request.
    Basic,
    /// Digest with MD5.
    DigestMd5,
    /// Digest with SHA-256.
    DigestSha256,
    /// Digest with SHA-512/256.
    DigestSha512,
    /// A token.
    Bearer,
}

/// The parts of a request that a Digest proof covers.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// As sent.
    pub method: &'a [u8],
    /// As sent.
    pub target: &'a [u8],
    /// The complete body if it is available; empty if there is none.
    pub body: Option<&'a [u8]>,
}

/// Why there is no proof. The request is sent without one, and the next challenge starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsigned {
    /// The server requires a digest of the body, which is not available.
    BodyUnknown,
    /// The nonce was used 2^32 - 1 times.
    NonceExhausted,
}

impl fmt::Display for Unsigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodyUnknown => "server requires a digest of the body, which is not available",
            Self::NonceExhausted => "server nonce has reached its maximum count",
        })
    }
}

impl std::error::Error for Unsigned {}
