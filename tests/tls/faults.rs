//! Peers that mean harm to a server's TLS, or that stop in the middle of it: over real sockets in
//! every kind of loop, and by hand in virtual time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, DriverEvent, Engine, SocketEvent, SocketId};
use fulmar_proto::Input;
use fulmar_server::{Limits, ServerEngine};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::app::App;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{self, Https, client_tls, http1_tls, server_tls};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{LISTENER, Loop, client, polling};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::tls_end::{TlsEnd, TlsPeer};
use fulmar_tls::{TlsError, Version};

/// The first bytes of a client.
fn hello(certs: &Certs) -> Vec<u8> {
    TlsEnd::new(http1_tls(certs).session("localhost").expect("a name")).take()
}

/// The bytes of the server until it closes.
fn rest<L: Loop>(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // If a byte is read at a time, the unread rest resets the connection.
        Err(error) => {
            assert!(L::SLOWER > 1 && error.kind() == ErrorKind::ConnectionReset, "{error}");
        }
    }
    bytes
}

#[test]
fn non_tls_input_gets_an_alert_or_a_response_and_the_end() {
    fn check<L: Loop<Engine = ServerEngine<App>>>() {
        let certs = Certs::new();
        let (mut server, address) =
            L::start(https::server(server_tls(&certs, CertOwner::Server), Limits::default()));
        for words in [
            &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", // a hello of SSL 2
            b"\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\x17\x03\x03\x00\x05data!",            // without a session
            b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", // a server's hello
            b"\x16\x03\x01\x00\x00",                 // nothing in it
            b"\x16\x03\x01\x48\x01",                 // longer than a record may be
        ] {
            let mut stream = client(address);
            stream.write_all(words).expect("room");
            let before = server.stats().accepted;
            server.turn_until(|server| {
                let accepted = server.stats().accepted;
                accepted > before && server.engine().connections() == 0
            });
            let said = rest::<L>(&mut stream);
            let is_http = [&b"GET"[..], b"PRI"].iter().any(|method| words.starts_with(method));
            let expected = if is_http { &b"HTTP/1.1 400 Bad Request\r\n"[..] } else { &ALERT };
            let len = said.len().min(expected.len());
            assert_eq!(said[..len], expected[..len], "{words:?}: {said:?}");
            if is_http && L::SLOWER == 1 {
                let text = String::from_utf8(said).expect("plain text");
                assert!(text.ends_with("The plain HTTP request was sent to an HTTPS port.\r\n"));
            } else if words.starts_with(b"SSH") && L::SLOWER == 1 {
                assert_eq!(said.len(), 7, "a fatal alert");
            }
        }
        assert_eq!(server.engine().application().requests(), 0);
    }
    in_every_loop!(check);
}

/// The beginning of a fatal alert.
const ALERT: [u8; 5] = [21, 3, 3, 0, 2];

/// Row 48, and where libmicrohttpd spins: clients that stop in the middle cost no calls.
#[test]
fn a_client_that_stalls_in_its_handshake_costs_nothing() {
    fn check<L: Loop<Engine = ServerEngine<App>>>() {
        let certs = Certs::new();
        // Longer than everything before the check.
        let limits = Limits { handshake_timeout: 10 * PATIENCE, ..Limits::default() };
        let (mut server, address) =
            L::start(https::server(server_tls(&certs, CertOwner::Server), limits));
        let hello = hello(&certs);
        let lengths = [0, 1, 4, 5, 6, 9, 100, hello.len() - 1, hello.len()];
        let stalled: Vec<_> = lengths
            .iter()
            .map(|len| {
                let mut stream = client(address);
                stream.write_all(&hello[..*len]).expect("room");
                stream
            })
            .collect();
        let mut received = 0;
        let mut good = TlsPeer::connect(&http1_tls(&certs), address);
        server.turn_until(|_| {
            good.turn();
            good.end.established
        });
        good.get("/bytes/10");
        server.turn_until(|_| {
            good.turn();
            good.answers() == 1
        });
        drop(good); // its end is handled, too
        server.turn_until(|server| server.engine().connections() == stalled.len());
        let mut quiet = 0;
        server.turn_until(|_| {
            let heard = Ledger::here().count(Call::recv).calls;
            let more = std::mem::replace(&mut received, heard) != heard;
            quiet = if more { 0 } else { quiet + 1 };
            quiet == 5 // all their bytes were read
        });

        let before = Ledger::here();
        for _ in 0..5 {
            server.turn(Duration::from_millis(20));
        }
        let spent = Ledger::here() - before;
        let waits = [Call::epoll_wait, Call::epoll_pwait2, Call::poll];
        let waits = waits.map(|call| spent.count(call).calls).iter().sum::<u64>();
        assert!(waits <= 5, "one for each turn that the test asked for: {waits}");
        assert_eq!(spent.total() - polling(&spent), waits, "and nothing for those who stall");
        let left = server.deadline().expect("theirs") - sys::now();
        assert!(left > Duration::from_secs(10), "nobody wakes up before: {left:?}");
        assert_eq!(server.engine().connections(), stalled.len());
    }
    in_every_loop!(check);
}

