//! Restores the state of servers at the start from files in the format of `show servers state`
//! (`load-server-state-from-file`; HAProxy's management guide, §9.3).
//!
//! A changed configuration takes precedence: if `disabled` or `weight` of a server has changed in
//! the configuration, the operator's earlier decision is dropped.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use fulmar_haproxy::model::{ServerAddress, StateSource};
use fulmar_haproxy::{BackendId, ServerConfig};
use fulmar_proxy::balance::{Admin, Health};
use fulmar_proxy::{CheckStatus, Live, Restored};

use crate::runtime::check_status;

/// Reads all state files of the configuration. Returns a warning for each file or line that is
/// skipped.
pub(crate) fn restore(live: &Live, now: Instant) -> Vec<String> {
    let mut wrong = Vec::new();
    let wants = |it: &fulmar_proxy::LiveBackend| it.config.states == Some(StateSource::Global);
    let shared = live.config.global.state_file.as_ref().filter(|_| live.backends.iter().any(wants));
    let shared = shared.and_then(|file| match States::read(file) {
        Ok(states) => Some(states),
        Err(why) => {
            wrong.push(format!("server state file: {why}"));
            None
        }
    });
    for (at, backend) in live.backends.iter().enumerate() {
        let own;
        let states = match &backend.config.states {
            None => continue,
            Some(StateSource::Global) => shared.as_ref(),
            Some(StateSource::Local(file)) => match States::read(file) {
                Ok(states) => {
                    own = states;
                    Some(&own)
                }
                Err(why) => {
                    let name = &backend.config.name;
                    wrong.push(format!("server state file of backend '{name}': {why}"));
                    None
                }
            },
        };
        let Some(states) = states else { continue };
        for (server, it) in backend.servers.iter().enumerate() {
            let name = &it.config.name;
            let Some(fields) = states.of(&backend.config.name, name) else { continue };
            match parse_state(&fields, &it.config) {
                Ok(parse_state) => live.restore(BackendId(at), server, &parse_state, now),
                Err(why) => {
                    let backend = &backend.config.name;
                    wrong
                        .push(format!("state of server '{backend}/{name}' is not restored: {why}"));
                }
            }
        }
    }
    wrong
}

/// The lines of a file, by backend and server. The first line of a server is used.
struct States(HashMap<(String, String), String>);

impl States {
    fn read(file: &Path) -> Result<Self, String> {
        let name = file.display();
        let text = fs::read(file).map_err(|error| format!("cannot read '{name}': {error}"))?;
        if text.len() > FILE_SIZE_MAX {
            return Err(format!("'{name}' is longer than {FILE_SIZE_MAX} bytes"));
        }
        Self::parse(&String::from_utf8_lossy(&text)).map_err(|why| format!("'{name}' {why}"))
    }

    /// The first line is the version; later lines that begin with `#` are comments.
    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(version, _)| version.trim() != VERSION) {
            return Err(format!("the first line is not the version '{VERSION}'"));
        }
        let mut known = HashMap::new();
        for (line, number) in lines {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            if fields.len() < FIELDS_MIN {
                return Err(format!("line {number} has too few fields"));
            }
            let key = (fields[1].to_owned(), fields[3].to_owned());
            known.entry(key).or_insert_with(|| line.to_owned());
        }
        Ok(Self(known))
    }

    fn of(&self, backend: &str, server: &str) -> Option<Vec<&str>> {
        let line = self.0.get(&(backend.to_owned(), server.to_owned()))?;
        Some(line.split_ascii_whitespace().collect())
    }
}

