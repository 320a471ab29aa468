//! Bytes on real sockets against `fulmar serve`: required refusals, and data that must not be lost.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;

use fulmar_tests::buffers::bounded;
use fulmar_tests::cases::{RequestCase, bad_beside_http2};
use fulmar_tests::http::{HttpClient, HttpReply, LedgerCounts, replies};
use fulmar_tests::process::{BY_CALLS, Serve, eventually};
use fulmar_tests::tree::{Tree, noise};

use crate::fulmar_serve::signals::peak;

/// Sends bytes, and reads until the server closes. A reset is an error.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut client = HttpClient::connect(address);
    client.send(bytes);
    client.read_to_end().expect("an end, not a reset")
}

/// Excludes truncated requests, which are tested in [`a_body_that_ends_too_early_is_not_complete`].
fn is_whole(case: &RequestCase) -> bool {
    case.expected != "eof"
}

fn assert_refused(case: &RequestCase, answer: &[u8]) {
    let what = &case.what;
    let replies = replies(answer);
    let (status, in_body) = match case.expected.strip_suffix(" body") {
        Some(status) => (status, true),
        None => (&case.expected[..], false),
    };
    if in_body {
        // Refused at once, or begun and then cut: never complete.
        let is_refusal =
            |all: &Vec<HttpReply>| all.len() == 1 && all[0].status.to_string() == status;
        let refused = replies.as_ref().is_ok_and(is_refusal);
        assert!(replies.is_err() || refused, "{what}: {replies:?}");
        return;
    }
    let replies = replies.unwrap_or_else(|error| panic!("{what}: {error}: {answer:?}"));
    let [reply] = &replies[..] else { panic!("{what}: {replies:?}") };
    assert_eq!(reply.status.to_string(), status, "{what}");
    assert_eq!(reply.field("connection"), Some("close"), "{what}");
}

#[test]
fn bad_requests_are_refused_and_the_connection_closed() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    for case in bad_beside_http2().into_iter().filter(is_whole) {
        let answer = exchange(serve.address, &[&case.bytes, GOOD].concat());
        assert_refused(&case, &answer);
        let smuggled = b"Content-Length: 7\r\n";
        assert!(!answer.windows(smuggled.len()).any(|part| part == smuggled), "{}", case.what);
    }
    assert_eq!(HttpClient::connect(serve.address).get("/bytes/7").body.len(), 7);
}

#[test]
fn bad_requests_are_refused_byte_by_byte() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let short = |case: &RequestCase| case.bytes.len() < 150 && is_whole(case);
    thread::scope(|scope| {
        for case in bad_beside_http2().into_iter().filter(short) {
            let address = serve.address;
            scope.spawn(move || {
                let mut client = HttpClient::connect(address);
                // Some requests are only invalid once their head is complete, which needs the
                // following bytes.
                for byte in [&case.bytes, GOOD].concat() {
                    // The response may arrive before the last byte, and the close soon after.
                    if client.socket().write_all(&[byte]).is_err() {
                        break;
                    }
                }
                let _ = client.socket().shutdown(std::net::Shutdown::Write);
                assert_refused(&case, &client.read_to_end().expect("an end, not a reset"));
            });
        }
    });
}

#[test]
fn a_body_that_ends_too_early_is_not_complete() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let head = "POST /echo HTTP/1.1\r\nHost: h\r\n";
    for body in [
        "Content-Length: 10\r\n\r\nhello",
        "Content-Length: 10\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "Transfer-Encoding: chunked\r\n\r\n",
    ] {
        let mut client = HttpClient::connect(serve.address);
        client.send(format!("{head}{body}"));
        client.finish();
        let answer = client.read_to_end().expect("an end, not a reset");
        assert!(replies(&answer).is_err() || answer.is_empty(), "{body:?}: {answer:?}");
    }
}

