//! What a driver does with each action of an engine.

use super::Sim;
use super::files::Loading;
use super::wire::{Owner, Sending, WireEnd, WireSide};
use crate::{Action, CloseKind, ListenerId, SocketId};

impl Sim {
    /// Does what all engines want done.
    pub(super) fn act(&mut self) {
        loop {
            let mut idle = true;
            for node in 0..self.nodes.len() {
                while let Some(action) = self.nodes[node].engine.poll_action() {
                    self.perform(node, action);
                    idle = false;
                }
            }
            if idle {
                break;
            }
        }
        if std::mem::take(&mut self.closes) {
            self.wires.retain(|_, wire| !wire.is_over());
        }
    }

    /// Actions for sockets and listeners that are closed have no effect: an engine may queue them
    /// before its `Close` is done, or after a connect failed.
    fn perform(&mut self, node: usize, action: Action) {
        match action {
            Action::Connect { socket, endpoint } => self.connect_socket(node, socket, &endpoint),
            Action::Resolve { lookup, name } => {
                let entry = self.names.get(&name).cloned();
                self.lookups.begin(node, lookup, entry, self.now);
            }
            Action::Abandon { lookup } => self.lookups.abandon(node, lookup),
            Action::Load { socket, range } => self.loads.push(Loading { node, socket, range }),
            Action::Splice { socket } => self.with_end(node, socket, |end| {
                end.splicing = true;
                end.resumed |= !end.unread.is_empty();
            }),
            Action::Transmit { socket } => {
                self.with_end(node, socket, |end| end.sending = Sending::Announced);
            }
            Action::Read { socket, on } => self.with_end(node, socket, |end| {
                end.reading = on;
                end.resumed = on;
                end.unread_reported &= !on;
            }),
            Action::Watch { .. } => {} // the simulator waits itself
            Action::Shutdown { socket } => self.shut_down(node, socket),
            Action::Close { socket, kind } => self.close_socket(node, socket, kind),
            Action::Accept { listener, on } => self.set_accepting(node, listener, on),
            Action::ReportLocal { listener } => {
                if let Some(acceptor) = self.acceptor(node, listener) {
                    acceptor.reports_local = true;
                }
            }
            Action::Unlisten { listener } => self.unlisten(node, listener),
        }
    }

    fn set_accepting(&mut self, node: usize, listener: ListenerId, on: bool) {
        if let Some(acceptor) = self.acceptor(node, listener) {
            acceptor.wanted = on;
        }
    }

    fn with_end(&mut self, node: usize, socket: SocketId, change: impl FnOnce(&mut WireEnd)) {
        if let Some(place) = self.places.get(&(node, socket)).copied() {
            change(self.end_mut(place));
        }
    }

    fn shut_down(&mut self, node: usize, socket: SocketId) {
        let Some(place) = self.places.get(&(node, socket)).copied() else { return }; // failed
        let end = self.end_mut(place);
        assert!(!end.fin, "a connection ends once");
        end.fin = true;
        end.corked_until = None;
        if let Owner::Peer(peer) = self.end(place.other()).owner {
            self.peers[peer.0].shut_down = Some(self.elapsed());
        }
    }

    fn close_socket(&mut self, node: usize, socket: SocketId, kind: CloseKind) {
        if let Some(place) = self.places.remove(&(node, socket)) {
            self.close_end(place, kind);
        }
    }

    /// The owner closes its end. A reset discards bytes on the way: all that a seed decides.
    pub(super) fn close_end(&mut self, place: WireSide, kind: CloseKind) {
        let elapsed = self.elapsed();
        let Some(wire) = self.wires.get_mut(&place.wire) else { return }; // both ends have closed
        if wire.connecting.is_some() {
            self.wires.remove(&place.wire);
            return;
        }
        if wire.ends[place.side].closed.is_some() {
            return;
        }
        self.closes = true;
        wire.close(place.side, kind);
        let is_reset = wire.ends[1 - place.side].reset;
        if let Owner::Peer(peer) = wire.ends[1 - place.side].owner {
            self.peers[peer.0].closed = Some((elapsed, kind));
        }
        if is_reset {
            let arrived = self.end_mut(place).outgoing.len();
            let kept = self.portion(0, arrived);
            self.end_mut(place).outgoing.truncate(kept);
        }
    }

    pub(super) fn end_mut(&mut self, place: WireSide) -> &mut WireEnd {
        let wire = self.wires.get_mut(&place.wire).expect("a place is on a connection");
        &mut wire.ends[place.side]
    }

    pub(super) fn end(&self, place: WireSide) -> &WireEnd {
        &self.wires[&place.wire].ends[place.side]
    }
}
