//! The lookup of a name's addresses, between engine and driver.

use std::fmt;
use std::net::IpAddr;

/// A lookup of the addresses of a name, numbered by its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookupId(pub u32);

/// The addresses of a name, best first: never empty.
pub type Resolved<'a> = Result<&'a [IpAddr], ResolveError>;

/// Why a name has no addresses for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResolveError {
    /// The driver has no resolver.
    NoResolver,
    /// The text is not a name (RFC 1035 §2.3.4): too long, an empty label, bytes that are none.
    BadName,
    /// There is no such name (`NXDOMAIN`).
    NotFound,
    /// The name exists and has no address.
    NoAddress,
    /// The servers failed (`SERVFAIL`, `REFUSED`, malformed responses).
    ServerFailed,
    /// No server answered in time.
    TimedOut,
    /// No server could be reached.
    Unreachable,
    /// Descriptors or memory ran out.
    Exhausted,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoResolver => "names cannot be resolved here: no resolver was given",
            Self::BadName => "not a host name",
            Self::NotFound => "no such host",
            Self::NoAddress => "the host has no address",
            Self::ServerFailed => "the name servers failed to answer the question",
            Self::TimedOut => "the name servers did not answer in time",
            Self::Unreachable => "no name server could be reached",
            Self::Exhausted => "out of descriptors or memory while resolving",
        })
    }
}

impl std::error::Error for ResolveError {}
