//! The memory that one client can make a server keep, counted by the allocator of the server's
//! thread.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use fulmar_proto::h1::UNREAD_MAX;
use fulmar_proto::{BodyLen, Connection, Event, Headers, Response, Server, ServerConnection};
use fulmar_server::{ExchangeContext, Limits, ServerApp, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tests::app;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, client};
use fulmar_tests::tls_end::TlsPeer;
use fulmar_tls::ClientTls;

/// Keeps every byte of every body, and releases none.
#[derive(Debug, Default)]
struct Hoarder {
    kept: Vec<Bytes>,
}

impl ServerApp for Hoarder {
    type Data = ();
    type Message = Infallible;

    fn handle(
        &mut self,
        _: &mut ExchangeContext,
        reply: &mut ServerConnection,
        (): &mut (),
        event: Event<'_, Server>,
    ) {
        match event {
            Event::Data { bytes, .. } => self.kept.push(bytes),
            Event::End { stream, .. } => {
                let head = Response::new(204, Headers::EMPTY);
                reply.send_head(stream, head, BodyLen::Empty).expect("the first answer");
                reply.send_end(stream, Headers::EMPTY).expect("it is complete");
            }
            _ => {}
        }
    }
}

/// A server with the least memory for each connection.
fn limits() -> Limits {
    Limits { connection_memory_max: MEMORY, ..Limits::default() }
}

fn start<A: ServerApp>(engine: ServerEngine<A>) -> (OwnLoop<ServerEngine<A>>, SocketAddr) {
    OwnLoop::start(engine)
}

fn hoarder() -> (OwnLoop<ServerEngine<Hoarder>>, SocketAddr) {
    let mut engine = ServerEngine::new(sys::now(), Hoarder::default(), limits(), Stop::new());
    engine.add_listener(LISTENER, None);
    engine.application_mut().kept.reserve(100_000);
    start(engine)
}

/// The allocations of the server's thread while peers in another one run, and the peers' result.
fn turn_while<A: ServerApp, T: Send>(
    server: &mut OwnLoop<ServerEngine<A>>,
    peers: impl FnOnce() -> T + Send,
) -> (AllocationInfo, T) {
    std::thread::scope(|scope| {
        let peers = scope.spawn(peers);
        let spent = measure(|| {
            server.turn_until(|_| peers.is_finished());
            turns(server); // pending events
        });
        (spent, peers.join().expect("the peers' assertions hold"))
    })
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// Sends until the buffers are full.
fn flood(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a good time");
    for _ in 0..100_000 {
        match stream.write(bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("somebody takes everything");
}

fn tls_server() -> (OwnLoop<ServerEngine<app::App>>, SocketAddr, ClientTls) {
    let certs = Certs::new();
    let tls = https::http1_tls(&certs);
    let (server, address) =
        start(https::server(https::server_tls(&certs, CertOwner::Server), limits()));
    (server, address, tls)
}

/// The least limit there is.
const MEMORY: usize = 384 * 1024;
/// The maximum of unread, released and queued bytes of a client.
const SHARE: u64 = MEMORY as u64 / 4;
/// Bookkeeping, and the buffers of a layer.
const REST: u64 = 8 * 1024;
/// The blocks of a thread beside its connections: one for input, and those for TLS.
const BLOCKS: u64 = (256 + 64 + 256) * 1024;
/// Blocks of which a share is kept.
const SHARED: u64 = 4 * 256 * 1024;
const CLIENTS: usize = 6;

/// A bound for each client and for the thread, and a minimum that shows that something was tested.
fn assert_bounded(spent: &AllocationInfo, each: u64, thread: u64) {
    let (least, most) = (CLIENTS as u64 * each / 4, CLIENTS as u64 * (each + REST) + thread);
    assert!((least..=most).contains(&spent.bytes_max), "{spent:?}: not {least} to {most}");
}

/// A few turns, in which all wanted bytes are received.
fn turn<A: ServerApp>(server: &mut OwnLoop<ServerEngine<A>>) -> AllocationInfo {
    measure(|| turns(server))
}

fn turns<A: ServerApp>(server: &mut OwnLoop<ServerEngine<A>>) {
    for _ in 0..50 {
        server.turn(Duration::from_millis(1));
    }
}

#[test]
fn pipelined_requests_behind_a_pending_one_are_limited() {
    let (mut server, address) = start(app::server(limits()));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| client(address)).collect();
    for stream in &mut clients {
        stream.write_all(get("/idle").as_bytes()).expect("room");
        flood(stream, get("/bytes/1").repeat(1_000).as_bytes());
    }
    let spent = turn(&mut server);
    assert_eq!(server.engine().application().requests(), CLIENTS as u64);
    assert_bounded(&spent, UNREAD_MAX as u64, 256 * 1024);
}

#[test]
fn pipelined_requests_over_tls_are_limited() {
    let (mut server, address, tls) = tls_server();
    let (_, mut clients) = turn_while(&mut server, || {
        (0..CLIENTS).map(|_| TlsPeer::establish(&tls, address)).collect::<Vec<_>>()
    });
    let (spent, _clients) = turn_while(&mut server, || {
        for peer in &mut clients {
            let mut records = peer.seal(get("/idle").as_bytes());
            for _ in 0..100 {
                records.extend(peer.seal(get("/bytes/1").repeat(300).as_bytes()));
            }
            peer.stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a time");
            let _ = peer.stream.write_all(&records); // as much as the kernel has room for
        }
        clients
    });
    assert_eq!(server.engine().application().requests(), CLIENTS as u64);
    assert_bounded(&spent, UNREAD_MAX as u64 + 32 * 1024, 256 * 1024); // a record is open
}

#[test]
fn an_unread_response_is_not_sealed_ahead() {
    let (mut server, address, tls) = tls_server();
    let (spent, clients) = turn_while(&mut server, || {
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| TlsPeer::establish(&tls, address)).collect();
        for peer in &mut clients {
            let request = peer.seal(get("/bytes/100000000").as_bytes());
            peer.stream.write_all(&request).expect("room");
        }
        // Some bytes arrive, and reading stops.
        for peer in &mut clients {
            peer.stream.read_exact(&mut [0; 1_000]).expect("a beginning");
        }
        clients
    });
    assert_bounded(&spent, SHARE / 2, BLOCKS + SHARED / 2); // all of them seal in one turn
    drop(clients);
}

/// A body in memory is not copied for a client that does not read it.
#[test]
fn an_unread_response_is_not_copied() {
    let (mut server, address) = start(app::server(limits()));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| client(address)).collect();
    for stream in &mut clients {
        stream.write_all(get("/bytes/100000000").as_bytes()).expect("room");
    }
    let spent = turn(&mut server);
    assert_eq!(server.engine().application().requests(), CLIENTS as u64);
    assert!(spent.bytes_max < 256 * 1024 + CLIENTS as u64 * 4_096, "{spent:?}");
}

