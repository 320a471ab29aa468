//! Commands about servers.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::ServerAddress;
use fulmar_proxy::balance::{Admin, Health, Weight};

use fulmar_proxy::CheckStatus;

use super::call::CommandCall;
use super::context::{CommandReply, Pieces, ServerRef};
use crate::statistics::change::find_backend;

type ServerResult = Result<String, &'static str>;

fn with(
    call: &CommandCall<'_>,
    act: impl FnOnce(&CommandCall<'_>, ServerRef<'_>) -> ServerResult,
) -> CommandReply {
    match call.context.server(call.rest.first()).and_then(|place| act(call, place)) {
        Ok(text) => CommandReply::Text(text),
        Err(text) => text.into(),
    }
}

const DONE: ServerResult = Ok(String::new());

pub(super) fn disable(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| {
        call.context.live.set_admin(it.id, it.at, Admin::Maintenance, call.now);
        DONE
    })
}

pub(super) fn enable(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| {
        call.context.live.set_admin(it.id, it.at, Admin::Ready, call.now);
        DONE
    })
}

pub(super) fn disable_health(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| {
        call.context.live.set_checked(it.id, it.at, false);
        DONE
    })
}

pub(super) fn enable_health(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| {
        if it.server.config.check.is_none() {
            return Err("Health check was not configured on this server, cannot enable.\n");
        }
        call.context.live.set_checked(it.id, it.at, true);
        DONE
    })
}

pub(super) fn shutdown_sessions(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| {
        call.context.live.kill_sessions(it.id, it.at);
        DONE
    })
}

pub(super) fn get_weight(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |_, it| {
        let member = &it.backend.group.members()[it.at];
        Ok(format!("{} (initial {})\n", member.weight(), it.server.config.weight))
    })
}

pub(super) fn set_weight_of(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| set_weight(call, it, call.word(1)))
}

pub(super) fn set_maxconn(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| {
        let text = call.word(1).ok_or("Require <maxconn>.\n")?;
        let max: i64 = number(text).ok_or("maxconn string empty or preceded by garbage")?;
        let max = u32::try_from(max.max(0)).unwrap_or(u32::MAX);
        call.context.live.set_connections_max(it.id, it.at, max);
        DONE
    })
}

pub(super) fn set(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |call, it| match call.word(1) {
        Some("state") => set_state(call, it),
        Some("health") => set_health(call, it),
        Some("weight") => set_weight(call, it, call.word(2)),
        Some("addr") => set_address(call, it),
        Some("agent") => Err("agent checks are not enabled on this server.\n"),
        Some("agent-addr" | "agent-port" | "agent-send") => {
            Err("agent checks are not enabled on this server\n")
        }
        Some("check-addr" | "check-port") if it.server.config.check.is_none() => {
            Err("health checks are not enabled on this server")
        }
        Some("check-addr") => set_check_address(call, it),
        Some("check-port") => {
            let text = call.word(2).ok_or("set server <b>/<s> check-port requires a port.\n")?;
            it.server.check_address.set(None, Some(port_of_check(text)?));
            DONE
        }
        Some("fqdn") => {
            Err("set server <b>/<s> fqdn failed because no resolution is configured.\n")
        }
        Some("ssl") => {
            Err("'set server <srv> ssl' cannot be set.  default-server should define ssl \
                 settings\n")
        }
        _ => Err("usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | \
                  agent-send | check-addr | check-port | fqdn | health | ssl | state | weight\n"),
    })
}

fn set_check_address(call: &CommandCall<'_>, it: ServerRef<'_>) -> ServerResult {
    let text = call
        .word(2)
        .ok_or("set server <b>/<s> check-addr requires an address and optionally a port.\n")?;
    let Ok(address) = text.parse() else { return Ok(format!("invalid addr '{text}'")) };
    let port = match call.word(3) {
        Some("port") => Some(port_of_check(call.word(4).unwrap_or_default())?),
        _ => None,
    };
    it.server.check_address.set(Some(address), port);
    DONE
}

