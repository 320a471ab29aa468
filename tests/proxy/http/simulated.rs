//! Clients, the proxy and servers on simulated networks, seed after seed.
//!
//! Whatever the networks do, every request ends exactly once, with the right status or an end that
//! nobody can take for a whole answer; what may be executed once only is never executed twice; and
//! nothing is left when everything is over.
#![allow(clippy::cast_possible_truncation, reason = "bodies are small, and numbers few")]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Accepted, Action, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine, Handler,
    ListenerId, SocketEvent, SocketId, Timeouts,
};
use fulmar_haproxy::{ConfigSource, Environment, Options, ThisMachine, load};
use fulmar_proto::{
    BodyLen, Client, ClientConnection, Connection, Event, HeaderBuf, Headers, Input, Request,
    Response, Segment, Server, ServerConnection, StreamId, Transmit,
};
use fulmar_proxy::{BindId, Live, Proxy, Stop};
use fulmar_sys as sys;
use fulmar_tests::test_proxy::{EchoPages, RecordingJournal};

/// A network between clients and the proxy, and one between the proxy and its servers: both in
/// memory, split and delayed as the seed says.
struct World {
    now: Instant,
    random: fastrand::Rng,
    clients: Clients,
    proxy: Proxy,
    origins: Origins,
    wires: Vec<Wire>,
    resets: u32,
    capacity: usize,
}

/// Who is at an end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Client,
    Proxy,
    Origin,
}

/// A connection between two of them.
struct Wire {
    ends: [Half; 2],
}

struct Half {
    who: Who,
    id: SocketId,
    outgoing: Vec<u8>,
    unread: bytes::BytesMut,
    sending: bool,
    reading: bool,
    resumed: bool,
    finished: bool,
    told_end: bool,
    closed: bool,
}

impl Half {
    fn new(who: Who, id: SocketId) -> Self {
        Self {
            who,
            id,
            outgoing: Vec::new(),
            unread: bytes::BytesMut::new(),
            sending: true,
            reading: true,
            resumed: false,
            finished: false,
            told_end: false,
            closed: false,
        }
    }
}

/// Clients that ask one thing after the other.
struct Clients {
    connections: Connections<ClientConnection, Asked>,
    book: Asking,
}

#[derive(Default)]
struct Asked {
    number: Option<u32>,
    status: u16,
    expected: u64,
    received: u64,
}

struct Asking {
    left: u32,
    next: u32,
    statuses: HashMap<u16, u32>,
    cut: u32,
    random: fastrand::Rng,
    posts: Vec<u32>,
}

impl Asking {
    fn begin(&mut self, connection: &mut ClientConnection, asked: &mut Asked) {
        self.left -= 1;
        self.next += 1;
        let number = self.next;
        let stream = connection.open().expect("it is free");
        let size = self.random.u64(0..60_000) >> self.random.u32(0..14);
        let is_post = self.random.bool();
        let target = format!("/{number}/{size}");
        let mut fields = HeaderBuf::new();
        fields.push("Host", b"h").unwrap();
        let method: &[u8] = if is_post { b"POST" } else { b"GET" };
        let len = match (is_post, self.random.bool()) {
            (false, _) => BodyLen::Empty,
            (true, true) => BodyLen::Exact(size),
            (true, false) => BodyLen::Unknown,
        };
        let head = Request::new(method, target.as_bytes(), fields.as_headers());
        connection.send_head(stream, head, len).unwrap();
        if is_post {
            self.posts.push(number);
            connection.send_data(stream, vec![b'x'; size as usize].into_segment()).unwrap();
        }
        connection.send_end(stream, Headers::EMPTY).unwrap();
        *asked = Asked { number: Some(number), status: 0, expected: size, received: 0 };
    }

    fn end(&mut self, asked: &mut Asked, whole: bool) {
        if asked.number.take().is_none() {
            return;
        }
        match whole {
            true => *self.statuses.entry(asked.status).or_default() += 1,
            false => self.cut += 1,
        }
        if whole && asked.status == 200 {
            assert_eq!(asked.received, asked.expected, "a whole answer is right");
        }
    }
}

