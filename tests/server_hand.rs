//! A server driven by hand, in virtual time: nothing waits, and every moment is exact.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, DriverEvent, Engine, SocketEvent, SocketId};
use fulmar_proto::{Input, Segment};
use fulmar_server::{ServerApp, ServerEngine};
use fulmar_sys as sys;

use crate::loops::LISTENER;

/// The server, its clock, and its peers.
pub struct ServerHand<A: ServerApp> {
    /// The engine.
    pub server: ServerEngine<A>,
    /// What each connection has come to; those that are closed stay.
    pub wires: BTreeMap<u64, Wire>,
    /// How often a deadline had passed.
    pub wake_ups: u64,
    /// The listener was closed.
    pub deaf: bool,
    start: Instant,
    now: Instant,
}

impl<A: ServerApp> fmt::Debug for ServerHand<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHand").field("wires", &self.wires).finish_non_exhaustive()
    }
}

/// One connection as its peer sees it.
#[derive(Debug)]
pub struct Wire {
    /// What the peer has been sent.
    pub sent: Vec<u8>,
    /// So many more bytes it takes.
    pub window: usize,
    /// The server has said that nothing more comes.
    pub finished: bool,
    /// When the server closed it, from the start.
    pub closed: Option<Duration>,
    unread: BytesMut,
    reading: bool,
    sending: bool,
}

impl Wire {
    /// What it was sent, as text.
    ///
    /// # Panics
    /// It is none.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.sent).expect("text")
    }
}

impl<A: ServerApp> ServerHand<A> {
    /// Nobody has connected. `make` is told the time.
    pub fn new(make: impl FnOnce(Instant) -> ServerEngine<A>) -> Self {
        let start = sys::now();
        let server = make(start);
        Self { server, wires: BTreeMap::new(), wake_ups: 0, deaf: false, start, now: start }
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// What a connection has come to.
    pub fn wire(&mut self, socket: SocketId) -> &mut Wire {
        self.wires.get_mut(&socket.to_bits()).expect("it connected")
    }

    /// Somebody connects from loopback.
    ///
    /// # Panics
    /// They are refused.
    pub fn connect(&mut self) -> SocketId {
        self.connect_from("127.0.0.1:1").expect("a place")
    }

    /// Somebody connects; `None`: they are refused.
    ///
    /// # Panics
    /// That is no address.
    pub fn connect_from(&mut self, peer: &str) -> Option<SocketId> {
        let peer: SocketAddr = peer.parse().expect("an address");
        let socket =
            self.server.accept(self.now, Accepted { listener: LISTENER, peer, local: None })?;
        let wire = Wire {
            sent: Vec::new(),
            window: usize::MAX,
            finished: false,
            closed: None,
            unread: BytesMut::new(),
            reading: true,
            sending: false,
        };
        self.wires.insert(socket.to_bits(), wire);
        self.act();
        Some(socket)
    }

    /// The peer sends bytes.
    pub fn send(&mut self, socket: SocketId, bytes: impl AsRef<[u8]>) {
        self.wire(socket).unread.extend_from_slice(bytes.as_ref());
        self.tell(socket, false);
    }

    /// The peer says that nothing more comes.
    pub fn finish(&mut self, socket: SocketId) {
        self.tell(socket, true);
    }

    /// The socket fails.
    pub fn fail(&mut self, socket: SocketId) {
        self.server.handle(
            self.now,
            SocketEvent::Failed(io::ErrorKind::ConnectionReset.into()).of(socket),
        );
        self.act();
    }

    /// Descriptors run out when a client connects.
    pub fn exhaust(&mut self) {
        let error = io::Error::other("no descriptors are left");
        self.server.handle(self.now, DriverEvent::AcceptFailed(LISTENER, &error));
        self.act();
    }

    /// The peer takes so many more bytes.
    pub fn take(&mut self, socket: SocketId, bytes: usize) {
        let wire = self.wire(socket);
        wire.window = wire.window.saturating_add(bytes);
        if wire.sending {
            self.transmit(socket);
        }
        self.act();
    }

    /// Another thread wakes the server.
    pub fn wake(&mut self) {
        self.server.handle(self.now, DriverEvent::Wake);
        self.act();
    }

    /// Lets time pass, a deadline at a time.
    ///
    /// # Panics
    /// Deadlines come faster than a million in that time.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1_000_000 {
            let Some(due) = self.server.poll_timeout().filter(|due| *due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            self.jump(Duration::ZERO);
        }
        panic!("one deadline after the other, at {:?}", self.elapsed());
    }

    /// Lets time pass as it does while a machine sleeps: nobody was there for its deadlines.
    pub fn jump(&mut self, time: Duration) {
        self.now += time;
        self.wake_ups += 1;
        self.server.handle(self.now, DriverEvent::Timeout);
        self.act();
    }

    fn tell(&mut self, socket: SocketId, eof: bool) {
        let now = self.now;
        let wire = self.wire(socket);
        if wire.closed.is_none() && wire.reading {
            let mut unread = std::mem::take(&mut wire.unread);
            self.server.handle(now, SocketEvent::Input(Input::all(&mut unread, eof)).of(socket));
            self.wire(socket).unread = unread;
        }
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.server.poll_action() {
            match action {
                Action::Transmit { socket } => self.transmit(socket),
                Action::Read { socket, on } => {
                    self.wire(socket).reading = on;
                    if on {
                        self.tell(socket, false);
                    }
                }
                Action::Shutdown { socket } => self.wire(socket).finished = true,
                Action::Close { socket, .. } => {
                    let elapsed = self.elapsed();
                    self.wire(socket).closed = Some(elapsed);
                }
                Action::Unlisten { .. } => self.deaf = true,
                _ => {}
            }
        }
    }

    fn transmit(&mut self, socket: SocketId) {
        let Some(transmit) = self.server.poll_transmit(socket) else { return };
        let mut bytes = transmit.inline.to_vec();
        for segment in transmit.segments {
            let Segment::Bytes(run) = segment else { panic!("no files here") };
            bytes.extend_from_slice(run);
        }
        let wire = self.wires.get_mut(&socket.to_bits()).expect("it connected");
        let n = bytes.len().min(wire.window);
        wire.sent.extend_from_slice(&bytes[..n]);
        wire.window -= n;
        wire.sending = n < bytes.len();
        self.server.handle(self.now, SocketEvent::Sent(n as u64).of(socket));
    }
}
