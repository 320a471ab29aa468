//! Backends: servers and load balancing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::frontend::{ErrorResponses, LogTarget, StatsPage};
use super::options::ProxyOptions;
use super::server::{HealthCheck, RetryOn, ReuseMode, ServerConfig};
use super::{Mode, Position, ServerId};
use crate::rules::http::HttpRule;
use crate::rules::tcp::TcpRule;
use crate::rules::{Condition, Expression};

/// Servers and load balancing.
#[derive(Clone, Debug, Default)]
pub struct BackendConfig {
    /// The name of the field.
    pub name: String,
    /// Its position.
    pub place: Option<Position>,
    /// `id`, or its number among all proxies, from 2.
    pub id: u32,
    /// True for the backend of a `listen` section.
    pub is_listen: bool,
    /// `disabled`.
    pub disabled: bool,
    /// `description`.
    pub description: Option<String>,
    /// `mode`.
    pub mode: Mode,
    /// In the order of the configuration.
    pub servers: Vec<Arc<ServerConfig>>,
    /// `balance`.
    pub algorithm: BalanceAlgorithm,
    /// `hash-type`.
    pub hash: HashKind,
    /// `fullconn`: the number of connections at which dynamic limits (`minconn`) reach `maxconn`.
    pub full_connections: Option<usize>,
    /// `timeout server` and so on.
    pub timeouts: BackendTimeouts,
    /// `option` lines.
    pub options: ProxyOptions,
    /// `tcp-request content`, of a backend.
    pub content_rules: Vec<TcpRule>,
    /// `tcp-request inspect-delay`.
    pub inspect_delay: Option<Duration>,
    /// `tcp-response content`.
    pub response_content_rules: Vec<TcpRule>,
    /// `tcp-response inspect-delay`.
    pub response_inspect_delay: Option<Duration>,
    /// `http-request`. Those of a `listen` section are in its frontend.
    pub request_rules: Vec<HttpRule>,
    /// `http-response`. Those of a `listen` section are in its frontend.
    pub response_rules: Vec<HttpRule>,
    /// `http-after-response`. Those of a `listen` section are in its frontend.
    pub after_response_rules: Vec<HttpRule>,
    /// `use-server`, in order.
    pub use_servers: Vec<(ServerId, Condition)>,
    /// `force-persist`, `ignore-persist`.
    pub ignore_persist: Vec<Condition>,
    /// `cookie`.
    pub cookie: Option<CookieInsert>,
    /// `stick-table` and `stick on` are not supported.
    pub stick: Option<Stick>,
    /// `load-server-state-from-file`: the source of the servers' initial states.
    pub states: Option<StateSource>,
    /// `http-reuse`.
    pub reuse: ReuseMode,
    /// `retries`: attempts after the first.
    pub retries: u32,
    /// `retry-on`.
    pub retry_on: RetryOn,
    /// The kind of health check.
    pub check: HealthCheck,
    /// `log` lines.
    pub logs: Vec<LogTarget>,
    /// `option log-health-checks`.
    pub log_health_checks: bool,
    /// `option allbackups`.
    pub all_backups: bool,
    /// `option disable-on-404`: the response 404 to a check takes a server out of load balancing.
    /// `dispatch`, `option http_proxy` and `option transparent` are not supported.
    pub disable_on_404: bool,
    /// `errorfile`, `http-error` and so on.
    pub errors: ErrorResponses,
    /// `stats` lines.
    pub stats: Option<Arc<StatsPage>>,
    /// `source`: the default source address of connections to servers.
    pub source: Option<std::net::SocketAddr>,
    /// `source`: the network interface of these connections.
    pub interface: Option<String>,
}

/// Source of server states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateSource {
    /// The file of all backends ([`super::Global::state_file`]).
    Global,
    /// This file.
    Local(PathBuf),
}

/// Stick tables are not supported; no value of this type exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stick {}

