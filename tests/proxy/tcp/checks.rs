//! Health checks of the proxy, over real sockets: each kind, and each way to fail.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fulmar_drive::{ListenOptions, listen};
use fulmar_engine::{Action, DriverEvent, Engine, Peer, SocketEvent};
use fulmar_haproxy::model::{
    CheckExpect, CheckKind, CheckProtocol, CheckRequest, Expectation, Observe, OnError,
    ServerAddress, ServerCheck, ServerProxy, ServerTlsConfig, TcpStep,
};
use fulmar_haproxy::{BackendConfig, BackendId, ServerConfig};
use fulmar_proxy::balance::{Admin, Health, Placement, WaitQueue, Wants};
use fulmar_proxy::{Checks, Finding, Live, LogSeverity, Observation, Wake};
use fulmar_server::Limits;
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{self, server_tls};
use fulmar_tests::loops::{Loop, OwnLoop};
use fulmar_tests::origins::free_address;
use fulmar_tests::process::PATIENCE;
use fulmar_tests::tcp_proxy::{config, frontend};
use fulmar_tests::test_proxy::{LogLines, RecordingJournal, backend, server};

type CheckLoop = OwnLoop<Checks>;

/// The bytes that a server of a test received, one entry for each connection.
type HeardAll = Arc<Mutex<Vec<Vec<u8>>>>;

/// A server that receives at least `questions` bytes of each connection, sends `answer`, and ends.
fn origin(questions: usize, answer: &'static [u8]) -> (SocketAddr, HeardAll) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let heard = HeardAll::default();
    let all = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let heard = receive(&stream, questions);
            all.lock().expect("nobody panics").push(heard);
            let _ = (&stream).write_all(answer);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = (&stream).read_to_end(&mut Vec::new());
        }
    });
    (address, heard)
}

fn receive(mut stream: &TcpStream, least: usize) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (mut heard, mut block) = (Vec::new(), [0; 4096]);
    while heard.len() < least {
        match stream.read(&mut block) {
            Ok(0) | Err(_) => break,
            Ok(len) => heard.extend_from_slice(&block[..len]),
        }
    }
    heard
}

/// A server that never sends anything, and keeps its connections open.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let kept: Vec<_> = listener.incoming().collect();
        drop(kept);
    });
    address
}

fn plan() -> ServerCheck {
    ServerCheck {
        interval: Duration::from_secs(10),
        fast_interval: Some(Duration::from_millis(10)),
        down_interval: Some(Duration::from_millis(10)),
        rise: 2,
        fall: 2,
        port: None,
        address: None,
        tls: false,
        send_proxy: false,
        sni: None,
    }
}

/// Answers may take longer than the time between checks, as they do on a busy machine.
fn patient(mut backend: BackendConfig) -> BackendConfig {
    backend.timeouts.check = Some(PATIENCE);
    backend
}

fn checked(address: SocketAddr) -> ServerConfig {
    ServerConfig { check: Some(plan()), ..server("s1", address) }
}

fn start(backend: BackendConfig) -> (CheckLoop, Arc<Live>, LogLines) {
    start_all([backend])
}

fn start_all(
    backends: impl IntoIterator<Item = BackendConfig>,
) -> (CheckLoop, Arc<Live>, LogLines) {
    let live = Arc::new(Live::new(config(frontend(), backends), 1));
    let book = RecordingJournal::default();
    let lines = Rc::clone(&book.0);
    let checks = Checks::new(sys::now(), Arc::clone(&live), Box::new(book));
    let (mut driver, _) = CheckLoop::start(checks);
    let waker = driver.waker();
    live.checks.set_wake(Box::new(move || waker.wake()));
    (driver, live, lines)
}

/// What the first check of the first server finds.
fn first_finding(backend: BackendConfig) -> Finding {
    let (mut driver, live, _) = start(backend);
    let state = || live.backends[0].servers[0].check.state();
    driver.turn_until(|_| state().finding.duration.is_some());
    assert!(!state().running);
    state().finding
}

fn assert_finds(backend: BackendConfig, short: &str, code: u16, info: &str) {
    let found = first_finding(backend);
    assert_eq!((found.status.short(), found.code, found.info.as_str()), (short, code, info));
}

fn with(kind: CheckKind, server: ServerConfig) -> BackendConfig {
    let mut backend = backend([server]);
    backend.check.kind = kind;
    backend
}

