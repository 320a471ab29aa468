//! Observers of a server: their records over real sockets, and their cost.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use fulmar_observe::{AccessLog, Format, Metrics, Output, Page};
use fulmar_proto::{PeerError, Request};
use fulmar_server::{Handler, HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call as System, Ledger};
use fulmar_tests::http::HttpClient;
use fulmar_tests::http2_frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, frame, preface, request_block,
};
use fulmar_tests::loops::{
    AppLoop, Bytewise, Edge, LISTENER, LevelTriggered, Loop, OneShot, OwnLoop, turn_while,
};
use fulmar_tests::process::{eventually, text};

/// A shop that serves its own metrics: only a test does that.
struct MetricsHandler {
    page: Page,
}

impl Handler for MetricsHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match request.target {
            b"/metrics" => self.page.handle(responder, request),
            b"/collect" => {
                responder.collect(1_000, |responder, body| responder.text(200, body.to_vec()))
            }
            _ => responder.text(200, "hello\n"),
        }
    }
}

type MetricsEngine = ServerEngine<HandlerApp<MetricsHandler>>;

/// It, and the file that its log is written to.
fn start<L: Loop<Engine = MetricsEngine>>() -> (L, SocketAddr, tempfile::NamedTempFile) {
    let (engine, file) = engine();
    let (driver, address) = L::start(engine);
    (driver, address, file)
}

fn engine() -> (MetricsEngine, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let metrics = Metrics::new();
    let log = Output::new(sys::open_log(file.path()).expect("it is there"));
    let app = HandlerApp::new(MetricsHandler { page: metrics.page() }, sys::now(), sys::wall_clock)
        .with_observer(AccessLog::new(log, Format::Json))
        .with_observer(metrics.observer());
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    (engine, file)
}

/// All lines of the log.
fn finish<L: Loop<Engine = MetricsEngine>>(
    mut driver: L,
    file: &tempfile::NamedTempFile,
) -> Vec<serde_json::Value> {
    fulmar_server::ServerApp::finish(driver.engine().application_mut(), sys::now());
    let text = std::fs::read_to_string(file.path()).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn every_event_is_observed<L: Loop<Engine = MetricsEngine>>() {
    let (mut driver, address, file) = start::<L>();
    let figures = turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        for _ in 0..3 {
            assert_eq!(client.get("/").status, 200);
        }
        client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.read_head().expect("a head").field("content-length"), Some("6"));
        let mut bad = HttpClient::connect(address);
        bad.send("GET / HTTP/1.1\r\nnonsense\r\n\r\n");
        bad.read_to_end().expect("an answer and the end");
        drop(bad); // its connection is over when both sides have ended
        let mut figures = String::new();
        eventually("both have been heard of", || {
            figures = text(&client.get("/metrics").body);
            figures.contains("fulmar_http_requests_malformed_total 1")
        });
        figures
    });
    for sample in [
        "fulmar_connections_accepted_total 2",
        "fulmar_http_requests_total{code=\"2xx\",method=\"GET\"} ",
        "fulmar_http_requests_total{code=\"2xx\",method=\"HEAD\"} 1",
        "fulmar_http_requests_malformed_total 1",
        "fulmar_syscalls_total{call=\"",
    ] {
        assert!(figures.lines().any(|line| line.starts_with(sample)), "{sample}:\n{figures}");
    }
    let lines = finish(driver, &file);
    let others = lines.iter().filter(|line| line["target"] != "/metrics");
    let statuses: Vec<_> = others.map(|line| line["status"].as_u64()).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 400].map(Some));
    assert_eq!((&lines[0]["bytes"], &lines[3]["bytes"]), (&6.into(), &0.into()));
}

