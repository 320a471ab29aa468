//! Clients, the proxy and servers on simulated networks, seed after seed.
//!
//! Whatever the networks do, every request ends exactly once, with the right status or an end that
//! nobody can take for a whole answer; what may be executed once only is never executed twice; and
//! nothing is left when everything is over.
#![allow(clippy::cast_possible_truncation, reason = "bodies are small, and numbers few")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::sim::{Faults, NodeId, Sim};
use fulmar_engine::{
    Accepted, Action, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine, Handler,
    SocketId, Timeouts,
};
use fulmar_proto::h1::H1Client;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Request, Reset, Response, Segment,
    Server, ServerConnection, StreamId, Transmit,
};
use fulmar_proxy::Proxy;
use fulmar_sys as sys;
use fulmar_tests::test_proxy::configured;

/// Clients that ask one thing after the other.
struct Clients {
    connections: Connections<H1Client, Asked>,
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
    fn begin(&mut self, connection: &mut H1Client, asked: &mut Asked) {
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
            connection.send_data(stream, bytes(b'x', size)).unwrap();
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

fn bytes(byte: u8, len: u64) -> Segment {
    Segment::Bytes(vec![byte; len as usize].into())
}

impl Handler<H1Client, Asked> for Asking {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, asked): (&mut H1Client, &mut Asked),
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
                        0 => connection.reset(stream, Reset::Cancelled),
                        1 => {} // never
                        _ => {
                            let head = Response::new(200, Headers::EMPTY);
                            let _ = connection.send_head(stream, head, BodyLen::Exact(size + 1));
                            connection.reset(stream, Reset::Cancelled);
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
    connection.send_data(stream, bytes(b'y', size)).unwrap();
    connection.send_end(stream, Headers::EMPTY).unwrap();
}

impl Clients {
    /// A few connections, as long as requests are left; idle ones are closed afterwards.
    fn ask(&mut self, now: Instant) {
        let Self { connections, book } = self;
        while connections.len() < 5 && book.left > 0 {
            let peer = Endpoint::to(local(80));
            let connection = H1Client::default();
            let socket = connections.connect(now, peer, None, connection, Asked::default());
            let (connection, asked) = connections.get_mut(socket).expect("it was just made");
            book.begin(connection, asked);
        }
        if book.left == 0 {
            for socket in connections.sockets() {
                if connections.get(socket).is_some_and(|(_, asked)| asked.number.is_none()) {
                    connections.cut(now, socket, book);
                }
            }
        }
    }
}

impl Engine for Clients {
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                self.connections.handle(now, socket, event, &mut self.book);
            }
            DriverEvent::Timeout => self.connections.handle_timeout(now, &mut self.book),
            event => panic!("unexpected: {event:?}"),
        }
        self.ask(now);
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

impl Engine for Origins {
    fn accept(&mut self, now: Instant, _: Accepted) -> Option<SocketId> {
        let connection = ServerConnection::default();
        Some(self.connections.insert(now, None, connection, (), &mut self.book))
    }

    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                self.connections.handle(now, socket, event, &mut self.book);
            }
            DriverEvent::Timeout => self.connections.handle_timeout(now, &mut self.book),
            DriverEvent::AcceptFailed(..) => {} // the driver tries again
            event => panic!("unexpected: {event:?}"),
        }
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

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Clients, the proxy, two servers, and the network between them.
struct ProxyNetwork {
    sim: Sim,
    clients: NodeId<Clients>,
    proxy: NodeId<Proxy>,
    origins: NodeId<Origins>,
}

impl ProxyNetwork {
    fn new(seed: u64, faults: Faults, bad: u32) -> Self {
        let text = "defaults\n  mode http\n  timeout connect 2s\n  timeout client 20s\n  \
            timeout server 3s\n  timeout queue 2s\n  option redispatch\n\
            frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
            backend be\n  server a 127.0.0.1:81 maxconn 2\n  server b 127.0.0.1:82\n";
        let (proxy, ..) = configured(text);
        let (now, none) = (sys::now(), Timeouts::default());
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
        let mut clients = Clients { connections: Connections::new(now, none, 0, 1), book: asking };
        let origins = Origins { connections: Connections::new(now, none, 0, 1), book: answering };
        clients.ask(now);
        let mut sim = Sim::new(now, seed, faults);
        let (clients, proxy, origins) = (sim.add(clients), sim.add(proxy), sim.add(origins));
        sim.listen(proxy, local(80), 3);
        for port in [81, 82] {
            sim.listen(origins, local(port), 3);
        }
        Self { sim, clients, proxy, origins }
    }

    /// Until all requests have ended and nothing is left to do.
    fn run(&mut self) {
        assert!(self.sim.run(2_000_000, |_| false), "a livelock");
    }
}

fn check(seed: u64, faults: Faults, bad: u32) -> (u32, u32) {
    let mut world = ProxyNetwork::new(seed, faults, bad);
    world.run();
    let ProxyNetwork { sim, clients, proxy, origins } = &world;
    let book = &sim[*clients].book;
    let whole: u32 = book.statuses.values().sum();
    assert_eq!(whole + book.cut, 60, "seed {seed}: each request ends once");
    let known = |status: &u16| matches!(status, 200 | 502 | 503 | 504);
    assert!(book.statuses.keys().all(known), "seed {seed}: {:?}", book.statuses);
    for post in &book.posts {
        let times = sim[*origins].book.heard.get(post).copied().unwrap_or(0);
        assert!(times <= 1, "seed {seed}: {post} was executed {times} times");
    }
    assert_eq!(sim[*proxy].clients(), 0, "seed {seed}");
    let counts = (book.statuses.get(&200).copied().unwrap_or(0), book.cut);
    world.sim.pass(Duration::from_secs(60));
    world.run();
    // A server that never responds keeps its own end; the proxy does not.
    assert_eq!(world.sim.sockets(world.proxy), 0, "seed {seed}: a connection is left");
    counts
}

#[test]
fn on_a_good_network_everything_is_answered() {
    for seed in 0..40 {
        let faults = Faults { stall: 3, ..Faults::default() };
        assert_eq!(check(seed, faults, 0), (60, 0), "seed {seed}");
    }
}

#[test]
fn whatever_breaks_every_request_ends_with_the_right_status() {
    let faults =
        Faults { refuse: 40, reset: 1, stall: 3, accept: 20, pipe: 100, ..Faults::default() };
    let (mut good, mut cut) = (0, 0);
    for seed in 0..50 {
        let (ok, lost) = check(seed, faults, 30);
        good += ok;
        cut += lost;
    }
    assert!(good > 50 * 30, "most are answered: {good}");
    assert!(cut > 0, "some clients were reset");
}
