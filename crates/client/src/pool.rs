//! Connections by what they are good for, and the transfers that wait for one.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::list::{IndexList, ListPool};
use fulmar_semantics::proxy::ProxyKind;
use slab::Slab;
use url::Host;

use crate::hosts::Hosts;
use crate::key::{ByKey, Hashed, Route};
use crate::options::host_text;
use crate::transfer::TransferId;

/// Origins, their idle connections and their queues: every choice in constant time.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    by_key: ByKey<usize>,
    origins: Slab<OriginPool>,
    pub(crate) hosts: Hosts,
    /// Connections that take requests, by their position among the links: of each origin, the idle
    /// ones, the last used first, and those that are pipelined on.
    of_origin: ListPool,
    /// And of all origins, the longest idle first.
    of_all: ListPool,
    oldest: IndexList,
    idle: usize,
    /// Origins that may open a connection as soon as another one is closed, in fair order.
    pub(crate) waiting_origins: VecDeque<usize>,
}

/// Where requests with one key go.
#[derive(Debug)]
pub(crate) struct OriginPool {
    pub(crate) key: Hashed,
    pub(crate) host: usize,
    /// Connections, idle ones and those to be among them.
    pub(crate) connections: usize,
    /// Of those, how many do not stand yet.
    pub(crate) connecting: usize,
    /// Transfers that go over one of them now.
    pub(crate) active: usize,
    pub(crate) addresses: AddressState,
    /// It keeps the rules of pipelining.
    pub(crate) pipelines: bool,
    pub(crate) waits_for_connection: bool,
    idle: IndexList,
    shared: IndexList,
    /// Waiting transfers; some may be gone.
    queue: VecDeque<TransferId>,
    waiting: usize,
}

/// What is known of an origin's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddressState {
    /// Nobody has asked, or what was said is used up: the resolver keeps it, as long as it holds.
    Unknown,
    /// The resolver was asked then.
    Resolving(Instant),
    /// The host is an address.
    Literal(IpAddr),
    /// There is none: a Unix socket.
    Local,
}

/// What came of an attempt to forget an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    /// It is needed.
    Kept,
    /// Its host must be remembered until then.
    Until(Instant),
    /// It is gone; its name may still be `asked` for.
    Gone { asked: bool },
}

/// Addresses to be tried, in this order.
#[derive(Clone, Debug)]
pub(crate) enum Candidates {
    One(SocketAddr),
    Many(Arc<[IpAddr]>, u16),
    Local,
}

impl Candidates {
    /// The address to be tried `nth`.
    pub(crate) fn get(&self, nth: usize) -> Option<SocketAddr> {
        match self {
            Self::One(address) => (nth == 0).then_some(*address),
            Self::Many(addresses, port) => {
                addresses.get(nth).map(|address| SocketAddr::new(*address, *port))
            }
            Self::Local => None,
        }
    }
}

impl Pool {
    /// The origin with this key: the one that is there, or a new one.
    pub(crate) fn origin(&mut self, key: &Hashed) -> usize {
        if let Some(at) = self.by_key.get(key) {
            return *at;
        }
        let addresses = match (&key.key().route, name_to_resolve(key).parse()) {
            (Route::Unix(_), _) => AddressState::Local,
            (_, Ok(address)) => AddressState::Literal(address),
            (_, Err(_)) => AddressState::Unknown,
        };
        let host = self.hosts.join(&key.key().host);
        let at = self.origins.insert(OriginPool {
            key: key.clone(),
            host,
            connections: 0,
            connecting: 0,
            active: 0,
            addresses,
            pipelines: true,
            waits_for_connection: false,
            idle: IndexList::default(),
            shared: IndexList::default(),
            queue: VecDeque::new(),
            waiting: 0,
        });
        self.by_key.insert(key.clone(), at);
        at
    }

