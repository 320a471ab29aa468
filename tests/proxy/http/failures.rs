//! Failing servers: requests that are repeated, requests that never are, and the responses of
//! clients.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use fulmar_haproxy::BackendConfig;
use fulmar_haproxy::model::{BackendTimeouts, RetryOn, ReuseMode};
use fulmar_proxy::Proxy;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::origins::free_address;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::{backend, engine, frontend, server};

struct Test {
    proxy: OwnLoop<Proxy>,
    origins: Vec<Scripted>,
    stream: TcpStream,
}

impl Test {
    fn new(origins: Vec<Scripted>, change: impl FnOnce(&mut BackendConfig)) -> Self {
        let servers = origins.iter().map(|origin| server("s", origin.address()));
        let mut there = backend(servers);
        there.timeouts = BackendTimeouts {
            connect: Some(Duration::from_millis(200)),
            server: Some(Duration::from_millis(200)),
            ..BackendTimeouts::default()
        };
        change(&mut there);
        let (proxy, ..) = engine(frontend(), [there]);
        let (proxy, address) = OwnLoop::start(proxy);
        Self { proxy, origins, stream: client(address) }
    }

    /// Sends a request, and returns the head and the body of the response; `None`: the connection
    /// has ended.
    fn send_request(&mut self, request: &str) -> Option<String> {
        self.stream.set_nonblocking(true).expect("a socket");
        self.stream.write_all(request.as_bytes()).expect("room");
        let Self { proxy, origins, stream } = self;
        let (mut got, mut ended) = (Vec::new(), false);
        proxy.turn_until(|_| {
            origins.iter_mut().for_each(Scripted::turn);
            let mut bytes = [0; 64 * 1024];
            match stream.read(&mut bytes) {
                Ok(0) => ended = true,
                Ok(n) => got.extend_from_slice(&bytes[..n]),
                Err(error) => ended = error.kind() != ErrorKind::WouldBlock,
            }
            ended || is_whole(&got)
        });
        is_whole(&got).then(|| String::from_utf8(got).expect("text"))
    }

    fn status(&mut self, request: &str) -> u16 {
        let answer = self.send_request(request).unwrap_or_else(|| "HTTP/1.1 000".to_owned());
        answer[9..12].parse().expect("a status")
    }

    fn requests(&self) -> Vec<usize> {
        self.origins.iter().map(|origin| origin.requests.len()).collect()
    }
}

fn is_whole(got: &[u8]) -> bool {
    let text = String::from_utf8_lossy(got);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    if head.starts_with("HTTP/1.1 1") {
        return is_whole(body.as_bytes());
    }
    let lines = head.to_ascii_lowercase();
    let len = lines.lines().find_map(|line| line.strip_prefix("content-length: "));
    len.is_none_or(|len| body.len() >= len.parse().expect("a length"))
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";

/// Answers the first request of the first connection well; then ends like this.
fn dies_on_the_second(steps: impl Fn() -> Vec<ServerStep> + 'static) -> Scripted {
    Scripted::new(move |heard: &ScriptedRequest| match (heard.connection, heard.nth) {
        (0, 1..) => steps(),
        _ => ok(b"fine"),
    })
}

type Death = fn() -> Vec<ServerStep>;

/// The server closes at each point of the second exchange on its connection.
fn deaths() -> Vec<(&'static str, Death)> {
    fn send(text: &str) -> ServerStep {
        ServerStep::Send(text.as_bytes().to_vec())
    }
    vec![
        ("closed when the request is there", || vec![ServerStep::Close]),
        ("reset when the request is there", || vec![ServerStep::Reset]),
        ("half closed when the request is there", || vec![ServerStep::Fin]),
        ("closed within the status line", || vec![send("HTTP/1.1 20"), ServerStep::Close]),
        ("closed within the fields", || vec![send("HTTP/1.1 200 OK\r\nConte"), ServerStep::Close]),
        ("reset within the fields", || vec![send("HTTP/1.1 200 OK\r\nConte"), ServerStep::Fin]),
        ("closed after an interim response", || {
            vec![send("HTTP/1.1 103 Early Hints\r\n\r\n"), ServerStep::Close]
        }),
        ("closed within the body", || {
            vec![send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), ServerStep::Close]
        }),
        ("reset within the status line", || vec![send("HTTP/1.1 20"), ServerStep::Reset]),
    ]
}

