//! HTTP/2 on the port of HTTP/1: many streams on one connection, each as a connection of its own.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fulmar_observe::{AccessLog, Format, Output};
use fulmar_proto::BodyLen;
use fulmar_proto::h2::PREFACE;
use fulmar_serve::{Files, FilesOptions, Options};
use fulmar_server::{HandlerApp, Limits, ServerApp, ServerEngine, Stop};
use fulmar_sys::{self as sys, Ledger};
use fulmar_tests::app::{App, EndpointsHandler, FilesEngine, app, server};
use fulmar_tests::budget::budget;
use fulmar_tests::http::HttpClient;
use fulmar_tests::http2::{Http2Client, Http2Response, Http2Socket};
use fulmar_tests::loops::{self, LISTENER, Loop, OwnLoop, turn_while};
use fulmar_tests::server_hand::ServerHand;
use fulmar_tests::tests_in_every_loop;
use fulmar_tests::tree::noise;

fn whole(status: u16, body: impl Into<Vec<u8>>) -> Http2Response {
    Http2Response { status, body: body.into(), is_whole: true, reset: None }
}

fn responses_of_many_streams_are_right<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    turn_while(&mut driver, || {
        let mut socket = Http2Socket::connect(address);
        let body = noise(100_000);
        let echo = socket.client.request("POST", "/echo", &body);
        let bytes: Vec<u32> =
            (1..40).map(|n| socket.client.request("GET", &format!("/bytes/{n}"), b"")).collect();
        let missing = socket.client.request("GET", "/status/404", b"");
        let head = socket.client.request("HEAD", "/bytes/1000", b"");
        let slow = socket.client.request("GET", "/delay/50", b"");
        let responses = socket.finish();
        assert_eq!(responses[&echo], whole(200, body));
        for (len, stream) in (1..).zip(bytes) {
            assert_eq!(responses[&stream].body.len(), len);
        }
        assert_eq!(responses[&missing].status, 404);
        assert_eq!(responses[&head], whole(200, b""));
        assert_eq!(responses[&slow].status, 200);
    });
}

fn a_large_upload_and_download_are_limited_by_windows_only<L>()
where
    L: Loop<Engine = ServerEngine<App>>,
{
    let (mut driver, address) = L::start(server(Limits::default()));
    turn_while(&mut driver, || {
        let mut socket = Http2Socket::connect(address);
        let body = noise(1_000_000);
        let first = socket.client.request("POST", "/echo", &body);
        let second = socket.client.request("POST", "/echo", &body);
        let responses = socket.finish();
        assert_eq!(responses[&first], whole(200, body.clone()));
        assert_eq!(responses[&second], whole(200, body));
    });
}

tests_in_every_loop!(
    at_any_pace: [responses_of_many_streams_are_right],
    at_full_speed: [a_large_upload_and_download_are_limited_by_windows_only],
);

fn files(root: &Path) -> (OwnLoop<FilesEngine>, SocketAddr) {
    let site = Options { revalidate_after: Duration::from_secs(3600), ..Options::default() };
    let options = FilesOptions { site, ..FilesOptions::new(root) };
    let files = Files::open(&options).expect("a directory");
    let app = HandlerApp::new(files, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    OwnLoop::by_calls(engine)
}

#[test]
fn files_are_framed_between_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let (large, small) = (noise(3_000_000), noise(300));
    std::fs::write(dir.path().join("large"), &large).expect("room");
    std::fs::write(dir.path().join("small"), &small).expect("room");
    let (mut driver, address) = files(dir.path());
    turn_while(&mut driver, || {
        let mut socket = Http2Socket::connect(address);
        let larges = ["/large", "/large"].map(|target| socket.client.request("GET", target, b""));
        let smalls: Vec<u32> =
            (0..50).map(|_| socket.client.request("GET", "/small", b"")).collect();
        let responses = socket.finish();
        for stream in larges {
            assert_eq!(responses[&stream], whole(200, large.clone()));
        }
        for stream in smalls {
            assert_eq!(responses[&stream], whole(200, small.clone()));
        }
    });
}

