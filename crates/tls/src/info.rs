//! What a handshake has agreed on.

use std::any::Any;

use rustls::pki_types::CertificateDer;
use rustls::{CommonState, HandshakeKind};

use crate::ciphers;
use crate::options::Version;
use crate::session::{ClientSession, ServerSession};

/// What a handshake has agreed on: a view of the session.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    /// The version.
    pub version: Version,
    /// The name of the cipher suite, as IANA lists it.
    pub cipher: &'static str,
    /// The protocol, if one was negotiated (RFC 7301).
    pub alpn: Option<&'a [u8]>,
    /// The name that the client asked for (RFC 6066 §3); `None` on a client, who knows it.
    pub server_name: Option<&'a str>,
    /// True if an earlier session was resumed, without certificates being sent.
    pub resumed: bool,
    certificates: &'a [CertificateDer<'static>],
}

impl<'a> Info<'a> {
    /// Of a layer, as a handler of connections is told of it; `None` if it is not TLS, or does
    /// not stand yet.
    pub fn of(layer: &'a dyn Any) -> Option<Self> {
        match (layer.downcast_ref::<ClientSession>(), layer.downcast_ref::<ServerSession>()) {
            (Some(session), _) => session.info(),
            (_, Some(session)) => session.info(),
            _ => None,
        }
    }

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

    /// The peer's certificates in DER, its own first; a resumed session has those of the first.
    /// They were verified, unless a client was told not to. A client that showed none has none.
    pub fn certificates(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.certificates.iter().map(|certificate| &certificate[..])
    }
}
