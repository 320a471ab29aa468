//! A server's engine with clients in memory. In contrast to the simulator, a step costs the same
//! with any number of connections, and the memory of the engine is counted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, DriverEvent, Engine, SocketEvent, SocketId};
use fulmar_proto::{Input, Segment};
use fulmar_server::{ServerApp, ServerEngine};
use fulmar_sys as sys;
use fulmar_tests::loops::LISTENER;

/// The engine, and what its clients have received.
pub(super) struct EngineHand<A: ServerApp> {
    /// The engine.
    pub(super) engine: ServerEngine<A>,
    /// Bytes that the engine has allocated and not freed since the start, also in its clients'
    /// unread input.
    pub(super) allocated: i64,
    now: Instant,
    clients: HashMap<SocketId, MemoryClient>,
}

/// A client, as it sees its connection.
#[derive(Debug)]
struct MemoryClient {
    received: Vec<u8>,
    /// Sent and not taken by the engine.
    unread: BytesMut,
    /// The engine reads.
    is_read: bool,
    /// The client reads.
    reads: bool,
    /// The engine has ended its side, or closed the connection.
    is_ended: bool,
}

impl<A: ServerApp> EngineHand<A> {
    /// An engine without connections; `make` receives the time.
    pub(super) fn new(make: impl FnOnce(Instant) -> ServerEngine<A>) -> Self {
        let now = sys::now();
        let mut engine = make(now);
        engine.add_listener(LISTENER, None);
        Self { engine, allocated: 0, now, clients: HashMap::new() }
    }

    /// A client connects from loopback.
    pub(super) fn connect(&mut self) -> SocketId {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let accepted = Accepted { listener: LISTENER, peer, local: None };
        let mut socket = None;
        self.count(|engine, now| socket = engine.accept(now, accepted));
        let socket = socket.expect("the engine accepts");
        let (received, unread) = (Vec::new(), BytesMut::new());
        let client = MemoryClient { received, unread, is_read: true, reads: true, is_ended: false };
        self.clients.insert(socket, client);
        self.perform();
        socket
    }

    /// A client sends bytes. False if the engine does not read them, or has ended its side.
    pub(super) fn send(&mut self, socket: SocketId, bytes: &[u8]) -> bool {
        let client = self.clients.get_mut(&socket).expect("a client");
        if client.is_ended || !client.is_read {
            return false;
        }
        let mut unread = std::mem::take(&mut client.unread);
        self.count(|engine, now| {
            unread.extend_from_slice(bytes);
            let input = SocketEvent::Input(Input::all(&mut unread, false));
            engine.handle(now, input.of(socket));
            if unread.is_empty() {
                unread = BytesMut::new();
            }
        });
        self.clients.get_mut(&socket).expect("a client").unread = unread;
        self.perform();
        true
    }

    /// A client reads no more.
    pub(super) fn stop_reading(&mut self, socket: SocketId) {
        self.clients.get_mut(&socket).expect("a client").reads = false;
    }

    /// What a client has received since the last call.
    pub(super) fn take_received(&mut self, socket: SocketId) -> Vec<u8> {
        std::mem::take(&mut self.clients.get_mut(&socket).expect("a client").received)
    }

    /// True once the engine has ended its side of a connection, or closed it.
    pub(super) fn is_ended(&self, socket: SocketId) -> bool {
        self.clients[&socket].is_ended
    }

    /// Time passes, from deadline to deadline.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.count(|engine, now| engine.handle(now, DriverEvent::Timeout));
            self.perform();
        }
        self.now = end;
    }

    /// Does what the engine wants done.
    fn perform(&mut self) {
        loop {
            let mut action = None;
            self.count(|engine, _| action = engine.poll_action());
            match action {
                None => return,
                Some(Action::Transmit { socket }) => self.transmit(socket),
                Some(Action::Read { socket, on }) => self.set_read(socket, on),
                Some(Action::Shutdown { socket } | Action::Close { socket, .. }) => {
                    if let Some(client) = self.clients.get_mut(&socket) {
                        client.is_ended = true;
                        let unread = std::mem::take(&mut client.unread);
                        self.count(|_, _| drop(unread));
                    }
                }
                Some(_) => {} // of listeners
            }
        }
    }

    /// When reading is resumed, unread input is reported again.
    fn set_read(&mut self, socket: SocketId, on: bool) {
        let Some(client) = self.clients.get_mut(&socket) else { return };
        client.is_read = on;
        if on && !client.unread.is_empty() {
            self.send(socket, b"");
        }
    }

    fn transmit(&mut self, socket: SocketId) {
        let Some(client) = self.clients.get_mut(&socket) else { return };
        let (engine, now) = (&mut self.engine, self.now);
        // What arrives is the client's: copying it is not counted.
        let polled = measure(|| {
            engine.poll_transmit(socket);
        });
        let Some(transmit) = engine.poll_transmit(socket) else { return };
        let mut sent = 0;
        if client.reads {
            sent = transmit.len();
            client.received.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(bytes) = segment else { panic!("no file is sent here") };
                client.received.extend_from_slice(bytes);
            }
        }
        let reported = measure(|| engine.handle(now, SocketEvent::Sent(sent).of(socket)));
        self.allocated += polled.bytes_current + reported.bytes_current;
    }

    fn count(&mut self, act: impl FnOnce(&mut ServerEngine<A>, Instant)) {
        let spent = measure(|| act(&mut self.engine, self.now));
        self.allocated += spent.bytes_current;
    }
}
