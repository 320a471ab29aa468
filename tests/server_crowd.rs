//! Thousands of clients at once: those that are slow, and those that have gone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fulmar_sys as sys;
use fulmar_tests::http::Client;
use fulmar_tests::process::{Serve, eventually};
use fulmar_tests::tree::Tree;
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// As many as asked for, or as this machine lets two processes have.
fn crowd(wanted: u64) -> usize {
    let allowed = sys::raise_descriptors().expect("a limit").now;
    usize::try_from(wanted.min(allowed.saturating_sub(2_000))).expect("some")
}

fn connect(serve: &Serve, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(serve.address).expect("somebody listens");
    stream.write_all(bytes.as_bytes()).expect("room");
    stream
}

/// A third never ends its head, a third its body, and a third does not take its answer.
fn slow(serve: &Serve, at: usize) -> TcpStream {
    match at % 3 {
        0 => connect(serve, "GET /bytes/1 HTTP/1.1\r\nHost: h\r\nX-Slow: "),
        1 => connect(serve, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx"),
        _ => {
            let stream = connect(serve, "GET /bytes/100000000 HTTP/1.1\r\nHost: h\r\n\r\n");
            set_socket_recv_buffer_size(&stream, 4_096).expect("a socket");
            stream.set_nonblocking(true).expect("a socket");
            stream
        }
    }
}

/// Somebody sends or takes a byte.
fn dribble(stream: &mut TcpStream, at: usize) {
    let _ = match at % 3 {
        2 => stream.read(&mut [0]), // perhaps there is none yet
        _ => stream.write(b"x"),
    };
}

/// The latency that all but one in a hundred are below, of as many exchanges as there is time for.
fn p99(client: &mut Client, time: Duration, mut between: impl FnMut(usize)) -> Duration {
    let (start, mut all) = (sys::now(), Vec::new());
    while sys::now() - start < time {
        between(all.len());
        let asked: Instant = sys::now();
        assert_eq!(client.get("/bytes/128").body.len(), 128);
        all.push(sys::now() - asked);
    }
    all.sort_unstable();
    all[all.len() * 99 / 100]
}

#[test]
fn slow_clients_are_in_nobodys_way() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let count = crowd(10_000);
    let mut crowd: Vec<_> = (0..count).map(|at| slow(&serve, at)).collect();
    let mut client = Client::connect(serve.address);
    client.get("/bytes/128");
    // Everybody has been heard once the server has nothing to do any more.
    eventually("silence", || {
        let before = client.ledger();
        std::thread::park_timeout(Duration::from_millis(50));
        client.ledger().since(&before).total() <= QUIET
    });
    assert!(serve.process.descriptors() > count, "all of them are connected");

    // As long as they are silent, they cost nothing at all: no call, no time.
    let (before, ticks) = (client.ledger(), serve.process.cpu_ticks());
    client.socket().set_read_timeout(Some(Duration::from_secs(1))).expect("a good time");
    client.read_head().expect_err("nothing was asked for");
    client.socket().set_read_timeout(Some(Duration::from_secs(10))).expect("a good time");
    let (spent, ticks) = (client.ledger().since(&before), serve.process.cpu_ticks() - ticks);
    assert!(spent.total() <= QUIET && ticks <= 3, "{spent:?}, {ticks} ticks");

    // Then each of them does something about once a second, while others want to be served. A
    // machine that does something else meanwhile may spoil one measurement, but not all.
    let mut next = 0;
    let served = |_| {
        let latency = p99(&mut client, Duration::from_secs(1), |_| {
            for _ in 0..10 {
                dribble(&mut crowd[next % count], next);
                next += 1;
            }
        });
        eprintln!("p99 {latency:?} beside {count} slow clients");
        latency < Duration::from_millis(50)
    };
    assert!((0..5).any(served), "a well-behaved client waits for slow ones");
    assert!(next > count, "each of them was heard");
}

/// A crowd costs little while it is there, and nothing when it has left.
#[test]
fn a_crowd_that_left_has_given_its_memory_back() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let resident = || {
        let path = format!("/proc/{}/statm", serve.process.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let pages: usize = text.split(' ').nth(1).expect("proc(5)").parse().expect("a number");
        pages * 4_096
    };
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /bytes/3000 HTTP/1.1\r\nHost: h\r\n\r\n").expect("room");
        let mut bytes = [0; 8_192];
        let mut len = 0;
        while len < 3_000
            || !bytes[..len]
                .ends_with(b"-\n0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST")
        {
            let n = stream.read(&mut bytes[len..]).expect("an answer");
            assert!(n > 0, "it is kept");
            len += n;
        }
    };
    ask(&mut connect(&serve, ""));
    let before = resident();
    let count = crowd(8_000);
    let mut crowd: Vec<_> = (0..count).map(|_| connect(&serve, "")).collect();
    crowd.iter_mut().for_each(ask);
    let there = resident() - before;
    assert!(there / count <= 600, "{} bytes for each idle connection", there / count);
    let left = sys::now();
    drop(crowd);
    eventually("at least 80 % are given back", || resident().saturating_sub(before) <= there / 5);
    assert!(sys::now() - left <= Duration::from_secs(10), "in time");
}

/// Calls of asking for the ledger twice: a wait, a receive and a send for each.
const QUIET: u64 = 6;
