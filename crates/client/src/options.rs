//! The options of requests, and the limits of a client.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fulmar_engine::KeepAlive;
use fulmar_proto::h1::{DEPTH_MAX, Leniency, ResponseProfile, StatusAliases};
use fulmar_semantics::auth::Credentials;
use fulmar_semantics::netrc::Netrc;
use fulmar_semantics::proxy::{Login, ProxyKind, ProxyUrl, Settings};
use fulmar_semantics::{coding, redirect};
use fulmar_tls::{ClientOptions, ClientTls, ConfigError, HTTP2};
use url::Host;

use crate::connection_key::{IpVersion, Key, OpenedTunnel, Protocol, Route};
use crate::error::BuildError;
use crate::request_url::RequestUrl;

/// The options of a request. Many requests share one of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Redirects to follow; `None`: they are delivered as responses.
    pub redirects: Option<redirect::Policy>,
    /// Limits for decoding bodies; `None`: bodies are delivered encoded.
    pub decode: Option<coding::CodingLimits>,
    /// User and password, or a token; also from `user:password@` in the URL.
    pub credentials: Option<Arc<Credentials>>,
    /// Sends a password by Basic before a challenge. Otherwise the server's challenge determines
    /// the scheme. Tokens are always sent.
    pub preemptive_auth: bool,
    /// Logins by host, for requests without credentials.
    pub netrc: Option<Arc<Netrc>>,
    /// Sends the client's cookies and stores those of responses.
    pub cookies: bool,
    /// Sends `Referer` after a redirect (RFC 9110 §10.1.3).
    pub referer: bool,
    /// Further fields that are dropped when a redirect leaves the origin.
    pub credential_fields: Vec<String>,
    /// Bodies of at least this length wait for `100 Continue` (RFC 9110 §10.1.1), at most
    /// [`Options::continue_timeout`].
    pub expect_continue_from: Option<u64>,
    /// How long a body waits for `100 Continue` before it is sent anyway.
    pub continue_timeout: Duration,
    /// How long a transfer waits for a connection: in the queue, for the name, the connection, and
    /// TLS or the proxy's tunnel.
    pub queue_timeout: Option<Duration>,
    /// Connect timeout of the connections that are opened for it; by default
    /// [`Config::connect_timeout`].
    pub connect_timeout: Option<Duration>,
    /// How long one address is tried alone before the next one is; by default
    /// [`Config::attempt_delay`].
    pub attempt_delay: Option<Duration>,
    /// Tries the addresses in a random order instead of that of their lookup.
    pub shuffles_addresses: bool,
    /// Timeout of TLS and of a proxy's tunnel on these; by default [`Config::handshake_timeout`].
    pub handshake_timeout: Option<Duration>,
    /// Connections are used by requests with this name only: for protocols that authenticate a
    /// connection instead of a request.
    pub connection_name: Option<Arc<[u8]>>,
    /// The connection is this tunnel, which [`crate::Client::start_in_tunnel`] has opened; the
    /// client cannot open one by itself ([`crate::Error::NoTunnel`]).
    pub tunnel: Option<OpenedTunnel>,
    /// Uses a connection that has carried no request yet.
    pub fresh_connection: bool,
    /// Waits for a connection that is being opened if it may carry several exchanges. If false,
    /// another connection is opened for each transfer that waits.
    pub awaits_multiplexing: bool,
    /// A connection that has been idle for longer is not used, but closed. In whole seconds.
    pub idle_age_max: Option<Duration>,
    /// A connection that has been open for longer is not used again, but closed. In whole seconds.
    pub lifetime_max: Option<Duration>,
    /// From the request to the first byte of the response.
    pub first_byte_timeout: Option<Duration>,
    /// Between two bytes.
    pub idle_timeout: Option<Duration>,
    /// From start to end, with queue and redirects.
    pub total_timeout: Option<Duration>,
    /// For one exchange, without its time in the queue.
    pub exchange_timeout: Option<Duration>,
    /// The longest body, as delivered.
    pub body_max: Option<u64>,
    /// The transfer fails if it receives fewer bytes per second than this for so long.
    pub lowest_speed: Option<(u64, Duration)>,
    /// The maximum rate of receiving, in bytes per second.
    pub highest_speed: Option<u64>,
    /// How often a request is repeated after 429 or 503 with `Retry-After`.
    pub retries: u8,
    /// TLS options for `https`; `None`: [`fulmar_tls::ClientOptions::default`] with the system's
    /// certificates, which are read when the first request needs them.
    pub tls: Option<ClientTls>,
    /// Keeps the certificates of the peer, for [`crate::Context::certificates`] and
    /// [`crate::Done::certificates`], if a connection is opened for the request.
    pub reports_certificates: bool,
    /// Reports each request that begins on a connection: [`crate::TransferEvent::Connected`].
    pub reports_connection: bool,
    /// The protocols to use. With [`Protocol::Negotiated`], those of the TLS options' ALPN list. A
    /// request with `Upgrade` uses HTTP/1.1, as HTTP/2 has no upgrade.
    pub protocol: Protocol,
    /// Proxies, and hosts that need none; `None`: direct connections only.
    pub proxies: Option<Arc<Settings>>,
    /// Connects to this Unix socket for any host (unix(7)).
    pub unix_socket: Option<PathBuf>,
    /// Connects to the SOCKS proxy over this Unix socket.
    pub proxy_socket: Option<PathBuf>,
    /// Host and port to connect to instead of those of the URL, directly or through a tunnel that
    /// the client opens. Certificates and heads remain those of the URL.
    pub connect_to: Option<(Box<str>, u16)>,
    /// The addresses to connect to, in this order, instead of those of the name: of the host, or of
    /// its proxy. Names, certificates and heads remain those of the URL. Not empty.
    pub addresses: Option<Arc<[SocketAddr]>>,
    /// The addresses of the host, for a SOCKS proxy that gets an address instead of the name: the
    /// name is not resolved. Not empty.
    pub target_addresses: Option<Arc<[IpAddr]>>,
    /// The addresses of a name that are used; `None`: all.
    pub family: Option<IpVersion>,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// The network interface to use.
    pub interface: Option<Box<str>>,
    /// Keep-alive probes.
    pub keep_alive: Option<KeepAlive>,
    /// A header of the PROXY protocol, version 1, with the addresses of the connection, is sent
    /// before TLS and HTTP: to the server, or to a proxy that forwards. A tunnel is opened before.
    pub proxy_header: bool,
    /// Nagle's algorithm delays small packets.
    pub nagle: bool,
    /// TCP Fast Open (RFC 7413), where the system supports it: the first bytes may be sent with
    /// the SYN.
    pub fast_open: bool,
    /// The zone of IPv6 addresses that have none (RFC 4007 §11); 0: the default one.
    pub address_scope: u32,
    /// The deviations from the grammar that are accepted in responses: [`Leniency::lenient`] by
    /// default.
    pub leniency: Leniency,
    /// The rules by which responses of HTTP/1 are read.
    pub profile: ResponseProfile,
    /// With [`ResponseProfile::Libcurl`]: lines that count as status lines, too.
    pub status_aliases: StatusAliases,
    /// A request whose connection was closed, or refused it, before it was processed, is sent again
    /// on another one.
    pub resends: bool,
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
            queue_timeout: None,
            connect_timeout: None,
            attempt_delay: None,
            shuffles_addresses: false,
            handshake_timeout: None,
            connection_name: None,
            tunnel: None,
            fresh_connection: false,
            awaits_multiplexing: true,
            idle_age_max: None,
            lifetime_max: None,
            first_byte_timeout: None,
            idle_timeout: Some(Duration::from_secs(60)),
            total_timeout: None,
            exchange_timeout: None,
            body_max: None,
            lowest_speed: None,
            highest_speed: None,
            retries: 0,
            resends: true,
            tls: None,
            reports_certificates: false,
            reports_connection: false,
            protocol: Protocol::Negotiated,
            proxies: None,
            unix_socket: None,
            proxy_socket: None,
            connect_to: None,
            addresses: None,
            target_addresses: None,
            family: None,
            local: None,
            interface: None,
            keep_alive: None,
            proxy_header: false,
            nagle: false,
            fast_open: false,
            address_scope: 0,
            leniency: Leniency::lenient(),
            profile: ResponseProfile::Grammar,
            status_aliases: StatusAliases::default(),
        }
    }
}

