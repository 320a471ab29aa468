//! The pool of connections, and the queues of transfers.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::list::{IndexList, ListPool};
use slab::Slab;

use crate::authorities::AuthorityTable;
use crate::coalescing_index::{CoalescingIndex, permits_coalescing};
use crate::connection_key::{ByKey, Hashed, Protocol};
use crate::first_hop::{FirstHop, first_hop, target_name};
use crate::host_limits::Hosts;
use crate::transfer::TransferId;

/// Origins with their idle connections and queues. Every choice takes constant time.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    by_key: ByKey<usize>,
    /// The origins with [`Multiplexing::OneExchange`].
    misdirected_by_key: ByKey<usize>,
    origins: Slab<OriginPool>,
    pub(crate) hosts: Hosts,
    pub(crate) authorities: AuthorityTable,
    pub(crate) coalescing: CoalescingIndex,
    /// Connections that accept requests, by their position: of each origin, the idle ones, last
    /// used first, and those that accept requests besides those they have.
    of_origin: ListPool,
    /// Of all origins, the longest idle first.
    of_all: ListPool,
    oldest: IndexList,
    idle: usize,
    /// Origins that may open a connection as soon as another one closes, in the order of waiting.
    pub(crate) waiting_origins: VecDeque<usize>,
}

/// The state of all requests with one key.
#[derive(Debug)]
pub(crate) struct OriginPool {
    pub(crate) key: Hashed,
    pub(crate) host: usize,
    pub(crate) authority: usize,
    /// The number of connections, with idle ones and those being opened.
    pub(crate) connections: usize,
    /// How many of them are being opened, or await SETTINGS of HTTP/2: what they carry is unknown.
    pub(crate) connecting: usize,
    /// The number of transfers on them.
    pub(crate) active: usize,
    pub(crate) addresses: AddressState,
    /// The addresses of the first hop, while the host's name is resolved.
    pub(crate) first_hop: Option<Arc<[IpAddr]>>,
    /// The server supports pipelining.
    pub(crate) pipelines: bool,
    pub(crate) multiplexing: Multiplexing,
    /// HTTP/2: the last limit of streams that the server has announced.
    pub(crate) streams_max: Option<u32>,
    pub(crate) waits_for_connection: bool,
    /// Its connections may serve other origins, and theirs may serve it.
    pub(crate) coalesces: bool,
    /// The connection of another origin that serves it, as long as it `coalesces`.
    pub(crate) coalesced_onto: Option<u32>,
    idle: IndexList,
    shared: IndexList,
    /// Waiting transfers; some may have ended.
    queue: VecDeque<TransferId>,
    waiting: usize,
}

/// How many exchanges a connection of the origin carries: with HTTP/2 many at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplexing {
    /// No connection has negotiated its protocol yet: transfers wait for the first one.
    Unknown,
    /// No connection has negotiated its protocol yet, and opening one has failed: the next ones
    /// need not wait for each other.
    Failed,
    /// The protocol is HTTP/1.1.
    No,
    Yes,
    /// Each connection carries one exchange and is closed after it: requests after a 421.
    OneExchange,
}

/// The addresses of an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddressState {
    /// Not resolved, or used already: the resolver caches results as long as they are valid.
    Unknown,
    /// The resolver runs since then.
    Resolving(Instant),
    /// The host is an address.
    Literal(IpAddr),
    /// A Unix socket has none.
    Local,
}

/// The result of sweeping an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    /// The origin is needed.
    Kept,
    /// Its host's limits must be remembered until then.
    Until(Instant),
    /// It is removed; its name may still be `resolving`.
    Removed { resolving: bool },
}

/// Addresses to try, in this order.
#[derive(Clone, Debug)]
pub(crate) enum Candidates {
    One(SocketAddr),
    Given(Arc<[SocketAddr]>),
    Many(Arc<[IpAddr]>, u16),
    Local,
}

impl Candidates {
    /// The address of attempt `nth`.
    pub(crate) fn get(&self, nth: usize) -> Option<SocketAddr> {
        match self {
            Self::One(address) => (nth == 0).then_some(*address),
            Self::Given(addresses) => addresses.get(nth).copied(),
            Self::Many(addresses, port) => {
                addresses.get(nth).map(|address| SocketAddr::new(*address, *port))
            }
            Self::Local => None,
        }
    }