trait IntoSegment {
    fn into_segment(self) -> Segment;
}

impl IntoSegment for Vec<u8> {
    fn into_segment(self) -> Segment {
        Segment::Bytes(self.into())
    }
}

impl Handler<ClientConnection, Asked> for Asking {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, asked): (&mut ClientConnection, &mut Asked),
        event: ConnectionEvent<'_, Client>,
    ) {
        let ConnectionEvent::Event(event) = event else { return };
        match event {
            Event::Head { head, .. } => asked.status = head.status,
            Event::Data { stream, bytes } => {
                asked.received += bytes.len() as u64;
                connection.release(stream, bytes.len());
            }
            Event::End { .. } => {
                self.end(asked, true);
                if self.left > 0 && connection.vacancy() > 0 {
                    self.begin(connection, asked);
                }
            }
            _ => {}
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, mut asked: Asked, _: End) {
        self.end(&mut asked, false);
    }
}

/// Servers that answer with as many bytes as the target says, and now and then badly.
struct Origins {
    connections: Connections<ServerConnection, ()>,
    book: Answering,
}

struct Answering {
    random: fastrand::Rng,
    heard: HashMap<u32, u32>,
    bad: u32,
}

impl Handler<ServerConnection, ()> for Answering {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, ()): (&mut ServerConnection, &mut ()),
        event: ConnectionEvent<'_, Server>,
    ) {
        let ConnectionEvent::Event(event) = event else { return };
        match event {
            Event::Head { stream, head, .. } => {
                let target = std::str::from_utf8(head.target).unwrap();
                let mut parts = target[1..].split('/').map(|part| part.parse::<u64>().unwrap());
                let (number, size) = (parts.next().unwrap() as u32, parts.next().unwrap());
                *self.heard.entry(number).or_default() += 1;
                match self.random.u32(0..1000) < self.bad {
                    true => match self.random.u32(0..3) {
                        0 => connection.reset(stream, 0),
                        1 => {} // never
                        _ => {
                            let head = Response::new(200, Headers::EMPTY);
                            let _ = connection.send_head(stream, head, BodyLen::Exact(size + 1));
                            connection.reset(stream, 0);
                        }
                    },
                    false => answer(connection, stream, size, self.random.bool()),
                }
            }
            Event::Data { stream, bytes } => connection.release(stream, bytes.len()),
            _ => {}
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, (): (), _: End) {}
}

fn answer(connection: &mut ServerConnection, stream: StreamId, size: u64, exact: bool) {
    let len = if exact { BodyLen::Exact(size) } else { BodyLen::Unknown };
    connection.send_head(stream, Response::new(200, Headers::EMPTY), len).unwrap();
    connection.send_data(stream, vec![b'y'; size as usize].into_segment()).unwrap();
    connection.send_end(stream, Headers::EMPTY).unwrap();
}

