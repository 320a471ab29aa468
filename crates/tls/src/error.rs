//! What goes wrong: with a session, and with what one is made from.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use rustls::server::VerifierBuilderError;
use rustls::{
    AlertDescription, CertificateError, InvalidMessage, PeerIncompatible, PeerMisbehaved,
};

use crate::options::Pem;

/// Why a session failed. It is what a [`fulmar_proto::LayerError`] of this crate holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TlsError {
    /// The host is neither a name that certificates can have nor an address.
    BadServerName,
    /// The certificate's time is over.
    Expired,
    /// The certificate's time has not come.
    NotYetValid,
    /// The certificate is somebody else's.
    WrongHost {
        /// Whom we asked for.
        expected: String,
        /// Whose it is.
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
    /// The certificate, or the handshake, was not signed by whom it says.
    BadSignature,
    /// The certificate is for another use than this.
    WrongPurpose,
    /// The certificate's authority may not vouch for this name.
    NameConstraint,
    /// The certificate is malformed, or wrong in another way.
    BadCertificate(CertificateError),
    /// The key is none of those that were pinned.
    PinMismatch,
    /// The client showed no certificate, and must.
    NoCertificate,
    /// The client asked for a server of this name, or of none, and there is no such.
    UnknownName(Option<String>),
    /// The peer gave up, and says why (RFC 8446 §6.2).
    Alert(AlertDescription),
    /// The peer speaks no version that is allowed here.
    NoCommonVersion,
    /// No cipher suite, group or signature that both allow.
    NoCommonCipher,
    /// No protocol that both speak (RFC 7301).
    NoCommonProtocol,
    /// What the peer speaks is not TLS.
    NotTls,
    /// The client's first words are longer than those of any client.
    HelloTooLarge,
    /// The peer makes work without saying anything: changes of keys, empty records, warnings,
    /// wishes to begin anew.
    Flood,
    /// The connection ended before the handshake did.
    HandshakeEof,
    /// The connection ended without a word (close_notify): somebody may have cut it.
    Truncated,
    /// A record was not encrypted with the keys agreed on, or was tampered with.
    BadRecord,
    /// As much has been sent as the keys allow, and this version cannot change them.
    KeysExhausted,
    /// The peer broke the protocol in another way, or we cannot go on; rustls says how.
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
                Self::WrongHost { expected: expected.to_str().into_owned(), presented }
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Revoked => Self::Revoked,
            CertificateError::BadSignature => Self::BadSignature,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::WrongPurpose
            }
            CertificateError::Other(ref other) if other.0.is::<PinMismatch>() => Self::PinMismatch,
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
                return write!(f, "the certificate is not for {expected}: it names nobody");
            }
            Self::WrongHost { expected, presented } => {
                let presented = presented.join(", ");
                return write!(f, "the certificate is not for {expected} but for {presented}");
            }
            Self::BadCertificate(error) => {
                return write!(f, "the certificate is not valid: {error}");
            }
            Self::UnknownName(Some(name)) => {
                return write!(f, "the client asks for {name}, and no certificate is for it");
            }
            Self::Alert(alert) => return write!(f, "the peer gave up the handshake: {alert:?}"),
            Self::Protocol(error) => return write!(f, "TLS failed: {error}"),
            Self::BadServerName => "the host is no name that a certificate can have",
            Self::Expired => "the certificate has expired",
            Self::NotYetValid => "the certificate is not valid yet",
            Self::UnknownIssuer => "certificate issuer is unknown (no trusted CA)",
            Self::AuthorityAsServer => {
                "self-signed certificate, or a CA's own (basicConstraints CA:TRUE), which is not \
                 trusted: add it to the trusted certificates (--cacert FILE), or use one that is \
                 issued with CA:FALSE"
            }
            Self::CertificateVersion => OLD_VERSION,
            Self::Revoked => "the certificate has been revoked",
            Self::BadSignature => "a signature is wrong",
            Self::WrongPurpose => "the certificate is for another purpose",
            Self::NameConstraint => "the authority may not vouch for this name",
            Self::PinMismatch => "the key is none of those that were pinned",
            Self::NoCertificate => "a certificate is asked for, and none was shown",
            Self::UnknownName(None) => "the client does not say for which name it asks",
            Self::NoCommonVersion => "no common version of TLS",
            Self::NoCommonCipher => "no common cipher suite, group or signature",
            Self::NoCommonProtocol => "no common protocol (ALPN)",
            Self::NotTls => "what the peer speaks is not TLS",
            Self::HelloTooLarge => "the client's first message is too large",
            Self::Flood => "the peer sends too much that says nothing",
            Self::HandshakeEof => "the connection ended during the TLS handshake",
            Self::Truncated => "the connection ended without close_notify: it may have been cut",
            Self::BadRecord => "a record cannot be decrypted",
            Self::KeysExhausted => "as much has been sent as the keys allow",
        })
    }
}

