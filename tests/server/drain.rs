//! A response is not lost to a reset: bytes behind the last request of a connection are
//! drained before the close (RFC 9112 §9.6). The client reads late, as a busy one does.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fulmar_engine::{End, SocketId};
use fulmar_proto::h1::LINGER_SIZE_MAX;
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Response, Server, ServerConnection, StreamId,
};
use fulmar_server::{ExchangeContext, Layers, Limits, ServerApp, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::loops::{AppLoop, LISTENER, LevelTriggered, Loop, OwnLoop, PollLoop, client};
use fulmar_tests::tls_end::TlsPeer;
use fulmar_tests::{https, tests_in_every_loop};

/// Responds when it is released, or at once.
#[derive(Debug, Default)]
struct Late {
    heads: usize,
    released: bool,
    responses: usize,
    ends: Vec<String>,
}

impl ServerApp for Late {
    type Data = Option<StreamId>;
    type Message = Infallible;

    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        pending: &mut Option<StreamId>,
        event: Event<'_, Server>,
    ) {
        let Event::End { stream, .. } = event else { return };
        self.heads += 1;
        if self.released {
            return self.respond(reply, stream);
        }
        *pending = Some(stream);
        context.set_timer(Some(context.now + Duration::from_millis(1)));
    }

    fn handle_timer(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        pending: &mut Option<StreamId>,
    ) {
        match pending.take_if(|_| self.released) {
            Some(stream) => self.respond(reply, stream),
            None => context.set_timer(Some(context.now + Duration::from_millis(1))),
        }
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, _: Option<StreamId>, end: &End) {
        self.ends.push(format!("{end:?}"));
    }
}

impl Late {
    fn respond(&mut self, reply: &mut ServerConnection, stream: StreamId) {
        let head = Response::new(200, Headers::EMPTY);
        reply.send_head(stream, head, BodyLen::Exact(2)).expect("the first response");
        reply.send_data(stream, b"ok"[..].into()).expect("two bytes");
        reply.send_end(stream, Headers::EMPTY).expect("all of it");
        self.responses += 1;
    }
}

type LateEngine = ServerEngine<Late>;

fn engine(limits: Limits, layers: Option<Layers>) -> LateEngine {
    let mut engine = ServerEngine::new(sys::now(), Late::default(), limits, Stop::new());
    engine.add_listener(LISTENER, layers);
    engine
}

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const POST: &str =
    "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
const HTTP10: &str = "GET / HTTP/1.0\r\n\r\n";

/// Turns until there was an event for the bytes of `send`; the server does not read them.
fn until_noticed<L: Loop<Engine = LateEngine>>(driver: &mut L, send: impl FnOnce()) {
    let before = driver.stats().events;
    send();
    driver.turn_until(|driver| driver.stats().events > before);
}

/// Lets the application respond, and the server finish its work before the client reads.
fn release<L: Loop<Engine = LateEngine>>(driver: &mut L) {
    driver.engine().application_mut().released = true;
    driver.turn_until(|driver| driver.engine().application().responses > 0);
    (0..20).for_each(|_| driver.turn(Duration::ZERO));
}

/// All bytes that a client receives, up to the server's end, and how it ends.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    end.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)));
    String::from_utf8(bytes).expect("text")
}

fn assert_response(text: &str) {
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nok"), "{text}");
}

fn bytes_during_a_slow_response_do_not_reset_it<L: Loop<Engine = LateEngine>>() {
    let pipelined = "GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
    let long = "x".repeat(60_000);
    for (request, behind) in
        [(CLOSE, "\r\n"), (POST, "\r\n"), (HTTP10, "\r\n"), (CLOSE, &pipelined), (HTTP10, &long)]
    {
        let (mut driver, address) = L::start(engine(Limits::default(), None));
        let mut stream = client(address);
        stream.write_all(request.as_bytes()).expect("room");
        driver.turn_until(|driver| driver.engine().application().heads == 1);
        until_noticed(&mut driver, || stream.write_all(behind.as_bytes()).expect("room"));
        release(&mut driver);
        assert_response(&rest(&mut stream));
        drop(stream);
        driver.turn_until(|driver| driver.engine().connections() == 0);
        assert_eq!(driver.engine().application().ends, ["Closed"]);
    }
}