fn request(expects: Vec<CheckExpect>) -> CheckRequest {
    CheckRequest {
        method: "OPTIONS".to_owned(),
        target: "/".to_owned(),
        http11: false,
        fields: Vec::new(),
        body: Vec::new(),
        expects,
    }
}

fn http(expects: Vec<CheckExpect>) -> CheckKind {
    CheckKind::Http { steps: vec![request(expects)] }
}

fn expect(what: Expectation) -> Vec<CheckExpect> {
    vec![CheckExpect { negated: false, what }]
}

fn refuse(what: Expectation) -> Vec<CheckExpect> {
    vec![CheckExpect { negated: true, what }]
}

#[test]
fn a_connection_is_enough() {
    assert_finds(backend([checked(origin(1, b"").0)]), "L4OK", 0, "");
    assert_finds(backend([checked(free_address())]), "L4CON", 0, "Connection refused");
}

/// A listener that takes no more connections: its queue is full. Those that fill it are kept.
fn full() -> (OwnedFd, SocketAddr, Vec<TcpStream>) {
    let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
    let (listener, address) = listen((Ipv4Addr::LOCALHOST, 0).into(), options).expect("a port");
    let mut kept = Vec::new();
    let patience = Duration::from_millis(300);
    while let Ok(stream) = TcpStream::connect_timeout(&address, patience) {
        kept.push(stream);
        assert!(kept.len() < 10, "the queue has an end");
    }
    (listener, address, kept)
}

#[test]
fn late_responses_fail_checks() {
    let hasty = |address| {
        let mut server = checked(address);
        server.check.as_mut().expect("there").interval = Duration::from_millis(200);
        server
    };
    let (_listener, address, _kept) = full();
    assert_finds(backend([hasty(address)]), "L4TOUT", 0, "");
    let mut tls = hasty(silent());
    tls.check.as_mut().expect("there").tls = true;
    assert_finds(backend([tls]), "L6TOUT", 0, "");
    assert_finds(with(http(vec![]), hasty(silent())), "L7TOUT", 0, "");
    let mut patient = with(http(vec![]), checked(silent()));
    patient.timeouts.check = Some(Duration::from_millis(50));
    patient.timeouts.connect = Some(Duration::from_secs(5));
    assert_finds(patient, "L7TOUT", 0, "");
    let steps = vec![TcpStep::Send(b"PING".to_vec()), text("PONG")];
    let info = " at step 2 of tcp-check (expect string 'PONG')";
    assert_finds(with(CheckKind::Tcp { steps }, hasty(silent())), "L7TOUT", 0, info);
}

#[test]
fn statuses_and_fields_of_answers() {
    let finds = |answer: &'static [u8], expects, short, code, info| {
        let (address, _) = origin(4, answer);
        assert_finds(with(http(expects), checked(address)), short, code, info);
    };
    let ok = b"HTTP/1.1 200 OK\r\nX-State: good\r\nContent-Length: 6\r\n\r\nfoobar";
    finds(ok, vec![], "L7OK", 200, "");
    finds(b"HTTP/1.1 399 Odd\r\n\r\n", vec![], "L7OK", 399, "");
    finds(b"HTTP/1.0 200 OK\r\n\r\nto the end", vec![], "L7OK", 200, "");
    finds(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        vec![],
        "L7STS",
        503,
        "Service Unavailable",
    );
    finds(b"HTTP/1.1 400 \r\nContent-Length: 0\r\n\r\n", vec![], "L7STS", 400, "");
    finds(b"garbage\r\n\r\n", vec![], "L7RSP", 0, "");
    finds(b"", vec![], "L7RSP", 0, "");
    finds(b"HTTP/1.1 200 O", vec![], "L7RSP", 0, "");
    let ranges = || Expectation::Status(vec![(200, 299), (404, 404)]);
    finds(ok, expect(ranges()), "L7OK", 200, "");
    finds(ok, refuse(ranges()), "L7STS", 200, "OK");
    finds(b"HTTP/1.1 404 Not Found\r\n\r\n", expect(ranges()), "L7OK", 404, "");
    let pattern = |text| regex::bytes::Regex::new(text).expect("a pattern");
    finds(ok, expect(Expectation::StatusPattern(pattern("^2"))), "L7OK", 200, "");
    finds(ok, expect(Expectation::StatusPattern(pattern("^4"))), "L7STS", 200, "OK");
    let field = |name: &str, value: Option<&str>| Expectation::Field {
        name: name.to_owned(),
        value: value.map(str::to_owned),
    };
    finds(ok, expect(field("x-state", None)), "L7OK", 200, "");
    finds(ok, expect(field("x-state", Some("good"))), "L7OK", 200, "");
    finds(ok, expect(field("x-state", Some("bad"))), "L7STS", 200, "OK");
    finds(ok, refuse(field("x-other", None)), "L7OK", 200, "");
    let string = |text: &str| Expectation::Text(text.as_bytes().to_vec());
    finds(ok, expect(string("foob")), "L7OK", 200, "");
    finds(ok, expect(string("good")), "L7RSP", 0, "HTTP content check did not match");
    finds(ok, refuse(string("foob")), "L7RSP", 0, "HTTP check matched unwanted content");
    finds(ok, refuse(string("good")), "L7OK", 200, "");
    finds(ok, expect(Expectation::Pattern(pattern("^foo.ar$"))), "L7OK", 200, "");
    finds(
        ok,
        refuse(Expectation::Pattern(pattern("r$"))),
        "L7RSP",
        0,
        "HTTP check matched unwanted content",
    );
    let both = [expect(ranges()), expect(string("bar"))].concat();
    finds(ok, both, "L7OK", 200, "");
}

