//! The receiving side of a connection: input, its end, resets, and bytes that bypass the engine.

use std::io::ErrorKind::ConnectionReset;

use fulmar_proto::{Input, Piped};

use super::Sim;
use super::files;
use super::peer::PeerEnd;
use super::wire::{Owner, PeerId, SimConnection, WireSide};
use crate::{CloseKind, Limit, Passage, SocketEvent, SocketId};

impl Sim {
    /// True if something can be reported to the owner of an end.
    pub(super) fn can_receive(&self, wire: &SimConnection, side: usize) -> bool {
        let (end, other) = (&wire.ends[side], &wire.ends[1 - side]);
        if !end.is_open() {
            return false;
        }
        let (arrived, has_ended) = (other.arrived(self.now), other.has_ended(self.now));
        match end.owner {
            Owner::Queue => false,
            Owner::Peer(peer) => {
                let peer = &self.peers[peer.0];
                let ended = peer.end.is_none() && has_ended && arrived == 0;
                peer.window > 0 && (arrived > 0 || end.reset || ended)
            }
            Owner::Engine { node, socket } if end.reading => {
                let limit = || self.nodes[node].engine.limit(Limit::Unread(socket));
                let wanted = arrived > 0 && limit() > end.unread.len();
                let ended = arrived == 0 && (end.reset || has_ended && !end.eof);
                end.resumed || wanted || ended
            }
            Owner::Engine { .. } => {
                let hangs_up = has_ended && !end.eof && !end.hangup_reported;
                end.reset || hangs_up || arrived > 0 && !end.unread_reported
            }
        }
    }

    /// Reports what has arrived to the owner of an end.
    pub(super) fn receive(&mut self, place: WireSide) {
        let now = self.now;
        let (end, other) = (self.end(place), self.end(place.other()));
        let (arrived, has_ended) = (other.arrived(now), other.has_ended(now));
        let (reset, reading, hung) = (end.reset, end.reading, end.hangup_reported || end.eof);
        let (node, socket) = match end.owner {
            Owner::Engine { node, socket } => (node, socket),
            Owner::Peer(peer) => return self.receive_scripted(place, peer, arrived),
            Owner::Queue => unreachable!("no owner receives"),
        };
        if reset && (!reading || arrived == 0) {
            self.end_mut(place).failed = true;
            let event = SocketEvent::Failed(ConnectionReset.into());
            return self.report(node, event.of(socket));
        }
        if reading {
            return self.receive_input(place, node, socket, arrived);
        }
        let event = match has_ended && !hung {
            true => {
                self.end_mut(place).hangup_reported = true;
                SocketEvent::Hangup
            }
            false => {
                self.end_mut(place).unread_reported = true;
                SocketEvent::Unread
            }
        };
        self.report(node, event.of(socket));
    }

    fn receive_input(&mut self, place: WireSide, node: usize, socket: SocketId, arrived: usize) {
        let end = self.end(place);
        let splices = end.splicing && !end.resumed && end.unread.is_empty() && arrived > 0;
        if splices && self.splice(place, node, socket, arrived) {
            return;
        }
        let engine = &self.nodes[node].engine;
        let unread = self.end(place).unread.len();
        let most = engine.limit(Limit::Unread(socket)).saturating_sub(unread).min(arrived);
        let most = most.min(engine.limit(Limit::Receive(socket))).min(self.receive_max);
        let n = self.portion(0, most);
        let wire = self.wires.get_mut(&place.wire).expect("a move is on a connection");
        let bytes = wire.take(place.side, n);
        let other = &wire.ends[1 - place.side];
        let eof = other.has_ended(self.now) && other.outgoing.is_empty();
        let end = &mut wire.ends[place.side];
        end.resumed = false;
        end.eof |= eof;
        let (mut input, eof) = (std::mem::take(&mut end.unread), end.eof);
        input.extend_from_slice(&bytes);
        self.report(node, SocketEvent::Input(Input::all(&mut input, eof)).of(socket));
        self.end_mut(place).unread = input;
    }

    /// Moves bytes to where they belong, past the engine; false if they are received as usual.
    fn splice(&mut self, place: WireSide, node: usize, socket: SocketId, arrived: usize) -> bool {
        let passage = self.nodes[node].engine.poll_passage(socket).filter(|to| !to.is_empty());
        let Some(passage) = passage else {
            self.end_mut(place).splicing = false;
            return false;
        };
        let len = usize::try_from(passage.len()).unwrap_or(usize::MAX);
        let most = arrived.min(len).min(files::PIPE_SIZE);
        let n = self.portion(1, most);
        match passage {
            Passage::File(range) => {
                let wire = self.wires.get_mut(&place.wire).expect("a move is on a connection");
                let bytes = wire.take(place.side, n);
                let result = match self.chance(self.faults.file) {
                    true => Err(files::failure()),
                    false => files::write(&range, &bytes),
                };
                let event = match result {
                    Ok(()) => SocketEvent::Spliced(n as u64),
                    Err(error) => {
                        let end = self.end_mut(place);
                        (end.splicing, end.reading) = (false, false);
                        SocketEvent::FileFailed(error)
                    }
                };
                self.report(node, event.of(socket));
            }
            Passage::Pipe { .. } => {
                let Some(pipe) = self.take_pipe(node) else {
                    self.end_mut(place).splicing = false;
                    return false;
                };
                let wire = self.wires.get_mut(&place.wire).expect("a move is on a connection");
                files::fill(&pipe, &wire.take(place.side, n));
                let piped = Piped { pipe, len: n as u64 };
                self.report(node, SocketEvent::Piped(piped).of(socket));
            }
        }
        true
    }

    fn receive_scripted(&mut self, place: WireSide, id: PeerId, arrived: usize) {
        let n = self.portion(0, arrived.min(self.peers[id.0].window));
        let now = self.now;
        let wire = self.wires.get_mut(&place.wire).expect("a move is on a connection");
        let bytes = wire.take(place.side, n);
        let (end, other) = (&wire.ends[place.side], &wire.ends[1 - place.side]);
        let peer = &mut self.peers[id.0];
        peer.received.extend_from_slice(&bytes);
        peer.window -= n;
        if other.outgoing.is_empty() {
            peer.end = match (end.reset, other.has_ended(now)) {
                (true, _) => Some(PeerEnd::Reset),
                (false, true) => Some(PeerEnd::Fin),
                (false, false) => None,
            };
        }
        if peer.end == Some(PeerEnd::Reset) {
            peer.place = None;
            self.close_end(place, CloseKind::Normal);
        }
        self.call_script(id);
    }
}
