//! The boundary between engines and drivers: events go in, actions and bytes come out.
//!
//! A driver owns descriptors and waits; an engine owns connections, policy and deadlines. In each
//! turn the driver
//!
//! 1. reports everything that is ready: [`Engine::accept`], [`Engine::handle`];
//! 2. performs what the engine wants: [`Engine::poll_action`], until there is none;
//! 3. sends: [`Engine::poll_transmit`] for each socket with [`Action::Transmit`], then
//!    [`SocketEvent::Sent`];
//! 4. waits, at most until [`Engine::poll_timeout`].
//!
//! Nothing blocks, and nothing is sent before everything that was ready has been reported: so a
//! head and its body, or several short responses, leave together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use fulmar_proto::{FileRange, Input, PipeCounts, Piped, Transmit};

use crate::endpoint::Endpoint;
use crate::resolve::{LookupId, Resolved};

/// The engine's name for a socket; the driver keeps the descriptor.
///
/// Slots are reused. The generation distinguishes late events of a closed socket from events of the
/// next one in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// The slot.
    pub index: u32,
    /// How often the slot had been used before, modulo 2^32.
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

/// A listening socket, numbered by the driver in the order in which the sockets were given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// Many connections behind one interface: what a driver drives.
///
/// # Example
/// An engine that closes each connection when its first byte arrives:
///
/// ```
/// use std::collections::VecDeque;
/// use std::time::Instant;
///
/// use fulmar_engine::{
///     Accepted, Action, CloseKind, DriverEvent, Engine, SocketEvent, SocketId,
/// };
/// use fulmar_proto::Transmit;
///
/// #[derive(Default)]
/// struct Closer {
///     actions: VecDeque<Action>,
///     accepted: u32,
/// }
///
/// impl Engine for Closer {
///     fn accept(&mut self, _: Instant, _: Accepted) -> Option<SocketId> {
///         self.accepted += 1;
///         Some(SocketId { index: self.accepted, generation: 0 })
///     }
///
///     fn handle(&mut self, _: Instant, event: DriverEvent<'_>) {
///         if let DriverEvent::Socket(socket, SocketEvent::Input(mut input)) = event {
///             input.clear();
///             self.actions.push_back(Action::Close { socket, kind: CloseKind::Normal });
///         }
///     }
///
///     fn poll_action(&mut self) -> Option<Action> {
///         self.actions.pop_front()
///     }
///
///     fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> {
///         None
///     }
///
///     fn poll_timeout(&self) -> Option<Instant> {
///         None
///     }
/// }
/// ```
pub trait Engine {
    /// True to receive [`DriverEvent::Flush`], which costs a clock read per turn.
    const STAMPS_SENDS: bool = false;

    /// True if queued bytes may be sent before a connect has been confirmed. If that succeeds,
    /// [`SocketEvent::Connected`] comes first and [`SocketEvent::Sent`] follows.
    const SENDS_EARLY: bool = false;

    /// A connection was accepted. `None`: the driver closes it. Engines that only connect keep the
    /// default.
    fn accept(&mut self, _now: Instant, _from: Accepted) -> Option<SocketId> {
        None
    }

    /// Something happened; what it leads to is fetched with [`Engine::poll_action`].
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>);

    /// The next thing to do.
    fn poll_action(&mut self) -> Option<Action>;

    /// The bytes that `socket` sends next. Without [`SocketEvent::Sent`] in between, another call
    /// returns the same.
    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>>;

    /// Where the next bytes from a socket with [`Action::Splice`] go, and at most how many. `None`:
    /// they are received as usual from now on, until the next `Action::Splice`.
    fn poll_passage(&mut self, _socket: SocketId) -> Option<Passage> {
        None
    }

    /// When [`DriverEvent::Timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant>;

    /// How much of something is allowed now.
    #[inline]
    fn limit(&self, of: Limit) -> usize {
        of.default_value()
    }

    /// The counters for pipes that the driver opens; requested for each pipe.
    fn pipe_counts(&self) -> Option<Arc<PipeCounts>> {
        None
    }
}

/// An accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The listener that it came from.
    pub listener: ListenerId,
    /// The client's address; `0.0.0.0:0` on a Unix socket.
    pub peer: SocketAddr,
    /// The address that it connected to, on a listener with [`Action::ReportLocal`].
    pub local: Option<SocketAddr>,
}