impl Error for TlsError {}

/// What a verifier says through rustls about a pin.
#[derive(Debug)]
pub(crate) struct PinMismatch;

impl fmt::Display for PinMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TlsError::PinMismatch.fmt(f)
    }
}

impl Error for PinMismatch {}

/// What is wrong with the options or with a file that they name.
#[derive(Debug)]
pub struct ConfigError {
    pem: Option<Pem>,
    flaw: Flaw,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum Flaw {
    Io(io::Error),
    Pem(rustls::pki_types::pem::Error),
    Key(rustls::pki_types::pem::Error),
    RootDer,
    CertificateVersion,
    NoCertificate,
    NoRevocationList,
    NoIdentity,
    NoSuchCipher { name: String, known: Vec<&'static str> },
    NoCipherForVersions,
    NoVersion,
    OtherKey(Pem),
    NoChain,
    Roots(VerifierBuilderError),
    Unfit(rustls::Error),
}

impl ConfigError {
    pub(crate) fn new(pem: &Pem, flaw: Flaw) -> Self {
        Self { pem: Some(pem.clone()), flaw }
    }

    pub(crate) fn of_options(flaw: Flaw) -> Self {
        Self { pem: None, flaw }
    }

    /// The file that is wrong, if one is.
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
        match &self.flaw {
            Flaw::Io(error) => error.fmt(f),
            Flaw::Pem(error) => write!(f, "not in PEM: {error}"),
            Flaw::Key(error) => write!(f, "no private key in PEM, unencrypted: {error}"),
            Flaw::RootDer => f.write_str("a trusted certificate in DER cannot be parsed"),
            Flaw::CertificateVersion => f.write_str(OLD_VERSION),
            Flaw::NoCertificate => f.write_str("no certificate in PEM"),
            Flaw::NoRevocationList => f.write_str("no revocation list in PEM"),
            Flaw::NoIdentity => f.write_str("a server needs a certificate and its key"),
            Flaw::NoSuchCipher { name, known } => {
                write!(f, "no cipher suite {name}; there are {}", known.join(", "))
            }
            Flaw::NoCipherForVersions => {
                f.write_str("none of the cipher suites is of a version that is allowed")
            }
            Flaw::NoVersion => f.write_str("the oldest version allowed is newer than the newest"),
            Flaw::OtherKey(cert) => write!(f, "not the key of the certificate in {cert}"),
            Flaw::NoChain => f.write_str("none of the certificates after the first vouches for it"),
            Flaw::Roots(error) => error.fmt(f),
            Flaw::Unfit(error) => error.fmt(f),
        }
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.flaw {
            Flaw::Io(error) => Some(error),
            Flaw::Pem(error) | Flaw::Key(error) => Some(error),
            Flaw::Roots(error) => Some(error),
            Flaw::Unfit(error) => Some(error),
            Flaw::RootDer
            | Flaw::CertificateVersion
            | Flaw::NoCertificate
            | Flaw::NoRevocationList
            | Flaw::NoIdentity
            | Flaw::NoSuchCipher { .. }
            | Flaw::NoCipherForVersions
            | Flaw::NoVersion
            | Flaw::OtherKey(_)
            | Flaw::NoChain => None,
        }
    }
}

/// OpenSSL takes the host name from the subject of such a certificate; RFC 9525 §6.3 forbids that.
const OLD_VERSION: &str = "unsupported X.509 certificate version 1 (no extensions, so no \
    subjectAltName): issue a version 3 certificate, for example with openssl req -x509 -addext \
    subjectAltName=DNS:HOST, or openssl x509 -req -extfile FILE";
