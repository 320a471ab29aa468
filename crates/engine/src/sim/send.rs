//! The sending side of a connection.

use std::time::Duration;

use super::Sim;
use super::files;
use super::wire::{Owner, Sending, SimConnection, WireSide};
use crate::{DriverEvent, SocketEvent, SocketId};

impl Sim {
    /// True if an engine's transmit can be tried, or tried again.
    pub(super) fn can_send(&self, wire: &SimConnection, side: usize) -> bool {
        let end = &wire.ends[side];
        let is_engine = matches!(end.owner, Owner::Engine { .. });
        let tries = match end.sending {
            Sending::Idle => false,
            Sending::Announced => true,
            Sending::Blocked => self.room(wire, side) > 0,
        };
        is_engine && tries && end.is_open() && !end.reset
    }

    /// How many more bytes the network takes from an end: what it holds, and what a scripted peer
    /// reads.
    fn room(&self, wire: &SimConnection, side: usize) -> usize {
        let window = match wire.ends[1 - side].owner {
            Owner::Peer(peer) if wire.ends[1 - side].is_open() => self.peers[peer.0].window,
            Owner::Peer(_) | Owner::Engine { .. } | Owner::Queue => usize::MAX,
        };
        self.capacity.min(window).saturating_sub(wire.ends[side].outgoing.len())
    }

    /// Tries the transmit of an engine, and reports how many bytes were sent.
    pub(super) fn send(&mut self, place: WireSide) {
        let Owner::Engine { node, socket } = self.end(place).owner else {
            unreachable!("engines have transmits")
        };
        if self.nodes[node].engine.stamps_sends() {
            self.report(node, DriverEvent::Flush);
        }
        if let Some(target) = self.wires[&place.wire].connecting {
            let established = self.can_connect(target) && self.portion(0, 1) == 1;
            match established {
                true => self.finish_connect(place.wire),
                false => return self.report_sent(place, node, socket, 0, Sending::Blocked),
            }
            if !self.end(place).is_open() {
                return;
            }
        }
        let room = self.room(&self.wires[&place.wire], place.side);
        let len = self.nodes[node].engine.poll_transmit(socket).map(|all| all.len());
        let Some(len) = len else {
            self.end_mut(place).sending = Sending::Idle;
            return;
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let n = self.portion(0, len.min(room));
        let transmit = self.nodes[node].engine.poll_transmit(socket).expect("as just before");
        // A FIN leaves with the last packet: until then the kernel holds it back (`MSG_MORE`).
        let corks = transmit.is_last && transmit.as_inline().is_some() && n == len;
        match files::flatten(transmit, n) {
            Ok(bytes) => {
                let wire = self.wires.get_mut(&place.wire).expect("a move is on a connection");
                wire.put(place.side, &bytes);
                wire.ends[place.side].corked_until = corks.then(|| self.now + CORKED_FOR);
                let sending = if n < len { Sending::Blocked } else { Sending::Idle };
                self.report_sent(place, node, socket, n as u64, sending);
            }
            Err(error) => {
                self.end_mut(place).failed = true;
                self.report(node, SocketEvent::Failed(error).of(socket));
            }
        }
    }

    fn report_sent(
        &mut self,
        place: WireSide,
        node: usize,
        socket: SocketId,
        bytes: u64,
        sending: Sending,
    ) {
        self.end_mut(place).sending = sending;
        self.report(node, SocketEvent::Sent(bytes).of(socket));
    }
}

/// How long Linux holds back a packet that is not full (tcp(7), `TCP_CORK`).
const CORKED_FOR: Duration = Duration::from_millis(200);
