//! A client's side of TLS: built once, shared by all connections that may share it.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;

use crate::ciphers;
use crate::error::{ConfigError, Flaw, TlsError};
use crate::keylog::KeyLogFile;
use crate::options::{ClientOptions, Verify};
use crate::pem;
use crate::roots::Trusted;
use crate::session::ClientSession;
use crate::verify::Verifier;

/// How a client speaks TLS. Cheap to clone; clones share what can be resumed.
///
/// Two are equal if one is a clone of the other. Equal options are not enough: the files they
/// name may have changed in between, and a connection that was made on one's terms must not be
/// used on the other's.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: ClientOptions,
    config: Arc<rustls::ClientConfig>,
}

impl ClientTls {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// One cannot be read or used; the error says which, and why.
    pub fn new(options: ClientOptions) -> Result<Self, ConfigError> {
        let versions = options.version_min.up_to(options.version_max);
        let provider = Arc::new(ciphers::provider(&options.ciphers, &versions)?);
        let verifier = Arc::new(verifier(&options, &provider)?);
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| ConfigError::of_options(Flaw::Unfit(error)))?
            .dangerous() // rustls calls every verifier but its own so
            .with_custom_certificate_verifier(verifier);
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = pem::identity(identity)?;
                let unfit = |error| ConfigError::new(&identity.key, Flaw::Unfit(error));
                builder.with_client_auth_cert(chain, key).map_err(unfit)?
            }
        };
        config.alpn_protocols.clone_from(&options.alpn);
        config.resumption = match options.resumption_len {
            0 => Resumption::disabled(),
            len => Resumption::in_memory_sessions(len),
        };
        if let Some(path) = &options.key_log {
            let file = KeyLogFile::open(path);
            let flaw = |error| ConfigError::new(&path.as_path().into(), Flaw::Io(error));
            let file = file.map_err(flaw)?;
            config.key_log = Arc::new(file);
        }
        Ok(Self(Arc::new(Shared { options, config: Arc::new(config) })))
    }

    /// What it was built from.
    pub fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    /// A session with `host`: a name, or an address with or without brackets.
    ///
    /// # Errors
    /// The host is neither, or randomness ran out.
    pub fn session(&self, host: &str) -> Result<ClientSession, TlsError> {
        let name = self.0.options.server_name.as_deref().unwrap_or(host);
        ClientSession::client(self.0.config.clone(), server_name(name)?)
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClientTls {}

impl Hash for ClientTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A name as certificates have it: no trailing dot (RFC 6066 §3), no brackets around an address.
fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(ServerName::from(address));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_owned();
    ServerName::try_from(name).map_err(|_| TlsError::BadServerName)
}

fn verifier(
    options: &ClientOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Verifier, ConfigError> {
    let (chain, trusted) = match options.verify {
        Verify::Nothing => (None, Trusted::default()),
        Verify::Full | Verify::Chain => {
            let (roots, trusted) = options.roots.read()?.into_parts();
            (Some(chain_verifier(options, roots, provider)?), trusted)
        }
    };
    let any_name = options.verify == Verify::Chain;
    Ok(Verifier {
        chain,
        trusted,
        any_name,
        pins: options.pins.clone(),
        provider: provider.clone(),
    })
}

fn chain_verifier(
    options: &ClientOptions,
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ConfigError> {
    let mut builder =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    if !options.revoked.is_empty() {
        // A list says nothing about those whom it does not cover.
        builder = builder.allow_unknown_revocation_status().only_check_end_entity_revocation();
        for path in &options.revoked {
            builder = builder.with_crls(pem::revocations(&path.as_path().into())?);
        }
    }
    let verifier = builder.build().map_err(|error| ConfigError::of_options(Flaw::Roots(error)))?;
    Ok(verifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_certificates_have_them() {
        for (host, name) in [
            ("example.com", "example.com"),
            ("example.com.", "example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(server_name(host).unwrap().to_str(), name, "{host}");
        }
        for host in ["", ".", "a b", "a..b", "[a]", "ex\u{e4}mple.com"] {
            assert!(matches!(server_name(host), Err(TlsError::BadServerName)), "{host:?}");
        }
    }
}
