//! Bad requests on real sockets, in every kind of loop, whole and byte by byte: each is refused
//! with its status, the connection ends, and nothing behind it is parsed as a request. Similar
//! valid requests are accepted.

use std::io::Write;
use std::net::SocketAddr;

use fulmar_proto::PeerError;
use fulmar_server::Limits;
use fulmar_tests::cases::{RequestCase, bad_beside_http2, good, strict_requests};
use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::loops::{Loop, OwnLoop, turn_while};
use fulmar_tests::recording_app::{ConnectionEnd, RecordingEngine, server};
use fulmar_tests::tests_in_every_loop;

/// Sends the bad request with a good one behind it, reads to the end, and sends a request on
/// another connection.
fn refused_by(address: SocketAddr, case: &RequestCase) -> Vec<u8> {
    let mut client = HttpClient::connect(address);
    client.send([&case.bytes, SMUGGLED].concat());
    let answer = client.read_to_end().unwrap_or_else(|error| panic!("{}: {error}", case.what));
    // The server may not read it any more; it gets no response in any case.
    let _ = client.socket().write_all(SMUGGLED);
    answer
}

/// Sends a truncated request, and reads to the end.
fn cut(address: SocketAddr, case: &RequestCase) -> Vec<u8> {
    let mut client = HttpClient::connect(address);
    client.send(&case.bytes);
    client.finish();
    client.read_to_end().unwrap_or_else(|error| panic!("{}: {error}", case.what))
}

/// Checks the connection that ended last: its application received `heads` and no complete request.
fn assert_ended<L: Loop<Engine = RecordingEngine>>(
    driver: &mut L,
    case: &RequestCase,
    heads: &[&str],
) -> ConnectionEnd {
    driver.turn_until(|driver| driver.engine().connections() == 0);
    let heard = driver.engine().application_mut();
    assert_eq!(heard.heads, heads, "{}", case.what);
    assert_eq!(heard.complete, Vec::<String>::new(), "{}", case.what);
    assert_eq!(heard.gone.len(), heard.accepted, "{}", case.what);
    heard.heads.clear();
    *heard.gone.last().unwrap()
}

fn bad_requests_are_refused<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = L::start(server(Limits::default(), None));
    for case in bad_beside_http2().iter().filter(|case| is_short_enough::<L>(case)) {
        let what = &case.what;
        if case.expected == "eof" {
            let answer = turn_while(&mut driver, || cut(address, case));
            assert_eq!(answer, b"", "{what}");
            let has_head = case.bytes.windows(4).any(|part| part == b"\r\n\r\n");
            let heads: &[&str] = if has_head { &["POST /echo"] } else { &[] };
            let gone = assert_ended(&mut driver, case, heads);
            assert_eq!(gone, ConnectionEnd::Peer(PeerError::UnexpectedEof), "{what}");
            continue;
        }
        let answer = turn_while(&mut driver, || refused_by(address, case));
        let (status, heads) = match case.expected.strip_suffix(" body") {
            Some(status) => (status, &["POST /echo"][..]),
            None => (&case.expected[..], &[][..]),
        };
        let all = replies(&answer).unwrap_or_else(|error| panic!("{what}: {error}: {answer:?}"));
        let [reply] = &all[..] else { panic!("{what}: {all:?}") };
        assert_eq!(reply.status.to_string(), status, "{what}");
        assert_eq!(reply.field("connection"), Some("close"), "{what}");
        match assert_ended(&mut driver, case, heads) {
            ConnectionEnd::Peer(error) => assert_eq!(error.status(), reply.status, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

fn good_neighbours_are_taken<L: Loop<Engine = RecordingEngine>>() {
    let (mut driver, address) = L::start(server(Limits::default(), None));
    for case in good().iter().filter(|case| is_short_enough::<L>(case)) {
        let what = &case.what;
        let requests = case.expected.split(", ").count() + 1;
        turn_while(&mut driver, || {
            let mut client = HttpClient::connect(address);
            client.send([&case.bytes, SMUGGLED].concat());
            for n in 0..requests {
                let reply = client.read_reply().unwrap_or_else(|e| panic!("{what}: {n}: {e}"));
                assert_eq!((reply.status, &reply.body[..]), (200, &b"ok\n"[..]), "{what}: {n}");
            }
        });
        driver.turn_until(|driver| driver.engine().connections() == 0);
        let heard = driver.engine().application_mut();
        let expected = format!("{}, GET /smuggled 0", case.expected);
        assert_eq!(heard.complete.join(", "), expected, "{what}");
        assert_eq!(heard.gone.pop(), Some(ConnectionEnd::Closed), "{what}");
        heard.complete.clear();
    }
}

/// docs/strictness.md: the server refuses each request with the documented status.
#[test]
fn the_page_on_strictness_is_true_of_the_server() {
    let (mut driver, address) = OwnLoop::<RecordingEngine>::start(server(Limits::default(), None));
    let cases = strict_requests();
    assert!(cases.len() > 40, "only {} rows were found", cases.len());
    for case in cases {
        let answer = turn_while(&mut driver, || refused_by(address, &case));
        let all = replies(&answer).unwrap_or_else(|error| panic!("{}: {error}", case.what));
        let statuses: Vec<_> = all.iter().map(|reply| reply.status.to_string()).collect();
        assert_eq!(statuses, [case.expected], "{}", case.what);
    }
}

/// Byte by byte, the longest ones only take time: they behave as shorter ones.
fn is_short_enough<L: Loop>(case: &RequestCase) -> bool {
    case.bytes.len() * L::SLOWER < 2_000_000
}

tests_in_every_loop!(at_any_pace: [bad_requests_are_refused, good_neighbours_are_taken]);

const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
