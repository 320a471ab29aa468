//! TLS toward servers. Files are read once, at the start.

use fulmar_haproxy::model::{ServerTlsConfig, TlsVersion};
use fulmar_haproxy::rules::{EvalContext, Sample};
use fulmar_tls::{ClientOptions, ClientTls, ConfigError, Identity, Roots, Verify, Version};

/// The TLS settings of all connections to a server.
///
/// # Errors
/// A file cannot be read or used.
pub(crate) fn client_tls(tls: &ServerTlsConfig) -> Result<ClientTls, ConfigError> {
    ClientTls::new(ClientOptions {
        roots: tls.ca_file.as_ref().map_or_else(Roots::platform, |file| Roots::empty().file(file)),
        verify: match tls.verify {
            true if tls.sni.is_some() || tls.verify_host.is_some() => Verify::Full,
            true => Verify::Chain, // no name to compare
            false => Verify::Nothing,
        },
        // One file holds the chain and its key, as in HAProxy.
        identity: tls.certificate.as_ref().map(|file| Identity::files(file.clone(), file.clone())),
        version_min: match tls.version_min {
            Some(TlsVersion::Tls13) => Version::Tls13,
            _ => Version::Tls12,
        },
        version_max: match tls.version_max {
            Some(TlsVersion::Tls12) => Version::Tls12,
            _ => Version::Tls13,
        },
        ciphers: tls.suites.clone(),
        revoked: tls.crl_file.iter().cloned().collect(),
        resumption_len: if tls.always_anew { 0 } else { ClientOptions::default().resumption_len },
        alpn: tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
        server_name: tls.verify_host.clone(),
        ..ClientOptions::default()
    })
}

/// The server name for TLS (`sni`), evaluated for a client.
pub(crate) fn tls_server_name(tls: &ServerTlsConfig, client: &dyn EvalContext) -> Option<String> {
    match tls.sni.as_ref()?.evaluate(client)? {
        Sample::Text(text) => String::from_utf8(text.into_owned()).ok(),
        _ => None,
    }
}