    /// The same addresses in a random order; as they were if the system has no random bytes.
    pub(crate) fn shuffled(self) -> Self {
        match self {
            Self::Given(addresses) => Self::Given(shuffled(&addresses)),
            Self::Many(addresses, port) => Self::Many(shuffled(&addresses), port),
            Self::One(_) | Self::Local => self,
        }
    }
}

/// Fisher and Yates: each order is as probable as the others.
fn shuffled<T: Clone>(addresses: &[T]) -> Arc<[T]> {
    let mut addresses = addresses.to_vec();
    for last in (1..addresses.len()).rev() {
        let Ok(random) = getrandom::u32() else { break };
        addresses.swap(last, random as usize % (last + 1));
    }
    addresses.into()
}

impl OriginPool {
    /// Connections to open for `wanted` transfers. If one connection may carry them all, or may
    /// turn out to, they wait for it, unless `waits` is false.
    pub(crate) fn needs_connection(&self, wanted: usize, waits: bool) -> bool {
        match self.multiplexing {
            _ if !waits => wanted > self.connecting,
            Multiplexing::No | Multiplexing::Failed | Multiplexing::OneExchange => {
                wanted > self.connecting
            }
            Multiplexing::Unknown | Multiplexing::Yes => wanted > 0 && self.connecting == 0,
        }
    }
}

impl Pool {
    /// The origin with this key. It is created if it does not exist.
    pub(crate) fn origin(&mut self, key: &Hashed) -> usize {
        if let Some(at) = self.by_key.get(key) {
            return *at;
        }
        let multiplexing = match key.key().protocol {
            Protocol::Negotiated => Multiplexing::Unknown,
            Protocol::Http1 => Multiplexing::No,
            Protocol::Http2 => Multiplexing::Yes,
        };
        let at = self.insert(key, multiplexing);
        self.by_key.insert(key.clone(), at);
        at
    }

    /// The origin with this key whose connections carry one exchange each. It shares no connection
    /// with that of [`Pool::origin`].
    pub(crate) fn misdirected_origin(&mut self, key: &Hashed) -> usize {
        if let Some(at) = self.misdirected_by_key.get(key) {
            return *at;
        }
        let at = self.insert(key, Multiplexing::OneExchange);
        self.misdirected_by_key.insert(key.clone(), at);
        at
    }

    fn insert(&mut self, key: &Hashed, multiplexing: Multiplexing) -> usize {
        let addresses = match first_hop(key.key()) {
            _ if target_name(key.key()).is_some() => AddressState::Unknown,
            FirstHop::Local => AddressState::Local,
            FirstHop::Address(address) => AddressState::Literal(address.ip()),
            FirstHop::Name(..) => AddressState::Unknown,
        };
        let host = self.hosts.join(&key.key().host);
        let at = self.origins.vacant_key();
        let authority = self.authorities.join(&key.key().host, key.key().port, at);
        if self.origins.capacity() == 0 {
            self.origins.reserve_exact(1); // clients of one transfer are many
        }
        self.origins.insert(OriginPool {
            key: key.clone(),
            host,
            authority,
            connections: 0,
            connecting: 0,
            active: 0,
            addresses,
            first_hop: None,
            pipelines: true,
            multiplexing,
            streams_max: None,
            waits_for_connection: false,
            coalesces: multiplexing != Multiplexing::OneExchange && permits_coalescing(key),
            coalesced_onto: None,
            idle: IndexList::default(),
            shared: IndexList::default(),
            queue: VecDeque::new(),
            waiting: 0,
        })
    }

