//! Errors of sessions and of configurations.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use rustls::server::VerifierBuilderError;
use rustls::{
    AlertDescription, CertificateError, InvalidMessage, PeerIncompatible, PeerMisbehaved,
};

use crate::identity::{Identity, Pem};

/// Why a session failed: the error inside a [`fulmar_proto::LayerError`] of this crate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TlsError {
    /// The host is neither a DNS name nor an IP address.
    BadServerName,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate does not match the host.
    WrongHost {
        /// The requested host.
        expected: String,
        /// The names in the certificate.
        presented: Vec<String>,
    },
    /// No trusted certificate issued this one: it is self-signed, its CA is not trusted, or the
    /// peer did not send the intermediate certificates.
    UnknownIssuer,
    /// The certificate is a CA's (basicConstraints CA:TRUE), usually self-signed, and is not
    /// itself trusted.
    AuthorityAsServer,
    /// The certificate has X.509 version 1 or 2, and so no host names (subjectAltName).
    CertificateVersion,
    /// The certificate has been revoked.
    Revoked,
    /// The signature of the certificate or of the handshake is invalid.
    BadSignature,
    /// The certificate is for another purpose (extended key usage).
    WrongPurpose,
    /// The name constraints of the issuer do not permit this name (RFC 5280 §4.2.1.10).
    NameConstraint,
    /// The certificate is malformed, or invalid for another reason.
    BadCertificate(CertificateError),
    /// The public key matches no pin.
    PinMismatch,
    /// Another certificate has issued the server's own than the required one.
    WrongIssuer {
        /// The file of the required certificate.
        expected: String,
    },
    /// The client sent no certificate, but one is required.
    NoCertificate,
    /// No certificate for the server name in the ClientHello, or the ClientHello has no server
    /// name.
    UnknownName(Option<String>),
    /// The peer sent a fatal alert (RFC 8446 §6.2).
    Alert(AlertDescription),
    /// The peer supports no TLS version that is allowed here.
    NoCommonVersion,
    /// No cipher suite, group or signature algorithm in common.
    NoCommonCipher,
    /// No application protocol in common (RFC 7301).
    NoCommonProtocol,
    /// The received bytes are not TLS.
    NotTls,
    /// The ClientHello is too large.
    HelloTooLarge,
    /// Too many records without application data: key updates, empty records, warning alerts,
    /// renegotiation requests.
    Flood,
    /// The connection was closed during the handshake.
    HandshakeEof,
    /// The connection was closed without close_notify: an attacker may have truncated the data.
    Truncated,
    /// A record cannot be decrypted: wrong keys, or modified bytes.
    BadRecord,
    /// The encryption limit of the keys is reached, and this TLS version cannot change them.
    KeysExhausted,
    /// The peer violated the protocol in another way, or a local failure; rustls has the details.
    Protocol(rustls::Error),
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => error.into(),
            rustls::Error::NoCertificatesPresented => Self::NoCertificate,
            rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) => {
                Self::NoCommonVersion
            }
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
            | rustls::Error::NoApplicationProtocol => Self::NoCommonProtocol,
            rustls::Error::AlertReceived(alert) => Self::Alert(alert),
            rustls::Error::PeerIncompatible(cause) => cause.into(),
            rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::NotTls,
            rustls::Error::DecryptError => Self::BadRecord,
            rustls::Error::PeerMisbehaved(
                PeerMisbehaved::TooManyEmptyFragments
                | PeerMisbehaved::TooManyKeyUpdateRequests
                | PeerMisbehaved::TooManyRenegotiationRequests
                | PeerMisbehaved::TooManyWarningAlertsReceived,
            ) => Self::Flood,
            error => Self::Protocol(error),
        }
    }
}

impl From<CertificateError> for TlsError {
    fn from(error: CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::NotValidForNameContext { expected, presented } => {
                let presented = presented.iter().map(|name| plain_name(name).to_owned()).collect();
                Self::WrongHost { expected: expected.to_str().into_owned(), presented }
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Revoked => Self::Revoked,
            CertificateError::BadSignature => Self::BadSignature,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::WrongPurpose
            }
            CertificateError::Other(ref other) if other.0.is::<PinMismatch>() => Self::PinMismatch,
            CertificateError::Other(ref other) if other.0.is::<IssuerMismatch>() => {
                let mismatch = other.0.downcast_ref::<IssuerMismatch>();
                let expected = mismatch.map(|mismatch| mismatch.0.clone()).unwrap_or_default();
                Self::WrongIssuer { expected }
            }
            CertificateError::Other(ref other) => match other.0.downcast_ref::<webpki::Error>() {
                Some(webpki::Error::UnsupportedCertVersion) => Self::CertificateVersion,
                Some(webpki::Error::CaUsedAsEndEntity) => Self::AuthorityAsServer,
                Some(webpki::Error::NameConstraintViolation) => Self::NameConstraint,
                _ => Self::BadCertificate(error),
            },
            error => Self::BadCertificate(error),
        }
    }
}

