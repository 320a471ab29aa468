//! Idle connections to servers; every operation takes constant time.
//!
//! A group holds interchangeable connections: of the same server and the same properties.
//! Connections that completed more than one exchange are in a list of their own (HAProxy's manual,
//! `http-reuse`).

use fulmar_engine::list::{IndexList, ListPool};

/// Idle connections to servers.
#[derive(Debug, Default)]
pub(super) struct Pool {
    shelves: Vec<Shelf>,
    lists: ListPool,
}

/// Interchangeable connections.
#[derive(Clone, Copy, Debug, Default)]
struct Shelf {
    /// Used once so far.
    fresh: IndexList,
    /// Used more than once: their server keeps connections open.
    proven: IndexList,
    /// Number of connections of this group, idle or not.
    connections: u32,
}

/// The idle connections that an exchange may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    None,
    Proven,
    /// Unproven connections first; otherwise none would ever be proven.
    FreshFirst,
    ProvenFirst,
}

impl Pool {
    /// Adds a group.
    pub(super) fn add(&mut self) -> u32 {
        self.shelves.push(Shelf::default());
        u32::try_from(self.shelves.len() - 1).expect("fewer shelves than 2^32")
    }

    /// Adds a connection to a group.
    pub(super) fn join(&mut self, shelf: u32) {
        self.shelves[shelf as usize].connections += 1;
    }

    /// Removes a connection from its group.
    pub(super) fn leave(&mut self, shelf: u32) {
        let connections = &mut self.shelves[shelf as usize].connections;
        *connections = connections.checked_sub(1).expect("a connection joins before it leaves");
    }

    /// True if the group has no connection.
    pub(super) fn is_empty(&self, shelf: u32) -> bool {
        self.shelves[shelf as usize].connections == 0
    }

    /// Adds an idle connection, by its position.
    pub(super) fn park(&mut self, shelf: u32, link: u32, proven: bool) {
        let shelf = &mut self.shelves[shelf as usize];
        let list = if proven { &mut shelf.proven } else { &mut shelf.fresh };
        self.lists.push_front(list, link);
    }

    /// Removes an idle connection; false if it was not idle.
    pub(super) fn unpark(&mut self, shelf: u32, link: u32, proven: bool) -> bool {
        let shelf = &mut self.shelves[shelf as usize];
        let list = if proven { &mut shelf.proven } else { &mut shelf.fresh };
        self.lists.remove(list, link)
    }

    /// The connection among the wanted ones that was used last.
    pub(super) fn find(&self, shelf: u32, wanted: Wanted) -> Option<u32> {
        let Shelf { fresh, proven, .. } = &self.shelves[shelf as usize];
        match wanted {
            Wanted::None => None,
            Wanted::Proven => proven.first(),
            Wanted::FreshFirst => fresh.first().or_else(|| proven.first()),
            Wanted::ProvenFirst => proven.first().or_else(|| fresh.first()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_comes_first_of_those_that_are_wanted() {
        let mut pool = Pool::default();
        let (shelf, other) = (pool.add(), pool.add());
        pool.park(shelf, 1, false);
        pool.park(shelf, 2, false);
        pool.park(shelf, 3, true);
        pool.park(other, 4, true);
        let found = |pool: &Pool, wanted| pool.find(shelf, wanted);
        assert_eq!(found(&pool, Wanted::None), None);
        assert_eq!(found(&pool, Wanted::Proven), Some(3));
        assert_eq!(found(&pool, Wanted::FreshFirst), Some(2));
        assert_eq!(found(&pool, Wanted::ProvenFirst), Some(3));
        assert!(pool.unpark(shelf, 3, true) && !pool.unpark(shelf, 3, true));
        assert!(pool.unpark(shelf, 2, false));
        assert_eq!(found(&pool, Wanted::Proven), None);
        assert_eq!(found(&pool, Wanted::ProvenFirst), Some(1));
    }
}