impl Options {
    /// The key of a connection for `target`. `upgrades`: the request asks for another protocol.
    ///
    /// # Errors
    /// The system's certificates cannot be read.
    pub(crate) fn key(&self, target: &RequestUrl, upgrades: bool) -> Result<Key, BuildError> {
        let tls = self.tls(target)?;
        let mut key = Key {
            host: target.host().into(),
            port: target.port(),
            route: Route::Direct,
            connect_to: self.connect_to.clone(),
            protocol: self.protocol(tls.as_ref(), upgrades),
            tls,
            credentials: self.connection_name.clone(),
            addresses: self.addresses.clone().filter(|addresses| !addresses.is_empty()),
            target_addresses: self.target_addresses.clone(),
            family: self.family,
            local: self.local,
            interface: self.interface.clone(),
            keep_alive: self.keep_alive,
            proxy_header: self.proxy_header,
            nagle: self.nagle,
            fast_open: self.fast_open,
            address_scope: self.address_scope,
            leniency: self.leniency,
            profile: self.profile,
            status_aliases: self.status_aliases.clone(),
        };
        if let Some(path) = &self.unix_socket {
            key.route = Route::Unix(path.clone());
            return Ok(key);
        }
        if let Some(tunnel) = &self.tunnel {
            key.route = Route::Opened(tunnel.clone());
            return Ok(key);
        }
        if let Some(proxy) = self.forwarder(target) {
            key.host = host_text(&proxy.host).into();
            key.port = proxy.port;
            key.route = Route::Forward;
        } else if let Some(proxy) = self.proxy(target) {
            let proxy = Arc::new(proxy.clone());
            key.route = match &self.proxy_socket {
                Some(path) => Route::TunnelUnix(path.clone(), proxy),
                None => Route::Tunnel(proxy),
            };
        }
        Ok(key)
    }

