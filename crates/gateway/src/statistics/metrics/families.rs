//! The table of metrics, with the column or field that each one shows.

use super::super::columns::Column;
use super::super::kind::RowKind;

/// A metric family.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricFamily {
    /// The name without the prefix `haproxy_server_` and so on.
    pub(super) name: &'static str,
    /// `counter` or `gauge`.
    pub(super) kind: &'static str,
    /// The kinds of objects that have it.
    pub(super) kinds: &'static [RowKind],
    /// The column.
    pub(super) column: Column,
    /// How the value is converted.
    pub(super) shape: MetricShape,
}

/// How a value is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricShape {
    /// Unchanged; omitted without a value.
    Plain,
    /// Unchanged; NaN without a value (a limit that is not set).
    OrNaN,
    /// Milliseconds, converted to seconds.
    Millis,
    /// Only for proxies in mode http.
    Http,
    /// One line per class of status codes.
    Responses,
    /// One line per state.
    Status,
    /// One line per server state: the number of servers in it.
    Servers,
    /// One line per check result.
    Check,
    /// One line per check result: the number of servers with it.
    Checks,
}

const fn family(
    name: &'static str,
    kind: &'static str,
    kinds: &'static [RowKind],
    column: Column,
    shape: MetricShape,
) -> MetricFamily {
    MetricFamily { name, kind, kinds, column, shape }
}

const F: RowKind = RowKind::Frontend;
const L: RowKind = RowKind::Listener;
const B: RowKind = RowKind::Backend;
const S: RowKind = RowKind::Server;
const C: &str = "counter";
const G: &str = "gauge";

