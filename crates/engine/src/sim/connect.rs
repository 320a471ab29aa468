//! Connects: where they lead, and what comes of them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use super::Sim;
use super::peer::{PeerEnd, PeerScript};
use super::route::{AddressRoute, ConnectTarget};
use super::wire::{Owner, PeerId, SimConnection, WireSide};
use crate::{Endpoint, Peer, SocketEvent, SocketId};

impl Sim {
    /// Where connects to `address` lead from now on, unless an engine listens there.
    pub fn route(&mut self, address: impl Into<Peer>, route: AddressRoute) {
        self.routes.insert(0, (address.into(), route));
    }

    /// Where connects to all other addresses lead.
    pub fn default_route(&mut self, route: AddressRoute) {
        self.default_route = route;
    }

    /// A route to peers that follow a script: it is called for each new connection, and again
    /// whenever bytes or the end of a connection have arrived.
    pub fn script(&mut self, script: PeerScript) -> AddressRoute {
        self.scripts.push(script);
        AddressRoute::Script(self.scripts.len() - 1)
    }

    /// A scripted peer that connects from `from`; see [`super::ScriptedPeer::end`] if it is
    /// refused.
    pub fn connect(&mut self, from: SocketAddr, to: impl Into<Peer>) -> PeerId {
        let peer = self.add_peer(from);
        let target = self.target(&to.into());
        let key = self.add_wire(SimConnection::new(from, Owner::Peer(peer), Some(target)));
        self.peers[peer.0].place = Some(WireSide { wire: key, side: 0 });
        peer
    }

    pub(super) fn add_wire(&mut self, wire: SimConnection) -> u64 {
        self.wires_made += 1;
        self.wires.insert(self.wires_made, wire);
        self.wires_made
    }

    fn target(&self, to: &Peer) -> ConnectTarget {
        let is_open = |(_, at): &(&Peer, usize)| self.listening[*at].holders > 0;
        let listening = self.listening.iter().map(|socket| &socket.address).zip(0..);
        let found = listening.filter(|(address, _)| *address == to).find(is_open);
        let route = || self.routes.iter().find(|(address, _)| address == to);
        match found {
            Some((_, at)) => ConnectTarget::Listener(at),
            None => ConnectTarget::Route(route().map_or(self.default_route, |(_, route)| *route)),
        }
    }

    /// A Unix socket connects at once, or not at all.
    pub(super) fn connect_socket(&mut self, node: usize, socket: SocketId, to: &Endpoint) {
        let port = self.portion(1024, 65_535);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).expect("a port")));
        let is_unix = matches!(to.peer, Peer::Unix(_));
        let from = match is_unix {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            false => to.local.unwrap_or(any),
        };
        if let Some(local) = to.reports_local.as_ref().filter(|_| !is_unix) {
            local.set(from);
        }
        let target = self.target(&to.peer);
        let owner = Owner::Engine { node, socket };
        let key = self.add_wire(SimConnection::new(from, owner, Some(target)));
        self.own(WireSide { wire: key, side: 0 }, node, socket);
        if is_unix {
            match self.can_connect(target) {
                true => self.finish_connect(key),
                false => self.fail_connect(key, io::ErrorKind::WouldBlock),
            }
        }
    }

    /// True if something comes of a connect now: a full queue delays it.
    pub(super) fn can_connect(&self, target: ConnectTarget) -> bool {
        match target {
            ConnectTarget::Listener(at) => {
                let socket = &self.listening[at];
                socket.holders == 0 || socket.queue.len() < socket.queue_max
            }
            ConnectTarget::Route(route) => route != AddressRoute::Silent,
        }
    }

    /// A connect succeeds or fails.
    pub(super) fn finish_connect(&mut self, key: u64) {
        let target = self.wires[&key].connecting.expect("it is connecting");
        if self.chance(self.faults.refuse) {
            self.resets += 1;
            return self.fail_connect(key, io::ErrorKind::ConnectionRefused);
        }
        match target {
            ConnectTarget::Listener(at) if self.listening[at].holders > 0 => {
                self.listening[at].queue.push_back(key);
                self.report_connected(key);
            }
            ConnectTarget::Listener(_)
            | ConnectTarget::Route(AddressRoute::Refused | AddressRoute::Silent) => {
                self.fail_connect(key, io::ErrorKind::ConnectionRefused);
            }
            ConnectTarget::Route(AddressRoute::Unreachable) => {
                self.fail_connect(key, io::ErrorKind::HostUnreachable);
            }
            ConnectTarget::Route(AddressRoute::Script(script)) => {
                self.report_connected(key);
                let from = self.wires[&key].from;
                let peer = self.add_peer(from);
                let place = WireSide { wire: key, side: 1 };
                let scripted = &mut self.peers[peer.0];
                (scripted.place, scripted.script) = (Some(place), Some(script));
                self.end_mut(place).owner = Owner::Peer(peer);
                self.call_script(peer);
            }
        }
    }

    fn report_connected(&mut self, key: u64) {
        let wire = self.wires.get_mut(&key).expect("it is connecting");
        wire.connecting = None;
        if let Owner::Engine { node, socket } = wire.ends[0].owner {
            self.report(node, SocketEvent::Connected.of(socket));
        }
    }

    pub(super) fn fail_connect(&mut self, key: u64, kind: io::ErrorKind) {
        let elapsed = self.elapsed();
        let wire = self.wires.get_mut(&key).expect("it is connecting");
        wire.connecting = None;
        wire.ends[0].failed = true;
        wire.ends[1].closed = Some(crate::CloseKind::Normal);
        match wire.ends[0].owner {
            Owner::Engine { node, socket } => {
                self.report(node, SocketEvent::Failed(kind.into()).of(socket));
            }
            Owner::Peer(peer) => {
                self.wires.remove(&key);
                let peer = &mut self.peers[peer.0];
                (peer.end, peer.place) = (Some(PeerEnd::Refused), None);
                peer.closed = Some((elapsed, crate::CloseKind::Normal));
            }
            Owner::Queue => unreachable!("the end that connects has an owner"),
        }
    }
}
