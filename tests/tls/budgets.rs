//! What TLS may cost: system calls and memory, on real sockets.

use std::path::Path;
use std::time::Duration;

use allocation_counter::measure;
use fulmar_engine::SocketId;
use fulmar_proto::Layer;
use fulmar_serve::{Files, FilesOptions, Options};
use fulmar_server::{HandlerApp, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::budget::budget;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http2::Http2Client;
use fulmar_tests::https::{self, Https, client_tls, http1_tls, layers, server_tls};
use fulmar_tests::loops::{AppLoop, LISTENER, Loop, OwnLoop};
use fulmar_tests::recording_client::RecordingClient;
use fulmar_tests::tls_end::{TlsEnd, TlsPeer};
use fulmar_tests::tree::noise;
use fulmar_tls::ClientTls;

type TlsClient = OwnLoop<RecordingClient>;

fn client() -> TlsClient {
    OwnLoop::by_calls(RecordingClient::default()).0
}

fn connect(client: &mut TlsClient, tls: &ClientTls, address: std::net::SocketAddr) -> SocketId {
    let layer: Box<dyn Layer> = Box::new(tls.session("localhost").expect("a name"));
    client.engine().connect(address, Some(layer))
}

/// Sends a request, and turns until the response has arrived.
fn send_request(client: &mut TlsClient, socket: SocketId, target: &str) -> (u16, Vec<u8>) {
    client.engine().get(socket, target);
    client.0.try_turn().expect("a turn"); // the send outside of a turn
    client.turn_until(|client| !client.engine().book.answers.is_empty());
    client.engine().book.answers.pop().expect("it has come")
}

#[test]
fn a_request_on_a_kept_connection_is_one_send_and_one_recv() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let mut client = client();
    let socket = connect(&mut client, &http1_tls(&certs), server.address);
    for _ in 0..3 {
        // tickets come meanwhile
        assert_eq!(send_request(&mut client, socket, "/bytes/128").1.len(), 128);
    }
    let before = Ledger::here();
    for _ in 0..500 {
        assert_eq!(send_request(&mut client, socket, "/bytes/128").0, 200);
    }
    let spent = Ledger::here() - before;
    for call in [Call::send, Call::recv] {
        assert_eq!(spent.count(call).calls, 500, "{}", call.name());
    }
    assert_eq!(spent.eagain(), 0);
    assert_eq!(spent.total(), 1_000 + spent.count(Call::epoll_wait).calls, "nothing else");
}

#[test]
fn files_reach_the_client_through_tls() {
    let certs = Certs::new();
    let dir = tempfile::tempdir().expect("a directory");
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 253) as u8).collect();
    std::fs::write(dir.path().join("large"), &content).expect("room");
    std::fs::write(dir.path().join("small"), &content[..1_000]).expect("room");
    let (mut server, address) = files(dir.path(), &certs);
    let mut client = client();
    let socket = connect(&mut client, &http1_tls(&certs), address);
    for (target, len) in [("/small", 1_000), ("/large", 1_000_000), ("/small", 1_000)] {
        client.engine().get(socket, target);
        let before = Ledger::here();
        server.turn_until(|server| {
            client.0.try_turn().expect("a turn");
            server.0.try_turn().expect("a turn");
            !client.engine().book.answers.is_empty()
        });
        let (status, body) = client.engine().book.answers.pop().expect("it has come");
        assert!(status == 200 && body == content[..len], "{target}: {status}, {}", body.len());
        let spent = Ledger::here() - before;
        assert_eq!(spent.count(Call::sendfile).calls, 0, "TLS must see the bytes");
        let reads = spent.count(Call::pread64).calls;
        // What is small lies in the server's cache.
        assert!(len < 100_000 || (8..30).contains(&reads), "{target}: {reads}");
    }
}

fn files(root: &Path, certs: &Certs) -> (FileServer, std::net::SocketAddr) {
    let site = Options { revalidate_after: Duration::from_secs(3600), ..Options::default() };
    let options = FilesOptions { site, test_endpoints: true, ..FilesOptions::new(root) };
    let files = Files::open(&options).expect("a directory");
    let app = HandlerApp::new(files, sys::now(), sys::wall_clock);
    let tls = server_tls(certs, CertOwner::Server);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, Some(layers(tls)));
    OwnLoop::by_calls(engine)
}