/// The name in a `DnsName("NAME")` or an `IpAddress(ADDRESS)` of rustls; others as they are.
fn plain_name(presented: &str) -> &str {
    let within = |lead, end| presented.strip_prefix(lead)?.strip_suffix(end);
    within("DnsName(\"", "\")").or_else(|| within("IpAddress(", ")")).unwrap_or(presented)
}

impl From<PeerIncompatible> for TlsError {
    fn from(cause: PeerIncompatible) -> Self {
        match cause {
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled => Self::NoCommonVersion,
            PeerIncompatible::NoCipherSuitesInCommon
            | PeerIncompatible::NoKxGroupsInCommon
            | PeerIncompatible::NoSignatureSchemesInCommon
            | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
            | PeerIncompatible::NoEcPointFormatsInCommon => Self::NoCommonCipher,
            cause => Self::Protocol(cause.into()),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongHost { expected, presented } if presented.is_empty() => {
                return write!(f, "certificate for {expected} has no subject alternative names");
            }
            Self::WrongHost { expected, presented } => {
                let names = presented.join(", ");
                return write!(f, "certificate is for {names}, not for {expected}");
            }
            Self::WrongIssuer { expected } => {
                return write!(f, "certificate was not issued by the one in {expected}");
            }
            Self::BadCertificate(error) => {
                return write!(f, "certificate is invalid: {error}");
            }
            Self::UnknownName(Some(name)) => {
                return write!(f, "no certificate for server name {name} (SNI)");
            }
            Self::Alert(alert) => return write!(f, "peer sent TLS alert {alert:?}"),
            Self::Protocol(error) => return write!(f, "TLS error: {error}"),
            Self::BadServerName => "invalid host name: neither a DNS name nor an IP address",
            Self::Expired => "certificate has expired",
            Self::NotYetValid => "certificate is not yet valid",
            Self::UnknownIssuer => "certificate issuer is unknown (no trusted CA)",
            Self::AuthorityAsServer => {
                "self-signed certificate, or a CA's own (basicConstraints CA:TRUE), which is not \
                 trusted: add it to the trusted certificates (--cacert FILE), or use one that is \
                 issued with CA:FALSE"
            }
            Self::CertificateVersion => OLD_VERSION,
            Self::Revoked => "certificate has been revoked",
            Self::BadSignature => "invalid signature in the certificate or handshake",
            Self::WrongPurpose => "certificate is for another purpose (extended key usage)",
            Self::NameConstraint => {
                "certificate issuer is not permitted for this name (name constraints)"
            }
            Self::PinMismatch => "public key does not match any pinned key",
            Self::NoCertificate => "client sent no certificate, but one is required",
            Self::UnknownName(None) => "client sent no server name (SNI)",
            Self::NoCommonVersion => "no TLS version in common",
            Self::NoCommonCipher => "no cipher suite, group or signature algorithm in common",
            Self::NoCommonProtocol => "no application protocol in common (ALPN)",
            Self::NotTls => "peer does not use TLS on this port",
            Self::HelloTooLarge => "ClientHello is too large (over 16 KB)",
            Self::Flood => "too many non-data TLS records",
            Self::HandshakeEof => "connection closed during the TLS handshake",
            Self::Truncated => "connection closed without TLS close_notify: data may be truncated",
            Self::BadRecord => "TLS record cannot be decrypted",
            Self::KeysExhausted => "TLS keys have reached their encryption limit",
        })
    }
}

impl Error for TlsError {}

/// The error of a verifier about a pin, passed through rustls.
#[derive(Debug)]
pub(crate) struct PinMismatch;

impl fmt::Display for PinMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TlsError::PinMismatch.fmt(f)
    }
}

impl Error for PinMismatch {}

/// The error of a verifier about the issuer, passed through rustls: the required certificate.
#[derive(Debug)]
pub(crate) struct IssuerMismatch(pub(crate) String);

impl fmt::Display for IssuerMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TlsError::WrongIssuer { expected: self.0.clone() }.fmt(f)
    }
}

impl Error for IssuerMismatch {}

/// An error in the options, or in a file that they name.
#[derive(Debug)]
pub struct ConfigError {
    pem: Option<Pem>,
    kind: ConfigErrorKind,
}

