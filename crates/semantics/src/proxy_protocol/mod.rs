//! The PROXY protocol: a header in front of a connection, with which a proxy passes on the
//! addresses of its client (HAProxy's `proxy-protocol.txt`, versions 1 and 2).
//!
//! Needs the feature `proxy-protocol`.
//!
//! Without I/O: [`decode`] parses a header at the beginning of a connection, [`encode_v1`] and
//! [`encode_v2`] write one. [`ProxyProtocol`] is the receiving side as a [`fulmar_proto::Layer`]:
//! below HTTP, or below TLS. A header does not prove its origin, so accept it only from
//! [`TrustedSources`].
//!
//! The parser is strict where the document leaves a choice: a header that two parsers interpret
//! differently lets a client spoof its address.

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

/// The content of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProtocolHeader {
    /// The addresses of the client's connection. `None`: the proxy's own connection (`LOCAL`, such
    /// as health checks), or unknown (`UNKNOWN`, `UNSPEC`): use the addresses of the connection
    /// itself.
    pub addresses: Option<Addresses>,
    /// The transport between client and proxy. Version 1 supports only streams.
    pub transport: ProxyTransport,
    /// Additional fields; not in version 1.
    pub extras: Extras,
}

/// The two addresses of the client's connection to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// The client's address.
        source: SocketAddrV4,
        /// The address it connected to.
        destination: SocketAddrV4,
    },
    /// IPv6; flow and scope are not transmitted and 0.
    V6 {
        /// The client's address.
        source: SocketAddrV6,
        /// The address it connected to.
        destination: SocketAddrV6,
    },
    /// Unix sockets, with names of up to 108 bytes without trailing NULs; version 2 only.
    Unix {
        /// The client's name, usually empty.
        source: Vec<u8>,
        /// The address it connected to.
        destination: Vec<u8>,
    },
}

/// The transport between client and proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyTransport {
    /// A stream, such as TCP.
    #[default]
    Stream,
    /// Datagrams, such as QUIC.
    Datagram,
}

impl ProxyProtocolHeader {
    /// The client's IP address, if the header has one.
    pub fn source(&self) -> Option<SocketAddr> {
        match self.addresses {
            Some(Addresses::V4 { source, .. }) => Some(source.into()),
            Some(Addresses::V6 { source, .. }) => Some(source.into()),
            Some(Addresses::Unix { .. }) | None => None,
        }
    }

    /// The IP address that the client connected to, if the header has one.
    pub fn destination(&self) -> Option<SocketAddr> {
        match self.addresses {
            Some(Addresses::V4 { destination, .. }) => Some(destination.into()),
            Some(Addresses::V6 { destination, .. }) => Some(destination.into()),
            Some(Addresses::Unix { .. }) | None => None,
        }
    }
}

/// Parses the header of either version at the beginning of `bytes`; returns it and its size.
/// `None`: the header is incomplete.
///
/// # Errors
/// The header is missing, malformed, or longer than [`SIZE_MAX`]. The error is returned for the
/// first invalid byte.
pub fn decode(bytes: &[u8]) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderError> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => v1::decode(bytes),
        Some(b'\r') => v2::decode(bytes),
        Some(_) => Err(HeaderError::Absent),
    }
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// There is no header.
    Absent,
    /// A version other than 1 or 2, or a command other than `LOCAL` and `PROXY`.
    BadVersion(u8),
    /// An unknown address family or transport.
    BadFamily(u8),
    /// The line of version 1 is malformed.
    BadLine,
    /// The header is too long.
    TooLong,
    /// The addresses do not fit into the header's length.
    ShortAddresses,
    /// A field is truncated, has an invalid value, or is repeated.
    BadExtra(u8),
    /// The checksum does not match.
    BadChecksum,
    /// The connection was closed before the first byte.
    Nothing,
    /// The connection was closed inside the header.
    UnexpectedEof,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("missing PROXY header"),
            Self::BadVersion(byte) => {
                write!(f, "PROXY header has unknown version and command {byte:#04x}")
            }
            Self::BadFamily(byte) => {
                write!(f, "PROXY header has unknown address family {byte:#04x}")
            }
            Self::BadLine => f.write_str("malformed PROXY header line"),
            Self::TooLong => f.write_str("PROXY header is too long"),
            Self::ShortAddresses => f.write_str("PROXY header is too short for its addresses"),
            Self::BadExtra(kind) => {
                write!(f, "PROXY header field {kind:#04x} is malformed or repeated")
            }
            Self::BadChecksum => f.write_str("PROXY header has a wrong checksum"),
            Self::Nothing => f.write_str("connection closed before the PROXY header"),
            Self::UnexpectedEof => f.write_str("connection closed inside the PROXY header"),
        }
    }
}

impl std::error::Error for HeaderError {}

/// Why a header cannot be encoded. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderMisuse {
    /// Version 1 has no datagrams, no Unix socket names and no extra fields.
    NeedsVersion2,
    /// Extra fields describe a client, so they need its addresses.
    NeedsAddresses,
    /// The name of a Unix socket is longer than 108 bytes.
    NameTooLong,
    /// The field of this type is too long, or is a field that has its own member.
    BadExtra(u8),
    /// The header is longer than [`SIZE_MAX`].
    TooLong,
}

impl fmt::Display for HeaderMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsVersion2 => f.write_str("this PROXY header needs version 2"),
            Self::NeedsAddresses => f.write_str("PROXY header fields need addresses"),
            Self::NameTooLong => f.write_str("name of a Unix socket is longer than 108 bytes"),
            Self::BadExtra(kind) => write!(f, "PROXY header field {kind:#04x} cannot be encoded"),
            Self::TooLong => write!(f, "PROXY header is longer than {SIZE_MAX} bytes"),
        }
    }
}

impl std::error::Error for HeaderMisuse {}

/// Maximum size of a header in bytes. The protocol's limit is 64 KiB, which no known proxy
/// approaches; an incomplete header is buffered.
pub const SIZE_MAX: usize = 4096;
