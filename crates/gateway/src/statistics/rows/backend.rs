//! Rows of backends.

use fulmar_haproxy::model::{BalanceAlgorithm, Mode};
use fulmar_proxy::balance::{Health, Member};
use fulmar_proxy::{LiveBackend, RateKind, Stat};

use super::super::columns::Column;
use super::super::kind::RowKind;
use super::super::process::Moment;
use super::super::value::StatsRow;
use super::total::{ANSWERS, REQUESTS, UPSTREAM_TRAFFIC};
use super::{Http1, Total, mode_name};

/// The row `BACKEND`.
pub(super) fn backend_row(it: &LiveBackend, moment: Moment) -> StatsRow {
    let config = &*it.config;
    let total = Total(&it.counters);
    let mut row = StatsRow::new(RowKind::Backend, (&config.name, "BACKEND"), (config.id, 0));
    row.small(Column::qcur, it.group.queued());
    row.small(Column::qmax, total.peak(Stat::Queued));
    row.small(Column::scur, total.get(Stat::Sessions));
    row.small(Column::smax, total.peak(Stat::Sessions));
    row.small(Column::slim, it.connections_full);
    total.put(&mut row, UPSTREAM_TRAFFIC);
    total.put(&mut row, &[(Column::dreq, Stat::DeniedRequests)]);
    row.small(Column::rate, total.rate(RateKind::Sessions, moment));
    row.small(Column::rate_max, total.rate_max(RateKind::Sessions));
    put_servers(&mut row, it, moment);
    if config.mode == Mode::Http {
        total.put_responses(&mut row);
        total.put(&mut row, &[(Column::req_tot, Stat::Requests)]);
        row.large(Column::cache_lookups, 0);
        row.large(Column::cache_hits, 0);
        if let Some(cookie) = &config.cookie {
            row.text(Column::cookie, &cookie.name);
        }
    }
    total.put_times(&mut row, moment);
    total.put_common(&mut row);
    put_connections(&mut row, it);
    row.text(Column::mode, mode_name(config.mode));
    row.text(Column::algo, algorithm_name(&config.algorithm));
    row
}

/// Connections to all servers of the backend.
fn put_connections(row: &mut StatsRow, it: &LiveBackend) {
    let all = |counter| it.servers.iter().map(|server| Total(&server.counters).get(counter)).sum();
    row.large(Column::connect, all(Stat::ConnectsTried));
    row.large(Column::reuse, all(Stat::Reuses));
    let open = all(Stat::IdleConnections) + all(Stat::Sessions);
    let connections = Http1 {
        open,
        total: all(Stat::ConnectsTried),
        streams: all(Stat::SessionsTotal),
        received: ANSWERS,
        sent: REQUESTS,
    };
    Total(&it.counters).put_protocols(row, it.config.mode, &connections);
}

fn put_servers(row: &mut StatsRow, it: &LiveBackend, moment: Moment) {
    let members = it.group.members();
    let in_use = (0..members.len()).filter(|at| it.group.is_in_use(*at)).map(|at| &members[at]);
    let (now, full) =
        in_use.fold((0, 0), |sum, member| (sum.0 + member.weight_now(), sum.1 + member.weight()));
    let is_up = it.group.usable() > 0 || members.is_empty();
    row.text(Column::status, if is_up { "UP" } else { "DOWN" });
    row.small(Column::weight, now);
    row.small(Column::uweight, full);
    row.small(Column::act, it.group.active());
    row.small(Column::bck, it.group.backups());
    row.small(Column::agg_server_status, 0_u32);
    row.small(Column::agg_server_check_status, 0_u32);
    row.small(Column::agg_check_status, 0_u32);
    put_changes(row, it, moment);
}

/// The time of the backend's last change: that of the latest change of a server.
fn put_changes(row: &mut StatsRow, it: &LiveBackend, moment: Moment) {
    let members = it.group.members();
    let changed = members.iter().map(|member| member.record().changed_since(moment.began)).max();
    let since = moment.now.saturating_duration_since(changed.unwrap_or(moment.began));
    let downs = members.iter().map(|member| member.record().downs).sum();
    row.small(Column::lastchg, since.as_secs());
    row.large(Column::chkdown, downs);
    // The backend is down at most as long as the server with the shortest downtime.
    let down_for = |member: &Member| {
        member.record().downtime(moment.now, member.health() == Health::Down).as_secs()
    };
    if let Some(least) = members.iter().map(down_for).min() {
        row.small(Column::downtime, least);
    }
}

fn algorithm_name(algorithm: &BalanceAlgorithm) -> &'static str {
    match algorithm {
        BalanceAlgorithm::RoundRobin => "roundrobin",
        BalanceAlgorithm::StaticRoundRobin => "static-rr",
        BalanceAlgorithm::LeastConnections => "leastconn",
        BalanceAlgorithm::First => "first",
        BalanceAlgorithm::Source => "source",
        BalanceAlgorithm::Uri { .. } => "uri",
        BalanceAlgorithm::UrlParameter(_) => "url_param",
        BalanceAlgorithm::Field { .. } => "hdr",
        BalanceAlgorithm::Hash(_) => "hash",
        BalanceAlgorithm::Random { .. } => "random",
    }
}