#[test]
fn an_idle_session_holds_no_buffer() {
    let certs = Certs::new();
    let (tls, server_config) = (http1_tls(&certs), server_tls(&certs, CertOwner::Server));
    let make = || {
        let mut client = TlsEnd::new(tls.session("localhost").expect("a name"));
        let mut server = TlsEnd::new(server_config.session().expect("a session"));
        for _ in 0..6 {
            server.wire.extend_from_slice(&client.take());
            server.open().expect("a handshake");
            client.wire.extend_from_slice(&server.take());
            client.open().expect("a handshake");
        }
        client.send(&[b'x'; 100_000]);
        server.wire.extend_from_slice(&client.take());
        server.open().expect("a request");
        server.send(&[b'x'; 100_000]);
        client.wire.extend_from_slice(&server.take());
        client.open().expect("an answer");
        assert_eq!((client.above.len(), server.above.len()), (100_000, 100_000));
        (client.layer, server.layer) // what belongs to the wire goes
    };
    // What belongs to the thread comes: also a second block, once the first ends within a message.
    let _first: Vec<_> = (0..8).map(|_| make()).collect();
    let mut clients = Vec::with_capacity(SESSIONS);
    let mut servers = Vec::with_capacity(SESSIONS);
    let each = |bytes: i64| bytes.unsigned_abs() / SESSIONS as u64;
    let both = measure(|| {
        for _ in 0..SESSIONS {
            let (client, server) = make();
            clients.push(client);
            servers.push(server);
        }
    });
    let freed = measure(|| clients.clear());
    let (both, client) = (each(both.bytes_current), each(freed.bytes_current));
    println!("idle: a client's session {client} bytes, a server's {}", both - client);
    let most = budget("memory", "tls_idle");
    assert!(client <= most && both - client <= most, "{client}, {}", both - client);
}

const SESSIONS: usize = 100;

#[test]
fn an_application_loop_serves_tls_too() {
    let certs = Certs::new();
    let tls = server_tls(&certs, CertOwner::Server);
    type Server = AppLoop<ServerEngine<fulmar_tests::app::App>>;
    let (mut server, address) = Server::start(https::server(tls, Limits::default()));
    let mut client = client();
    let socket = connect(&mut client, &http1_tls(&certs), address);
    for size in [1, 1_000_000, 128] {
        client.engine().get(socket, &format!("/bytes/{size}"));
        server.turn_until(|server| {
            client.0.try_turn().expect("a turn");
            server.turn(Duration::ZERO);
            !client.engine().book.answers.is_empty()
        });
        let (status, body) = client.engine().book.answers.pop().expect("it has come");
        assert_eq!((status, body.len()), (200, size));
    }
    client.engine().leave(socket);
    server.turn_until(|_| {
        client.0.try_turn().expect("a turn");
        !client.engine().holds(socket)
    });
    server.turn_until(|server| server.engine().connections() == 0);
}

/// A client with an established session.
fn peer(tls: &ClientTls, server: &mut FileServer, address: std::net::SocketAddr) -> TlsPeer {
    let mut peer = TlsPeer::connect(tls, address);
    while !peer.end.established {
        turn(&mut peer, server);
    }
    peer
}

fn turn(peer: &mut TlsPeer, server: &mut FileServer) {
    peer.turn();
    server.0.try_turn().expect("a turn");
    peer.turn();
}

/// Sends a request, and turns until `len` bytes have arrived.
fn exchange(peer: &mut TlsPeer, server: &mut FileServer, request: &[u8], len: usize) {
    peer.end.send(request);
    peer.end.above.clear();
    while peer.end.above.len() < len {
        turn(peer, server);
    }
    assert_eq!(peer.end.above.len(), len);
}

