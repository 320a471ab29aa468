//! Client and server engines over a simulated network, seed after seed.
//!
//! Whatever the network does, every exchange ends exactly once, complete answers are right to the
//! byte, and nothing is left when everything is over.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fulmar_engine::sim::{Faults, Sim};
use fulmar_engine::{
    Action, ConnectionEvent, Connections, DriverEvent, End, Endpoint, Engine, Handler, SocketId,
    Timeouts,
};
use fulmar_proto::h1::H1Client;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Layer, Request, Segment, Transmit,
};
use fulmar_server::Limits;
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::{app, https};
use fulmar_tls::{ClientTls, ServerTls};

/// A client that pipelines requests on a few connections and checks every response.
#[derive(Debug)]
struct Asker {
    connections: Connections<H1Client, Job>,
    book: Book,
    tls: Option<ClientTls>,
}

/// What became of the exchanges.
#[derive(Debug, Default)]
struct Book {
    left: u32,
    begun: u32,
    complete: u32,
    broken: u32,
    random: fastrand::Rng,
}

/// The exchanges on a connection.
#[derive(Debug, Default)]
struct Job {
    /// In the order of the requests.
    expected: VecDeque<Expected>,
    /// Of the first response.
    received: u64,
    /// Of the last request.
    unsent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Of `/bytes/N`.
    Pattern(u64),
    /// Of `/echo`, with a body of so many bytes.
    Echo(u64),
    /// Of `/delay/MS`.
    Delayed,
}

fn address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 80))
}

impl Asker {
    fn new(now: Instant, seed: u64, exchanges: u32, tls: Option<ClientTls>) -> Self {
        let timeouts = Timeouts { response: Some(Duration::from_secs(60)), ..Timeouts::default() };
        let random = fastrand::Rng::with_seed(seed);
        let book = Book { left: exchanges, begun: 0, complete: 0, broken: 0, random };
        let mut this = Self { connections: Connections::new(now, timeouts, 0, 1), book, tls };
        for _ in 0..4 {
            this.open(now);
        }
        this
    }

    fn open(&mut self, now: Instant) {
        let depth = 1 + self.book.random.u32(0..9);
        let connection = H1Client::with_depth(depth);
        let session = |tls: &ClientTls| -> Box<dyn Layer> {
            Box::new(tls.session("localhost").expect("a name"))
        };
        let layer = self.tls.as_ref().map(session);
        self.connections.connect(now, Endpoint::to(address()), layer, connection, Job::default());
    }

    /// Where a connection is free, it is used; where one is lost, it is replaced.
    fn go_on(&mut self, now: Instant) {
        for socket in self.connections.sockets() {
            let Some((connection, job)) = self.connections.get_mut(socket) else { continue };
            let before = self.book.left;
            // The connection may end with the response to a long body: nothing is sent behind that.
            while connection.vacancy() > 0
                && self.book.left > 0
                && !matches!(job.expected.back(), Some(Expected::Echo(_)))
            {
                self.book.begin(connection, job);
            }
            if self.book.left < before {
                self.connections.touch(now, socket, &mut self.book);
            }
        }
        while self.connections.len() < 4 && self.book.left > 0 {
            self.open(now);
        }
    }
}

impl Book {
    fn begin(&mut self, connection: &mut H1Client, job: &mut Job) {
        self.left -= 1;
        self.begun += 1;
        let stream = connection.open().expect("there is a vacancy");
        let size = self.random.u64(0..200_000) >> self.random.u32(0..18);
        let (expected, target) = match self.random.u8(0..4) {
            0 => (Expected::Delayed, "/delay/70".to_owned()),
            1 => (Expected::Echo(size), "/echo".to_owned()),
            _ => (Expected::Pattern(size), format!("/bytes/{size}")),
        };
        let mut fields = HeaderBuf::new();
        fields.push("Host", b"sim").expect("a field");
        let (method, len): (&[u8], _) = match expected {
            Expected::Echo(size) if size % 2 == 0 => (b"POST", BodyLen::Exact(size)),
            Expected::Echo(_) => (b"POST", BodyLen::Unknown),
            Expected::Pattern(_) | Expected::Delayed => (b"GET", BodyLen::Empty),
        };
        let head = Request::new(method, target.as_bytes(), fields.as_headers());
        connection.send_head(stream, head, len).expect("it is open");
        job.unsent = if let Expected::Echo(size) = expected { size } else { 0 };
        job.expected.push_back(expected);
        self.send(connection, job, stream);
    }

    /// As much of the request's body as there is room for.
    fn send(&mut self, connection: &mut H1Client, job: &mut Job, stream: fulmar_proto::StreamId) {
        let Some(expected) = job.expected.back() else { return };
        let Expected::Echo(size) = expected else {
            return connection.send_end(stream, Headers::EMPTY).expect("no body");
        };
        while job.unsent > 0 && connection.room(stream) > 0 {
            let piece = job.unsent.min(self.random.u64(1..30_000));
            let at = *size - job.unsent;
            let bytes: Vec<u8> = (at..at + piece).map(echo_byte).collect();
            connection.send_data(stream, Segment::Bytes(bytes.into())).expect("as declared");
            job.unsent -= piece;
        }
        if job.unsent == 0 {
            connection.send_end(stream, Headers::EMPTY).expect("it is complete");
        }
    }
}

