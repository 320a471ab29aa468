//! The reactor's sockets, by the names that the engine assigned, and the state of each: readiness,
//! room, input to be read before a failure is reported.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::BytesMut;
use fulmar_engine::{ListenerId, SocketId};
use fulmar_sys as sys;

use crate::selector::{Interest, Ready, Selector, ShortRead, Tag};

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
    /// The selector has reported a failure while reading was on.
    pub(crate) failed: bool,
    /// The engine has been notified of the peer's end, which arrived while reading was paused.
    pub(crate) hangup_reported: bool,
    pub(crate) reading: bool,
    pub(crate) eof: bool,
    /// The meaning of the next short receive.
    pub(crate) short_read: ShortRead,
    /// Our side is shut down. Once the peer has shut down its side too, the kernel reports
    /// `POLLHUP`, even if unread bytes are left.
    pub(crate) shut: bool,
    /// The engine expects an `Input`, even an empty one.
    pub(crate) resumed: bool,
    /// Input may bypass the engine.
    pub(crate) splicing: bool,
    /// The last receive filled its buffer: there may be more.
    pub(crate) flowing: bool,
    /// It is in the list of sockets to be read.
    pub(crate) listed: bool,
    /// The last transmit of frames was sent whole, by calls of its own.
    pub(crate) took_all: bool,
    pub(crate) nagle: Nagle,
    pub(crate) registration: Registration,
    pub(crate) origin: SocketOrigin,
    pub(crate) interest: Interest,
    /// Bytes that the engine has not consumed; empty unless a message is split across reads.
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

/// How a socket was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketOrigin {
    /// By us; the connection is not established yet.
    Connecting,
    /// Just accepted from this listener. The first read shows whether bytes arrive together with
    /// connections.
    Accepted(ListenerId),
    /// The connection is established, and its first read is done.
    Connected,
}

/// Whether a socket is registered with the selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// Not yet: at the end of this turn.
    New,
    /// As `New`, but the application's loop does not wait for it.
    NewUnwatched,
    /// Not yet: nothing is expected from it.
    Deferred,
    /// Yes.
    Registered,
}

/// Nagle's algorithm: the kernel delays a small packet while another one is unacknowledged
/// (RFC 9293 §3.7.4). It has no benefit here, because bytes that belong together are sent together.
/// Accepted sockets inherit `TCP_NODELAY`; connected ones do not. The first send of a connection,
/// often its only one, is never delayed, so the option is set before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nagle {
    Off,
    /// On, and nothing has been sent.
    Idle,
    /// On, and something may be on its way.
    Busy,
}

impl Nagle {
    /// Called before each send on `fd`. `minshall`: the kernel's variant never delays the last
    /// packet of a large send, as on Linux.
    pub(crate) fn handle_send(&mut self, fd: BorrowedFd<'_>, minshall: bool) {
        match self {
            Self::Off => {}
            Self::Idle if minshall => *self = Self::Busy,
            Self::Idle | Self::Busy => {
                *self = Self::Off;
                // Fails only if the connection is gone, which the send reports.
                let _ = sys::set_nodelay(fd);
            }
        }
    }
}

impl Socket {
    pub(crate) fn new(id: SocketId, fd: OwnedFd, origin: SocketOrigin) -> Self {
        let standing = origin != SocketOrigin::Connecting;
        Self {
            id,
            fd,
            readable: false,
            doubtful: false,
            send: if standing { SendState::Ready } else { SendState::Full },
            hangup: false,
            failed: false,
            hangup_reported: false,
            reading: true,
            eof: false,
            short_read: ShortRead::WouldBlock,
            shut: false,
            resumed: false,
            splicing: false,
            flowing: false,
            listed: false,
            took_all: false,
            nagle: Nagle::Off,
            registration: Registration::New,
            origin,
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

    /// A send failed. True if input that arrived before may be unread, for example from a server
    /// that responds early and closes. Then that input is read before the error is reported.
    pub(crate) fn drains_before_error(&mut self, error: &io::Error) -> bool {
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

    /// Passes a changed interest to the selector.
    #[inline]
    pub(crate) fn update_interest<S: Selector>(&mut self, selector: &mut S) {
        if selector.watches_all() {
            return;
        }
        let wants = self.wants();
        if wants != self.interest {
            self.interest = wants;
            if self.registration == Registration::Registered {
                // The interest of a registered descriptor can always be changed.
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
/// They are contiguous, whatever their names are. If an engine has several sets of connections, one
/// set may have all the sockets; the unused names between them cost four bytes each.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    sockets: Vec<Socket>,
    /// The position of a socket by the index of its name, or `NOWHERE`.
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
        if self.sockets.capacity() == 0 {
            self.sockets.reserve_exact(1); // reactors of one connection are many
        }
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

    /// Frees the memory of a past peak; false if there was little.
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
/// Memory of so many sockets is not freed.
const KEPT_LEN: usize = 128;