fn port_of_check(text: &str) -> Result<u16, &'static str> {
    let port: i64 = text.parse().map_err(|_| "provided port is not an integer")?;
    u16::try_from(port).ok().filter(|port| *port > 0).ok_or("provided port is invalid")
}

fn set_state(call: &CommandCall<'_>, it: ServerRef<'_>) -> ServerResult {
    let admin = match call.word(2) {
        Some("ready") => Admin::Ready,
        Some("drain") => Admin::Drain,
        Some("maint") => Admin::Maintenance,
        _ => return Err("'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n"),
    };
    call.context.live.set_admin(it.id, it.at, admin, call.now);
    DONE
}

fn set_health(call: &CommandCall<'_>, it: ServerRef<'_>) -> ServerResult {
    if it.server.config.follows.is_some() {
        return Err("cannot change health on a tracking server.\n");
    }
    let health = match call.word(2) {
        Some("up") => Health::Up,
        Some("stopping") => Health::Stopping,
        Some("down") => Health::Down,
        _ => return Err("'set server <srv> health' expects 'up', 'stopping', or 'down'.\n"),
    };
    call.context.live.set_health(it.id, it.at, health, call.now);
    DONE
}

/// A number from 0 to 256, or a percentage of the configured weight.
fn set_weight(call: &CommandCall<'_>, it: ServerRef<'_>, text: Option<&str>) -> ServerResult {
    let text = text.ok_or("Require <weight> or <weight%>.\n")?;
    let weight = match text.strip_suffix('%') {
        Some(percent) => {
            let percent = whole(percent)?;
            let percent = u32::try_from(percent).map_err(|_| "Relative weight must be positive.\n");
            Weight::Percent(percent?)
        }
        None => {
            let weight = whole(text)?;
            match u32::try_from(weight) {
                Ok(weight @ 0..=256) => Weight::Absolute(weight),
                _ => return Err("Absolute weight can only be between 0 and 256 inclusive.\n"),
            }
        }
    };
    call.context.live.set_weight(it.id, it.at, weight);
    DONE
}

fn set_address(call: &CommandCall<'_>, it: ServerRef<'_>) -> ServerResult {
    let text = call
        .word(2)
        .ok_or("set server <b>/<s> addr requires an address and optionally a port.\n")?;
    let Ok(ip) = text.parse::<IpAddr>() else {
        return Ok(format!("Invalid addr '{text}'{BY}\n"));
    };
    let Some(old) = address(it) else {
        return Err("The address of this server is not one that can be changed.\n");
    };
    let port = match (call.word(3), call.word(4)) {
        (Some("port"), Some(port)) => match port.parse::<u16>() {
            Ok(port) => Some(port),
            Err(_) => return Ok(format!("provided port is invalid{BY}\n")),
        },
        _ => None,
    };
    let new = SocketAddr::new(ip, port.unwrap_or_else(|| old.port()));
    let mut out = match old.ip() == new.ip() {
        true => "no need to change the addr".to_owned(),
        false => format!("IP changed from '{}' to '{}'", old.ip(), new.ip()),
    };
    match port {
        None => {}
        Some(_) if new.port() == old.port() => out += ", no need to change the port",
        Some(_) => out += &format!(", port changed from '{}' to '{}'", old.port(), new.port()),
    }
    if new != old {
        call.context.live.set_address(it.id, it.at, new);
    }
    Ok(format!("{out}{BY}\n"))
}

fn address(it: ServerRef<'_>) -> Option<SocketAddr> {
    match (it.backend.group.members()[it.at].address(), &it.server.config.address) {
        (Some(address), _) => Some(address),
        (None, ServerAddress::Tcp(address)) => Some(*address),
        (None, _) => None,
    }
}

