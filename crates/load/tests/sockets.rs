//! Whole runs over real sockets, against a server made of std threads.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use fulmar_drive::Driver;
use fulmar_load::{LoadError, LoadProtocol, Options, RunReport, RunUntil};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// A server on a port of its own, for as long as the test lives.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut closes = false;
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        closes |= line.eq_ignore_ascii_case("connection: close\r\n");
        if line == "\r\n" {
            let _ = stream.write_all(if closes { LAST } else { ANSWER });
            if closes {
                return;
            }
        }
    }
}

fn run(address: SocketAddr, change: impl FnOnce(&mut Options)) -> RunReport {
    let urls = vec![format!("http://{address}/a"), format!("http://{address}/b?c")];
    let mut options =
        Options { urls, connections: 8, until: RunUntil::Requests(5_000), ..Options::default() };
    change(&mut options);
    fulmar_load::start(&options).unwrap().finish().unwrap()
}

#[test]
fn no_time_is_too_long() {
    let forever = |o: &mut Options| {
        (o.timeout, o.until) = (Duration::MAX, RunUntil::Requests(20));
    };
    assert_eq!(run(server(), forever).requests, 20);
}

#[test]
fn a_request_is_one_receive_and_one_send() {
    // A ring does many of them in one call.
    let report = run(server(), |o| o.loop_options.driver = Driver::Epoll);
    assert_eq!((report.requests, report.errors_total()), (5_000, 0), "{}", report.text());
    assert_eq!((report.connections.established, report.connections.opened), (8, 8));
    let calls = |name| report.syscalls.get(name).copied().unwrap_or_default();
    assert_eq!(calls("send").calls, 5_000);
    assert_eq!(calls("send").eagain, 0);
    // A connection may be reported writable before it can be read: a receive too many, at most.
    assert!((5_000..=5_008).contains(&calls("recv").calls), "{:?}", report.syscalls);
    assert!(calls("recv").eagain <= 8);
    assert_eq!(calls("epoll_ctl").calls, 8);
    assert!(report.turns.clock_reads <= 2 * report.turns.turns + 2, "{:?}", report.turns);
    assert!(report.ledger_text().contains("recv"), "{}", report.ledger_text());
}

#[test]
fn threads_pipelining_rates_and_new_connections() {
    let address = server();
    for pipelined in [1, 16] {
        let protocol = LoadProtocol::Http1 { pipelined };
        let report = run(address, |o| (o.threads, o.protocol) = (2, protocol));
        assert_eq!((report.requests, report.errors_total()), (5_000, 0), "{}", report.text());
    }
    let report = run(address, |o| (o.reconnect, o.until) = (true, RunUntil::Requests(300)));
    assert_eq!((report.requests, report.errors_total()), (300, 0), "{}", report.text());
    assert!(report.connections.opened >= 300);
    let report = run(address, |o| {
        (o.rate, o.threads) = (Some(1_000), 2);
        o.until = RunUntil::Elapsed(Duration::from_secs(1));
        o.bind = "127.0.0.2-127.0.0.5".parse().unwrap();
    });
    // What a busy machine keeps it from sending in time is not sent.
    assert!((500..=1_000).contains(&report.requests), "{}", report.text());
    assert!(report.rate.is_some() && report.raw_latency_us.is_some());
}

#[test]
fn a_run_can_be_stopped_and_watched() {
    let urls = vec![format!("http://{}/", server())];
    let until = RunUntil::Elapsed(Duration::from_secs(600));
    let options = Options { urls, connections: 2, until, ..Options::default() };
    let running = fulmar_load::start(&options).unwrap();
    while running.progress().requests == 0 || running.progress().connections < 2 {
        thread::yield_now();
    }
    assert_eq!(running.progress().errors, 0);
    running.stopper().stop();
    let report = running.finish().unwrap();
    assert!(report.requests > 0 && report.duration_s < 300.0, "{}", report.text());
}

#[test]
fn a_closed_port_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A connection of its keeps the port from being given to others.
    let _holders = (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
    drop(listener);
    let urls = vec![format!("http://{address}/")];
    let options = Options { urls, threads: 2, ..Options::default() };
    let error = fulmar_load::start(&options).unwrap().finish().unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