#[test]
fn a_handshake_must_end_in_its_time() {
    fn check<L: Loop<Engine = ServerEngine<App>>>() {
        let certs = Certs::new();
        let limit = Duration::from_millis(60);
        let limits = Limits { handshake_timeout: limit, ..Limits::default() };
        let (mut server, address) =
            L::start(https::server(server_tls(&certs, CertOwner::Server), limits));
        let hello = hello(&certs);
        let begin = sys::now();
        let mut peers: Vec<_> = (0..20).map(|_| client(address)).collect();
        // Every byte arrives, one after the other: the deadline does not restart.
        let mut bytes = hello[..hello.len() - 1].iter();
        server.turn_until(|server| {
            let accepted = server.stats().accepted == 20;
            if let Some(byte) = bytes.next() {
                for peer in &mut peers {
                    let _gone_or_not = peer.write(&[*byte]);
                }
            }
            accepted && server.engine().connections() == 0
        });
        assert!(sys::now() - begin >= limit);
        assert_eq!(server.engine().application().handler().gone(), 20);
    }
    in_every_loop!(check);
}

/// The engine alone, in virtual time.
#[test]
fn the_deadline_of_a_handshake_is_one_for_all_of_it() {
    let certs = Certs::new();
    let mut engine = https::server(server_tls(&certs, CertOwner::Server), Limits::default());
    let start = sys::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
    let socket =
        engine.accept(at(0), Accepted { listener: LISTENER, peer, local: None }).expect("a place");
    let hello = hello(&certs);
    let mut wire = BytesMut::new();
    for (seconds, piece) in (1..).zip(hello.chunks(hello.len() / 18)) {
        wire.extend_from_slice(piece);
        engine.handle(at(seconds), SocketEvent::Input(Input::all(&mut wire, false)).of(socket));
        engine.handle(at(seconds), DriverEvent::Timeout);
    }
    assert!(wire.is_empty(), "the whole hello was taken");
    assert!(engine.poll_transmit(socket).is_some(), "and answered");
    engine.handle(start + Duration::from_millis(19_900), DriverEvent::Timeout);
    assert_eq!(engine.connections(), 1);
    engine.handle(start + Duration::from_millis(20_100), DriverEvent::Timeout);
    assert_eq!(engine.connections(), 0);
    assert_eq!(engine.application().handler().gone(), 1);
}

#[test]
fn unfinished_handshakes_do_not_block_others() {
    let certs = Certs::new();
    let limits = Limits { connections_max: 300, ..Limits::default() };
    let mut engine = https::server(server_tls(&certs, CertOwner::Server), limits);
    let start = sys::now();
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
    let mut hello = BytesMut::from(&hello(&certs)[..100]);
    let all: Vec<SocketId> = std::iter::from_fn(|| {
        let room = engine.connections() < limits.connections_max;
        room.then(|| {
            engine
                .accept(start, Accepted { listener: LISTENER, peer, local: None })
                .expect("a place")
        })
    })
    .collect();
    let accepts = |engine: &mut ServerEngine<App>| {
        std::iter::from_fn(|| engine.poll_action()).find_map(|action| match action {
            Action::Accept { on, .. } => Some(on),
            _ => None,
        })
    };
    assert_eq!(accepts(&mut engine), Some(false), "the kernel keeps the others");
    for socket in &all {
        engine.handle(start, SocketEvent::Input(Input::all(&mut hello, false)).of(*socket));
        assert_eq!(hello.len(), 100, "what is half stays with the driver");
    }
    engine
        .handle(start + limits.handshake_timeout + Duration::from_millis(10), DriverEvent::Timeout);
    assert_eq!(engine.connections(), 0);
    assert_eq!(accepts(&mut engine), Some(true), "now they come");
}

#[test]
fn a_hello_without_end_is_refused_while_it_is_small() {
    let certs = Certs::new();
    let announced = [1, 0, 0xf0, 0]; // a ClientHello of 61,440 bytes
    let filler = std::iter::repeat_n(7, 61_440);
    let bytes: Vec<u8> = announced.into_iter().chain(filler).collect();
    for piece in [1, 2, 100, 16_384] {
        let mut end =
            TlsEnd::new(server_tls(&certs, CertOwner::Server).session().expect("a session"));
        let mut taken = 0;
        let error = bytes.chunks(piece).find_map(|content| {
            let len = u16::try_from(content.len()).expect("a record").to_be_bytes();
            end.wire.extend_from_slice(&[22, 3, 1, len[0], len[1]]);
            end.wire.extend_from_slice(content);
            taken = end.wire.len();
            end.open().err()
        });
        let error = error.unwrap_or_else(|| panic!("it is taken in pieces of {piece}"));
        assert_eq!(error.downcast_ref(), Some(&TlsError::HelloTooLarge));
        assert!(taken <= 16 * 1024 + piece + 5 + 4, "{taken} in pieces of {piece}");
        assert_eq!(end.take(), [21, 3, 3, 0, 2, 2, 47], "a fatal illegal_parameter");
    }
}

