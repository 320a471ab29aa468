//! A server's side of TLS: one certificate, whatever name is asked for.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;

use crate::error::{ConfigError, Flaw, TlsError};
use crate::options::ServerOptions;
use crate::pem;
use crate::session::ServerSession;

/// How a server speaks TLS. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<rustls::ServerConfig>);

impl ServerTls {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// One cannot be read or used; the error says which, and why.
    pub fn new(options: &ServerOptions) -> Result<Self, ConfigError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let unusable = |error| ConfigError::of_options(Flaw::Unfit(error));
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&options.version_min.up_to(options.version_max))
            .map_err(unusable)?;
        let builder = match &options.client_roots {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                pem::roots(path, &mut roots)?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build();
                let flaw = |error| ConfigError::new(path, Flaw::Roots(error));
                builder.with_client_cert_verifier(verifier.map_err(flaw)?)
            }
        };
        let (chain, key) = pem::identity(&options.identity)?;
        let unfit = |error| ConfigError::new(&options.identity.key, Flaw::Unfit(error));
        let mut config = builder.with_single_cert(chain, key).map_err(unfit)?;
        config.alpn_protocols.clone_from(&options.alpn);
        config.max_fragment_size = options.record_size_max;
        // Sessions are kept by the clients: no memory here, and any thread resumes them.
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(unusable)?;
        Ok(Self(Arc::new(config)))
    }

    /// A session for a connection that was accepted.
    ///
    /// # Errors
    /// Randomness ran out.
    pub fn session(&self) -> Result<ServerSession, TlsError> {
        ServerSession::server(self.0.clone())
    }
}
