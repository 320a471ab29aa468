//! An idle event-driven server does nothing: while a response is pending, when its client leaves,
//! and when the server ends.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fulmar_proto::{BodyLen, Headers, Request, Response};
use fulmar_semantics::proxy_protocol::ProxyProtocol;
use fulmar_server::{
    Handler, HandlerApp, HandlerResult, Layers, Limits, Produced, Responder, ServerEngine, Stop,
    Suspended,
};
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::curl::Curl;
use fulmar_tests::http::HttpClient;
use fulmar_tests::https::{http1_tls, layers, server_tls};
use fulmar_tests::loops::{
    AppLoop, Bytewise, Edge, LISTENER, Loop, OneShot, OwnLoop, PollLoop, assert_quiet, idle,
    settle, side_by_side, turn_while,
};
use fulmar_tests::recording_app::{self, ConnectionEnd, RecordingApp};
use fulmar_tests::tls_end::TlsPeer;
use fulmar_tests::{in_every_loop, tests_in_every_loop};
use fulmar_tls::{ClientTls, ServerTls};

/// `/wait` waits for another thread; `/endless` never ends; everything else is answered.
struct WaitingHandler(Sender<Suspended>);

impl Handler for WaitingHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match request.target {
            b"/wait" => {
                let suspended = responder.suspend();
                self.0.send(suspended).expect("somebody waits for it");
                Ok(())
            }
            b"/endless" => {
                let ok = Response::new(200, Headers::EMPTY);
                responder.produce(ok, BodyLen::Unknown, |responder| {
                    responder.send(&PATTERN[..]).map(|()| Produced::More)
                })
            }
            _ => responder.text(200, "ok\n"),
        }
    }
}

type WaitingEngine = ServerEngine<HandlerApp<WaitingHandler>>;

fn start<L: Loop<Engine = WaitingEngine>>(
    layers: Option<Layers>,
) -> (L, SocketAddr, Receiver<Suspended>) {
    let (sender, suspended) = channel();
    let app = HandlerApp::new(WaitingHandler(sender), sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, layers);
    let (mut driver, address) = L::start(engine);
    let waker = driver.waker();
    driver.engine().mailbox().set_waker(waker.into());
    (driver, address, suspended)
}

/// Turns until `suspended` has an exchange.
fn await_one<L: Loop<Engine = WaitingEngine>>(
    driver: &mut L,
    suspended: &Receiver<Suspended>,
) -> Suspended {
    let mut one = None;
    driver.turn_until(|_| {
        one = suspended.try_recv().ok();
        one.is_some()
    });
    one.unwrap()
}

/// Trap 8: a response is pending, while bytes of its body are in the socket and above it.
fn waiting_costs_nothing<L: Loop<Engine = WaitingEngine>>(tls: bool) {
    let certs = Certs::new();
    let layers = tls.then(|| layers(server_tls(&certs, CertOwner::Server)));
    let (mut driver, address, suspended) = start::<L>(layers);
    // More than fits into the buffers, except in loops where that takes too long.
    let len = if L::SLOWER == 1 { 3_000_000 } else { 20_000 };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    fs::write(&file, vec![b'x'; len]).unwrap();
    let scheme = if tls { "https" } else { "http" };
    let url = format!("{scheme}://127.0.0.1:{}/wait", address.port());
    let (ca, upload) = (certs.ca().display().to_string(), format!("@{}", file.display()));
    let arguments = ["--cacert", &ca, "-H", "Expect:", "--data-binary", &upload];
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| Curl::new(&url).with(&arguments).run().reply);
        let one = await_one(&mut driver, &suspended);
        settle(&mut driver);
        assert_quiet(&mut driver, Duration::from_secs(1));
        let resumed = scope.spawn(move || {
            one.resume(|responder| {
                responder.collect(usize::MAX, |responder, body| {
                    responder.text(200, body.len().to_string())
                })
            });
        });
        driver.turn_until(|_| peer.is_finished());
        resumed.join().unwrap();
        let reply = peer.join().unwrap();
        assert_eq!((reply.status, reply.body), (200, len.to_string().into_bytes()));
    });
    driver.turn_until(|driver| driver.engine().connections() == 0);
}

#[test]
fn waiting_costs_nothing_over_tcp() {
    fn check<L: Loop<Engine = WaitingEngine>>() {
        waiting_costs_nothing::<L>(false);
    }
    in_every_loop!(check);
    side_by_side(&[
        ("poll, bytewise", check::<Bytewise<PollLoop<_>>>),
        ("edge, bytewise", check::<Bytewise<AppLoop<_, Edge>>>),
        ("one shot, bytewise", check::<Bytewise<AppLoop<_, OneShot>>>),
    ]);
}

#[test]
fn waiting_costs_nothing_over_tls() {
    fn check<L: Loop<Engine = WaitingEngine>>() {
        waiting_costs_nothing::<L>(true);
    }
    in_every_loop!(check);
    side_by_side(&[
        ("poll, bytewise", check::<Bytewise<PollLoop<_>>>),
        ("edge, bytewise", check::<Bytewise<AppLoop<_, Edge>>>),
        ("one shot, bytewise", check::<Bytewise<AppLoop<_, OneShot>>>),
    ]);
}