#[test]
fn the_next_request_begins_where_this_one_ends() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let mut client = HttpClient::connect(serve.address);
    // No length means no body. The following bytes are the next request's method.
    client.send("POST /f HTTP/1.1\r\nHost: h\r\n\r\nhelloGET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    client.send_get("/f");
    let statuses = [(); 3].map(|()| client.read_reply().unwrap().status);
    assert_eq!(statuses, [405, 405, 200]);
    // An ignored body is no request.
    let body = "GET /f HTTP/1.1\r\nHost: h\r\n\r\n";
    let len = body.len();
    client.send(format!("POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}"));
    client.send(format!("HEAD /f HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}"));
    assert_eq!(client.read_reply().unwrap().status, 405);
    let head = client.read_head().unwrap();
    assert_eq!((head.status, head.field("content-length")), (200, Some("6")));
    // No bytes are left that would get a response.
    client.send("GET /f HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(replies(&client.read_to_end().unwrap()).unwrap().len(), 1);
}

#[test]
fn versions_and_expectations() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        let mut client = HttpClient::connect(serve.address);
        client.send(format!("GET /f {version}\r\nHost: h\r\n\r\n").repeat(2));
        for _ in 0..2 {
            let reply = client.read_reply().unwrap();
            assert_eq!((reply.version.as_str(), reply.status), ("HTTP/1.1", 200), "{version}");
        }
    }
    let unknown = b"GET /f HTTP/1.1\r\nHost: h\r\nExpect: the unexpected\r\n\r\n";
    let refused = replies(&exchange(serve.address, unknown)).unwrap();
    assert_eq!((refused.len(), refused[0].status), (1, 417));
    // HTTP/1.0 has no chunks: a response without a length ends with the connection.
    let mut client = HttpClient::connect(serve.address);
    client.send("GET /stream/100 HTTP/1.0\r\n\r\n");
    let head = client.read_head().unwrap();
    assert_eq!((head.status, head.field("transfer-encoding")), (200, None));
    assert_eq!(head.field("connection"), Some("close"));
    assert!(client.read_bytes(100).starts_with(b"0123456789"));
    // The host in the target takes precedence; its path is served.
    let mut client = HttpClient::connect(serve.address);
    client.send("GET http://h:80/f HTTP/1.1\r\nHost: h:80\r\n\r\n");
    assert_eq!(client.read_reply().unwrap().body, b"inside");
}

/// Sends `head` and eight megabytes of unwanted body before it reads anything.
fn refused_while_sending(address: SocketAddr, head: &str) -> HttpReply {
    let mut client = HttpClient::connect(address);
    let bytes = [head.as_bytes(), &vec![b'x'; 8 << 20]].concat();
    // The server need not receive a body that it has refused.
    let _ = client.socket().write_all(&bytes);
    let mut reply = client.read_head().unwrap_or_else(|error| panic!("{head:?}: {error}"));
    reply.body = client.read_bytes(reply.field("content-length").unwrap().parse().unwrap());
    reply
}

#[test]
fn the_response_to_a_bad_request_is_not_lost_while_the_client_sends() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    // The end of a chunked body is unknown, so the response does not announce the close.
    let close = Some("close");
    for (head, status, connection) in [
        ("GET / HTTP/1.1\r\nHost: h\r\nbad\r\n\r\n", 400, close),
        ("GET / HTTP/1.1\r\nHost: h\r\nX: ", 431, close),
        ("GET /", 414, close),
        ("POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n", 405, close),
        ("POST /f HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n", 405, None),
    ] {
        for _ in 0..10 {
            let reply = refused_while_sending(serve.address, head);
            assert_eq!((reply.status, reply.field("connection")), (status, connection));
            assert!(!reply.body.is_empty());
        }
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = HttpClient::connect(serve.address);
    let chunked = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Trailer: z\r\n\r\n";
    let sized = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello world";
    let get = "GET /f HTTP/1.1\r\nHost: h\r\nUser-Agent: slow\r\n\r\n";
    for byte in [chunked, sized, get].concat().bytes() {
        client.send([byte]);
    }
    // The trailer is echoed: read up to the end of the chunks, then the trailer.
    let head = client.read_head().unwrap();
    assert_eq!(head.field("transfer-encoding"), Some("chunked"));
    let mut body = Vec::new();
    while !body.ends_with(b"\r\n\r\n") {
        body.extend(client.read_bytes(1));
    }
    let text = String::from_utf8(body).unwrap();
    assert!(text.ends_with("\r\n0\r\nX-Trailer: z\r\n\r\n"), "{text:?}");
    assert_eq!(client.read_reply().unwrap().body, b"hello world");
    assert_eq!(client.read_reply().unwrap().body, b"inside");
}

