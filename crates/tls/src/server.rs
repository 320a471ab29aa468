//! A server's side of TLS: set up once, shared by all threads, set up anew while it serves.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};

use crate::certificates::Certificates;
use crate::ciphers;
use crate::error::{ConfigError, Flaw, TlsError};
use crate::options::{Authorities, ClientAuth, ServerOptions};
use crate::pem;
use crate::roots::Anchors;
use crate::session::ServerSession;
use crate::verify::ClientVerifier;

/// How a server speaks TLS. Cheap to clone; clones share everything, so that whoever reloads one
/// reloads all.
///
/// ```no_run
/// use fulmar_tls::{Identity, ServerTls};
///
/// let tls = ServerTls::new(Identity::files("example.com.pem", "example.com.key").into())?;
/// let session = tls.session()?; // for each connection that is accepted, on any thread
/// tls.reload()?; // the certificate was renewed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    changing: Mutex<()>, // held while files are read, which sessions do not wait for
}

#[derive(Debug)]
struct State {
    options: ServerOptions,
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// One cannot be read or used, or the options contradict each other; the error says which,
    /// and why.
    pub fn new(options: ServerOptions) -> Result<Self, ConfigError> {
        let config = Arc::new(config(&options, None)?);
        let state = RwLock::new(State { options, config });
        Ok(Self(Arc::new(Shared { state, changing: Mutex::new(()) })))
    }

    /// What it was built from.
    pub fn options(&self) -> ServerOptions {
        self.read(|state| state.options.clone())
    }

    /// Reads all files anew. Who connects from now on meets what they hold now; sessions in being
    /// go on as they began.
    ///
    /// Tickets stay good, so that a renewed certificate does not bring everybody back with a full
    /// handshake: who resumes has seen one of our certificates, and is asked for a name that must
    /// still be served. Only where clients show certificates are tickets void: a resumed
    /// session is not verified again, and its authority may be one that was taken away.
    ///
    /// # Errors
    /// As of [`ServerTls::new`]; then all is as it was.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let _one_at_a_time = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(self.options())
    }

    /// As [`ServerTls::reload`], with other options.
    ///
    /// # Errors
    /// As of [`ServerTls::new`]; then all is as it was.
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
        *state = State { options, config };
        Ok(())
    }

    /// A session for a connection that was accepted.
    ///
    /// # Errors
    /// Randomness ran out.
    pub fn session(&self) -> Result<ServerSession, TlsError> {
        ServerSession::server(self.read(|state| state.config.clone()))
    }

    /// Nobody panics with the lock in hand, and the state is whole at every moment.
    fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.0.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What rustls needs to know. Tickets that `before` gave are good here too.
fn config(
    options: &ServerOptions,
    before: Option<&ServerConfig>,
) -> Result<ServerConfig, ConfigError> {
    let unusable = |error| ConfigError::of_options(Flaw::Unfit(error));
    let versions = options.version_min.up_to(options.version_max);
    if versions.is_empty() {
        return Err(ConfigError::of_options(Flaw::NoVersion));
    }
    let provider = Arc::new(ciphers::provider(&options.ciphers, &versions)?);
    let certificates = Certificates::read(&options.identities, options.unknown_names, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(unusable)?
        .with_client_cert_verifier(verifier(&options.client_auth, provider)?)
        .with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols.clone_from(&options.alpn);
    config.ignore_client_order = !options.ciphers.is_empty();
    config.max_fragment_size = options.record_size_max;
    config.send_tls13_tickets = options.tickets;
    config.max_tls13_tickets = options.tickets; // who asks for fewer has fewer (RFC 9149)
    // Sessions are kept by the clients: no memory here, and any thread resumes them.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if options.tickets > 0 {
        config.ticketer = ticketer(before).map_err(unusable)?;
    }
    config.max_early_data_size = 0; // anybody may say it again
    Ok(config)
}

/// Its keys change every six hours, and are forgotten six hours later.
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
        // A list says nothing about those whom it does not cover.
        builder = builder.allow_unknown_revocation_status().only_check_end_entity_revocation();
        for pem in revoked {
            builder = builder.with_crls(pem::revocations(pem)?);
        }
    }
    let chain = builder.build().map_err(|error| ConfigError::of_options(Flaw::Roots(error)))?;
    Ok(Arc::new(ClientVerifier { chain, trusted, provider }))
}
