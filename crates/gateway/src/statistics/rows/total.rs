//! Sums over threads.

use fulmar_haproxy::model::Mode;
use fulmar_proxy::{Counters, RateKind, Stat, Timing, sum};

use super::super::columns::Column;
use super::super::process::Moment;
use super::super::value::{StatsRow, StatsValue};

/// The counters of all threads for one frontend, listener, backend or server.
#[derive(Clone, Copy, Debug)]
pub struct Total<'a>(pub &'a [Counters]);

impl Total<'_> {
    /// The sum. A gauge may be increased by one thread and decreased by another; a sum that is
    /// negative meanwhile counts as 0.
    pub fn get(self, counter: Stat) -> u64 {
        let value = sum(self.0, counter);
        if value > u64::MAX / 2 { 0 } else { value }
    }

    /// The maximum: exact with one thread, otherwise an upper bound, since each thread has its own.
    pub fn peak(self, counter: Stat) -> u64 {
        self.0.iter().map(|it| it.peak(counter)).sum()
    }

    /// Events in the last second.
    pub fn rate(self, rate: RateKind, moment: Moment) -> u64 {
        self.0.iter().map(|it| it.rate(rate, moment.millis)).sum()
    }

    /// The maximum per second: an upper bound, as for [`Total::peak`].
    pub fn rate_max(self, rate: RateKind) -> u64 {
        self.0.iter().map(|it| it.rate_max(rate)).sum()
    }

    fn mean(self, timing: Timing) -> u64 {
        let recent = self.0.iter().map(|it| it.recent(timing));
        let (count, sum) = recent.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        if count == 0 { 0 } else { u64::div_ceil(sum, count) }
    }

    fn longest(self, timing: Timing) -> u64 {
        self.0.iter().map(|it| it.longest(timing)).max().unwrap_or(0)
    }

    /// Seconds since the last session began; -1: there was none.
    pub fn last_session(self, moment: Moment) -> i32 {
        let last = self.0.iter().map(|it| it.get(Stat::LastSession)).max().unwrap_or(0);
        match last {
            0 => -1,
            last => i32::try_from(moment.millis.saturating_sub(last) / 1_000).unwrap_or(i32::MAX),
        }
    }

    /// Writes counters to columns of 64 bits.
    pub(super) fn put(self, row: &mut StatsRow, pairs: &[(Column, Stat)]) {
        for (column, counter) in pairs {
            row.large(*column, self.get(*counter));
        }
    }

    /// Responses by class of status codes.
    pub(super) fn put_responses(self, row: &mut StatsRow) {
        self.put(row, RESPONSES);
    }

    /// The four times, as means and maxima, and the last session: for servers and backends.
    pub(super) fn put_times(self, row: &mut StatsRow, moment: Moment) {
        row.set(Column::lastsess, StatsValue::S32(self.last_session(moment)));
        for (timing, mean, max) in TIMES {
            row.small(*mean, self.mean(*timing));
            row.small(*max, self.longest(*timing));
        }
    }

    /// Columns of all objects: internal errors, TLS.
    pub(super) fn put_common(self, row: &mut StatsRow) {
        self.put(row, COMMON);
    }

    /// HTTP columns other than requests: for frontends and backends. There is no HTTP/2,
    /// compression or cache here: those columns are 0. In mode tcp, all columns are 0.
    pub(super) fn put_protocols(self, row: &mut StatsRow, mode: Mode, http: &Http1) {
        ABSENT.iter().for_each(|column| row.large(*column, 0));
        let is_http = u64::from(mode == Mode::Http);
        let requests = self.get(Stat::Requests);
        let answered: u64 = RESPONSES.iter().map(|(_, counter)| self.get(*counter)).sum();
        for (column, value) in [
            (Column::h1_open_connections, http.open),
            (Column::h1_open_streams, requests.saturating_sub(answered)),
            (Column::h1_total_connections, http.total),
            (Column::h1_total_streams, http.streams),
            (Column::h1_bytes_in, self.get(http.received.bytes)),
            (Column::h1_bytes_out, self.get(http.sent.bytes)),
            (Column::h1_spliced_bytes_in, self.get(http.received.piped)),
            (Column::h1_spliced_bytes_out, self.get(http.sent.piped)),
        ] {
            row.large(column, value * is_http);
        }
    }
}

/// HTTP/1 connections and their bytes: a frontend receives from clients, a backend from servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Http1 {
    pub(super) open: u64,
    pub(super) total: u64,
    pub(super) streams: u64,
    pub(super) received: Traffic,
    pub(super) sent: Traffic,
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    bytes: Stat,
    /// Spliced bytes: these never enter user space.
    piped: Stat,
}

/// From the client to the server.
pub(super) const REQUESTS: Traffic = Traffic { bytes: Stat::BytesIn, piped: Stat::PipedIn };
/// From the server to the client.
pub(super) const ANSWERS: Traffic = Traffic { bytes: Stat::BytesOut, piped: Stat::PipedOut };

/// Of servers and backends.
pub(super) const UPSTREAM_TRAFFIC: &[(Column, Stat)] = &[
    (Column::stot, Stat::SessionsTotal),
    (Column::bin, Stat::BytesIn),
    (Column::bout, Stat::BytesOut),
    (Column::dresp, Stat::DeniedResponses),
    (Column::econ, Stat::ConnectErrors),
    (Column::eresp, Stat::ResponseErrors),
    (Column::wretr, Stat::Retries),
    (Column::wredis, Stat::Redispatches),
    (Column::lbtot, Stat::Balanced),
    (Column::cli_abrt, Stat::ClientAborts),
    (Column::srv_abrt, Stat::ServerAborts),
];

const RESPONSES: &[(Column, Stat)] = &[
    (Column::hrsp_1xx, Stat::Responses1xx),
    (Column::hrsp_2xx, Stat::Responses2xx),
    (Column::hrsp_3xx, Stat::Responses3xx),
    (Column::hrsp_4xx, Stat::Responses4xx),
    (Column::hrsp_5xx, Stat::Responses5xx),
    (Column::hrsp_other, Stat::ResponsesOther),
];

const TIMES: &[(Timing, Column, Column)] = &[
    (Timing::Queue, Column::qtime, Column::qtime_max),
    (Timing::Connect, Column::ctime, Column::ctime_max),
    (Timing::Response, Column::rtime, Column::rtime_max),
    (Timing::Total, Column::ttime, Column::ttime_max),
];

const COMMON: &[(Column, Stat)] = &[
    (Column::wrew, Stat::RewriteErrors),
    (Column::eint, Stat::InternalErrors),
    (Column::ssl_sess, Stat::TlsHandshakes),
    (Column::ssl_reused_sess, Stat::TlsResumed),
    (Column::ssl_failed_handshake, Stat::TlsFailures),
];

const ABSENT: &[Column] = &[
    Column::comp_in,
    Column::comp_out,
    Column::comp_byp,
    Column::comp_rsp,
    Column::h2_headers_rcvd,
    Column::h2_data_rcvd,
    Column::h2_settings_rcvd,
    Column::h2_rst_stream_rcvd,
    Column::h2_goaway_rcvd,
    Column::h2_detected_conn_protocol_errors,
    Column::h2_detected_strm_protocol_errors,
    Column::h2_rst_stream_resp,
    Column::h2_goaway_resp,
    Column::h2_open_connections,
    Column::h2_backend_open_streams,
    Column::h2_total_connections,
    Column::h2_backend_total_streams,
];
