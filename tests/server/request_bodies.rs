//! Responses before the end of a request, bodies that wait for 100, and requests that arrive early:
//! the rest of a request is never parsed as another one.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_server::Limits;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::http::{HttpClient, HttpReply, replies};
use fulmar_tests::loops::{Loop, turn_while};
use fulmar_tests::recording_app::{ConnectionEnd, RecordingEngine, server};
use fulmar_tests::tests_in_three_loops;

fn start<L: Loop<Engine = RecordingEngine>>() -> (L, SocketAddr) {
    // Byte by byte, discarding the rest of a long body takes its time.
    let limits = Limits { linger_timeout: Duration::from_secs(60), ..Limits::default() };
    L::start(server(limits, None))
}

/// `len` bytes that would be requests if they were parsed.
fn smuggled(len: usize) -> Vec<u8> {
    SMUGGLED.iter().copied().cycle().take(len).collect()
}

fn post(target: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn chunked(target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunks = body
        .chunks(5_000)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    head.into_bytes().into_iter().chain(chunks).chain(*b"0\r\n\r\n").collect()
}

/// All connections are closed without an error; the heads that were received.
fn heads<L: Loop<Engine = RecordingEngine>>(driver: &mut L) -> Vec<String> {
    driver.turn_until(|driver| driver.engine().connections() == 0);
    let heard = driver.engine().application_mut();
    assert_eq!(heard.gone.len(), heard.accepted);
    assert!(heard.gone.iter().all(|gone| *gone == ConnectionEnd::Closed), "{:?}", heard.gone);
    std::mem::take(&mut heard.heads)
}

fn is_ok(reply: &HttpReply) -> bool {
    reply.status == 200 && reply.body == b"ok\n"
}

/// A short body is discarded, and the connection kept (RFC 9112 §9.3).
fn a_short_unwanted_body_is_discarded<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    let len = 60_000 / L::SLOWER.min(20);
    for request in [post("/early", "", &smuggled(len)), chunked("/early", &smuggled(len))] {
        turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            client.send(&request);
            let reply = client.read_reply().unwrap();
            assert!(is_ok(&reply) && reply.field("connection").is_none(), "{reply:?}");
            assert!(is_ok(&client.get("/next")));
        });
        assert_eq!(heads(&mut driver), ["POST /early", "GET /next"]);
    }
}

/// A long body closes the connection; but first the client gets its response, though it is still
/// sending when the server has closed (RFC 9112 §9.6).
fn a_long_unwanted_body_closes_the_connection<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    let len = if L::SLOWER == 1 { 2_000_000 } else { 100_000 };
    let body = smuggled(len);
    for (request, says_so) in [(post("/early", "", &body), true), (chunked("/early", &body), false)]
    {
        let answer = turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            client.send(&request);
            client.send(SMUGGLED);
            client.read_to_end().unwrap()
        });
        let all = replies(&answer).unwrap();
        let [reply] = &all[..] else { panic!("{all:?}") };
        assert!(is_ok(reply));
        // The number of chunks is unknown before they arrive.
        assert_eq!(reply.field("connection").is_some(), says_so);
        assert_eq!(heads(&mut driver), ["POST /early"]);
    }
}

/// An error in a discarded body is an error all the same.
fn a_broken_unwanted_body_closes_the_connection<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    let answer = turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        let head = "POST /early HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send([head.as_bytes(), b"5\r\nhellox", SMUGGLED, SMUGGLED].concat());
        client.read_to_end().unwrap()
    });
    assert!(replies(&answer).is_ok_and(|all| all.len() == 1 && is_ok(&all[0])));
    driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!(driver.engine().application().heads, ["POST /early"]);
}

/// A client that expects 100 gets it if the application wants the body (RFC 9110 §10.1.1).
fn expect_continue_gets_100<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    for expectation in ["100-continue", "100-CONTINUE"] {
        turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            let request = post("/continue", &format!("Expect: {expectation}\r\n"), b"hello");
            let (head, body) = request.split_at(request.len() - 5);
            client.send(head);
            let interim = client.read_head().unwrap();
            assert_eq!((interim.status, interim.fields.len()), (100, 0));
            client.send(body);
            assert!(is_ok(&client.read_reply().unwrap()));
            assert!(is_ok(&client.get("/next")), "the connection is kept");
        });
        assert_eq!(heads(&mut driver), ["POST /continue", "GET /next"]);
    }
}