/// What is asked of each of the three.
trait Party {
    fn event(&mut self, now: Instant, id: SocketId, event: SocketEvent<'_>);
    fn transmit(&mut self, id: SocketId) -> Option<Vec<u8>>;
    fn timeout(&mut self, now: Instant);
    fn due(&self) -> Option<Instant>;
    fn action(&mut self) -> Option<Action>;
}

fn flatten(transmit: Transmit<'_>) -> Vec<u8> {
    let mut all = transmit.inline.to_vec();
    for segment in transmit.segments {
        match segment {
            Segment::Bytes(bytes) => all.extend_from_slice(bytes),
            Segment::File(_) | Segment::Pipe(_) => panic!("nobody sends files"),
        }
    }
    all
}

macro_rules! party {
    ($name:ident) => {
        impl Party for $name {
            fn event(&mut self, now: Instant, id: SocketId, event: SocketEvent<'_>) {
                self.connections.handle(now, id, event, &mut self.book);
            }
            fn transmit(&mut self, id: SocketId) -> Option<Vec<u8>> {
                self.connections.poll_transmit(id).map(flatten)
            }
            fn timeout(&mut self, now: Instant) {
                self.connections.handle_timeout(now, &mut self.book);
            }
            fn due(&self) -> Option<Instant> {
                self.connections.poll_timeout()
            }
            fn action(&mut self) -> Option<Action> {
                self.connections.poll_action()
            }
        }
    };
}

party!(Clients);
party!(Origins);

impl Party for Proxy {
    fn event(&mut self, now: Instant, id: SocketId, event: SocketEvent<'_>) {
        self.handle(now, event.of(id));
    }
    fn transmit(&mut self, id: SocketId) -> Option<Vec<u8>> {
        self.poll_transmit(id).map(flatten)
    }
    fn timeout(&mut self, now: Instant) {
        self.handle(now, DriverEvent::Timeout);
    }
    fn due(&self) -> Option<Instant> {
        self.poll_timeout()
    }
    fn action(&mut self) -> Option<Action> {
        self.poll_action()
    }
}

impl World {
    fn new(seed: u64, resets: u32, bad: u32) -> Self {
        let text = "defaults\n  mode http\n  timeout connect 2s\n  timeout client 20s\n  \
            timeout server 3s\n  timeout queue 2s\n  option redispatch\n\
            frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
            backend be\n  server a 127.0.0.1:81 maxconn 2\n  server b 127.0.0.1:82\n";
        let source = ConfigSource::Text { name: "sim".to_owned(), text: text.to_owned() };
        let (none, options) = (Environment::default(), Options::default());
        let config = load(&[source], &none, &ThisMachine, &options).expect("a good text").config;
        let now = sys::now();
        let live = Arc::new(Live::new(config, 1));
        let (journal, pages) = (Box::new(RecordingJournal::default()), Box::new(EchoPages));
        let mut proxy = Proxy::new(now, live, 0, journal, pages, Stop::default());
        proxy.add_listener(ListenerId(0), BindId { frontend: 0, bind: 0 }, None);
        let random = fastrand::Rng::with_seed(seed);
        let asking = Asking {
            left: 60,
            next: 0,
            statuses: HashMap::new(),
            cut: 0,
            random: fastrand::Rng::with_seed(seed ^ 1),
            posts: Vec::new(),
        };
        let answering =
            Answering { random: fastrand::Rng::with_seed(seed ^ 2), heard: HashMap::new(), bad };
        let none = Timeouts::default();
        let clients = Clients { connections: Connections::new(now, none, 0, 1), book: asking };
        let origins = Origins { connections: Connections::new(now, none, 0, 1), book: answering };
        let wires = Vec::new();
        Self { now, random, clients, proxy, origins, wires, resets, capacity: 16 * 1024 }
    }

    fn party(&mut self, who: Who) -> &mut dyn Party {
        match who {
            Who::Client => &mut self.clients,
            Who::Proxy => &mut self.proxy,
            Who::Origin => &mut self.origins,
        }
    }

    /// Until all requests have ended and nobody is connected any more.
    fn run(&mut self) {
        for step in 0..2_000_000 {
            self.act();
            self.ask();
            self.act();
            if !self.step() {
                return;
            }
            assert!(step < 1_999_999, "a livelock");
        }
    }

    /// A few connections, as long as there is something to ask.
    fn ask(&mut self) {
        let Clients { connections, book } = &mut self.clients;
        while connections.len() < 5 && book.left > 0 {
            let peer = Endpoint::to(SocketAddr::from(([127, 0, 0, 1], 80)));
            let connection = ClientConnection::default();
            let socket = connections.connect(self.now, peer, None, connection, Asked::default());
            let (connection, asked) = connections.get_mut(socket).expect("it was just made");
            book.begin(connection, asked);
        }
        if book.left == 0 {
            for socket in connections.sockets() {
                if connections.get(socket).is_some_and(|(_, asked)| asked.number.is_none()) {
                    connections.cut(self.now, socket, book);
                }
            }
        }
    }

