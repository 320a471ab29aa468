//! What may be chosen. The defaults are what a careful client wants.

use std::fmt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedProtocolVersion};

use crate::error::{ConfigError, Flaw};
use crate::pin::Pin;
use crate::roots::Roots;

/// What a client asks of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    /// The certificates that are trusted.
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
    /// The newest.
    pub version_max: Version,
    /// The cipher suites that are offered, as IANA names them, the preferred one first; none: all
    /// there are.
    pub ciphers: Vec<String>,
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
            roots: Roots::platform(),
            verify: Verify::Full,
            revoked: Vec::new(),
            pins: Vec::new(),
            identity: None,
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            ciphers: Vec::new(),
            alpn: vec![HTTP1.to_vec()],
            server_name: None,
            resumption_len: 256,
            key_log: None,
        }
    }
}

/// Whether a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Its names, its dates, and who vouches for it.
    Full,
    /// Its dates, and who vouches for it: anybody whom that authority knows may be at the other
    /// end. For authorities that know nobody else, as HAProxy's `verify required` without a name.
    Chain,
    /// Not at all: anybody may be at the other end. Pins count all the same.
    Nothing,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, then those that vouch for it.
    pub cert: Pem,
    /// Its private key, not encrypted.
    pub key: Pem,
    /// The names it is shown for, in lower case, if not those in it: `*.` stands for any label, and
    /// `!` before a name makes it one that it is not shown for.
    pub names: Vec<String>,
}

impl Identity {
    /// Of two files.
    pub fn files(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self::new(Pem::File(cert.into()), Pem::File(key.into()))
    }

    /// For the names that are in it.
    pub fn new(cert: Pem, key: Pem) -> Self {
        Self { cert, key, names: Vec::new() }
    }
}

/// Where something in PEM is (RFC 7468).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Pem {
    /// In a file, which is read when TLS is set up, and again when a server reloads.
    File(PathBuf),
    /// In a file, and this is what stood there: it is not read again.
    Read(PathBuf, Bytes),
    /// Here.
    Bytes(Bytes),
}

impl Pem {
    /// A file as it is now, for whoever cannot read it later or shall not see what becomes of it.
    ///
    /// # Errors
    /// It cannot be read; the error names it.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let path = path.into();
        let bytes = Self::File(path.clone()).bytes()?;
        Ok(Self::Read(path, bytes))
    }

    /// What stands there.
    pub(crate) fn bytes(&self) -> Result<Bytes, ConfigError> {
        match self {
            Self::Bytes(bytes) | Self::Read(_, bytes) => Ok(bytes.clone()),
            Self::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(ConfigError::new(self, Flaw::Io(error))),
            },
        }
    }

    /// The file that it is in.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Read(path, _) => Some(path),
            Self::Bytes(_) => None,
        }
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// For messages: never the content, which may be a key.
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::Read(path, _) => write!(f, "{}", path.display()),
            Self::Bytes(bytes) => write!(f, "{} bytes of PEM", bytes.len()),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({self})")
    }
}

/// What a server offers.
///
/// ```
/// use fulmar_tls::{ClientAuth, Identity, ServerOptions, Version};
///
/// let options = ServerOptions {
///     identities: vec![
///         Identity::files("example.com.pem", "example.com.key"), // whoever asks for nobody we know
///         Identity::files("example.org.pem", "example.org.key"),
///     ],
///     version_min: Version::Tls13,
///     client_auth: ClientAuth::Required(vec![std::path::Path::new("clients.pem").into()].into()),
///     ..ServerOptions::default()
/// };
/// # assert_eq!(options.identities.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerOptions {
    /// Who it is; at least one. Clients are shown the first whose certificate has the name that
    /// they ask for, a name of its own before a wildcard, and whose kind of key they can check.
    pub identities: Vec<Identity>,
    /// What becomes of those who ask for no name, or for one that no certificate has.
    pub unknown_names: UnknownNames,
    /// Whether clients show who they are.
    pub client_auth: ClientAuth,
    /// The oldest version that is spoken.
    pub version_min: Version,
    /// The newest.
    pub version_max: Version,
    /// The cipher suites that may be used, as IANA names them, the preferred one first. None:
    /// all there are, and clients choose, who know what is fast for them.
    pub ciphers: Vec<String>,
    /// Protocols spoken, the preferred one first (RFC 7301).
    pub alpn: Vec<Vec<u8>>,
    /// Tickets given to a client with each handshake, with which it resumes the session later
    /// (RFC 8446 §4.6.1; TLS 1.2 has one, RFC 5077); 0: every handshake is a full one.
    ///
    /// A ticket is good for one connection (RFC 8446 §C.4), which is given another: with 1, a
    /// client has as many as it had connections. More are for clients who open more of them than
    /// before. With keys on P-256 a ticket costs as much as a resumed handshake saves.
    pub tickets: usize,
    /// The size of a record on the wire at most, for small clients; `None`: 16 KB and what
    /// encryption adds.
    pub record_size_max: Option<usize>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            identities: Vec::new(),
            unknown_names: UnknownNames::First,
            client_auth: ClientAuth::None,
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            ciphers: Vec::new(),
            alpn: vec![HTTP1.to_vec()],
            tickets: 1,
            record_size_max: None,
        }
    }
}

impl From<Identity> for ServerOptions {
    fn from(identity: Identity) -> Self {
        Self { identities: vec![identity], ..Self::default() }
    }
}

/// What becomes of clients who ask for no name, as those do who know an address only, or for one
/// that no certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownNames {
    /// They are shown the first identity, and judge for themselves.
    First,
    /// They are refused.
    Refused,
}

/// Whether clients show who they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// Nobody is asked.
    None,
    /// All are asked. Who shows nothing is let in, who shows something wrong is not.
    Optional(Authorities),
    /// Nobody else is let in.
    Required(Authorities),
}

/// Who vouches for clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authorities {
    /// Their certificates, at least one.
    pub roots: Vec<Pem>,
    /// Clients' certificates that have been revoked: lists (RFC 5280 §5). An authority without a
    /// list is believed.
    pub revoked: Vec<Pem>,
}

impl From<Vec<Pem>> for Authorities {
    fn from(roots: Vec<Pem>) -> Self {
        Self { roots, revoked: Vec::new() }
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
