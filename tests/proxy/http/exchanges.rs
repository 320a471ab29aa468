//! The proxy in mode http: keep-alive on both sides, connections of servers shared.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use fulmar_drive::{AnySelector, Reactor};
use fulmar_haproxy::model::ReuseMode;
use fulmar_proxy::Proxy;
use fulmar_sys::{Call, Ledger};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::{backend, engine, frontend, server};

/// Turns proxy and origin until the client has received `len` bytes, or the connection has ended.
fn read<L: Loop>(
    proxy: &mut L,
    origin: &mut Scripted,
    stream: &mut TcpStream,
    len: usize,
) -> Vec<u8> {
    stream.set_nonblocking(true).expect("a socket");
    let mut got = Vec::new();
    let mut ended = false;
    proxy.turn_until(|_| {
        origin.turn();
        let mut bytes = [0; 64 * 1024];
        match stream.read(&mut bytes) {
            Ok(0) => ended = true,
            Ok(n) => got.extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => ended = true,
        }
        got.len() >= len || ended
    });
    stream.set_nonblocking(false).expect("a socket");
    got
}

fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: example\r\nX-Own: yes\r\n\r\n")
}

fn a_request_goes_to_the_server_and_its_answer_comes_back<L: Loop<Engine = Proxy>>() {
    let mut origin = Scripted::new(|heard: &ScriptedRequest| ok(heard.path().as_bytes()));
    let (proxy, ..) = engine(frontend(), [backend([server("s1", origin.address())])]);
    let (mut proxy, address) = L::start(proxy);
    let mut stream = client(address);
    let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n/a";
    for _ in 0..3 {
        stream.write_all(request("/a").as_bytes()).expect("room");
        assert_eq!(read(&mut proxy, &mut origin, &mut stream, expected.len()), expected);
    }
    assert_eq!(origin.accepted(), 1, "the server's connection is kept");
    assert_eq!(origin.requests[0].head, "GET /a HTTP/1.1\r\nHost: example\r\nX-Own: yes\r\n\r\n");
}

#[test]
fn a_request_and_its_answer_in_every_loop() {
    in_every_loop!(a_request_goes_to_the_server_and_its_answer_comes_back);
}

fn large_bodies_stream_both_ways<L: Loop<Engine = Proxy>>() {
    let size = 3_000_000 / L::SLOWER;
    let mut origin = Scripted::new(|heard: &ScriptedRequest| ok(&heard.body));
    let (proxy, ..) = engine(frontend(), [backend([server("s1", origin.address())])]);
    let (mut proxy, address) = L::start(proxy);
    let mut stream = client(address);
    let body: Vec<u8> = (0..size).map(|n| b"a prime number of bytes"[n % 23]).collect();
    let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n");
    let expected = answer("200 OK", "", &body);
    let (sent, total) = ([head.as_bytes(), &body].concat(), expected.len());
    stream.set_nonblocking(true).expect("a socket");
    let (mut at, mut got) = (0, Vec::new());
    proxy.turn_until(|_| {
        origin.turn();
        if let Ok(n) = stream.write(&sent[at..]) {
            at += n;
        }
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            got.extend_from_slice(&bytes[..n]);
        }
        got.len() >= total
    });
    assert!(got == expected, "{} bytes of {total}", got.len());
}

#[test]
fn large_bodies_in_every_loop() {
    in_every_loop!(large_bodies_stream_both_ways);
}

/// One exchange after the other, a turn at a time, so that every count is exact.
fn exchange(
    proxy: &mut Reactor<Proxy, AnySelector>,
    origin: &mut TcpStream,
    stream: &mut TcpStream,
    counts: &mut Ledger,
) {
    let before = Ledger::here();
    let mut bytes = [0; 1024];
    stream.write_all(request("/").as_bytes()).expect("room");
    proxy.turn().expect("a turn");
    let n = origin.read(&mut bytes).expect("a request");
    assert!(bytes[..n].starts_with(b"GET / HTTP/1.1\r\n"));
    origin.write_all(&answer("200 OK", "", b"hello")).expect("room");
    proxy.turn().expect("a turn");
    let n = stream.read(&mut bytes).expect("an answer");
    assert!(bytes[..n].ends_with(b"\r\n\r\nhello"));
    *counts = Ledger::here() - before;
}

#[test]
fn a_kept_exchange_costs_two_receives_two_sends_and_two_waits() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (proxy, ..) = engine(frontend(), [backend([server("s1", address)])]);
    let (mut proxy, address): (OwnLoop<Proxy>, SocketAddr) = OwnLoop::by_calls(proxy);
    let mut stream = client(address);
    stream.write_all(request("/").as_bytes()).expect("room");
    let mut origin = None;
    listener.set_nonblocking(true).expect("a socket");
    proxy.turn_until(|_| {
        origin = origin.take().or_else(|| listener.accept().ok());
        origin.is_some()
    });
    let (mut origin, _) = origin.expect("a connection");
    origin.set_nonblocking(false).expect("a socket");
    for _ in 0..3 {
        proxy.0.try_turn().expect("a turn");
    }
    let mut bytes = [0; 1024];
    let _ = origin.read(&mut bytes).expect("a request");
    origin.write_all(&answer("200 OK", "", b"hello")).expect("room");
    proxy.0.turn().expect("a turn");
    let _ = stream.read(&mut bytes).expect("an answer");
    let mut spent = Ledger::default();
    for _ in 0..3 {
        exchange(&mut proxy.0, &mut origin, &mut stream, &mut spent); // Nagle's algorithm goes off
    }
    for _ in 0..100 {
        exchange(&mut proxy.0, &mut origin, &mut stream, &mut spent);
        for call in [Call::recv, Call::send, Call::epoll_wait] {
            assert_eq!(spent.count(call).calls, 2, "{}", call.name());
        }
        assert_eq!(spent.total(), 6, "nothing else");
        assert_eq!((spent.eagain(), spent.clock_reads()), (0, 2));
    }
}

#[test]
fn clients_that_leave_share_the_connections_that_stay() {
    let mut origin =
        Scripted::new(|_: &ScriptedRequest| vec![ServerStep::Send(answer("200 OK", "", b"x"))]);
    let mut shared = backend([server("s1", origin.address())]);
    shared.reuse = ReuseMode::Always;
    let (proxy, live, ..) = engine(frontend(), [shared]);
    let (mut proxy, address): (OwnLoop<Proxy>, _) = OwnLoop::start(proxy);
    for _ in 0..20 {
        let mut stream = client(address);
        let close = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(close.as_bytes()).expect("room");
        let got = read(&mut proxy, &mut origin, &mut stream, usize::MAX);
        assert!(got.ends_with(b"Connection: close\r\n\r\nx"), "{got:?}");
    }
    assert_eq!(origin.accepted(), 1);
    proxy.turn_until(|proxy| proxy.engine().clients() == 0);
    assert_eq!(live.backends[0].group.members()[0].sessions(), 0, "no place is held");
}
