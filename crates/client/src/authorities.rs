//! Connections by host and port: how many there are, and which origins wait until one of them
//! closes or becomes idle.

use std::collections::{HashMap, VecDeque};

use slab::Slab;

/// The hosts with their ports that have origins.
#[derive(Debug, Default)]
pub(crate) struct AuthorityTable {
    by_name: HashMap<(Box<str>, u16), usize>,
    authorities: Slab<AuthorityState>,
    /// Entries in all queues of waiting origins.
    waiting: usize,
}

/// A host with a port, on any route and with any other properties.
#[derive(Debug)]
struct AuthorityState {
    name: (Box<str>, u16),
    origins: Vec<usize>,
    /// The connections of all its origins.
    connections: usize,
    /// Origins that wait, each once, in the order of waiting.
    waiting_origins: VecDeque<usize>,
}

impl AuthorityTable {
    /// Adds an origin, and returns the position of its authority.
    pub(crate) fn join(&mut self, host: &str, port: u16, origin: usize) -> usize {
        let name = (host.into(), port);
        if let Some(at) = self.by_name.get(&name) {
            self.authorities[*at].origins.push(origin);
            return *at;
        }
        let at = self.authorities.insert(AuthorityState {
            name: name.clone(),
            origins: vec![origin],
            connections: 0,
            waiting_origins: VecDeque::new(),
        });
        self.by_name.insert(name, at);
        at
    }

    /// Removes an origin without connections. An authority without origins is removed.
    pub(crate) fn leave(&mut self, at: usize, origin: usize) {
        let authority = &mut self.authorities[at];
        authority.origins.retain(|it| *it != origin);
        let waited = authority.waiting_origins.len();
        authority.waiting_origins.retain(|it| *it != origin);
        self.waiting -= waited - authority.waiting_origins.len();
        if authority.origins.is_empty() {
            let authority = self.authorities.remove(at);
            self.by_name.remove(&authority.name);
        }
    }

    /// An origin of it opens a connection.
    pub(crate) fn add_connection(&mut self, at: usize) {
        self.authorities[at].connections += 1;
    }

    /// A connection of one of its origins is closed, or serves another authority.
    pub(crate) fn remove_connection(&mut self, at: usize) {
        self.authorities[at].connections -= 1;
    }

    /// The connections of all origins of an authority; 0 if it has none any more.
    pub(crate) fn connections(&self, at: usize) -> usize {
        self.authorities.get(at).map_or(0, |authority| authority.connections)
    }

    /// The origins of an authority.
    pub(crate) fn origins(&self, at: usize) -> &[usize] {
        self.authorities.get(at).map_or(&[], |authority| &authority.origins)
    }

    /// An origin waits for a connection of its authority to close or to become idle.
    pub(crate) fn wait(&mut self, at: usize, origin: usize) {
        let waiting = &mut self.authorities[at].waiting_origins;
        if !waiting.contains(&origin) {
            waiting.push_back(origin);
            self.waiting += 1;
        }
    }

    /// True if an origin of any authority waits.
    pub(crate) fn are_awaited(&self) -> bool {
        self.waiting > 0
    }

    /// True if an origin of this authority waits.
    pub(crate) fn is_awaited(&self, at: usize) -> bool {
        self.authorities.get(at).is_some_and(|it| !it.waiting_origins.is_empty())
    }

    /// Takes the origin that has waited longest.
    pub(crate) fn next_waiting(&mut self, at: usize) -> Option<usize> {
        let origin = self.authorities.get_mut(at)?.waiting_origins.pop_front()?;
        self.waiting -= 1;
        Some(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_a_host_and_port_are_counted_together() {
        let mut authorities = AuthorityTable::default();
        let a = authorities.join("a", 80, 1);
        assert_eq!(authorities.join("a", 80, 2), a);
        let other = authorities.join("a", 81, 3);
        assert_ne!(other, a);
        authorities.add_connection(a);
        authorities.add_connection(a);
        assert_eq!((authorities.connections(a), authorities.connections(other)), (2, 0));
        authorities.remove_connection(a);
        assert_eq!(authorities.connections(a), 1);
        assert_eq!(authorities.origins(a), [1, 2]);
    }

    #[test]
    fn origins_wait_in_order_and_once() {
        let mut authorities = AuthorityTable::default();
        let at = authorities.join("a", 80, 1);
        authorities.join("a", 80, 2);
        for origin in [2, 1, 2] {
            authorities.wait(at, origin);
        }
        assert!(authorities.are_awaited() && authorities.is_awaited(at));
        assert_eq!(authorities.next_waiting(at), Some(2));
        authorities.leave(at, 1);
        assert!(!authorities.are_awaited(), "an origin that is removed does not wait");
        assert_eq!(authorities.next_waiting(at), None);
        authorities.leave(at, 2);
        assert_eq!((authorities.connections(at), authorities.is_awaited(at)), (0, false));
        assert!(authorities.by_name.is_empty());
    }
}
