//! Urgent data (RFC 9293 §3.8.5): a receive stops in front of its mark, and nothing behind it is
//! lost.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use fulmar_proxy::Proxy;
use fulmar_sys::{Call, Ledger};
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;
use rustix::net::{SendFlags, send};

/// The bytes that a server receives from a client that sends these, each followed by an urgent byte
/// but for the last, before the proxy reads; the client then shuts down its sending side if `ends`.
fn relayed(parts: &[&[u8]], ends: bool) -> Vec<u8> {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = origin.local_addr().expect("it is bound");
    let (engine, ..) = proxy(config(frontend(), [backend([server("one", to)])]), None);
    let (mut driver, address): (OwnLoop<Proxy>, _) = OwnLoop::start(engine);
    let mut stream = client(address);
    // It is established and registered, and has no bytes yet.
    stream.write_all(b"hello").expect("room");
    driver.turn_until(|proxy| proxy.engine().clients() == 1);
    let (mut at_server, _) = origin.accept().expect("a connection");
    at_server.set_nonblocking(true).expect("a socket");
    let mut heard = Vec::new();
    let mut hear = |driver: &mut OwnLoop<Proxy>, want: usize| {
        let mut bytes = [0; 256];
        driver.turn_until(|_| {
            let len = at_server.read(&mut bytes).unwrap_or(0);
            heard.extend_from_slice(&bytes[..len]);
            heard.len() >= want
        });
        heard.clone()
    };
    hear(&mut driver, 5);
    let (last, before) = parts.split_last().expect("a part");
    for part in before {
        stream.write_all(part).expect("room");
        send(&stream, b"!", SendFlags::OOB).expect("room");
    }
    stream.write_all(last).expect("room");
    if ends {
        stream.shutdown(Shutdown::Write).expect("it is open");
    }
    let ledger = Ledger::here();
    let all = hear(&mut driver, 5 + parts.concat().len());
    assert!((Ledger::here() - ledger).count(Call::recv).calls < 20, "no endless reads");
    drop(stream);
    all[5..].to_vec()
}

#[test]
fn bytes_behind_urgent_data_arrive() {
    for ends in [false, true] {
        assert_eq!(relayed(&[b"before", b"behind"], ends), b"beforebehind");
        assert_eq!(relayed(&[b"", b"behind"], ends), b"behind");
    }
}
