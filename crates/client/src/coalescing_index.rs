//! Which connections of HTTP/2 may serve further origins, and which do (RFC 9113 §9.1.1).
//!
//! A connection is listed by what its key has besides the host, and by its address. Another origin
//! that agrees in these is coalesced onto it, if the certificate has the origin's name. From then
//! on the connection serves several origins, which take turns. Whether the certificate has a name
//! is checked in `coalescing.rs`, as it needs the connections.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use fulmar_engine::list::{IndexList, ListPool};
use fulmar_tls::ClientTls;

use crate::connection_key::{AsHashed, Hashed, Protocol, Route};

/// Connections by their position that may serve origins of other names.
#[derive(Debug, Default)]
pub(crate) struct CoalescingIndex {
    /// The connections with one hash of key and address, the newest first.
    by_hash: HashMap<u64, IndexList, BuildHasherDefault<AsHashed>>,
    listed: ListPool,
    /// The origins of each connection that serves several: its own, and those that are coalesced
    /// onto it, or were until a 421. The first one has the next turn.
    origins: HashMap<u32, VecDeque<usize>>,
}

/// True if connections with this key may serve, or be served by, those of another host: their
/// certificates are verified for the host, and no proxy is involved.
pub(crate) fn permits_coalescing(key: &Hashed) -> bool {
    let key = key.key();
    let verifies = key.tls.as_ref().map(ClientTls::options).is_some_and(|it| it.verifies_host());
    verifies && key.route == Route::Direct && key.protocol != Protocol::Http1
}

impl CoalescingIndex {
    /// True if no connection is listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Lists a connection, unless it is.
    pub(crate) fn insert(&mut self, key: &Hashed, peer: IpAddr, connection: u32) {
        if !self.contains(connection) {
            let list = self.by_hash.entry(key.key().hash_without_host(peer)).or_default();
            self.listed.push_front(list, connection);
        }
    }

    /// True if the connection is listed.
    #[inline]
    pub(crate) fn contains(&self, connection: u32) -> bool {
        self.listed.contains(connection)
    }

    /// Removes a connection that is listed. Returns its origins if it served several.
    pub(crate) fn remove(
        &mut self,
        key: &Hashed,
        peer: IpAddr,
        connection: u32,
    ) -> VecDeque<usize> {
        let hash = key.key().hash_without_host(peer);
        let list = self.by_hash.get_mut(&hash).expect("it was listed by the same key");
        self.listed.remove(list, connection);
        if list.first().is_none() {
            self.by_hash.remove(&hash);
        }
        self.origins.remove(&connection).unwrap_or_default()
    }

    /// The connections to `peer` whose keys may differ from `key` in the host only, the newest
    /// first. Keys must be compared: the hashes of different ones may be equal.
    pub(crate) fn candidates(&self, key: &Hashed, peer: IpAddr) -> impl Iterator<Item = u32> {
        let list = self.by_hash.get(&key.key().hash_without_host(peer)).copied();
        self.listed.iter(list.unwrap_or_default())
    }

    /// True if the connection may serve one more origin.
    pub(crate) fn has_room(&self, connection: u32) -> bool {
        self.origins.get(&connection).is_none_or(|origins| origins.len() < ORIGINS_MAX)
    }

    /// Adds an origin to those of a connection, whose own is `home`.
    pub(crate) fn join(&mut self, connection: u32, home: usize, origin: usize) {
        assert!(self.has_room(connection), "the caller has made room");
        self.origins.entry(connection).or_insert_with(|| [home].into()).push_back(origin);
    }

    /// Reverts [`CoalescingIndex::join`].
    pub(crate) fn leave(&mut self, connection: u32, origin: usize) {
        let origins = self.origins.get_mut(&connection).expect("it serves the origin");
        origins.retain(|other| *other != origin);
        if origins.len() == 1 {
            self.origins.remove(&connection); // only its own is left
        }
    }

    /// True if the connection serves several origins.
    #[inline]
    pub(crate) fn is_shared(&self, connection: u32) -> bool {
        !self.origins.is_empty() && self.origins.contains_key(&connection)
    }

    /// The origins of a connection that serves several; the first one has the next turn.
    pub(crate) fn origins(&self, connection: u32) -> impl Iterator<Item = usize> {
        self.origins.get(&connection).into_iter().flatten().copied()
    }

    /// The next of these origins has its turn.
    pub(crate) fn next_turn(&mut self, connection: u32) -> Option<usize> {
        let origins = self.origins.get_mut(&connection)?;
        origins.rotate_left(1);
        origins.back().copied()
    }
}

