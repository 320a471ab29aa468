//! The steps of scripted peers.

use std::net::SocketAddr;

use super::Sim;
use super::peer::{PeerEnd, PeerStep, ScriptedPeer};
use super::wire::{PeerId, WireSide};
use crate::{CloseKind, SocketId};

impl Sim {
    /// Has a scripted peer do something, with all that follows at this time.
    pub fn play(&mut self, peer: PeerId, step: PeerStep) {
        self.peers[peer.0].steps.push_back(step);
        self.settle();
    }

    /// The socket of the engine to which a scripted peer is connected.
    pub fn socket(&self, peer: PeerId) -> Option<SocketId> {
        let other = self.peers[peer.0].place?.other();
        self.places.iter().find(|(_, place)| **place == other).map(|((_, socket), _)| *socket)
    }

    pub(super) fn add_peer(&mut self, address: SocketAddr) -> PeerId {
        self.peers.push(ScriptedPeer::new(address));
        PeerId(self.peers.len() - 1)
    }

    /// Something has arrived at a peer.
    pub(super) fn call_script(&mut self, id: PeerId) {
        let peer = &mut self.peers[id.0];
        if let Some(script) = peer.script {
            self.scripts[script](id, peer, self.now);
        }
    }

    /// True if the next step of a peer can be done.
    pub(super) fn can_step(&self, peer: &ScriptedPeer) -> bool {
        let Some(place) = peer.place else { return false };
        let wire = &self.wires[&place.wire];
        let end = &wire.ends[place.side];
        let has_room = || end.outgoing.len() < self.capacity;
        wire.connecting.is_none()
            && match peer.steps.front() {
                None | Some(PeerStep::Hold) => false,
                Some(PeerStep::Send(_)) => peer.end == Some(PeerEnd::Reset) || has_room(),
                Some(PeerStep::At(due)) => *due <= self.now,
                Some(PeerStep::Until(judge)) => peer.end.is_some() || judge(&peer.received),
                Some(
                    PeerStep::Then(_)
                    | PeerStep::Fin
                    | PeerStep::Close
                    | PeerStep::Reset
                    | PeerStep::StopReading,
                ) => true,
            }
    }

    /// The next step of a peer.
    pub(super) fn step_script(&mut self, id: PeerId) {
        let peer = &mut self.peers[id.0];
        let place = peer.place.expect("it is connected");
        match peer.steps.pop_front().expect("it has a step") {
            PeerStep::Send(_) if peer.end == Some(PeerEnd::Reset) => {}
            PeerStep::Send(bytes) => self.send_scripted(id, place, bytes),
            PeerStep::At(_) | PeerStep::Hold => {}
            PeerStep::Until(judge) => {
                if !judge(&peer.received) {
                    self.close_peer(id, CloseKind::Normal);
                }
            }
            PeerStep::Then(next) => {
                for step in next(&peer.received).into_iter().rev() {
                    peer.steps.push_front(step);
                }
            }
            PeerStep::Fin => {
                peer.has_ended = true;
                self.end_mut(place).fin = true;
            }
            PeerStep::Close => self.close_peer(id, CloseKind::Normal),
            PeerStep::Reset => self.close_peer(id, CloseKind::Reset),
            PeerStep::StopReading => peer.window = 0,
        }
    }

    fn send_scripted(&mut self, id: PeerId, place: WireSide, mut bytes: Vec<u8>) {
        let room = self.capacity - self.end(place).outgoing.len();
        let n = self.portion(1, bytes.len().min(room));
        let wire = self.wires.get_mut(&place.wire).expect("it is connected");
        wire.put(place.side, &bytes[..n]);
        if n < bytes.len() {
            bytes.drain(..n);
            self.peers[id.0].steps.push_front(PeerStep::Send(bytes));
        }
    }

    fn close_peer(&mut self, id: PeerId, kind: CloseKind) {
        let peer = &mut self.peers[id.0];
        peer.has_ended = true;
        peer.steps.clear();
        if let Some(place) = peer.place.take() {
            self.close_end(place, kind);
        }
    }
}