impl Handler<H1Client, Job> for Book {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, job): (&mut H1Client, &mut Job),
        event: ConnectionEvent<'_, Client>,
    ) {
        let ConnectionEvent::Event(event) = event else { return };
        match event {
            Event::Head { head, .. } => {
                assert_eq!(head.status, 200);
                assert!(!job.expected.is_empty(), "a response to a request");
            }
            Event::Data { stream, bytes } => {
                let at = job.received;
                let expected: fn(u64) -> u8 = match job.expected.front().expect("as above") {
                    Expected::Pattern(_) => pattern_byte,
                    Expected::Echo(_) => echo_byte,
                    Expected::Delayed => delayed_byte,
                };
                assert!((at..).zip(&bytes).all(|(at, byte)| expected(at) == *byte));
                job.received += bytes.len() as u64;
                connection.release(stream, bytes.len());
            }
            Event::End { .. } => {
                let expected = job.expected.pop_front().expect("it ends once");
                let size = match expected {
                    Expected::Pattern(size) | Expected::Echo(size) => size,
                    Expected::Delayed => 8,
                };
                assert_eq!(std::mem::take(&mut job.received), size, "{expected:?}");
                self.complete += 1;
            }
            Event::Writable { stream } => self.send(connection, job, stream),
            event => panic!("{event:?}"),
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, job: Job, end: End) {
        self.broken += u32::try_from(job.expected.len()).expect("few");
        assert!(
            !matches!(end, End::Peer(error) if error != fulmar_proto::PeerError::UnexpectedEof)
        );
    }
}

fn pattern_byte(at: u64) -> u8 {
    let pattern = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
    pattern[usize::try_from(at % 64).expect("below 64")]
}

fn echo_byte(at: u64) -> u8 {
    (at % 251).to_le_bytes()[0]
}

fn delayed_byte(at: u64) -> u8 {
    b"delayed\n"[usize::try_from(at).expect("eight bytes")]
}

impl Engine for Asker {
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                self.connections.handle(now, socket, event, &mut self.book);
            }
            DriverEvent::Timeout => self.connections.handle_timeout(now, &mut self.book),
            event => panic!("unexpected: {event:?}"),
        }
        self.go_on(now);
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

fn run(seed: u64, faults: Faults, tls: Option<&(ClientTls, ServerTls)>) -> Book {
    let now = sys::now();
    let limits = Limits {
        idle_timeout: Duration::from_secs(5),
        response_buffer_max: 1 << (seed % 16),
        ..Limits::default()
    };
    let asker = Asker::new(now, seed, 40, tls.map(|(client, _)| client.clone()));
    let server = match tls {
        None => app::server(limits),
        Some((_, tls)) => https::server(tls.clone(), limits),
    };
    let mut sim = Sim::new(now, seed, faults);
    sim.capacity = 1 << (8 + seed % 9);
    let (asker, server) = (sim.add(asker), sim.add(server));
    sim.listen(server, address(), 4);
    assert!(sim.run(2_000_000, |_| false), "seed {seed}: a livelock");
    assert_eq!(sim[server].connections(), 0, "seed {seed}: nothing is left");
    let book = std::mem::take(&mut sim[asker].book);
    assert_eq!(book.begun, book.complete + book.broken, "seed {seed}: each ends exactly once");
    assert_eq!(book.left, 0, "seed {seed}: nothing is left");
    book
}

#[test]
fn a_calm_network_completes_everything() {
    for seed in 0..60 {
        let book = run(seed, Faults::default(), None);
        assert_eq!((book.complete, book.broken), (40, 0), "seed {seed}");
    }
}

#[test]
fn a_hostile_network_loses_only_what_it_breaks() {
    let mut broken = 0;
    for seed in 0..120 {
        let faults = Faults { refuse: 100, reset: 1, stall: 20, accept: 20, ..Faults::default() };
        broken += run(seed, faults, None).broken;
    }
    assert!(broken > 0, "the faults are real");
}

fn tls() -> (ClientTls, ServerTls) {
    let certs = Certs::new();
    (https::http1_tls(&certs), https::server_tls(&certs, CertOwner::Server))
}

#[test]
fn tls_changes_nothing_of_it() {
    let tls = tls();
    for seed in 0..60 {
        let book = run(seed, Faults::default(), Some(&tls));
        assert_eq!((book.complete, book.broken), (40, 0), "seed {seed}");
    }
    let mut broken = 0;
    for seed in 0..60 {
        let faults = Faults { refuse: 100, reset: 1, stall: 20, accept: 20, ..Faults::default() };
        broken += run(seed, faults, Some(&tls)).broken;
    }
    assert!(broken > 0, "the faults are real");
}