/// The length of a response, from one request before anything is counted.
fn answer_len(peer: &mut TlsPeer, server: &mut FileServer, request: &[u8]) -> usize {
    peer.end.send(request);
    peer.end.above.clear();
    for _ in 0..40 {
        turn(peer, server);
    }
    peer.end.above.len()
}

type FileServer = OwnLoop<ServerEngine<HandlerApp<Files>>>;

const LARGE: usize = 104 * 1024;
const HUGE: usize = 1 << 20;

fn root() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, len) in [("tiny", 128), ("large", LARGE), ("huge", HUGE)] {
        std::fs::write(dir.path().join(name), vec![b'x'; len]).expect("room");
    }
    dir
}

/// What 100 requests for `target` cost a server, on a connection that is kept.
fn spent_on(certs: &Certs, root: &Path, target: &str) -> Ledger {
    let (mut server, address) = files(root, certs);
    let mut peer = peer(&http1_tls(certs), &mut server, address);
    let request = format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes();
    let len = answer_len(&mut peer, &mut server, &request);
    let before = Ledger::here();
    for _ in 0..100 {
        exchange(&mut peer, &mut server, &request, len);
    }
    Ledger::here() - before
}

/// One call of each of these for a request, and nothing else.
fn assert_only(spent: &Ledger, calls: &[Call]) {
    for call in calls {
        assert_eq!(spent.count(*call).calls, 100, "{}", call.name());
    }
    assert_eq!(spent.total(), 100 * calls.len() as u64, "nothing else");
    assert_eq!(spent.eagain(), 0);
}

/// Three calls with one connection; connections in one turn share its wait.
#[test]
fn a_small_answer_is_one_record_and_one_send() {
    let (certs, root) = (Certs::new(), root());
    for target in ["/bytes/128", "/tiny"] {
        let spent = spent_on(&certs, root.path(), target);
        assert_only(&spent, &[Call::recv, Call::send, Call::epoll_wait]);
        assert_eq!(spent.total(), 100 * budget("system_calls", "tls_kept"));
        assert_eq!(spent.clock_reads(), 100, "of our clock; rustls asks for none");
    }
}

#[test]
fn a_large_file_is_read_once_and_sent_once() {
    let (certs, root) = (Certs::new(), root());
    let spent = spent_on(&certs, root.path(), "/large");
    assert_only(&spent, &[Call::recv, Call::pread64, Call::sendmsg, Call::epoll_wait]);
    assert_eq!(spent.total(), 100 * budget("system_calls", "tls_file"));
}

#[test]
fn a_huge_file_costs_a_read_and_a_send_for_each_128_kb() {
    let (certs, root) = (Certs::new(), root());
    let spent = spent_on(&certs, root.path(), "/huge");
    let pieces = (HUGE / (128 * 1024)) as u64 * 100;
    assert_eq!(spent.count(Call::pread64).calls, pieces);
    let sends = spent.count(Call::sendmsg).calls + spent.count(Call::send).calls;
    assert!((pieces..=pieces + 100).contains(&sends), "a socket may be full once: {sends}");
    assert!(spent.total() <= 20 * 100, "{}", spent.total());
    assert!(spent.eagain() <= 1, "{}", spent.eagain());
}

/// The calls for one file of 1 MB on each of so many streams of HTTP/2, requested in one record.
fn calls_for_streams(count: usize) -> u64 {
    let (certs, dir) = (Certs::new(), tempfile::tempdir().expect("a directory"));
    let content = |n: usize| noise(1_000_000 + n).split_off(n); // each file has other bytes
    for n in 0..count {
        std::fs::write(dir.path().join(n.to_string()), content(n)).expect("room");
    }
    let (mut server, address) = files(dir.path(), &certs);
    let mut peer = peer(&client_tls(&certs), &mut server, address);
    let mut client = Http2Client::default();
    client.holds_windows = true; // they are large enough for all
    let mut calls = 0;
    for method in ["HEAD", "GET"] {
        let streams: Vec<u32> =
            (0..count).map(|n| client.request(method, &format!("/{n}"), b"")).collect();
        peer.end.send(&client.poll_bytes());
        peer.turn();
        let before = Ledger::here();
        while !client.is_done() {
            server.0.try_turn().expect("a turn");
            peer.turn();
            client.receive(&peer.end.above.split());
        }
        calls = (Ledger::here() - before).total(); // HEAD has opened the files
        for (n, stream) in streams.into_iter().enumerate().filter(|_| method == "GET") {
            assert_eq!(client.responses[&stream].status, 200);
            assert!(client.responses[&stream].body == content(n), "the bytes of file {n}");
        }
    }
    calls
}

