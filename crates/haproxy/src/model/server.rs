//! A `server` line, and how its health is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::bind::TlsVersion;
use super::{BackendId, Place, ServerId};
use crate::rules::Expression;

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// `id`, or its number within the backend, from 1.
    pub id: u32,
    /// Where it is.
    pub address: ServerAddress,
    /// What was written, for `show servers state` and messages.
    pub written_address: String,
    /// `weight`: 0 to 256; 1 if it is not said.
    pub weight: u32,
    /// `backup`: used when no other is usable.
    pub backup: bool,
    /// `disabled`: in maintenance from the start.
    pub disabled: bool,
    /// `maxconn`: exchanges at a time; 0 is no limit.
    pub connections_max: u32,
    /// `minconn`: the limit while there is little load.
    pub connections_min: u32,
    /// `maxqueue`: how many may wait for it; 0 is no limit.
    pub queue_max: u32,
    /// `cookie`: the value that leads to it.
    pub cookie: Option<String>,
    /// `check` and its settings; the same for all who do not say otherwise (`default-server`).
    pub check: Option<ServerCheck>,
    /// `track`: the server whose health it has, which has checks of its own, or follows one that
    /// has.
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
    /// `slowstart`: full weight is reached after so long.
    pub slow_start: Option<Duration>,
    /// `send-proxy`, `send-proxy-v2` and their relatives.
    pub send_proxy: ServerProxy,
    /// `ssl`.
    pub tls: Option<ServerTls>,
    /// `source`.
    pub source: Option<SocketAddr>,
    /// `source ... interface`.
    pub interface: Option<String>,
    /// `pool-max-conn`: idle connections that are kept; `None`: no limit of its own.
    pub idle_max: Option<usize>,
    /// `pool-purge-delay`: idle for so long; 5 s.
    pub idle_timeout: Duration,
    /// `max-reuse`: exchanges on one connection after the first.
    pub reuse_max: Option<u32>,
    /// `tcp-ut`.
    pub user_timeout: Option<Duration>,
    /// `redir`: GET and HEAD requests are sent there instead.
    pub redirect_prefix: Option<String>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A name in the abstract namespace.
    Abstract(String),
    /// The port, or its distance from it, of the client's connection: `addr`, `addr:+N`. The
    /// address may be unspecified: then it is the client's destination.
    Mapped {
        /// 0.0.0.0 or `::`: where the client connected to.
        address: std::net::IpAddr,
        /// Added to the port that the client connected to.
        offset: i32,
    },
    /// A name that could not be resolved at the start, with `init-addr none`: never usable.
    Unresolved(String),
}

/// How a name in the text becomes an address: at the start only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolve {
    /// `init-addr libc`: the configuration is wrong if there is none.
    #[default]
    Libc,
    /// `init-addr none`: the server is down then.
    None,
}

/// A server's own settings of its check.
#[derive(Clone, Debug)]
pub struct ServerCheck {
    /// `inter`: 2 s.
    pub interval: Duration,
    /// `fastinter`: while it is neither up nor down for good; `interval` if not said.
    pub fast_interval: Option<Duration>,
    /// `downinter`: while it is down; `interval` if not said.
    pub down_interval: Option<Duration>,
    /// `rise`: good checks until it is up; 2.
    pub rise: u32,
    /// `fall`: bad checks until it is down; 3.
    pub fall: u32,
    /// `port`: another one for checks.
    pub port: Option<u16>,
    /// `addr`: another address for checks.
    pub address: Option<std::net::IpAddr>,
    /// `check-ssl`, or as the server if nothing is said: with TLS.
    pub tls: bool,
    /// `check-send-proxy`, or as the server.
    pub send_proxy: bool,
    /// `check-sni`.
    pub sni: Option<String>,
}

/// How servers of a backend are checked.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// What is done.
    pub kind: CheckKind,
}

/// What a check does once its connection stands.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum CheckKind {
    /// Nothing: that it stands is enough.
    #[default]
    Connect,
    /// `option httpchk`, `http-check`.
    Http {
        /// Requests, one after the other, each with what is expected.
        steps: Vec<CheckRequest>,
    },
    /// `option smtpchk` and its like.
    Protocol(CheckProtocol),
    /// `option tcp-check`: bytes sent, and bytes expected, in order.
    Tcp {
        /// Steps.
        steps: Vec<TcpStep>,
    },
}