/// Bodies that an application keeps: their bytes, and a few blocks of the thread.
#[test]
fn unreleased_bodies_stop_the_receive() {
    for chunked in [false, true] {
        let (mut server, address) = hoarder();
        let (spent, clients) = turn_while(&mut server, || {
            let mut clients: Vec<_> = (0..CLIENTS).map(|_| client(address)).collect();
            for stream in &mut clients {
                let framing = if chunked {
                    "Transfer-Encoding: chunked"
                } else {
                    "Content-Length: 1000000000"
                };
                let head = format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n");
                stream.write_all(head.as_bytes()).expect("room");
                let chunk = [b"2000\r\n", &[b'x'; 0x2000][..], b"\r\n"].concat();
                flood(stream, &chunk);
            }
            clients
        });
        let kept: usize = server.engine().application().kept.iter().map(Bytes::len).sum();
        assert!(kept <= CLIENTS * MEMORY / 2, "{kept}");
        assert_bounded(&spent, 3 * SHARE, BLOCKS + SHARED);
        drop(clients);
    }
}

/// Single bytes to an application that keeps each of them: no byte keeps a block.
#[test]
fn a_kept_byte_does_not_keep_its_block() {
    let (mut server, address) = hoarder();
    let mut stream = client(address);
    stream.set_nodelay(true).expect("a TCP socket");
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("room");
    server.turn_until(|server| server.engine().connections() == 1);
    let spent = measure(|| {
        for n in 1..=2_000 {
            stream.write_all(b"x").expect("room");
            server.turn_until(|server| server.engine().application().kept.len() == n);
        }
    });
    assert!(spent.bytes_max <= BLOCKS + SHARED + 2_000 * 64, "{spent:?}");
    assert!(spent.bytes_total <= BLOCKS + SHARED + 2_000 * 64, "{spent:?}");
}

#[test]
fn a_kept_byte_does_not_keep_its_tls_record() {
    let certs = Certs::new();
    let tls = https::http1_tls(&certs);
    let server_tls = https::server_tls(&certs, CertOwner::Server);
    let mut engine = ServerEngine::new(sys::now(), Hoarder::default(), limits(), Stop::new());
    engine.add_listener(LISTENER, Some(https::layers(server_tls)));
    engine.application_mut().kept.reserve(100_000);
    let (mut server, address) = start(engine);
    let (_, mut peer) = turn_while(&mut server, || TlsPeer::establish(&tls, address));
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    let records = peer.seal(head.as_bytes());
    peer.stream.write_all(&records).expect("room");
    // Records that arrive together are opened into one block, one after the other.
    for burst in [1, 50] {
        let before = server.engine().application().kept.len();
        let mut spent = 0;
        for n in 1..=1_000 / burst {
            let records: Vec<u8> = (0..burst).flat_map(|_| peer.seal(b"x")).collect();
            peer.stream.write_all(&records).expect("room");
            let all = before + n * burst;
            let info = measure(|| {
                server.turn_until(|server| server.engine().application().kept.len() >= all);
            });
            spent += info.bytes_max;
        }
        assert!(spent <= BLOCKS + SHARED + 1_000 * 1_024, "{spent} for bursts of {burst}");
    }
}

/// For any cut of a head, and any length of the bytes behind it, nothing is copied repeatedly.
#[test]
fn small_pieces_cost_their_size() {
    let (mut server, address, tls) = tls_server();
    let (_, mut peer) = turn_while(&mut server, || TlsPeer::establish(&tls, address));
    let head = format!("GET /bytes/1?{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(6_000));
    let records: Vec<u8> = head.bytes().flat_map(|byte| peer.seal(&[byte])).collect();
    let spent = measure(|| {
        for records in records.chunks(100) {
            peer.stream.write_all(records).expect("room");
            server.turn(Duration::from_millis(5));
        }
        server.turn_until(|server| server.engine().application().requests() == 1);
    });
    assert!(spent.bytes_total < 1_000_000, "{spent:?}: quadratic would be 18 MB");

    let (mut server, address) = start(app::server(Limits::default()));
    let mut stream = client(address);
    let request = format!("GET /delay/0?{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(400));
    stream.write_all(request.repeat(300).as_bytes()).expect("room");
    let spent = measure(|| {
        server.turn_until(|server| server.engine().application().requests() == 300);
    });
    assert!(spent.bytes_total < 3_000_000, "{spent:?}: quadratic would be 20 MB");
}