#[test]
fn requests_are_those_of_haproxy() {
    let (address, heard) = origin(10, b"HTTP/1.0 200 OK\r\n\r\n");
    first_finding(with(http(vec![]), checked(address)));
    let (second, all) = origin(10, b"HTTP/1.0 200 OK\r\n\r\n");
    let full = CheckRequest {
        method: "POST".to_owned(),
        target: "/health?x=1".to_owned(),
        http11: true,
        body: b"foo".to_vec(),
        ..request(vec![])
    };
    let plain = CheckRequest { http11: true, ..request(vec![]) };
    let finding =
        first_finding(with(CheckKind::Http { steps: vec![full, plain] }, checked(second)));
    assert_eq!(finding.status.short(), "L7OK");
    let heard = heard.lock().expect("nobody panics");
    assert_eq!(String::from_utf8_lossy(&heard[0]), "OPTIONS / HTTP/1.0\r\n\r\n");
    let all = all.lock().expect("nobody panics");
    let texts: Vec<_> = all.iter().map(|heard| String::from_utf8_lossy(heard)).collect();
    assert_eq!(
        texts,
        [
            "POST /health?x=1 HTTP/1.1\r\ncontent-length: 3\r\nconnection: close\r\n\r\nfoo",
            "OPTIONS / HTTP/1.1\r\nconnection: close\r\n\r\n",
        ]
    );
}

fn text(text: &str) -> TcpStep {
    TcpStep::Expect { negated: false, bytes: text.as_bytes().to_vec() }
}

fn unwanted(text: &str) -> TcpStep {
    TcpStep::Expect { negated: true, bytes: text.as_bytes().to_vec() }
}

fn pattern(text: &str) -> TcpStep {
    let pattern = regex::bytes::Regex::new(text).expect("a pattern");
    TcpStep::ExpectPattern { negated: false, pattern }
}

#[test]
fn dialogues_by_steps() {
    let ping = || TcpStep::Send(b"PING\r\n".to_vec());
    let connect = || TcpStep::Connect { port: None, tls: false };
    let finds = |steps: Vec<TcpStep>, address, short, info| {
        assert_finds(with(CheckKind::Tcp { steps }, checked(address)), short, 0, info);
    };
    let pong = || origin(6, b"+PONG\r\n").0;
    finds(vec![ping(), text("+PONG")], pong(), "L7OK", "(tcp-check)");
    finds(vec![connect(), ping(), pattern("^.PON[G-Z]")], pong(), "L7OK", "(tcp-check)");
    finds(vec![ping(), text("PONG"), unwanted("ERR")], pong(), "L7OK", "(tcp-check)");
    let wrong = "TCPCHK did not match content '+OK' at step 3";
    finds(vec![connect(), ping(), text("+OK")], pong(), "L7RSP", wrong);
    let wrong = "TCPCHK did not match content (regex) at step 2";
    finds(vec![ping(), pattern("^OK")], pong(), "L7RSP", wrong);
    let wrong = "TCPCHK matched unwanted content 'PON' at step 2";
    finds(vec![ping(), unwanted("PON")], pong(), "L7RSP", wrong);
    let empty = "TCPCHK got an empty response at step 2";
    finds(vec![ping(), text("PON")], origin(6, b"").0, "L7RSP", empty);
    let refused = "Connection refused at step 1 of tcp-check (connect)";
    finds(vec![connect(), ping()], free_address(), "L4CON", refused);
    finds(vec![connect()], pong(), "L4OK", "");
    finds(vec![], pong(), "L4OK", "");
}