#[test]
fn a_half_closed_client_gets_its_responses() {
    let tree = Tree::new();
    tree.file("large", noise(20 << 20));
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    for targets in [&["/large"][..], &["/bytes/10"], &["/delay/50"], &["/delay/50", "/large", "/x"]]
    {
        let mut client = HttpClient::connect(serve.address);
        targets.iter().for_each(|target| client.send_get(target));
        client.finish();
        let answers = replies(&client.read_to_end().unwrap()).unwrap();
        assert_eq!(answers.len(), targets.len(), "{targets:?}");
        for (target, answer) in targets.iter().zip(answers) {
            let len = answer.body.len();
            match *target {
                "/large" => assert!(answer.body == noise(20 << 20)),
                "/bytes/10" => assert_eq!(len, 10),
                "/delay/50" => assert_eq!(answer.body, b"delayed\n"),
                _ => assert_eq!(answer.status, 404),
            }
        }
    }
}

#[test]
fn a_thousand_pipelined_requests_get_responses_in_order() {
    let tree = Tree::new();
    tree.file("small", noise(100));
    tree.file("large", noise(104 * 1024));
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = HttpClient::connect(serve.address);
    let target = |n: usize| match n % 100 {
        50 => "/large".to_owned(),
        51 => "/small".to_owned(),
        52 => "/delay/1".to_owned(),
        _ => format!("/bytes/{n}"),
    };
    let requests: String =
        (0..1_000).map(|n| format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", target(n))).collect();
    let mut socket = client.socket().try_clone().unwrap();
    let writer = thread::spawn(move || socket.write_all(requests.as_bytes()).unwrap());
    for n in 0..1_000 {
        let reply = client.read_reply().unwrap();
        assert_eq!(reply.status, 200, "{n}");
        match n % 100 {
            50 => assert!(reply.body == noise(104 * 1024), "{n}"),
            51 => assert!(reply.body == noise(100), "{n}"),
            52 => assert_eq!(reply.body, b"delayed\n", "{n}"),
            _ => assert_eq!(reply.body.len(), n),
        }
    }
    writer.join().unwrap();
}

#[test]
fn read_ahead_of_pipelined_requests_is_limited() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints", "--send-timeout", "60"]);
    let mut client = HttpClient::connect(serve.address);
    assert_eq!(client.get("/bytes/10").body.len(), 10);
    let before = peak(&serve);
    let mut socket = client.socket().try_clone().unwrap();
    // More requests than any kernel's buffers hold, and ten times as many bytes of responses.
    let request = b"GET /bytes/10000 HTTP/1.1\r\nHost: h\r\nX-Padding: 0123456789\r\n\r\n";
    let batch = request.repeat(1_000);
    let writer = thread::spawn(move || {
        let mut sent = 0;
        while sent < PIPELINE_MAX {
            match socket.write(&batch) {
                Ok(n) => sent += n,
                Err(_) => break, // closed below
            }
        }
        sent
    });
    // Other clients are served while this one is blocked.
    for _ in 0..100 {
        assert_eq!(HttpClient::connect(serve.address).get("/bytes/10").body.len(), 10);
    }
    let grown = peak(&serve) - before;
    assert!(grown < 32_000, "{grown} kB more than before");
    assert_eq!(client.read_reply().unwrap().body.len(), 10_000);
    client.socket().shutdown(std::net::Shutdown::Both).unwrap();
    assert!(writer.join().unwrap() < PIPELINE_MAX, "everything was read ahead");
}

fn cost(client: &mut HttpClient, mut work: impl FnMut(&mut HttpClient)) -> LedgerCounts {
    let before = client.ledger();
    work(client);
    client.ledger().since(&before)
}

