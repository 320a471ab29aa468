//! `server` lines and their health checks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::bind::TlsVersion;
use super::{BackendId, Position, ServerId};
use crate::rules::Expression;

/// A server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name of the field.
    pub name: String,
    /// Its position.
    pub place: Position,
    /// `id`; default: the number in the backend, from 1.
    pub id: u32,
    /// Its address.
    pub address: ServerAddress,
    /// The address as written, for `show servers state` and messages.
    pub written_address: String,
    /// `weight`: 0 to 256; default: 1.
    pub weight: u32,
    /// `backup`: used when no other is usable.
    pub backup: bool,
    /// `disabled`: in maintenance from the start.
    pub disabled: bool,
    /// `maxconn`: maximum number of concurrent exchanges; 0: unlimited.
    pub connections_max: u32,
    /// `minconn`: the limit at low load.
    pub connections_min: u32,
    /// `maxqueue`: maximum queue length; 0: unlimited.
    pub queue_max: u32,
    /// `cookie`: the value that selects it.
    pub cookie: Option<String>,
    /// `check` and its settings.
    pub check: Option<ServerCheck>,
    /// `track`: the server whose health it adopts. That server has checks of its own or tracks one
    /// that has.
    pub follows: Option<(BackendId, ServerId)>,
    /// `observe`.
    pub observe: Option<Observe>,
    /// `on-error`, after `error-limit` errors.
    pub on_error: OnError,
    /// `error-limit`.
    pub error_limit: u32,
    /// `on-marked-down shutdown-sessions`.
    pub shutdown_when_down: bool,
    /// `on-marked-up shutdown-backup-sessions`.
    pub shutdown_backups_when_up: bool,
    /// `slowstart`: the time until full weight.
    pub slow_start: Option<Duration>,
    /// `send-proxy`, `send-proxy-v2` and so on.
    pub send_proxy: ServerProxy,
    /// `ssl`.
    pub tls: Option<ServerTlsConfig>,
    /// `source`.
    pub source: Option<SocketAddr>,
    /// `source ... interface`.
    pub interface: Option<String>,
    /// `pool-max-conn`: maximum number of idle connections; `None`: unlimited.
    pub idle_max: Option<usize>,
    /// `pool-purge-delay`: idle timeout; default: 5 s.
    pub idle_timeout: Duration,
    /// `max-reuse`: maximum number of further exchanges per connection.
    pub reuse_max: Option<u32>,
    /// `tcp-ut`.
    pub user_timeout: Option<Duration>,
    /// `redir`: GET and HEAD requests are redirected to this prefix.
    pub redirect_prefix: Option<String>,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A name in the abstract namespace.
    Abstract(String),
    /// `addr` or `addr:+N`: the port of the client's connection, plus an offset. An unspecified
    /// address means the client's destination address.
    Mapped {
        /// 0.0.0.0 or `::`: the client's destination address.
        address: std::net::IpAddr,
        /// Added to the client's destination port.
        offset: i32,
    },
    /// A name that could not be resolved at the start, with `init-addr none`: never usable.
    Unresolved(String),
}

/// How a host name is resolved, at the start only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolve {
    /// `init-addr libc`: an unknown name is an error.
    #[default]
    Libc,
    /// `init-addr none`: the server is down if the name is unknown.
    None,
}

/// Check settings of a server.
#[derive(Clone, Debug)]
pub struct ServerCheck {
    /// `inter`; default: 2 s.
    pub interval: Duration,
    /// `fastinter`: during a transition between up and down; default: `interval`.
    pub fast_interval: Option<Duration>,
    /// `downinter`: while down; default: `interval`.
    pub down_interval: Option<Duration>,
    /// `rise`: successful checks until it is up; default: 2.
    pub rise: u32,
    /// `fall`: failed checks until it is down; default: 3.
    pub fall: u32,
    /// `port`: another port for checks.
    pub port: Option<u16>,
    /// `addr`: another address for checks.
    pub address: Option<std::net::IpAddr>,
    /// `check-ssl`; default: as the server.
    pub tls: bool,
    /// `check-send-proxy`; default: as the server.
    pub send_proxy: bool,
    /// `check-sni`.
    pub sni: Option<String>,
}

/// The health check of a backend's servers.
#[derive(Clone, Debug, Default)]
pub struct HealthCheck {
    /// The kind of check.
    pub kind: CheckKind,
}

/// What a check does after connecting.
#[derive(Clone, Debug, Default)]
pub enum CheckKind {
    /// Nothing: a successful connection is enough.
    #[default]
    Connect,
    /// `option httpchk`, `http-check`.
    Http {
        /// Requests in order, each with its expected response.
        steps: Vec<CheckRequest>,
    },
    /// `option smtpchk` and so on.
    Protocol(CheckProtocol),
    /// `option tcp-check`: data to send and to expect, in order.
    Tcp {
        /// Steps.
        steps: Vec<TcpStep>,
    },
}

