//! A client engine of the smallest kind: requests go out, answers are counted.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Action, End, Endpoint, Engine, Handler, Links, ListenerId, SocketId, Timeouts,
};
use fulmar_proto::h1::EncodedRequest;
use fulmar_proto::{
    Client as ClientRole, ClientConnection, Connection, Event, HeaderBuf, Input, Misuse, Request,
    Transmit,
};

use super::options::Options;

/// Many connections that wait, and one that does not.
#[derive(Debug)]
pub(super) struct Client {
    links: Links<ClientConnection, Kind>,
    listener: Listener,
    idle: EncodedRequest,
    stream: EncodedRequest,
    peers: Vec<SocketAddr>,
    wanted: usize,
    asked: usize, // idle connections that were asked for
    sent: usize,  // and those whose request has left
    active: Option<SocketId>,
    event_size: usize,
    counts: Counts,
}

/// What is attached to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Idle,
    Active,
}

/// Hears of events.
#[derive(Debug, Default)]
struct Listener {
    bytes: u64,
    ended: Option<String>,
}

/// What the active stream brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Turns in which it had data.
    pub(super) events: u64,
    /// Bytes of its body.
    pub(super) bytes: u64,
    /// Events that carried more or less than they should.
    pub(super) uneven: u64,
}

impl Client {
    /// Nothing is open yet.
    pub(super) fn new(now: Instant, options: &Options) -> Result<Self, Misuse> {
        let timeouts = match options.deadlines {
            true => Timeouts {
                connect: Some(ANSWER_TIMEOUT),
                answer: Some(ANSWER_TIMEOUT),
                body: Some(BODY_TIMEOUT),
                ..Timeouts::default()
            },
            false => Timeouts::default(),
        };
        Ok(Self {
            links: Links::new(now, timeouts, 0, 1),
            listener: Listener::default(),
            idle: request(b"/idle")?,
            stream: request(b"/stream/100")?,
            peers: options.idle_peers.clone(),
            wanted: options.idle,
            asked: 0,
            sent: 0,
            active: None,
            event_size: options.event_size,
            counts: Counts::default(),
        })
    }

    /// Asks for as many idle connections as may be on their way at a time.
    pub(super) fn open_idle(&mut self, now: Instant) {
        while self.asked < self.wanted && self.asked - self.sent < OPENING_MAX {
            let peer = self.peers[self.asked * self.peers.len() / self.wanted];
            self.asked += 1;
            self.connect(now, peer, Kind::Idle);
        }
    }

    /// Asks for the connection that is active.
    pub(super) fn open_active(&mut self, now: Instant, peer: SocketAddr) {
        self.active = Some(self.connect(now, peer, Kind::Active));
    }

    /// True once all idle ones stand and have asked, or one of them is lost.
    pub(super) fn is_open(&self) -> bool {
        self.sent == self.wanted || self.ended().is_some()
    }

    /// Why a connection is gone; none should be.
    pub(super) fn ended(&self) -> Option<&str> {
        self.listener.ended.as_deref()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { bytes: self.listener.bytes, ..self.counts }
    }

    pub(super) fn reset_counts(&mut self) {
        self.counts = Counts::default();
        self.listener.bytes = 0;
    }

    fn connect(&mut self, now: Instant, peer: SocketAddr, kind: Kind) -> SocketId {
        let mut connection = ClientConnection::default();
        let stream = connection.open().expect("it is new");
        let request = match kind {
            Kind::Idle => &self.idle,
            Kind::Active => &self.stream,
        };
        connection.send_encoded(stream, request).expect("it was compiled, and is the first");
        self.links.connect(now, Endpoint::to(peer), None, connection, kind)
    }
}

impl Engine for Client {
    fn handle_accepted(&mut self, _: Instant, _: ListenerId, _: SocketAddr) -> Option<SocketId> {
        None
    }

    fn handle_connected(&mut self, now: Instant, socket: SocketId) {
        self.links.handle_connected(now, socket, &mut self.listener);
        self.links.touch(now, socket, &mut self.listener);
    }

    fn handle_input(&mut self, now: Instant, socket: SocketId, input: &mut Input<'_>) {
        if self.active == Some(socket) && !input.is_empty() {
            self.counts.events += 1;
            self.counts.uneven += u64::from(input.bytes().len() != self.event_size);
        }
        self.links.handle_input(now, socket, input, &mut self.listener);
    }

    fn handle_sent(&mut self, now: Instant, socket: SocketId, bytes: u64) {
        if bytes > 0 && self.active != Some(socket) {
            self.sent += 1;
            self.open_idle(now);
        }
        self.links.handle_sent(now, socket, bytes, &mut self.listener);
    }

    fn handle_failed(&mut self, now: Instant, socket: SocketId, error: io::Error) {
        self.links.handle_failed(now, socket, error, &mut self.listener);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.links.handle_timeout(now, &mut self.listener);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.links.poll_action()
    }

    fn poll_endpoint(&mut self, socket: SocketId) -> Option<Endpoint> {
        self.links.poll_endpoint(socket)
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.links.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.links.poll_timeout()
    }
}

impl Handler<ClientConnection, Kind> for Listener {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, _): (&mut ClientConnection, &mut Kind),
        event: Event<'_, ClientRole>,
    ) {
        if let Event::Data { stream, bytes } = event {
            self.bytes += bytes.len() as u64;
            connection.release(stream, bytes.len());
        }
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, kind: Kind, end: End) {
        self.ended.get_or_insert_with(|| format!("{kind:?}: {end:?}"));
    }
}

fn request(target: &[u8]) -> Result<EncodedRequest, Misuse> {
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"127.0.0.1")?;
    EncodedRequest::new(&Request::new(b"GET", target, headers.as_headers()), b"")
}

/// Connects on their way at a time: less than any listen queue.
const OPENING_MAX: usize = 256;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
