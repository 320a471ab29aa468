//! Client-side TLS configuration: built once, shared by many connections.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;

use crate::ciphers;
use crate::error::{ConfigError, ConfigErrorKind, TlsError};
use crate::issuer::RequiredIssuer;
use crate::options::{ClientOptions, Verify};
use crate::pem;
use crate::roots::Trusted;
use crate::server_name::server_name;
use crate::session::ClientSession;
use crate::verify::Verifier;

/// Client-side TLS configuration. Cheap to clone; clones share the sessions that can be resumed.
///
/// Two values are equal if one is a clone of the other. Equal options are not enough: the files may
/// have changed in between, and a connection with one configuration must not be reused for another.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientShared>);

#[derive(Debug)]
struct ClientShared {
    options: ClientOptions,
    config: Arc<rustls::ClientConfig>,
}

impl ClientTls {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// A file cannot be read or used; the error contains its path and the cause.
    pub fn new(options: ClientOptions) -> Result<Self, ConfigError> {
        let versions = options.version_min.up_to(options.version_max);
        let mut provider = ciphers::provider(&options.ciphers, &versions)?;
        ciphers::select_groups(&mut provider, &options.groups)?;
        let provider = Arc::new(provider);
        let verifier = Arc::new(verifier(&options, &provider)?);
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| ConfigError::of_options(ConfigErrorKind::Rustls(error)))?
            .dangerous() // rustls's name for every custom verifier
            .with_custom_certificate_verifier(verifier);
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = pem::identity(identity)?;
                let unfit = |error| ConfigError::of_key(identity, error);
                builder.with_client_auth_cert(chain, key).map_err(unfit)?
            }
        };
        config.alpn_protocols.clone_from(&options.alpn);
        config.resumption = match options.resumption_len {
            0 => Resumption::disabled(),
            len => Resumption::in_memory_sessions(len),
        };
        if let Some(file) = &options.key_log {
            config.key_log = Arc::new(file.clone());
        }
        Ok(Self(Arc::new(ClientShared { options, config: Arc::new(config) })))
    }

    /// The options it was built from.
    pub fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    /// Starts a session with `host`: a DNS name, or an IP address with or without brackets.
    ///
    /// # Errors
    /// The host is neither, or the system has no randomness.
    pub fn session(&self, host: &str) -> Result<ClientSession, TlsError> {
        self.session_with_alpn(host, &self.0.options.alpn)
    }

    /// As [`ClientTls::session`], but offers these application protocols, by preference, instead of
    /// those of the options (RFC 7301).
    ///
    /// # Errors
    /// As for [`ClientTls::session`].
    pub fn session_with_alpn(
        &self,
        host: &str,
        alpn: &[Vec<u8>],
    ) -> Result<ClientSession, TlsError> {
        let name = self.0.options.server_name.as_deref().unwrap_or(host);
        ClientSession::client(self.0.config.clone(), server_name(name)?, alpn.to_vec())
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

fn verifier(
    options: &ClientOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Verifier, ConfigError> {
    let mut trusts_none = false;
    let (chain, trusted) = match options.verify {
        Verify::Name | Verify::Nothing => (None, Trusted::default()),
        Verify::Full | Verify::Chain => {
            let (roots, trusted) = options.roots.read()?.into_parts();
            trusts_none = roots.is_empty() && options.roots.may_be_empty();
            let chain = match trusts_none {
                true => None,
                false => Some(chain_verifier(options, roots, provider)?),
            };
            (chain, trusted)
        }
    };
    Ok(Verifier {
        chain,
        trusts_none,
        trusted,
        verify: options.verify,
        pins: options.pins.clone(),
        issuer: options.issuer.as_ref().map(RequiredIssuer::read).transpose()?,
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
        // Certificates that no list covers count as not revoked.
        builder = builder.allow_unknown_revocation_status().only_check_end_entity_revocation();
        for path in &options.revoked {
            builder = builder.with_crls(pem::revocations(&path.as_path().into())?);
        }
    }
    let verifier =
        builder.build().map_err(|error| ConfigError::of_options(ConfigErrorKind::Roots(error)))?;
    Ok(verifier)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::identity::{Identity, Pem};

    #[test]
    fn a_key_of_another_certificate_is_named() {
        let (own, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let cert = CertificateParams::new(vec!["ann".to_owned()]).unwrap();
        let cert = cert.self_signed(&own).unwrap().pem();
        let read = |path: &str, pem: String| Pem::Read(path.into(), Bytes::from(pem));
        let tls = |key: &KeyPair| {
            let cert = read("ann.pem", cert.clone());
            let identity = Some(Identity::new(cert, read("bob.key", key.serialize_pem())));
            ClientTls::new(ClientOptions { identity, ..ClientOptions::default() })
        };
        assert!(tls(&own).is_ok());
        let text = "bob.key: private key does not belong to the certificate of ann.pem";
        assert_eq!(tls(&other).unwrap_err().to_string(), text);
    }
}
