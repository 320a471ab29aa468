//! Between engines and drivers: the world tells (`handle_*`), the world asks (`poll_*`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use fulmar_proto::{FileRange, Input, PipeCounts, Piped, Transmit};

use crate::endpoint::Endpoint;
use crate::resolve::{LookupId, Resolved};

/// A socket as the engine knows it; the driver keeps the descriptor.
///
/// The generation tells late news of an old socket from news of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// Which slot.
    pub index: u32,
    /// Which of its tenants.
    pub generation: u32,
}

impl SocketId {
    /// As one word: the tag of an epoll registration.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From that word.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the word")]
    pub fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A listening socket, numbered by the driver in the order in which they were given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// What the engine wants done, decided while inputs were handled. Bytes are fetched with
/// [`Engine::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection, as [`Engine::poll_endpoint`] says; `handle_connected` or
    /// `handle_failed` follows.
    Connect {
        /// The name it gets.
        socket: SocketId,
    },
    /// Find the addresses of the name that [`Engine::poll_lookup`] tells; `handle_resolved`
    /// follows, unless it is given up first.
    Resolve {
        /// The question.
        lookup: LookupId,
    },
    /// Nobody waits for the answer any more.
    Abandon {
        /// The question.
        lookup: LookupId,
    },
    /// Read the file range that [`Engine::poll_load`] tells into memory; `handle_loaded` or
    /// `handle_failed` follows. For layers that must see the bytes.
    Load {
        /// For this socket.
        socket: SocketId,
    },
    /// From now on, and as long as [`Engine::poll_splice`] tells a place, move what arrives past
    /// the engine: straight into a file, and each time `handle_spliced` or `handle_splice_failed`
    /// follows, or into a pipe, and each time `handle_piped` follows. What has been received
    /// already, what is not worth it, and everything if it cannot be done, comes as input as
    /// usual.
    Splice {
        /// From this socket.
        socket: SocketId,
    },
    /// There is something to send.
    Transmit {
        /// On this socket.
        socket: SocketId,
    },
    /// Stop or go on reading. `on` is always followed by one `handle_input`, even an empty one:
    /// a layer above the descriptor may hold bytes.
    Read {
        /// On this socket.
        socket: SocketId,
        /// Go on.
        on: bool,
    },
    /// A FIN; everything queued has left.
    Shutdown {
        /// On this socket.
        socket: SocketId,
    },
    /// Nothing more is to be sent on it, no matter what: a `Close` follows.
    Silence {
        /// This socket.
        socket: SocketId,
    },
    /// Its peer is to hear of a reset, and what waits in the kernel is lost: a `Close` follows.
    Reset {
        /// This socket.
        socket: SocketId,
    },
    /// Close it.
    Close {
        /// This socket.
        socket: SocketId,
    },
    /// Stop or go on accepting; what waits in the kernel's queue stays there.
    Accept {
        /// From this listener.
        listener: ListenerId,
        /// Go on.
        on: bool,
    },
    /// Close a listener; what waits in the kernel's queue is refused.
    Unlisten {
        /// This listener.
        listener: ListenerId,
    },
}

/// Where bytes of a socket go that the engine does not want to see.
#[derive(Clone, Debug)]
pub enum Passage {
    /// Into a file that is open for writing, and not for appending (splice(2)).
    File(FileRange),
    /// Into a pipe, on their way to another socket.
    Pipe {
        /// At most so many.
        len: u64,
    },
}

impl Passage {
    /// At most so many bytes go there.
    pub fn len(&self) -> u64 {
        match self {
            Self::File(range) => range.len,
            Self::Pipe { len } => *len,
        }
    }

    /// True if none do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Many connections behind one face: what a driver drives.
///
/// Nothing here blocks, and nothing is sent while inputs are handled: the driver asks for actions
/// once everything that was ready has been told.
pub trait Engine {
    /// True if [`Engine::handle_flush`] is to be called: it costs a clock read a turn.
    const STAMPS_SENDS: bool = false;

    /// True if what is queued on a connection may be tried to be sent before it is known to stand:
    /// if that succeeds, [`Engine::handle_sent`] comes first, and [`Engine::handle_connected`] then.
    const SENDS_EARLY: bool = false;

    /// Somebody connected; on a Unix socket they have no address, and `peer` is `0.0.0.0:0`.
    /// `None`: not wanted, the driver closes it.
    fn handle_accepted(
        &mut self,
        now: Instant,
        listener: ListenerId,
        peer: SocketAddr,
    ) -> Option<SocketId>;

    /// So many who come there would all have a place: that many may be accepted before
    /// [`Engine::handle_accepted`] is told of the first. One is accepted in any case, as long as the
    /// listener is; who has limits says so with [`Action::Accept`], too.
    fn accepts_max(&self, _: ListenerId) -> usize {
        1
    }

    /// True if [`Engine::handle_local`] is to be called for everybody who comes there: it costs a
    /// system call.
    fn asks_local(&self, _: ListenerId) -> bool {
        false
    }