    /// The protocols of a connection: one, if nothing is left to negotiate. Over TLS, HTTP/2 is
    /// always negotiated (RFC 9113 §3.3).
    fn protocol(&self, tls: Option<&ClientTls>, upgrades: bool) -> Protocol {
        let offers_http2 = |tls: &ClientTls| tls.options().alpn.iter().any(|name| name == HTTP2);
        match (self.protocol, tls) {
            _ if upgrades => Protocol::Http1,
            (Protocol::Negotiated | Protocol::Http2, Some(tls)) if offers_http2(tls) => {
                Protocol::Negotiated
            }
            (Protocol::Http2, None) => Protocol::Http2,
            (Protocol::Negotiated | Protocol::Http1, _) | (Protocol::Http2, Some(_)) => {
                Protocol::Http1
            }
        }
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

    /// The lowest speed, over a span that is long enough to measure one.
    pub(crate) fn lowest_speed(&self) -> Option<(u64, Duration)> {
        self.lowest_speed.map(|(speed, span)| (speed, span.max(WINDOW_MIN)))
    }

    /// The login for a proxy that forwards. Other proxies receive it when they open the tunnel: in
    /// the request it would reach the server.
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

/// Bytes arrive in bursts: over a shorter time no speed can be measured.
const WINDOW_MIN: Duration = Duration::from_millis(20);

/// A host for name resolution or for connecting, without brackets.
pub(crate) fn host_text(host: &Host<String>) -> String {
    match host {
        Host::Domain(name) => name.clone(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

/// For requests without TLS options: they share sessions to resume.
static USUAL_TLS: LazyLock<Result<ClientTls, ConfigError>> =
    LazyLock::new(|| ClientTls::new(ClientOptions::default()));

/// The limits and timeouts of a client. A limit of 0 counts as 1.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections at a time, with idle ones.
    pub connections_max: usize,
    /// Connections with one key at a time.
    pub per_host_max: usize,
    /// Connections to one host and port at a time, whatever else differs between their keys.
    pub per_authority_max: usize,
    /// Idle connections to keep.
    pub idle_max: usize,
    /// Open connections, in use or not: if there are more when one becomes idle, the one that has
    /// been idle for the longest time is closed.
    pub kept_max: usize,
    /// Exchanges at a time on a connection of HTTP/2, even if the server accepts more.
    pub streams_max: u32,
    /// Timeout of an idle connection.
    pub idle_timeout: Option<Duration>,
    /// Timeout of name resolution.
    pub name_timeout: Option<Duration>,
    /// Connect timeout.
    pub connect_timeout: Option<Duration>,
    /// Timeout of TLS and of a proxy's tunnel.
    pub handshake_timeout: Option<Duration>,
    /// Delay before the next address is tried in parallel (RFC 8305 §5).
    pub attempt_delay: Duration,
    /// Idempotent requests that are sent before the first response, at most
    /// [`fulmar_proto::h1::DEPTH_MAX`]; 1: no pipelining.
    pub pipelining: u32,
    /// Connection coalescing (RFC 9113 §9.1.1): a request uses the HTTP/2 connection of another
    /// host if the certificate has its host, too, and its host resolves to the address of the
    /// connection. The other properties ([`crate::Key`]) must be equal, the certificate must have
    /// been verified for the other host, and no proxy or Unix socket may be used.
    pub coalescing: bool,
    /// The rate of requests to one host; `None`: unlimited.
    pub rate: Option<RateLimit>,
    /// Concurrent requests to one host.
    pub per_host_active: Option<usize>,
    /// The longest `Retry-After` that is honoured; zero: none, and no request waits for it.
    pub retry_after_max: Duration,
    /// Idle connections remain in the application's loop, and have a timer. If false, a loop has
    /// nothing to wait for while no transfer runs ([`fulmar_engine::Action::Watch`]). Then the
    /// application calls `check_unwatched` of its reactor before it starts transfers, and an idle
    /// connection that has exceeded its timeout is closed when it would be used.
    pub watches_idle: bool,
}

impl Config {
    /// The same with limits of at least 1, and no deeper pipeline than a connection supports.
    pub(crate) fn bounded(self) -> Self {
        Self {
            connections_max: self.connections_max.max(1),
            per_host_max: self.per_host_max.max(1),
            per_authority_max: self.per_authority_max.max(1),
            per_host_active: self.per_host_active.map(|active| active.max(1)),
            pipelining: self.pipelining.clamp(1, DEPTH_MAX),
            ..self
        }
    }
}

/// A rate of `requests` in the time `per`, with at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The number of requests.
    pub requests: u32,
    /// In this time.
    pub per: Duration,
    /// How many requests may be sent together after a pause.
    pub burst: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections_max: 16 * 1024,
            per_host_max: usize::MAX,
            per_authority_max: usize::MAX,
            idle_max: 1024,
            kept_max: usize::MAX,
            streams_max: u32::MAX,
            idle_timeout: Some(Duration::from_secs(90)),
            name_timeout: Some(Duration::from_secs(30)),
            connect_timeout: Some(Duration::from_secs(30)),
            handshake_timeout: Some(Duration::from_secs(30)),
            attempt_delay: Duration::from_millis(250),
            pipelining: 1,
            coalescing: true,
            rate: None,
            per_host_active: None,
            retry_after_max: Duration::from_secs(300),
            watches_idle: true,
        }
    }
}
