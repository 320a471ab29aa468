//! Changes of servers at run time: by operators, by checks, and by observed traffic.
//!
//! Each change updates the state that threads share, wakes the affected threads, and reports to the
//! check thread, which writes the log lines.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::balance::{Admin, Health, Weight};
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::Observe;

use crate::checks::{Observation, ServerEvent, ServerReport};
use crate::live::Live;

/// A change of a server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthChange {
    pub(crate) health: Health,
    /// Number of sessions that waited for it and are redispatched.
    pub(crate) requeued: u32,
    /// It was the last usable server.
    pub(crate) leaves_none: bool,
}

impl Live {
    /// `set server ... state`, `enable server`, `disable server`. A server that leaves maintenance
    /// is up until a check fails; a check follows soon.
    pub fn set_admin(&self, backend: BackendId, server: usize, admin: Admin, now: Instant) {
        let live = &self.backends[backend.0];
        let (old, usable) = (live.group.members()[server].admin(), live.group.usable());
        if old == Admin::Maintenance && admin != old && live.servers[server].config.check.is_some()
        {
            live.group.set_health(server, Health::Up, now);
        }
        live.group.set_admin(server, admin);
        if admin == Admin::Maintenance && live.servers[server].config.shutdown_when_down {
            self.kill_sessions(backend, server);
        }
        self.wake_waiting(backend);
        let leaves_none = usable > 0 && live.group.usable() == 0;
        let news = ServerEvent::Decided { old, new: admin, leaves_none };
        self.checks.send(ServerReport { backend, server, news });
        self.pass_on_health(backend, server, now);
    }

    /// `set server ... health`: until a check changes it.
    pub fn set_health(&self, backend: BackendId, server: usize, health: Health, now: Instant) {
        let old = self.backends[backend.0].group.members()[server].health();
        if old != health {
            let change = self.put_health(backend, server, health, now);
            self.checks.send(ServerReport { backend, server, news: ServerEvent::Forced(change) });
            self.pass_on_health(backend, server, now);
        }
    }

    /// `enable health`, `disable health`.
    pub fn set_checked(&self, backend: BackendId, server: usize, checked: bool) {
        self.backends[backend.0].group.members()[server].set_checked(checked);
    }

    /// `set server ... weight`, `set weight`.
    pub fn set_weight(&self, backend: BackendId, server: usize, weight: Weight) {
        self.backends[backend.0].group.set_weight(server, weight);
        self.wake_waiting(backend);
    }

    /// `set maxconn server`; 0: no limit.
    pub fn set_connections_max(&self, backend: BackendId, server: usize, max: u32) {
        self.backends[backend.0].group.set_connections_max(server, max);
        self.wake_waiting(backend);
    }

    /// `set server ... addr`: the address of new connections and checks.
    pub fn set_address(&self, backend: BackendId, server: usize, address: SocketAddr) {
        self.backends[backend.0].group.set_address(server, address);
    }

    /// `shutdown sessions server`, `on-marked-down shutdown-sessions`: all threads close their
    /// sessions at this server (see [`crate::balance::Member::kills`]).
    pub fn kill_sessions(&self, backend: BackendId, server: usize) {
        self.backends[backend.0].group.members()[server].kill_sessions();
        self.announce_kill();
    }

    /// Reports an observation of traffic. Without `observe`, it costs nothing.
    pub fn observe(&self, backend: BackendId, server: usize, seen: Observation) {
        let live = &self.backends[backend.0].servers[server];
        let error = match live.config.observe {
            None => return,
            Some(Observe::Layer4) => seen.is_layer4_error(),
            Some(Observe::Layer7) => seen.is_layer7_error(),
        };
        match error {
            Some(false) if live.errors.load(Ordering::Relaxed) > 0 => {
                live.errors.store(0, Ordering::Relaxed);
            }
            None | Some(false) => {}
            Some(true) => {
                let count = live.errors.fetch_add(1, Ordering::Relaxed) + 1;
                // Only the thread that reaches the limit exactly reports it.
                if count == live.config.error_limit.max(1) {
                    live.errors.store(0, Ordering::Relaxed);
                    self.checks.send(ServerReport {
                        backend,
                        server,
                        news: ServerEvent::Errors(count, seen),
                    });
                }
            }
        }
    }

    /// Sets the health of a server.
    pub(crate) fn put_health(
        &self,
        id: BackendId,
        server: usize,
        health: Health,
        now: Instant,
    ) -> HealthChange {
        let backend = &self.backends[id.0];
        let config = &backend.servers[server].config;
        let (group, members) = (&backend.group, backend.group.members());
        let (queued, usable) = (members[server].queued(), group.usable());
        group.set_health(server, health, now);
        if health == Health::Down && config.shutdown_when_down {
            self.kill_sessions(id, server);
        }
        if health == Health::Up && config.shutdown_backups_when_up {
            let backups = (0..members.len()).filter(|at| members[*at].is_backup());
            backups.for_each(|backup| self.kill_sessions(id, backup));
        }
        self.wake_waiting(id);
        HealthChange {
            health,
            requeued: if health == Health::Down { queued } else { 0 },
            leaves_none: usable > 0 && group.usable() == 0,
        }
    }

    /// Wakes the threads with sessions that wait for a slot in this backend.
    pub(crate) fn wake_waiting(&self, backend: BackendId) {
        let threads = self.backends[backend.0].group.threads_to_wake();
        threads.for_each(|thread| self.wake(thread, backend));
    }
}