    /// What whoever is told next by [`Engine::handle_accepted`] has connected to.
    fn handle_local(&mut self, _local: SocketAddr) {}

    /// Nothing can be accepted for now (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`): the driver lets
    /// the listener rest and tries again.
    fn handle_accept_failed(&mut self, _now: Instant, _: ListenerId, _error: &io::Error) {}

    /// The connection that was asked for stands.
    fn handle_connected(&mut self, now: Instant, socket: SocketId);

    /// Bytes arrived, or the peer's end. What is left unread comes again with more after it.
    fn handle_input(&mut self, now: Instant, socket: SocketId, input: &mut Input<'_>);

    /// So many bytes of `socket` may be left unread, at most: no more is received before some of
    /// them are taken. An engine that leaves so many must not want to read.
    fn unread_max(&self, _socket: SocketId) -> usize {
        usize::MAX
    }

    /// So many bytes are received from a socket at once, at most: few where a head is expected whose
    /// body is not to be seen, and would come along with it.
    fn receive_max(&self, _socket: SocketId) -> usize {
        usize::MAX
    }

    /// A transmit was attempted and `bytes` of it have left: also told when that is 0.
    fn handle_sent(&mut self, now: Instant, socket: SocketId, bytes: u64);

    /// The peer has ended its side while nobody was reading from it. It may be waiting for an
    /// answer, or be gone; what it sent before has not been read.
    fn handle_hangup(&mut self, _now: Instant, _socket: SocketId) {}

    /// Bytes have arrived while reading was paused, and are left in the kernel. Reported once until
    /// reading resumes. Closing the socket now would reset the connection.
    fn handle_unread(&mut self, _now: Instant, _socket: SocketId) {}

    /// The bytes that `Action::Load` asked for: all of them, or fewer if the driver's memory is
    /// smaller; the rest is asked for again.
    fn handle_loaded(&mut self, _now: Instant, _socket: SocketId, _bytes: &[u8]) {}

    /// So many bytes went from the socket into the file.
    fn handle_spliced(&mut self, _now: Instant, _socket: SocketId, _bytes: u64) {}

    /// Bytes of the socket are in a pipe: they go wherever they are queued
    /// ([`fulmar_proto::Segment::Pipe`]), or are lost if that is nowhere.
    fn handle_piped(&mut self, _now: Instant, _socket: SocketId, _piped: Piped) {}

    /// The file that bytes of the socket were going to failed (`ENOSPC`, `EFBIG`, `EIO`), and
    /// those bytes are lost: a `Close` for the socket has to be asked for. Those that reached the
    /// file have been told before.
    fn handle_splice_failed(&mut self, now: Instant, socket: SocketId, error: io::Error) {
        self.handle_failed(now, socket, error);
    }

    /// The answer to `Action::Resolve`.
    fn handle_resolved(&mut self, _now: Instant, _lookup: LookupId, _addresses: Resolved<'_>) {}

    /// The socket failed, or could not be made (`EMFILE` and `ENFILE` when descriptors are used
    /// up: others must be closed first); a `Close` for it still has to be asked for.
    fn handle_failed(&mut self, now: Instant, socket: SocketId, error: io::Error);

    /// The moment that [`Engine::poll_timeout`] told has come.
    fn handle_timeout(&mut self, now: Instant);

    /// Another thread woke the driver.
    fn handle_wake(&mut self, _now: Instant) {}

    /// The sends of this turn are about to be made; `now` is read for this.
    fn handle_flush(&mut self, _now: Instant) {}

    /// The next thing to do.
    fn poll_action(&mut self) -> Option<Action>;

    /// What may be sent on `socket`; asking again without `handle_sent` gives the same answer.
    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>>;

    /// True if nothing will follow what may be sent on `socket` now, and nothing is expected of the
    /// peer: once it has left, `Shutdown` or `Close` is the next thing to do. So its last packet
    /// may take the FIN along.
    fn is_last(&self, _socket: SocketId) -> bool {
        false
    }

    /// Where the connection that `Action::Connect` asked for goes to.
    fn poll_endpoint(&mut self, _socket: SocketId) -> Option<Endpoint> {
        None
    }

    /// The name that `Action::Resolve` asked for; `None`: nobody waits any more.
    fn poll_lookup(&mut self, _lookup: LookupId) -> Option<&str> {
        None
    }

    /// The file range that `Action::Load` asked for.
    fn poll_load(&mut self, _socket: SocketId) -> Option<FileRange> {
        None
    }

    /// Where the next bytes from this socket go, and at most how many; `None`: they are received
    /// as usual, and so is what follows until it is asked for again.
    fn poll_splice(&mut self, _socket: SocketId) -> Option<Passage> {
        None
    }

    /// How many pipes may be open at a time; asked before another one is.
    fn pipes_max(&self) -> usize {
        PIPES_MAX
    }

    /// Where pipes are counted; asked when one is opened.
    fn pipe_counts(&self) -> Option<Arc<PipeCounts>> {
        None
    }

    /// When [`Engine::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// More of them than this are for those who know how many descriptors they have.
const PIPES_MAX: usize = 64;