    pub(crate) fn get(&self, at: usize) -> Option<&OriginPool> {
        self.origins.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut OriginPool> {
        self.origins.get_mut(at)
    }

    /// True if each connection of the origin carries one exchange.
    pub(crate) fn carries_one_exchange(&self, at: usize) -> bool {
        self.origins[at].multiplexing == Multiplexing::OneExchange
    }

    /// The number of origins.
    pub(crate) fn len(&self) -> usize {
        self.origins.len()
    }

    /// The number of idle connections.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }

    /// Queues a transfer; with `again` in front of all others, because it has waited before.
    pub(crate) fn enqueue(&mut self, at: usize, id: TransferId, again: bool) {
        let origin = &mut self.origins[at];
        origin.waiting += 1;
        match again {
            true => origin.queue.push_front(id),
            false => origin.queue.push_back(id),
        }
    }

    /// The first queued transfer that `is_alive`.
    pub(crate) fn front(
        &mut self,
        at: usize,
        is_alive: impl Fn(TransferId) -> bool,
    ) -> Option<TransferId> {
        let queue = &mut self.origins.get_mut(at)?.queue;
        while let Some(id) = queue.front().copied() {
            if is_alive(id) {
                return Some(id);
            }
            queue.pop_front();
        }
        None
    }

    /// Removes the transfer at the front of the queue.
    pub(crate) fn pop(&mut self, at: usize) {
        let origin = &mut self.origins[at];
        origin.queue.pop_front();
        origin.waiting -= 1;
    }

    /// A waiting transfer has ended. Its entry in the queue is removed later.
    pub(crate) fn withdraw(&mut self, at: usize, is_alive: impl Fn(TransferId) -> bool) {
        let origin = &mut self.origins[at];
        origin.waiting -= 1;
        if origin.queue.len() > 2 * origin.waiting + QUEUE_SLACK {
            origin.queue.retain(|id| is_alive(*id));
        }
    }

    /// The waiting transfers, and some that have ended.
    pub(crate) fn waiters(&self, at: usize) -> Vec<TransferId> {
        self.origins
            .get(at)
            .map(|origin| origin.queue.iter().copied().collect())
            .unwrap_or_default()
    }

    /// The number of waiting transfers.
    pub(crate) fn waiting(&self, at: usize) -> usize {
        self.origins[at].waiting
    }

    /// True if there is an idle connection with this key.
    pub(crate) fn has_idle(&self, key: &Hashed) -> bool {
        self.by_key.get(key).is_some_and(|at| self.origins[*at].idle.first().is_some())
    }

    /// The connection that a request with this key would get now: one that carries many, or the
    /// idle one that was used last. `None` if others wait.
    pub(crate) fn next_for(&self, key: &Hashed) -> Option<u32> {
        let at = *self.by_key.get(key)?;
        let origin = &self.origins[at];
        if origin.waiting > 0 {
            return None;
        }
        self.shared_of(at).or_else(|| origin.idle.first())
    }

    /// Marks a connection as idle, unless it is.
    pub(crate) fn insert_idle(&mut self, at: usize, connection: u32) {
        if self.of_all.contains(connection) {
            return;
        }
        self.of_origin.push_front(&mut self.origins[at].idle, connection);
        self.of_all.push_back(&mut self.oldest, connection);
        self.idle += 1;
    }

    /// Removes a connection from the idle ones; false if it was not idle.
    pub(crate) fn remove_idle(&mut self, at: usize, connection: u32) -> bool {
        if !self.of_all.remove(&mut self.oldest, connection) {
            return false;
        }
        self.of_origin.remove(&mut self.origins[at].idle, connection);
        self.idle -= 1;
        true
    }

    /// True if the connection is idle.
    pub(crate) fn is_idle(&self, connection: u32) -> bool {
        self.of_all.contains(connection)
    }

    /// Marks a connection as one that accepts requests besides those it has.
    pub(crate) fn share(&mut self, at: usize, connection: u32) {
        self.of_origin.push_back(&mut self.origins[at].shared, connection);
    }

    /// Reverts [`Pool::share`].
    pub(crate) fn unshare(&mut self, at: usize, connection: u32) {
        self.of_origin.remove(&mut self.origins[at].shared, connection);
    }

    /// The origin's connection for another request: the one used least recently.
    pub(crate) fn shared_of(&self, at: usize) -> Option<u32> {
        self.origins[at].shared.first()
    }

    /// The origin's connection that was used last.
    pub(crate) fn idle_of(&self, at: usize) -> Option<u32> {
        self.origins[at].idle.first()
    }

    /// The origin's connection that has been idle for the longest time.
    pub(crate) fn oldest_of(&self, at: usize) -> Option<u32> {
        self.origins.get(at)?.idle.last()
    }

    /// An origin has one connection more.
    pub(crate) fn add_connection(&mut self, at: usize) {
        let origin = &mut self.origins[at];
        origin.connections += 1;
        self.authorities.add_connection(origin.authority);
    }

    /// An origin has one connection less.
    pub(crate) fn remove_connection(&mut self, at: usize) {
        let origin = &mut self.origins[at];
        origin.connections -= 1;
        self.authorities.remove_connection(origin.authority);
    }

    /// True if origins wait until a connection of another one of them closes or becomes idle.
    pub(crate) fn has_waiting_origins(&self) -> bool {
        !self.waiting_origins.is_empty() || self.authorities.are_awaited()
    }

    /// The connection that has been idle for the longest time.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.oldest.first()
    }

