//! A connection fails under a request: which requests are repeated, and which never are. The peer
//! counts them.

use fulmar_client::{Config, Error, Request, RequestBody};
use fulmar_proto::PeerError;
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::print_case;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

use crate::remove::leave_nothing;

/// Where the peer ends the connection of the second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// After the first answer, before the second request is sent.
    Idle,
    /// While the second request is on its way: its bytes meet a closed socket.
    Crossing,
    /// When it has been read.
    Read,
    /// After some of the status line.
    StatusLine,
    /// After an interim answer.
    Interim,
    /// After some of the fields.
    Fields,
    /// After some of the body.
    RequestBody,
    /// After all of it.
    Whole,
}

const POINTS: [Point; 8] = [
    Point::Idle,
    Point::Crossing,
    Point::Read,
    Point::StatusLine,
    Point::Interim,
    Point::Fields,
    Point::RequestBody,
    Point::Whole,
];

impl Point {
    /// The bytes that the peer sends to the second request before it ends.
    fn bytes(self) -> Vec<u8> {
        let whole = answer("200 OK", "X: y\r\n", b"hello");
        let len = match self {
            Self::Idle | Self::Crossing | Self::Read => 0,
            Self::StatusLine => 10,
            Self::Fields => 20,
            Self::RequestBody => whole.len() - 2,
            Self::Whole => whole.len(),
            Self::Interim => return b"HTTP/1.1 102 Processing\r\n\r\n".to_vec(),
        };
        whole[..len].to_vec()
    }
}

/// One request, then a second with this method on the same connection: how often the peer received
/// the second, and how it ended.
fn second<L: ClientLoop>(
    method: &str,
    point: Point,
    end: ServerStep,
) -> (usize, Result<(), &'static str>) {
    let last = end.clone();
    let script = move |heard: &ScriptedRequest| match (heard.connection, heard.nth) {
        (0, 1) if point != Point::Idle => vec![ServerStep::Send(point.bytes()), last.clone()],
        _ => ok(b"first"),
    };
    let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
    staged.get("/first");
    staged.run();
    staged.rest();
    let body = if method == "GET" { RequestBody::Empty } else { RequestBody::Bytes("body".into()) };
    let request = Request::with_method(method, &staged.url("/second")).body(body);
    let request = request.build().expect("a request");
    match point {
        Point::Idle => {
            staged.peer.act(0, [end]);
            staged.rest();
        }
        Point::Crossing => {
            // The peer's end arrives in the turn in which the request is to leave.
            staged.peer.act(0, [end]);
            staged.peer.turn();
        }
        _ => {}
    }
    let id = staged.start(&request);
    staged.run();
    let heard = staged.peer.requests.iter().filter(|heard| heard.path() == "/second").count();
    let done = staged.recorder().ended(id);
    assert!(point == Point::Crossing || done.retried == (heard > 1), "{done:?}");
    let result = done.result.as_ref().copied().map_err(Error::kind);
    leave_nothing(&mut staged);
    (heard, result)
}

/// RFC 9110 §9.2.2, RFC 9112 §9.3.1: a request is repeated only if that is safe, only on a
/// connection that had been used before, and never once the response has begun.
#[test]
fn requests_on_a_stale_connection_are_repeated_if_safe() {
    fn check<L: ClientLoop>() {
        for end in [ServerStep::Close, ServerStep::Reset] {
            for point in POINTS {
                for method in ["GET", "PUT", "POST"] {
                    let (heard, result) = second::<L>(method, point, end.clone());
                    let case = format!("{method} {point:?} {end:?}: {heard} {result:?}");
                    print_case(&case);
                    assert!(method != "POST" || heard <= 1, "{case}");
                    match point {
                        Point::Idle => assert!(heard == 1 && result.is_ok(), "{case}"),
                        Point::Crossing if method != "POST" => assert!(result.is_ok(), "{case}"),
                        Point::Crossing => assert!(heard == usize::from(result.is_ok()), "{case}"),
                        Point::Read if method != "POST" => {
                            assert!(heard == 2 && result.is_ok(), "{case}");
                        }
                        Point::Whole => {
                            // A reset may overtake the answer.
                            let lost = matches!(end, ServerStep::Reset);
                            assert!(result.is_ok() || lost, "{case}");
                        }
                        // A reset discards the bytes before it: then nothing was received.
                        _ if matches!(end, ServerStep::Reset) && method != "POST" => {
                            assert!(heard == 1 || result.is_ok(), "{case}");
                        }
                        _ => assert!(heard == 1 && result.is_err(), "{case}"),
                    }
                }
            }
        }
    }
    in_every_loop!(check);
}

