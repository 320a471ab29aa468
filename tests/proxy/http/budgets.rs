//! The cost of an exchange through the proxy: system calls, allocations, memory.
//!
//! Proxy, client and server share a thread, a turn at a time, so every count is exact.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use allocation_counter::measure;
use fulmar_proxy::Proxy;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::budget::budget;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::test_proxy::configured;

struct BudgetSetup {
    proxy: OwnLoop<Proxy>,
    address: SocketAddr,
    listener: TcpListener,
    origin: Option<TcpStream>,
}

impl BudgetSetup {
    fn new(frontend: &str, backend: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let text = format!(
            "global\n  log stdout format raw local0\n\
             defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
             timeout server 60s\n  timeout http-keep-alive 60s\n\
             frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
             backend be\n  http-reuse always\n{backend}\n  server s1 {at}\n"
        );
        let (proxy, ..) = configured(&text);
        let (proxy, address) = OwnLoop::by_calls(proxy);
        Self { proxy, address, listener, origin: None }
    }

    /// Turns until the request is at the server, sends the response, and turns until it is at the
    /// client. `answer` is the whole response, so its length defines the end.
    fn exchange(&mut self, stream: &mut TcpStream, request: &[u8], answer: &[u8]) {
        stream.write_all(request).expect("room");
        if self.origin.is_none() {
            self.listener.set_nonblocking(true).expect("a socket");
            let Self { proxy, listener, origin, .. } = self;
            proxy.turn_until(|_| {
                *origin = listener.accept().ok().map(|(origin, _)| origin);
                origin.is_some()
            });
            self.origin.as_ref().expect("accepted").set_nonblocking(true).expect("a socket");
        }
        let mut bytes = [0; 4096];
        let mut origin = self.origin.take().expect("a connection");
        origin.set_nonblocking(true).expect("a socket");
        while origin.read(&mut bytes).is_err() {
            self.proxy.0.turn().expect("a turn");
        }
        origin.write_all(answer).expect("room");
        stream.set_nonblocking(true).expect("a socket");
        let mut got = 0;
        while got < answer.len() {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(_) => self.proxy.0.turn().expect("a turn"),
            }
        }
        stream.set_nonblocking(false).expect("a socket");
        self.origin = Some(origin);
    }
}

/// The tolerance for a busy machine: sockets without a response for a while are registered, once
/// each.
const LATE: u64 = 25;
const GET: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\n\
    Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/plain\r\n\
    Content-Length: 5\r\n\r\nhello";

#[test]
fn a_kept_exchange_allocates_nothing() {
    let cases = [
        ("", ""),
        ("  option forwardfor", "  balance leastconn"),
        ("  acl own path_beg /own\n  http-request deny if own", ""),
    ];
    for (frontend, backend) in cases {
        let mut bench = BudgetSetup::new(frontend, backend);
        let mut stream = client(bench.address);
        for _ in 0..20 {
            bench.exchange(&mut stream, GET, ANSWER);
        }
        let spent = measure(|| {
            for _ in 0..100 {
                bench.exchange(&mut stream, GET, ANSWER);
            }
        });
        let most = budget("allocations", "proxy");
        assert_eq!(spent.count_total, most, "{frontend:?} {backend:?}: {spent:?}");
    }
}

#[test]
fn a_line_of_the_log_and_a_changed_response_cost_few_allocations() {
    for (frontend, backend, name) in [
        ("  option httplog\n  log global", "", "proxy_log_line"),
        ("", "  http-response set-header X-A b", "proxy_set_header"),
        ("", "  cookie S insert indirect", "proxy_cookie"),
    ] {
        let mut bench = BudgetSetup::new(frontend, backend);
        let mut stream = client(bench.address);
        for _ in 0..20 {
            bench.exchange(&mut stream, GET, ANSWER);
        }
        let spent = measure(|| {
            for _ in 0..100 {
                bench.exchange(&mut stream, GET, ANSWER);
            }
        });
        let each = spent.count_total / 100;
        assert!(
            each <= budget("allocations", name),
            "{frontend:?} {backend:?}: {each} for each exchange"
        );
    }
}

/// Heap, including the driver's, of a client that has its response and may send another request.
#[test]
fn an_idle_client_costs_little_and_memory_is_released() {
    const CLIENTS: usize = 2_000;
    let mut bench = BudgetSetup::new("", "");
    let mut streams: Vec<TcpStream> = Vec::with_capacity(CLIENTS);
    let first = measure(|| {
        for _ in 0..10 {
            let mut stream = client(bench.address);
            bench.exchange(&mut stream, GET, ANSWER);
            streams.push(stream);
        }
    });
    let held = measure(|| {
        for _ in streams.len()..CLIENTS {
            let mut stream = client(bench.address);
            bench.exchange(&mut stream, GET, ANSWER);
            streams.push(stream);
        }
    });
    let each = held.bytes_current / (CLIENTS as i64 - 10);
    let most = i64::try_from(budget("memory", "proxy_idle")).expect("it is small");
    assert!(each <= most, "{each} bytes for each idle client");
    let given_back = measure(|| {
        drop(streams);
        bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
        // The driver frees unused memory one second after the peak.
        let end = sys::now() + Duration::from_millis(1_100);
        bench.proxy.turn_until(|_| sys::now() > end);
    });
    let left = first.bytes_current + held.bytes_current + given_back.bytes_current;
    // Tables of some hundred entries remain; their sizes depend on the order of the closes.
    assert!(left < 250 * 1024, "{left} bytes are left of a crowd");
}