/// What a driver reports to [`Engine::handle`].
#[derive(Debug)]
pub enum DriverEvent<'a> {
    /// Something happened on a socket. The socket may have been closed in this turn: late events
    /// are ignored.
    Socket(SocketId, SocketEvent<'a>),
    /// Accepting failed for lack of descriptors or memory (`EMFILE`, `ENFILE`, `ENOBUFS`,
    /// `ENOMEM`). The driver pauses the listener and tries again.
    AcceptFailed(ListenerId, &'a io::Error),
    /// The result of [`Action::Resolve`].
    Resolved(LookupId, Resolved<'a>),
    /// The time of [`Engine::poll_timeout`] has come.
    Timeout,
    /// Another thread woke the driver.
    Wake,
    /// The sends of this turn follow; `now` was read for this. Only with
    /// [`Engine::STAMPS_SENDS`].
    Flush,
}

/// What happened on a socket.
#[derive(Debug)]
pub enum SocketEvent<'a> {
    /// The connection of [`Action::Connect`] is established.
    Connected,
    /// Bytes arrived, or the peer's end. Unread bytes come again with more after them; see
    /// [`Limit::Unread`].
    Input(Input<'a>),
    /// A transmit was tried, and so many of its bytes were sent; 0 is reported, too.
    Sent(u64),
    /// The peer has ended its side while reading was paused. It may wait for a response or be gone;
    /// earlier bytes may still be unread in the kernel.
    Hangup,
    /// Bytes arrived while reading was paused and are left in the kernel. Reported once until
    /// reading resumes. Closing the socket now would reset the connection.
    Unread,
    /// The bytes of [`Action::Load`]: all, or the first of them if the driver's memory is smaller.
    /// The rest needs another `Action::Load`.
    Loaded(&'a [u8]),
    /// So many bytes went from the socket into the file of [`Passage::File`].
    Spliced(u64),
    /// Bytes of the socket are in a pipe ([`Passage::Pipe`]). They are sent where they are queued
    /// ([`fulmar_proto::Segment::Pipe`]), and lost if they are queued nowhere.
    Piped(Piped),
    /// The socket failed or could not be opened (`EMFILE` and `ENFILE`: close others first).
    /// [`Action::Close`] is still needed.
    Failed(io::Error),
    /// The file of [`Passage::File`] failed (`ENOSPC`, `EFBIG`, `EIO`). Bytes on their way are
    /// lost; those that reached it were reported before. [`Action::Close`] is still needed.
    FileFailed(io::Error),
}

impl<'a> SocketEvent<'a> {
    /// This event of `socket`.
    #[inline]
    pub fn of(self, socket: SocketId) -> DriverEvent<'a> {
        DriverEvent::Socket(socket, self)
    }
}

/// What the engine wants done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Open a connection; [`SocketEvent::Connected`] or [`SocketEvent::Failed`] follows.
    Connect {
        /// Its name from now on.
        socket: SocketId,
        /// The address, and the options of the socket.
        endpoint: Box<Endpoint>,
    },
    /// Find the addresses of a name; [`DriverEvent::Resolved`] follows, unless the lookup is
    /// abandoned first.
    Resolve {
        /// The lookup.
        lookup: LookupId,
        /// The host name.
        name: Box<str>,
    },
    /// The result of a lookup is no longer needed.
    Abandon {
        /// The lookup.
        lookup: LookupId,
    },
    /// Read a file range into memory, for a layer that encrypts it; [`SocketEvent::Loaded`] or
    /// [`SocketEvent::Failed`] follows.
    Load {
        /// The socket that will send it.
        socket: SocketId,
        /// The range.
        range: FileRange,
    },
    /// From now on, and as long as [`Engine::poll_passage`] returns one, move arriving bytes past
    /// the engine; [`SocketEvent::Spliced`] or [`SocketEvent::Piped`] follows each time. Bytes that
    /// were received before, amounts too small to be worth it, and everything on sockets that
    /// cannot splice, come as [`SocketEvent::Input`].
    Splice {
        /// The source.
        socket: SocketId,
    },
    /// There are bytes to send: [`Engine::poll_transmit`].
    Transmit {
        /// On this socket.
        socket: SocketId,
    },
    /// Pause or resume reading. `on` is always followed by one [`SocketEvent::Input`], even an
    /// empty one: a layer above the descriptor may hold bytes.
    Read {
        /// On this socket.
        socket: SocketId,
        /// True to resume.
        on: bool,
    },
    /// Stop or resume waiting for a socket in an application's loop. While `on` is false its peer
    /// is expected to send nothing, and the driver checks it only when the application calls for
    /// that.
    /// Drivers that wait themselves ignore it.
    Watch {
        /// This socket.
        socket: SocketId,
        /// True to resume.
        on: bool,
    },
    /// Send a FIN; everything queued has been sent.
    Shutdown {
        /// On this socket.
        socket: SocketId,
    },
    /// Close a socket; its name is stale from now on.
    Close {
        /// This socket.
        socket: SocketId,
        /// What the peer sees of it.
        kind: CloseKind,
    },
    /// Pause or resume accepting; connections stay in the kernel's queue meanwhile.
    Accept {
        /// From this listener.
        listener: ListenerId,
        /// True to resume.
        on: bool,
    },
    /// Report the local address of each connection accepted from a listener, which costs a system
    /// call per connection.
    ReportLocal {
        /// This listener.
        listener: ListenerId,
    },
    /// Close a listener; connections in the kernel's queue are refused.
    Unlisten {
        /// This listener.
        listener: ListenerId,
    },
}

/// What the peer sees of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    /// As close(2) does it: a FIN, or a reset if bytes are unread.
    Normal,
    /// A reset; bytes waiting in the kernel are discarded (`SO_LINGER` of 0, socket(7)).
    Reset,
    /// Nothing, as far as the system can do that: `TCP_REPAIR` (Linux with `CAP_NET_ADMIN`), else
    /// packets with a hop limit of 1.
    Silent,
}

/// Where bytes of a socket go without passing through the engine.
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
    /// At most so many bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::File(range) => range.len,
            Self::Pipe { len } => *len,
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What [`Engine::limit`] bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Received bytes of a socket that may wait unread. No more is received before some of them are
    /// taken; an engine that leaves so many must have paused reading.
    Unread(SocketId),
    /// Bytes of a socket received by one call: few where a head is expected whose body will be
    /// spliced, since the head's receive would take a part of the body.
    Receive(SocketId),
    /// Connections that may be accepted from a listener before [`Engine::accept`] is called for the
    /// first of them. One is accepted in any case; see also [`Action::Accept`].
    Accepts(ListenerId),
    /// Pipes that may be open at a time.
    Pipes,
}

impl Limit {
    /// The limit of an engine that sets none.
    #[inline]
    pub fn default_value(self) -> usize {
        match self {
            Self::Unread(_) | Self::Receive(_) => usize::MAX,
            Self::Accepts(_) => 1,
            Self::Pipes => PIPES_MAX,
        }
    }
}

/// Engines that know how many descriptors they may use set a limit of their own.
const PIPES_MAX: usize = 64;