/// A weight without trailing characters.
fn whole(text: &str) -> Result<i64, &'static str> {
    let weight = number(text).ok_or("Empty weight string empty or preceded by garbage")?;
    match text.ends_with(|letter: char| letter.is_ascii_digit()) {
        true => Ok(weight),
        false => Err("Trailing garbage in weight string"),
    }
}

/// The leading digits of a text, as C reads them; trailing characters are ignored.
fn number(text: &str) -> Option<i64> {
    let sign = usize::from(text.starts_with(['-', '+']));
    let rest = &text[sign..];
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    text[..sign + digits].parse().ok()
}

pub(super) fn show_state(call: &mut CommandCall<'_>) -> CommandReply {
    let head = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state \
                srv_uweight srv_iweight srv_time_since_last_change srv_check_status \
                srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id \
                srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port \
                srv_check_addr srv_agent_addr srv_agent_port\n";
    each(call, head.to_owned(), write_state)
}

pub(super) fn show_conn(call: &mut CommandCall<'_>) -> CommandReply {
    let head = format!(
        "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb \
         safe_nb idle_lim idle_cur idle_per_thr[{}]\n",
        call.context.live.threads
    );
    each(call, head, write_conn)
}

type Writer = fn(&CommandCall<'_>, ServerRef<'_>, &mut String);

/// One line per server, of one backend or of all, in pieces.
fn each(call: &CommandCall<'_>, head: String, write: Writer) -> CommandReply {
    let live = &call.context.live;
    let (mut backend, end) = match call.word(0) {
        None => (0, live.backends.len()),
        Some(name) => match find_backend(live, name) {
            None => return "Can't find backend.\n".into(),
            Some(id) => (id.0, id.0 + 1),
        },
    };
    let (mut server, mut head) = (0, Some(head));
    let mut console_settings = *call.console_settings;
    let pieces: Pieces = Box::new(move |context, now, out| {
        out.push_str(&head.take().unwrap_or_default());
        for _ in 0..ROWS {
            while backend < end && server >= context.live.backends[backend].servers.len() {
                (backend, server) = (backend + 1, 0);
            }
            if backend >= end {
                return false;
            }
            let it = &context.live.backends[backend];
            let place = ServerRef {
                id: BackendId(backend),
                at: server,
                backend: it,
                server: &it.servers[server],
            };
            write(
                &CommandCall {
                    context,
                    console_settings: &mut console_settings,
                    now,
                    rest: &[],
                    payload: None,
                },
                place,
                out,
            );
            server += 1;
        }
        true
    });
    CommandReply::Pieces(pieces)
}

fn write_state(call: &CommandCall<'_>, it: ServerRef<'_>, out: &mut String) {
    let (config, member) = (&it.server.config, &it.backend.group.members()[it.at]);
    let (address, port) = match address(it) {
        Some(address) => (address.ip().to_string(), address.port()),
        None => ("-".to_owned(), 0),
    };
    // `srv_op_state` 0: down, 2: up, 3: stopping. `srv_admin_state` 1: maintenance, 2: inherited
    // maintenance, 4: configured maintenance, 8: drain, 16: inherited drain.
    let health = match (member.admin(), member.health()) {
        (Admin::Maintenance, _) | (_, Health::Down) => 0,
        (_, Health::Stopping) => 3,
        (_, Health::Up) => 2,
    };
    let decided = match member.admin() {
        Admin::Ready => 0,
        Admin::Drain => 8,
        Admin::Maintenance => 1,
    };
    let inherited = call.context.live.tracked_state(it.id, it.at);
    let admin = decided
        + if config.disabled { 4 } else { 0 }
        + if inherited.is_maintenance { 2 } else { 0 }
        + if inherited.is_drained { 16 } else { 0 };
    let changed = member.record().changed_since(call.context.process.began);
    let since = call.now.saturating_duration_since(changed).as_secs();
    let state = it.server.check.state();
    let is_checked = config.check.is_some();
    // 2: configured, 4: enabled, 8: paused by maintenance.
    let check_state = match (is_checked, member.is_checked(), member.admin()) {
        (false, ..) => 0,
        (true, false, _) => 2,
        (true, true, Admin::Maintenance) => 14,
        (true, true, _) => 6,
    };
    let (status, result) = check_numbers(it);
    let (address_of_checks, port_of_checks) = it.server.check_address.get();
    writeln!(
        out,
        "{} {} {} {} {address} {health} {admin} {} {} {since} {status} {result} {} {check_state} \
         0 0 0 - {port} - {} {} {} - 0",
        it.backend.config.id,
        it.backend.config.name,
        config.id,
        config.name,
        member.weight(),
        config.weight,
        state.score,
        u8::from(config.tls.is_some()),
        port_of_checks.unwrap_or(0),
        address_of_checks.map_or_else(|| "-".to_owned(), |address| address.to_string()),
    )
    .expect(TAKES);
}