/// Without bytes behind the last request, the server does not wait for the client.
fn a_short_connection_is_closed_at_once<L: Loop<Engine = LateEngine>>() {
    let (mut driver, address) = L::start(engine(Limits::default(), None));
    let mut stream = client(address);
    stream.write_all(CLOSE.as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().application().heads == 1);
    let before = Ledger::here();
    release(&mut driver);
    assert_eq!(driver.engine().connections(), 0);
    assert_eq!((Ledger::here() - before).count(Call::shutdown).calls, 0);
    assert_response(&rest(&mut stream));
}

fn bytes_with_the_last_request_do_not_reset_the_response<L: Loop<Engine = LateEngine>>() {
    for (request, released) in [(CLOSE, true), (POST, true), (HTTP10, true), (CLOSE, false)] {
        let (mut driver, address) = L::start(engine(Limits::default(), None));
        driver.engine().application_mut().released = released;
        let mut stream = client(address);
        stream.write_all([request, "\r\n"].concat().as_bytes()).expect("room");
        driver.turn_until(|driver| driver.engine().application().heads == 1);
        release(&mut driver);
        stream.write_all(b"more").expect("the connection is open");
        assert_response(&rest(&mut stream));
        drop(stream);
        driver.turn_until(|driver| driver.engine().connections() == 0);
        assert_eq!(driver.engine().application().ends, ["Closed"]);
    }
}

/// The client sends 1 MB behind its last request before it reads the response.
fn a_megabyte_behind_the_last_request_does_not_reset_the_response<L: Loop<Engine = LateEngine>>() {
    let (mut driver, address) = L::start(engine(Limits::default(), None));
    driver.engine().application_mut().released = true;
    let mut stream = client(address);
    stream.set_nonblocking(true).expect("a socket");
    let (bytes, mut sent) = ([CLOSE.as_bytes(), &[b'x'; 1 << 20]].concat(), 0);
    driver.turn_until(|_| {
        match stream.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{sent} bytes sent"),
        }
        sent == bytes.len()
    });
    release(&mut driver);
    stream.set_nonblocking(false).expect("a socket");
    assert_response(&rest(&mut stream));
    drop(stream);
    driver.turn_until(|driver| driver.engine().connections() == 0);
}

tests_in_every_loop! {
    at_any_pace: [],
    at_full_speed: [
        a_megabyte_behind_the_last_request_does_not_reset_the_response,
        bytes_with_the_last_request_do_not_reset_the_response,
        bytes_during_a_slow_response_do_not_reset_it,
        a_short_connection_is_closed_at_once,
    ],
}

