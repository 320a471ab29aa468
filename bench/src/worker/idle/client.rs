//! A client engine of the smallest kind: it sends requests and counts events.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Action, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine, Handler, SocketEvent,
    SocketId, Timeouts,
};
use fulmar_proto::h1::EncodedRequest;
use fulmar_proto::h1::H1Client;
use fulmar_proto::{
    Client as ClientRole, Connection, Event, HeaderBuf, Request, Transmit, UsageError,
};

/// Many idle connections, and an active one.
#[derive(Debug)]
pub(super) struct IdleClient {
    connections: Connections<H1Client, IdleKind>,
    ends: ConnectionEnds,
    idle: EncodedRequest,
    stream: EncodedRequest,
    peers: Vec<SocketAddr>,
    wanted: usize,
    opened: usize, // idle connections
    sent: usize,   // and those with a sent request
    active: Option<SocketId>,
    events: u64,
    uneven: u64,
}

/// What is attached to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdleKind {
    Idle,
    Active,
}

/// The end of a connection; none should end.
#[derive(Debug, Default)]
struct ConnectionEnds(Option<String>);

impl IdleClient {
    /// Nothing is open yet. Every connection has deadlines, as a client's have.
    pub(super) fn new(
        now: Instant,
        idle: usize,
        peers: Vec<SocketAddr>,
    ) -> Result<Self, UsageError> {
        let timeouts = Timeouts {
            connect: Some(ANSWER_TIMEOUT),
            response: Some(ANSWER_TIMEOUT),
            body: Some(BODY_TIMEOUT),
            ..Timeouts::default()
        };
        Ok(Self {
            connections: Connections::new(now, timeouts, 0, 1),
            ends: ConnectionEnds::default(),
            idle: request(b"/idle")?,
            stream: request(b"/stream/100")?,
            peers,
            wanted: idle,
            opened: 0,
            sent: 0,
            active: None,
            events: 0,
            uneven: 0,
        })
    }

    /// Opens as many idle connections as may be in progress at a time.
    pub(super) fn open_idle(&mut self, now: Instant) {
        while self.opened < self.wanted && self.opened - self.sent < OPENING_MAX {
            let peer = self.peers[self.opened * self.peers.len() / self.wanted];
            self.opened += 1;
            self.connect(now, peer, IdleKind::Idle);
        }
    }

    /// Opens the active connection.
    pub(super) fn open_active(&mut self, now: Instant, peer: SocketAddr) {
        self.active = Some(self.connect(now, peer, IdleKind::Active));
    }

    /// True once all idle connections are open, or one of them has ended.
    pub(super) fn is_open(&self) -> bool {
        self.sent == self.wanted || self.ended().is_some()
    }

    /// Why a connection has ended.
    pub(super) fn ended(&self) -> Option<&str> {
        self.ends.0.as_deref()
    }

    /// Turns in which the active stream had data.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Those with more or less than [`EVENT_SIZE`] bytes.
    pub(super) fn uneven(&self) -> u64 {
        self.uneven
    }

    pub(super) fn reset_counts(&mut self) {
        (self.events, self.uneven) = (0, 0);
    }

    fn connect(&mut self, now: Instant, peer: SocketAddr, kind: IdleKind) -> SocketId {
        let mut connection = H1Client::default();
        let stream = connection.open().expect("it is new");
        let request = match kind {
            IdleKind::Idle => &self.idle,
            IdleKind::Active => &self.stream,
        };
        connection.send_encoded(stream, request).expect("it was compiled, and is the first");
        self.connections.connect(now, Endpoint::to(peer), None, connection, kind)
    }
}

impl Engine for IdleClient {
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        let (socket, event) = match event {
            DriverEvent::Socket(socket, event) => (socket, event),
            DriverEvent::Timeout => return self.connections.handle_timeout(now, &mut self.ends),
            // It accepts nothing, resolves nothing and is driven by one thread.
            _ => return,
        };
        match &event {
            SocketEvent::Input(input) if self.active == Some(socket) && !input.is_empty() => {
                self.events += 1;
                self.uneven += u64::from(input.bytes().len() != EVENT_SIZE);
            }
            SocketEvent::Sent(bytes) if *bytes > 0 && self.active != Some(socket) => {
                self.sent += 1;
                self.open_idle(now);
            }
            _ => {}
        }
        self.connections.handle(now, socket, event, &mut self.ends);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.connections.poll_action()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections.poll_timeout()
    }
}

impl Handler<H1Client, IdleKind> for ConnectionEnds {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, _): (&mut H1Client, &mut IdleKind),
        event: ConnectionEvent<'_, ClientRole>,
    ) {
        if let ConnectionEvent::Event(Event::Data { stream, bytes }) = event {
            connection.release(stream, bytes.len());
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, kind: IdleKind, end: End) {
        self.0.get_or_insert_with(|| format!("{kind:?}: {end:?}"));
    }
}

fn request(target: &[u8]) -> Result<EncodedRequest, UsageError> {
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"127.0.0.1")?;
    EncodedRequest::new(&Request::new(b"GET", target, headers.as_headers()), b"")
}

/// Connects in progress at a time: less than any listen queue.
const OPENING_MAX: usize = 256;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an event of the worker `pulse`.
const EVENT_SIZE: usize = 100;