#[test]
fn a_dialogue_continues_at_another_port_and_sends_its_last_step() {
    let (first, _) = origin(0, b"hello");
    let (second, heard) = origin(4, b"");
    let steps = vec![
        text("hello"),
        TcpStep::Connect { port: Some(second.port()), tls: false },
        TcpStep::Send(b"QUIT".to_vec()),
    ];
    assert_finds(with(CheckKind::Tcp { steps }, checked(first)), "L7OK", 0, "(tcp-check)");
    let (mut tries, start) = (0, sys::now());
    while heard.lock().expect("nobody panics").is_empty() {
        tries += 1;
        assert!(sys::now() - start < PATIENCE, "heard nothing in {tries} tries");
        thread::yield_now();
    }
    assert_eq!(heard.lock().expect("nobody panics")[0], b"QUIT");
}

#[test]
fn resets_are_errors_of_the_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        receive(&stream, 4);
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
    });
    let info = "Connection reset by peer";
    assert_finds(with(http(vec![]), checked(address)), "SOCKERR", 0, info);
}

#[test]
fn another_address_another_port_and_a_proxy_header() {
    let (address, heard) = origin(15, b"HTTP/1.0 200 OK\r\n\r\n");
    let mut elsewhere = checked(free_address());
    let plan = elsewhere.check.as_mut().expect("there");
    (plan.port, plan.address) = (Some(address.port()), Some(address.ip()));
    plan.send_proxy = true;
    let mut second = elsewhere.clone();
    second.send_proxy = ServerProxy::V2 { tls: false, common_name: false };
    assert_finds(with(http(vec![]), elsewhere), "L7OK", 200, "");
    assert_finds(with(http(vec![]), second), "L7OK", 200, "");
    let heard = heard.lock().expect("nobody panics");
    assert!(heard[0].starts_with(b"PROXY UNKNOWN\r\n"), "{:?}", heard[0]);
    assert!(heard[1].starts_with(b"\r\n\r\n\0\r\nQUIT\n\x20\0"), "{:?}", heard[1]);
}

#[test]
fn servers_at_unix_sockets_and_at_no_address() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s");
    let _listener = UnixListener::bind(&path).expect("a socket");
    let unix = ServerConfig { address: ServerAddress::Unix(path), ..checked(free_address()) };
    assert_finds(backend([unix]), "L4OK", 0, "");
    let mapped = ServerAddress::Mapped { address: Ipv4Addr::UNSPECIFIED.into(), offset: 1 };
    let mapped = ServerConfig { address: mapped, ..checked(free_address()) };
    assert_finds(backend([mapped]), "SOCKERR", 0, "the check has no address and port");
}

#[test]
fn tls_is_spoken_and_verified() {
    let certs = Certs::new();
    let tls = server_tls(&certs, CertOwner::Server);
    let (mut peer, address) = OwnLoop::start(https::server(tls, Limits::default()));
    let mut finds = |own: Option<ServerTlsConfig>, kind, short, info: &str| {
        let mut server = ServerConfig { tls: own, ..checked(address) };
        server.check.as_mut().expect("there").tls = true;
        server.check.as_mut().expect("there").sni = Some("localhost".to_owned());
        let (mut driver, live, _) = start(with(kind, server));
        let state = || live.backends[0].servers[0].check.state();
        driver.turn_until(|_| {
            peer.turn(Duration::ZERO);
            state().finding.duration.is_some()
        });
        let found = state().finding;
        assert_eq!((found.status.short(), found.info.as_str()), (short, info));
    };
    let verified =
        ServerTlsConfig { verify: true, ca_file: Some(certs.ca()), ..ServerTlsConfig::default() };
    let stranger = Certs::new();
    let mistrusted = ServerTlsConfig { ca_file: Some(stranger.ca()), ..verified.clone() };
    finds(None, CheckKind::Connect, "L6OK", "");
    finds(Some(verified.clone()), CheckKind::Connect, "L6OK", "");
    finds(Some(verified), http(vec![]), "L7STS", "Not Found");
    finds(Some(mistrusted), CheckKind::Connect, "L6RSP", "SSL handshake failure");
    let mut plain = checked(origin(1, b"no TLS at all\r\n").0);
    plain.check.as_mut().expect("there").tls = true;
    assert_finds(backend([plain]), "L6RSP", 0, "SSL handshake failure");
}

