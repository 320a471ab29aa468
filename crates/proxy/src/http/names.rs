//! Groups of connections by server name (`sni`): a connection is reused only for the same name.
//!
//! Names may come from clients, so their number is limited. When space is needed, names without a
//! connection are dropped.

use std::collections::HashMap;

use crate::http::pool::Pool;

/// Backend, server and server name.
type Key = (usize, usize, Box<str>);

/// The groups of all names.
#[derive(Debug, Default)]
pub(super) struct Names {
    shelves: HashMap<Key, u32>,
    /// Groups of dropped names.
    free: Vec<u32>,
    /// Number of new names to reject before the next search for names to drop.
    rest: usize,
}

impl Names {
    /// The group of a name; `None` if all entries have connections.
    pub(super) fn shelf(&mut self, pool: &mut Pool, key: Key) -> Option<u32> {
        if let Some(known) = self.shelves.get(&key) {
            return Some(*known);
        }
        if self.shelves.len() >= LEN_MAX && !self.forget(pool) {
            return None;
        }
        let shelf = self.free.pop().unwrap_or_else(|| pool.add());
        self.shelves.insert(key, shelf);
        Some(shelf)
    }

    /// Drops all names without a connection. False: there were none.
    fn forget(&mut self, pool: &Pool) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        let before = self.free.len();
        self.shelves.retain(|_, shelf| {
            let is_empty = pool.is_empty(*shelf);
            self.free.extend(is_empty.then_some(*shelf));
            !is_empty
        });
        let found = self.free.len() > before;
        self.rest = if found { 0 } else { LEN_MAX / 16 };
        found
    }
}

/// Maximum number of names; connections for further names are not shared.
const LEN_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_forgotten_when_nobody_is_asked_for_it_and_its_place_is_wanted() {
        let (mut names, mut pool) = (Names::default(), Pool::default());
        let key = |at: usize| (0, 0, at.to_string().into_boxed_str());
        let first = names.shelf(&mut pool, key(0)).unwrap();
        pool.join(first);
        for at in 1..3 * LEN_MAX {
            let shelf = names.shelf(&mut pool, key(at)).unwrap();
            assert_ne!(shelf, first, "it has a connection");
        }
        assert_eq!(names.shelf(&mut pool, key(0)), Some(first));
        assert!(names.shelves.len() <= LEN_MAX && pool.add() as usize == LEN_MAX);
    }

    #[test]
    fn names_with_connections_stay_and_others_find_no_place() {
        let (mut names, mut pool) = (Names::default(), Pool::default());
        let key = |at: usize| (0, 0, at.to_string().into_boxed_str());
        let shelves: Vec<u32> =
            (0..LEN_MAX).map(|at| names.shelf(&mut pool, key(at)).unwrap()).collect();
        shelves.iter().for_each(|shelf| pool.join(*shelf));
        assert_eq!(names.shelf(&mut pool, key(LEN_MAX)), None);
        pool.leave(shelves[7]);
        let found = (0..LEN_MAX).find_map(|_| names.shelf(&mut pool, key(LEN_MAX)));
        assert_eq!(found, Some(shelves[7]), "once it is looked again");
        pool.join(shelves[7]);
        assert_eq!(names.shelf(&mut pool, key(7)), None);
    }
}
