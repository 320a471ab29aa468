//! Converts the configuration of load balancing into the types of module `balance`.

use std::time::Duration;

use crate::balance::hash::KeyHasher;
use crate::balance::{GroupPolicy, MemberSettings, PickerRule, ServerGroup};
use fulmar_haproxy::model::{BackendTarget, BalanceAlgorithm, ServerAddress};
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::{BackendConfig, BackendId, Config, FrontendConfig, ServerConfig};

use crate::live::LiveBackend;

/// How the backend selects a server.
pub(crate) fn rule(backend: &BackendConfig) -> PickerRule {
    match backend.algorithm {
        BalanceAlgorithm::RoundRobin => PickerRule::RoundRobin,
        BalanceAlgorithm::StaticRoundRobin => PickerRule::StaticRoundRobin,
        BalanceAlgorithm::LeastConnections => PickerRule::LeastConnections,
        BalanceAlgorithm::First => PickerRule::First,
        BalanceAlgorithm::Random { draws } => PickerRule::Random { draws },
        BalanceAlgorithm::Source
        | BalanceAlgorithm::Uri { .. }
        | BalanceAlgorithm::UrlParameter(_)
        | BalanceAlgorithm::Field { .. }
        | BalanceAlgorithm::Hash(_) => match backend.hash.consistent {
            true => PickerRule::ConsistentHash { balance_factor: backend.hash.balance_factor },
            false => PickerRule::MapHash,
        },
    }
}

/// How the backend hashes keys.
pub fn hasher(backend: &BackendConfig) -> KeyHasher {
    KeyHasher { function: backend.hash.function, avalanche: backend.hash.avalanche }
}

/// The hash of a value (`balance hash`).
pub(crate) fn sample_hash(hasher: KeyHasher, sample: &Sample<'_>) -> u32 {
    match sample {
        Sample::Text(bytes) | Sample::Binary(bytes) => hasher.key(bytes),
        Sample::Int(number) => hasher.key(number.to_string().as_bytes()),
        Sample::Bool(value) => hasher.key(&[u8::from(*value)]),
        Sample::Address(address) => hasher.address(*address),
    }
}

/// The delay before another attempt at the same server (HAProxy's manual, `retries`).
pub(crate) fn retry_delay(backend: &BackendConfig) -> Duration {
    backend.timeouts.connect.map_or(RETRY_DELAY_MAX, |connect| connect.min(RETRY_DELAY_MAX))
}

/// The initial state of a backend's servers.
pub(crate) fn group(
    backend: &BackendConfig,
    connections_full: usize,
    threads: usize,
) -> ServerGroup {
    let policy = GroupPolicy {
        threads,
        all_backups: backend.all_backups,
        connections_full: u32::try_from(connections_full).unwrap_or(u32::MAX),
    };
    ServerGroup::new(policy, backend.servers.iter().map(|server| settings(server)))
}

/// True if a session goes to another server after its `attempt`th attempt (from 1), which was at
/// `server` (HAProxy's manual, `option redispatch`): after every n attempts, if the server is down,
/// or if the algorithm rotates anyway. `is_bound`: a cookie or a rule selected the server.
pub(crate) fn redispatches(
    there: &LiveBackend,
    server: usize,
    attempt: u32,
    is_bound: bool,
) -> bool {
    let backend = &there.config;
    let in_turn = matches!(
        backend.algorithm,
        BalanceAlgorithm::RoundRobin
            | BalanceAlgorithm::StaticRoundRobin
            | BalanceAlgorithm::Random { .. }
    );
    let attempt = i64::from(attempt);
    match i64::from(backend.options.redispatch) {
        0 => false,
        _ if !there.group.members()[server].is_reachable() => true,
        _ if there.group.active() <= 1 => false, // there is no other
        _ if in_turn && !is_bound => true,
        every @ 1.. => attempt % every == 0,
        from_last => {
            let last = i64::from(backend.retries) + 1 + from_last;
            last > 0 && attempt % last == 0
        }
    }
}

fn settings(server: &ServerConfig) -> MemberSettings {
    MemberSettings {
        id: server.id,
        weight: server.weight,
        backup: server.backup,
        disabled: server.disabled || matches!(server.address, ServerAddress::Unresolved(_)),
        connections_max: server.connections_max,
        connections_min: server.connections_min,
        queue_max: server.queue_max,
        slow_start: server.slow_start,
    }
}

/// `fullconn` of a backend. By default, a tenth of the sum of `maxconn` of the frontends that refer
/// to it by name, at least one.
pub(crate) fn connections_full(config: &Config, id: BackendId) -> usize {
    let leads = |frontend: &FrontendConfig| {
        let mut rules = frontend.use_backends.iter();
        frontend.default_backend == Some(id)
            || rules
                .any(|rule| matches!(rule.target, BackendTarget::Backend(target) if target == id))
    };
    let admits =
        |frontend: &FrontendConfig| frontend.connections_max.or(config.global.connections_max);
    let reckoned = || {
        let frontends = config.frontends.iter().filter(|frontend| leads(frontend));
        let all: usize = frontends.filter_map(|frontend| admits(frontend)).sum();
        all.div_ceil(10).max(1)
    };
    config.backends[id.0].full_connections.unwrap_or_else(reckoned)
}

/// Without a shorter `timeout connect`.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