#[test]
fn a_hello_in_the_smallest_records_is_accepted() {
    let certs = Certs::new();
    let (client, server) = (http1_tls(&certs), server_tls(&certs, CertOwner::Server));
    let mut client = TlsEnd::new(client.session("localhost").expect("a name"));
    let mut server = TlsEnd::new(server.session().expect("a session"));
    for byte in &client.take()[5..] {
        server.wire.extend_from_slice(&[22, 3, 1, 0, 1, *byte]);
        server.open().expect("a part of a hello");
    }
    while !(client.established && server.established) {
        client.wire.extend_from_slice(&server.take());
        client.open().expect("a hello");
        server.wire.extend_from_slice(&client.take());
        server.open().expect("the rest");
    }
    assert_eq!(server.info().version, Version::Tls13);
}

/// The response of a server to `wire`, which arrives in pieces as `cut` decides, and the result.
fn answer(
    server: &fulmar_tls::ServerTls,
    wire: &[u8],
    mut cut: impl FnMut(usize) -> usize,
) -> (Option<TlsError>, usize) {
    let mut end = TlsEnd::new(server.session().expect("a session"));
    let mut error = None;
    let mut left = wire;
    while error.is_none() && !end.eof {
        let (piece, rest) = left.split_at(cut(left.len()));
        end.wire.extend_from_slice(piece);
        end.eof = rest.is_empty();
        left = rest;
        error = end.open().err();
    }
    assert!(!end.established, "nobody agreed to anything");
    let error = error.map(|error| *error.downcast::<TlsError>().expect("an error of TLS"));
    (error, end.take().len())
}

#[test]
fn any_garbage_is_refused_alike_in_any_split() {
    let certs = Certs::new();
    let server = server_tls(&certs, CertOwner::Server);
    let hello = hello(&certs);
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut wire = Vec::new();
        if seed % 2 == 0 {
            wire.clone_from(&hello);
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..wire.len());
                wire[at] = random.u8(..);
            }
        }
        for _ in 0..random.usize(1..6) {
            let content: Vec<u8> = (0..random.usize(..300)).map(|_| random.u8(..)).collect();
            let len = u16::try_from(content.len()).expect("short").to_be_bytes();
            wire.extend_from_slice(&[random.u8(19..26), 3, random.u8(..5), len[0], len[1]]);
            wire.extend_from_slice(&content);
        }
        let whole = answer(&server, &wire, |n| n);
        assert!(whole.0.is_some(), "seed {seed}: it ends in the middle of a handshake");
        let bytes = answer(&server, &wire, |_| 1);
        let pieces = answer(&server, &wire, |n| random.usize(1..=n));
        for (error, said) in [bytes, pieces] {
            assert_eq!(error, whole.0, "seed {seed}");
            assert!(said.abs_diff(whole.1) <= 4, "seed {seed}: a signature varies by so much");
        }
    }
}

#[test]
fn a_server_that_is_cut_off_in_the_handshake_ends_without_noise() {
    fn check<L: Loop<Engine = ServerEngine<App>>>() {
        let certs = Certs::new();
        let (mut server, address) =
            L::start(https::server(server_tls(&certs, CertOwner::Server), Limits::default()));
        let hello = hello(&certs);
        for (round, len) in [0, 3, 200, hello.len()].into_iter().enumerate() {
            let mut stream = client(address);
            stream.write_all(&hello[..len]).expect("room");
            drop(stream); // unread bytes reset the connection
            server.turn_until(|server| {
                server.engine().application().handler().gone() == round as u64 + 1
                    && server.engine().connections() == 0
            });
        }
    }
    in_every_loop!(check);
}

#[test]
fn garbage_after_a_handshake_ends_that_connection_alone() {
    fn check<L: Loop<Engine = ServerEngine<App>>>() {
        let certs = Certs::new();
        let (mut server, address) =
            L::start(https::server(server_tls(&certs, CertOwner::Server), Limits::default()));
        let mut peers: Vec<_> =
            (0..2).map(|_| TlsPeer::connect(&http1_tls(&certs), address)).collect();
        server.turn_until(|_| {
            peers.iter_mut().for_each(TlsPeer::turn);
            peers.iter().all(|peer| peer.end.established)
        });
        // A hello in the clear, where everything is encrypted.
        let mut bad = peers.pop().expect("two");
        bad.stream.write_all(&hello(&certs)).expect("room");
        server.turn_until(|server| server.engine().connections() == 1);
        let good = &mut peers[0];
        good.get("/bytes/10");
        server.turn_until(|_| {
            good.turn();
            good.answers() == 1
        });
    }
    in_every_loop!(check);
}

/// A client that chose HTTP/2 by ALPN has to speak it (RFC 9113 §3.2).
#[test]
fn http1_over_a_session_for_http2_is_a_protocol_error() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let mut peer = TlsPeer::establish(&client_tls(&certs), server.address);
    peer.get("/bytes/7");
    let request = peer.end.take();
    peer.stream.write_all(&request).expect("room");
    while !peer.end.ended {
        peer.receive();
    }
    let received = &peer.end.above[..];
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert!(received.ends_with(&goaway), "GOAWAY with PROTOCOL_ERROR: {received:?}");
}
