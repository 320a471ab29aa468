//! Changes of a server by an operator, made on the statistics page or the runtime socket.

use std::time::Instant;

use fulmar_haproxy::BackendId;
use fulmar_proxy::balance::{Admin, Health};
use fulmar_proxy::{Live, LiveBackend, LiveServer};

/// A change of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// The administrative state.
    Admin(Admin),
    /// The health, until the next check changes it.
    Health(Health),
    /// Resumes or pauses health checks.
    Checks(bool),
    /// Shuts down the sessions.
    Shutdown,
}

impl ServerChange {
    /// The change with this name in the forms of HAProxy's page.
    pub fn named(name: &str) -> Option<Self> {
        let change = match name {
            "ready" | "enable" => Self::Admin(Admin::Ready),
            "drain" => Self::Admin(Admin::Drain),
            "maint" | "disable" => Self::Admin(Admin::Maintenance),
            "shutdown" => Self::Shutdown,
            "dhlth" => Self::Checks(false),
            "ehlth" => Self::Checks(true),
            "hrunn" => Self::Health(Health::Up),
            "hnolb" => Self::Health(Health::Stopping),
            "hdown" => Self::Health(Health::Down),
            _ => return None,
        };
        Some(change)
    }

    /// Applies the change. False if it does not apply to this server.
    pub fn apply(self, live: &Live, backend: BackendId, server: usize, now: Instant) -> bool {
        let is_checked = live.backends[backend.0].servers[server].config.check.is_some();
        match self {
            Self::Admin(admin) => live.set_admin(backend, server, admin, now),
            Self::Health(health) => live.set_health(backend, server, health, now),
            Self::Checks(_) if !is_checked => return false,
            Self::Checks(on) => live.set_checked(backend, server, on),
            Self::Shutdown => live.kill_sessions(backend, server),
        }
        true
    }
}

/// A backend by name or, after `#`, by number.
pub fn find_backend(live: &Live, name: &str) -> Option<BackendId> {
    let is = |it: &LiveBackend| match name.strip_prefix('#') {
        Some(number) => number.parse() == Ok(it.config.id),
        None => it.config.name == name,
    };
    live.backends.iter().position(is).map(BackendId)
}

/// A server of the backend by name or, after `#`, by number.
pub fn find_server(backend: &LiveBackend, name: &str) -> Option<usize> {
    let is = |it: &LiveServer| match name.strip_prefix('#') {
        Some(number) => number.parse() == Ok(it.config.id),
        None => it.config.name == name,
    };
    backend.servers.iter().position(is)
}