/// A protocol of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckProtocol {
    /// `option smtpchk`.
    Smtp {
        /// The command; default: `HELO localhost`.
        hello: String,
    },
    /// `option redis-check`.
    Redis,
    /// `option pgsql-check`.
    PostgreSql {
        /// The user; no password is sent.
        user: String,
    },
    /// `option mysql-check`.
    MySql {
        /// Without a login, the greeting is enough.
        login: Option<MySqlLogin>,
    },
    /// `option ldap-check`.
    Ldap,
    /// `option ssl-hello-chk`.
    SslHello,
}

/// A login without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MySqlLogin {
    /// The name.
    pub user: String,
    /// Uses the protocol before version 4.1.
    pub is_old: bool,
}

/// A request of a check, and its expected response.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The method; default: OPTIONS.
    pub method: String,
    /// The target; default: `/`.
    pub target: String,
    /// True for HTTP/1.1: adds Host and `Connection: close`.
    pub http11: bool,
    /// Its fields.
    pub fields: Vec<(String, crate::rules::FormatString)>,
    /// Its body.
    pub body: Vec<u8>,
    /// All must match; empty: status 200 to 399.
    pub expects: Vec<CheckExpect>,
}

/// An expectation on a check's response.
#[derive(Clone, Debug)]
pub struct CheckExpect {
    /// `!`: must not match.
    pub negated: bool,
    /// The expectation.
    pub what: Expectation,
}

/// See [`CheckExpect`].
#[derive(Clone, Debug)]
pub enum Expectation {
    /// The status is in one of these ranges.
    Status(Vec<(u16, u16)>),
    /// The status matches this pattern.
    StatusPattern(regex::bytes::Regex),
    /// The body contains this.
    Text(Vec<u8>),
    /// The body matches this pattern.
    Pattern(regex::bytes::Regex),
    /// The field exists, with this value if one is given.
    Field {
        /// The name of the field.
        name: String,
        /// Its value.
        value: Option<String>,
    },
}

/// A step of `tcp-check`.
#[derive(Clone, Debug)]
pub enum TcpStep {
    /// `connect`, optionally to another port.
    Connect {
        /// The port.
        port: Option<u16>,
        /// With TLS.
        tls: bool,
    },
    /// `send`, `send-binary`.
    Send(Vec<u8>),
    /// `expect string`, `expect binary`.
    Expect {
        /// The data must not arrive.
        negated: bool,
        /// The value.
        bytes: Vec<u8>,
    },
    /// `expect rstring`.
    ExpectPattern {
        /// The data must not arrive.
        negated: bool,
        /// The value.
        pattern: regex::bytes::Regex,
    },
}

/// Observed traffic: its errors count as failed checks (`observe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// Failed connections.
    Layer4,
    /// Failed connections and error responses.
    Layer7,
}

/// The action on too many errors (`on-error`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Use the fast check interval.
    FastInter,
    /// Count as a failed check.
    #[default]
    FailCheck,
    /// The next failed check marks it down.
    SuddenDeath,
    /// Mark it down.
    MarkDown,
}

/// The PROXY header sent to a server (PROXY protocol, §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerProxy {
    /// None.
    #[default]
    None,
    /// Version 1.
    V1,
    /// Version 2.
    V2 {
        /// `send-proxy-v2-ssl`: with the client's TLS information.
        tls: bool,
        /// `send-proxy-v2-ssl-cn`: with the common name of the client's certificate.
        common_name: bool,
    },
}

/// TLS to a server.
#[derive(Clone, Debug, Default)]
pub struct ServerTlsConfig {
    /// `verify required`; otherwise the certificate is not verified.
    pub verify: bool,
    /// `ca-file`; `None` with `verify` is `@system-ca`.
    pub ca_file: Option<PathBuf>,
    /// `verifyhost`: the required name in the certificate.
    pub verify_host: Option<String>,
    /// `sni`.
    pub sni: Option<Expression>,
    /// `alpn`.
    pub alpn: Vec<String>,
    /// `crt`: the client certificate.
    pub certificate: Option<PathBuf>,
    /// `ssl-min-ver`.
    pub version_min: Option<TlsVersion>,
    /// `ssl-max-ver`.
    pub version_max: Option<TlsVersion>,
    /// `no-ssl-reuse`: no session resumption.
    pub always_anew: bool,
    /// `crl-file`: revoked certificates.
    pub crl_file: Option<PathBuf>,
    /// `ciphers` and `ciphersuites` that rustls supports, with its names; empty: the defaults of
    /// rustls.
    pub suites: Vec<String>,
}

/// Which idle connections an exchange may use (`http-reuse`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReuseMode {
    /// Only those of the same client.
    Never,
    /// All, but the first request of a client only if it can be retried.
    #[default]
    Safe,
    /// All, but the first request of a client only on connections that have been reused before.
    Aggressive,
    /// Any.
    Always,
}

/// When a failed request is retried (`retry-on`). A request that may have been processed is never
/// retried, unless its method is idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    /// `conn-failure`.
    pub connection_failure: bool,
    /// `empty-response`.
    pub empty_response: bool,
    /// `junk-response`.
    pub junk_response: bool,
    /// `response-timeout`.
    pub response_timeout: bool,
    /// Response status codes. `0rtt-rejected` is ignored.
    pub statuses: Vec<u16>,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self {
            connection_failure: true,
            empty_response: false,
            junk_response: false,
            response_timeout: false,
            statuses: Vec::new(),
        }
    }
}
