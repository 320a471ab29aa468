//! The contract with an application that owns the loop, at the points where other libraries have
//! had bugs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use fulmar_drive::{Change, Ending, ExternalLoop, Reactor, Ready, Tag};
use fulmar_engine::{End, Endpoint, SocketId, Timeouts};
use fulmar_server::Limits;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::app::server;
use fulmar_tests::fetch::FetchEngine;
use fulmar_tests::load::unused_port;
use fulmar_tests::loops::{
    AppLoop, Edge, LevelTriggered, Loop, Once, OneShot, TriggerMode, client,
};
use fulmar_tests::process::PATIENCE;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendFlags, send};

const READ: Ready = Ready { read: true, write: false, hangup: false, failed: false };
const WRITE: Ready = Ready { write: true, read: false, ..READ };
const FAILED: Ready = Ready { read: false, write: false, hangup: false, failed: true };
const DEAD: Ready = Ready { read: true, write: false, hangup: true, failed: true };

fn changes(reactor: &mut Reactor<FetchEngine, ExternalLoop>) -> Vec<Change> {
    std::iter::from_fn(|| reactor.poll_change()).collect()
}

fn watched(changes: &[Change]) -> RawFd {
    let fd = |change: &Change| match change {
        Change::Watch { fd, .. } => Some(*fd),
        _ => None,
    };
    changes.iter().find_map(fd).expect("something is watched")
}

fn timer(changes: &[Change]) -> Option<Option<Instant>> {
    let deadline = |change: &Change| match change {
        Change::Timer { deadline } => Some(*deadline),
        _ => None,
    };
    changes.iter().rev().find_map(deadline)
}

/// A listening peer, a reactor that connects to it, and the changes that its application received.
fn connecting(
    timeouts: Timeouts,
) -> (TcpListener, Reactor<FetchEngine, ExternalLoop>, SocketId, Vec<Change>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut reactor = Reactor::new(FetchEngine::new(timeouts), ExternalLoop::new());
    let now = sys::now();
    let socket = reactor.engine.start(now, Endpoint::to(address), "/", None);
    reactor.timeout_action(now);
    let heard = changes(&mut reactor);
    (listener, reactor, socket, heard)
}

/// Trap 1: a timer that fires early (a loop that counts in milliseconds) has fired, and is set
/// again; after one that fires in time the next deadline is set; there is never a second change
/// without a reason.
#[test]
fn a_timer_that_fires_early_is_set_again() {
    let connect = Some(Duration::from_secs(60));
    let (_listener, mut reactor, socket, heard) =
        connecting(Timeouts { connect, ..Timeouts::default() });
    let deadline = timer(&heard).expect("told").expect("a deadline");
    for early in [20_000, 5_000, 1] {
        let now = deadline - Duration::from_millis(early);
        reactor.timeout_action(now);
        assert_eq!(changes(&mut reactor), [Change::Timer { deadline: Some(deadline) }]);
        reactor.socket_action(now, -1, Ready::default());
        assert_eq!(changes(&mut reactor), [], "the same deadline is no news otherwise");
    }
    let (mut heard, mut fired) = (vec![Change::Timer { deadline: Some(deadline) }], 0);
    while let Some(Some(deadline)) = timer(&heard) {
        fired += 1;
        reactor.timeout_action(deadline);
        heard = changes(&mut reactor);
    }
    assert!(fired <= 5, "{fired} timers for one deadline");
    assert!(matches!(reactor.engine.book.gone[&socket], End::TimedOut(None)));
    assert!(matches!(heard[0], Change::Forget { .. }), "{heard:?}");
    assert_eq!(timer(&heard), Some(None), "there is nothing to wait for");
}

