//! Listeners: opening, sharing, pausing and closing them, and accepting from their queues.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::listener::{Acceptor, ListenSocket};
use super::node::NodeId;
use super::wire::{Owner, SimConnection, WireSide};
use super::{PeerId, Sim};
use crate::{Accepted, CloseKind, DriverEvent, Limit, ListenerId, Peer, SocketId};

impl Sim {
    /// Has an engine listen at an address, where at most `queue_max` connections wait for it.
    pub fn listen<E>(
        &mut self,
        node: NodeId<E>,
        address: impl Into<Peer>,
        queue_max: usize,
    ) -> ListenerId {
        let (address, queue) = (address.into(), VecDeque::new());
        self.listening.push(ListenSocket { address, queue_max, queue, holders: 0 });
        self.hold(node.at, self.listening.len() - 1)
    }

    /// Hands a listening socket of one engine to another one. Both accept until one of them
    /// closes it.
    ///
    /// # Panics
    /// The first engine has closed it.
    pub fn share<A, B>(
        &mut self,
        from: NodeId<A>,
        listener: ListenerId,
        to: NodeId<B>,
    ) -> ListenerId {
        let acceptor = self.acceptor(from.at, listener).expect("the listener is open");
        let at = acceptor.at;
        self.hold(to.at, at)
    }

    /// True as long as an engine has not closed its listener.
    pub fn is_listening<E>(&self, node: NodeId<E>, listener: ListenerId) -> bool {
        self.nodes[node.at].acceptors.get(listener.0 as usize).is_some_and(Option::is_some)
    }

    /// Hands a connected socket to an engine, as if it had accepted it from `listener`. Returns
    /// its peer; see [`super::ScriptedPeer::closed`] if the engine refused it.
    pub fn adopt<E>(&mut self, node: NodeId<E>, listener: ListenerId, from: SocketAddr) -> PeerId {
        self.act();
        let peer = self.add_peer(from);
        let key = self.add_wire(SimConnection::new(from, Owner::Peer(peer), None));
        self.peers[peer.0].place = Some(WireSide { wire: key, side: 0 });
        self.introduce(node.at, listener, key);
        self.settle();
        peer
    }

    /// The next accept from a listener fails, as when descriptors run out.
    pub fn fail_accept<E>(&mut self, node: NodeId<E>, listener: ListenerId) {
        self.report_accept_failed(node.at, listener);
        self.settle();
    }

    fn hold(&mut self, node: usize, at: usize) -> ListenerId {
        self.listening[at].holders += 1;
        let acceptors = &mut self.nodes[node].acceptors;
        let acceptor = Acceptor { at, wanted: true, paused_until: None, reports_local: false };
        acceptors.push(Some(acceptor));
        ListenerId(u32::try_from(acceptors.len() - 1).expect("few listeners"))
    }

    pub(super) fn acceptor(&mut self, node: usize, listener: ListenerId) -> Option<&mut Acceptor> {
        self.nodes[node].acceptors.get_mut(listener.0 as usize)?.as_mut()
    }

    /// With its last holder a listening socket closes, and its queue is refused.
    pub(super) fn unlisten(&mut self, node: usize, listener: ListenerId) {
        let slot = self.nodes[node].acceptors.get_mut(listener.0 as usize);
        let Some(acceptor) = slot.and_then(Option::take) else { return }; // closed before
        let socket = &mut self.listening[acceptor.at];
        socket.holders -= 1;
        if socket.holders == 0 {
            for key in std::mem::take(&mut socket.queue) {
                self.close_end(WireSide { wire: key, side: 1 }, CloseKind::Reset);
            }
        }
    }

    /// Takes as many connections from the queue as the engine has room for, then passes each to
    /// it and does what it wants done.
    pub(super) fn accept(&mut self, node: usize, listener: ListenerId) {
        if self.chance(self.faults.accept) {
            return self.report_accept_failed(node, listener);
        }
        let limit = self.nodes[node].engine.limit(Limit::Accepts(listener)).max(1);
        let Some(acceptor) = self.acceptor(node, listener) else { return }; // closed in this step
        let at = acceptor.at;
        let most = limit.min(self.listening[at].queue.len());
        let n = self.portion(1, most);
        let batch: Vec<u64> = self.listening[at].queue.drain(..n).collect();
        for key in batch {
            match self.acceptor(node, listener).is_some() {
                true => self.introduce(node, listener, key),
                false => self.close_end(WireSide { wire: key, side: 1 }, CloseKind::Reset),
            }
            self.act();
        }
    }

    fn introduce(&mut self, node: usize, listener: ListenerId, key: u64) {
        let (now, acceptor) = (self.now, self.acceptor(node, listener).copied());
        let place = WireSide { wire: key, side: 1 };
        let Some(wire) = self.wires.get_mut(&key) else { return }; // both ends have closed
        let local = acceptor.filter(|acceptor| acceptor.reports_local);
        let local = local.and_then(|acceptor| match self.listening[acceptor.at].address {
            Peer::Ip(address) => Some(address),
            Peer::Unix(_) => None,
        });
        let accepted = Accepted { listener, peer: wire.from, local };
        match self.nodes[node].engine.accept(now, accepted) {
            Some(socket) => self.own(place, node, socket),
            None => self.close_end(place, CloseKind::Normal),
        }
    }

    pub(super) fn own(&mut self, place: WireSide, node: usize, socket: SocketId) {
        let earlier = self.places.insert((node, socket), place);
        assert!(earlier.is_none(), "the engine reused a slot before its Close was done");
        self.end_mut(place).owner = Owner::Engine { node, socket };
    }

    fn report_accept_failed(&mut self, node: usize, listener: ListenerId) {
        let until = self.now + PAUSE;
        let Some(acceptor) = self.acceptor(node, listener) else { return }; // closed before
        acceptor.paused_until = Some(until);
        let error = io::Error::other("no descriptors are left");
        self.report(node, DriverEvent::AcceptFailed(listener, &error));
    }
}

/// How long a driver pauses a listener after a failure.
const PAUSE: Duration = Duration::from_millis(100);
