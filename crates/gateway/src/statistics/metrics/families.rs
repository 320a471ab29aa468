//! Which metrics there are, and which column or fact each one shows.

use super::super::columns::Column;
use super::super::kind::Kind;

/// A family of metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Without `haproxy_server_` and its like.
    pub(super) name: &'static str,
    /// `counter` or `gauge`.
    pub(super) kind: &'static str,
    /// Of whom it is told.
    pub(super) kinds: &'static [Kind],
    /// What it shows.
    pub(super) column: Column,
    /// How.
    pub(super) shape: Shape,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// As it is, where there is one.
    Plain,
    /// As it is, or as NaN where there is none: a limit that is not set.
    OrNaN,
    /// Milliseconds, as seconds.
    Millis,
    /// Of proxies that speak HTTP only.
    Http,
    /// One line for each class of statuses.
    Responses,
    /// One line for each state that there is.
    Status,
    /// One line for each state that servers can have: how many have it.
    Servers,
    /// One line for each end that checks can have.
    Check,
    /// The same: how many servers have it.
    Checks,
}

const fn family(
    name: &'static str,
    kind: &'static str,
    kinds: &'static [Kind],
    column: Column,
    shape: Shape,
) -> Family {
    Family { name, kind, kinds, column, shape }
}

const F: Kind = Kind::Frontend;
const L: Kind = Kind::Listener;
const B: Kind = Kind::Backend;
const S: Kind = Kind::Server;
const C: &str = "counter";
const G: &str = "gauge";

/// In the order of HAProxy's exporter.
pub(super) const FAMILIES: &[Family] = &[
    family("current_sessions", G, &[F, L, B, S], Column::scur, Shape::Plain),
    family("max_sessions", G, &[F, L, B, S], Column::smax, Shape::Plain),
    family("limit_sessions", G, &[F, L, B, S], Column::slim, Shape::OrNaN),
    family("sessions_total", C, &[F, L, B, S], Column::stot, Shape::Plain),
    family("bytes_in_total", C, &[F, L, B, S], Column::bin, Shape::Plain),
    family("bytes_out_total", C, &[F, L, B, S], Column::bout, Shape::Plain),
    family("requests_denied_total", C, &[F, L, B], Column::dreq, Shape::Plain),
    family("responses_denied_total", C, &[F, L, B, S], Column::dresp, Shape::Plain),
    family("request_errors_total", C, &[F, L], Column::ereq, Shape::Plain),
    family("status", G, &[F, L, B, S], Column::status, Shape::Status),
    family("limit_session_rate", G, &[F], Column::rate_lim, Shape::Plain),
    family("max_session_rate", G, &[F, B, S], Column::rate_max, Shape::Plain),
    family("http_responses_total", C, &[F, B, S], Column::hrsp_1xx, Shape::Responses),
    family("http_requests_rate_max", G, &[F], Column::req_rate_max, Shape::Http),
    family("http_requests_total", C, &[F, B], Column::req_tot, Shape::Http),
    family("http_comp_bytes_in_total", C, &[F, B], Column::comp_in, Shape::Http),
    family("http_comp_bytes_out_total", C, &[F, B], Column::comp_out, Shape::Http),
    family("http_comp_bytes_bypassed_total", C, &[F, B], Column::comp_byp, Shape::Http),
    family("http_comp_responses_total", C, &[F, B], Column::comp_rsp, Shape::Http),
    family("connections_rate_max", G, &[F], Column::conn_rate_max, Shape::Plain),
    family("connections_total", C, &[F], Column::conn_tot, Shape::Plain),
    family("intercepted_requests_total", C, &[F], Column::intercepted, Shape::Plain),
    family("denied_connections_total", C, &[F, L], Column::dcon, Shape::Plain),
    family("denied_sessions_total", C, &[F, L], Column::dses, Shape::Plain),
    family("failed_header_rewriting_total", C, &[F, L, B, S], Column::wrew, Shape::Plain),
    family("http_cache_lookups_total", C, &[F, B], Column::cache_lookups, Shape::Http),
    family("http_cache_hits_total", C, &[F, B], Column::cache_hits, Shape::Http),
    family("internal_errors_total", C, &[F, L, B, S], Column::eint, Shape::Plain),
    family("current_queue", G, &[B, S], Column::qcur, Shape::Plain),
    family("max_queue", G, &[B, S], Column::qmax, Shape::Plain),
    family("connection_errors_total", C, &[B, S], Column::econ, Shape::Plain),
    family("response_errors_total", C, &[B, S], Column::eresp, Shape::Plain),
    family("retry_warnings_total", C, &[B, S], Column::wretr, Shape::Plain),
    family("redispatch_warnings_total", C, &[B, S], Column::wredis, Shape::Plain),
    family("weight", G, &[B, S], Column::weight, Shape::Plain),
    family("active_servers", G, &[B], Column::act, Shape::Plain),
    family("backup_servers", G, &[B], Column::bck, Shape::Plain),
    family("check_up_down_total", C, &[B, S], Column::chkdown, Shape::OrNaN),
    family("check_last_change_seconds", G, &[B, S], Column::lastchg, Shape::Plain),
    family("downtime_seconds_total", C, &[B, S], Column::downtime, Shape::Plain),
    family("loadbalanced_total", C, &[B, S], Column::lbtot, Shape::Plain),
    family("client_aborts_total", C, &[B, S], Column::cli_abrt, Shape::Plain),
    family("server_aborts_total", C, &[B, S], Column::srv_abrt, Shape::Plain),
    family("last_session_seconds", G, &[B, S], Column::lastsess, Shape::Plain),
    family("queue_time_average_seconds", G, &[B, S], Column::qtime, Shape::Millis),
    family("connect_time_average_seconds", G, &[B, S], Column::ctime, Shape::Millis),
    family("response_time_average_seconds", G, &[B, S], Column::rtime, Shape::Millis),
    family("total_time_average_seconds", G, &[B, S], Column::ttime, Shape::Millis),
    family("connection_attempts_total", C, &[B, S], Column::connect, Shape::Plain),
    family("connection_reuses_total", C, &[B, S], Column::reuse, Shape::Plain),
    family("max_queue_time_seconds", G, &[B, S], Column::qtime_max, Shape::Millis),
    family("max_connect_time_seconds", G, &[B, S], Column::ctime_max, Shape::Millis),
    family("max_response_time_seconds", G, &[B, S], Column::rtime_max, Shape::Millis),
    family("max_total_time_seconds", G, &[B, S], Column::ttime_max, Shape::Millis),
    family("uweight", G, &[B, S], Column::uweight, Shape::Plain),
    family("agg_server_status", G, &[B], Column::agg_server_status, Shape::Servers),
    family("agg_server_check_status", G, &[B], Column::agg_server_check_status, Shape::Servers),
    family("agg_check_status", G, &[B], Column::agg_check_status, Shape::Checks),
    family("check_failures_total", C, &[S], Column::chkfail, Shape::OrNaN),
    family("queue_limit", G, &[S], Column::qlimit, Shape::OrNaN),
    family("current_throttle", G, &[S], Column::throttle, Shape::OrNaN),
    family("check_status", G, &[S], Column::check_status, Shape::Check),
    family("check_code", G, &[S], Column::check_code, Shape::Plain),
    family("check_duration_seconds", G, &[S], Column::check_duration, Shape::Millis),
    family("idle_connections_current", G, &[S], Column::srv_icur, Shape::Plain),
    family("idle_connections_limit", G, &[S], Column::src_ilim, Shape::OrNaN),
    family("unsafe_idle_connections_current", G, &[S], Column::idle_conn_cur, Shape::Plain),
    family("safe_idle_connections_current", G, &[S], Column::safe_conn_cur, Shape::Plain),
    family("used_connections_current", G, &[S], Column::used_conn_cur, Shape::Plain),
    family("need_connections_current", G, &[S], Column::need_conn_est, Shape::Plain),
];

