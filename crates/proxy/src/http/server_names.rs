//! Groups of connections by server name (`sni`): a connection is reused only for the same name.
//!
//! Names may come from clients, so their number is limited. When space is needed, names without a
//! connection are dropped.

use std::collections::HashMap;

use crate::http::idle_pool::IdlePool;

/// Backend, server and server name.
type ServerNameKey = (usize, usize, Box<str>);

/// The groups of all names.
#[derive(Debug, Default)]
pub(super) struct ServerNameGroups {
    idle_groups: HashMap<ServerNameKey, u32>,
    /// Groups of dropped names.
    free: Vec<u32>,
    /// Number of new names to reject before the next search for names to drop.
    rest: usize,
}

impl ServerNameGroups {
    /// The group of a name; `None` if all entries have connections.
    pub(super) fn idle_group(&mut self, pool: &mut IdlePool, key: ServerNameKey) -> Option<u32> {
        if let Some(known) = self.idle_groups.get(&key) {
            return Some(*known);
        }
        if self.idle_groups.len() >= LEN_MAX && !self.forget(pool) {
            return None;
        }
        let idle_group = self.free.pop().unwrap_or_else(|| pool.add());
        self.idle_groups.insert(key, idle_group);
        Some(idle_group)
    }

    /// Drops all names without a connection. False: there were none.
    fn forget(&mut self, pool: &IdlePool) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        let before = self.free.len();
        self.idle_groups.retain(|_, idle_group| {
            let is_empty = pool.is_empty(*idle_group);
            self.free.extend(is_empty.then_some(*idle_group));
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
    fn unused_names_are_dropped_when_space_is_needed() {
        let (mut names, mut pool) = (ServerNameGroups::default(), IdlePool::default());
        let key = |at: usize| (0, 0, at.to_string().into_boxed_str());
        let first = names.idle_group(&mut pool, key(0)).unwrap();
        pool.join(first);
        for at in 1..3 * LEN_MAX {
            let idle_group = names.idle_group(&mut pool, key(at)).unwrap();
            assert_ne!(idle_group, first, "the first group has a connection");
        }
        assert_eq!(names.idle_group(&mut pool, key(0)), Some(first));
        assert!(names.idle_groups.len() <= LEN_MAX && pool.add() as usize == LEN_MAX);
    }

    #[test]
    fn names_with_connections_are_kept() {
        let (mut names, mut pool) = (ServerNameGroups::default(), IdlePool::default());
        let key = |at: usize| (0, 0, at.to_string().into_boxed_str());
        let idle_groups: Vec<u32> =
            (0..LEN_MAX).map(|at| names.idle_group(&mut pool, key(at)).unwrap()).collect();
        idle_groups.iter().for_each(|idle_group| pool.join(*idle_group));
        assert_eq!(names.idle_group(&mut pool, key(LEN_MAX)), None);
        pool.leave(idle_groups[7]);
        let found = (0..LEN_MAX).find_map(|_| names.idle_group(&mut pool, key(LEN_MAX)));
        assert_eq!(found, Some(idle_groups[7]), "after the next search");
        pool.join(idle_groups[7]);
        assert_eq!(names.idle_group(&mut pool, key(7)), None);
    }
}
