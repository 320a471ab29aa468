//! The reactor's sockets, by the names that the engine gave them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::BytesMut;
use fulmar_engine::{ListenerId, SocketId};
use fulmar_sys as sys;

use crate::selector::{Interest, Ready, Selector, Tag, Tail};

/// One connection as the kernel and the engine see it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) id: SocketId,
    pub(crate) fd: OwnedFd,
    /// The kernel may hold bytes: an edge has been seen and no empty read since.
    pub(crate) readable: bool,
    /// The kernel may hold bytes although the last receive fell short, as the selector does not
    /// trust short reads.
    pub(crate) doubtful: bool,
    pub(crate) send: SendState,
    pub(crate) hangup: bool,
    /// The selector has said that it failed, while it was read from.
    pub(crate) dead: bool,
    /// The engine has been told that the peer ended while it was not read from.
    pub(crate) parted: bool,
    pub(crate) reading: bool,
    pub(crate) eof: bool,
    /// What a receive that falls short has come upon.
    pub(crate) tail: Tail,
    /// We have ended our side: once the peer has ended its own too, the kernel says that the
    /// connection is dead (`POLLHUP`), whatever is left to be read from it.
    pub(crate) shut: bool,
    /// The engine is owed an `Input`, even an empty one.
    pub(crate) resumed: bool,
    /// What arrives may go past the engine.
    pub(crate) splicing: bool,
    /// The last receive had all the bytes that it asked for: there are more.
    pub(crate) flowing: bool,
    /// It stands on a list of sockets to be read.
    pub(crate) listed: bool,
    pub(crate) nagle: Nagle,
    pub(crate) known: Known,
    pub(crate) birth: Birth,
    pub(crate) interest: Interest,
    /// What the engine left unread; empty unless a message is split across reads.
    pub(crate) unread: BytesMut,
}

/// The sending side of a socket.
///
/// ```text
///        transmit            sent, or part of it
/// Ready ─────────▶ Queued ───────────────────────▶ Ready, Full or Broken
///   ▲                                               │
///   └────────────── the socket has room ────────────┘ (from Full)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// There is no room, or the socket is not connected yet.
    Full,
    /// There may be room.
    Ready,
    /// Its transmit is on this turn's list, and must not be polled again: it would be sent twice.
    Queued,
    /// Sending failed with this error. The input that arrived before is read, then the error is
    /// reported.
    Broken(io::ErrorKind),
}

/// How a socket came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// We asked for it, and it does not stand yet.
    Connecting,
    /// Just accepted from there: its first read tells whether bytes come with connections.
    Accepted(ListenerId),
    /// Nothing special about it any more.
    Standing,
}

/// Whether the selector knows a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Not before the end of this turn.
    Fresh,
    /// Not yet: nobody waits for it.
    Quiet,
    /// It does.
    Watched,
}

/// Whether the kernel holds a small packet back while another one is on its way (RFC 9293 §3.7.4).
/// It is of no use here, where what belongs together is sent together. What is accepted has
/// inherited that it is off; what we connect has not, and the first send of many is its only one:
/// that one leaves at once in any case. So it is switched off before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nagle {
    Off,
    /// On, and nothing has been sent.
    Idle,
    /// On, and something may be on its way.
    Busy,
}

impl Nagle {
    /// Something is about to be sent on `fd`. `minshall`: of one large send, the last packet is
    /// not held back for the sake of those before it, as Linux has it.
    pub(crate) fn handle_send(&mut self, fd: BorrowedFd<'_>, minshall: bool) {
        match self {
            Self::Off => {}
            Self::Idle if minshall => *self = Self::Busy,
            Self::Idle | Self::Busy => {
                *self = Self::Off;
                // Fails only if the connection is gone, which the send tells.
                let _ = sys::set_nodelay(fd);
            }
        }
    }
}

impl Socket {
    pub(crate) fn new(id: SocketId, fd: OwnedFd, birth: Birth) -> Self {
        let standing = birth != Birth::Connecting;
        Self {
            id,
            fd,
            readable: false,
            doubtful: false,
            send: if standing { SendState::Ready } else { SendState::Full },
            hangup: false,
            dead: false,
            parted: false,
            reading: true,
            eof: false,
            tail: Tail::Open,
            shut: false,
            resumed: false,
            splicing: false,
            flowing: false,
            listed: false,
            nagle: Nagle::Off,
            known: Known::Fresh,
            birth,
            interest: Interest { read: true, write: !standing, hangup: true },
            unread: BytesMut::new(),
        }
    }

    /// The readiness to wait for. While reading is paused, the first bytes that arrive are reported
    /// once: they decide how the connection closes.
    pub(crate) fn wants(&self) -> Interest {
        let read = !self.eof && (self.reading || !self.readable);
        Interest { read, write: self.send == SendState::Full, hangup: !self.hangup && !self.eof }
    }

