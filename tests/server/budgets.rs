//! The cost of an exchange, asserted from the ledger: system calls, clock reads, allocations.
//!
//! Server and client share a thread, a turn at a time, so every count is exact.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use fulmar_drive::{AnySelector, Reactor};
use fulmar_serve::{Files, FilesOptions, Options};
use fulmar_server::{HandlerApp, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::app::FilesEngine;
use fulmar_tests::budget::budget;
use fulmar_tests::loops::{LISTENER, OwnLoop, client};

fn files(root: &Path) -> (OwnLoop<FilesEngine>, SocketAddr) {
    let site = Options { revalidate_after: Duration::from_secs(3600), ..Options::default() };
    let options = FilesOptions { site, test_endpoints: true, ..FilesOptions::new(root) };
    let files = Files::open(&options).expect("a directory");
    let app = HandlerApp::new(files, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    OwnLoop::by_calls(engine)
}

fn root() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("tiny"), [b'x'; 128]).expect("room");
    std::fs::write(dir.path().join("large"), [b'y'; LARGE]).expect("room");
    dir
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

/// Sends, lets the server turn once for it, and reads until `len` bytes have arrived.
fn exchange(
    server: &mut Reactor<FilesEngine, AnySelector>,
    stream: &mut TcpStream,
    request: &[u8],
    into: &mut [u8],
) {
    stream.write_all(request).expect("room");
    server.turn().expect("a turn");
    stream.read_exact(into).expect("the answer has left in that turn");
}

/// The length of a response, from one request before anything is counted.
fn answer_len(
    server: &mut Reactor<FilesEngine, AnySelector>,
    stream: &mut TcpStream,
    request: &[u8],
) -> usize {
    stream.write_all(request).expect("room");
    let mut bytes = vec![0; 4 * LARGE];
    let mut len = 0;
    stream.set_nonblocking(true).expect("a socket");
    for _ in 0..20 {
        server.try_turn().expect("a turn");
        while let Ok(n) = stream.read(&mut bytes[len..]) {
            assert!(n > 0, "the connection is kept");
            len += n;
        }
    }
    stream.set_nonblocking(false).expect("a socket");
    len
}

fn calls(ledger: &Ledger, call: Call) -> u64 {
    ledger.count(call).calls
}

#[test]
fn a_kept_connection_costs_one_recv_one_send_one_wait() {
    let dir = root();
    for target in ["/bytes/128", "/tiny"] {
        let (mut server, address) = files(dir.path());
        let (server, mut stream) = (&mut server.0, client(address));
        let request = get(target).into_bytes();
        let mut answer = vec![0; answer_len(server, &mut stream, &request)];
        let before = Ledger::here();
        for _ in 0..1_000 {
            exchange(server, &mut stream, &request, &mut answer);
        }
        let spent = Ledger::here() - before;
        for call in [Call::recv, Call::send, Call::epoll_wait] {
            assert_eq!(calls(&spent, call), 1_000, "{} for {target}", call.name());
        }
        let most = 1_000 * budget("system_calls", "serve_kept");
        assert_eq!(spent.total(), most, "nothing else for {target}");
        assert_eq!(spent.eagain(), 0);
        assert_eq!(spent.clock_reads(), 1_000, "one clock read a turn");
    }
}

#[test]
fn sixteen_pipelined_requests_cost_one_recv_and_one_send() {
    let dir = root();
    let (mut server, address) = files(dir.path());
    let (server, mut stream) = (&mut server.0, client(address));
    let requests = get("/bytes/128").repeat(16).into_bytes();
    let mut answers = vec![0; answer_len(server, &mut stream, &requests)];
    let before = Ledger::here();
    for _ in 0..100 {
        exchange(server, &mut stream, &requests, &mut answers);
    }
    let spent = Ledger::here() - before;
    let each = budget("system_calls", "serve_pipelined_16");
    assert_eq!(spent.total(), 100 * each, "3 calls for 16 requests: 0.19 for each");
}

#[test]
fn a_large_cached_file_costs_a_head_and_a_sendfile() {
    let dir = root();
    let (mut server, address) = files(dir.path());
    let (server, mut stream) = (&mut server.0, client(address));
    let request = get("/large").into_bytes();
    let mut answer = vec![0; answer_len(server, &mut stream, &request)];
    let before = Ledger::here();
    for _ in 0..100 {
        exchange(server, &mut stream, &request, &mut answer);
    }
    let spent = Ledger::here() - before;
    for call in [Call::recv, Call::send, Call::sendfile, Call::epoll_wait] {
        assert_eq!(calls(&spent, call), 100, "{}", call.name());
    }
    let each = budget("system_calls", "serve_file");
    assert_eq!((spent.total(), spent.eagain()), (100 * each, 0));
}

#[test]
fn a_short_connection_costs_at_most_six_calls() {
    let dir = root();
    let (mut server, address) = files(dir.path());
    let server = &mut server.0;
    let request = b"GET /bytes/128 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let mut answer = Vec::new();
    let before = Ledger::here();
    for _ in 0..100 {
        let mut stream = client(address);
        stream.write_all(request).expect("room");
        server.turn().expect("a turn");
        answer.clear();
        stream.read_to_end(&mut answer).expect("the answer and the end");
        assert!(answer.ends_with(b"\n") || answer.len() > 128);
    }
    let spent = Ledger::here() - before;
    // Its first bytes were available, so it took one turn in all, and no `epoll_ctl`.
    for call in [Call::accept4, Call::recv, Call::send, Call::close, Call::epoll_wait] {
        assert_eq!(calls(&spent, call), 100, "{}", call.name());
    }
    let counts = calls(&spent, Call::getsockopt);
    let each = budget("system_calls", "serve_short");
    assert_eq!((counts, spent.total()), (1, 100 * each + 1), "one look at the accept queue");
}

#[test]
fn a_connection_that_is_silent_at_first_costs_one_epoll_ctl_and_no_option() {
    let dir = root();
    let (mut server, address) = files(dir.path());
    let server = &mut server.0;
    let request = b"GET /bytes/128 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let one = |server: &mut Reactor<FilesEngine, AnySelector>| {
        let mut stream = client(address);
        server.turn().expect("a turn");
        stream.write_all(request).expect("room");
        while server.engine.connections() > 0 {
            server.turn().expect("a turn");
        }
        stream.read_to_end(&mut Vec::new()).expect("the answer and the end");
    };
    (0..8).for_each(|_| one(server)); // it learns that its clients are silent at first
    let before = Ledger::here();
    (0..32).for_each(|_| one(server));
    let spent = Ledger::here() - before;
    for call in [Call::accept4, Call::epoll_ctl, Call::send, Call::close] {
        assert_eq!(calls(&spent, call), 32, "{}", call.name());
    }
    assert_eq!(calls(&spent, Call::setsockopt), 0);
    assert!(spent.eagain() <= 1, "{} empty reads", spent.eagain());
}

