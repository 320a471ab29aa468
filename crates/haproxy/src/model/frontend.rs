//! Frontends: listeners and their rules.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::bind::Bind;
use super::options::ProxyOptions;
use super::{BackendId, Mode, Position};
use crate::rules::http::HttpRule;
use crate::rules::reply::ErrorPages;
use crate::rules::tcp::TcpRule;
use crate::rules::{Condition, FormatString};

/// Listeners and their rules.
#[derive(Clone, Debug, Default)]
pub struct FrontendConfig {
    /// The name of the field.
    pub name: String,
    /// Its position.
    pub place: Option<Position>,
    /// `id`, or its number among all proxies, from 2.
    pub id: u32,
    /// True for the frontend of a `listen` section.
    pub is_listen: bool,
    /// `disabled`.
    pub disabled: bool,
    /// `description`.
    pub description: Option<String>,
    /// `mode`.
    pub mode: Mode,
    /// The listen addresses.
    pub binds: Vec<Bind>,
    /// `maxconn`.
    pub connections_max: Option<usize>,
    /// `backlog`.
    pub backlog: Option<u16>,
    /// `rate-limit sessions`.
    pub sessions_per_second_max: Option<u32>,
    /// `timeout client` and so on.
    pub timeouts: FrontendTimeouts,
    /// `option` lines.
    pub options: ProxyOptions,
    /// `tcp-request connection`: before any data is read.
    pub connection_rules: Vec<TcpRule>,
    /// `tcp-request session`: after the PROXY header and the TLS handshake.
    pub session_rules: Vec<TcpRule>,
    /// `tcp-request content`.
    pub content_rules: Vec<TcpRule>,
    /// `tcp-request inspect-delay`.
    pub inspect_delay: Option<Duration>,
    /// `http-request`, including `redirect`.
    pub request_rules: Vec<HttpRule>,
    /// `http-response`.
    pub response_rules: Vec<HttpRule>,
    /// `http-after-response`.
    pub after_response_rules: Vec<HttpRule>,
    /// `use_backend`, in order.
    pub use_backends: Vec<UseBackend>,
    /// `default_backend`; for a `listen` section its own backend.
    pub default_backend: Option<BackendId>,
    /// `monitor-uri`: the proxy responds with 200, or 503 if `monitor fail` applies.
    pub monitor_uri: Option<String>,
    /// `monitor fail`.
    pub monitor_fails: Vec<Condition>,
    /// `log` lines, including those of `global` for `log global`.
    pub logs: Vec<LogTarget>,
    /// The log format, from `log-format`, `option httplog`, `tcplog` or the default.
    pub log_format: Arc<FormatString>,
    /// `error-log-format`.
    pub error_log_format: Option<Arc<FormatString>>,
    /// Which events are logged, and when.
    pub log_options: LogOptions,
    /// `log-tag`.
    pub log_tag: Option<String>,
    /// `unique-id-format` and `unique-id-header`.
    pub unique_id: Option<(Arc<FormatString>, Option<String>)>,
    /// `capture request header`.
    pub request_captures: Vec<HeaderCapture>,
    /// `capture response header`.
    pub response_captures: Vec<HeaderCapture>,
    /// `capture cookie`: its name or prefix, and the maximum length.
    pub cookie_capture: Option<(String, usize)>,
    /// `errorfile`, `http-error` and so on.
    pub errors: ErrorResponses,
    /// `stats` lines.
    pub stats: Option<Arc<StatsPage>>,
}

/// Timeouts on the client side; `None` is no timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontendTimeouts {
    /// `timeout client`: inactivity of the client while receiving or sending.
    pub client: Option<Duration>,
    /// `timeout client-fin`: inactivity after one side has closed.
    pub client_fin: Option<Duration>,
    /// `timeout http-request`: from the first byte to the complete header; default: `client`.
    pub http_request: Option<Duration>,
    /// `timeout http-keep-alive`: waiting for the next request; default: `http_request`.
    pub http_keep_alive: Option<Duration>,
    /// `timeout tarpit`; default: `connect`.
    pub tarpit: Option<Duration>,
}

