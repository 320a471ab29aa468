//! Rows of servers.

use fulmar_haproxy::model::{Mode, ServerAddress};
use fulmar_haproxy::{BackendId, ServerConfig};
use fulmar_proxy::balance::{Admin, Health, Member};
use fulmar_proxy::{CheckState, Live, LiveBackend, LiveServer, RateKind, Stat, TrackedState};

use super::super::columns::Column;
use super::super::kind::RowKind;
use super::super::process::Moment;
use super::super::value::StatsRow;
use super::total::UPSTREAM_TRAFFIC;
use super::{Total, mode_name};

/// The state of a server.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    admin: Admin,
    /// State inherited from tracked servers.
    inherited: TrackedState,
    health: Health,
    is_checked: bool,
    /// The tracked server, as `backend/server`.
    leader: Option<String>,
    score: u32,
    limits: (u32, u32), // rise, fall
}

impl ServerStatus {
    /// The current state.
    pub fn of(live: &Live, backend: BackendId, at: usize) -> Self {
        let it = &live.backends[backend.0];
        let (server, member) = (&it.servers[at], &it.group.members()[at]);
        let is_checked = server.config.check.is_some() && member.is_checked();
        let score = server.check.state().score;
        let limits = server.config.check.as_ref().map_or((0, 0), |it| (it.rise, it.fall));
        let (admin, health) = (member.admin(), member.health());
        let inherited = live.tracked_state(backend, at);
        let leader = server.config.follows.map(|_| live.tracked_name(backend, at));
        Self { admin, inherited, health, is_checked, leader, score, limits }
    }

    /// True if an operator has put it, or a tracked server, into maintenance.
    pub fn is_maintenance(&self) -> bool {
        self.admin == Admin::Maintenance || self.inherited.is_maintenance
    }

    /// True if it is usable, or would be without an operator's decision.
    pub fn is_up(&self) -> bool {
        !self.is_maintenance() && self.health != Health::Down
    }

    /// The value of the column `status`.
    pub fn text(&self) -> String {
        let (rise, fall) = self.limits;
        let is_falling = self.is_checked && self.score + 1 < rise + fall;
        let is_drained = self.admin == Admin::Drain || self.inherited.is_drained;
        let word = match (self.admin, self.health) {
            (Admin::Maintenance, _) => "MAINT",
            _ if self.inherited.is_maintenance
                && let Some(leader) = &self.leader =>
            {
                return format!("MAINT (via {leader})");
            }
            (_, Health::Down) if self.is_checked && self.score > 0 => {
                return format!("DOWN {}/{rise}", self.score);
            }
            (_, Health::Down) => "DOWN",
            _ if is_drained => "DRAIN",
            (_, Health::Stopping) => "NOLB",
            _ if !self.is_checked && self.leader.is_none() => "no check",
            _ if is_falling && self.score >= rise => {
                return format!("UP {}/{fall}", self.score + 1 - rise);
            }
            _ => "UP",
        };
        word.to_owned()
    }
}

/// The row of a server.
pub(super) fn server_row(
    backend: &LiveBackend,
    server: &LiveServer,
    member: &Member,
    state: &ServerStatus,
    moment: Moment,
) -> StatsRow {
    let (proxy, config) = (&*backend.config, &*server.config);
    let total = Total(&server.counters);
    let mut row =
        StatsRow::new(RowKind::Server, (&proxy.name, &config.name), (proxy.id, config.id));
    row.small(Column::qcur, member.queued());
    row.small(Column::qmax, total.peak(Stat::Queued));
    row.small(Column::scur, member.sessions());
    row.small(Column::smax, total.peak(Stat::Sessions));
    if member.connections_max() > 0 {
        row.small(Column::slim, member.connections_max());
    }
    if config.queue_max > 0 {
        row.small(Column::qlimit, config.queue_max);
    }
    total.put(&mut row, UPSTREAM_TRAFFIC);
    total.put(&mut row, &[(Column::connect, Stat::ConnectsTried), (Column::reuse, Stat::Reuses)]);
    row.small(Column::rate, total.rate(RateKind::Sessions, moment));
    row.small(Column::rate_max, total.rate_max(RateKind::Sessions));
    put_state(&mut row, member, state);
    put_changes(&mut row, server, member, state, moment);
    put_check(&mut row, server, state);
    put_connections(&mut row, server, member);
    if proxy.mode == Mode::Http {
        total.put_responses(&mut row);
        total.put(&mut row, &[(Column::req_tot, Stat::Requests)]);
        if let Some(cookie) = &config.cookie {
            row.text(Column::cookie, cookie);
        }
    }
    total.put_times(&mut row, moment);
    total.put_common(&mut row);
    row.text(Column::addr, &address_text(config, member));
    row.text(Column::mode, mode_name(proxy.mode));
    row
}