/// A server with one status for each connection; the last one is repeated.
fn scripted(statuses: &[u16]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let statuses = statuses.to_vec();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let stream = stream.expect("a connection");
            receive(&stream, 10);
            let status = statuses.get(at).or_else(|| statuses.last()).expect("there is one");
            let _ = write!(&stream, "HTTP/1.0 {status} Such\r\n\r\n");
        }
    });
    address
}

fn texts(lines: &LogLines) -> Vec<String> {
    let lines = lines.borrow();
    let millis = regex::bytes::Regex::new("duration: [0-9]+ms").expect("a pattern");
    let text = |line: &str| {
        let out = millis.replace_all(line.as_bytes(), &b"duration: Nms"[..]).into_owned();
        String::from_utf8(out).expect("text")
    };
    lines.iter().map(|(_, line)| text(line)).collect()
}

#[test]
fn a_server_goes_down_and_comes_back_with_the_lines_of_haproxy() {
    let mut quick = checked(scripted(&[200, 500, 500, 404, 200]));
    quick.check.as_mut().expect("there").interval = SOON;
    let (mut driver, live, lines) = start(patient(with(http(vec![]), quick)));
    driver.turn_until(|_| lines.borrow().len() == 3);
    assert_eq!(
        texts(&lines),
        [
            "Server be/s1 is DOWN, reason: Layer7 wrong status, code: 500, info: \"Such\", \
         check duration: Nms. 0 active and 0 backup servers left. 0 sessions active, \
         0 requeued, 0 remaining in queue.",
            "backend be has no server available!",
            "Server be/s1 is UP, reason: Layer7 check passed, code: 200, check duration: Nms. \
         1 active and 0 backup servers online. 0 sessions requeued, 0 total in queue.",
        ]
    );
    let severities: Vec<_> = lines.borrow().iter().map(|line| line.0).collect();
    assert_eq!(severities, [LogSeverity::Alert, LogSeverity::Emergency, LogSeverity::Notice]);
    let member = &live.backends[0].group.members()[0];
    assert_eq!(member.health(), Health::Up);
    let record = member.record().clone();
    assert_eq!((record.checks_failed, record.downs), (2, 1));
    assert!(record.down_for > Duration::ZERO && record.changed.is_some());
    assert_eq!(live.backends[0].servers[0].check.state().score, 3);
}

#[test]
fn every_check_that_counts_is_logged_if_enabled() {
    let mut quick = checked(scripted(&[200, 500, 500, 200, 200, 200]));
    quick.check.as_mut().expect("there").interval = SOON;
    let mut backend = patient(with(http(vec![]), ServerConfig { backup: true, ..quick }));
    backend.log_health_checks = true;
    let (mut driver, _, lines) = start(backend);
    driver.turn_until(|_| lines.borrow().len() >= 8);
    let check = |what: &str, code, state: &str| {
        format!("Health check for backup server be/s1 {what}, code: {code}, {state}.")
    };
    let failed = "failed, reason: Layer7 wrong status";
    let passed = "succeeded, reason: Layer7 check passed";
    let fault = "info: \"Such\", check duration: Nms, status:";
    let fine = "check duration: Nms, status:";
    assert_eq!(
        texts(&lines)[..8],
        [
            check(passed, 200, &format!("{fine} 2/2 UP")),
            check(failed, 500, &format!("{fault} 1/2 UP")),
            check(failed, 500, &format!("{fault} 0/2 DOWN")),
            "Backup Server be/s1 is DOWN. 0 active and 0 backup servers left. \
         0 sessions active, 0 requeued, 0 remaining in queue."
                .to_owned(),
            "backend be has no server available!".to_owned(),
            check(passed, 200, &format!("{fine} 1/2 DOWN")),
            check(passed, 200, &format!("{fine} 2/2 UP")),
            "Backup Server be/s1 is UP. 0 active and 1 backup servers online. \
         Running on backup. 0 sessions requeued, 0 total in queue."
                .to_owned(),
        ]
    );
}