/// The state that a line holds for a server with this configuration.
fn parse_state(fields: &[&str], config: &ServerConfig) -> Result<Restored, String> {
    let health = match fields[field::HEALTH] {
        "0" => Health::Down,
        "1" | "2" => Health::Up,
        "3" => Health::Stopping,
        other => return Err(format!("'{other}' is not a valid srv_op_state")),
    };
    let admin: u32 = number(fields, field::ADMIN, "srv_admin_state")?;
    let asked: u32 = number(fields, field::WEIGHT, "srv_uweight")?;
    let configured: u32 = number(fields, field::CONFIGURED_WEIGHT, "srv_iweight")?;
    if asked > WEIGHT_MAX {
        return Err(format!("'{asked}' is not a valid srv_uweight"));
    }
    let since: u64 = number(fields, field::SINCE, "srv_time_since_last_change")?;
    let status: u8 = number(fields, field::STATUS, "srv_check_status")?;
    let checks: u32 = number(fields, field::CHECKS, "srv_check_state")?;
    let was_disabled = admin & bit::DISABLED != 0;
    let is_out = match was_disabled == config.disabled {
        true => admin & bit::MAINTENANCE != 0,
        false => config.disabled,
    };
    // A weight of 0 also means drain. That ends when the configured weight becomes another one.
    let keeps_drained = configured > 0 || config.weight == 0;
    let admin = match (is_out, admin & bit::DRAIN != 0 && keeps_drained) {
        (true, _) => Admin::Maintenance,
        (false, true) => Admin::Drain,
        (false, false) => Admin::Ready,
    };
    let had_checks = checks & bit::CHECKS_CONFIGURED != 0;
    Ok(Restored {
        // A server in maintenance is listed as down; that is not its health.
        health: (health != Health::Down || !is_in_maintenance(fields)).then_some(health),
        admin,
        weight: (configured == config.weight && asked != configured).then_some(asked),
        since: Duration::from_secs(since),
        status: check_status(status).unwrap_or(CheckStatus::Initializing),
        is_checked: !had_checks || checks & bit::CHECKS_ENABLED != 0,
        address: address(fields, config)?,
    })
}

/// True if the line reports maintenance.
fn is_in_maintenance(fields: &[&str]) -> bool {
    fields[field::ADMIN].parse::<u32>().is_ok_and(|admin| admin & bit::OUT != 0)
}

/// An address or port that differs from the configured one.
fn address(fields: &[&str], config: &ServerConfig) -> Result<Option<SocketAddr>, String> {
    let ServerAddress::Tcp(configured) = config.address else { return Ok(None) };
    let host = config.written_address.rsplit_once(':').map_or("", |(host, _)| host);
    let is_named = host.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
    let ip = fields[field::ADDRESS].parse::<IpAddr>().ok().filter(|_| is_named);
    let port: u16 = number(fields, field::PORT, "srv_port")?;
    let port = if port == 0 { configured.port() } else { port };
    let parse_state = SocketAddr::new(ip.unwrap_or_else(|| configured.ip()), port);
    Ok((parse_state != configured).then_some(parse_state))
}

fn number<T: FromStr>(fields: &[&str], at: usize, name: &str) -> Result<T, String> {
    fields[at].parse().map_err(|_| format!("'{}' is not a valid {name}", fields[at]))
}

/// Positions of fields in a line.
mod field {
    pub(super) const ADDRESS: usize = 4;
    pub(super) const HEALTH: usize = 5;
    pub(super) const ADMIN: usize = 6;
    pub(super) const WEIGHT: usize = 7;
    pub(super) const CONFIGURED_WEIGHT: usize = 8;
    pub(super) const SINCE: usize = 9;
    pub(super) const STATUS: usize = 10;
    pub(super) const CHECKS: usize = 13;
    pub(super) const PORT: usize = 18;
}

/// Bits of `srv_admin_state` and `srv_check_state`.
mod bit {
    pub(super) const MAINTENANCE: u32 = 1;
    pub(super) const DISABLED: u32 = 4;
    pub(super) const DRAIN: u32 = 8;
    /// All maintenance bits.
    pub(super) const OUT: u32 = 0x63;
    pub(super) const CHECKS_CONFIGURED: u32 = 2;
    pub(super) const CHECKS_ENABLED: u32 = 4;
}

const VERSION: &str = "1";
/// Up to the port. HAProxy has appended further fields in later versions.
const FIELDS_MIN: usize = field::PORT + 1;
const WEIGHT_MAX: u32 = 256;
/// A line takes about 100 bytes; a few hundred thousand servers fit.
const FILE_SIZE_MAX: usize = 64 * 1024 * 1024;
