//! Accepts in lists over a ring: their cost, limits within a list, and kernels without support.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use fulmar_drive::{
    AnySelector, Driver, ListenOptions, LoopOptions, Reactor, Ring, Spin, UnixListenOptions,
    listen, listen_unix,
};
use fulmar_engine::ListenerId;
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{HandlerApp, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Count, Ledger, Operation};
use fulmar_tests::app::EndpointsEngine;
use fulmar_tests::loops::{client, has_ring};
use fulmar_tests::process::PATIENCE;

type EndpointsReactor = Reactor<EndpointsEngine, AnySelector>;

const BY_CALLS: LoopOptions = LoopOptions { driver: Driver::Epoll, spin: Spin::Off };

/// A server in this thread, with so many listeners, and a ring if there is one to be used.
fn server(
    ring: Option<Ring>,
    limits: Limits,
    listeners: u32,
) -> (EndpointsReactor, Vec<SocketAddr>) {
    let app = HandlerApp::new(Endpoints::new(), sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, limits, Stop::new());
    (0..listeners).for_each(|number| engine.add_listener(ListenerId(number), None));
    let mut server = Reactor::with_options(engine, BY_CALLS).unwrap();
    if let Some(ring) = ring {
        server.set_ring(ring, LIST_LEN_MIN);
    }
    let addresses = (0..listeners).map(|_| {
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let (listener, address) = listen(any, ListenOptions::default()).unwrap();
        server.listen(listener).unwrap();
        address
    });
    let addresses = addresses.collect();
    (server, addresses)
}

fn connect(address: SocketAddr, clients: usize) -> Vec<TcpStream> {
    (0..clients).map(|_| client(address)).collect()
}

fn turn_until(server: &mut EndpointsReactor, mut done: impl FnMut(&EndpointsReactor) -> bool) {
    let start = sys::now();
    while !done(server) {
        assert!(sys::now() - start < PATIENCE, "nothing happens any more");
        server.turn_within(Duration::from_millis(20)).unwrap();
    }
}

/// So many come and go that a list is expected from then on.
fn warm_up(server: &mut EndpointsReactor, address: SocketAddr) {
    for _ in 0..4 {
        let accepted = server.stats().accepted;
        let mut clients = connect(address, 64);
        clients.iter_mut().for_each(|stream| stream.write_all(LAST_REQUEST).unwrap());
        turn_until(server, |server| {
            server.stats().accepted == accepted + 64 && server.engine.connections() == 0
        });
    }
}

/// A ring that can accept; `None`: the kernel has none, or one before 6.10.
fn ring() -> Option<Ring> {
    has_ring().then(|| Ring::new().unwrap()).filter(Ring::accepts)
}

fn done_in_ring(made: &Ledger) -> Count {
    made.operation(Operation::accept)
}

fn calls(made: &Ledger, call: Call) -> u64 {
    made.count(call).calls
}

#[test]
fn a_crowd_is_counted_and_accepted_by_one_call() {
    let ring @ Some(_) = ring() else { return };
    let (mut server, addresses) = server(ring, Limits::default(), 1);
    warm_up(&mut server, addresses[0]);
    let mut clients = connect(addresses[0], 64);
    clients.iter_mut().for_each(|stream| stream.write_all(LAST_REQUEST).unwrap());
    let before = Ledger::here();
    server.turn().unwrap();
    let made = Ledger::here() - before;
    // A wait, a count, and lists of accepts, receives, sends and closes: everything of 64 lives.
    let expected = [(Call::epoll_wait, 1), (Call::getsockopt, 1), (Call::io_uring_enter, 4)];
    for (call, count) in expected {
        assert_eq!(calls(&made, call), count, "{}: {made:?}", call.name());
    }
    assert_eq!((made.total(), made.eagain()), (6, 0), "{made:?}");
    for operation in Operation::ALL {
        assert_eq!(made.operation(*operation).calls, 64, "{}", operation.name());
    }
    for mut stream in clients {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}

/// The same by calls: a wait and a count for all of them, and four calls for each.
#[test]
fn a_crowd_is_accepted_in_one_turn_by_calls_too() {
    let (mut server, addresses) = server(None, Limits::default(), 1);
    let address = addresses[0];
    warm_up(&mut server, address);
    let mut clients = connect(address, 64);
    clients.iter_mut().for_each(|stream| stream.write_all(LAST_REQUEST).unwrap());
    let before = Ledger::here();
    server.turn().unwrap();
    let made = Ledger::here() - before;
    assert_eq!((made.total(), made.eagain()), (2 + 4 * 64, 0), "{made:?}");
    assert_eq!(server.engine.connections(), 0);
}

#[test]
fn a_turn_may_be_given_all_the_time_there_is() {
    let (mut server, addresses) = server(None, Limits::default(), 1);
    let _client = client(addresses[0]);
    server.turn_within(Duration::MAX).unwrap();
    assert_eq!(server.engine.connections(), 1);
}

/// Two loops share a socket: the first one counts once and accepts the whole batch, and the second
/// one finds nothing to do.
#[test]
fn a_crowd_at_a_shared_socket_is_counted_too() {
    let (mut one, _) = server(None, Limits::default(), 0);
    let (mut other, _) = server(None, Limits::default(), 0);
    let (listener, address) =
        listen((Ipv4Addr::LOCALHOST, 0).into(), ListenOptions::default()).unwrap();
    for server in [&mut one, &mut other] {
        server.engine.add_listener(ListenerId(0), None);
        server.listen(listener.try_clone().unwrap()).unwrap();
        warm_up(server, address);
    }
    for round in 0..4 {
        let mut clients = connect(address, 64);
        clients.iter_mut().for_each(|stream| stream.write_all(LAST_REQUEST).unwrap());
        let (first, second) =
            if round % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        let before = Ledger::here();
        first.try_turn().unwrap();
        second.try_turn().unwrap();
        let made = Ledger::here() - before;
        // Two waits, one count, and four calls for each.
        assert_eq!((made.total(), made.eagain()), (3 + 4 * 64, 0), "{made:?}");
    }
}

#[test]
fn the_limit_of_connections_holds_within_a_list() {
    let ring @ Some(_) = ring() else { return };
    let limits = Limits { connections_max: 70, ..Limits::default() };
    let (mut server, addresses) = server(ring, limits, 1);
    warm_up(&mut server, addresses[0]);
    let first = connect(addresses[0], 60);
    turn_until(&mut server, |server| server.engine.connections() == 60);
    let mut others = connect(addresses[0], 30);
    let before = Ledger::here();
    turn_until(&mut server, |server| server.engine.connections() == 70);
    (0..5).for_each(|_| server.try_turn().unwrap());
    let made = Ledger::here() - before;
    assert_eq!((server.engine.connections(), server.engine.refused()), (70, 0));
    let accepts = done_in_ring(&made);
    assert_eq!(
        (accepts.calls, accepts.eagain, calls(&made, Call::accept4)),
        (10, 0, 0),
        "{made:?}"
    );
    drop(first);
    others.iter_mut().for_each(|stream| stream.write_all(LAST_REQUEST).unwrap());
    turn_until(&mut server, |server| server.engine.connections() == 0);
    for mut stream in others {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "whoever waits is served later");
    }
}

