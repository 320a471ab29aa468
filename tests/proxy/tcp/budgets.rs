//! What a relayed connection may cost: system calls, from the ledger.
//!
//! Clients, proxy and server share a thread, a turn at a time, so every count is exact.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fulmar_host::{Host, Listen};
use fulmar_load::{Options, RunUntil};
use fulmar_proxy::Proxy;
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::HandlerApp;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::budget::budget;
use fulmar_tests::loops::{OwnLoop, client, turn_while};
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;

/// A proxy in front of a listener, which the test serves by hand.
fn start() -> (OwnLoop<Proxy>, SocketAddr, TcpListener) {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = origin.local_addr().expect("it is bound");
    let mut frontend = frontend();
    frontend.logs.clear();
    let (proxy, ..) = proxy(config(frontend, [backend([server("one", to)])]), None);
    let (driver, address) = OwnLoop::by_calls(proxy);
    (driver, address, origin)
}

/// Turns until nothing is left to do.
fn settle(driver: &mut OwnLoop<Proxy>) {
    for _ in 0..3 {
        let before = driver.0.stats().events;
        loop {
            let events = driver.0.stats().events;
            driver.0.turn_within(Duration::ZERO).expect("a turn");
            if driver.0.stats().events == events {
                break;
            }
        }
        if driver.0.stats().events == before {
            return;
        }
    }
}

/// Connections of `len` clients at once, each with a request and a response; then the server closes
/// first, then the client.
fn round(driver: &mut OwnLoop<Proxy>, address: SocketAddr, origin: &TcpListener, len: usize) {
    let mut clients: Vec<TcpStream> = (0..len).map(|_| client(address)).collect();
    for stream in &mut clients {
        stream.write_all(b"question").expect("room");
    }
    settle(driver);
    let mut heard = [0; 64];
    for _ in 0..len {
        let (mut stream, _) = origin.accept().expect("a connection");
        assert_eq!(stream.read(&mut heard).expect("a question"), 8);
        stream.write_all(b"the answer").expect("room");
        stream.shutdown(Shutdown::Write).expect("it is open");
        // It ends when the client's end arrives.
        std::mem::forget(stream);
    }
    settle(driver);
    for mut stream in clients {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert_eq!(answer, b"the answer");
    }
    settle(driver);
}

/// Each of `len` connections costs at most this many calls, beside its share of the waits, and a
/// few in a hundred one more: whether bytes and end arrive together depends on timing.
fn assert_thirteen(spent: &Ledger, len: u64, more: u64) {
    // Reading the number of pending connections saves waits.
    let waits = spent.count(Call::epoll_wait).calls + spent.count(Call::getsockopt).calls;
    for (call, most) in [
        (Call::accept4, 1),
        (Call::socket, 1),
        (Call::connect, 1),
        (Call::recv, 3), // the request, the response with the server's end, the client's end
        (Call::send, 2),
        (Call::epoll_ctl, 2),
        (Call::shutdown, 1),
        (Call::close, 2),
    ] {
        let calls = spent.count(call).calls;
        assert!(calls * 100 <= most * len * (100 + more), "{calls} of {} for {len}", call.name());
    }
    let rest = spent.total() - waits;
    let each = budget("system_calls", "proxy_tcp");
    assert!(rest * 100 <= each * len * (100 + more), "{rest} calls for {len} connections");
    for call in [Call::setsockopt, Call::getsockname] {
        assert_eq!(spent.count(call).calls, 0, "{}", call.name());
    }
}

#[test]
fn a_short_connection_costs_thirteen_calls_and_a_share_of_the_waits() {
    let (mut driver, address, origin) = start();
    round(&mut driver, address, &origin, 64);
    let before = Ledger::here();
    for _ in 0..4 {
        round(&mut driver, address, &origin, 64);
    }
    let spent = Ledger::here() - before;
    assert_eq!(spent.eagain(), 0);
    assert_thirteen(&spent, 256, 2);
}

/// A client in a closed loop, with a connection per request; the server ends first, and the clients
/// when they see it.
#[test]
fn sixty_four_clients_in_a_closed_loop_cost_the_same() {
    let served = Host::new(|_| Ok(HandlerApp::new(Endpoints::new(), sys::now(), sys::wall_clock)))
        .listen(Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()))
        .start()
        .expect("a server on loopback");
    let to = served.addresses()[0].to_string().parse().expect("an address");
    let mut frontend = frontend();
    frontend.logs.clear();
    let (proxy, ..) = proxy(config(frontend, [backend([server("one", to)])]), None);
    let (mut driver, address) = OwnLoop::by_calls(proxy);
    let options = Options {
        urls: vec![format!("http://{address}/bytes/128")],
        connections: 64,
        reconnect: true,
        until: RunUntil::Requests(REQUESTS),
        ..Options::default()
    };
    let before = Ledger::here();
    let report = turn_while(&mut driver, || {
        fulmar_load::start(&options).expect("good options").finish().expect("a report")
    });
    let spent = Ledger::here() - before;
    assert_eq!((report.requests, report.errors_total()), (REQUESTS, 0));
    assert!(spent.eagain() < REQUESTS / 10, "{} calls had nothing to do", spent.eagain());
    assert_thirteen(&spent, REQUESTS, 6);
    let waits = spent.count(Call::epoll_wait).calls + spent.count(Call::getsockopt).calls;
    assert!(waits < REQUESTS * 2, "{waits} waits: fewer than there are events");
    println!("{waits} waits for {REQUESTS} connections"); // how many depends on the machine
}

const REQUESTS: u64 = 2_000;