/// Origins that one connection serves, with its own.
pub(crate) const ORIGINS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use fulmar_tls::{ClientOptions, Verify};

    use super::*;
    use crate::options::Options;
    use crate::request::Request;

    fn tls(options: ClientOptions) -> ClientTls {
        ClientTls::new(options).unwrap()
    }

    fn key(url: &str, options: Options) -> Hashed {
        Request::get(url).options(Arc::new(options)).build().unwrap().hashed().clone()
    }

    #[test]
    fn only_verified_direct_connections_are_coalesced() {
        let with = |options| Options { tls: Some(tls(options)), ..Options::default() };
        let full = || with(ClientOptions::default());
        let verify = |verify| with(ClientOptions { verify, ..ClientOptions::default() });
        let named = ClientOptions { server_name: Some("b".into()), ..ClientOptions::default() };
        let unix = Options { unix_socket: Some("/socket".into()), ..full() };
        for (url, options, permitted) in [
            ("https://a/", full(), true),
            ("https://127.0.0.1/", full(), true),
            ("http://a/", full(), false),
            ("https://a/", verify(Verify::Chain), false),
            ("https://a/", verify(Verify::Nothing), false),
            ("https://a/", with(named), false),
            ("https://a/", unix, false),
            ("https://a/", Options { protocol: Protocol::Http1, ..full() }, false),
            ("https://a/", Options { protocol: Protocol::Http2, ..full() }, true),
        ] {
            assert_eq!(permits_coalescing(&key(url, options.clone())), permitted, "{options:?}");
        }
    }

    /// Compares with a list of all connections.
    #[test]
    fn connections_are_found_by_their_keys_without_hosts_and_addresses() {
        let options = Options { tls: Some(tls(ClientOptions::default())), ..Options::default() };
        let local = Options { local: Some(([127, 0, 0, 1], 0).into()), ..options.clone() };
        let keys: Vec<Hashed> = ["https://a/", "https://b/", "https://a:444/", "https://c:444/"]
            .into_iter()
            .flat_map(|url| [key(url, options.clone()), key(url, local.clone())])
            .collect();
        let mut random = fastrand::Rng::with_seed(11);
        let (mut index, mut model) = (CoalescingIndex::default(), BTreeMap::new());
        let mut order = 0;
        for _ in 0..5_000 {
            let key = random.usize(..keys.len());
            let peer = IpAddr::from([192, 0, 2, random.u8(..3)]);
            let connection = random.u32(..10);
            match model.remove(&connection) {
                None => {
                    order += 1;
                    index.insert(&keys[key], peer, connection);
                    model.insert(connection, (order, key, peer));
                }
                Some((_, key, peer)) => {
                    assert!(index.remove(&keys[key], peer, connection).is_empty());
                }
            }
            let without_host = |key: usize| (keys[key].key().port, keys[key].key().local);
            let mut expected: Vec<_> = model
                .iter()
                .filter(|(_, (_, of, at))| without_host(*of) == without_host(key) && *at == peer)
                .map(|(connection, (order, ..))| (std::cmp::Reverse(*order), *connection))
                .collect();
            expected.sort_unstable();
            let found: Vec<u32> = index.candidates(&keys[key], peer).collect();
            assert_eq!(found, expected.iter().map(|(_, at)| *at).collect::<Vec<_>>());
            assert_eq!(index.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn origins_of_a_connection_take_turns() {
        let mut index = CoalescingIndex::default();
        let turns = |index: &mut CoalescingIndex, count: usize| -> Vec<usize> {
            (0..count).filter_map(|_| index.next_turn(5)).collect()
        };
        assert!(!index.is_shared(5) && turns(&mut index, 2).is_empty());
        index.join(5, 7, 8);
        index.join(5, 7, 9);
        assert!(index.is_shared(5) && !index.is_shared(6));
        assert_eq!(turns(&mut index, 4), [7, 8, 9, 7]);
        index.leave(5, 8);
        assert_eq!(turns(&mut index, 3), [9, 7, 9]);
        index.leave(5, 9);
        assert!(!index.is_shared(5) && index.origins.is_empty());
    }

    #[test]
    fn one_connection_has_a_bounded_number_of_origins() {
        let mut index = CoalescingIndex::default();
        for origin in 1..ORIGINS_MAX {
            assert!(index.has_room(3));
            index.join(3, 0, origin);
        }
        assert!(!index.has_room(3) && index.has_room(4));
        index.leave(3, 1);
        assert!(index.has_room(3));
    }
}
