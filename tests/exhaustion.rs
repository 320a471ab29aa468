//! Descriptors run out while connections are made. Alone in its process, whose limit it changes.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use fulmar_drive::{Epoll, Reactor};
use fulmar_engine::{End, Endpoint, Peer};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::fetch::Fetch;
use rustix::process::{Resource, Rlimit, setrlimit};

/// The engine hears which error it was, in the same turn, and nothing spins: so it can let others
/// go first and try again.
fn connecting_without_descriptors_is_told_as_that_and_passes() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut client = Reactor::new(Fetch::default(), Epoll::new().expect("a descriptor"));
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

/// Without a pipe, a body that was to go straight into a file is received as usual.
fn a_body_reaches_its_file_without_a_pipe(dir: &Path) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut client = Reactor::new(Fetch::default(), Epoll::new().expect("a descriptor"));
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
    drop(hoard.pop()); // for the engine's own way to the file: a pipe needs two
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

#[test]
fn running_out_of_descriptors_is_told_and_passes() {
    let dir = tempfile::tempdir().expect("a directory");
    connecting_without_descriptors_is_told_as_that_and_passes();
    a_body_reaches_its_file_without_a_pipe(dir.path());
}

/// Takes all descriptors that are left.
fn hoard(listener: &TcpListener) -> Vec<TcpListener> {
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).expect("less");
    std::iter::from_fn(|| listener.try_clone().ok()).collect()
}

/// `errno(3)` on Linux.
const EMFILE: i32 = 24;
