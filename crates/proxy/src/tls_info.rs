//! Properties of a client's TLS session, for both modes.

use std::any::Any;

use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::eval_context::Fact;
use fulmar_haproxy::rules::fetch::common_name;
use fulmar_semantics::proxy_protocol;
use fulmar_tls::{Info, Version};

/// Properties of a client's TLS session.
#[derive(Clone, Debug)]
pub(crate) struct TlsInfo {
    /// As OpenSSL names it.
    pub(crate) version: &'static str,
    pub(crate) cipher: &'static str,
    pub(crate) resumed: bool,
    alpn: Option<Vec<u8>>,
    server_name: Option<String>,
    /// The client certificate, in DER.
    certificate: Option<Vec<u8>>,
}

impl TlsInfo {
    /// The properties of a layer; `None` if it is not TLS.
    pub(crate) fn of(layer: &dyn Any) -> Option<Self> {
        let info = Info::of(layer)?;
        Some(Self {
            version: match info.version {
                Version::Tls12 => "TLSv1.2",
                Version::Tls13 => "TLSv1.3",
            },
            cipher: info.cipher,
            alpn: info.alpn.map(<[u8]>::to_vec),
            server_name: info.server_name.map(str::to_owned),
            resumed: info.resumed,
            certificate: info.certificates().next().map(<[u8]>::to_vec),
        })
    }

    /// The TLV of a PROXY header of version 2: the connection uses TLS, and a client certificate
    /// was verified if there is one (`proxy-protocol.txt`, §2.2.6).
    pub(crate) fn proxy_tlv(&self) -> proxy_protocol::Tls {
        const TLS: u8 = 1;
        const CERTIFICATE: u8 = 2 | 4; // over this connection, and in this session
        let shown = if self.certificate.is_some() { CERTIFICATE } else { 0 };
        proxy_protocol::Tls {
            client: TLS | shown,
            verify: 0,
            version: Some(self.version.to_owned()),
            cipher: Some(self.cipher.to_owned()),
            common_name: self.certificate.as_deref().and_then(common_name),
            ..proxy_protocol::Tls::default()
        }
    }
}

/// The value of a fact about TLS. `tls` is `None` for a connection without TLS.
pub(crate) fn fact<'a>(tls: Option<&'a TlsInfo>, fact: &Fact) -> Option<Sample<'a>> {
    if matches!(fact, Fact::Tls) {
        return Some(Sample::Bool(tls.is_some()));
    }
    let tls = tls?;
    Some(match fact {
        Fact::TlsServerName => Sample::Text(tls.server_name.as_deref()?.as_bytes().into()),
        Fact::TlsProtocol => Sample::Text(tls.version.as_bytes().into()),
        Fact::TlsCipher => Sample::Text(tls.cipher.as_bytes().into()),
        Fact::TlsAlpn => Sample::Text(tls.alpn.as_deref()?.into()),
        Fact::TlsResumed => Sample::Bool(tls.resumed),
        Fact::ClientCertificate => Sample::Bool(tls.certificate.is_some()),
        Fact::ClientCertificateVerified => Sample::Int(0),
        Fact::ClientCertificateDer => Sample::Binary(tls.certificate.as_deref()?.into()),
        _ => return None,
    })
}