/// The client need not wait: it may send the body without a 100.
fn a_client_that_sends_without_100_is_served<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        client.send(post("/", "Expect: 100-continue\r\n", &smuggled(300)));
        assert!(is_ok(&client.read_reply().unwrap()));
        client.send(post("/continue", "Expect: 100-continue\r\n", &smuggled(300)));
        let first = client.read_head().unwrap();
        if first.status == 100 {
            assert!(is_ok(&client.read_reply().unwrap()));
        } else {
            assert_eq!((first.status, client.read_bytes(3)), (200, b"ok\n".to_vec()));
        }
    });
    assert_eq!(heads(&mut driver), ["POST /", "POST /continue"]);
}

/// After a final response instead of 100 the next bytes may be the body or the next request: so the
/// connection closes.
fn a_final_response_instead_of_100_closes_the_connection<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    for sends_body in [true, false] {
        let answer = turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            let request = post("/early", "Expect: 100-continue\r\n", &smuggled(300));
            let (head, body) = request.split_at(request.len() - 300);
            client.send(head);
            let reply = client.read_reply().unwrap();
            assert!(is_ok(&reply) && reply.field("connection") == Some("close"), "{reply:?}");
            if sends_body {
                client.send(body);
            }
            client.send(SMUGGLED);
            client.read_to_end().unwrap()
        });
        assert_eq!(answer, b"");
        assert_eq!(heads(&mut driver), ["POST /early"]);
    }
}

/// HTTP/1.0 has no 100: such a client gets none, whatever its fields.
fn http_1_0_gets_no_100<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        let head = "POST /continue HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        client.send([head, "hello"].concat());
        assert!(is_ok(&client.read_reply().unwrap()));
    });
    assert_eq!(heads(&mut driver), ["POST /continue"]);
}

/// While a response is pending, the next requests wait in the client's socket.
fn nothing_is_read_ahead_of_an_answer<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    let mut client = HttpClient::connect(address);
    client.send_get("/never");
    driver.turn_until(|driver| driver.engine().application().heads.len() == 1);
    client.socket().set_nonblocking(true).unwrap();
    let requests = SMUGGLED.repeat(1_000);
    let (before, start) = (Ledger::here(), sys::now());
    while sys::now() - start < Duration::from_millis(300) {
        match client.socket().write(&requests) {
            Ok(n) => assert!(n > 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        driver.turn(Duration::from_millis(1));
    }
    let receives = (Ledger::here() - before).count(Call::recv).calls;
    assert!(receives <= 1, "{receives} receives for nothing");
    assert_eq!(driver.engine().application().heads, ["GET /never"]);
}

/// A client that has finished sending gets every response, and then the connection closes (row 38).
fn a_client_that_has_finished_is_answered<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = start::<L>();
    let requests = [
        post("/a", "", b"hello"),
        chunked("/b", b"hello"),
        b"GET /c HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
    ];
    for len in 1..=requests.len() {
        let answer = turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            client.send(requests[..len].concat());
            client.finish();
            client.read_to_end().unwrap()
        });
        let all = replies(&answer).unwrap();
        assert!(all.len() == len && all.iter().all(is_ok), "{all:?}");
        assert_eq!(heads(&mut driver), ["POST /a", "POST /b", "GET /c"][..len]);
    }
}

tests_in_three_loops!(
    at_any_pace: [
        a_short_unwanted_body_is_discarded,
        a_long_unwanted_body_closes_the_connection,
        a_broken_unwanted_body_closes_the_connection,
        expect_continue_gets_100,
        a_client_that_sends_without_100_is_served,
        a_final_response_instead_of_100_closes_the_connection,
        http_1_0_gets_no_100,
        a_client_that_has_finished_is_answered,
    ],
    at_full_speed: [nothing_is_read_ahead_of_an_answer],
);

const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