/// A protocol that checks speak a little of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckProtocol {
    /// `option smtpchk`.
    Smtp {
        /// `HELO localhost`, or what is said instead.
        hello: String,
    },
    /// `option redis-check`.
    Redis,
    /// `option pgsql-check`.
    PostgreSql {
        /// Who logs in; no password is sent.
        user: String,
    },
    /// `option mysql-check`.
    MySql {
        /// If nobody logs in, the greeting is enough.
        login: Option<MySqlLogin>,
    },
    /// `option ldap-check`.
    Ldap,
    /// `option ssl-hello-chk`.
    SslHello,
}

/// Who logs in, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MySqlLogin {
    /// The name.
    pub user: String,
    /// As before version 4.1.
    pub is_old: bool,
}

/// A request of a check, and what is expected.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The method: OPTIONS.
    pub method: String,
    /// The target: `/`.
    pub target: String,
    /// True if HTTP/1.1 was asked for: then there is a Host, and the connection is closed by a
    /// field.
    pub http11: bool,
    /// Its fields.
    pub fields: Vec<(String, crate::rules::Format)>,
    /// Its body.
    pub body: Vec<u8>,
    /// All have to be met; none: a status of 200 to 399.
    pub expects: Vec<Expect>,
}

/// What an answer to a check has to be.
#[derive(Clone, Debug)]
pub struct Expect {
    /// `!`: it must not be so.
    pub negated: bool,
    /// What.
    pub what: Expected,
}

/// See [`Expect`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Expected {
    /// One of these ranges.
    Status(Vec<(u16, u16)>),
    /// Matches the status.
    StatusPattern(regex::bytes::Regex),
    /// Is in the body.
    Text(Vec<u8>),
    /// Matches the body.
    Pattern(regex::bytes::Regex),
    /// A field with this name, and the value if there is one.
    Field {
        /// Its name.
        name: String,
        /// Its value.
        value: Option<String>,
    },
}

/// A step of `tcp-check`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TcpStep {
    /// `connect`, to another port if one is said.
    Connect {
        /// See above.
        port: Option<u16>,
        /// With TLS.
        tls: bool,
    },
    /// `send`, `send-binary`.
    Send(Vec<u8>),
    /// `expect string`, `expect binary`.
    Expect {
        /// It must not come.
        negated: bool,
        /// What.
        bytes: Vec<u8>,
    },
    /// `expect rstring`.
    ExpectPattern {
        /// It must not come.
        negated: bool,
        /// What.
        pattern: regex::bytes::Regex,
    },
}

/// Whose failures count beside those of checks (`observe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// Connections that fail.
    Layer4,
    /// Answers that are errors, too.
    Layer7,
}

/// What too many errors do (`on-error`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Checks come faster.
    FastInter,
    /// It counts as a failed check.
    #[default]
    FailCheck,
    /// The next failed check marks it down.
    SuddenDeath,
    /// It is down at once.
    MarkDown,
}

/// Which PROXY header a server is sent (PROXY protocol, §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerProxy {
    /// None.
    #[default]
    None,
    /// Version 1.
    V1,
    /// Version 2.
    V2 {
        /// `send-proxy-v2-ssl`: with what is known of the client's TLS.
        tls: bool,
        /// `send-proxy-v2-ssl-cn`: and the name in its certificate.
        common_name: bool,
    },
}

/// TLS toward a server.
#[derive(Clone, Debug, Default)]
pub struct ServerTls {
    /// `verify required`, by `ca-file`; otherwise nobody is asked.
    pub verify: bool,
    /// `ca-file`; `@system-ca` is `None` with `verify`.
    pub ca_file: Option<PathBuf>,
    /// `verifyhost`: the name in its certificate.
    pub verify_host: Option<String>,
    /// `sni`.
    pub sni: Option<Expression>,
    /// `alpn`.
    pub alpn: Vec<String>,
    /// `crt`: our own certificate.
    pub certificate: Option<PathBuf>,
    /// `ssl-min-ver`.
    pub version_min: Option<TlsVersion>,
    /// `ssl-max-ver`.
    pub version_max: Option<TlsVersion>,
    /// `no-ssl-reuse`: every handshake is a full one.
    pub always_anew: bool,
    /// `crl-file`: certificates that have been revoked.
    pub crl_file: Option<PathBuf>,
    /// `ciphers` and `ciphersuites`, as rustls names what is left of them; empty: its defaults.
    pub suites: Vec<String>,
}

/// Which connections of a server an exchange may go over (`http-reuse`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Its client's own only.
    Never,
    /// Any that has proven itself, but the first request of a client only goes where it can be
    /// sent again.
    #[default]
    Safe,
    /// The first request too, over connections that have been reused before.
    Aggressive,
    /// Any.
    Always,
}

/// When a request that failed is sent again (`retry-on`). What may have been executed never is,
/// unless its method is idempotent.
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
    /// `0rtt-rejected` means nothing here. Statuses of responses.
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