/// In the order of HAProxy's exporter.
pub(super) const FAMILIES: &[MetricFamily] = &[
    family("current_sessions", G, &[F, L, B, S], Column::scur, MetricShape::Plain),
    family("max_sessions", G, &[F, L, B, S], Column::smax, MetricShape::Plain),
    family("limit_sessions", G, &[F, L, B, S], Column::slim, MetricShape::OrNaN),
    family("sessions_total", C, &[F, L, B, S], Column::stot, MetricShape::Plain),
    family("bytes_in_total", C, &[F, L, B, S], Column::bin, MetricShape::Plain),
    family("bytes_out_total", C, &[F, L, B, S], Column::bout, MetricShape::Plain),
    family("requests_denied_total", C, &[F, L, B], Column::dreq, MetricShape::Plain),
    family("responses_denied_total", C, &[F, L, B, S], Column::dresp, MetricShape::Plain),
    family("request_errors_total", C, &[F, L], Column::ereq, MetricShape::Plain),
    family("status", G, &[F, L, B, S], Column::status, MetricShape::Status),
    family("limit_session_rate", G, &[F], Column::rate_lim, MetricShape::Plain),
    family("max_session_rate", G, &[F, B, S], Column::rate_max, MetricShape::Plain),
    family("http_responses_total", C, &[F, B, S], Column::hrsp_1xx, MetricShape::Responses),
    family("http_requests_rate_max", G, &[F], Column::req_rate_max, MetricShape::Http),
    family("http_requests_total", C, &[F, B], Column::req_tot, MetricShape::Http),
    family("http_comp_bytes_in_total", C, &[F, B], Column::comp_in, MetricShape::Http),
    family("http_comp_bytes_out_total", C, &[F, B], Column::comp_out, MetricShape::Http),
    family("http_comp_bytes_bypassed_total", C, &[F, B], Column::comp_byp, MetricShape::Http),
    family("http_comp_responses_total", C, &[F, B], Column::comp_rsp, MetricShape::Http),
    family("connections_rate_max", G, &[F], Column::conn_rate_max, MetricShape::Plain),
    family("connections_total", C, &[F], Column::conn_tot, MetricShape::Plain),
    family("intercepted_requests_total", C, &[F], Column::intercepted, MetricShape::Plain),
    family("denied_connections_total", C, &[F, L], Column::dcon, MetricShape::Plain),
    family("denied_sessions_total", C, &[F, L], Column::dses, MetricShape::Plain),
    family("failed_header_rewriting_total", C, &[F, L, B, S], Column::wrew, MetricShape::Plain),
    family("http_cache_lookups_total", C, &[F, B], Column::cache_lookups, MetricShape::Http),
    family("http_cache_hits_total", C, &[F, B], Column::cache_hits, MetricShape::Http),
    family("internal_errors_total", C, &[F, L, B, S], Column::eint, MetricShape::Plain),
    family("current_queue", G, &[B, S], Column::qcur, MetricShape::Plain),
    family("max_queue", G, &[B, S], Column::qmax, MetricShape::Plain),
    family("connection_errors_total", C, &[B, S], Column::econ, MetricShape::Plain),
    family("response_errors_total", C, &[B, S], Column::eresp, MetricShape::Plain),
    family("retry_warnings_total", C, &[B, S], Column::wretr, MetricShape::Plain),
    family("redispatch_warnings_total", C, &[B, S], Column::wredis, MetricShape::Plain),
    family("weight", G, &[B, S], Column::weight, MetricShape::Plain),
    family("active_servers", G, &[B], Column::act, MetricShape::Plain),
    family("backup_servers", G, &[B], Column::bck, MetricShape::Plain),
    family("check_up_down_total", C, &[B, S], Column::chkdown, MetricShape::OrNaN),
    family("check_last_change_seconds", G, &[B, S], Column::lastchg, MetricShape::Plain),
    family("downtime_seconds_total", C, &[B, S], Column::downtime, MetricShape::Plain),
    family("loadbalanced_total", C, &[B, S], Column::lbtot, MetricShape::Plain),
    family("client_aborts_total", C, &[B, S], Column::cli_abrt, MetricShape::Plain),
    family("server_aborts_total", C, &[B, S], Column::srv_abrt, MetricShape::Plain),
    family("last_session_seconds", G, &[B, S], Column::lastsess, MetricShape::Plain),
    family("queue_time_average_seconds", G, &[B, S], Column::qtime, MetricShape::Millis),
    family("connect_time_average_seconds", G, &[B, S], Column::ctime, MetricShape::Millis),
    family("response_time_average_seconds", G, &[B, S], Column::rtime, MetricShape::Millis),
    family("total_time_average_seconds", G, &[B, S], Column::ttime, MetricShape::Millis),
    family("connection_attempts_total", C, &[B, S], Column::connect, MetricShape::Plain),
    family("connection_reuses_total", C, &[B, S], Column::reuse, MetricShape::Plain),
    family("max_queue_time_seconds", G, &[B, S], Column::qtime_max, MetricShape::Millis),
    family("max_connect_time_seconds", G, &[B, S], Column::ctime_max, MetricShape::Millis),
    family("max_response_time_seconds", G, &[B, S], Column::rtime_max, MetricShape::Millis),
    family("max_total_time_seconds", G, &[B, S], Column::ttime_max, MetricShape::Millis),
    family("uweight", G, &[B, S], Column::uweight, MetricShape::Plain),
    family("agg_server_status", G, &[B], Column::agg_server_status, MetricShape::Servers),
    family(
        "agg_server_check_status",
        G,
        &[B],
        Column::agg_server_check_status,
        MetricShape::Servers,
    ),
    family("agg_check_status", G, &[B], Column::agg_check_status, MetricShape::Checks),
    family("check_failures_total", C, &[S], Column::chkfail, MetricShape::OrNaN),
    family("queue_limit", G, &[S], Column::qlimit, MetricShape::OrNaN),
    family("current_throttle", G, &[S], Column::throttle, MetricShape::OrNaN),
    family("check_status", G, &[S], Column::check_status, MetricShape::Check),
    family("check_code", G, &[S], Column::check_code, MetricShape::Plain),
    family("check_duration_seconds", G, &[S], Column::check_duration, MetricShape::Millis),
    family("idle_connections_current", G, &[S], Column::srv_icur, MetricShape::Plain),
    family("idle_connections_limit", G, &[S], Column::src_ilim, MetricShape::OrNaN),
    family("unsafe_idle_connections_current", G, &[S], Column::idle_conn_cur, MetricShape::Plain),
    family("safe_idle_connections_current", G, &[S], Column::safe_conn_cur, MetricShape::Plain),
    family("used_connections_current", G, &[S], Column::used_conn_cur, MetricShape::Plain),
    family("need_connections_current", G, &[S], Column::need_conn_est, MetricShape::Plain),
];

/// Metrics of the process: name, kind, and the field of `show info`. HAProxy's other metrics
/// concern features that do not exist here: memory pools, compression, peers.
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
