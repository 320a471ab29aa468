//! Rows of frontends and listeners.

use std::sync::atomic::Ordering;

use fulmar_haproxy::model::{Bind, Mode};
use fulmar_proxy::{Counters, LiveFrontend, RateKind, Stat};

use super::super::columns::Column;
use super::super::kind::RowKind;
use super::super::process::{Moment, Process};
use super::super::value::StatsRow;
use super::total::{ANSWERS, REQUESTS};
use super::{Http1, Total, bind_text, mode_name};

/// The row `FRONTEND`.
pub(super) fn frontend_row(it: &LiveFrontend, process: &Process, moment: Moment) -> StatsRow {
    let config = &*it.config;
    let total = Total(&it.counters);
    let mut row = StatsRow::new(RowKind::Frontend, (&config.name, "FRONTEND"), (config.id, 0));
    put_traffic(&mut row, total);
    let most = it.connections_max.get().unwrap_or_else(|| process.connections_max());
    row.small(Column::slim, most);
    row.text(Column::status, status(it));
    row.text(Column::mode, mode_name(config.mode));
    row.small(Column::rate, total.rate(RateKind::Sessions, moment));
    row.small(Column::rate_lim, config.sessions_per_second_max.unwrap_or(0));
    row.small(Column::rate_max, total.rate_max(RateKind::Sessions));
    row.small(Column::conn_rate, total.rate(RateKind::Connections, moment));
    row.small(Column::conn_rate_max, total.rate_max(RateKind::Connections));
    total.put(&mut row, &[(Column::conn_tot, Stat::Connections)]);
    row.small(Column::req_rate, total.rate(RateKind::Requests, moment));
    row.small(Column::req_rate_max, total.rate_max(RateKind::Requests));
    total.put(&mut row, &[(Column::req_tot, Stat::Requests)]);
    if config.mode == Mode::Http {
        total.put_responses(&mut row);
        total.put(&mut row, &[(Column::intercepted, Stat::Intercepted)]);
        row.large(Column::cache_lookups, 0);
        row.large(Column::cache_hits, 0);
    }
    let connections = Http1 {
        open: total.get(Stat::Sessions),
        total: total.get(Stat::Connections),
        streams: total.get(Stat::Requests),
        received: REQUESTS,
        sent: ANSWERS,
    };
    total.put_protocols(&mut row, config.mode, &connections);
    row
}

/// The row of a listener.
pub(super) fn listener_row(it: &LiveFrontend, bind: &Bind, counters: &[Counters]) -> StatsRow {
    let config = &*it.config;
    let mut row =
        StatsRow::new(RowKind::Listener, (&config.name, &bind.name), (config.id, bind.id));
    put_traffic(&mut row, Total(counters));
    row.small(Column::slim, bind.connections_max.unwrap_or(0));
    row.text(Column::status, if status(it) == "PAUSED" { "WAITING" } else { "OPEN" });
    row.text(Column::addr, &bind_text(&bind.address));
    row.text(Column::mode, mode_name(config.mode));
    row
}

fn put_traffic(row: &mut StatsRow, total: Total<'_>) {
    row.small(Column::scur, total.get(Stat::Sessions));
    row.small(Column::smax, total.peak(Stat::Sessions));
    total.put(row, TRAFFIC);
    total.put_common(row);
}

fn status(it: &LiveFrontend) -> &'static str {
    let is_over = it.config.disabled || it.stopped.load(Ordering::Relaxed);
    match (is_over, it.paused.load(Ordering::Relaxed)) {
        (true, _) => "STOP",
        (false, true) => "PAUSED",
        (false, false) => "OPEN",
    }
}

const TRAFFIC: &[(Column, Stat)] = &[
    (Column::stot, Stat::SessionsTotal),
    (Column::bin, Stat::BytesIn),
    (Column::bout, Stat::BytesOut),
    (Column::dreq, Stat::DeniedRequests),
    (Column::dresp, Stat::DeniedResponses),
    (Column::ereq, Stat::RequestErrors),
    (Column::dcon, Stat::DeniedConnections),
    (Column::dses, Stat::DeniedSessions),
];
