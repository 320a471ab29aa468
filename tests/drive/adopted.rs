//! Connections that the application accepted itself or inherited: in every loop.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fulmar_server::{Limits, ServerEngine};
use fulmar_tests::app::{App, server};
use fulmar_tests::loops::{Loop, turn_while};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::tests_in_every_loop;

/// A connection from elsewhere: the client's end, and ours in the engine. `says` was sent before.
fn adopted<L: Loop>(driver: &mut L, says: &[u8]) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(says).unwrap();
    let (ours, peer) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    driver.adopt(ours.into(), peer);
    client
}

fn answer<L: Loop>(driver: &mut L, client: &mut TcpStream) {
    turn_while(driver, || {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n012") {
            let mut bytes = [0; 512];
            let n = client.read(&mut bytes).unwrap();
            assert!(n > 0, "the connection is kept");
            text.extend_from_slice(&bytes[..n]);
        }
    });
}

fn earlier_bytes_are_processed_without_an_event<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, _) = L::start(server(Limits::default()));
    driver.kick(); // its first deadline is set
    let mut client = adopted(&mut driver, REQUEST);
    let now = fulmar_sys::now();
    assert!(
        driver.deadline().is_some_and(|deadline| deadline <= now),
        "the next turn does not wait"
    );
    answer(&mut driver, &mut client);
    client.write_all(REQUEST).unwrap();
    answer(&mut driver, &mut client);
    drop(client);
    driver.turn_until(|driver| driver.engine().connections() == 0);
}

fn a_connection_that_is_silent_at_first_is_served<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, _) = L::start(server(Limits::default()));
    driver.kick();
    let mut client = adopted(&mut driver, b"");
    driver.turn(Duration::ZERO);
    driver.turn(Duration::from_millis(1));
    assert_eq!(driver.engine().connections(), 1);
    client.write_all(REQUEST).unwrap();
    answer(&mut driver, &mut client);
}

tests_in_every_loop!(at_any_pace: [
    earlier_bytes_are_processed_without_an_event,
    a_connection_that_is_silent_at_first_is_served,
]);

const REQUEST: &[u8] = b"GET /bytes/3 HTTP/1.1\r\nHost: h\r\n\r\n";
