//! The parameters that a handshake negotiated.

use rustls::client::verify_server_name;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use rustls::{CommonState, HandshakeKind};

use crate::ciphers;
use crate::options::Version;
use crate::server_name::server_name;

/// The parameters that a handshake negotiated: a view of the session.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    /// The TLS version.
    pub version: Version,
    /// The name of the cipher suite in the IANA registry.
    pub cipher: &'static str,
    /// The application protocol, if one was negotiated (RFC 7301).
    pub alpn: Option<&'a [u8]>,
    /// The server name requested by the client (RFC 6066 §3); `None` on the client side.
    pub server_name: Option<&'a str>,
    /// True if an earlier session was resumed, without certificates.
    pub resumed: bool,
    certificates: &'a [CertificateDer<'static>],
}

impl<'a> Info<'a> {
    pub(crate) fn of_state(state: &'a CommonState, server_name: Option<&'a str>) -> Option<Self> {
        let suite = state.negotiated_cipher_suite()?.suite();
        Some(Self {
            version: Version::from_rustls(state.protocol_version()?)?,
            cipher: ciphers::name(suite)?,
            alpn: state.alpn_protocol(),
            server_name,
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
            certificates: state.peer_certificates().unwrap_or_default(),
        })
    }

    /// The peer's certificates in DER, its own first. A resumed session has those of the first
    /// handshake. They were verified, unless verification is disabled. Empty if a client sent none.
    pub fn certificates(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.certificates.iter().map(|certificate| &certificate[..])
    }

    /// True if the peer's own certificate is for `host`: a DNS name, or an IP address with or
    /// without brackets. Only the name is checked, as for [`crate::Verify::Full`]; see
    /// [`crate::ClientOptions::verifies_host`].
    pub fn is_valid_for(&self, host: &str) -> bool {
        let (Some(certificate), Ok(name)) = (self.certificates.first(), server_name(host)) else {
            return false;
        };
        let parsed = ParsedCertificate::try_from(certificate);
        parsed.is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
    }
}