#[test]
fn pipelined_requests_share_their_calls() {
    let tree = Tree::new();
    tree.file("small", noise(128));
    let serve = Serve::start(&tree.root(), &[&["--test-endpoints"], BY_CALLS].concat());
    let mut client = HttpClient::connect(serve.address);
    let request = "GET /small HTTP/1.1\r\nHost: h\r\n\r\n";
    client.get("/small");
    let rounds = 50;
    let calls = cost(&mut client, |client| {
        for _ in 0..rounds {
            client.send(request.repeat(16));
            for _ in 0..16 {
                assert_eq!(client.read_reply().unwrap().body.len(), 128);
            }
        }
    });
    // Three for sixteen, and a few when the file is checked again.
    assert!(calls.total() * 4 <= rounds * 16, "{calls:?}");
}

#[test]
fn slow_clients_are_closed_while_others_are_served() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let cases = [
        ("--head-timeout", "GET /f HTTP/1.1\r\nHost:"),
        ("--head-timeout", "G"),
        ("--body-timeout", "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc"),
        ("--idle-timeout", ""),
        ("--idle-timeout", "GET /f HTTP/1.1\r\nHost: h\r\n\r\n"),
    ];
    // Runs all at the same time. The timeouts exceed any delay of a busy machine.
    thread::scope(|scope| {
        for (flag, bytes) in cases {
            let tree = &tree;
            scope.spawn(move || slow_ones_are_closed(tree, flag, bytes));
        }
    });
}

fn slow_ones_are_closed(tree: &Tree, flag: &str, bytes: &str) {
    let serve = Serve::start(&tree.root(), &["--test-endpoints", flag, "2"]);
    let start = fulmar_sys::now();
    let begin = |_| {
        let mut client = HttpClient::connect(serve.address);
        client.send(bytes);
        client
    };
    let slow: Vec<_> = (0..20).map(begin).collect();
    for _ in 0..20 {
        assert_eq!(HttpClient::connect(serve.address).get("/f").body, b"inside", "{flag}");
    }
    for mut client in slow {
        let answer = client.read_to_end().unwrap_or_else(|error| panic!("{flag}: {error}"));
        let complete = replies(&answer).is_ok_and(|all| all.iter().all(|r| r.status < 400));
        let timed_out = answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 ");
        let cut = flag == "--body-timeout" && answer.starts_with(b"HTTP/1.1 200 ");
        assert!(timed_out || cut || (flag == "--idle-timeout" && complete), "{flag}");
    }
    // The defaults are 20 seconds and more.
    let took = start.elapsed().as_millis();
    assert!((1_900..18_000).contains(&took), "{flag} {bytes:?}: {took} ms");
    assert_eq!(HttpClient::connect(serve.address).get("/f").body, b"inside");
}

#[test]
fn a_client_that_drips_its_head_is_closed() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--head-timeout", "0.3"]);
    let mut client = HttpClient::connect(serve.address);
    client.send("GET / HTTP/1.1\r\n");
    let start = fulmar_sys::now();
    // Single bytes do not extend the timeout. Twenty seconds are the default.
    eventually("the head timeout", || client.socket().write_all(b"X").is_err());
    assert!(start.elapsed().as_secs() < 18);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let tree = Tree::new();
    tree.file("large", noise(20 << 20));
    let serve = Serve::start(&tree.root(), &["--test-endpoints", "--send-timeout", "0.3"]);
    let mut other = HttpClient::connect(serve.address);
    other.get("/bytes/1");
    let before = serve.process.descriptors();
    let mut clients: Vec<_> = ["/large", "/stream/1000", "/bytes/99000000"]
        .map(|target| {
            let mut client = HttpClient::connect(serve.address);
            bounded(client.socket());
            client.send_get(target);
            client.read_head().unwrap();
            client
        })
        .into();
    eventually("the server has closed them", || {
        assert_eq!(other.get("/bytes/1").body.len(), 1);
        // The cached file keeps a descriptor.
        serve.process.descriptors() <= before + 1
    });
    for client in &mut clients {
        // The bytes sent before are there, but not the whole response.
        let end = client.read_to_end();
        assert!(end.is_err() || end.is_ok_and(|bytes| bytes.len() < 20 << 20));
    }
}

const PIPELINE_MAX: usize = 1 << 30;
/// A request after a bad one, which never gets a response.
const GOOD: &[u8] = b"GET /bytes/7 HTTP/1.1\r\nHost: h\r\n\r\n";
