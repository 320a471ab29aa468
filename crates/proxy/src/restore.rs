//! Servers that begin as they were in the process before.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::balance::{Admin, Health, Weight};
use fulmar_haproxy::BackendId;

use crate::checks::CheckStatus;
use crate::live::Live;

/// What a server was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What checks had found; `None`: nothing that is known.
    pub health: Option<Health>,
    /// What an operator had decided.
    pub admin: Admin,
    /// The weight that an operator had asked for, if it is another than the configured one.
    pub weight: Option<u32>,
    /// How long it had been as it was.
    pub since: Duration,
    /// What the last check had found.
    pub status: CheckStatus,
    /// False: its checks had been stopped.
    pub is_checked: bool,
    /// Where it was, if that is not where the configuration says.
    pub address: Option<SocketAddr>,
}

impl Live {
    /// A server begins so. Called before any thread has started: nobody is told.
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
