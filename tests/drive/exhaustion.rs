//! Descriptors run out while connections are opened. In a process of its own, because it changes
//! the limit.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use fulmar_drive::{Epoll, ListenOptions, Reactor, Ring, listen};
use fulmar_engine::{End, Endpoint, Peer};
use fulmar_server::Limits;
use fulmar_sys::{self as sys, Call, Ledger, Operation};
use fulmar_tests::app;
use fulmar_tests::fetch::FetchEngine;
use fulmar_tests::loops::{Loop, OwnLoop, client, done, has_ring, polling};
use fulmar_tests::own_process::own_process;
use rustix::process::{Resource, Rlimit, setrlimit};

/// The engine receives the error in the same turn, and nothing spins: it can release other
/// connections first and try again.
fn connecting_without_descriptors_is_reported_and_recovers() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut client = Reactor::new(FetchEngine::default(), Epoll::new().expect("a descriptor"));
    let mut hoard = hoard(&listener);
    for endpoint in [Endpoint::to(address), Peer::Unix("@nobody".into()).into()] {
        let socket = client.engine.start(sys::now(), endpoint, "/", None);
        let before = Ledger::here();
        client.try_turn().expect("a turn");
        let spent = Ledger::here() - before;
        match client.engine.book.gone.remove(&socket) {
            Some(End::Failed(error)) => assert_eq!(error.raw_os_error(), Some(EMFILE)),
            end => panic!("{end:?}"),
        }
        assert_eq!((spent.count(Call::socket).calls, spent.total()), (1, 2));
        assert_eq!(client.deadline(), None, "nothing is left to do");
    }
    drop(hoard.pop());
    let socket = client.with(|fetch, now| fetch.start(now, Endpoint::to(address), "/", None));
    while client.engine.book.connected.is_empty() {
        assert!(client.engine.book.gone.is_empty());
        client.turn().expect("a turn");
    }
    assert_eq!(client.engine.book.connected, [socket]);
    let error = listener.try_clone().expect_err("that was the last one");
    assert_ne!(error.kind(), ErrorKind::WouldBlock);
}

/// With a ring, a close takes effect at the end of its turn; a connect before that, without a free
/// descriptor, does not fail.
fn a_pending_close_makes_room_for_a_connect() {
    let Ok(ring) = Ring::new() else { return };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let endpoint = || Endpoint::to(listener.local_addr().expect("bound"));
    let mut client = Reactor::new(FetchEngine::default(), Epoll::new().expect("a descriptor"));
    client.set_ring(ring, 1);
    let first = client.with(|fetch, now| fetch.start(now, endpoint(), "/", None));
    while client.engine.book.connected.is_empty() {
        client.turn().expect("a turn");
    }
    let hoard = hoard(&listener);
    let second = client.with(|fetch, now| {
        fetch.close(first);
        fetch.start(now, endpoint(), "/", None)
    });
    while client.engine.book.connected.len() < 2 {
        assert!(!client.engine.book.gone.contains_key(&second), "{:?}", client.engine.book.gone);
        client.turn().expect("a turn");
    }
    drop(hoard);
}

/// Without a pipe, a body for a file is received as usual.
fn a_body_reaches_its_file_without_a_pipe(dir: &Path) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut client = Reactor::new(FetchEngine::default(), Epoll::new().expect("a descriptor"));
    let path = dir.join("file");
    let file = File::create(&path).expect("room");
    let socket = client.with(|fetch, now| fetch.start(now, Endpoint::to(address), "/", Some(file)));
    while client.engine.book.connected.is_empty() {
        client.turn().expect("a turn");
    }
    let (mut peer, _) = listener.accept().expect("it has connected");
    peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").expect("room");
    client.turn().expect("a turn");
    let mut hoard = hoard(&listener);
    drop(hoard.pop()); // a pipe needs two
    let before = Ledger::here();
    peer.write_all(b"hello").expect("room");
    while client.engine.book.done.is_empty() {
        client.turn().expect("a turn");
    }
    let spent = Ledger::here() - before;
    drop(hoard);
    assert!(client.engine.book.done.contains_key(&socket));
    assert_eq!(std::fs::read(&path).expect("it was made"), b"hello");
    assert_eq!((spent.count(Call::splice).calls, client.engine.spliced), (0, 0));
}

