//! Descriptors run out while connections are made. Alone in its process, whose limit it changes.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use fulmar_drive::{Epoll, Reactor};
use fulmar_engine::{End, Endpoint, Peer};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::fetch::Fetch;
use rustix::process::{Resource, Rlimit, setrlimit};

/// The engine hears which error it was, in the same turn, and nothing spins: so it can let others
/// go first and try again.
#[test]
fn connecting_without_descriptors_is_told_as_that_and_passes() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut client = Reactor::new(Fetch::default(), Epoll::new().expect("a descriptor"));
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).expect("less");
    let mut hoard = Vec::new();
    while let Ok(fd) = listener.try_clone() {
        hoard.push(fd);
    }
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
    let socket = client.engine.start(sys::now(), Endpoint::to(address), "/", None);
    while client.engine.book.connected.is_empty() {
        assert!(client.engine.book.gone.is_empty());
        client.turn().expect("a turn");
    }
    assert_eq!(client.engine.book.connected, [socket]);
    let error = listener.try_clone().expect_err("that was the last one");
    assert_ne!(error.kind(), ErrorKind::WouldBlock);
}

/// `errno(3)` on Linux.
const EMFILE: i32 = 24;