/// A hundred requests in one packet have their responses in one turn.
#[test]
fn a_hundred_streams_cost_few_calls() {
    let (driver, address) = OwnLoop::by_calls(server(Limits::default()));
    let mut server = driver.0;
    let mut socket = Http2Socket::connect(address);
    let mut round = |count: u32| {
        let mut calls = 0;
        for _ in 0..count {
            for _ in 0..100 {
                socket.client.request("GET", "/bytes/100", b"");
            }
            socket.send();
            socket.socket.set_nonblocking(true).expect("a socket");
            while !socket.client.is_done() {
                let before = Ledger::here();
                server.try_turn().expect("a turn");
                calls += (Ledger::here() - before).total();
                socket.read_available();
            }
            socket.socket.set_nonblocking(false).expect("a socket");
        }
        calls
    };
    round(1);
    let most = 10 * 100 * budget("system_calls_per_1000", "serve_http2_100_streams") / 1_000;
    let calls = round(10);
    assert!(calls <= most, "{calls} calls for 1,000 requests");
}

/// The calls for one file on each of so many streams, requested in one packet.
fn calls_for_files(count: usize, len: usize) -> u64 {
    let dir = tempfile::tempdir().expect("a directory");
    let content = noise(len);
    for n in 0..count {
        std::fs::write(dir.path().join(n.to_string()), &content).expect("room");
    }
    let (driver, address) = files(dir.path());
    let mut server = driver.0;
    let mut socket = Http2Socket::connect(address);
    socket.client.holds_windows = true; // they are large enough for all
    socket.send();
    socket.socket.set_nonblocking(true).expect("a socket");
    let mut calls = 0;
    for measured in [false, true] {
        let streams: Vec<u32> = (0..count)
            .map(|n| {
                let method = if measured { "GET" } else { "HEAD" }; // opens the files
                socket.client.request(method, &format!("/{n}"), b"")
            })
            .collect();
        socket.send();
        while !socket.client.is_done() {
            let before = Ledger::here();
            server.try_turn().expect("a turn");
            calls += u64::from(measured) * (Ledger::here() - before).total();
            socket.read_available();
        }
        for stream in streams {
            let response = &socket.client.responses[&stream];
            assert_eq!(response.status, 200);
            assert!(!measured || response.body == content, "{} bytes", response.body.len());
        }
    }
    calls
}

/// Frames of a file are read together, and sent together with their headers.
#[test]
fn a_large_file_costs_few_calls() {
    let calls = calls_for_files(1, 1_000_000);
    assert!(calls <= budget("system_calls", "serve_http2_file"), "{calls} calls");
}

/// They take turns of 64 KB, and each turn is a read.
#[test]
fn large_files_on_ten_streams_cost_few_calls() {
    let calls = calls_for_files(10, 1_000_000);
    let most = 10 * budget("system_calls", "serve_http2_10_files");
    assert!(calls <= most, "{calls} calls for ten files");
}

/// Engine and application keep little of a connection without streams, and its outgoing table is
/// small. The incoming one has the fields of the client.
#[test]
fn an_idle_connection_keeps_little_memory() {
    let (driver, address) = OwnLoop::by_calls(server(Limits::default()));
    let mut server = driver.0;
    for streams in [1, 100] {
        let mut client = Http2Client::default();
        (0..streams).for_each(|_| {
            client.request("GET", "/bytes/100", b"");
        });
        let requests = client.poll_bytes();
        let mut received = vec![0; 64 * 1024];
        // Sends the requests, and turns until so many bytes have arrived, or all responses.
        let mut exchange = |is_done: &mut dyn FnMut(&[u8]) -> bool| {
            let mut socket = loops::client(address);
            socket.write_all(&requests).expect("room");
            socket.set_nonblocking(true).expect("a socket");
            let mut kept = 0;
            loop {
                let turn = allocation_counter::measure(|| {
                    server.try_turn().expect("a turn");
                });
                kept += turn.bytes_current;
                let len = socket.read(&mut received).unwrap_or_default();
                if is_done(&received[..len]) {
                    return (socket, kept);
                }
            }
        };
        let mut len = 0;
        let first = exchange(&mut |bytes| {
            len += bytes.len();
            client.receive(bytes);
            client.is_done()
        });
        let mut next = || {
            let mut left = len;
            exchange(&mut |bytes| {
                left -= bytes.len();
                left == 0
            })
        };
        let _warm: Vec<_> = (0..8).map(|_| next()).collect();
        let kept: Vec<_> = (0..50).map(|_| next()).collect();
        let each = kept.iter().map(|(_, bytes)| bytes).sum::<i64>() / 50;
        let most = i64::try_from(budget("memory", "serve_http2_idle")).expect("small");
        assert!(each <= most, "{each} bytes for each connection after {streams} streams");
        drop(first);
    }
}