/// Trap 1: an application may call at any time, also while it processes changes.
#[test]
fn acting_while_changes_are_left_loses_none() {
    let (mut driver, address) = AppLoop::<_, LevelTriggered>::start(server(Limits::default()));
    let peers: Vec<_> = (0..20).map(|_| client(address)).collect();
    let mut watched = BTreeMap::new();
    let start = sys::now();
    while driver.engine().connections() < 20 || watched.len() < 20 {
        assert!(sys::now() - start < PATIENCE, "nothing happens any more");
        let fd = *driver.watched.keys().next().expect("the listener");
        driver.reactor.socket_action(sys::now(), fd, READ);
        while let Some(change) = driver.reactor.poll_change() {
            driver.reactor.socket_action(sys::now(), fd, READ);
            match change {
                Change::Watch { fd, interest, .. } => {
                    assert_ne!(watched.insert(fd, interest), Some(interest));
                }
                Change::Forget { .. } => panic!("nobody has left"),
                Change::Timer { .. } => {}
            }
        }
    }
    assert_eq!(peers.len(), watched.len());
}

/// Trap 4: user data stays through changes of interest, returns with `Forget`, and is absent for
/// the next descriptor of the same number.
#[test]
fn user_data_lives_as_long_as_its_descriptor() {
    let (listener, mut reactor, socket, heard) = connecting(Timeouts::default());
    let fd = watched(&heard);
    assert!(reactor.assign(fd, 7) && !reactor.assign(fd + 1, 8) && !reactor.assign(-1, 8));
    reactor.socket_action(sys::now(), fd, WRITE);
    let heard = changes(&mut reactor);
    assert!(matches!(heard[..], [Change::Watch { user: Some(7), .. }, ..]), "{heard:?}");
    assert!(reactor.assign(fd, 9), "replaced");
    assert_eq!(reactor.user(fd), Some(9));
    reactor.engine.close(socket);
    reactor.timeout_action(sys::now());
    assert_eq!(reactor.poll_change(), Some(Change::Forget { fd, user: Some(9) }));
    assert!(!reactor.assign(fd, 1), "gone");
    assert_eq!((reactor.user(fd), reactor.poll_change()), (None, None));
    // The number is free now, and is reused.
    let address = listener.local_addr().expect("bound");
    reactor.engine.start(sys::now(), Endpoint::to(address), "/", None);
    reactor.timeout_action(sys::now());
    for change in changes(&mut reactor) {
        if let Change::Watch { fd, user, .. } = change {
            assert_eq!((user, reactor.user(fd)), (None, None));
        }
    }
}

/// Trap 3: an event of an earlier descriptor does not end its successor with the same number.
#[test]
fn a_late_event_does_not_end_a_reused_descriptor() {
    let (listener, mut reactor, socket, heard) = connecting(Timeouts::default());
    let fd = watched(&heard);
    // it belongs to an earlier socket: this one connects
    reactor.socket_action(sys::now(), fd, DEAD);
    let writable = PollFlags::OUT;
    let open = reactor.descriptor(fd).expect("it is open");
    let mut polled = [PollFd::from_borrowed_fd(open, writable)];
    rustix::event::poll(&mut polled, None).expect("it connects");
    reactor.socket_action(sys::now(), fd, WRITE);
    assert_eq!(reactor.engine.book.connected, [socket]);
    let (mut peer, _) = listener.accept().expect("it has connected");
    assert!(peer.read(&mut [0; 100]).expect("a request") > 0);
    peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!").expect("room");
    reactor.socket_action(sys::now(), fd, DEAD); // read to see: there is a response
    assert_eq!(reactor.engine.book.done[&socket], b"!");
    assert!(reactor.engine.book.gone.is_empty());
}

/// A loop that knows only "readable" and "writable" reports both when a connect fails.
#[test]
fn a_refused_connect_is_detected_without_an_error_event() {
    let (_holder, nobody) = unused_port();
    let mut reactor = Reactor::new(FetchEngine::default(), ExternalLoop::new());
    let socket = reactor.engine.start(sys::now(), Endpoint::to(nobody), "/", None);
    reactor.timeout_action(sys::now());
    let fd = watched(&changes(&mut reactor));
    reactor.socket_action(sys::now(), fd, Ready { read: true, write: true, ..READ });
    assert!(reactor.engine.book.connected.is_empty());
    assert!(matches!(reactor.engine.book.gone[&socket], End::Failed(_)));
}