    fn act(&mut self) {
        for who in [Who::Client, Who::Proxy, Who::Origin, Who::Client, Who::Proxy] {
            while let Some(action) = self.party(who).action() {
                self.perform(who, action);
            }
        }
        self.wires.retain(|wire| !wire.ends.iter().all(|end| end.closed));
    }

    fn perform(&mut self, who: Who, action: Action) {
        match action {
            Action::Connect { socket, .. } => self.connect(who, socket),
            Action::Transmit { socket } => self.half(who, socket, |half| half.sending = true),
            Action::Read { socket, on } => self.half(who, socket, |half| {
                half.reading = on;
                half.resumed = on;
            }),
            Action::Shutdown { socket } => self.half(who, socket, |half| half.finished = true),
            Action::Close { socket, .. } => self.half(who, socket, |half| half.closed = true),
            _ => {}
        }
    }

    fn half(&mut self, who: Who, socket: SocketId, change: impl FnOnce(&mut Half)) {
        let ends = self.wires.iter_mut().flat_map(|wire| wire.ends.iter_mut());
        let mut own = ends.filter(|end| end.who == who && end.id == socket && !end.closed);
        if let Some(half) = own.next() {
            change(half);
        }
    }

    fn connect(&mut self, who: Who, socket: SocketId) {
        let refused = self.random.u32(0..1000) < self.resets * 4;
        let peer = SocketAddr::from(([127, 0, 0, 1], self.random.u16(1024..)));
        let now = self.now;
        let other = match (who, refused && who == Who::Proxy) {
            (_, true) => None,
            (Who::Client, _) => self
                .proxy
                .accept(now, Accepted { listener: ListenerId(0), peer, local: None })
                .map(|id| (Who::Proxy, id)),
            _ => {
                let Origins { connections, book } = &mut self.origins;
                let id = connections.insert(now, None, ServerConnection::default(), (), book);
                Some((Who::Origin, id))
            }
        };
        let Some((other, id)) = other else {
            let error = io::ErrorKind::ConnectionRefused.into();
            return self.party(who).event(now, socket, SocketEvent::Failed(error));
        };
        self.wires.push(Wire { ends: [Half::new(who, socket), Half::new(other, id)] });
        match who {
            Who::Client => {
                let Clients { connections, book } = &mut self.clients;
                connections.handle(now, socket, SocketEvent::Connected, book);
            }
            _ => self.proxy.handle(now, SocketEvent::Connected.of(socket)),
        }
    }

