//! How requests are carried out, and what a client allows itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fulmar_engine::KeepAlive;
use fulmar_proto::h1::{DEPTH_MAX, Leniency};
use fulmar_semantics::auth::Credentials;
use fulmar_semantics::netrc::Netrc;
use fulmar_semantics::proxy::{Login, ProxyKind, ProxyUrl, Settings};
use fulmar_semantics::{coding, redirect};
use fulmar_tls::{ClientOptions, ClientTls, ConfigError};
use url::Host;

use crate::error::BuildError;
use crate::key::{Key, Route};
use crate::request::PROTOCOL;
use crate::request_url::RequestUrl;

/// How a request is carried out. Shared: requests of one kind refer to one of these.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which redirects are followed; `None`: none, they are answers like others.
    pub redirects: Option<redirect::Policy>,
    /// Content codings are undone, within these limits; `None`: bodies are delivered as they came.
    pub decode: Option<coding::CodingLimits>,
    /// User and password, or a token; also from `user:password@` in the URL.
    pub credentials: Option<Arc<Credentials>>,
    /// A password is sent by Basic without being asked for; otherwise the server's challenge says
    /// how. Tokens are always sent.
    pub preemptive_auth: bool,
    /// Logins by host, for requests without credentials.
    pub netrc: Option<Arc<Netrc>>,
    /// The client's cookies go with it and are taken from its answers.
    pub cookies: bool,
    /// A followed redirect is told where it came from (RFC 9110 §10.1.3).
    pub referer: bool,
    /// Further fields that are dropped when a redirect leaves the origin.
    pub credential_fields: Vec<String>,
    /// A body of so many bytes or more waits for `100 Continue` (RFC 9110 §10.1.1), at most
    /// [`Options::continue_timeout`].
    pub expect_continue_from: Option<u64>,
    /// How long a body waits for `100 Continue` before it is sent anyway.
    pub continue_timeout: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte_timeout: Option<Duration>,
    /// Between two bytes.
    pub idle_timeout: Option<Duration>,
    /// From start to end, queue and redirects included.
    pub total_timeout: Option<Duration>,
    /// For one exchange, from when its connection is there: the queue does not count.
    pub exchange_timeout: Option<Duration>,
    /// The longest body, as delivered.
    pub body_max: Option<u64>,
    /// The transfer is given up when it receives fewer bytes a second than this, for so long.
    pub lowest_speed: Option<(u64, Duration)>,
    /// Bytes a second that are received at most.
    pub highest_speed: Option<u64>,
    /// How often a request is sent again because the server said so by 429 or 503.
    pub retries: u8,
    /// How `https` is spoken; `None`: as [`fulmar_tls::ClientOptions::default`] says, with what the
    /// system trusts, which is read when the first request needs it.
    pub tls: Option<ClientTls>,
    /// Proxies, and what needs none; `None`: everything is reached directly.
    pub proxies: Option<Arc<Settings>>,
    /// Connect to this Unix socket, whatever the host (unix(7)).
    pub unix_socket: Option<PathBuf>,
    /// Our address.
    pub local: Option<SocketAddr>,
    /// The network interface to leave by.
    pub interface: Option<Box<str>>,
    /// Probes on silent connections.
    pub keep_alive: Option<KeepAlive>,
    /// The deviations from the grammar that are accepted in responses: [`Leniency::lenient`] by
    /// default.
    pub leniency: Leniency,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            redirects: None,
            decode: None,
            credentials: None,
            preemptive_auth: false,
            netrc: None,
            cookies: true,
            referer: false,
            credential_fields: Vec::new(),
            expect_continue_from: Some(1024 * 1024),
            continue_timeout: Duration::from_secs(1),
            first_byte_timeout: None,
            idle_timeout: Some(Duration::from_secs(60)),
            total_timeout: None,
            exchange_timeout: None,
            body_max: None,
            lowest_speed: None,
            highest_speed: None,
            retries: 0,
            tls: None,
            proxies: None,
            unix_socket: None,
            local: None,
            interface: None,
            keep_alive: None,
            leniency: Leniency::lenient(),
        }
    }
}

impl Options {
    /// What a connection for `target` must be.
    ///
    /// # Errors
    /// What the system trusts cannot be read.
    pub(crate) fn key(&self, target: &RequestUrl) -> Result<Key, BuildError> {
        let mut key = Key {
            host: target.host().into(),
            port: target.port(),
            route: Route::Direct,
            tls: self.tls(target)?,
            credentials: None,
            local: self.local,
            interface: self.interface.clone(),
            keep_alive: self.keep_alive,
            protocol: PROTOCOL,
            leniency: self.leniency,
        };
        if let Some(path) = &self.unix_socket {
            key.route = Route::Unix(path.clone());
            return Ok(key);
        }
        if let Some(proxy) = self.forwarder(target) {
            key.host = host_text(&proxy.host).into();
            key.port = proxy.port;
            key.route = Route::Forward;
        } else if let Some(proxy) = self.proxy(target) {
            key.route = Route::Tunnel(Arc::new(proxy.clone()));
        }
        Ok(key)
    }