    /// From now on a connection of the origin `home` serves the origin `at`, too, and the one that
    /// did so before does not. The connection has room for it.
    pub(crate) fn coalesce(&mut self, at: usize, connection: u32, home: usize) {
        if self.origins[at].coalesced_onto != Some(connection) {
            self.separate(at);
            self.origins[at].coalesced_onto = Some(connection);
            self.coalescing.join(connection, home, at);
        }
    }

    /// True if the connection of another origin serves this one.
    pub(crate) fn is_coalesced(&self, at: usize) -> bool {
        self.origins[at].coalesces && self.origins[at].coalesced_onto.is_some()
    }

    /// From now on only its own connections serve the origin.
    pub(crate) fn separate(&mut self, at: usize) {
        if let Some(connection) = self.origins[at].coalesced_onto.take() {
            self.coalescing.leave(connection, at);
        }
    }

    /// From now on its own connections serve the origin, and no other one, as long as the origin is
    /// in the pool. It remains an origin of the connection that it was coalesced onto, which keeps
    /// it in the pool: otherwise its next request would be coalesced again.
    pub(crate) fn keep_apart(&mut self, at: usize) {
        self.origins[at].coalesces = false;
    }

    /// An origin without transfers that a connection of `home` serves.
    pub(crate) fn unused_origin_of(&self, connection: u32, home: usize) -> Option<usize> {
        let is_unused = |at: &usize| self.origins[*at].active + self.origins[*at].waiting == 0;
        self.coalescing.origins(connection).find(|at| *at != home && is_unused(at))
    }

    /// A connection of the origin `home` may serve others, if the origin is verified and direct.
    pub(crate) fn begin_coalescing(&mut self, home: usize, peer: Option<IpAddr>, connection: u32) {
        let origin = &self.origins[home];
        if let Some(peer) = peer.filter(|_| origin.coalesces) {
            self.coalescing.insert(&origin.key, peer, connection);
        }
    }

    /// Removes a connection of the origin `home` from those that may serve others. Returns the
    /// origins that it served until now.
    pub(crate) fn end_coalescing(
        &mut self,
        home: usize,
        peer: Option<IpAddr>,
        connection: u32,
    ) -> VecDeque<usize> {
        let Some(peer) = peer.filter(|_| self.coalescing.contains(connection)) else {
            return VecDeque::new();
        };
        let origins = self.coalescing.remove(&self.origins[home].key, peer, connection);
        for at in origins.iter().filter(|at| **at != home) {
            self.origins[*at].coalesced_onto = None;
        }
        origins
    }

    /// Removes an origin that is not needed, so that memory follows use.
    pub(crate) fn sweep(&mut self, at: usize, now: Instant) -> Swept {
        let Some(origin) = self.origins.get(at) else { return Swept::Kept }; // removed before
        let is_used = origin.connections + origin.active + origin.waiting > 0;
        if is_used || origin.coalesced_onto.is_some() {
            return Swept::Kept;
        }
        if let Some(until) = self.hosts.remembered_until(origin.host, now) {
            return Swept::Until(until);
        }
        let origin = self.origins.remove(at);
        match origin.multiplexing {
            Multiplexing::OneExchange => self.misdirected_by_key.remove(&origin.key),
            Multiplexing::Unknown | Multiplexing::Failed | Multiplexing::No | Multiplexing::Yes => {
                self.by_key.remove(&origin.key)
            }
        };
        self.hosts.leave(origin.host);
        self.authorities.leave(origin.authority, at);
        Swept::Removed { resolving: matches!(origin.addresses, AddressState::Resolving(_)) }
    }

    /// The origin has found another connection meanwhile.
    pub(crate) fn stop_waiting(&mut self, at: usize) {
        if std::mem::replace(&mut self.origins[at].waits_for_connection, false) {
            self.waiting_origins.retain(|waiting| *waiting != at);
        }
    }

