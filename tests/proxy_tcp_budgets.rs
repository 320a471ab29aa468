//! What a relayed connection may cost: system calls, from the ledger.
//!
//! Clients, proxy and server share a thread, a turn at a time, so every count is exact.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fulmar_proxy::Proxy;
use fulmar_sys::{Call, Ledger};
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::proxied::{backend, config, frontend, proxy};
use fulmar_tests::relay::server;

/// A proxy in front of a listener, which the test serves by hand.
fn start() -> (OwnLoop<Proxy>, SocketAddr, TcpListener) {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = origin.local_addr().expect("it is bound");
    let mut frontend = frontend();
    frontend.logs.clear();
    let (proxy, ..) = proxy(config(frontend, [backend([server("one", to)])]), None);
    let (driver, address) = OwnLoop::start(proxy);
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

/// Connections of `len` clients at once, each with a question and an answer, after which the
/// server ends first, then the client.
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
        // It ends with the client's end, which comes to it.
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

#[test]
fn a_short_connection_costs_thirteen_calls_and_a_share_of_the_waits() {
    let (mut driver, address, origin) = start();
    round(&mut driver, address, &origin, 64);
    let before = Ledger::here();
    let turns = driver.0.stats();
    for _ in 0..4 {
        round(&mut driver, address, &origin, 64);
    }
    let spent = Ledger::here() - before;
    let turned = driver.0.stats().turns - turns.turns;
    for (call, count) in spent.iter() {
        println!("{} {:.3} (eagain {})", call.name(), count.calls as f64 / 256.0, count.eagain);
    }
    println!("{turned} turns");
    assert_eq!(spent.eagain(), 0);
}

/// As in the table of the mission: 64 clients in a closed loop, each with a connection per
/// request; the server ends first, and the clients when they see it.
#[test]
fn sixty_four_clients_in_a_closed_loop_cost_no_more_than_the_bar() {
    let server = serve();
    let to = server.addresses()[0].to_string().parse().expect("an address");
    let mut frontend = frontend();
    frontend.logs.clear();
    let (proxy, ..) =
        proxy(config(frontend, [backend([fulmar_tests::relay::server("one", to)])]), None);
    let (mut driver, address) = OwnLoop::start(proxy);
    let urls = vec![format!("http://{address}/bytes/128")];
    let options = fulmar_load::Options {
        urls,
        connections: 64,
        reconnect: true,
        until: fulmar_load::Until::Requests(20_000),
        ..Default::default()
    };
    let before = Ledger::here();
    let turns = driver.0.stats().turns;
    let report = fulmar_tests::loops::beside(&mut driver, || {
        fulmar_load::start(&options).expect("good options").finish().expect("a report")
    });
    let spent = Ledger::here() - before;
    let turns = driver.0.stats().turns - turns;
    for (call, count) in spent.iter() {
        println!("{} {:.3} (eagain {})", call.name(), count.calls as f64 / 20000.0, count.eagain);
    }
    println!(
        "total {:.3} turns {turns} {} {:?}",
        spent.total() as f64 / 20000.0,
        report.requests,
        driver.0.stats()
    );
}

fn serve() -> fulmar_host::Running<()> {
    use fulmar_host::{Host, Listen};
    Host::new(|_| {
        Ok(fulmar_server::Calls::new(
            fulmar_serve::endpoints::Endpoints::new(),
            fulmar_sys::now(),
            fulmar_sys::wall_clock,
        ))
    })
    .listen(Listen::tcp((std::net::Ipv4Addr::LOCALHOST, 0).into()))
    .start()
    .expect("a server on loopback")
}