/// A transfer with a partial response, the peer's end of its connection, and its descriptor.
fn half_answered<T: TriggerMode>() -> (AppLoop<FetchEngine, T>, SocketId, TcpStream, RawFd) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut client = AppLoop::<_, T>::new(Reactor::new(FetchEngine::default(), T::changes()));
    let endpoint = Endpoint::to(address);
    let socket = client.with(|fetch, now| fetch.start(now, endpoint, "/", None));
    client.turn_until(|client| !client.engine().book.connected.is_empty());
    let (mut peer, _) = listener.accept().expect("it has connected");
    client.turn(Duration::ZERO);
    assert!(peer.read(&mut [0; 100]).expect("a request") > 0);
    peer.set_nodelay(true).expect("a socket");
    peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").expect("room");
    client.turn_until(|client| client.engine().received(socket) == 5);
    let fd = *client.watched.keys().next().expect("it is watched");
    (client, socket, peer, fd)
}

/// Resets the connection of `peer`, and waits until the kernel reports it for `fd`.
fn reset(client: &AppLoop<FetchEngine, impl TriggerMode>, peer: TcpStream, fd: RawFd) {
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).expect("a socket");
    drop(peer);
    wait_for(client, fd, PollFlags::ERR | PollFlags::HUP);
}

/// Waits until the kernel reports `what` for `fd`.
fn wait_for(client: &AppLoop<FetchEngine, impl TriggerMode>, fd: RawFd, what: PollFlags) {
    let open = client.reactor.descriptor(fd).expect("it is open");
    let mut polled = [PollFd::from_borrowed_fd(open, what)];
    let patience = rustix::event::Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut polled, Some(&patience)), Ok(1), "it never comes");
}

/// libcurl's `CURL_CSELECT_ERR` alone, and libuv's error status without events.
#[test]
fn an_error_alone_ends_an_established_connection() {
    fn check<T: TriggerMode>() {
        let (mut client, socket, peer, fd) = half_answered::<T>();
        reset(&client, peer, fd);
        client.notify(fd, FAILED);
        let gone = client.engine().book.gone.get(&socket);
        assert!(matches!(gone, Some(End::Failed(_))), "{gone:?}");
        assert!(client.watched.is_empty(), "it was forgotten");
    }
    check::<LevelTriggered>();
    check::<Edge>();
}

#[test]
fn bytes_before_an_error_are_read_first() {
    fn check<T: TriggerMode>() {
        let (mut client, socket, mut peer, fd) = half_answered::<T>();
        peer.write_all(b"world").expect("room");
        reset(&client, peer, fd);
        client.notify(fd, FAILED);
        assert_eq!(client.engine().book.done[&socket], b"helloworld");
    }
    check::<LevelTriggered>();
    check::<Edge>();
}

/// An error of an earlier connection with the same number costs one read.
#[test]
fn an_error_that_is_none_does_no_harm() {
    let (mut client, socket, mut peer, fd) = half_answered::<LevelTriggered>();
    let before = Ledger::here();
    client.notify(fd, FAILED);
    let spent = Ledger::here() - before;
    assert_eq!((spent.count(Call::recv).calls, spent.total()), (1, 1));
    peer.write_all(b"world").expect("room");
    client.turn_until(|client| client.engine().book.done.contains_key(&socket));
    assert!(client.engine().book.gone.is_empty());
}

/// A receive stops in front of urgent data (tcp(7)), and no further edge reports the bytes behind.
#[test]
fn urgent_data_does_not_stall_an_application_loop() {
    fn check<T: TriggerMode>() {
        let (mut client, socket, mut peer, _) = half_answered::<T>();
        peer.write_all(b"wor").expect("room");
        assert_eq!(send(&peer, b"!", SendFlags::OOB), Ok(1));
        peer.write_all(b"ld").expect("room");
        client.turn_until(|client| client.engine().book.done.contains_key(&socket));
        assert_eq!(client.engine().book.done[&socket], b"helloworld");
    }
    check::<LevelTriggered>();
    check::<OneShot>();
    check::<Edge>();
    check::<Once>();
}

