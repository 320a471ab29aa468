//! A connection in the simulator: two ends, and the bytes on the way from each.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;

use super::route::ConnectTarget;
use crate::{CloseKind, SocketId};

/// A connection.
#[derive(Debug)]
pub(super) struct SimConnection {
    /// What a connect leads to, until it is established.
    pub(super) connecting: Option<ConnectTarget>,
    /// The address of the end that connected.
    pub(super) from: SocketAddr,
    /// The end that connected, and the other one.
    pub(super) ends: [WireEnd; 2],
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WireSide {
    pub(super) wire: u64,
    pub(super) side: usize,
}

impl WireSide {
    pub(super) fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

/// A scripted peer of a [`super::Sim`], which is indexed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(pub(super) usize);

/// The owner of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A socket of an engine.
    Engine { node: usize, socket: SocketId },
    /// A scripted peer.
    Peer(PeerId),
    /// None: it waits in the queue of a listener, or was refused.
    Queue,
}

/// Whether an engine has bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Idle,
    /// [`crate::Action::Transmit`] has to be tried.
    Announced,
    /// The last try left bytes: there was no room for them.
    Blocked,
}

#[derive(Debug)]
pub(super) struct WireEnd {
    pub(super) owner: Owner,
    /// Bytes that were sent from here and have not been received.
    pub(super) outgoing: VecDeque<u8>,
    /// A FIN follows them.
    pub(super) fin: bool,
    /// They wait for the FIN, which leaves with their last packet, or for this time.
    pub(super) corked_until: Option<Instant>,
    /// The owner has closed this end.
    pub(super) closed: Option<CloseKind>,
    /// A reset has arrived here.
    pub(super) reset: bool,
    /// A failure has been reported; nothing but a close follows.
    pub(super) failed: bool,
    pub(super) sending: Sending,
    pub(super) reading: bool,
    /// Reading was resumed: an input has to be reported, even an empty one.
    pub(super) resumed: bool,
    /// Bytes go past the engine as long as it returns a passage.
    pub(super) splicing: bool,
    /// Received bytes that the engine has left.
    pub(super) unread: BytesMut,
    /// The peer's end has been reported.
    pub(super) eof: bool,
    pub(super) hangup_reported: bool,
    pub(super) unread_reported: bool,
}

impl WireEnd {
    pub(super) fn new(owner: Owner) -> Self {
        Self {
            owner,
            outgoing: VecDeque::new(),
            fin: false,
            corked_until: None,
            closed: None,
            reset: false,
            failed: false,
            sending: Sending::Idle,
            reading: true,
            resumed: false,
            splicing: false,
            unread: BytesMut::new(),
            eof: false,
            hangup_reported: false,
            unread_reported: false,
        }
    }

    /// Neither closed nor failed.
    pub(super) fn is_open(&self) -> bool {
        self.closed.is_none() && !self.failed
    }

    /// How many of the bytes sent from here have arrived at the other end.
    pub(super) fn arrived(&self, now: Instant) -> usize {
        match self.corked_until {
            Some(until) if until > now => 0,
            _ => self.outgoing.len(),
        }
    }

    /// True if the FIN has arrived at the other end, perhaps with bytes before it.
    pub(super) fn has_ended(&self, now: Instant) -> bool {
        self.fin && self.arrived(now) == self.outgoing.len()
    }
}

impl SimConnection {
    pub(super) fn new(from: SocketAddr, owner: Owner, connecting: Option<ConnectTarget>) -> Self {
        let ends = [WireEnd::new(owner), WireEnd::new(Owner::Queue)];
        Self { connecting, from, ends }
    }

    /// When bytes that wait for a FIN leave without it.
    pub(super) fn next_uncork(&self) -> Option<Instant> {
        self.ends.iter().filter_map(|end| end.corked_until).min()
    }

    /// The owner of `side` closes it. A close with unread input is a reset (RFC 9293 §3.10.4).
    pub(super) fn close(&mut self, side: usize, kind: CloseKind) {
        let has_unread = !self.ends[1 - side].outgoing.is_empty();
        let end = &mut self.ends[side];
        end.closed = Some(kind);
        end.corked_until = None;
        match kind {
            CloseKind::Normal if !has_unread => end.fin = true,
            CloseKind::Normal | CloseKind::Reset => self.ends[1 - side].reset = true,
            CloseKind::Silent => end.outgoing.clear(),
        }
    }

    /// Sends bytes from `side`. A closed end returns a reset for them, unless it is silent; after
    /// a reset they are lost.
    pub(super) fn put(&mut self, side: usize, bytes: &[u8]) {
        let [end, other] = self.ends.get_disjoint_mut([side, 1 - side]).expect("two sides");
        assert!(bytes.is_empty() || !end.fin, "no bytes follow a FIN");
        match other.closed {
            _ if end.reset => {}
            None | Some(CloseKind::Silent) => end.outgoing.extend(bytes),
            Some(_) if bytes.is_empty() => {}
            Some(_) => end.reset = true,
        }
    }

    /// The next `n` bytes on the way to `side`.
    pub(super) fn take(&mut self, side: usize, n: usize) -> Vec<u8> {
        let outgoing = &mut self.ends[1 - side].outgoing;
        let (front, back) = outgoing.as_slices();
        let split = n.min(front.len());
        let bytes = [&front[..split], &back[..n - split]].concat();
        outgoing.drain(..n);
        bytes
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.closed.is_some())
    }
}