fn put_state(row: &mut StatsRow, member: &Member, state: &ServerStatus) {
    row.text(Column::status, &state.text());
    if let Some(leader) = &state.leader {
        row.text(Column::tracked, leader);
    }
    row.small(Column::weight, member.weight_now());
    row.small(Column::uweight, member.weight());
    if member.is_starting() {
        row.small(Column::throttle, member.throttle());
    }
    row.small(Column::act, u32::from(!member.is_backup()));
    row.small(Column::bck, u32::from(member.is_backup()));
}

/// The time of the last change, the number of changes, and the downtime.
fn put_changes(
    row: &mut StatsRow,
    server: &LiveServer,
    member: &Member,
    state: &ServerStatus,
    moment: Moment,
) {
    let record = member.record();
    let changed = record.changed_since(moment.began);
    row.small(Column::lastchg, moment.now.saturating_duration_since(changed).as_secs());
    if server.config.check.is_none() {
        return;
    }
    row.large(Column::chkfail, record.checks_failed);
    row.large(Column::chkdown, record.downs);
    if server.config.observe.is_some() {
        row.large(Column::hanafail, record.error_runs);
    }
    let down_for = record.downtime(moment.now, state.health == Health::Down);
    row.small(Column::downtime, down_for.as_secs());
}

/// The result of the last check.
fn put_check(row: &mut StatsRow, server: &LiveServer, state: &ServerStatus) {
    if !state.is_checked || state.is_maintenance() {
        return;
    }
    let (rise, fall) = state.limits;
    let CheckState { finding, score, .. } = server.check.state();
    row.text(Column::check_status, finding.status.short());
    row.text(Column::check_desc, finding.status.description());
    row.text(Column::last_chk, &finding.info);
    if finding.status.has_code() {
        row.small(Column::check_code, u32::from(finding.code));
    }
    if let Some(duration) = finding.duration {
        row.large(Column::check_duration, u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }
    row.small(Column::check_rise, rise);
    row.small(Column::check_fall, fall);
    row.small(Column::check_health, score);
}

fn put_connections(row: &mut StatsRow, server: &LiveServer, member: &Member) {
    let idle = Total(&server.counters).get(Stat::IdleConnections);
    row.small(Column::srv_icur, idle);
    if let Some(max) = server.config.idle_max {
        row.small(Column::src_ilim, max);
    }
    row.small(Column::idle_conn_cur, 0_u32);
    row.small(Column::safe_conn_cur, idle);
    row.small(Column::used_conn_cur, member.sessions());
    row.small(Column::need_conn_est, u64::from(member.sessions()));
}

/// A server's address: the one set at run time, or the configured one.
pub fn address_text(server: &ServerConfig, member: &Member) -> String {
    match (member.address(), &server.address) {
        (Some(address), _) => address.to_string(),
        (None, ServerAddress::Tcp(address)) => address.to_string(),
        (None, ServerAddress::Unix(_)) => "unix".to_owned(),
        (None, ServerAddress::Abstract(name)) => format!("abns@{name}"),
        (None, ServerAddress::Mapped { address, offset }) if address.is_ipv6() => {
            format!("[{address}]:{offset:+}")
        }
        (None, ServerAddress::Mapped { address, offset }) => format!("{address}:{offset:+}"),
        (None, ServerAddress::Unresolved(name)) => name.clone(),
    }
}