/// Behind the preface nothing is a request of HTTP/1: it cannot be smuggled past a proxy.
#[test]
fn a_request_of_http1_behind_the_preface_is_an_error() {
    let (mut driver, address) = OwnLoop::<ServerEngine<App>>::start(server(Limits::default()));
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        client.send(PREFACE);
        client.send("GET /bytes/7 HTTP/1.1\r\nHost: test\r\n\r\n");
        client.finish();
        let bytes = client.read_to_end().expect("an end, not a reset");
        let has = |part: &[u8]| bytes.windows(part.len()).any(|bytes| bytes == part);
        assert!(has(b"\0\0\x08\x07\0\0\0\0\0"), "GOAWAY: {bytes:?}");
        assert!(!has(b"HTTP/1.1"));
    });
}

/// One stream is reset while its handler waits; its neighbour is served.
#[test]
fn a_reset_ends_one_exchange() {
    let (mut driver, address) = OwnLoop::<ServerEngine<App>>::start(server(Limits::default()));
    turn_while(&mut driver, || {
        let mut socket = Http2Socket::connect(address);
        let idle = socket.client.request("GET", "/idle", b"");
        let slow = socket.client.request("GET", "/delay/50", b"");
        socket.send();
        socket.client.reset(idle);
        let responses = socket.finish();
        assert_eq!(responses[&slow].status, 200);
        assert!(responses[&idle].reset.is_some(), "its owner reset it");
        let next = socket.client.request("GET", "/bytes/5", b"");
        assert_eq!(socket.finish()[&next].body.len(), 5);
    });
}

/// RFC 9113 §6.8: the client learns that no more streams are accepted, and the response comes.
#[test]
fn a_graceful_stop_completes_the_open_streams() {
    let stop = Stop::new();
    let mut engine = ServerEngine::new(sys::now(), app(), Limits::default(), stop.clone());
    engine.add_listener(LISTENER, None);
    let (mut driver, address) = OwnLoop::<ServerEngine<App>>::start(engine);
    let waker = driver.waker();
    turn_while(&mut driver, || {
        let mut socket = Http2Socket::connect(address);
        let first = socket.client.request("GET", "/bytes/3", b"");
        assert_eq!(socket.finish()[&first].status, 200);
        let slow = socket.client.request("GET", "/delay/100", b"");
        socket.send();
        stop.set();
        waker.wake();
        assert_eq!(socket.finish()[&slow].status, 200);
        while socket.read() {}
        assert!(socket.client.is_refused());
    });
    driver.turn_until(|driver| driver.engine().is_done());
}

#[test]
fn each_stream_has_a_line_in_the_access_log() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let log = Output::new(sys::open_log(file.path()).expect("it is there"));
    let app = HandlerApp::new(EndpointsHandler::default(), sys::now(), sys::wall_clock)
        .with_observer(AccessLog::new(log, Format::Combined));
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let (mut driver, address) = OwnLoop::<ServerEngine<_>>::start(engine);
    turn_while(&mut driver, || {
        let mut socket = Http2Socket::connect(address);
        socket.client.request("GET", "/bytes/10", b"");
        socket.client.request("GET", "/status/404", b"");
        socket.client.request("GET", &format!("/{}", "x".repeat(9_000)), b"");
        socket.finish();
    });
    driver.engine().application_mut().finish(sys::now());
    let log = std::fs::read_to_string(file.path()).expect("a log");
    let has = |part: &str| assert!(log.contains(part), "{log}");
    has("\"GET /bytes/10 HTTP/2.0\" 200 10 ");
    has("\"GET /status/404 HTTP/2.0\" 404 ");
    has("\"-\" 414 0 "); // refused before the application received it
}