/// A client that closes before the response, or sends garbage after the head, has one line.
fn unfinished_requests_are_observed<L: Loop<Engine = MetricsEngine>>() {
    let (mut driver, address, file) = start::<L>();
    let begin = |rest: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let head = format!("POST /collect HTTP/1.1\r\nHost: h\r\n{rest}");
        stream.write_all(head.as_bytes()).expect("room");
        stream
    };
    turn_while(&mut driver, || {
        let mut gone = begin("Content-Length: 10\r\n\r\nfive ");
        gone.shutdown(Shutdown::Write).expect("open");
        let _ = gone.read_to_end(&mut Vec::new()); // an end or a reset
        let mut bad = begin("Transfer-Encoding: chunked\r\n\r\nnonsense\r\n");
        let mut answer = Vec::new();
        bad.read_to_end(&mut answer).expect("an answer and the end");
        assert!(answer.starts_with(b"HTTP/1.1 400 "));
        // Two bytes of ten, and the end of the stream.
        let mut reset = TcpStream::connect(address).expect("it listens");
        let block = request_block("POST", "/collect", &[("content-length", b"10")]);
        let head = frame(HEADERS, END_HEADERS, 1, block);
        let bytes = [preface(&[]), head, frame(DATA, END_STREAM, 1, b"ab")].concat();
        reset.write_all(&bytes).expect("room");
        reset.shutdown(Shutdown::Write).expect("open");
        let _ = reset.read_to_end(&mut Vec::new());
    });
    driver.turn_until(|driver| driver.engine().connections() == 0);
    let lines = finish(driver, &file);
    let told = |line: &serde_json::Value| (line["status"].as_u64(), line["complete"].as_bool());
    assert!(lines.len() == 3 && lines.iter().all(|line| line["method"] == "POST"), "{lines:?}");
    assert_eq!(told(&lines[0]), (Some(0), Some(false)), "{lines:?}");
    assert_eq!(lines[0]["error"], serde_json::Value::Null);
    for (status, fault) in [(400, PeerError::BadChunk), (0, PeerError::BodyTooShort)] {
        let line = lines.iter().find(|line| line["error"] == fault.to_string());
        assert_eq!(line.map(told), Some((Some(status), Some(false))), "{lines:?}");
    }
}

macro_rules! in_loops {
    ($($name:ident),*) => {
        in_loops!(@ epoll, OwnLoop<_>, [$($name),*]);
        in_loops!(@ level, AppLoop<_, LevelTriggered>, [$($name),*]);
        in_loops!(@ edge, AppLoop<_, Edge>, [$($name),*]);
        in_loops!(@ one_shot, AppLoop<_, OneShot>, [$($name),*]);
        in_loops!(@ bytewise, Bytewise<OwnLoop<_>>, [$($name),*]);
    };
    (@ $world:ident, $loop:ty, [$($name:ident),*]) => {
        mod $world {
            use super::*;
            $(#[test] fn $name() { super::$name::<$loop>(); })*
        }
    };
}

in_loops!(every_event_is_observed, unfinished_requests_are_observed);

#[test]
fn watching_costs_one_write_for_many_lines_and_no_allocation() {
    let (engine, file) = engine();
    let (mut server, address) = OwnLoop::by_calls(engine);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = b"GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: test\r\n\r\n";
    let mut answer = [0; 4096];
    let mut exchange = || {
        stream.write_all(request).expect("room");
        server.0.turn().expect("a turn");
        let len = stream.read(&mut answer).expect("the answer has left in that turn");
        assert!(answer[..len].ends_with(b"hello\n"));
    };
    (0..5).for_each(|_| exchange());
    let (start, before) = (sys::now(), Ledger::here());
    let memory = allocation_counter::measure(|| (0..EXCHANGES).for_each(|_| exchange()));
    let spent = Ledger::here() - before;
    assert_eq!(memory.count_total, 0);
    for call in [System::recv, System::send, System::epoll_wait] {
        assert_eq!(spent.count(call).calls, EXCHANGES, "{}", call.name());
    }
    let writes = spent.count(System::write).calls;
    let most = 10 + start.elapsed().as_secs();
    assert!((4..most).contains(&writes), "{writes} writes of 64 KiB, and one a second");
    assert_eq!(spent.total(), 3 * EXCHANGES + writes, "nothing else");
    assert_eq!(spent.clock_reads(), EXCHANGES);
    assert_eq!(finish(server, &file).len() as u64, EXCHANGES + 5);
}

const EXCHANGES: u64 = 1_000;