/// How a client goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// It has shut down its sending side, and still reads.
    Fin,
    /// It is gone.
    Rst,
}

fn depart(stream: &mut Option<TcpStream>, how: Departure) {
    match (stream.as_ref().unwrap(), how) {
        (open, Departure::Fin) => open.shutdown(Shutdown::Write).unwrap(),
        (open, Departure::Rst) => {
            rustix::net::sockopt::set_socket_linger(open, Some(Duration::ZERO)).unwrap();
            *stream = None;
        }
    }
}

/// Trap 9: a client leaves while we wait for something else.
#[test]
fn a_departure_wakes_a_few_times() {
    fn check<L: Loop<Engine = WaitingEngine>>() {
        let upload = "POST /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\nsome of it";
        let cases = [
            ("", "an idle connection"),
            ("GET /x HTTP/1.1\r\nHo", "half a head"),
            ("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n", "an answer that is owed"),
            ("GET /wait HTTP/1.1\r\nHost: h\r\n\r\nGET /", "an answer that is owed, and more"),
            (upload, "a body that is held up"),
            ("GET /endless HTTP/1.1\r\nHost: h\r\n\r\n", "an answer that is not taken"),
            ("nonsense\r\n\r\n", "an error that was told"),
        ];
        let departures = [Departure::Fin, Departure::Rst];
        each(&cases, &departures, |(request, what), how| departs::<L>(request, what, how));
    }
    in_every_loop!(check, at_full_speed);
}

/// Every case with every kind of departure, at the same time: they only wait.
fn each<A: Copy + Sync + Send, B: Copy + Sync + Send>(
    cases: &[A],
    ways: &[B],
    check: impl Fn(A, B) + Sync,
) {
    std::thread::scope(|scope| {
        for (case, way) in cases.iter().flat_map(|case| ways.iter().map(move |way| (case, way))) {
            scope.spawn(|| check(*case, *way));
        }
    });
}

fn departs<L: Loop<Engine = WaitingEngine>>(request: &str, what: &str, how: Departure) {
    let (mut driver, address, suspended) = start::<L>(None);
    let mut stream = Some(TcpStream::connect(address).unwrap());
    stream.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
    driver.turn_until(|driver| driver.engine().connections() == 1);
    let one = request.contains("/wait").then(|| await_one(&mut driver, &suspended));
    settle(&mut driver);
    let before = driver.stats().events;
    depart(&mut stream, how);
    let stays = how == Departure::Fin && (one.is_some() || request.contains("/endless"));
    driver.turn_until(|driver| driver.engine().connections() == usize::from(stays));
    settle(&mut driver);
    let events = driver.stats().events - before;
    assert!(events <= 3, "{what}, {how:?}: {events} wake-ups");
    assert_quiet(&mut driver, Duration::from_millis(100));
    assert_eq!(driver.engine().connections(), usize::from(stays), "{what}, {how:?}");
}

/// The same over TLS, where a FIN without close_notify is no end.
#[test]
fn a_departure_over_tls_wakes_a_few_times() {
    fn check<L: Loop<Engine = WaitingEngine>>() {
        let certs = Certs::new();
        let upload = "POST /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\nsome of it";
        let cases = [
            ("", "an idle connection"),
            ("GET /x HTTP/1.1\r\nHo", "half a head"),
            ("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n", "an answer that is owed"),
            (upload, "a body that is held up"),
            ("GET /endless HTTP/1.1\r\nHost: h\r\n\r\n", "an answer that is not taken"),
        ];
        let ways = [(Departure::Fin, true), (Departure::Fin, false), (Departure::Rst, false)];
        let ends = (server_tls(&certs, CertOwner::Server), http1_tls(&certs));
        each(&cases, &ways, |(request, what), (how, says_so)| {
            departs_over_tls::<L>(&ends, request, how, says_so, what);
        });
    }
    in_every_loop!(check, at_full_speed);
}

fn departs_over_tls<L: Loop<Engine = WaitingEngine>>(
    (ours, theirs): &(ServerTls, ClientTls),
    request: &str,
    how: Departure,
    says_so: bool,
    what: &str,
) {
    let (mut driver, address, suspended) = start::<L>(Some(layers(ours.clone())));
    let mut peer = TlsPeer::connect(theirs, address);
    driver.turn_until(|_| {
        peer.turn();
        peer.end.established
    });
    peer.end.send(request.as_bytes());
    peer.stream.write_all(&peer.end.take()).unwrap();
    let one = request.contains("/wait").then(|| await_one(&mut driver, &suspended));
    settle(&mut driver);
    let before = driver.stats().events;
    if says_so {
        peer.end.layer.finish();
        peer.stream.write_all(&peer.end.take()).unwrap();
    }
    let mut stream = Some(peer.stream);
    depart(&mut stream, how);
    if how == Departure::Rst {
        driver.turn_until(|driver| driver.engine().connections() == 0);
    }
    settle(&mut driver);
    let events = driver.stats().events - before;
    assert!(events <= 3, "{what}, {how:?}, {says_so}: {events} wake-ups");
    assert_quiet(&mut driver, Duration::from_millis(100));
    drop(one);
}

