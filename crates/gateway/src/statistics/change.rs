//! What an operator changes at a server: by the page, and by the runtime socket.

use std::time::Instant;

use fulmar_balance::{Admin, Health};
use fulmar_haproxy::BackendId;
use fulmar_proxy::{Live, LiveBackend, LiveServer};

/// A change of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// What an operator decides.
    Admin(Admin),
    /// What its health is said to be, until the next check finds otherwise.
    Health(Health),
    /// Checks go on, or not.
    Checks(bool),
    /// Its sessions are shut down.
    Shutdown,
}

impl Change {
    /// By the name that the page's form, and HAProxy's, gives it.
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

    /// Makes it, and tells the threads that wait for it. False: it means nothing to this server.
    pub fn apply(self, live: &Live, backend: &LiveBackend, server: usize, now: Instant) -> bool {
        let (group, it) = (&backend.group, &backend.servers[server]);
        let at = live.backends.iter().position(|it| std::ptr::eq(it, backend));
        let Some(id) = at.map(BackendId) else { return false };
        match self {
            Self::Admin(admin) => live.set_admin(id, server, admin, now),
            Self::Health(health) => live.set_health(id, server, health, now),
            Self::Checks(_) if it.config.check.is_none() => return false,
            Self::Checks(on) => group.members()[server].set_checked(on),
            Self::Shutdown => group.members()[server].shed(),
        }
        tell(live, backend, self == Self::Shutdown);
        true
    }
}

/// Rouses the threads that have to do something about a change.
pub fn tell(live: &Live, backend: &LiveBackend, all: bool) {
    if all {
        return live.wakers.wake_all();
    }
    backend.group.waiters().for_each(|thread| live.wakers.wake(thread));
}

/// A backend, by its name or, behind `#`, its number.
pub fn find_backend<'a>(live: &'a Live, name: &str) -> Option<&'a LiveBackend> {
    match name.strip_prefix('#').map(str::parse::<u32>) {
        Some(Ok(id)) => live.backends.iter().find(|it| it.config.id == id),
        Some(Err(_)) => None,
        None => live.backends.iter().find(|it| it.config.name == name),
    }
}

/// A server of it, by its name or, behind `#`, its number.
pub fn find_server(backend: &LiveBackend, name: &str) -> Option<usize> {
    let is = |it: &LiveServer| match name.strip_prefix('#').map(str::parse::<u32>) {
        Some(Ok(id)) => it.config.id == id,
        Some(Err(_)) => false,
        None => it.config.name == name,
    };
    backend.servers.iter().position(is)
}