#[test]
fn a_404_takes_a_server_out_of_the_rotation() {
    let mut quick = checked(scripted(&[404, 200, 200]));
    quick.check.as_mut().expect("there").interval = SOON;
    let mut backend = patient(with(http(expect(Expectation::Status(vec![(200, 299)]))), quick));
    backend.disable_on_404 = true;
    let (mut driver, live, lines) = start(backend);
    let member = &live.backends[0].group.members()[0];
    driver.turn_until(|_| member.health() == Health::Stopping);
    assert!(member.is_reachable() && !member.is_usable());
    driver.turn_until(|_| member.health() == Health::Up);
    let texts = texts(&lines);
    assert!(
        texts[0].starts_with(
            "Server be/s1 is stopping, reason: Layer7 check conditionally \
        passed, code: 404, check duration: Nms. 0 active"
        ),
        "{}",
        texts[0]
    );
}

#[test]
fn administrative_changes_are_applied_and_logged() {
    let mut slow = checked(origin(1, b"").0);
    slow.check.as_mut().expect("there").interval = Duration::from_secs(100);
    let (mut driver, live, lines) = start(backend([slow]));
    let (be, now) = (BackendId(0), sys::now());
    let member = &live.backends[0].group.members()[0];
    let state = || live.backends[0].servers[0].check.state();
    driver.turn_until(|_| state().finding.duration.is_some());
    live.set_health(be, 0, Health::Down, now);
    assert!(!member.is_usable());
    driver.turn_until(|_| lines.borrow().len() == 2);
    assert_eq!(state().score, 0);
    live.set_admin(be, 0, Admin::Maintenance, now);
    driver.turn_until(|_| lines.borrow().len() == 3);
    live.set_admin(be, 0, Admin::Ready, now);
    assert!(member.is_usable(), "up until a check says otherwise");
    driver.turn_until(|_| state().score == 3);
    live.set_admin(be, 0, Admin::Drain, now);
    live.set_admin(be, 0, Admin::Ready, now);
    live.set_admin(be, 0, Admin::Maintenance, now);
    driver.turn_until(|_| lines.borrow().len() == 9);
    live.set_admin(be, 0, Admin::Drain, now);
    driver.turn_until(|_| lines.borrow().len() == 11);
    let left = "0 active and 0 backup servers left. 0 sessions active, 0 requeued, \
        0 remaining in queue.";
    assert_eq!(
        texts(&lines),
        [
            &format!("Server be/s1 is DOWN, changed from CLI. {left}"),
            "backend be has no server available!",
            "Server be/s1 was DOWN and now enters maintenance.",
            "Server be/s1 is UP/READY (leaving forced maintenance).",
            "Server be/s1 enters drain state. 0 active and 0 backup servers online. \
         0 sessions requeued, 0 total in queue.",
            "backend be has no server available!",
            "Server be/s1 is UP (leaving forced drain).",
            &format!("Server be/s1 is going DOWN for maintenance. {left}"),
            "backend be has no server available!",
            "Server be/s1 is UP/DRAIN (leaving forced maintenance).",
            "Server be/s1 remains in forced drain mode.",
        ]
    );
}

#[test]
fn servers_in_maintenance_are_not_checked() {
    let (address, heard) = origin(1, b"");
    let mut quick = checked(address);
    quick.check.as_mut().expect("there").interval = Duration::from_millis(5);
    let resting = ServerConfig { disabled: true, ..quick.clone() };
    let mut other = checked(scripted(&[200]));
    other.check.as_mut().expect("there").interval = Duration::from_millis(5);
    let other = with(http(vec![]), other);
    let (mut driver, live, _) = start_all([backend([resting, quick]), other]);
    live.set_checked(BackendId(0), 1, false);
    let seen = || live.backends[1].servers[0].check.state().finding.duration;
    driver.turn_until(|_| seen().is_some());
    let until = sys::now() + Duration::from_millis(50);
    driver.turn_until(|_| sys::now() > until);
    assert!(heard.lock().expect("nobody panics").is_empty());
    for server in &live.backends[0].servers {
        assert_eq!(server.check.state().finding.status.short(), "INI");
    }
}