    fn tls(&self, target: &RequestUrl) -> Result<Option<ClientTls>, BuildError> {
        if !target.is_tls() {
            return Ok(None);
        }
        let tls = match &self.tls {
            Some(tls) => tls,
            None => USUAL_TLS.as_ref().map_err(BuildError::Tls)?,
        };
        Ok(Some(tls.clone()))
    }

    /// The lowest speed, over a span that is long enough to reckon one.
    pub(crate) fn lowest_speed(&self) -> Option<(u64, Duration)> {
        self.lowest_speed.map(|(speed, span)| (speed, span.max(WINDOW_MIN)))
    }

    /// What a proxy that forwards is told of us. Any other is told when it opens the tunnel: what
    /// stands in the request would reach the server.
    pub(crate) fn proxy_login(&self, target: &RequestUrl) -> Option<&Login> {
        self.forwarder(target)?.login.as_ref()
    }

    /// The proxy that forwards requests for this target, if one does.
    fn forwarder(&self, target: &RequestUrl) -> Option<&ProxyUrl> {
        let proxy = self.proxy(target)?;
        (proxy.kind == ProxyKind::Http && !target.is_tls()).then_some(proxy)
    }

    fn proxy(&self, target: &RequestUrl) -> Option<&ProxyUrl> {
        let proxies = self.proxies.as_ref().filter(|_| self.unix_socket.is_none())?;
        proxies.proxy_for(target.url())
    }
}

/// Bytes come in bursts: over less time than this there is no speed, only work.
const WINDOW_MIN: Duration = Duration::from_millis(20);

/// A host as it is resolved or connected to, without brackets.
pub(crate) fn host_text(host: &Host<String>) -> String {
    match host {
        Host::Domain(name) => name.clone(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

/// For requests that say nothing else: they share what can be resumed.
static USUAL_TLS: LazyLock<Result<ClientTls, ConfigError>> =
    LazyLock::new(|| ClientTls::new(ClientOptions::default()));

/// What a client allows itself. A limit of 0 would let nothing go: it is taken for 1.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections at one time, idle ones included.
    pub connections_max: usize,
    /// Connections with one key at one time.
    pub per_host_max: usize,
    /// Idle connections that are kept.
    pub idle_max: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Option<Duration>,
    /// Until a name is resolved.
    pub name_timeout: Option<Duration>,
    /// Until a connection stands.
    pub connect_timeout: Option<Duration>,
    /// Until TLS or a tunnel stands.
    pub handshake_timeout: Option<Duration>,
    /// Until the next address is tried beside the one in hand (RFC 8305 §5).
    pub attempt_delay: Duration,
    /// Idempotent requests sent before the first is answered; 1: no pipelining, and never more
    /// than [`fulmar_proto::h1::DEPTH_MAX`].
    pub pipelining: u32,
    /// Requests a second to one host; `None`: as fast as they come.
    pub rate: Option<RateLimit>,
    /// Requests to one host at one time.
    pub per_host_active: Option<usize>,
    /// The longest wait that a server may ask for with `Retry-After`.
    pub retry_after_max: Duration,
}

impl Config {
    /// With limits that let at least one go, and no more in a pipeline than connections keep
    /// account of.
    pub(crate) fn bounded(self) -> Self {
        Self {
            connections_max: self.connections_max.max(1),
            per_host_max: self.per_host_max.max(1),
            per_host_active: self.per_host_active.map(|active| active.max(1)),
            pipelining: self.pipelining.clamp(1, DEPTH_MAX),
            ..self
        }
    }
}

/// So many requests in so long, and at once at most `burst`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests.
    pub requests: u32,
    /// In this time.
    pub per: Duration,
    /// That many may go together after a quiet time.
    pub burst: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections_max: 16 * 1024,
            per_host_max: usize::MAX,
            idle_max: 1024,
            idle_timeout: Some(Duration::from_secs(90)),
            name_timeout: Some(Duration::from_secs(30)),
            connect_timeout: Some(Duration::from_secs(30)),
            handshake_timeout: Some(Duration::from_secs(30)),
            attempt_delay: Duration::from_millis(250),
            pipelining: 1,
            rate: None,
            per_host_active: None,
            retry_after_max: Duration::from_secs(300),
        }
    }
}