/// Result of the last check in HAProxy's numbers: its status, and 2 (failed), 3 (passed) or 4
/// (passed conditionally).
fn check_numbers(it: ServerRef<'_>) -> (u8, u8) {
    let short = it.server.check.state().finding.status.short();
    match (it.server.config.check.is_some(), STATUSES.iter().find(|known| known.0 == short)) {
        (false, _) => (1, 0),
        (true, Some((_, status, result))) => (*status, *result),
        (true, None) => (2, 0),
    }
}

/// The check status with this HAProxy number.
pub(crate) fn check_status(number: u8) -> Option<CheckStatus> {
    let (short, ..) = STATUSES.iter().find(|(_, known, _)| *known == number)?;
    CheckStatus::named(short)
}

fn write_conn(_: &CommandCall<'_>, it: ServerRef<'_>, out: &mut String) {
    let (config, member) = (&it.server.config, &it.backend.group.members()[it.at]);
    let (address, port) = match address(it) {
        Some(address) => (address.ip().to_string(), address.port()),
        None => ("-".to_owned(), 0),
    };
    let idle: Vec<u64> =
        it.server.counters.iter().map(|it| it.get(fulmar_proxy::Stat::IdleConnections)).collect();
    let total: u64 = idle.iter().sum();
    let peaks = it.server.counters.iter().map(|it| it.peak(fulmar_proxy::Stat::Sessions));
    write!(
        out,
        "{}/{} {}/{} {address} {port} - {} {} {} {} 0 {total} {} {total}",
        it.backend.config.name,
        config.name,
        it.backend.config.id,
        config.id,
        config.idle_timeout.as_millis(),
        member.sessions(),
        peaks.sum::<u64>(),
        member.sessions(),
        config.idle_max.map_or_else(|| "-1".to_owned(), |max| max.to_string()),
    )
    .expect(TAKES);
    idle.iter().for_each(|count| write!(out, " {count}").expect(TAKES));
    out.push('\n');
}

/// Check statuses: the name, HAProxy's number, and HAProxy's number of the result.
const STATUSES: &[(&str, u8, u8)] = &[
    ("INI", 2, 0),
    ("SOCKERR", 4, 2),
    ("L4OK", 6, 3),
    ("L4TOUT", 7, 2),
    ("L4CON", 8, 2),
    ("L6OK", 9, 3),
    ("L6TOUT", 10, 2),
    ("L6RSP", 11, 2),
    ("L7TOUT", 12, 2),
    ("L7RSP", 13, 2),
    ("L7OK", 15, 3),
    ("L7OKC", 16, 4),
    ("L7STS", 17, 2),
];

/// Lines per piece.
const ROWS: usize = 64;
const BY: &str = " by 'stats socket command'";
const TAKES: &str = "a String takes everything";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        let table = [
            ("12", Some(12)),
            ("-3", Some(-3)),
            ("12abc", Some(12)),
            ("abc", None),
            ("", None),
            ("-", None),
        ];
        for (text, value) in table {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