    /// The origin waits until any connection closes.
    pub(crate) fn wait_for_connection(&mut self, at: usize) {
        if !std::mem::replace(&mut self.origins[at].waits_for_connection, true) {
            self.waiting_origins.push_back(at);
        }
    }
}

/// Entries of ended transfers that a queue may hold in addition to as many as wait.
const QUEUE_SLACK: usize = 64;

#[cfg(test)]
mod tests {
    use fulmar_engine::SocketId;

    use super::*;
    use crate::request::Request;

    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn moment() -> Instant {
        Instant::now()
    }

    fn pool(url: &str) -> (Pool, usize) {
        let mut pool = Pool::default();
        let at = pool.origin(Request::get(url).build().unwrap().hashed());
        (pool, at)
    }

    fn id(index: u32) -> TransferId {
        TransferId(SocketId { index, generation: 0 })
    }

    #[test]
    fn last_used_is_reused_first_and_longest_idle_is_closed_first() {
        let (mut pool, at) = pool("http://127.0.0.1/");
        for connection in [3, 1, 2, 1] {
            pool.insert_idle(at, connection); // a second time has no effect
        }
        assert_eq!((pool.idle(), pool.idle_of(at), pool.oldest()), (3, Some(2), Some(3)));
        assert!(pool.remove_idle(at, 3) && !pool.remove_idle(at, 3));
        assert_eq!((pool.idle(), pool.idle_of(at), pool.oldest()), (2, Some(2), Some(1)));
        assert!(pool.remove_idle(at, 2) && pool.remove_idle(at, 1));
        assert_eq!((pool.idle(), pool.idle_of(at), pool.oldest()), (0, None, None));
    }

    #[test]
    fn connections_that_are_shared_take_turns() {
        let (mut pool, at) = pool("http://127.0.0.1/");
        assert_eq!(pool.shared_of(at), None);
        pool.share(at, 7);
        pool.share(at, 8);
        assert_eq!(pool.shared_of(at), Some(7));
        pool.unshare(at, 7);
        pool.share(at, 7);
        assert_eq!(pool.shared_of(at), Some(8));
    }

    /// An ended transfer keeps its place in the queue for a while; the memory for it is bounded.
    #[test]
    fn queue_memory_is_bounded_by_waiting_transfers() {
        let (mut pool, at) = pool("http://127.0.0.1/");
        pool.enqueue(at, id(0), false);
        for n in 1..10_000 {
            pool.enqueue(at, id(n), false);
            pool.withdraw(at, |id| id == self::id(0));
            assert_eq!(pool.waiting(at), 1);
            assert!(pool.waiters(at).len() <= 2 + QUEUE_SLACK);
        }
        pool.enqueue(at, id(20_000), true);
        assert_eq!(pool.front(at, |_| true), Some(id(20_000)), "again means in front");
        pool.pop(at);
        assert_eq!(pool.front(at, |id| id == self::id(0)), Some(id(0)));
        pool.pop(at);
        assert_eq!((pool.waiting(at), pool.front(at, |_| false)), (0, None));
    }

    #[test]
    fn origin_of_misdirected_requests_is_separate() {
        let request = Request::get("http://127.0.0.1/").build().unwrap();
        let mut pool = Pool::default();
        let usual = pool.origin(request.hashed());
        let misdirected = pool.misdirected_origin(request.hashed());
        assert_ne!(usual, misdirected);
        assert_eq!(pool.misdirected_origin(request.hashed()), misdirected);
        pool.sweep(misdirected, moment());
        assert_eq!((pool.origin(request.hashed()), pool.len()), (usual, 1));
        assert!(pool.misdirected_by_key.is_empty());
    }

    #[test]
    fn unused_origins_are_removed() {
        let now = moment();
        let (mut pool, at) = pool("http://name.example/");
        pool.enqueue(at, id(0), false);
        assert_eq!(pool.sweep(at, now), Swept::Kept);
        pool.pop(at);
        pool.get_mut(at).unwrap().addresses = AddressState::Resolving(now);
        assert_eq!(pool.sweep(at, now), Swept::Removed { resolving: true });
        assert_eq!(pool.sweep(at, now), Swept::Kept, "there is nothing to forget");
        assert_eq!(pool.len(), 0);
    }
}
