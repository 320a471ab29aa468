//! The moves that are possible at one time, and the choice of one of them.

use super::Sim;
use super::wire::{Owner, PeerId, Sending, WireSide};
use crate::{DriverEvent, ListenerId};

/// One thing that can happen now, in the order of a driver's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Move {
    Accept { node: usize, listener: u32 },
    Connect(u64),
    Resolve(usize),
    Receive(u64, usize),
    Load(usize),
    Send(u64, usize),
    Script(usize),
}

impl Sim {
    /// Makes one move; false if none is possible at this time.
    pub(super) fn move_on(&mut self) -> bool {
        self.find_moves();
        let chosen = match self.is_seeded {
            true => self.random.choice(&self.possible).copied(),
            false => self.possible.iter().min().copied(),
        };
        let Some(chosen) = chosen else { return false };
        match chosen {
            Move::Receive(key, _) | Move::Send(key, _) if self.chance(self.faults.reset) => {
                self.reset(key);
            }
            Move::Accept { node, listener } => self.accept(node, ListenerId(listener)),
            Move::Connect(key) => self.finish_connect(key),
            Move::Resolve(at) => {
                let found = self.lookups.take(at);
                let result = found.result.as_deref().map_err(|error| *error);
                self.report(found.node, DriverEvent::Resolved(found.lookup, result));
            }
            Move::Receive(wire, side) => self.receive(WireSide { wire, side }),
            Move::Load(at) => self.load(at),
            Move::Send(wire, side) => self.send(WireSide { wire, side }),
            Move::Script(at) => self.step_script(PeerId(at)),
        }
        true
    }

    fn find_moves(&mut self) {
        let mut moves = std::mem::take(&mut self.possible);
        moves.clear();
        for (at, node) in self.nodes.iter().enumerate() {
            for (listener, acceptor) in (0..).zip(&node.acceptors) {
                if acceptor.is_some_and(|acceptor| {
                    acceptor.is_ready(self.now) && !self.listening[acceptor.at].queue.is_empty()
                }) {
                    moves.push(Move::Accept { node: at, listener });
                }
            }
        }
        for (key, connection) in &self.wires {
            if let Some(target) = connection.connecting {
                let end = &connection.ends[0];
                if self.can_connect(target) {
                    moves.push(Move::Connect(*key));
                }
                if end.sending == Sending::Announced && self.sends_early(end.owner) {
                    moves.push(Move::Send(*key, 0));
                }
                continue;
            }
            for side in [0, 1] {
                if self.can_receive(connection, side) {
                    moves.push(Move::Receive(*key, side));
                }
                if self.can_send(connection, side) {
                    moves.push(Move::Send(*key, side));
                }
            }
        }
        moves.extend(self.lookups.due(self.now).map(Move::Resolve));
        moves.extend((0..self.loads.len()).map(Move::Load));
        let peers = self.peers.iter().enumerate();
        moves.extend(peers.filter(|(_, it)| self.can_step(it)).map(|(at, _)| Move::Script(at)));
        self.possible = moves;
    }

    fn sends_early(&self, owner: Owner) -> bool {
        match owner {
            Owner::Engine { node, .. } => self.nodes[node].engine.sends_early(),
            Owner::Peer(_) | Owner::Queue => false,
        }
    }

    /// The network resets a connection at both ends; bytes on the way are lost.
    fn reset(&mut self, key: u64) {
        self.resets += 1;
        let wire = self.wires.get_mut(&key).expect("a move is on a connection");
        if wire.connecting.is_some() {
            return self.fail_connect(key, std::io::ErrorKind::ConnectionRefused);
        }
        for end in &mut wire.ends {
            end.outgoing.clear();
            end.reset = true;
        }
    }
}
