//! Idle sockets are registered late, and no event is lost: real sockets, the proxy in our own loop,
//! and a server in the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fulmar_proxy::Proxy;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::buffers::bounded;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::test_proxy::configured;
use rustix::net::sockopt::set_socket_linger;

/// The proxy, its address, and the server behind it.
struct DeferredSetup {
    proxy: OwnLoop<Proxy>,
    address: SocketAddr,
    listener: TcpListener,
}

impl DeferredSetup {
    fn new(backend: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let text = format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
             timeout server 60s\nfrontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
             backend be\n  http-reuse never\n{backend}\n  server s1 {at}\n"
        );
        let (proxy, ..) = configured(&text);
        let (proxy, address) = OwnLoop::start(proxy);
        Self { proxy, address, listener }
    }

    /// A client that has sent a request, and the server's end of its connection, where the request
    /// has arrived.
    fn send_request(&mut self) -> (TcpStream, TcpStream) {
        let mut asker = bounded(client(self.address));
        asker.write_all(GET).expect("room");
        self.listener.set_nonblocking(true).expect("a socket");
        let Self { proxy, listener, .. } = self;
        let mut origin = None;
        proxy.turn_until(|_| {
            origin = listener.accept().ok().map(|(origin, _)| origin);
            origin.is_some()
        });
        let mut origin = origin.expect("accepted");
        origin.set_nonblocking(true).expect("a socket");
        proxy.turn_until(|_| origin.read(&mut [0; 4096]).is_ok());
        origin.set_nonblocking(false).expect("a socket");
        (asker, origin)
    }

    /// The same, and only the server's connection is watched since then; on a busy machine, it may
    /// have been time to look at the client's.
    fn send_request_unregistered(&mut self) -> (TcpStream, TcpStream, Ledger) {
        for _ in 0..50 {
            let before = Ledger::here();
            let (asker, origin) = self.send_request();
            if watched(&before) == 1 {
                return (asker, origin, before);
            }
            drop((asker, origin));
            self.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
        }
        panic!("clients are watched at once");
    }
}

fn watched(since: &Ledger) -> u64 {
    (Ledger::here() - *since).count(Call::epoll_ctl).calls
}

#[test]
fn an_end_before_registration_is_noticed() {
    for (backend, resets) in [("  option abortonclose", false), ("", true)] {
        let mut bench = DeferredSetup::new(backend);
        let (asker, mut origin, before) = bench.send_request_unregistered();
        if resets {
            set_socket_linger(&asker, Some(Duration::ZERO)).expect("a socket");
        }
        drop(asker);
        bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
        assert_eq!(watched(&before), 2);
        origin.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert!(matches!(origin.read(&mut [0; 16]), Ok(0) | Err(_)), "its request was given up");
    }
}

#[test]
fn one_check_registers_all_waiting_sockets() {
    let mut bench = DeferredSetup::new("");
    let before = Ledger::here();
    let held: Vec<_> = (0..20).map(|_| bench.send_request()).collect();
    let asked = Ledger::here();
    let start = sys::now();
    while watched(&before) < 2 * 20 {
        assert!(sys::now() - start < PATIENCE, "{} watched", watched(&before));
        bench.proxy.0.turn().expect("a turn");
    }
    let spent = Ledger::here() - asked;
    let waits = spent.count(Call::epoll_wait).calls + spent.count(Call::epoll_pwait2).calls;
    assert!(waits <= 3, "{waits} waits");
    drop(held);
    bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
    let (mut asker, mut origin, _) = bench.send_request_unregistered();
    let deadline = bench.proxy.deadline().expect("a look");
    assert!(deadline < sys::now() + Duration::from_secs(1), "somebody is there to look at");
    origin.write_all(ANSWER).expect("room");
    bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
    asker.read_to_end(&mut Vec::new()).expect("an answer");
    let far = sys::now() + Duration::from_millis(500);
    assert!(bench.proxy.deadline().is_none_or(|deadline| deadline > far), "nobody to look at");
}

#[test]
fn a_blocked_response_continues_when_there_is_room() {
    let mut bench = DeferredSetup::new("");
    let (mut asker, mut origin, before) = bench.send_request_unregistered();
    let body = vec![b'x'; 16 << 20];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let sent = body.clone();
    let writer = std::thread::spawn(move || {
        origin.write_all(head.as_bytes()).expect("room");
        origin.write_all(&sent).expect("room");
    });
    // Until the client's side is full.
    bench.proxy.turn_until(|_| watched(&before) == 2);
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        asker.read_to_end(&mut answer).expect("an answer");
        answer
    });
    bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
    writer.join().expect("it has written");
    assert!(reader.join().expect("it has read").ends_with(&body));
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