#[test]
fn errors_of_sessions_count_where_they_are_observed() {
    let observed = |observe| {
        let mut server = checked(origin(1, b"").0);
        (server.observe, server.error_limit) = (Some(observe), 3);
        server.on_error = OnError::MarkDown;
        server.check.as_mut().expect("there").interval = Duration::from_millis(50);
        server.check.as_mut().expect("there").fast_interval = Some(Duration::from_secs(100));
        server.check.as_mut().expect("there").down_interval = Some(Duration::from_secs(100));
        server
    };
    let (mut driver, live, lines) =
        start(backend([observed(Observe::Layer4), observed(Observe::Layer7)]));
    let checked = |at: usize| live.backends[0].servers[at].check.state().finding.duration;
    driver.turn_until(|_| checked(0).is_some() && checked(1).is_some());
    let member = |at: usize| &live.backends[0].group.members()[at];
    let tell = |at, seen: &[Observation]| {
        seen.iter().for_each(|seen| live.observe(BackendId(0), at, *seen));
    };
    use Observation::{Connected, Malformed, Responded, Unconnected};
    tell(0, &[Unconnected, Unconnected, Connected, Unconnected, Responded(500), Unconnected]);
    tell(1, &[Responded(503), Connected, Malformed, Responded(404), Malformed, Responded(501)]);
    driver.turn_until(|driver| driver.with(|_, _| true));
    assert!(lines.borrow().is_empty());
    tell(0, &[Unconnected]);
    driver.turn_until(|_| member(0).health() == Health::Down);
    tell(1, &[Malformed, Unconnected, Responded(502)]);
    driver.turn_until(|_| member(1).health() == Health::Down);
    assert_eq!(
        texts(&lines)[..2],
        [
            "Server be/s1 is DOWN, reason: Health analyze, info: \"Detected 3 consecutive errors, \
         last one was: L4 unsuccessful connection\". 1 active and 0 backup servers left. \
         0 sessions active, 0 requeued, 0 remaining in queue.",
            "Server be/s1 is DOWN, reason: Health analyze, info: \"Detected 3 consecutive errors, \
         last one was: Wrong http response\". 0 active and 0 backup servers left. \
         0 sessions active, 0 requeued, 0 remaining in queue.",
        ]
    );
    assert_eq!(member(0).record().error_runs, 1);
}

#[test]
fn a_server_that_goes_down_releases_waiters_and_sessions() {
    let mut server = checked(free_address());
    (server.connections_max, server.shutdown_when_down) = (1, true);
    let (mut driver, live, lines) = start(backend([server]));
    let (told, rung): (_, Receiver<()>) = channel();
    live.wakers.set([Box::new(move || told.send(()).expect("it is heard")) as Wake]);
    let group = &live.backends[0].group;
    assert_eq!(group.try_place_at(0), Placement::Placed(0));
    let mut queue = WaitQueue::new(0, group);
    queue.push(group, Wants::Server(0), "somebody");
    driver.turn_until(|_| group.members()[0].health() == Health::Down);
    rung.try_recv().expect("the thread is woken");
    assert_eq!(group.members()[0].kills(), 1);
    assert!(queue.take_wake(group));
    assert_eq!(queue.take_unreachable(group), Some("somebody"));
    assert!(
        texts(&lines)[0].ends_with(
            "0 backup servers left. 1 sessions active, 1 requeued, 0 remaining in queue."
        )
    );
}

#[test]
fn a_slow_start_grows_to_the_whole_weight() {
    let mut quick = checked(scripted(&[500, 200, 200]));
    quick.check.as_mut().expect("there").interval = SOON;
    (quick.weight, quick.connections_max) = (16, 100);
    quick.slow_start = Some(Duration::from_secs(1));
    let (mut driver, live, _) = start(patient(with(http(vec![]), quick)));
    let group = &live.backends[0].group;
    let member = &group.members()[0];
    driver.turn_until(|_| member.health() == Health::Down);
    driver.turn_until(|_| member.health() == Health::Up);
    assert!(member.is_starting() && member.weight_now() < 16 && group.limit(0) < 100);
    let mut before = 0;
    driver.turn_until(|_| {
        assert!(member.share() >= before);
        before = member.share();
        !member.is_starting()
    });
    assert_eq!((member.weight_now(), group.limit(0)), (16, 100));
}

/// An engine without sockets in virtual time: the times of its connections, and their servers.
struct Virtual {
    checks: Checks,
    now: Instant,
    start: Instant,
}

