//! Idle connections that an application's loop does not watch.

use std::os::fd::RawFd;
use std::time::Duration;

use fulmar_client::{Client, Config};
use fulmar_drive::{Change, Tag};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::loops::{AppLoop, Edge, LevelTriggered, TriggerMode};
use fulmar_tests::scripted::{ServerStep, ok};
use fulmar_tests::transfers::{Staged, TransferRecorder};

type ClientAppLoop<T> = AppLoop<Client<TransferRecorder>, T>;

fn staged<T: TriggerMode>() -> Staged<ClientAppLoop<T>> {
    let config = Config { watches_idle: false, ..Config::default() };
    Staged::new(TransferRecorder::default(), config, |_| ok(b"body"))
}

/// A loop that waits for its descriptors and its timer would end.
fn assert_idle<T: TriggerMode>(staged: &mut Staged<ClientAppLoop<T>>) {
    staged.client.listen_to_changes();
    let is_socket = |fd: &RawFd| {
        let told = staged.client.changes.iter().rev().find_map(|change| match change {
            Change::Watch { fd: watched, tag, .. } if watched == fd => Some(*tag),
            _ => None,
        });
        matches!(told, Some(Tag::Socket(_)))
    };
    assert!(!staged.client.watched.keys().any(is_socket), "{:?}", staged.client.watched);
    assert_eq!(staged.client.reactor.deadline(), None);
}

#[test]
fn a_loop_has_nothing_to_wait_for_between_transfers() {
    fn check<T: TriggerMode>() {
        let mut staged = staged::<T>();
        for _ in 0..3 {
            staged.get("/");
            staged.run();
            assert_idle(&mut staged);
            assert_eq!(staged.client.reactor.engine.idle_connections(), 1);
        }
        assert_eq!(staged.peer.accepted(), 1, "the connection is used again");
    }
    check::<LevelTriggered>();
    check::<Edge>();
}

#[test]
fn a_connection_that_its_peer_has_closed_is_found_before_it_is_used() {
    let mut staged = staged::<LevelTriggered>();
    staged.get("/");
    staged.run();
    let before = Ledger::here();
    staged.client.reactor.check_unwatched(sys::now());
    let spent = Ledger::here() - before;
    assert_eq!(spent.count(Call::poll).calls, 1, "one call for all of them");
    assert_eq!(staged.client.reactor.engine.idle_connections(), 1);
    staged.peer.act(0, [ServerStep::Close]);
    let limit = sys::now() + Duration::from_secs(10);
    while staged.client.reactor.engine.idle_connections() > 0 {
        assert!(sys::now() < limit, "the end does not arrive");
        staged.peer.turn();
        staged.client.reactor.check_unwatched(sys::now());
    }
    assert_idle(&mut staged);
    let id = staged.get("/");
    staged.run();
    let done = staged.recorder().ended(id);
    assert!(!done.reused && !done.retried);
}