/// `use_backend`.
#[derive(Clone, Debug)]
pub struct UseBackend {
    /// The backend.
    pub target: BackendTarget,
    /// The condition; `None`: always.
    pub condition: Option<Condition>,
}

/// A backend, by number or by computed name.
#[derive(Clone, Debug)]
pub enum BackendTarget {
    /// This backend.
    Backend(BackendId),
    /// The backend with this name; if there is none, the next rule is evaluated.
    Named(FormatString),
}

/// A log destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTarget {
    /// The address.
    pub to: LogAddress,
    /// The line format.
    pub format: LogLine,
    /// Syslog facility (RFC 5424 §6.2.1): `local0` is 16.
    pub facility: u8,
    /// Maximum level: lines with a higher number are dropped; 7 is `debug`.
    pub level_max: u8,
    /// Minimum level: lines with a lower number are logged with this one.
    pub level_min: u8,
    /// `len`: longer lines are truncated.
    pub line_size_max: usize,
    /// `sample`: these ranges of each `of` lines.
    pub sample: Option<(Vec<(u32, u32)>, u32)>,
}

/// A log address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogAddress {
    /// Syslog over UDP.
    Udp(SocketAddr),
    /// Syslog over a Unix datagram socket.
    Unix(PathBuf),
    /// An open descriptor: 1 is `stdout`, 2 is `stderr`.
    Descriptor(i32),
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLine {
    /// Default: `local`, or `rfc3164` with `log-send-hostname`.
    #[default]
    Usual,
    /// `local`: RFC 3164 without the host name.
    Local,
    /// `rfc3164`: RFC 3164.
    Rfc3164,
    /// `rfc5424`.
    Rfc5424,
    /// `priority`: `<142>text`, level and facility.
    Priority,
    /// `short`: `<6>text`, only the level, for the systemd journal.
    Short,
    /// `timed`: the same with a date.
    Timed,
    /// `iso`: a date and the text.
    Iso,
    /// `raw`: only the text.
    Raw,
}

/// Which events are logged, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `option dontlognull`: connections without data are not logged.
    pub dont_log_null: bool,
    /// `option dontlog-normal`: only errors are logged.
    pub dont_log_normal: bool,
    /// `option logasap`: logs when the response header is complete.
    pub as_soon_as_possible: bool,
    /// `option log-separate-errors`: errors are logged with level `err`.
    pub separate_errors: bool,
}

/// A captured header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCapture {
    /// The name of the field.
    pub field: String,
    /// Maximum length in bytes.
    pub len: usize,
}

/// Custom error responses.
pub type ErrorResponses = Arc<ErrorPages>;

/// The statistics page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsPage {
    /// `stats uri`; default: `/haproxy?stats`.
    pub uri: String,
    /// `stats realm`.
    pub realm: Option<String>,
    /// `stats auth`: users and passwords.
    pub users: Vec<(String, String)>,
    /// `stats admin`: changes are allowed if one of the conditions holds, or always without a
    /// condition.
    pub admin: StatsAdmin,
    /// `stats refresh`.
    pub refresh: Option<Duration>,
    /// `stats hide-version`.
    pub hide_version: bool,
    /// `stats show-legends`.
    pub show_legends: bool,
    /// `stats show-node`: the node name.
    pub node: Option<String>,
    /// `stats show-desc`.
    pub description: Option<String>,
    /// `stats scope`: the listed proxies; empty: all. `.` has been resolved.
    pub scope: Vec<String>,
}

/// Whether the statistics page allows changes.
#[derive(Clone, Debug, Default)]
pub enum StatsAdmin {
    /// Never.
    #[default]
    Never,
    /// If one of the conditions holds.
    If(Vec<Condition>),
    /// For every authorized user.
    Always,
}

impl PartialEq for StatsAdmin {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for StatsAdmin {}
