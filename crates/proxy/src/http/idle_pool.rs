//! Idle connections to servers; every operation takes constant time.
//!
//! Which of them a request may use is decided in `select_connection`, and which connections become
//! idle in `deferred`.
//!
//! A group holds interchangeable connections: of the same server and the same properties.
//! Connections that completed more than one exchange are in a list of their own (HAProxy's manual,
//! `http-reuse`).

use fulmar_engine::list::{IndexList, ListPool};

/// Idle connections to servers.
#[derive(Debug, Default)]
pub(super) struct IdlePool {
    idle_groups: Vec<IdleGroup>,
    lists: ListPool,
}

/// Interchangeable connections.
#[derive(Clone, Copy, Debug, Default)]
struct IdleGroup {
    /// Used once so far.
    fresh: IndexList,
    /// Used more than once: their server keeps connections open.
    proven: IndexList,
    /// Number of connections of this group, idle or not.
    connections: u32,
}

/// The idle connections that an exchange may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedConn {
    None,
    Proven,
    /// Unproven connections first; otherwise none would ever be proven.
    FreshFirst,
    ProvenFirst,
}

impl IdlePool {
    /// Adds a group.
    pub(super) fn add(&mut self) -> u32 {
        self.idle_groups.push(IdleGroup::default());
        u32::try_from(self.idle_groups.len() - 1).expect("fewer groups than 2^32")
    }

    /// Adds a connection to a group.
    pub(super) fn join(&mut self, idle_group: u32) {
        self.idle_groups[idle_group as usize].connections += 1;
    }

    /// Removes a connection from its group.
    pub(super) fn leave(&mut self, idle_group: u32) {
        let connections = &mut self.idle_groups[idle_group as usize].connections;
        *connections = connections.checked_sub(1).expect("a connection joins before it leaves");
    }

    /// True if the group has no connection.
    pub(super) fn is_empty(&self, idle_group: u32) -> bool {
        self.idle_groups[idle_group as usize].connections == 0
    }

    /// Adds an idle connection, by its position.
    pub(super) fn insert_idle(&mut self, idle_group: u32, at: u32, proven: bool) {
        let idle_group = &mut self.idle_groups[idle_group as usize];
        let list = if proven { &mut idle_group.proven } else { &mut idle_group.fresh };
        self.lists.push_front(list, at);
    }

    /// Removes an idle connection; false if it was not idle.
    pub(super) fn remove_idle(&mut self, idle_group: u32, at: u32, proven: bool) -> bool {
        let idle_group = &mut self.idle_groups[idle_group as usize];
        let list = if proven { &mut idle_group.proven } else { &mut idle_group.fresh };
        self.lists.remove(list, at)
    }

    /// The connection among the wanted ones that was used last.
    pub(super) fn find(&self, idle_group: u32, wanted: WantedConn) -> Option<u32> {
        let IdleGroup { fresh, proven, .. } = &self.idle_groups[idle_group as usize];
        match wanted {
            WantedConn::None => None,
            WantedConn::Proven => proven.first(),
            WantedConn::FreshFirst => fresh.first().or_else(|| proven.first()),
            WantedConn::ProvenFirst => proven.first().or_else(|| fresh.first()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_recent_wanted_connection_is_found() {
        let mut pool = IdlePool::default();
        let (idle_group, other) = (pool.add(), pool.add());
        pool.insert_idle(idle_group, 1, false);
        pool.insert_idle(idle_group, 2, false);
        pool.insert_idle(idle_group, 3, true);
        pool.insert_idle(other, 4, true);
        let found = |pool: &IdlePool, wanted| pool.find(idle_group, wanted);
        assert_eq!(found(&pool, WantedConn::None), None);
        assert_eq!(found(&pool, WantedConn::Proven), Some(3));
        assert_eq!(found(&pool, WantedConn::FreshFirst), Some(2));
        assert_eq!(found(&pool, WantedConn::ProvenFirst), Some(3));
        assert!(pool.remove_idle(idle_group, 3, true) && !pool.remove_idle(idle_group, 3, true));
        assert!(pool.remove_idle(idle_group, 2, false));
        assert_eq!(found(&pool, WantedConn::Proven), None);
        assert_eq!(found(&pool, WantedConn::ProvenFirst), Some(1));
    }
}