/// Calls but for waits, which many share.
fn calls(spent: &Ledger) -> u64 {
    let waits = [Call::epoll_wait, Call::epoll_pwait2].map(|call| spent.count(call).calls);
    spent.total() - waits.iter().sum::<u64>()
}

#[test]
fn a_short_client_with_a_server_that_is_kept_costs_six_calls() {
    let mut bench = BudgetSetup::new("", "");
    let close = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let mut run = |times: u64| {
        for _ in 0..times {
            let mut stream = client(bench.address);
            bench.exchange(&mut stream, close, ANSWER);
            drop(stream);
            bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
        }
    };
    run(3);
    let before = Ledger::here();
    run(50);
    let spent = Ledger::here() - before;
    let each = budget("system_calls", "proxy_short");
    assert!(calls(&spent) <= each * 50 + LATE, "{} calls: {spent:?}", calls(&spent));
    assert_eq!(spent.count(Call::fcntl).calls + spent.count(Call::setsockopt).calls, 0);
}

#[test]
fn closing_on_both_sides_costs_ten_calls() {
    let mut bench = BudgetSetup::new("  option httpclose", "");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    let mut run = |times: u64| {
        for _ in 0..times {
            let mut stream = client(bench.address);
            bench.origin = None;
            let BudgetSetup { listener, .. } = &bench;
            listener.set_nonblocking(true).expect("a socket");
            bench.exchange(&mut stream, GET, answer);
            drop(bench.origin.take());
            drop(stream);
            bench.proxy.turn_until(|proxy| proxy.engine().clients() == 0);
            bench.proxy.turn(Duration::from_millis(1));
        }
    };
    run(3);
    let before = Ledger::here();
    run(50);
    let spent = Ledger::here() - before;
    let each = budget("system_calls", "proxy_close");
    assert!(calls(&spent) <= each * 50 + LATE, "{} calls: {spent:?}", calls(&spent));
}

/// Responses long enough for pieces of their own, all available when they are read: each pair of
/// pieces is sent before the next is read, into the same memory.
#[test]
fn long_answers_that_come_at_once_share_a_block() {
    const CLIENTS: usize = 12;
    const LEN: usize = 60_000;
    let front = "  no option splice-auto\n  no option splice-response";
    let mut bench = BudgetSetup::new(front, "  no option splice-auto\n  no option splice-response");
    let mut streams: Vec<_> = (0..CLIENTS).map(|_| client(bench.address)).collect();
    let mut origins: Vec<TcpStream> = Vec::new();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n{:LEN$}", "");
    bench.listener.set_nonblocking(true).expect("a socket");
    let mut bytes = vec![0; LEN];
    let mut round = |bench: &mut BudgetSetup| {
        streams.iter_mut().for_each(|stream| stream.write_all(GET).expect("room"));
        let BudgetSetup { proxy, listener, .. } = bench;
        proxy.turn_until(|_| {
            origins.extend(listener.accept().ok().map(|(origin, _)| origin));
            origins.len() == CLIENTS
        });
        for origin in &mut origins {
            origin.set_nonblocking(true).expect("a socket");
            while origin.read(&mut bytes).is_err() {
                proxy.0.turn().expect("a turn");
            }
        }
        origins.iter_mut().for_each(|origin| origin.write_all(answer.as_bytes()).expect("room"));
        let spent = measure(|| {
            for stream in &mut streams {
                stream.set_nonblocking(true).expect("a socket");
                let mut got = 0;
                while got < answer.len() {
                    match stream.read(&mut bytes) {
                        Ok(n) => {
                            assert!(n > 0, "the connection is kept");
                            got += n;
                        }
                        Err(_) => proxy.0.turn().expect("a turn"),
                    }
                }
                stream.set_nonblocking(false).expect("a socket");
            }
        });
        spent.bytes_max
    };
    round(&mut bench);
    let most = round(&mut bench);
    assert!(most < LEN as u64, "{most} bytes at a time");
}

/// Only the last byte must be seen: it is read in the turn in which all others pass, and is sent
/// with them.
#[test]
fn a_body_that_passes_costs_three_turns() {
    let mut bench = BudgetSetup::new("", "");
    let mut stream = client(bench.address);
    let body = "x".repeat(100_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{body}");
    for _ in 0..3 {
        bench.exchange(&mut stream, GET, answer.as_bytes());
    }
    let before = Ledger::here();
    for _ in 0..10 {
        bench.exchange(&mut stream, GET, answer.as_bytes());
    }
    let spent = Ledger::here() - before;
    assert!(spent.count(Call::splice).calls >= 20, "it passes: {spent:?}");
    assert!(spent.count(Call::epoll_wait).calls <= 30 + 5, "{spent:?}"); // or it is late
    let each = budget("system_calls", "proxy_spliced");
    assert!(calls(&spent) <= each * 10, "{} calls: {spent:?}", calls(&spent));
}
