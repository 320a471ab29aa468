//! Servers that take their health from another server (`track`).
//!
//! A tracking server is down while the tracked one is down or in maintenance, and accepts no new
//! sessions while that one is drained or stopping. Tracking can be chained; the configuration
//! rejects cycles.

use std::collections::HashMap;
use std::time::Instant;

use crate::balance::{Admin, Health};
use fulmar_haproxy::{BackendId, Config, ServerId};

use crate::checks::{ServerEvent, ServerReport};
use crate::live::Live;

/// Tracking servers, by the backend and index of the tracked one.
pub(crate) type TrackingServers = HashMap<(usize, usize), Vec<(BackendId, usize)>>;

/// The administrative states of the servers that a server tracks, directly or indirectly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackedState {
    /// One of them is drained.
    pub is_drained: bool,
    /// One of them is in maintenance.
    pub is_maintenance: bool,
}

/// Collects the tracking servers of each tracked server.
pub(crate) fn tracking_servers(config: &Config) -> TrackingServers {
    let mut tracking_servers = TrackingServers::new();
    for (backend, it) in config.backends.iter().enumerate() {
        for (server, it) in it.servers.iter().enumerate() {
            if let Some((of, tracked)) = it.follows {
                let list = tracking_servers.entry((of.0, tracked.0)).or_default();
                list.push((BackendId(backend), server));
            }
        }
    }
    tracking_servers
}

impl Live {
    /// Sets the initial health of all tracking servers. Call it before any thread has started.
    pub fn inherit_all_health(&self, now: Instant) {
        for (backend, server) in self.tracking_servers.keys() {
            self.pass_on_health(BackendId(*backend), *server, now);
        }
    }

    /// The tracked server as `backend/server`; empty without one.
    pub fn tracked_name(&self, backend: BackendId, server: usize) -> String {
        let name = |(backend, server): (BackendId, ServerId)| {
            let backend = &self.backends[backend.0];
            format!("{}/{}", backend.config.name, backend.servers[server.0].config.name)
        };
        self.backends[backend.0].servers[server].config.follows.map(name).unwrap_or_default()
    }

    /// The administrative states of the servers that a server tracks.
    pub fn tracked_state(&self, backend: BackendId, server: usize) -> TrackedState {
        let mut state = TrackedState::default();
        let mut at = (backend, server);
        while let Some((backend, server)) = self.backends[at.0.0].servers[at.1].config.follows {
            at = (backend, server.0);
            let admin = self.backends[backend.0].group.members()[server.0].admin();
            state.is_drained |= admin == Admin::Drain;
            state.is_maintenance |= admin == Admin::Maintenance;
        }
        state
    }

    /// Passes the health of a server to the servers that track it, recursively.
    pub(crate) fn pass_on_health(&self, backend: BackendId, server: usize, now: Instant) {
        let Some(tracking_servers) = self.tracking_servers.get(&(backend.0, server)) else {
            return;
        };
        let tracked = &self.backends[backend.0].group.members()[server];
        let health = match (tracked.admin(), tracked.health()) {
            (Admin::Maintenance, _) | (_, Health::Down) => Health::Down,
            (Admin::Drain, _) | (_, Health::Stopping) => Health::Stopping,
            (Admin::Ready, Health::Up) => Health::Up,
        };
        for (backend, server) in tracking_servers.iter().copied() {
            let before = self.backends[backend.0].group.members()[server].health();
            if before != health {
                let change = self.put_health(backend, server, health, now);
                self.checks.send(ServerReport {
                    backend,
                    server,
                    news: ServerEvent::Tracked(change),
                });
                self.pass_on_health(backend, server, now);
            }
        }
    }
}