/// No descriptor is left for accepts: the listener backs off, tries ten times a second, and
/// connections that are idle for a second are closed.
fn a_server_without_descriptors_rests_and_recovers() {
    let (mut server, address) = OwnLoop::start(app::server(Limits::default()));
    let mut idle = client(address);
    server.turn_until(|server| server.engine().connections() == 1);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let mut late = client(address); // it waits in the queue from now on
    late.write_all(b"GET /bytes/3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("room");
    let hoard = hoard(&listener);
    let (start, before) = (sys::now(), Ledger::here());
    server.turn_until(|server| server.engine().connections() == 0 && server.stats().accepted == 2);
    let (took, spent) = (sys::now() - start, Ledger::here() - before);
    assert!(took >= Duration::from_millis(900), "the other one is idle only after a second");
    let failures = server.engine().accept_failures();
    // A busy machine looks later, and never more often.
    let most = u64::try_from(took.as_millis() / 100).expect("a few") + 3;
    assert!((3..=most).contains(&failures), "{failures} in {took:?}");
    assert_eq!(done(&spent, Call::accept4), failures + 1);
    // Every 20 ms, since that is how a test turns.
    let waits = [Call::epoll_wait, Call::epoll_pwait2].map(|call| spent.count(call).calls);
    let waits = waits.iter().sum::<u64>() + polling(&spent);
    assert!(spent.total() - waits <= 3 * failures + 6, "an accept, off and on: {spent:?}");
    let mut answer = Vec::new();
    late.read_to_end(&mut answer).expect("an answer, and the end");
    assert!(answer.ends_with(b"\r\n\r\n012"));
    assert_eq!(idle.read(&mut [0]).expect("the end"), 0);
    drop(hoard);
}

/// With a list in a ring, connections are accepted while there are descriptors; the shortage is
/// reported once.
fn a_list_of_accepts_without_descriptors_ends_where_they_end() {
    if !has_ring() {
        return;
    }
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let (listener, address) = listen(any, ListenOptions::default()).expect("a port");
    let mut server =
        Reactor::new(app::server(Limits::default()), Epoll::new().expect("a descriptor"));
    server.listen(listener).expect("a listener");
    server.set_ring(Ring::new().expect("there is one"), 2);
    let mut accepts = |clients: u64, left: usize| {
        let accepted = server.stats().accepted;
        let waiting: Vec<_> = (0..clients).map(|_| client(address)).collect();
        let spare = TcpListener::bind(any).expect("a port");
        let mut hoard = if left < usize::MAX { hoard(&spare) } else { Vec::new() };
        hoard.truncate(hoard.len().saturating_sub(left));
        let (failures, before) = (server.engine.accept_failures(), Ledger::here());
        server.turn().expect("a turn");
        let spent = Ledger::here() - before;
        let came = server.stats().accepted - accepted;
        let told = server.engine.accept_failures() - failures;
        drop(hoard);
        while server.stats().accepted < accepted + clients {
            server.turn().expect("a turn");
        }
        drop(waiting);
        while server.engine.connections() > 0 {
            server.turn().expect("a turn");
        }
        (spent.operation(Operation::accept).calls, came, told)
    };
    for _ in 0..4 {
        accepts(16, usize::MAX); // it counts them from then on
    }
    if accepts(16, usize::MAX).0 == 0 {
        return; // a kernel before 6.10
    }
    assert_eq!(accepts(10, 4), (10, 4, 1));
}

#[test]
fn exhausted_descriptors_are_reported_and_recover() {
    own_process(|| {
        let dir = tempfile::tempdir().expect("a directory");
        connecting_without_descriptors_is_reported_and_recovers();
        a_pending_close_makes_room_for_a_connect();
        a_body_reaches_its_file_without_a_pipe(dir.path());
        a_server_without_descriptors_rests_and_recovers();
        a_list_of_accepts_without_descriptors_ends_where_they_end();
    });
}

/// Opens sockets until no descriptor is left.
fn hoard(listener: &TcpListener) -> Vec<TcpListener> {
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).expect("less");
    std::iter::from_fn(|| listener.try_clone().ok()).collect()
}

/// `errno(3)` on Linux.
const EMFILE: i32 = 24;