/// The cause of a [`ConfigError`].
#[derive(Debug)]
pub(crate) enum ConfigErrorKind {
    Io(io::Error),
    Pem(rustls::pki_types::pem::Error),
    Key(rustls::pki_types::pem::Error),
    RootDer,
    CertificateVersion,
    NoCertificate,
    NoRevocationList,
    NoIdentity,
    UnknownCipher { name: String, known: Vec<&'static str> },
    UnknownGroup { name: String, known: Vec<&'static str> },
    NoCipherForVersions,
    NoVersion,
    KeyMismatch(Pem),
    IncompleteChain,
    Roots(VerifierBuilderError),
    Rustls(rustls::Error),
}

impl ConfigError {
    pub(crate) fn new(pem: &Pem, kind: ConfigErrorKind) -> Self {
        Self { pem: Some(pem.clone()), kind }
    }

    /// A private key that cannot be used, or not with its certificate.
    pub(crate) fn of_key(identity: &Identity, error: rustls::Error) -> Self {
        let kind = match error {
            rustls::Error::InconsistentKeys(_) => {
                ConfigErrorKind::KeyMismatch(identity.cert.clone())
            }
            error => ConfigErrorKind::Rustls(error),
        };
        Self::new(&identity.key, kind)
    }

    pub(crate) fn of_options(kind: ConfigErrorKind) -> Self {
        Self { pem: None, kind }
    }

    /// The file with the error, if it is in a file.
    pub fn path(&self) -> Option<&Path> {
        self.pem.as_ref()?.path()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pem {
            Some(pem) => write!(f, "{pem}: ")?,
            None => f.write_str("TLS: ")?,
        }
        match &self.kind {
            ConfigErrorKind::Io(error) => error.fmt(f),
            ConfigErrorKind::Pem(error) => write!(f, "invalid PEM: {error}"),
            ConfigErrorKind::Key(rustls::pki_types::pem::Error::NoItemsFound) => {
                f.write_str("no private key in PEM (must be unencrypted)")
            }
            ConfigErrorKind::Key(error) => {
                write!(f, "no private key in PEM (must be unencrypted): {error}")
            }
            ConfigErrorKind::RootDer => {
                f.write_str("a trusted certificate in DER cannot be parsed")
            }
            ConfigErrorKind::CertificateVersion => f.write_str(OLD_VERSION),
            ConfigErrorKind::NoCertificate => f.write_str("no certificate in PEM"),
            ConfigErrorKind::NoRevocationList => f.write_str("no revocation list in PEM"),
            ConfigErrorKind::NoIdentity => {
                f.write_str("a server needs a certificate and its private key")
            }
            ConfigErrorKind::UnknownCipher { name, known } => {
                write!(f, "unknown cipher suite {name}; known: {}", known.join(", "))
            }
            ConfigErrorKind::UnknownGroup { name, known } => {
                write!(f, "unknown key exchange group {name}; known: {}", known.join(", "))
            }
            ConfigErrorKind::NoCipherForVersions => {
                f.write_str("no cipher suite of an allowed TLS version")
            }
            ConfigErrorKind::NoVersion => {
                f.write_str("minimum TLS version is newer than the maximum")
            }
            ConfigErrorKind::KeyMismatch(cert) => {
                write!(f, "private key does not belong to the certificate of {cert}")
            }
            ConfigErrorKind::IncompleteChain => {
                f.write_str("incomplete chain: no other certificate issued the first one")
            }
            ConfigErrorKind::Roots(error) => error.fmt(f),
            ConfigErrorKind::Rustls(error) => error.fmt(f),
        }
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ConfigErrorKind::Io(error) => Some(error),
            ConfigErrorKind::Pem(error) | ConfigErrorKind::Key(error) => Some(error),
            ConfigErrorKind::Roots(error) => Some(error),
            ConfigErrorKind::Rustls(error) => Some(error),
            ConfigErrorKind::RootDer
            | ConfigErrorKind::CertificateVersion
            | ConfigErrorKind::NoCertificate
            | ConfigErrorKind::NoRevocationList
            | ConfigErrorKind::NoIdentity
            | ConfigErrorKind::UnknownCipher { .. }
            | ConfigErrorKind::UnknownGroup { .. }
            | ConfigErrorKind::NoCipherForVersions
            | ConfigErrorKind::NoVersion
            | ConfigErrorKind::KeyMismatch(_)
            | ConfigErrorKind::IncompleteChain => None,
        }
    }
}

/// OpenSSL takes the host name from the subject of such a certificate; RFC 9525 §6.3 forbids that.
const OLD_VERSION: &str = "unsupported X.509 certificate version 1 (no extensions, so no \
    subjectAltName): issue a version 3 certificate, for example with openssl req -x509 -addext \
    subjectAltName=DNS:HOST, or openssl x509 -req -extfile FILE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_certificate_are_plain() {
        let presented = ["DnsName(\"a.example\")", "IpAddress(127.0.0.1)", "DirectoryName"];
        let error = TlsError::from(CertificateError::NotValidForNameContext {
            expected: "b.example".try_into().expect("a name"),
            presented: presented.map(str::to_owned).to_vec(),
        });
        assert_eq!(
            error.to_string(),
            "certificate is for a.example, 127.0.0.1, DirectoryName, not for b.example"
        );
    }
}