/// Once a byte of the response has arrived, the request is never repeated, whatever ends the
/// connection.
#[test]
fn no_request_is_repeated_after_a_byte_of_its_response() {
    fn check<L: ClientLoop>() {
        for point in [Point::StatusLine, Point::Interim, Point::Fields, Point::RequestBody] {
            for end in [ServerStep::Close, ServerStep::Reset] {
                let script = move |heard: &ScriptedRequest| match heard.nth {
                    1 => vec![ServerStep::Send(point.bytes())],
                    _ => ok(b"first"),
                };
                let mut staged =
                    Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
                staged.get("/first");
                staged.run();
                let id = staged.get("/second");
                while staged.peer.requests.len() < 2 {
                    staged.turn();
                }
                staged.rest(); // the bytes have been read
                staged.peer.act(0, [end.clone()]);
                staged.run();
                let done = staged.recorder().ended(id);
                assert!(done.result.is_err() && !done.retried, "{point:?} {end:?} {done:?}");
                assert_eq!(staged.peer.requests.len(), 2, "{point:?} {end:?}");
            }
        }
    }
    in_every_loop!(check);
}

/// If the second connection fails as well, the transfer ends with an error: one retry is enough.
#[test]
fn a_request_is_repeated_once() {
    fn check<L: ClientLoop>() {
        let script = |heard: &ScriptedRequest| match heard.path() {
            "/second" => vec![ServerStep::Close],
            _ => ok(b""),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        staged.get("/first");
        staged.run();
        let id = staged.get("/second");
        staged.run();
        assert_eq!(staged.peer.requests.len(), 3);
        let done = staged.recorder().ended(id);
        assert!(matches!(done.result, Err(Error::Closed | Error::Peer(PeerError::UnexpectedEof))));
        assert!(done.retried, "it was sent twice");
    }
    in_every_loop!(check);
}

/// A streamed body is never sent twice, whatever the method.
#[test]
fn a_streamed_body_is_never_sent_twice() {
    fn check<L: ClientLoop>() {
        for method in ["PUT", "POST"] {
            let script = |heard: &ScriptedRequest| match heard.path() {
                "/second" => vec![ServerStep::Close],
                _ => ok(b""),
            };
            let recorder = TransferRecorder::with(|context, id, event| {
                if matches!(event, fulmar_client::TransferEvent::Writable) {
                    context.send(id, bytes::Bytes::from_static(b"body"));
                    context.finish(id);
                }
            });
            let config = Config::default();
            let mut staged = Staged::<L>::new(recorder, config, script);
            staged.get("/first");
            staged.run();
            let request = Request::with_method(method, &staged.url("/second"));
            let id = staged.start(&request.body(RequestBody::Stream(Some(4))).build().unwrap());
            staged.run();
            assert!(staged.recorder().ended(id).result.is_err());
            assert_eq!(staged.peer.requests.len(), 2);
        }
    }
    in_every_loop!(check);
}

/// A new connection that closes without a response is an error of the server, not a stale
/// connection.
#[test]
fn a_fresh_connection_that_dies_is_not_tried_again() {
    fn check<L: ClientLoop>() {
        for end in [ServerStep::Close, ServerStep::Reset, ServerStep::Fin] {
            let last = end.clone();
            let script = move |_: &ScriptedRequest| vec![last.clone()];
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let id = staged.get("/");
            staged.run();
            assert_eq!(staged.peer.requests.len(), 1, "{end:?}");
            let done = staged.recorder().ended(id);
            assert!(done.result.is_err() && !done.retried && !done.reused, "{done:?}");
        }
    }
    in_every_loop!(check);
}

/// Requests behind a response with `Connection: close` are repeated on other connections; the
/// origin is not pipelined to any more.
#[test]
fn a_server_that_breaks_a_pipeline_loses_nothing_and_is_not_pipelined_to_again() {
    fn check<L: ClientLoop>() {
        let config = Config { pipelining: 8, per_host_max: 1, ..Config::default() };
        let script = |heard: &ScriptedRequest| match (heard.connection, heard.nth) {
            (0, 4) => {
                let last = answer("200 OK", "Connection: close\r\n", b"last");
                vec![ServerStep::Send(last), ServerStep::Fin]
            }
            (0, 5..) => Vec::new(),
            _ => ok(b"hello"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        for _ in 0..2 {
            staged.get("/warm");
            staged.run();
        }
        let ids: Vec<_> = (0..12).map(|n| staged.get(&format!("/{n}"))).collect();
        staged.run();
        for id in &ids {
            let done = staged.recorder().ended(*id);
            assert!(done.result.is_ok(), "{done:?}");
        }
        let order: Vec<_> = staged.recorder().done[2..].iter().map(|(id, _)| *id).collect();
        assert_eq!(order, ids, "first come, first served");
        assert_eq!(staged.peer.accepted(), 2);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// The peer announces that this response is the last one, and continues to send it: a transfer that
/// is started meanwhile needs another connection.
#[test]
fn a_connection_that_is_about_to_close_is_not_pipelined_on() {
    fn check<L: ClientLoop>() {
        let config = Config { pipelining: 4, ..Config::default() };
        let script = |heard: &ScriptedRequest| match heard.path() {
            "/last" => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nla";
                vec![ServerStep::Send(head.into())]
            }
            _ => ok(b"hello"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        for _ in 0..2 {
            staged.get("/warm");
            staged.run();
        }
        let last = staged.get("/last");
        staged.run_until(|client| {
            client.application().trace(last) == "Hd" || { client.application().body(last) == b"la" }
        });
        let next = staged.get("/next");
        staged.run_until(|client| client.running() == 1);
        assert_eq!(staged.recorder().body(next), b"hello");
        staged.peer.act(0, [ServerStep::Send(b"st".to_vec()), ServerStep::Close]);
        staged.run();
        assert_eq!(staged.recorder().body(last), b"last");
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// Two pipelined answers in one segment free their connection once.
#[test]
fn answers_that_arrive_together_leave_one_idle_connection() {
    fn check<L: ClientLoop>() {
        let config = Config { pipelining: 4, per_host_max: 1, ..Config::default() };
        let script = |heard: &ScriptedRequest| match heard.nth {
            // The script holds these back until the fifth request.
            2 | 3 => Vec::new(),
            4 => {
                let bodies = [&b"a"[..], b"b", b"c"];
                vec![ServerStep::Send(bodies.map(|body| answer("200 OK", "", body)).concat())]
            }
            _ => ok(b"hello"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        for _ in 0..2 {
            staged.get("/warm");
            staged.run();
        }
        let ids = [staged.get("/a"), staged.get("/b"), staged.get("/c")];
        staged.run();
        assert_eq!(ids.map(|id| staged.recorder().body(id)[0]), *b"abc");
        assert_eq!(staged.client.engine().idle_connections(), 1);
        for _ in 0..3 {
            let id = staged.get("/again");
            staged.run();
            assert_eq!(staged.recorder().body(id), b"hello");
            assert_eq!(staged.client.engine().idle_connections(), 1);
        }
        assert_eq!(staged.peer.accepted(), 1);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}
