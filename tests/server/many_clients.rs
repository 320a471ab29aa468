//! Thousands of clients at once: slow ones, and ones that have left.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use fulmar_drive::{ListenOptions, Reactor, listen};
use fulmar_engine::Rate;
use fulmar_server::{Limits, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tests::app::app;
use fulmar_tests::http::{HttpClient, LedgerCounts};
use fulmar_tests::loops::{LISTENER, requested_options};
use fulmar_tests::own_process::own_process;
use fulmar_tests::process::{ChildProcess, Serve, eventually};
use fulmar_tests::tree::Tree;
use rustix::net::sockopt::set_socket_send_buffer_size;

/// The requested number, or as many as this machine allows two processes.
fn crowd(wanted: u64) -> usize {
    let allowed = sys::raise_descriptors().expect("a limit").now;
    usize::try_from(wanted.min(allowed.saturating_sub(2_000))).expect("some")
}

fn connect(address: SocketAddr, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all(bytes.as_bytes()).expect("room");
    stream
}

/// A third never completes its head, a third its body, and a third does not read its response.
fn slow(address: SocketAddr, at: usize) -> TcpStream {
    match at % 3 {
        0 => connect(address, "GET /bytes/1 HTTP/1.1\r\nHost: h\r\nX-Slow: "),
        1 => connect(address, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx"),
        _ => {
            let stream = connect(address, "GET /bytes/10000000 HTTP/1.1\r\nHost: h\r\n\r\n");
            stream.set_nonblocking(true).expect("a socket");
            stream
        }
    }
}

/// Sends or receives a byte.
fn dribble(stream: &mut TcpStream, at: usize) {
    let _ = match at % 3 {
        2 => stream.read(&mut [0]), // perhaps there is none yet
        _ => stream.write(b"x"),
    };
}

/// The 99th percentile of the latency, of as many exchanges as there is time for, but at least a
/// minimum.
fn p99(
    client: &mut HttpClient,
    time: Duration,
    least: usize,
    mut between: impl FnMut(usize),
) -> Duration {
    let (start, mut all) = (sys::now(), Vec::new());
    while all.len() < least || sys::now() - start < time {
        between(all.len());
        let asked: Instant = sys::now();
        assert_eq!(client.get("/bytes/128").body.len(), 128);
        all.push(sys::now() - asked);
    }
    all.sort_unstable();
    all[all.len() * 99 / 100]
}

/// A process of its own for the server, because one process may not have descriptors for both ends:
/// it runs this test again, with [`CHILD`] in its environment.
fn server_of_its_own() -> (ChildProcess, SocketAddr) {
    let mut command = Command::new(std::env::current_exe().expect("a running test has a path"));
    command
        .args(["--exact", "many_clients::slow_clients_do_not_delay_others", "--nocapture"])
        .env(CHILD, "1");
    let mut process = ChildProcess::start(&mut command);
    let greeting = process.wait_stdout(CHILD);
    let address = greeting.trim_end().rsplit(' ').next().expect("it ends in an address");
    (process, address.parse().expect("an address"))
}

/// The server, until it is killed. What is sent to slow readers is not to fill the kernel's
/// memory, so its sockets have small buffers.
fn serve() {
    sys::raise_descriptors().expect("a limit");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (listener, address) = listen(any, ListenOptions::default()).expect("a port");
    set_socket_send_buffer_size(&listener, 16 * 1024).expect("a socket");
    // No deadline expires while many connect, however busy the machine is.
    let (body_timeout, head_timeout) = (PATIENCE, PATIENCE);
    let rate_min = Some(Rate { bytes_per_second: 1, grace: PATIENCE });
    let limits = Limits {
        body_timeout,
        head_timeout,
        send_timeout: PATIENCE,
        rate_min,
        ..Limits::default()
    };
    let mut engine = ServerEngine::new(sys::now(), app(), limits, Stop::new());
    engine.add_listener(LISTENER, None);
    let mut reactor = Reactor::with_options(engine, requested_options()).expect("descriptors");
    reactor.listen(listener).expect("a listener");
    println!("{CHILD} {address}");
    loop {
        reactor.turn().expect("a turn");
    }
}

#[test]
fn slow_clients_do_not_delay_others() {
    own_process(|| {
        if std::env::var_os(CHILD).is_some() {
            return serve();
        }
        let (process, address) = server_of_its_own();
        let count = crowd(10_000);
        let mut crowd: Vec<_> = (0..count).map(|at| slow(address, at)).collect();
        let mut client = HttpClient::connect(address);
        client.get("/bytes/128");
        // All requests have been received once the server has nothing left to do.
        eventually("silence", || {
            let before = client.ledger();
            std::thread::park_timeout(Duration::from_millis(50));
            process.descriptors() > count && calls(&client.ledger().since(&before)) <= QUIET
        });

        // While they are silent, they cost nothing: no call, no time.
        let (before, ticks) = (client.ledger(), process.cpu_ticks());
        client.socket().set_read_timeout(Some(Duration::from_secs(1))).expect("a good time");
        client.read_head().expect_err("nothing was asked for");
        client.socket().set_read_timeout(Some(PATIENCE)).expect("a good time");
        let (spent, ticks) = (client.ledger().since(&before), process.cpu_ticks() - ticks);
        assert!(calls(&spent) <= QUIET && ticks <= 10, "{spent:?}, {ticks} ticks");

        // Then each of them sends or reads about once a second, while others send requests. A busy
        // machine may spoil some measurements, but not all.
        let mut next = 0;
        let served = |_| {
            let latency = p99(&mut client, Duration::from_secs(1), count / EACH + 1, |_| {
                for _ in 0..EACH {
                    dribble(&mut crowd[next % count], next % count);
                    next += 1;
                }
            });
            eprintln!("p99 {latency:?} beside {count} slow clients");
            latency < Duration::from_millis(50)
        };
        assert!((0..30).any(served), "a well-behaved client waits for slow ones");
        assert!(next > count, "each of them was heard");
    });
}

/// Many connections cost little memory, and none after they have left.
#[test]
fn memory_is_released_when_many_clients_leave() {
    own_process(|| {
        let tree = Tree::new();
        let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
        // Its private memory: the page cache decides how much of its file is in memory.
        let resident = || {
            let path = format!("/proc/{}/status", serve.process.id());
            let text = std::fs::read_to_string(path).expect("it runs");
            let line =
                text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("proc(5)");
            let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
            kilobytes * 1_024
        };
        let send_request = |stream: &mut TcpStream| {
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
        send_request(&mut connect(serve.address, ""));
        let before = resident();
        let count = crowd(8_000);
        let mut crowd: Vec<_> = (0..count).map(|_| connect(serve.address, "")).collect();
        crowd.iter_mut().for_each(send_request);
        let there = resident().saturating_sub(before);
        eprintln!("{there} bytes for {count}");
        assert!(there / count <= 600, "{} bytes for each idle connection", there / count);
        drop(crowd);
        eventually("at least 80 % are given back", || {
            resident().saturating_sub(before) <= there / 5
        });
    });
}

/// The calls of a server without those that poll before it sleeps: they follow each of our own
/// requests, for a time.
fn calls(spent: &LedgerCounts) -> u64 {
    spent.total() - spent.of("epoll_wait_empty") - spent.of("sched_yield")
}

/// The number of slow clients with an action between two requests.
const EACH: usize = 10;
/// Makes a process the server.
const CHILD: &str = "FULMAR_TESTS_SERVER";
/// Longer than this test takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Calls for reading the ledger twice: a wait, a receive and a send for each.
const QUIET: u64 = 6;