    /// One thing happens; false if nothing can.
    fn step(&mut self) -> bool {
        let mut possible = Vec::new();
        for (at, wire) in self.wires.iter().enumerate() {
            for side in 0..2 {
                let (own, other) = (&wire.ends[side], &wire.ends[1 - side]);
                let ends = other.finished || other.closed;
                let news = !other.outgoing.is_empty() || (ends && !own.told_end);
                if !own.closed && own.reading && (news || own.resumed) {
                    possible.push((at, side, true));
                }
                if !own.closed && own.sending && own.outgoing.len() < self.capacity {
                    possible.push((at, side, false));
                }
            }
        }
        if self.random.u32(0..1000) < 3 {
            let time = Duration::from_millis(self.random.u64(1..50));
            self.pass(time);
        }
        match self.random.choice(&possible).copied() {
            None => self.wait(),
            Some((at, _, _)) if self.random.u32(0..10_000) < self.resets => {
                self.reset(at);
                true
            }
            Some((at, side, true)) => {
                self.receive(at, side);
                true
            }
            Some((at, side, false)) => {
                self.send(at, side);
                true
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        for who in [Who::Client, Who::Proxy, Who::Origin] {
            self.party(who).timeout(now);
        }
    }

    fn wait(&mut self) -> bool {
        let due = [self.clients.due(), self.proxy.due(), self.origins.due()];
        let Some(next) = due.into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        self.pass(Duration::ZERO);
        true
    }

    fn receive(&mut self, at: usize, side: usize) {
        let some = self.random.usize(0..=self.wires[at].ends[1 - side].outgoing.len());
        let wire = &mut self.wires[at];
        let other = &mut wire.ends[1 - side];
        let bytes: Vec<u8> = other.outgoing.drain(..some).collect();
        let eof = (other.finished || other.closed) && other.outgoing.is_empty();
        let own = &mut wire.ends[side];
        own.resumed = false;
        own.told_end |= eof;
        let mut unread = std::mem::take(&mut own.unread);
        unread.extend_from_slice(&bytes);
        let (who, id, now) = (own.who, own.id, self.now);
        let input = SocketEvent::Input(Input::all(&mut unread, eof));
        self.party(who).event(now, id, input);
        self.wires[at].ends[side].unread = unread;
    }

    fn send(&mut self, at: usize, side: usize) {
        let (own, other) = (&self.wires[at].ends[side], &self.wires[at].ends[1 - side]);
        let (who, id, now, gone) = (own.who, own.id, self.now, other.closed);
        if gone {
            let error = io::ErrorKind::ConnectionReset.into();
            return self.party(who).event(now, id, SocketEvent::Failed(error));
        }
        let bytes = self.party(who).transmit(id).unwrap_or_default();
        let room = self.capacity - self.wires[at].ends[side].outgoing.len();
        let some = self.random.usize(0..=bytes.len().min(room));
        let own = &mut self.wires[at].ends[side];
        own.outgoing.extend_from_slice(&bytes[..some]);
        own.sending = some < bytes.len();
        self.party(who).event(now, id, SocketEvent::Sent(some as u64));
    }

    fn reset(&mut self, at: usize) {
        let wire = self.wires.swap_remove(at);
        let now = self.now;
        for end in wire.ends {
            if !end.closed {
                let error = io::ErrorKind::ConnectionReset.into();
                self.party(end.who).event(now, end.id, SocketEvent::Failed(error));
            }
        }
    }
}

fn check(seed: u64, resets: u32, bad: u32) -> (u32, u32) {
    let mut world = World::new(seed, resets, bad);
    world.run();
    let book = &world.clients.book;
    let whole: u32 = book.statuses.values().sum();
    assert_eq!(whole + book.cut, 60, "seed {seed}: each request ends once");
    let known = |status: &u16| matches!(status, 200 | 502 | 503 | 504);
    assert!(book.statuses.keys().all(known), "seed {seed}: {:?}", book.statuses);
    for post in &book.posts {
        let times = world.origins.book.heard.get(post).copied().unwrap_or(0);
        assert!(times <= 1, "seed {seed}: {post} was executed {times} times");
    }
    assert_eq!(world.proxy.clients(), 0, "seed {seed}");
    world.pass(Duration::from_secs(60));
    world.run();
    // An origin that never answers keeps its own end for ever.
    let ends = world.wires.iter().flat_map(|wire| &wire.ends);
    let left = ends.filter(|end| end.who == Who::Proxy && !end.closed).count();
    assert_eq!(left, 0, "seed {seed}: a connection is left");
    (book_of(&world, 200), world.clients.book.cut)
}

fn book_of(world: &World, status: u16) -> u32 {
    world.clients.book.statuses.get(&status).copied().unwrap_or(0)
}

#[test]
fn on_a_good_network_everything_is_answered() {
    for seed in 0..40 {
        assert_eq!(check(seed, 0, 0), (60, 0), "seed {seed}");
    }
}

#[test]
fn whatever_breaks_every_request_ends_with_the_right_status() {
    let (mut good, mut cut) = (0, 0);
    for seed in 0..50 {
        let (ok, lost) = check(seed, 10, 30);
        good += ok;
        cut += lost;
    }
    assert!(good > 50 * 30, "most are answered: {good}");
    assert!(cut > 0, "some clients were reset");
}