type Hearing = ServerEngine<RecordingApp>;

/// Trap 14: in whatever state a connection is when a server ends, its end is reported once, and no
/// event follows.
fn the_end_of_a_server_ends_every_connection<L: Loop<Engine = Hearing>>() {
    for layered in [false, true] {
        let layers = layered.then(|| Layers::new(|_| Some(Box::new(ProxyProtocol::new(None)))));
        let stop = Stop::new();
        let drain_timeout = Duration::from_millis(100);
        let limits = Limits { drain_timeout, ..Limits::default() };
        let mut engine =
            ServerEngine::new(sys::now(), RecordingApp::default(), limits, stop.clone());
        engine.add_listener(LISTENER, layers);
        let (mut driver, address) = L::start(engine);
        let lead = if layered { "PROXY UNKNOWN\r\n" } else { "" };
        let mut streams: Vec<_> = [
            "",
            "PROXY UN",
            "GET /x HT",
            "GET /x HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /never HTTP/1.1\r\nHost: h\r\n\r\n",
            "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf",
            "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf",
            "nonsense\r\n\r\n",
        ]
        .iter()
        .map(|request| {
            let mut client = HttpClient::connect(address);
            let lead = if request.starts_with("PROXY") { "" } else { lead };
            client.send(format!("{lead}{request}"));
            client
        })
        .collect();
        let count = streams.len();
        driver.turn_until(|driver| driver.engine().application().accepted == count);
        idle(&mut driver, Duration::from_millis(20));
        stop.set();
        driver.waker().wake();
        driver.turn_until(|driver| driver.engine().is_done());
        assert_eq!(driver.engine().application().gone.len(), count);
        let heard = format!("{:?}", driver.engine().application());
        for client in &mut streams {
            let _ = client.socket().write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = client.read_to_end(); // an end or a reset
        }
        idle(&mut driver, Duration::from_millis(50));
        assert_eq!(format!("{:?}", driver.engine().application()), heard, "after the end");
        TcpStream::connect(address).expect_err("no listener is left");
    }
}

/// A reactor may be dropped at any time: everything that it owned is closed.
fn a_dropped_server_leaves_nothing_open<L: Loop<Engine = WaitingEngine>>() {
    let (mut driver, address, suspended) = start::<L>(None);
    let mut streams: Vec<_> = ["", "/wait", "/endless", "/x"]
        .iter()
        .map(|target| {
            let mut client = HttpClient::connect(address);
            if !target.is_empty() {
                client.send_get(target);
            }
            client
        })
        .collect();
    let one = await_one(&mut driver, &suspended);
    idle(&mut driver, Duration::from_millis(50));
    drop(driver);
    for client in &mut streams {
        let _ = client.read_to_end(); // an end or a reset: it does not hang
    }
    assert!(one.is_gone());
    one.resume(|responder| responder.text(200, "to nobody"));
    TcpStream::connect(address).expect_err("no listener is left");
}

/// The open descriptors of a process, as the kernel names them (proc(5)).
fn descriptors(process: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).collect()
}

/// Trap 14, fork: a program that is started meanwhile inherits nothing of a server.
fn a_child_inherits_nothing<L: Loop<Engine = WaitingEngine>>() {
    let (mut driver, address, suspended) = start::<L>(None);
    let mut client = HttpClient::connect(address);
    client.send_get("/wait");
    let one = await_one(&mut driver, &suspended);
    let own = driver.watched().into_iter();
    let own: Vec<_> = own.map(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap()).collect();
    assert!(own.len() >= 2, "a listener and a connection: {own:?}");
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It has become another program when it copies its input.
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let inherited = descriptors(&child.id().to_string());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(own.iter().all(|name| !inherited.contains(name)), "{inherited:?}");
    let is_ours = |name: &PathBuf| {
        let name = name.to_string_lossy();
        name.contains("eventpoll") || name.contains("eventfd")
    };
    assert!(!inherited.iter().any(is_ours), "{inherited:?}");
    drop(one);
    let reply = turn_while(&mut driver, || client.read_reply().unwrap());
    assert_eq!(reply.status, 500, "it was forgotten");
}

tests_in_every_loop!(
    at_any_pace: [],
    at_full_speed: [
        the_end_of_a_server_ends_every_connection,
        a_dropped_server_leaves_nothing_open,
        a_child_inherits_nothing,
    ],
);

/// The deadline for the layer below counts too.
#[test]
fn a_failed_layer_reports_the_end() {
    let layers = Layers::new(|_| Some(Box::new(ProxyProtocol::new(None))));
    let handshake_timeout = Duration::from_millis(30);
    let limits = Limits { handshake_timeout, ..Limits::default() };
    let (mut driver, address) =
        OwnLoop::<Hearing>::start(recording_app::server(limits, Some(layers)));
    let _client = HttpClient::connect(address);
    driver.turn_until(|driver| driver.engine().application().gone == [ConnectionEnd::TimedOut]);
}

static PATTERN: [u8; 4096] = [b'x'; 4096];
