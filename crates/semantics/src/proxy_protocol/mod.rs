//! The PROXY protocol: what a proxy says in front of a connection about who is behind it
//! (HAProxy's `proxy-protocol.txt`, versions 1 and 2).
//!
//! Needs the feature `proxy-protocol`.
//!
//! Pure in both directions: [`decode`] takes a header off the first bytes of a connection,
//! [`encode_v1`] and [`encode_v2`] write one. [`ProxyProtocol`] is the receiving end as a
//! [`fulmar_proto::Layer`]: below HTTP, or below TLS. Nothing in a header proves where it comes from,
//! so it is only ever believed from [`TrustedSources`].
//!
//! Strict where the document leaves a choice: a header that two readers could read differently
//! lets a client say who it is.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

mod layer;
mod sources;
mod tlv;
mod v1;
mod v2;

pub use layer::ProxyProtocol;
pub use sources::{BadNetwork, TrustedSources};
pub use tlv::{Extras, Tls};
pub use v1::encode_v1;
pub use v2::encode_v2;

/// What a header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Who is connected with whom. `None`: the proxy speaks for itself (`LOCAL`, as its health
    /// checks do) or cannot tell (`UNKNOWN`, `UNSPEC`): the addresses of the connection itself are
    /// the right ones.
    pub addresses: Option<Addresses>,
    /// What the client uses towards the proxy. Version 1 knows streams only.
    pub transport: Transport,
    /// What else is known; version 1 has no place for it.
    pub extras: Extras,
}

/// Two ends of the client's connection to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// The client.
        source: SocketAddrV4,
        /// What it connected to.
        destination: SocketAddrV4,
    },
    /// IPv6; flow and scope are not told and 0.
    V6 {
        /// The client.
        source: SocketAddrV6,
        /// What it connected to.
        destination: SocketAddrV6,
    },
    /// Unix sockets, of up to 108 bytes, which a NUL does not end; version 2 only.
    Unix {
        /// The client's name, usually empty.
        source: Vec<u8>,
        /// What it connected to.
        destination: Vec<u8>,
    },
}

/// What carries the bytes between client and proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A stream, such as TCP.
    #[default]
    Stream,
    /// Datagrams, such as those of QUIC.
    Datagram,
}

impl Header {
    /// The client's address, if it has one and it is told.
    pub fn source(&self) -> Option<SocketAddr> {
        match self.addresses {
            Some(Addresses::V4 { source, .. }) => Some(source.into()),
            Some(Addresses::V6 { source, .. }) => Some(source.into()),
            Some(Addresses::Unix { .. }) | None => None,
        }
    }

    /// What the client connected to, if it has an address and it is told.
    pub fn destination(&self) -> Option<SocketAddr> {
        match self.addresses {
            Some(Addresses::V4 { destination, .. }) => Some(destination.into()),
            Some(Addresses::V6 { destination, .. }) => Some(destination.into()),
            Some(Addresses::Unix { .. }) | None => None,
        }
    }
}

/// Takes the header, of either version, that `bytes` begin with: it and its size. `None`: its end
/// has not arrived.
///
/// # Errors
/// There is none, or it is malformed or longer than [`SIZE_MAX`]: said as soon as a byte shows it.
pub fn decode(bytes: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => v1::decode(bytes),
        Some(b'\r') => v2::decode(bytes),
        Some(_) => Err(HeaderError::Absent),
    }
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// Something else stands where it has to be.
    Absent,
    /// A version other than 1 or 2, or a command other than `LOCAL` and `PROXY`.
    BadVersion(u8),
    /// A family or transport that the protocol does not know.
    BadFamily(u8),
    /// The line of version 1 is not one of those that the protocol knows.
    BadLine,
    /// It is longer than it may be.
    TooLong,
    /// The addresses do not fit into the length that is told.
    ShortAddresses,
    /// An extra field is longer than what is left, or not what its type says, or repeated.
    BadExtra(u8),
    /// The checksum is another one.
    BadChecksum,
    /// The connection ended in front of its first byte.
    Nothing,
    /// The connection ended in front of its last byte.
    UnexpectedEof,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("a PROXY header is required, and there is none"),
            Self::BadVersion(byte) => {
                write!(f, "the PROXY header has the unknown version and command {byte:#04x}")
            }
            Self::BadFamily(byte) => {
                write!(f, "the PROXY header has the unknown address family {byte:#04x}")
            }
            Self::BadLine => f.write_str("the line of the PROXY header is malformed"),
            Self::TooLong => f.write_str("the PROXY header is too long"),
            Self::ShortAddresses => f.write_str("the PROXY header is too short for its addresses"),
            Self::BadExtra(kind) => {
                write!(f, "the field {kind:#04x} of the PROXY header is malformed or repeated")
            }
            Self::BadChecksum => f.write_str("the checksum of the PROXY header is wrong"),
            Self::Nothing => f.write_str("the connection ended before there was a PROXY header"),
            Self::UnexpectedEof => f.write_str("the connection ended inside the PROXY header"),
        }
    }
}

impl std::error::Error for HeaderError {}

/// What a header cannot say. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderMisuse {
    /// Version 1 has no datagrams, no names of Unix sockets and no extras.
    NeedsVersion2,
    /// Extras say something about a client: without one, nobody reads them.
    NeedsAddresses,
    /// The name of a Unix socket is longer than 108 bytes.
    NameTooLong,
    /// The field of this type is longer than it may be, or is one that is written by itself.
    BadExtra(u8),
    /// All of it is longer than [`SIZE_MAX`].
    TooLong,
}

impl fmt::Display for HeaderMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsVersion2 => f.write_str("only version 2 of the PROXY protocol can say this"),
            Self::NeedsAddresses => f.write_str("a PROXY header has extras beside addresses only"),
            Self::NameTooLong => f.write_str("the name of a Unix socket has up to 108 bytes"),
            Self::BadExtra(kind) => write!(f, "a PROXY header cannot carry this field {kind:#04x}"),
            Self::TooLong => write!(f, "a PROXY header has up to {SIZE_MAX} bytes"),
        }
    }
}

impl std::error::Error for HeaderMisuse {}

/// The longest header that is taken or written. The protocol's own limit is 64 KiB, which no proxy
/// comes near; until a header is complete, its bytes are kept.
pub const SIZE_MAX: usize = 4096;