fn hand() -> ServerHand<App> {
    ServerHand::new(|now| {
        let limits = Limits { send_timeout: Duration::from_secs(10), ..Limits::default() };
        let limits = Limits { body_timeout: Duration::from_secs(10), ..limits };
        let mut engine = ServerEngine::new(now, app(), limits, Stop::new());
        engine.add_listener(LISTENER, None);
        engine
    })
}

/// Streams whose client opens no window, or sends no body, end after one to two timeouts, although
/// other streams keep the connection moving.
#[test]
fn stalled_streams_end_and_the_others_go_on() {
    let mut hand = hand();
    let peer = hand.connect();
    let mut client = Http2Client::default();
    client.holds_windows = true;
    let stalled = client.request("GET", "/bytes/3000000", b"");
    let starved = client.begin("POST", "/echo", BodyLen::Exact(10));
    let mut last = 0;
    for second in 0..25 {
        last = client.request("GET", "/bytes/1", b"");
        hand.send(peer, client.poll_bytes());
        let received = std::mem::take(&mut hand.peer(peer).received);
        client.receive(&received);
        let ended = [stalled, starved].map(|id| client.responses[&id].reset.is_some());
        match second {
            0..10 => assert_eq!(ended, [false; 2], "after {second} seconds"),
            21.. => assert_eq!(ended, [true; 2], "after {second} seconds"),
            _ => {}
        }
        hand.jump(Duration::from_secs(1));
    }
    assert!(client.responses[&last].is_whole, "{:?}", client.responses[&last]);
    assert!(hand.peer(peer).closed.is_none());
}

/// Control frames do not keep an idle connection.
#[test]
fn pings_do_not_extend_the_idle_timeout() {
    let mut hand = ServerHand::new(|now| {
        let limits = Limits { idle_timeout: Duration::from_secs(5), ..Limits::default() };
        let mut engine = ServerEngine::new(now, app(), limits, Stop::new());
        engine.add_listener(LISTENER, None);
        engine
    });
    let peer = hand.connect();
    let mut client = Http2Client::default();
    client.request("GET", "/bytes/1", b"");
    hand.send(peer, client.poll_bytes());
    let mut seconds = 0;
    while hand.peer(peer).closed.is_none() {
        assert!(seconds < 20, "it lives on");
        hand.send(peer, b"\0\0\x08\x06\0\0\0\0\0pingpong");
        hand.jump(Duration::from_secs(1));
        seconds += 1;
    }
    assert!(seconds >= 5, "{seconds}");
}

/// A client that acknowledges no PING never shows that it has received GOAWAY. The timeout for
/// closing ends the connection, and no frame extends it.
#[test]
fn a_client_that_ignores_goaway_is_closed() {
    let stop = Stop::new();
    let mut hand = ServerHand::new(|now| {
        let limits = Limits { linger_timeout: Duration::from_secs(5), ..Limits::default() };
        let mut engine = ServerEngine::new(now, app(), limits, stop.clone());
        engine.add_listener(LISTENER, None);
        engine
    });
    let peer = hand.connect();
    let mut client = Http2Client::default();
    client.request("GET", "/bytes/1", b"");
    hand.send(peer, client.poll_bytes());
    stop.set();
    hand.wake();
    let mut seconds = 0;
    while hand.peer(peer).closed.is_none() {
        assert!(seconds < 10, "it lives on");
        hand.send(peer, b"\0\0\x08\x06\0\0\0\0\0pingpong");
        hand.jump(Duration::from_secs(1));
        seconds += 1;
    }
    assert!(seconds >= 5, "{seconds}");
}
