//! Server-side TLS configuration: shared by all threads, and reloaded at run time.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};

use crate::certificates::CertificatesByName;
use crate::ciphers;
use crate::error::{ConfigError, ConfigErrorKind, TlsError};
use crate::options::{Authorities, ClientAuth, ServerOptions};
use crate::pem;
use crate::roots::Anchors;
use crate::session::ServerSession;
use crate::verify::ClientVerifier;

/// Server-side TLS configuration. Cheap to clone; a reload of one clone applies to all.
///
/// ```no_run
/// use fulmar_tls::{Identity, ServerTls};
///
/// let tls = ServerTls::new(Identity::files("example.com.pem", "example.com.key").into())?;
/// let session = tls.session()?; // for each accepted connection, on any thread
/// tls.reload()?; // after the certificate was renewed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<ServerShared>);

#[derive(Debug)]
struct ServerShared {
    state: RwLock<ActiveConfig>,
    changing: Mutex<()>, // held while files are read; sessions do not wait for it
}

#[derive(Debug)]
struct ActiveConfig {
    options: ServerOptions,
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// A file cannot be read or used, or the options contradict each other. The error contains the
    /// file and the cause.
    pub fn new(options: ServerOptions) -> Result<Self, ConfigError> {
        let config = Arc::new(config(&options, None)?);
        let state = RwLock::new(ActiveConfig { options, config });
        Ok(Self(Arc::new(ServerShared { state, changing: Mutex::new(()) })))
    }

    /// The current options.
    pub fn options(&self) -> ServerOptions {
        self.read(|state| state.options.clone())
    }

    /// Reads all files again. New connections use the new configuration; existing sessions are not
    /// affected.
    ///
    /// Tickets stay valid, so a renewed certificate does not force full handshakes. A client that
    /// resumes a session has verified an earlier certificate, and the server name it requests must
    /// still have a certificate. If client certificates are requested, all tickets become invalid:
    /// a resumed session is not verified again, and its CA may have been removed.
    ///
    /// # Errors
    /// See [`ServerTls::new`]; the previous configuration stays in use.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let _one_at_a_time = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(self.options())
    }

    /// Like [`ServerTls::reload`], with other options.
    ///
    /// # Errors
    /// See [`ServerTls::new`]; the previous configuration stays in use.
    pub fn replace(&self, options: ServerOptions) -> Result<(), ConfigError> {
        let _one_at_a_time = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(options)
    }

    fn change(&self, options: ServerOptions) -> Result<(), ConfigError> {
        let before = self.read(|state| {
            let unverified = state.options.client_auth == ClientAuth::None;
            (unverified && options.client_auth == ClientAuth::None).then(|| state.config.clone())
        });
        let config = Arc::new(config(&options, before.as_deref())?);
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = ActiveConfig { options, config };
        Ok(())
    }

    /// Starts a session for an accepted connection.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn session(&self) -> Result<ServerSession, TlsError> {
        ServerSession::server(self.read(|state| state.config.clone()))
    }

    /// No code panics while it holds the lock, and the state is always complete, so poisoning is
    /// ignored.
    fn read<R>(&self, look: impl FnOnce(&ActiveConfig) -> R) -> R {
        look(&self.0.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rustls configuration. It accepts the tickets of `before`.
fn config(
    options: &ServerOptions,
    before: Option<&ServerConfig>,
) -> Result<ServerConfig, ConfigError> {
    let unusable = |error| ConfigError::of_options(ConfigErrorKind::Rustls(error));
    let versions = options.version_min.up_to(options.version_max);
    if versions.is_empty() {
        return Err(ConfigError::of_options(ConfigErrorKind::NoVersion));
    }
    let provider = Arc::new(ciphers::provider(&options.ciphers, &versions)?);
    let certificates =
        CertificatesByName::read(&options.identities, options.unknown_names, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(unusable)?
        .with_client_cert_verifier(verifier(&options.client_auth, provider)?)
        .with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols.clone_from(&options.alpn);
    config.ignore_client_order = !options.ciphers.is_empty();
    config.max_fragment_size = options.record_size_max;
    config.send_tls13_tickets = options.tickets;
    config.max_tls13_tickets = options.tickets; // a client may request fewer (RFC 9149)
    // Sessions are stored by the clients (tickets): no memory here, and any thread can resume them.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if options.tickets > 0 {
        config.ticketer = ticketer(before).map_err(unusable)?;
    }
    config.max_early_data_size = 0; // early data can be replayed
    Ok(config)
}

/// The ticket keys change every six hours, and expire six hours later.
fn ticketer(before: Option<&ServerConfig>) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    match before {
        Some(before) if before.ticketer.enabled() => Ok(before.ticketer.clone()),
        _ => aws_lc_rs::Ticketer::new(),
    }
}

fn verifier(
    auth: &ClientAuth,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ConfigError> {
    let (Authorities { roots, revoked }, optional) = match auth {
        ClientAuth::None => return Ok(WebPkiClientVerifier::no_client_auth()),
        ClientAuth::Optional(authorities) => (authorities, true),
        ClientAuth::Required(authorities) => (authorities, false),
    };
    let mut anchors = Anchors::default();
    for pem in roots {
        anchors.add_pem(pem)?;
    }
    let (store, trusted) = anchors.into_parts();
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider.clone());
    if optional {
        builder = builder.allow_unauthenticated();
    }
    if !revoked.is_empty() {
        // Certificates that no list covers count as not revoked.
        builder = builder.allow_unknown_revocation_status().only_check_end_entity_revocation();
        for pem in revoked {
            builder = builder.with_crls(pem::revocations(pem)?);
        }
    }
    let chain =
        builder.build().map_err(|error| ConfigError::of_options(ConfigErrorKind::Roots(error)))?;
    Ok(Arc::new(ClientVerifier { chain, trusted, provider }))
}