/// The cost of level-triggered events: one call for each.
#[test]
fn a_level_triggered_loop_saves_a_call_for_each_event() {
    fn receives<T: TriggerMode>() -> (u64, u64) {
        let (mut client, socket, mut peer, fd) = half_answered::<T>();
        let before = Ledger::here();
        for received in 6..=9 {
            peer.write_all(b"x").expect("room");
            wait_for(&client, fd, PollFlags::IN);
            client.notify(fd, READ);
            assert_eq!(client.engine().received(socket), received);
        }
        let spent = Ledger::here() - before;
        (spent.count(Call::recv).calls, spent.total())
    }
    assert_eq!(receives::<LevelTriggered>(), (4, 4));
    assert_eq!(receives::<Edge>(), (8, 8), "and no timer for a second turn");
}

/// libcurl's mask of 0: the library has to poll.
#[test]
fn an_empty_event_polls_the_socket_once() {
    let (mut client, socket, mut peer, fd) = half_answered::<LevelTriggered>();
    let before = Ledger::here();
    client.notify(fd, Ready::default());
    let spent = Ledger::here() - before;
    assert_eq!((spent.count(Call::poll).calls, spent.total()), (1, 1), "nothing is ready");
    peer.write_all(b"world").expect("room");
    wait_for(&client, fd, PollFlags::IN);
    let before = Ledger::here();
    client.notify(fd, Ready::default());
    let spent = Ledger::here() - before;
    assert_eq!(client.engine().book.done[&socket], b"helloworld");
    assert_eq!(spent.count(Call::poll).calls, 1);
    let before = Ledger::here();
    for unknown in [-1, fd + 1_000] {
        client.notify(unknown, Ready::default());
    }
    assert_eq!((Ledger::here() - before).total(), 0, "there is nothing to poll");
}

#[test]
fn an_empty_event_finds_an_error_and_a_new_connection() {
    let (mut asker, socket, peer, fd) = half_answered::<Edge>();
    reset(&asker, peer, fd);
    asker.notify(fd, Ready::default());
    assert!(matches!(asker.engine().book.gone.get(&socket), Some(End::Failed(_))));

    let (mut driver, address) = AppLoop::<_, LevelTriggered>::start(server(Limits::default()));
    let listener = *driver.watched.keys().next().expect("the listener");
    driver.notify(listener, Ready::default());
    assert_eq!(driver.engine().connections(), 0);
    let _peer = client(address);
    driver.notify(listener, Ready::default());
    assert_eq!(driver.engine().connections(), 1);
}

/// An application that has lost events has all sockets polled with one call.
#[test]
fn lost_events_are_found_again() {
    let (mut server, address) = AppLoop::<_, LevelTriggered>::start(server(Limits::default()));
    let mut reactor = Reactor::new(FetchEngine::default(), ExternalLoop::new());
    let starts = |_| reactor.engine.start(sys::now(), Endpoint::to(address), "/bytes/9", None);
    let sockets: Vec<_> = (0..5).map(starts).collect();
    reactor.timeout_action(sys::now());
    let start = sys::now();
    while reactor.engine.book.done.len() < sockets.len() {
        assert!(sys::now() - start < PATIENCE, "nothing happens any more");
        while reactor.poll_change().is_some() {} // and ignores them
        server.turn(Duration::from_millis(1));
        reactor.socket_all(sys::now()).expect("a poll");
    }
    while reactor.poll_change().is_some() {}
    let before = Ledger::here();
    reactor.socket_all(sys::now()).expect("a poll");
    let spent = Ledger::here() - before;
    assert_eq!((spent.count(Call::poll).calls, spent.total()), (1, 1), "nothing was ready");
}

/// Trap 9: a peer that closes while reading is paused is reported once in a level-triggered loop,
/// which is quiet afterwards: its next wait has no event.
#[test]
fn a_half_closed_peer_is_noticed_and_quiet() {
    let (mut driver, address) = AppLoop::<_, LevelTriggered>::start(server(Limits::default()));
    let mut peer = client(address);
    peer.write_all(b"GET /idle HTTP/1.1\r\nHost: t\r\n\r\n").expect("room");
    driver.turn_until(|driver| driver.engine().application().requests() == 1);
    let before = driver.changes.len();
    peer.shutdown(std::net::Shutdown::Write).expect("open");
    driver.turn_until(|driver| driver.changes.len() > before);
    for change in &driver.changes[before..] {
        match change {
            Change::Watch { interest, .. } => assert!(!interest.hangup && !interest.read),
            Change::Forget { .. } => panic!("an answer is owed"),
            Change::Timer { .. } => {}
        }
    }
    assert!(driver.wait(Duration::from_millis(30)).is_empty(), "it is quiet");
}