    pub(crate) fn get(&self, at: usize) -> Option<&OriginPool> {
        self.origins.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut OriginPool> {
        self.origins.get_mut(at)
    }

    /// Origins that are known.
    pub(crate) fn len(&self) -> usize {
        self.origins.len()
    }

    /// Idle connections.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }

    /// A transfer waits; `again`: in front of all others, it has waited before.
    pub(crate) fn enqueue(&mut self, at: usize, id: TransferId, again: bool) {
        let origin = &mut self.origins[at];
        origin.waiting += 1;
        match again {
            true => origin.queue.push_front(id),
            false => origin.queue.push_back(id),
        }
    }

    /// The transfer at the front of the queue that `is_alive`.
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

    /// The transfer at the front leaves the queue.
    pub(crate) fn pop(&mut self, at: usize) {
        let origin = &mut self.origins[at];
        origin.queue.pop_front();
        origin.waiting -= 1;
    }

    /// A waiting transfer is gone; its place in the queue is found empty later.
    pub(crate) fn withdraw(&mut self, at: usize, is_alive: impl Fn(TransferId) -> bool) {
        let origin = &mut self.origins[at];
        origin.waiting -= 1;
        if origin.queue.len() > 2 * origin.waiting + QUEUE_SLACK {
            origin.queue.retain(|id| is_alive(*id));
        }
    }

    /// The transfers that wait, and some that are gone.
    pub(crate) fn waiters(&self, at: usize) -> Vec<TransferId> {
        self.origins
            .get(at)
            .map(|origin| origin.queue.iter().copied().collect())
            .unwrap_or_default()
    }

    /// How many transfers wait.
    pub(crate) fn waiting(&self, at: usize) -> usize {
        self.origins[at].waiting
    }

    /// A connection is idle, if it has not been so already.
    pub(crate) fn insert_idle(&mut self, at: usize, link: u32) {
        if self.of_all.stands(link) {
            return;
        }
        self.of_origin.push_front(&mut self.origins[at].idle, link);
        self.of_all.push_back(&mut self.oldest, link);
        self.idle += 1;
    }

    /// An idle connection is idle no more, for whatever reason; false if it was not.
    pub(crate) fn remove_idle(&mut self, at: usize, link: u32) -> bool {
        if !self.of_all.remove(&mut self.oldest, link) {
            return false;
        }
        self.of_origin.remove(&mut self.origins[at].idle, link);
        self.idle -= 1;
        true
    }

    /// A connection takes requests besides the one that it is about.
    pub(crate) fn share(&mut self, at: usize, link: u32) {
        self.of_origin.push_back(&mut self.origins[at].shared, link);
    }

    /// It does no longer.
    pub(crate) fn unshare(&mut self, at: usize, link: u32) {
        self.of_origin.remove(&mut self.origins[at].shared, link);
    }

    /// The connection of this origin that takes another request, and has done so least recently.
    pub(crate) fn shared_of(&self, at: usize) -> Option<u32> {
        self.origins[at].shared.first()
    }

    /// The connection of this origin that was used last.
    pub(crate) fn idle_of(&self, at: usize) -> Option<u32> {
        self.origins[at].idle.first()
    }

    /// The connection that has been idle for the longest time.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.oldest.first()
    }

    /// Forgets an origin that nobody needs: memory follows what is in use.
    pub(crate) fn sweep(&mut self, at: usize, now: Instant) -> Swept {
        let Some(origin) = self.origins.get(at) else { return Swept::Kept };
        if origin.connections + origin.active + origin.waiting > 0 {
            return Swept::Kept;
        }
        if let Some(until) = self.hosts.remembered_until(origin.host, now) {
            return Swept::Until(until);
        }
        let origin = self.origins.remove(at);
        self.by_key.remove(&origin.key);
        self.hosts.leave(origin.host);
        Swept::Gone { asked: matches!(origin.addresses, AddressState::Resolving(_)) }
    }

    /// The origin waits until a connection, of whichever origin, is closed.
    pub(crate) fn wait_for_connection(&mut self, at: usize) {
        if !std::mem::replace(&mut self.origins[at].waits_for_connection, true) {
            self.waiting_origins.push_back(at);
        }
    }
}

/// The name whose addresses are needed before a connection with this key can be opened: the
/// host's, where a proxy at a known address is to be told an address.
pub(crate) fn name_to_resolve(key: &Hashed) -> Cow<'_, str> {
    match proxy_needing_address(key) {
        Some(_) => key.key().host.as_ref().into(),
        None => destination(key).0,
    }
}

/// The proxy that is to be told an address, not a name, if its own address is known.
pub(crate) fn proxy_needing_address(key: &Hashed) -> Option<SocketAddr> {
    let Route::Tunnel(proxy) = &key.key().route else { return None };
    match (proxy.kind, &proxy.host) {
        (ProxyKind::Socks5, Host::Ipv4(address)) => Some((*address, proxy.port).into()),
        (ProxyKind::Socks5, Host::Ipv6(address)) => Some((*address, proxy.port).into()),
        _ => None,
    }
}

/// The host and port that a connection with this key goes to first.
pub(crate) fn destination(key: &Hashed) -> (Cow<'_, str>, u16) {
    match &key.key().route {
        Route::Tunnel(proxy) => match &proxy.host {
            Host::Domain(name) => (name.into(), proxy.port),
            other => (host_text(other).into(), proxy.port),
        },
        Route::Direct | Route::Forward | Route::Unix(_) => {
            (key.key().host.as_ref().into(), key.key().port)
        }
    }
}

/// Gone transfers that a queue may hold besides as many as wait.
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
    fn the_last_used_is_taken_first_and_the_longest_idle_closed_first() {
        let (mut pool, at) = pool("http://127.0.0.1/");
        for link in [3, 1, 2, 1] {
            pool.insert_idle(at, link); // once is enough
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

    /// Who is gone keeps a place in the queue for a while, and the memory of it is bounded.
    #[test]
    fn a_queue_does_not_grow_by_those_who_leave_it() {
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
    fn an_origin_is_forgotten_when_nobody_needs_it() {
        let now = moment();
        let (mut pool, at) = pool("http://name.example/");
        pool.enqueue(at, id(0), false);
        assert_eq!(pool.sweep(at, now), Swept::Kept);
        pool.pop(at);
        pool.get_mut(at).unwrap().addresses = AddressState::Resolving(now);
        assert_eq!(pool.sweep(at, now), Swept::Gone { asked: true });
        assert_eq!(pool.sweep(at, now), Swept::Kept, "there is nothing to forget");
        assert_eq!(pool.len(), 0);
    }
}