/// TLS sends close_notify, then the socket is drained.
#[test]
fn nor_over_tls() {
    fn check<L: Loop<Engine = LateEngine>>() {
        let certs = Certs::new();
        let tls = https::http1_tls(&certs);
        let layers = https::layers(https::server_tls(&certs, CertOwner::Server));
        let (mut driver, address) = L::start(engine(Limits::default(), Some(layers)));
        let mut peer = TlsPeer::connect(&tls, address);
        driver.turn_until(|_| {
            peer.turn();
            peer.end.established
        });
        let request = peer.seal(CLOSE.as_bytes());
        peer.stream.write_all(&request).expect("room");
        driver.turn_until(|driver| driver.engine().application().heads == 1);
        let behind = peer.seal(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        until_noticed(&mut driver, || peer.stream.write_all(&behind).expect("room"));
        release(&mut driver);
        driver.turn_until(|_| {
            peer.turn();
            peer.end.eof
        });
        assert!(peer.end.ended, "close_notify came before the end");
        assert_response(&String::from_utf8_lossy(&peer.end.above));
        drop(peer);
        driver.turn_until(|driver| driver.engine().connections() == 0);
        assert_eq!(driver.engine().application().ends, ["Closed"]);
    }
    check::<OwnLoop<_>>();
    check::<PollLoop<_>>();
    check::<AppLoop<_, LevelTriggered>>();
}

/// A client that never stops sending cannot hold the connection, whatever the deadline is.
#[test]
fn a_client_that_never_stops_is_closed_after_4_megabytes() {
    let limits = Limits { linger_timeout: Duration::from_secs(3_600), ..Limits::default() };
    let (mut driver, address) = OwnLoop::start(engine(limits, None));
    let mut stream = client(address);
    stream.write_all(CLOSE.as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().application().heads == 1);
    until_noticed(&mut driver, || stream.write_all(b"more").expect("room"));
    release(&mut driver);
    assert_eq!(driver.engine().connections(), 1, "it may still stop");
    stream.set_nonblocking(true).expect("a socket");
    let (block, mut sent) = ([b'x'; 16_384], 0);
    driver.turn_until(|driver| {
        sent += stream.write(&block).unwrap_or(0);
        driver.engine().connections() == 0
    });
    assert!(sent >= LINGER_SIZE_MAX as usize - b"more".len(), "closed after {sent} bytes");
    assert_eq!(driver.engine().application().ends, ["Closed"]);
}

#[test]
fn a_silent_client_is_closed_at_the_linger_deadline() {
    let limits = Limits { linger_timeout: Duration::from_millis(20), ..Limits::default() };
    let (mut driver, address) = OwnLoop::start(engine(limits, None));
    let mut stream = client(address);
    stream.write_all(CLOSE.as_bytes()).expect("room");
    driver.turn_until(|driver| driver.engine().application().heads == 1);
    until_noticed(&mut driver, || stream.write_all(b"\r\n").expect("room"));
    release(&mut driver);
    driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!(driver.engine().application().ends, ["TimedOut(Some(Linger))"]);
    assert_response(&rest(&mut stream));
}

/// Before the connection is watched, no event reports what the client sends. The response is sent
/// before the close resets the connection.
#[test]
fn a_response_leaves_before_an_unwatched_connection_is_closed() {
    for _ in 0..10 {
        let (mut driver, address) = OwnLoop::by_calls(engine(Limits::default(), None));
        let mut stream = client(address);
        stream.write_all(CLOSE.as_bytes()).expect("room");
        let before = Ledger::here();
        driver.turn_until(|driver| driver.engine().application().heads == 1);
        stream.write_all(b"\r\n").expect("room");
        release(&mut driver);
        let spent = Ledger::here() - before;
        let mut bytes = [0; 512];
        let n = stream.read(&mut bytes).expect("the response is there");
        assert_response(&String::from_utf8_lossy(&bytes[..n]));
        if spent.count(Call::epoll_ctl).calls == 0 {
            let next = stream.read(&mut bytes).map_err(|error| error.kind());
            assert!(matches!(next, Ok(0) | Err(ErrorKind::ConnectionReset)), "{next:?}");
        }
    }
}

/// What a drained connection costs beyond `accept4`, `recv`, `send` and `close`: a `shutdown`, its
/// registration, and a receive for what was sent, and one for the end.
#[test]
fn a_drained_connection_costs_four_calls_more() {
    let (mut driver, address) = OwnLoop::by_calls(engine(Limits::default(), None));
    driver.engine().application_mut().released = true;
    let mut run = |behind: &str, times: u64| {
        let before = Ledger::here();
        for _ in 0..times {
            let mut stream = client(address);
            stream.write_all([CLOSE, behind].concat().as_bytes()).expect("room");
            let mut bytes = Vec::new();
            stream.set_nonblocking(true).expect("a socket");
            driver.turn_until(|_| stream.read_to_end(&mut bytes).is_ok());
            drop(stream);
            driver.turn_until(|driver| driver.engine().connections() == 0);
        }
        let spent = Ledger::here() - before;
        let waits = [Call::epoll_wait, Call::epoll_pwait2].map(|call| spent.count(call).calls);
        (spent.total() - waits.iter().sum::<u64>(), spent)
    };
    let (calls, spent) = run("\r\n", 20);
    assert!(calls <= 20 * 8, "{calls} calls: {spent:?}");
    assert_eq!(spent.count(Call::shutdown).calls, 20);
}