fn forgotten(ending: &mut Ending) -> Vec<RawFd> {
    let mut fds = Vec::new();
    for change in ending.by_ref() {
        match change {
            Change::Forget { fd, .. } => fds.push(fd),
            Change::Timer { deadline } => assert_eq!(deadline, None),
            Change::Watch { .. } => panic!("nothing is watched at the end"),
        }
    }
    fds
}

/// Trap 14: at the end the application receives a change for everything that it still watches,
/// once, while it is open; then the descriptors are closed, and no change follows.
#[test]
fn the_end_of_a_reactor_balances() {
    let (mut driver, address) = AppLoop::<_, Edge>::start(server(Limits::default()));
    let waker = driver.reactor.waker().expect("a descriptor");
    let mut peers: Vec<_> = (0..10).map(|_| client(address)).collect();
    driver.turn_until(|driver| driver.engine().connections() == 10);
    drop(peers.pop());
    driver.turn_until(|driver| driver.engine().connections() == 9);
    let mut expected: Vec<_> = driver.watched.keys().copied().collect();
    assert_eq!(expected.len(), 9 + 2, "connections, the listener, the waker");
    let mut ending = driver.reactor.end();
    let first = ending.next().expect("there is something to forget");
    let Change::Forget { fd, .. } = first else { panic!("{first:?}") };
    assert!(ending.descriptor(fd).is_some(), "it is forgotten while it is open");
    let mut told = forgotten(&mut ending);
    told.push(fd);
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected);
    assert_eq!((ending.next(), ending.next()), (None, None));
    for mut peer in peers {
        assert_eq!(peer.read(&mut [0; 10]).expect("an end"), 0, "it is closed");
    }
    waker.wake(); // without a reactor: it is still safe
}

#[test]
fn dropping_an_unobserved_reactor_closes_everything() {
    let (driver, address) = AppLoop::<_, LevelTriggered>::start(server(Limits::default()));
    let mut peer = client(address);
    drop(driver.reactor.end());
    assert!(!matches!(peer.read(&mut [0; 10]), Ok(1..)), "the listener took it along");
}

/// Bytes at several sockets, and one turn for all of them.
#[test]
fn one_turn_acts_on_several_ready_descriptors() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let engine = FetchEngine::new(Timeouts::default());
    let mut reactor = Reactor::new(engine, ExternalLoop::level_triggered());
    let now = sys::now();
    let sockets: Vec<SocketId> =
        (0..3).map(|_| reactor.engine.start(now, Endpoint::to(address), "/", None)).collect();
    reactor.timeout_action(now);
    let mut peers: Vec<TcpStream> =
        sockets.iter().map(|_| listener.accept().expect("a connection").0).collect();
    let told = changes(&mut reactor);
    let fds: Vec<RawFd> = told
        .iter()
        .filter_map(|change| match change {
            Change::Watch { fd, tag: Tag::Socket(socket), .. } => {
                assert!(sockets.contains(socket), "{change:?}");
                Some(*fd)
            }
            _ => None,
        })
        .collect();
    assert_eq!(fds.len(), 3);
    for fd in &fds {
        reactor.ready(*fd, WRITE);
    }
    let turns = reactor.stats().turns;
    reactor.perform(sys::now());
    assert_eq!(reactor.stats().turns, turns + 1);
    for peer in &mut peers {
        let mut request = [0; 512];
        assert!(peer.read(&mut request).expect("a request") > 0);
        peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("sent");
    }
    for fd in &fds {
        let descriptor = reactor.descriptor(*fd).expect("it is open");
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        rustix::event::poll(&mut polled, None).expect("poll");
        reactor.ready(*fd, READ);
    }
    reactor.perform(sys::now());
    assert_eq!(reactor.stats().turns, turns + 2);
    assert!(sockets.iter().all(|socket| {
        reactor.local_address(*socket).is_none_or(|own| own.ip().is_loopback() && own != address)
    }));
    assert_eq!(reactor.engine.book.done.len(), 3);
}