/// Each listener has its list, and what waits at one takes nothing from another's turn.
#[test]
fn several_listeners_have_a_list_each_in_the_same_turn() {
    let ring @ Some(_) = ring() else { return };
    let (mut server, addresses) = server(ring, Limits::default(), 3);
    addresses.iter().for_each(|address| warm_up(&mut server, *address));
    let crowds = [100, 5, 1];
    let _clients: Vec<_> =
        addresses.iter().zip(crowds).map(|(address, count)| connect(*address, count)).collect();
    let before = Ledger::here();
    server.turn().unwrap();
    let made = Ledger::here() - before;
    assert_eq!(server.engine.connections(), 64 + 5 + 1, "{made:?}");
    assert_eq!(done_in_ring(&made).calls, 64 + 5, "{made:?}");
    let counted = (calls(&made, Call::getsockopt), calls(&made, Call::accept4));
    assert_eq!((counted, made.operation(Operation::accept).eagain), ((3, 1), 0), "{made:?}");
}

/// Pending connections of a Unix socket cannot be counted: the number is a guess, as with direct
/// calls.
#[test]
fn a_crowd_at_a_unix_socket_is_accepted_in_a_ring_too() {
    let ring @ Some(_) = ring() else { return };
    let (mut server, _) = server(ring, Limits::default(), 0);
    server.engine.add_listener(ListenerId(0), None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    server.listen(listen_unix(&path, UnixListenOptions::default()).unwrap()).unwrap();
    let before = Ledger::here();
    for _ in 0..6 {
        let connect = |_| std::os::unix::net::UnixStream::connect(&path).unwrap();
        let clients: Vec<_> = (0..64).map(connect).collect();
        turn_until(&mut server, |server| server.engine.connections() == 64);
        drop(clients);
        turn_until(&mut server, |server| server.engine.connections() == 0);
    }
    let made = Ledger::here() - before;
    assert!(done_in_ring(&made).calls > 0 && made.count(Call::getsockopt).calls <= 1, "{made:?}");
    assert_eq!(
        done_in_ring(&made).calls + calls(&made, Call::accept4),
        384 + accepts_in_vain(&made)
    );
    assert!(accepts_in_vain(&made) <= 2, "{made:?}");
}

fn accepts_in_vain(made: &Ledger) -> u64 {
    done_in_ring(made).eagain + made.count(Call::accept4).eagain
}

#[test]
fn without_accepts_in_a_ring_calls_are_used() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new().unwrap();
    ring.set_accepts_unknown();
    let (mut server, addresses) = server(Some(ring), Limits::default(), 1);
    warm_up(&mut server, addresses[0]);
    let before = Ledger::here();
    warm_up(&mut server, addresses[0]);
    let made = Ledger::here() - before;
    assert_eq!(server.driver(), "ring", "for all else");
    assert_eq!((done_in_ring(&made).calls, calls(&made, Call::accept4)), (0, 256));
    assert_eq!(accepts_in_vain(&made), 0);
}

/// After a failed list the remaining connections are accepted by calls, to the last one.
#[test]
fn a_ring_that_fails_at_accepts_loses_no_client() {
    let ring @ Some(_) = ring() else { return };
    let (mut server, addresses) = server(ring, Limits::default(), 1);
    warm_up(&mut server, addresses[0]);
    let mut fails = Ring::new().unwrap();
    fails.set_lists_max(0);
    server.set_ring(fails, LIST_LEN_MIN);
    let mut clients = connect(addresses[0], 20);
    let before = Ledger::here();
    turn_until(&mut server, |server| server.engine.connections() == 20);
    let made = Ledger::here() - before;
    assert_eq!((calls(&made, Call::accept4), done_in_ring(&made).calls), (20, 0), "{made:?}");
    assert!(server.driver_info().ring_error.unwrap().contains("simulated failure"));
    clients.iter_mut().for_each(|stream| stream.write_all(LAST_REQUEST).unwrap());
    turn_until(&mut server, |server| server.engine.connections() == 0);
    assert!(clients[19].read(&mut [0]).unwrap() > 0);
}

const LIST_LEN_MIN: usize = 2;
const LAST_REQUEST: &[u8] = b"GET /bytes/128 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
