//! A backend: servers, and how one of them is chosen.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::frontend::{ErrorResponses, LogTarget, StatsPage};
use super::options::Options;
use super::server::{Check, RetryOn, Reuse, Server};
use super::{Mode, Place, ServerId};
use crate::rules::http::HttpRule;
use crate::rules::tcp::TcpRule;
use crate::rules::{Condition, Expression};

/// Servers, and how one of them is chosen.
#[derive(Clone, Debug, Default)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: Option<Place>,
    /// `id`, or its number among all proxies, from 2.
    pub id: u32,
    /// True for one half of a `listen` section.
    pub is_listen: bool,
    /// `disabled`.
    pub disabled: bool,
    /// `description`.
    pub description: Option<String>,
    /// `mode`.
    pub mode: Mode,
    /// In the order of the text.
    pub servers: Vec<Arc<Server>>,
    /// `balance`.
    pub algorithm: Algorithm,
    /// `hash-type`.
    pub hash: HashKind,
    /// `fullconn`: where dynamic limits (`minconn`) reach `maxconn`.
    pub full_connections: Option<usize>,
    /// `timeout server` and its relatives.
    pub timeouts: BackendTimeouts,
    /// `option` lines.
    pub options: Options,
    /// `tcp-request content`, of a backend.
    pub content_rules: Vec<TcpRule>,
    /// `tcp-request inspect-delay`.
    pub inspect_delay: Option<Duration>,
    /// `tcp-response content`.
    pub response_content_rules: Vec<TcpRule>,
    /// `tcp-response inspect-delay`.
    pub response_inspect_delay: Option<Duration>,
    /// `http-request`. Those of a `listen` section are its frontend's.
    pub request_rules: Vec<HttpRule>,
    /// `http-response`. Those of a `listen` section are its frontend's.
    pub response_rules: Vec<HttpRule>,
    /// `http-after-response`. Those of a `listen` section are its frontend's.
    pub after_response_rules: Vec<HttpRule>,
    /// `use-server`, in order.
    pub use_servers: Vec<(ServerId, Condition)>,
    /// `force-persist`, `ignore-persist`.
    pub ignore_persist: Vec<Condition>,
    /// `cookie`.
    pub cookie: Option<CookieInsert>,
    /// `stick-table` and `stick on` are not there; `source` hashing is.
    pub stick: Option<Stick>,
    /// `load-server-state-from-file`: where the states are that servers begin with.
    pub states: Option<StateSource>,
    /// `http-reuse`.
    pub reuse: Reuse,
    /// `retries`: attempts after the first.
    pub retries: u32,
    /// `retry-on`.
    pub retry_on: RetryOn,
    /// How servers with `check` are checked.
    pub check: Check,
    /// `log` lines.
    pub logs: Vec<LogTarget>,
    /// `option log-health-checks`.
    pub log_health_checks: bool,
    /// `option allbackups`.
    pub all_backups: bool,
    /// `dispatch`, `option http_proxy`, `option transparent` are not there. `option
    /// disable-on-404`: a check answered 404 takes a server out of the rotation.
    pub disable_on_404: bool,
    /// `errorfile`, `http-error` and their like.
    pub errors: ErrorResponses,
    /// `stats` lines.
    pub stats: Option<Arc<StatsPage>>,
    /// `source`: the address that connections come from, unless a server says otherwise.
    pub source: Option<std::net::SocketAddr>,
    /// And the network interface that they leave by.
    pub interface: Option<String>,
}

/// Where the states of a backend's servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateSource {
    /// In the file of all backends ([`super::Global::state_file`]).
    Global,
    /// In this one.
    Local(PathBuf),
}

/// Stick tables are rarer, and not there yet; no value of this type exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stick {}

/// Deadlines of the server's side; `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendTimeouts {
    /// `timeout connect`.
    pub connect: Option<Duration>,
    /// `timeout server`: a server is silent, or does not take what it is sent.
    pub server: Option<Duration>,
    /// `timeout server-fin`: after one side has ended.
    pub server_fin: Option<Duration>,
    /// `timeout queue`; `connect` if not said.
    pub queue: Option<Duration>,
    /// `timeout tunnel`: once an upgrade was agreed on, or in mode tcp once the server's connection
    /// stands; then it counts in place of `client` and `server`.
    pub tunnel: Option<Duration>,
    /// `timeout check`: reading an answer to a check.
    pub check: Option<Duration>,
    /// `timeout http-request`, where only the backend says it.
    pub http_request: Option<Duration>,
    /// `timeout tarpit`.
    pub tarpit: Option<Duration>,
}

/// How a server is chosen (`balance`).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// In turn, as often as their weights say, and smoothly.
    #[default]
    RoundRobin,
    /// The same with weights that are fixed.
    StaticRoundRobin,
    /// Who has the fewest connections for its weight.
    LeastConnections,
    /// The first that has a free place.
    First,
    /// By the client's address.
    Source,
    /// By the path, or the part of it that is asked for.
    Uri {
        /// `whole`: with the query.
        whole: bool,
        /// `len`: so many bytes of it.
        len: Option<usize>,
        /// `depth`: so many directories of it.
        depth: Option<usize>,
        /// `path-only`: without scheme and authority.
        path_only: bool,
    },
    /// By a parameter of the query (`url_param`).
    UrlParameter(String),
    /// By a field of the request. `use_domain_only` hashes `example` of `www.example.com`.
    Field {
        /// Its name.
        name: String,
        /// See above.
        domain_only: bool,
    },
    /// By any expression (`hash`).
    Hash(Expression),
    /// `random(draws)`: the less loaded of so many drawn.
    Random {
        /// 2 if it is not said.
        draws: u32,
    },
}

impl Algorithm {
    /// It looks into requests.
    pub fn needs_http(&self) -> bool {
        matches!(self, Self::Uri { .. } | Self::UrlParameter(_) | Self::Field { .. })
    }
}

/// How a hash leads to a server (`hash-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKind {
    /// `consistent`: most keys stay where they are when a server comes or goes.
    pub consistent: bool,
    /// The function.
    pub function: HashFunction,
    /// `avalanche`.
    pub avalanche: bool,
    /// `hash-balance-factor`: percent of the mean load that a server may have; 0: no bound.
    pub balance_factor: u32,
}

/// A hash function that HAProxy knows.
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

/// `cookie`: a client comes back to its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieInsert {
    /// Its name.
    pub name: String,
    /// Who sets it.
    pub how: CookieMode,
    /// `indirect`: the server does not see it, and it is not set again.
    pub indirect: bool,
    /// `nocache`: `Cache-Control: private` goes with it.
    pub no_cache: bool,
    /// `postonly`.
    pub post_only: bool,
    /// `preserve`: a server that sets or deletes it itself has its way.
    pub preserve: bool,
    /// `httponly`.
    pub http_only: bool,
    /// `secure`.
    pub secure: bool,
    /// `domain`, each of them.
    pub domains: Vec<String>,
    /// `maxidle`.
    pub idle_max: Option<Duration>,
    /// `maxlife`.
    pub life_max: Option<Duration>,
    /// `dynamic`: values come from the address of the server and this key (`dynamic-cookie-key`).
    pub dynamic_key: Option<String>,
    /// `attr`, each of them.
    pub attributes: Vec<String>,
}

/// Who sets the cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieMode {
    /// Nobody: the server's own is looked at.
    #[default]
    Passive,
    /// We do.
    Insert,
    /// The server does, and we put our value in its place.
    Rewrite,
    /// The server does, and we put our value in front of it.
    Prefix,
}