/// Contiguous parts of a file are read together, and sealed with their frame headers.
#[test]
fn a_large_file_over_http2_costs_few_calls() {
    let calls = calls_for_streams(1);
    assert!(calls <= budget("system_calls", "tls_http2_file"), "{calls} calls");
}

#[test]
fn large_files_on_ten_streams_cost_few_calls() {
    let calls = calls_for_streams(10);
    let most = 10 * budget("system_calls", "tls_http2_10_files");
    assert!(calls <= most, "{calls} calls for ten files");
}

/// Hello, flight, request, response, and the end: nothing is sent separately, not even the ticket.
#[test]
fn a_handshake_with_a_request_costs_a_few_calls() {
    let (certs, root) = (Certs::new(), root());
    let (mut server, address) = files(root.path(), &certs);
    let request = b"GET /tiny HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let before = Ledger::here();
    for _ in 0..100 {
        let mut peer = TlsPeer::connect(&http1_tls(&certs), address);
        peer.turn();
        server.0.turn().expect("a turn");
        peer.turn();
        peer.end.send(request);
        peer.turn();
        while !peer.end.eof {
            server.0.turn().expect("a turn");
            peer.turn();
        }
        assert_eq!(peer.answers(), 1);
        drop(peer);
        while server.engine().connections() > 0 {
            server.0.turn().expect("a turn");
        }
    }
    let spent = Ledger::here() - before;
    for (call, wanted) in [
        (Call::accept4, 100),
        (Call::epoll_ctl, 100),
        (Call::recv, 200),
        (Call::send, 200),
        (Call::epoll_wait, 200),
    ] {
        assert_eq!(spent.count(call).calls, wanted, "{}", call.name());
    }
    assert!(spent.total() <= 910, "9 each, and the file was opened once: {}", spent.total());
    assert_eq!(spent.eagain(), 0);
}

#[test]
fn connections_that_share_a_turn_share_its_wait() {
    let (certs, root) = (Certs::new(), root());
    let (mut server, address) = files(root.path(), &certs);
    let mut peers: Vec<_> =
        (0..32).map(|_| peer(&http1_tls(&certs), &mut server, address)).collect();
    let request = b"GET /tiny HTTP/1.1\r\nHost: t\r\n\r\n";
    for peer in &mut peers {
        answer_len(peer, &mut server, request);
    }
    let before = Ledger::here();
    for _ in 0..50 {
        for peer in &mut peers {
            peer.end.above.clear();
            peer.end.send(request);
            peer.turn();
        }
        server.0.try_turn().expect("a turn");
        peers.iter_mut().for_each(TlsPeer::turn);
        assert!(peers.iter().all(|peer| peer.answers() == 1));
    }
    let spent = Ledger::here() - before;
    assert_eq!(spent.total(), 50 * (32 + 32 + 1), "2.03 for each request");
    assert_eq!(spent.eagain(), 0);
}

/// Sixteen at once get their responses at once.
#[test]
fn pipelined_requests_share_their_calls() {
    let (certs, root) = (Certs::new(), root());
    let (mut server, address) = files(root.path(), &certs);
    let mut peer = peer(&http1_tls(&certs), &mut server, address);
    let requests = "GET /bytes/128 HTTP/1.1\r\nHost: t\r\n\r\n".repeat(16).into_bytes();
    let len = answer_len(&mut peer, &mut server, &requests);
    let before = Ledger::here();
    for _ in 0..100 {
        exchange(&mut peer, &mut server, &requests, len);
    }
    assert_only(&(Ledger::here() - before), &[Call::recv, Call::send, Call::epoll_wait]);
}
