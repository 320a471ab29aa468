//! Idle connections to servers: every choice in constant time.
//!
//! A shelf holds connections that are alike in everything: the server, and whatever else makes a
//! connection what it is. One that has proven itself by more than one exchange is on another list
//! than one that has not (HAProxy's manual, `http-reuse`).

use fulmar_engine::chain::{Chain, Table};

/// Idle connections to servers.
#[derive(Debug, Default)]
pub(super) struct Pool {
    shelves: Vec<Shelf>,
    links: Table,
}

/// Connections that are alike in everything.
#[derive(Clone, Copy, Debug, Default)]
struct Shelf {
    /// Used once so far.
    fresh: Chain,
    /// Used more than once: they are kept open by their server.
    proven: Chain,
    /// Connections that belong to it, idle or not.
    links: u32,
}

/// Which idle connections an exchange may go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    None,
    Proven,
    /// Those that are not proven first: otherwise they never would be.
    FreshFirst,
    ProvenFirst,
}

impl Pool {
    /// Another shelf.
    pub(super) fn add(&mut self) -> u32 {
        self.shelves.push(Shelf::default());
        u32::try_from(self.shelves.len() - 1).expect("fewer shelves than 2^32")
    }

    /// A connection belongs to a shelf from now on.
    pub(super) fn join(&mut self, shelf: u32) {
        self.shelves[shelf as usize].links += 1;
    }

    /// It is gone.
    pub(super) fn leave(&mut self, shelf: u32) {
        let links = &mut self.shelves[shelf as usize].links;
        *links = links.checked_sub(1).expect("who leaves has joined");
    }

    /// True if no connection belongs to a shelf.
    pub(super) fn is_empty(&self, shelf: u32) -> bool {
        self.shelves[shelf as usize].links == 0
    }

    /// A connection, by its place among the links, is idle.
    pub(super) fn park(&mut self, shelf: u32, link: u32, proven: bool) {
        let shelf = &mut self.shelves[shelf as usize];
        let chain = if proven { &mut shelf.proven } else { &mut shelf.fresh };
        self.links.push_front(chain, link);
    }

    /// It is idle no more, for whatever reason; false if it was not.
    pub(super) fn unpark(&mut self, shelf: u32, link: u32, proven: bool) -> bool {
        let shelf = &mut self.shelves[shelf as usize];
        let chain = if proven { &mut shelf.proven } else { &mut shelf.fresh };
        self.links.remove(chain, link)
    }

    /// The connection that was used last, of those that are wanted.
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