    /// True if nothing is needed of it now: neither bytes nor room.
    pub(crate) fn is_passive(&self) -> bool {
        self.has_room() && (self.eof || !self.reading)
    }

    /// True if a transmit may be tried, or is on this turn's list.
    pub(crate) fn has_room(&self) -> bool {
        match self.send {
            SendState::Ready | SendState::Queued => true,
            SendState::Full | SendState::Broken(_) => false,
        }
    }

    /// The kernel has reported room. True if that is new.
    pub(crate) fn handle_room(&mut self) -> bool {
        let is_new = self.send == SendState::Full;
        if is_new {
            self.send = SendState::Ready;
        }
        is_new
    }

    /// True if bytes have arrived, or may have, that are not read now.
    pub(crate) fn is_unread(&self) -> bool {
        self.readable && !self.reading && !self.eof
    }

    /// A send failed. True if the peer may have said something before that is not read yet, as
    /// who answers early and closes does: then it is read first.
    pub(crate) fn hears_out(&mut self, error: &io::Error) -> bool {
        let gone =
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        if !gone || !self.reading || self.eof {
            return false;
        }
        self.send = SendState::Broken(error.kind());
        (self.readable, self.hangup) = (true, true);
        true
    }

    pub(crate) fn note(&mut self, ready: Ready) {
        // An error is found behind everything that was received before it.
        let ends = ready.hangup || ready.failed;
        self.readable |= ready.read || ends;
        self.doubtful &= !(ready.read || ends);
        self.hangup |= ends;
    }

    /// Puts it on `due`, the list of those to be read, if it belongs there.
    pub(crate) fn list(&mut self, due: &mut Vec<SocketId>) {
        if self.is_due() && !std::mem::replace(&mut self.listed, true) {
            due.push(self.id);
        }
    }

    /// Has it waited for as it is wanted now.
    pub(crate) fn update_interest<S: Selector>(&mut self, selector: &mut S) {
        let wants = self.wants();
        if !selector.watches_all() && wants != self.interest {
            self.interest = wants;
            if self.known == Known::Watched {
                // A descriptor that is watched can be watched for something else.
                let _ = selector.set_interest(self.fd.as_fd(), self.tag(), wants);
            }
        }
    }

    /// True if a turn has something to do on its receiving side.
    fn is_due(&self) -> bool {
        self.resumed || self.may_receive()
    }

    /// True if the engine wants bytes and the kernel may have some.
    pub(crate) fn may_receive(&self) -> bool {
        self.reading && self.readable && !self.eof
    }

    pub(crate) fn tag(&self) -> Tag {
        Tag::Socket(self.id)
    }
}

/// All sockets; a stale name finds none.
///
/// They stand side by side, wherever their names are: of an engine with several kinds of links, one
/// kind may have all of them, and the names between those of one kind cost a number each.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    sockets: Vec<Socket>,
    /// By the index of a name, where its socket stands, or `NOWHERE`.
    places: Vec<u32>,
}

impl Sockets {
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let at = *self.places.get(id.index as usize)?;
        self.sockets.get_mut(at as usize).filter(|socket| socket.id == id)
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        let at = *self.places.get(id.index as usize)?;
        self.sockets.get(at as usize).filter(|socket| socket.id == id)
    }

    pub(crate) fn fd(&self, id: SocketId) -> BorrowedFd<'_> {
        self.get(id).expect("named by this turn's list").fd.as_fd()
    }

    pub(crate) fn insert(&mut self, socket: Socket) {
        let index = socket.id.index as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        let is_free = self.places[index] == NOWHERE;
        assert!(is_free, "the engine reused a slot before its Close was done");
        self.places[index] = u32::try_from(self.sockets.len()).expect("fewer sockets than 2^32");
        self.sockets.push(socket);
    }

    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Socket> {
        self.get_mut(id)?;
        let at = std::mem::replace(&mut self.places[id.index as usize], NOWHERE);
        let socket = self.sockets.swap_remove(at as usize);
        debug_assert_eq!(socket.id, id, "places and sockets agree");
        if let Some(moved) = self.sockets.get(at as usize) {
            self.places[moved.id.index as usize] = at;
        }
        while self.places.pop_if(|place| *place == NOWHERE).is_some() {}
        Some(socket)
    }

    /// Gives memory back that a crowd has left; false if there was none to speak of.
    pub(crate) fn shrink(&mut self) -> bool {
        let crowded = self.sockets.capacity() > 4 * self.sockets.len().max(KEPT_LEN);
        if crowded {
            self.sockets.shrink_to(2 * self.sockets.len());
        }
        if self.places.capacity() > 4 * self.places.len().max(KEPT_LEN) {
            self.places.shrink_to(2 * self.places.len());
        }
        crowded
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Socket> {
        self.places.clear();
        self.sockets.drain(..)
    }
}

/// No socket has this place.
const NOWHERE: u32 = u32::MAX;
/// So many places are not worth giving back.
const KEPT_LEN: usize = 128;
