//! Restores the state of servers from the previous process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::balance::{Admin, Health, Weight};
use fulmar_haproxy::BackendId;

use crate::checks::CheckStatus;
use crate::live::Live;

/// The previous state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The health found by checks; `None`: unknown.
    pub health: Option<Health>,
    /// The administrative state.
    pub admin: Admin,
    /// The weight that an operator set, if it differs from the configured one.
    pub weight: Option<u32>,
    /// The time since the last change.
    pub since: Duration,
    /// The result of the last check.
    pub status: CheckStatus,
    /// False if checks were stopped.
    pub is_checked: bool,
    /// The address, if it differs from the configured one.
    pub address: Option<SocketAddr>,
}

impl Live {
    /// Restores the state of a server. Call it before any thread has started: no thread is
    /// notified.
    pub fn restore(&self, backend: BackendId, server: usize, was: &Restored, now: Instant) {
        let live = &self.backends[backend.0];
        let member = &live.group.members()[server];
        if let Some(health) = was.health {
            live.group.set_health(server, health, now);
        }
        live.group.set_admin(server, was.admin);
        if let Some(weight) = was.weight {
            live.group.set_weight(server, Weight::Absolute(weight));
        }
        if let Some(address) = was.address {
            live.group.set_address(server, address);
        }
        member.set_checked(was.is_checked);
        member.record().changed = now.checked_sub(was.since);
        if let Some(check) = &live.servers[server].config.check {
            let mut state = live.servers[server].check.lock();
            state.finding.status = was.status;
            state.score = match was.health {
                None => check.rise,
                Some(Health::Down) => 0,
                Some(Health::Up | Health::Stopping) => check.rise + check.fall - 1,
            };
        }
    }
}