/// Timeouts on the server side; `None` is no timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendTimeouts {
    /// `timeout connect`.
    pub connect: Option<Duration>,
    /// `timeout server`: inactivity of the server while receiving or sending.
    pub server: Option<Duration>,
    /// `timeout server-fin`: inactivity after one side has closed.
    pub server_fin: Option<Duration>,
    /// `timeout queue`; default: `connect`.
    pub queue: Option<Duration>,
    /// `timeout tunnel`: inactivity after an upgrade, or in mode tcp after the server is connected.
    /// It then replaces `client` and `server`.
    pub tunnel: Option<Duration>,
    /// `timeout check`: reading the response to a check.
    pub check: Option<Duration>,
    /// `timeout http-request`, if only the backend sets it.
    pub http_request: Option<Duration>,
    /// `timeout tarpit`.
    pub tarpit: Option<Duration>,
}

/// Load balancing algorithm (`balance`).
#[derive(Clone, Debug, Default)]
pub enum BalanceAlgorithm {
    /// Round robin by weight, smooth.
    #[default]
    RoundRobin,
    /// Round robin with fixed weights.
    StaticRoundRobin,
    /// The server with the fewest connections relative to its weight.
    LeastConnections,
    /// The first server with a free slot.
    First,
    /// Hash of the client's address.
    Source,
    /// Hash of the path or a part of it.
    Uri {
        /// `whole`: including the query.
        whole: bool,
        /// `len`: only this many bytes.
        len: Option<usize>,
        /// `depth`: only this many directories.
        depth: Option<usize>,
        /// `path-only`: without scheme and authority.
        path_only: bool,
    },
    /// Hash of a query parameter (`url_param`).
    UrlParameter(String),
    /// Hash of a header field. `use_domain_only` hashes `example` of `www.example.com`.
    Field {
        /// The name of the field.
        name: String,
        /// `use_domain_only`.
        domain_only: bool,
    },
    /// Hash of an expression (`hash`).
    Hash(Expression),
    /// `random(draws)`: the least loaded of several random servers.
    Random {
        /// Default: 2.
        draws: u32,
    },
}

impl BalanceAlgorithm {
    /// True if it depends on requests.
    pub(crate) fn needs_http(&self) -> bool {
        matches!(self, Self::Uri { .. } | Self::UrlParameter(_) | Self::Field { .. })
    }
}

/// Mapping from hashes to servers (`hash-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKind {
    /// `consistent`: most keys keep their server when a server is added or removed.
    pub consistent: bool,
    /// The hash function.
    pub function: HashFunction,
    /// `avalanche`.
    pub avalanche: bool,
    /// `hash-balance-factor`: maximum load of a server in percent of the mean; 0: unlimited.
    pub balance_factor: u32,
}

/// A hash function of HAProxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFunction {
    /// `sdbm`.
    #[default]
    Sdbm,
    /// `djb2`.
    Djb2,
    /// `wt6`.
    Wt6,
    /// `crc32`.
    Crc32,
}

/// `cookie`: persistence by cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieInsert {
    /// The name of the field.
    pub name: String,
    /// How the cookie is set.
    pub how: CookieMode,
    /// `indirect`: the cookie is removed from requests, and not set again if it is valid.
    pub indirect: bool,
    /// `nocache`: adds `Cache-Control: private`.
    pub no_cache: bool,
    /// `postonly`.
    pub post_only: bool,
    /// `preserve`: a cookie that the server sets or deletes is kept.
    pub preserve: bool,
    /// `httponly`.
    pub http_only: bool,
    /// `secure`.
    pub secure: bool,
    /// `domain`, repeatable.
    pub domains: Vec<String>,
    /// `maxidle`.
    pub idle_max: Option<Duration>,
    /// `maxlife`.
    pub life_max: Option<Duration>,
    /// `dynamic`: the value is derived from the server's address and this key
    /// (`dynamic-cookie-key`).
    pub dynamic_key: Option<String>,
    /// `attr`, repeatable.
    pub attributes: Vec<String>,
}

/// How the cookie is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieMode {
    /// Not set: the server's own cookie is used.
    #[default]
    Passive,
    /// Set by the proxy.
    Insert,
    /// Set by the server; the proxy replaces the value.
    Rewrite,
    /// Set by the server; the proxy prepends its value.
    Prefix,
}
