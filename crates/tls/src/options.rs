//! Options of clients and servers. The defaults are secure.

use std::path::PathBuf;

use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedProtocolVersion};

use crate::identity::{Identity, Pem};
use crate::keylog::KeyLogFile;
use crate::pin::Pin;
use crate::roots::Roots;

/// TLS options of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    /// The trusted certificates.
    pub roots: Roots,
    /// How the server's certificate is verified.
    pub verify: Verify,
    /// Files of certificate revocation lists in PEM (RFC 5280 §5). Without one, revocation is not
    /// checked.
    pub revoked: Vec<PathBuf>,
    /// If not empty, the server's public key must match one of these pins, whichever CA issued the
    /// certificate.
    pub pins: Vec<Pin>,
    /// The certificate that must have issued the server's own, besides the verification of the
    /// chain: the issuer's name and the signature are checked, but no dates.
    pub issuer: Option<Pem>,
    /// The client certificate, for servers that request one.
    pub identity: Option<Identity>,
    /// Minimum TLS version.
    pub version_min: Version,
    /// Maximum TLS version.
    pub version_max: Version,
    /// Cipher suites by IANA name, in order of preference. Empty: all supported suites.
    pub ciphers: Vec<String>,
    /// Groups for key exchange by IANA name, such as `x25519` and `secp256r1`, in order of
    /// preference. Empty: all supported groups.
    pub groups: Vec<String>,
    /// Application protocols by preference (RFC 7301). Empty: the extension is not sent.
    pub alpn: Vec<Vec<u8>>,
    /// The server name to request and to verify, instead of the host.
    pub server_name: Option<String>,
    /// Maximum number of servers with sessions kept for resumption. 0: every handshake is a full
    /// one.
    pub resumption_len: usize,
    /// Key log file in the format of `SSLKEYLOGFILE`. Its readers can decrypt the traffic.
    pub key_log: Option<KeyLogFile>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            roots: Roots::platform(),
            verify: Verify::Full,
            revoked: Vec::new(),
            pins: Vec::new(),
            issuer: None,
            identity: None,
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            ciphers: Vec::new(),
            groups: Vec::new(),
            alpn: vec![HTTP2.to_vec(), HTTP1.to_vec()],
            server_name: None,
            resumption_len: 256,
            key_log: None,
        }
    }
}

impl ClientOptions {
    /// True if the certificate of an established session was verified in full, for the host of the
    /// session. Only then may the certificate show that the server has other names, too (RFC 9113
    /// §9.1.1).
    pub fn verifies_host(&self) -> bool {
        self.verify == Verify::Full && self.server_name.is_none()
    }
}

/// How a server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Chain, dates and host name.
    Full,
    /// Chain and dates, but not the host name: any server with a certificate of a trusted CA is
    /// accepted. For private CAs; equals HAProxy's `verify required` without a name.
    Chain,
    /// The host name, but not the chain: any certificate for the name is accepted. As with
    /// `CURLOPT_SSL_VERIFYHOST` alone.
    Name,
    /// Not at all: any server is accepted. Pins are still checked.
    Nothing,
}

/// TLS options of a server.
///
/// ```
/// use fulmar_tls::{ClientAuth, Identity, ServerOptions, Version};
///
/// let options = ServerOptions {
///     identities: vec![
///         Identity::files("example.com.pem", "example.com.key"), // default
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
    /// Certificates, at least one. The first one that matches the requested server name and has a
    /// key type that the client supports is used. An exact name precedes a wildcard.
    pub identities: Vec<Identity>,
    /// What to do if the client requests no server name, or one that no certificate matches.
    pub unknown_names: UnknownNames,
    /// Whether client certificates are requested.
    pub client_auth: ClientAuth,
    /// Minimum TLS version.
    pub version_min: Version,
    /// Maximum TLS version.
    pub version_max: Version,
    /// Cipher suites by IANA name, in the server's order of preference. Empty: all supported
    /// suites, in the client's order, because clients know which suite is fast for them.
    pub ciphers: Vec<String>,
    /// Application protocols by preference (RFC 7301): `h2` and `http/1.1` by default.
    pub alpn: Vec<Vec<u8>>,
    /// Session tickets sent with each handshake, for resumption (RFC 8446 §4.6.1; TLS 1.2 has one,
    /// RFC 5077). 0: every handshake is a full one.
    ///
    /// A ticket is used once (RFC 8446 §C.4) and replaced by a new one. With 1, a client has as
    /// many tickets as it had connections; more tickets help clients that open more connections
    /// later. With P-256 keys a ticket costs as much as a resumed handshake saves.
    pub tickets: usize,
    /// Maximum size of a record on the wire in bytes, for small clients. `None`: 16 KB plus the
    /// overhead of encryption.
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
            alpn: vec![HTTP2.to_vec(), HTTP1.to_vec()],
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

/// What to do if the client requests no server name (clients that know only an IP address), or one
/// that no certificate matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownNames {
    /// Use the first identity; the client decides whether to accept it.
    First,
    /// Reject the handshake.
    Refused,
}

/// Whether client certificates are requested.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// No certificate is requested.
    None,
    /// A certificate is requested. Clients without one are accepted; an invalid one is rejected.
    Optional(Authorities),
    /// A valid certificate is required.
    Required(Authorities),
}

/// The CAs that issue client certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authorities {
    /// The CA certificates, at least one.
    pub roots: Vec<Pem>,
    /// Certificate revocation lists (RFC 5280 §5). Certificates of a CA without a list count as not
    /// revoked.
    pub revoked: Vec<Pem>,
}

impl From<Vec<Pem>> for Authorities {
    fn from(roots: Vec<Pem>) -> Self {
        Self { roots, revoked: Vec::new() }
    }
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// The usual name, such as "TLS 1.3".
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

    /// All versions from this one to `max`; empty if `max` is older.
    pub(crate) fn up_to(self, max: Self) -> Vec<&'static SupportedProtocolVersion> {
        let spoken = [(Self::Tls13, &TLS13), (Self::Tls12, &TLS12)];
        let wanted = spoken.into_iter().filter(|(version, _)| (self..=max).contains(version));
        wanted.map(|(_, version)| version).collect()
    }
}

/// HTTP/1.1 in ALPN (RFC 7301 §6).
pub const HTTP1: &[u8] = b"http/1.1";
/// HTTP/2 in ALPN (RFC 9113 §3.2).
pub const HTTP2: &[u8] = fulmar_proto::ALPN_HTTP2;