#[test]
fn a_stale_connection_loses_no_response_and_repeats_no_post() {
    for (at, (what, steps)) in deaths().into_iter().enumerate() {
        for (request, is_safe) in [(GET, true), (POST, false)] {
            let mut test = Test::new(vec![dies_on_the_second(steps)], |_| ());
            assert_eq!(test.status(GET), 200, "{what}");
            let answer = test.send_request(request);
            let silent = at < 3; // no byte of a response came
            let expected = match (at, silent && is_safe) {
                (_, true) => Some("200"),
                (7, _) => None, // truncated: it must not look complete
                _ => Some("502"),
            };
            let status = answer.as_ref().and_then(|answer| {
                let last = answer.rfind("HTTP/1.1 ")?;
                answer.get(last + 9..last + 12)
            });
            assert_eq!(status, expected, "{what}: {answer:?}");
            let tried = if silent && is_safe { 3 } else { 2 };
            assert_eq!(test.requests(), [tried], "{what}, {request}");
        }
    }
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used() {
    let mut test = Test::new(vec![Scripted::new(|_: &ScriptedRequest| ok(b"fine"))], |_| ());
    for _ in 0..3 {
        assert_eq!(test.status(GET), 200);
        let last = test.origins[0].accepted() - 1;
        test.origins[0].act(last, [ServerStep::Close]);
        let Test { proxy, origins, .. } = &mut test;
        proxy.turn_until(|_| {
            origins[0].turn();
            origins[0].open() == 0
        });
        proxy.turn(Duration::from_millis(5));
        assert_eq!(test.status(POST), 200, "no race: it was seen to be closed");
    }
}

#[test]
fn a_server_that_refuses_is_tried_again_and_then_another_one() {
    let address = free_address();
    let there = Scripted::new(|_: &ScriptedRequest| ok(b"fine"));
    let mut test = Test::new(vec![there], |backend| {
        let dead = std::sync::Arc::new(server("dead", address));
        backend.servers.insert(0, dead);
        backend.retries = 1;
        backend.options.redispatch = -1;
    });
    for _ in 0..4 {
        assert_eq!(test.status(POST), 200, "nothing was sent to the one that refused");
    }
    assert_eq!(test.requests(), [4]);
}

#[test]
fn without_redispatch_a_refusal_is_503_after_all_retries() {
    let address = free_address();
    let mut test = Test::new(vec![], |backend| {
        backend.servers.push(std::sync::Arc::new(server("dead", address)));
        backend.retries = 2;
        backend.timeouts.connect = Some(Duration::from_millis(20));
    });
    assert_eq!(test.status(GET), 503);
    assert_eq!(test.status(GET), 503, "the client's connection is kept");
}

#[test]
fn a_silent_server_is_504_without_a_retry() {
    let mut test = Test::new(vec![Scripted::new(|_: &ScriptedRequest| Vec::new())], |_| ());
    assert_eq!(test.status(GET), 504);
    assert_eq!(test.requests(), [1]);
}

#[test]
fn an_invalid_response_is_502() {
    for junk in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let script = move |_: &ScriptedRequest| vec![ServerStep::Send(junk.as_bytes().to_vec())];
        let mut test = Test::new(vec![Scripted::new(script)], |_| ());
        assert_eq!(test.status(GET), 502, "{junk:?}");
        assert_eq!(test.requests(), [1], "{junk:?}");
    }
}

/// Failures in `retry-on` are retried, if the request may be executed twice.
#[test]
fn failures_in_retry_on_are_retried() {
    let on = |change: fn(&mut RetryOn)| {
        let mut on = RetryOn::default();
        change(&mut on);
        on
    };
    let cases: [(RetryOn, Death, u16); 4] = [
        (on(|on| on.empty_response = true), || vec![ServerStep::Close], 502),
        (
            on(|on| on.junk_response = true),
            || vec![ServerStep::Send(b"junk\r\n\r\n".to_vec())],
            502,
        ),
        (on(|on| on.response_timeout = true), Vec::new, 504),
        (
            on(|on| on.statuses = vec![503]),
            || vec![ServerStep::Send(answer("503 Service Unavailable", "", b"full"))],
            503,
        ),
    ];
    for (retry_on, death, status) in cases {
        for (request, is_safe) in [(GET, true), (POST, false)] {
            let count = Rc::new(Cell::new(0));
            let counter = Rc::clone(&count);
            let origin = Scripted::new(move |_: &ScriptedRequest| {
                counter.set(counter.get() + 1);
                if counter.get() <= 2 { death() } else { ok(b"fine") }
            });
            let mut test = Test::new(vec![origin], |backend| {
                backend.retry_on = retry_on.clone();
                backend.retries = 3;
            });
            let expected = if is_safe { (200, 3) } else { (status, 1) };
            assert_eq!((test.status(request), count.get()), expected, "{retry_on:?} {request:?}");
        }
    }
}

#[test]
fn a_buffered_body_is_repeated_completely() {
    let count = Rc::new(Cell::new(0));
    let counter = Rc::clone(&count);
    let origin = Scripted::new(move |heard: &ScriptedRequest| {
        counter.set(counter.get() + 1);
        if counter.get() == 1 { vec![ServerStep::Close] } else { ok(&heard.body) }
    });
    let mut test = Test::new(vec![origin], |backend| backend.retry_on.empty_response = true);
    let answer = test.send_request("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nwhole");
    assert!(answer.expect("an answer").ends_with("\r\n\r\nwhole"));
    assert_eq!(count.get(), 2);
}

#[test]
fn the_queue_has_a_timeout() {
    let mut test = Test::new(vec![Scripted::new(|_: &ScriptedRequest| ok(b"fine"))], |backend| {
        let mut one = (*backend.servers[0]).clone();
        one.connections_max = 1;
        backend.servers[0] = std::sync::Arc::new(one);
        backend.timeouts.queue = Some(Duration::from_millis(50));
        backend.reuse = ReuseMode::Never;
        backend.timeouts.server = None;
    });
    let mut other = client(test.proxy_address());
    other.write_all(GET.as_bytes()).expect("room");
    test.proxy.turn_until(|proxy| proxy.engine().clients() == 2);
    // Its request, which came before that of the other, has the place.
    (0..2).for_each(|_| test.proxy.turn(Duration::from_millis(20)));
    let origins = std::mem::take(&mut test.origins); // the first one has no listener
    assert_eq!(test.status(GET), 503);
    test.origins = origins;
    other.set_nonblocking(true).expect("a socket");
    let Test { proxy, origins, .. } = &mut test;
    let mut bytes = [0; 1024];
    proxy.turn_until(|_| {
        origins[0].turn();
        other.read(&mut bytes).is_ok()
    });
    assert!(bytes.starts_with(b"HTTP/1.1 200"));
    assert_eq!(test.status(GET), 200, "the place is free again");
}

impl Test {
    fn proxy_address(&self) -> std::net::SocketAddr {
        self.stream.peer_addr().expect("connected")
    }
}