impl Virtual {
    fn start(backends: impl IntoIterator<Item = BackendConfig>) -> (Self, Arc<Live>) {
        let live = Arc::new(Live::new(config(frontend(), backends), 1));
        let start = sys::now();
        let checks = Checks::new(start, Arc::clone(&live), Box::new(RecordingJournal::default()));
        (Self { checks, now: start, start }, live)
    }

    /// Lets time pass until the next connection: when, in milliseconds, and to which port. It is
    /// refused at once.
    fn next(&mut self) -> (u128, u16) {
        loop {
            while let Some(action) = self.checks.poll_action() {
                if let Action::Connect { socket, endpoint } = action {
                    let Peer::Ip(address) = endpoint.peer else { panic!("{endpoint:?}") };
                    let refused = std::io::ErrorKind::ConnectionRefused.into();
                    self.checks.handle(self.now, SocketEvent::Failed(refused).of(socket));
                    return ((self.now - self.start).as_millis(), address.port());
                }
            }
            self.now = self.checks.poll_timeout().expect("checks go on");
            self.checks.handle(self.now, DriverEvent::Timeout);
        }
    }
}

#[test]
fn first_checks_are_spread_and_later_ones_follow_their_plans() {
    let at = |port: u16| {
        let mut server = checked(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let plan = server.check.as_mut().expect("there");
        plan.interval = Duration::from_millis(3_000);
        plan.down_interval = Some(Duration::from_millis(7_000));
        server
    };
    let mut slower = at(3);
    slower.check.as_mut().expect("there").interval = Duration::from_millis(6_000);
    let disabled = BackendConfig { disabled: true, ..backend([at(9)]) };
    let (mut checks, live) = Virtual::start([backend([at(1), at(2)]), disabled, backend([slower])]);
    let times: Vec<_> = (0..6).map(|_| checks.next()).collect();
    let expected = [(0, 1), (1_000, 2), (4_000, 3), (7_000, 1), (8_000, 2), (11_000, 3)];
    assert_eq!(times, expected);
    let record = live.backends[0].group.members()[0].record();
    let downtime = record.downtime(checks.start + Duration::from_secs(5), true);
    assert_eq!((record.downs, record.checks_failed, downtime), (1, 1, Duration::from_secs(5)));
}

#[test]
fn first_checks_begin_within_the_configured_time() {
    let at = |port| checked(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let mut config = config(frontend(), [backend([at(1), at(2), at(3)])]);
    config.global.first_checks_within = Some(Duration::from_millis(3));
    let start = sys::now();
    let checks =
        Checks::new(start, Arc::new(Live::new(config, 1)), Box::new(RecordingJournal::default()));
    let mut checks = Virtual { checks, now: start, start };
    let times: Vec<_> = (0..3).map(|_| checks.next()).collect();
    assert_eq!(times, [(0, 1), (1, 2), (2, 3)]);
}

#[test]
fn a_protocol_is_spoken_with_a_server() {
    let redis = || CheckKind::Protocol(CheckProtocol::Redis);
    let (address, heard) = origin(14, b"+PONG\r\n");
    assert_finds(with(redis(), checked(address)), "L7OK", 0, "Redis server is ok");
    assert_eq!(heard.lock().expect("nobody panics")[0], b"*1\r\n$4\r\nPING\r\n");
    let (address, _) = origin(14, b"-NOAUTH\r\n");
    assert_finds(with(redis(), checked(address)), "L7STS", 0, "-NOAUTH");
    let (address, _) = origin(0, b"554 not now\r\n");
    let smtp = CheckKind::Protocol(CheckProtocol::Smtp { hello: "HELO h".to_owned() });
    assert_finds(with(smtp, checked(address)), "L7STS", 554, "not now");
}

#[test]
fn checks_are_spread_randomly_if_enabled() {
    let mut config = config(frontend(), [backend([checked(free_address())])]);
    config.global.spread_checks = 50;
    let live = Arc::new(Live::new(config, 1));
    let start = sys::now();
    let checks = Checks::new(start, live, Box::new(RecordingJournal::default()));
    let mut checks = Virtual { checks, now: start, start };
    let times: Vec<_> = (0..50).map(|_| checks.next().0).collect();
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().all(|wait| (5..=16).contains(wait)), "{waits:?}");
    assert!(waits.iter().min() < waits.iter().max(), "{waits:?}");
}

/// The interval of checks of servers that are up, which is also their connect timeout.
const SOON: Duration = Duration::from_millis(300);