/// Metrics of the process: name, kind, and the fact that it shows. HAProxy's others are about what
/// is not there: its memory pools, compression, peers.
pub(super) const PROCESS: &[(&str, &str, &str)] = &[
    ("haproxy_process_nbthread", G, "Nbthread"),
    ("haproxy_process_nbproc", G, "Nbproc"),
    ("haproxy_process_relative_process_id", G, "Process_num"),
    ("haproxy_process_uptime_seconds", G, "Uptime_sec"),
    ("haproxy_process_max_fds", G, "Ulimit-n"),
    ("haproxy_process_max_sockets", G, "Maxsock"),
    ("haproxy_process_max_connections", G, "Maxconn"),
    ("haproxy_process_hard_max_connections", G, "Hard_maxconn"),
    ("haproxy_process_current_connections", G, "CurrConns"),
    ("haproxy_process_connections_total", C, "CumConns"),
    ("haproxy_process_requests_total", C, "CumReq"),
    ("haproxy_process_ssl_connections_total", C, "CumSslConns"),
    ("haproxy_process_current_connection_rate", G, "ConnRate"),
    ("haproxy_process_limit_connection_rate", G, "ConnRateLimit"),
    ("haproxy_process_max_connection_rate", G, "MaxConnRate"),
    ("haproxy_process_current_session_rate", G, "SessRate"),
    ("haproxy_process_limit_session_rate", G, "SessRateLimit"),
    ("haproxy_process_max_session_rate", G, "MaxSessRate"),
    ("haproxy_process_frontend_ssl_reuse", G, "SslFrontendSessionReuse_pct"),
    ("haproxy_process_stopping", G, "Stopping"),
    ("haproxy_process_jobs", G, "Jobs"),
    ("haproxy_process_unstoppable_jobs", G, "Unstoppable Jobs"),
    ("haproxy_process_listeners", G, "Listeners"),
    ("haproxy_process_dropped_logs_total", C, "DroppedLogs"),
    ("haproxy_process_bytes_out_total", C, "TotalBytesOut"),
    ("haproxy_process_start_time_seconds", G, "Start_time_sec"),
];
