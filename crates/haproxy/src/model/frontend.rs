//! A frontend: where clients come in, and what is done with what they ask for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::bind::Bind;
use super::options::Options;
use super::{BackendId, Mode, Place};
use crate::rules::http::HttpRule;
use crate::rules::reply::ErrorPages;
use crate::rules::tcp::TcpRule;
use crate::rules::{Condition, Format};

/// Where clients come in.
#[derive(Clone, Debug, Default)]
pub struct Frontend {
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
    /// What is listened on.
    pub binds: Vec<Bind>,
    /// `maxconn`.
    pub connections_max: Option<usize>,
    /// `backlog`.
    pub backlog: Option<u16>,
    /// `rate-limit sessions`.
    pub sessions_per_second_max: Option<u32>,
    /// `timeout client` and its relatives.
    pub timeouts: FrontendTimeouts,
    /// `option` lines.
    pub options: Options,
    /// `tcp-request connection`: before anything is read.
    pub connection_rules: Vec<TcpRule>,
    /// `tcp-request session`: when the layers below stand.
    pub session_rules: Vec<TcpRule>,
    /// `tcp-request content`.
    pub content_rules: Vec<TcpRule>,
    /// `tcp-request inspect-delay`.
    pub inspect_delay: Option<Duration>,
    /// `http-request`, and `redirect` in its place.
    pub request_rules: Vec<HttpRule>,
    /// `http-response`.
    pub response_rules: Vec<HttpRule>,
    /// `http-after-response`.
    pub after_response_rules: Vec<HttpRule>,
    /// `use_backend`, in order.
    pub use_backends: Vec<UseBackend>,
    /// `default_backend`; the backend of the same name, in a `listen` section.
    pub default_backend: Option<BackendId>,
    /// `monitor-uri`: answered 200 by us, or 503 if `monitor fail` holds.
    pub monitor_uri: Option<String>,
    /// `monitor fail`.
    pub monitor_fails: Vec<Condition>,
    /// `log` lines, with those of `global` if it says so.
    pub logs: Vec<LogTarget>,
    /// The format of its lines: as `log-format`, `option httplog`, `tcplog` or the default say.
    pub log_format: Arc<Format>,
    /// `error-log-format`.
    pub error_log_format: Option<Arc<Format>>,
    /// What is logged, and when.
    pub log_options: LogOptions,
    /// `log-tag`.
    pub log_tag: Option<String>,
    /// `unique-id-format`, and `unique-id-header`.
    pub unique_id: Option<(Arc<Format>, Option<String>)>,
    /// `capture request header`.
    pub request_captures: Vec<Capture>,
    /// `capture response header`.
    pub response_captures: Vec<Capture>,
    /// `capture cookie`: its name or prefix, and how many bytes of it.
    pub cookie_capture: Option<(String, usize)>,
    /// `errorfile`, `http-error` and their like.
    pub errors: ErrorResponses,
    /// `stats` lines.
    pub stats: Option<Arc<StatsPage>>,
}

/// Deadlines of the client's side; `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontendTimeouts {
    /// `timeout client`: a client is silent, or does not take what it is sent.
    pub client: Option<Duration>,
    /// `timeout client-fin`: after one side has ended.
    pub client_fin: Option<Duration>,
    /// `timeout http-request`: a head has begun, and is to be complete; `client` if not said.
    pub http_request: Option<Duration>,
    /// `timeout http-keep-alive`: the next request begins; `http_request` if not said.
    pub http_keep_alive: Option<Duration>,
    /// `timeout tarpit`: `connect` if not said.
    pub tarpit: Option<Duration>,
}

/// `use_backend`.
#[derive(Clone, Debug)]
pub struct UseBackend {
    /// Which.
    pub target: Target,
    /// When; always, if there is none.
    pub condition: Option<Condition>,
}

/// A backend, by name or by what a format says.
#[derive(Clone, Debug)]
pub enum Target {
    /// This one.
    Backend(BackendId),
    /// The one whose name this is; if there is none, the next rule is looked at.
    Named(Format),
}

/// Where lines of a log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTarget {
    /// Whither.
    pub to: LogAddress,
    /// How lines are written.
    pub format: LogLine,
    /// The number of a facility of syslog (RFC 5424 §6.2.1): `local0` is 16.
    pub facility: u8,
    /// Lines less severe than this number are left out: 7 is `debug`.
    pub level_max: u8,
    /// Lines more severe than this are shown as this.
    pub level_min: u8,
    /// `len`: lines are cut off there.
    pub line_size_max: usize,
    /// `sample`: of so many lines (`of`), those in these ranges.
    pub sample: Option<(Vec<(u32, u32)>, u32)>,
}

/// Whither a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogAddress {
    /// Syslog by UDP.
    Udp(SocketAddr),
    /// Syslog at a Unix datagram socket.
    Unix(PathBuf),
    /// An open descriptor: 1 is `stdout`, 2 is `stderr`.
    Descriptor(i32),
}

/// How a line of a log is framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLine {
    /// Nothing is said: `local`, or `rfc3164` with `log-send-hostname`.
    #[default]
    Usual,
    /// `local`: as syslog of old, without the name of the machine.
    Local,
    /// `rfc3164`: as syslog of old.
    Rfc3164,
    /// `rfc5424`.
    Rfc5424,
    /// `priority`: `<142>text`, level and facility.
    Priority,
    /// `short`: `<6>text`, the level, for the journal of systemd.
    Short,
    /// `timed`: the same with a date.
    Timed,
    /// `iso`: a date and the text.
    Iso,
    /// `raw`: the text alone.
    Raw,
}

/// What is logged, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `option dontlognull`: connections that said nothing are left out.
    pub dont_log_null: bool,
    /// `option dontlog-normal`: only what went wrong.
    pub dont_log_normal: bool,
    /// `option logasap`: when the head of the response is there.
    pub as_soon_as_possible: bool,
    /// `option log-separate-errors`: errors are logged as such (level `err`).
    pub separate_errors: bool,
}

/// A field that is kept for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its name.
    pub field: String,
    /// How many bytes of it.
    pub len: usize,
}

/// What is answered to errors of our own.
pub type ErrorResponses = Arc<ErrorPages>;

/// The statistics page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsPage {
    /// `stats uri`; `/haproxy?stats`.
    pub uri: String,
    /// `stats realm`.
    pub realm: Option<String>,
    /// `stats auth`: users and passwords.
    pub users: Vec<(String, String)>,
    /// `stats admin`: if any of them holds, or if there is one without a condition, the page can
    /// change things.
    pub admin: Admin,
    /// `stats refresh`.
    pub refresh: Option<Duration>,
    /// `stats hide-version`.
    pub hide_version: bool,
    /// `stats show-legends`.
    pub show_legends: bool,
    /// `stats show-node`: the name to show.
    pub node: Option<String>,
    /// `stats show-desc`.
    pub description: Option<String>,
    /// `stats scope`: proxies that it shows; all, if it is empty. `.` has been resolved.
    pub scope: Vec<String>,
}

/// Whether the statistics page can change things.
#[derive(Clone, Debug, Default)]
pub enum Admin {
    /// Never.
    #[default]
    Never,
    /// If one of these holds.
    If(Vec<Condition>),
    /// Whoever may see it.
    Always,
}

impl PartialEq for Admin {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for Admin {}
