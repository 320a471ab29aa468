//! What may be chosen. The defaults are what a careful client wants.

use std::path::PathBuf;

use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedProtocolVersion};

use crate::pin::Pin;

/// What a client asks of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    /// Whom a server's certificate may come from.
    pub roots: Roots,
    /// Whether it is checked.
    pub verify: Verify,
    /// Certificates that have been revoked: lists in PEM (RFC 5280 §5). Without one nobody is
    /// asked.
    pub revoked: Vec<PathBuf>,
    /// If not empty, the server's key must be one of these, whoever vouches for it.
    pub pins: Vec<Pin>,
    /// Who we are, for servers that ask.
    pub identity: Option<Identity>,
    /// The oldest version that is spoken.
    pub version_min: Version,
    /// Protocols offered, the preferred one first (RFC 7301); none: nothing is said about it.
    pub alpn: Vec<Vec<u8>>,
    /// The name asked for and checked, instead of the host's.
    pub server_name: Option<String>,
    /// Sessions that may be resumed, by servers; 0: every handshake is a full one.
    pub resumption_len: usize,
    /// Where the keys of every session are written, in the format of `SSLKEYLOGFILE`: whoever
    /// reads it can read the traffic.
    pub key_log: Option<PathBuf>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            roots: Roots::Platform,
            verify: Verify::Full,
            revoked: Vec::new(),
            pins: Vec::new(),
            identity: None,
            version_min: Version::Tls12,
            alpn: vec![HTTP1.to_vec()],
            server_name: None,
            resumption_len: 256,
            key_log: None,
        }
    }
}

/// Whom a server's certificate may come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Roots {
    /// Whom the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` say otherwise); where it has no
    /// list at all, as in small containers, Mozilla's of the day this was built.
    Platform,
    /// Those in these files, in PEM, and nobody else.
    Files(Vec<PathBuf>),
}

/// Whether a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Its names, its dates, and who vouches for it.
    Full,
    /// Not at all: anybody may be at the other end. Pins count all the same.
    Nothing,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, then those that vouch for it.
    pub cert: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
}

/// What a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerOptions {
    /// Who it is.
    pub identity: Identity,
    /// If given, clients must show a certificate of one of these authorities, in PEM.
    pub client_roots: Option<PathBuf>,
    /// The oldest version that is spoken.
    pub version_min: Version,
    /// The newest.
    pub version_max: Version,
    /// The size of a record on the wire at most, for small clients; `None`: 16 KB and what
    /// encryption adds.
    pub record_size_max: Option<usize>,
    /// Protocols spoken, the preferred one first (RFC 7301).
    pub alpn: Vec<Vec<u8>>,
}

impl From<Identity> for ServerOptions {
    fn from(identity: Identity) -> Self {
        let alpn = vec![HTTP1.to_vec()];
        let (version_min, version_max) = (Version::Tls12, Version::Tls13);
        let (client_roots, record_size_max) = (None, None);
        Self { identity, client_roots, version_min, version_max, record_size_max, alpn }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "TLS 1.2",
            Self::Tls13 => "TLS 1.3",
        }
    }

    pub(crate) fn from_rustls(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(Self::Tls12),
            ProtocolVersion::TLSv1_3 => Some(Self::Tls13),
            _ => None,
        }
    }

    /// From this one to another; none if they are the wrong way round.
    pub(crate) fn up_to(self, max: Self) -> Vec<&'static SupportedProtocolVersion> {
        let spoken = [(Self::Tls13, &TLS13), (Self::Tls12, &TLS12)];
        let wanted = spoken.into_iter().filter(|(version, _)| (self..=max).contains(version));
        wanted.map(|(_, version)| version).collect()
    }
}

/// HTTP/1.1 (RFC 7301 §6).
const HTTP1: &[u8] = b"http/1.1";