#[test]
fn the_steady_state_allocates_nothing() {
    let dir = root();
    for target in ["/bytes/128", "/tiny", "/large", "/bytes/100000"] {
        let (mut server, address) = files(dir.path());
        let (server, mut stream) = (&mut server.0, client(address));
        let request = get(target).into_bytes();
        let mut answer = vec![0; answer_len(server, &mut stream, &request)];
        for _ in 0..3 {
            exchange(server, &mut stream, &request, &mut answer);
        }
        let info = allocation_counter::measure(|| {
            for _ in 0..1_000 {
                exchange(server, &mut stream, &request, &mut answer);
            }
        });
        let most = budget("allocations", "serve");
        assert_eq!(info.count_total, most, "allocations in 1,000 exchanges of {target}");
    }
}

#[test]
fn idle_connections_cost_neither_calls_nor_much_memory() {
    let dir = root();
    let (mut server, address) = files(dir.path());
    let server = &mut server.0;
    let request = get("/bytes/128").into_bytes();
    let mut talker = client(address);
    let mut answer = vec![0; answer_len(server, &mut talker, &request)];
    sys::raise_descriptors().expect("a limit");
    let mut idle = Vec::with_capacity(1_000);
    let info = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            idle.push(client(address));
            while server.engine.connections() < idle.len() + 1 {
                server.turn().expect("a turn");
            }
            exchange(server, idle.last_mut().expect("just pushed"), &request, &mut answer);
        }
    });
    let before = Ledger::here();
    for _ in 0..100 {
        exchange(server, &mut talker, &request, &mut answer);
    }
    let spent = Ledger::here() - before;
    assert_eq!(spent.total(), 300, "what an exchange costs does not depend on who is silent");
    let each = info.bytes_max / 1_000;
    assert!(each <= budget("memory", "serve_idle"), "{each} bytes for each connection");
}

/// Bytes of the large file: a common size of load generators.
const LARGE: usize = 104 * 1024;
