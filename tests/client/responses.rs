//! Responses that servers may send and may not send: missing bodies, too many or too few bytes,
//! bytes at the wrong time.

use std::sync::Arc;

use fulmar_client::{Config, Options, Request, RequestBody, TransferEvent};
use fulmar_proto::h1::Leniency;
use fulmar_tests::cases::strict_responses;
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::print_case;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

use crate::remove::leave_nothing;

/// One response on a fresh connection, and the result for both.
struct ResponseCase {
    name: &'static str,
    method: &'static str,
    said: Vec<u8>,
    then: Option<ServerStep>,
    /// The body, or the kind of the error.
    result: Result<&'static [u8], &'static str>,
    /// The connection is kept for another request.
    kept: bool,
    leniency: Leniency,
}

fn case(name: &'static str, said: impl Into<Vec<u8>>) -> ResponseCase {
    ResponseCase {
        name,
        method: "GET",
        said: said.into(),
        then: None,
        result: Ok(b""),
        kept: false,
        leniency: Options::default().leniency,
    }
}

impl ResponseCase {
    fn to(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    fn then(self, step: ServerStep) -> Self {
        Self { then: Some(step), ..self }
    }

    fn gives(self, body: &'static [u8]) -> Self {
        Self { result: Ok(body), ..self }
    }

    fn fails(self, kind: &'static str) -> Self {
        Self { result: Err(kind), ..self }
    }

    fn kept(self) -> Self {
        Self { kept: true, ..self }
    }

    fn with(self, leniency: Leniency) -> Self {
        Self { leniency, ..self }
    }

    fn run<L: ClientLoop>(self) {
        print_case(self.name);
        let steps: Vec<ServerStep> =
            [ServerStep::Send(self.said)].into_iter().chain(self.then).collect();
        let script = move |heard: &ScriptedRequest| match heard.path() {
            "/" => steps.clone(),
            _ => ok(b"second"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let options = Arc::new(Options { leniency: self.leniency, ..Options::default() });
        let request = Request::with_method(self.method, &staged.url("/")).options(options).build();
        let id = staged.start(&request.expect("a request"));
        staged.run();
        staged.rest();
        let recorder = staged.recorder();
        let done = recorder.ended(id);
        match (&done.result, self.result) {
            (Ok(()), Ok(body)) => assert_eq!(recorder.body(id), body),
            (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "{error:?}"),
            (result, _) => panic!("{}: {result:?}", self.name),
        }
        assert_eq!(staged.client.engine().idle_connections(), usize::from(self.kept));
        let second = Arc::new(Options { leniency: self.leniency, ..Options::default() });
        let second = Request::get(&staged.url("/second")).options(second).build();
        let second = staged.start(&second.expect("a request"));
        staged.run();
        assert_eq!(staged.recorder().body(second), b"second");
        assert_eq!(staged.recorder().ended(second).reused, self.kept, "{}", self.name);
        leave_nothing(&mut staged);
    }
}

/// Bytes that belong to no response disqualify a connection: it is never reused (RFC 9112 §6.3,
/// §9.2). This holds also where they could be explained.
#[test]
fn bytes_beyond_a_response_close_the_connection() {
    fn check<L: ClientLoop>() {
        let two = [answer("200 OK", "", b"hello"), answer("200 OK", "", b"evil")].concat();
        let bare = "HTTP/1.1 204 No Content\r\n\r\n";
        for case in [
            case("a second answer", two).gives(b"hello"),
            case("an interim answer after the final one", {
                [&answer("200 OK", "", b"hello")[..], b"HTTP/1.1 103 Early Hints\r\n\r\n"].concat()
            })
            .gives(b"hello"),
            case("a line end", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\r\n".to_vec())
                .gives(b"hello"),
            case("a body after 204", format!("{bare}hello")),
            case("a body after 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"),
            case("a body in answer to HEAD", answer("200 OK", "", b"hello")).to("HEAD"),
        ] {
            case.run::<L>();
        }
    }
    in_every_loop!(check);
}

/// RFC 9112 §6.3: these have no body, whatever their fields contain.
#[test]
fn responses_without_a_body_keep_the_connection() {
    fn check<L: ClientLoop>() {
        for case in [
            case("204", "HTTP/1.1 204 No Content\r\n\r\n").kept(),
            case("304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n")
                .kept(),
            case("HEAD with a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
                .to("HEAD")
                .kept(),
            case("HEAD, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .to("HEAD")
                .kept(),
            case("no bytes", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").kept(),
            case("interim first", {
                [b"HTTP/1.1 103 Early Hints\r\n\r\n", &answer("200 OK", "", b"hello")[..]].concat()
            })
            .gives(b"hello")
            .kept(),
            case("until the end", "HTTP/1.1 200 OK\r\n\r\nhello")
                .then(ServerStep::Fin)
                .gives(b"hello"),
            case("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello").gives(b"hello"),
        ] {
            case.run::<L>();
        }
    }
    in_every_loop!(check);
}

/// An incomplete body is never reported as complete, and each kind has an error of its own.
#[test]
fn truncated_bodies_are_errors() {
    fn check<L: ClientLoop>() {
        let short = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        for case in [
            case("nothing at all", "").then(ServerStep::Fin).fails("closed"),
            case("part of the status line", "HTTP/1.1 20").then(ServerStep::Fin).fails("truncated"),
            case("part of the fields", "HTTP/1.1 200 OK\r\nA: b")
                .then(ServerStep::Fin)
                .fails("truncated"),
            case("part of the body", short).then(ServerStep::Fin).fails("truncated"),
            case("no last chunk", chunked).then(ServerStep::Fin).fails("truncated"),
            case("an interim answer only", "HTTP/1.1 103 E\r\n\r\n")
                .then(ServerStep::Fin)
                .fails("truncated"),
        ] {
            case.run::<L>();
        }
    }
    in_every_loop!(check);
}

#[test]
fn a_reset_amid_a_body_is_an_error_of_its_own() {
    fn check<L: ClientLoop>() {
        let script = |_: &ScriptedRequest| {
            vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".to_vec())]
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let id = staged.get("/");
        staged.run_until(|client| client.application().body(id) == b"hello");
        staged.peer.act(0, [ServerStep::Reset]);
        staged.run();
        let done = staged.recorder().ended(id);
        assert_eq!(done.result.as_ref().unwrap_err().kind(), "io");
        assert_eq!((done.status, done.received), (200, 5));
    }
    in_every_loop!(check);
}

/// Ambiguous framing is refused (RFC 9112 §6.1, §6.3).
#[test]
fn ambiguous_responses_are_refused() {
    fn check<L: ClientLoop>() {
        for (name, fields) in [
            ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n".to_owned()),
            ("a list of lengths", "Content-Length: 5, 6\r\n".to_owned()),
            ("a sign", "Content-Length: +5\r\n".to_owned()),
            ("a length beyond 64 bits", "Content-Length: 99999999999999999999\r\n".to_owned()),
            ("a blank before the colon", "Content-Length : 5\r\n".to_owned()),
            ("a fold of nothing", " A: b\r\n".to_owned()),
            ("a carriage return", "A: b\rC: d\r\n".to_owned()),
            ("a zero byte", "A: b\0c\r\n".to_owned()),
        ] {
            let said = format!("HTTP/1.1 200 OK\r\n{fields}\r\n5\r\nhello\r\n0\r\n\r\n");
            case(name, said).fails("protocol").run::<L>();
        }
        let endless = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(17);
        case("endless interim answers", endless).fails("protocol").run::<L>();
        let upgrade =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        case("an upgrade that nobody asked for", upgrade).fails("protocol").run::<L>();
        case("no HTTP", "SSH-2.0-OpenSSH_9.7\r\n\r\n").fails("protocol").run::<L>();
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(40_000));
        case("an endless field", long).fails("protocol").run::<L>();
    }
    in_every_loop!(check);
}

/// Deviations of old servers are accepted by default, and refused by a strict client (RFC 9112
/// §2.2, §5.2, §6.1, §6.3).
#[test]
fn doubtful_responses_are_repaired_unless_the_client_is_strict() {
    fn check<L: ClientLoop>() {
        let chunks = "5\r\nhello\r\n0\r\n\r\n";
        let coding = "Transfer-Encoding: chunked\r\n";
        for (name, said, kept) in [
            (
                "a folded field",
                "HTTP/1.1 200 OK\r\nA: b\r\n\tc: d\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
                true,
            ),
            ("line feeds", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello".to_owned(), true),
            (
                "line feeds in chunks",
                format!("HTTP/1.1 200 OK\r\n{coding}\r\n5\nhello\n0\n\n"),
                true,
            ),
            (
                "blanks behind a chunk size",
                format!("HTTP/1.1 200 OK\r\n{coding}\r\n5     \r\nhello\r\n0     \r\n\r\n"),
                true,
            ),
            (
                "one length twice",
                "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello".to_owned(),
                true,
            ),
            (
                "length and chunks",
                format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{coding}\r\n{chunks}"),
                false,
            ),
            (
                "chunks in HTTP/1.0",
                format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n{coding}\r\n{chunks}"),
                false,
            ),
        ] {
            let lenient = case(name, said.clone()).gives(b"hello");
            (if kept { lenient.kept() } else { lenient }).run::<L>();
            case(name, said).with(Leniency::strict()).fails("protocol").run::<L>();
        }
        let bare = || case("HTTP/0.9", "hello").then(ServerStep::Fin);
        bare().with(Leniency::lenient().with(Leniency::HTTP_09)).gives(b"hello").run::<L>();
        bare().fails("protocol").run::<L>();
    }
    in_every_loop!(check);
}

/// docs/strictness.md has a column about the client.
#[test]
fn the_page_on_strictness_is_true_of_the_client() {
    fn check<L: ClientLoop>() {
        let usual = Leniency::lenient();
        for (response, client) in strict_responses() {
            print_case(&response.what);
            let steps = [ServerStep::Send(response.bytes), ServerStep::Fin];
            let script = move |_: &ScriptedRequest| steps.to_vec();
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let is_bare = client == "`--http0.9`";
            for (leniency, accepted) in [
                (usual, client == "accepted"),
                (usual.with(Leniency::HTTP_09), client != "refused"),
            ] {
                let options = Options { leniency, ..Options::default() };
                let request = Request::get(&staged.url("/")).options(Arc::new(options)).build();
                let id = staged.start(&request.expect("a request"));
                staged.run();
                let result = &staged.recorder().ended(id).result;
                assert_eq!(result.is_ok(), accepted, "{}: {result:?}", response.what);
            }
            assert!(is_bare || matches!(&client[..], "accepted" | "refused"), "{client}");
        }
    }
    in_every_loop!(check);
}

/// Also not for a request that waited for the connection: bytes after a response, in the same
/// packet, are the response to no request.
#[test]
fn bytes_beyond_a_response_do_not_reach_a_queued_request() {
    fn check<L: ClientLoop>() {
        if L::SLOWER > 1 {
            return; // byte by byte, they arrive after the next request has begun
        }
        let config = Config { per_host_max: 1, ..Config::default() };
        let script = |heard: &ScriptedRequest| match heard.connection {
            0 => {
                let (first, evil) = (answer("200 OK", "", b"first"), answer("200 OK", "", b"evil"));
                vec![ServerStep::Send([first, evil].concat())]
            }
            _ => ok(b"second"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        let (a, b) = (staged.get("/a"), staged.get("/b"));
        staged.run();
        assert_eq!(staged.recorder().body(a), b"first");
        assert_eq!(staged.recorder().body(b), b"second");
        assert_eq!(staged.peer.accepted(), 2);
        assert!(!staged.recorder().ended(b).excess);
    }
    in_every_loop!(check);
}

/// On an idle connection any byte disqualifies it.
#[test]
fn bytes_on_an_idle_connection_close_it() {
    fn check<L: ClientLoop>() {
        let mut staged =
            Staged::<L>::new(TransferRecorder::default(), Config::default(), |_| ok(b"a"));
        staged.get("/");
        staged.run();
        staged.rest();
        staged.peer.act(0, [ServerStep::Send(answer("200 OK", "", b"evil"))]);
        staged.run_until(|client| client.connections() == 0);
        let id = staged.get("/second");
        staged.run();
        assert_eq!(staged.recorder().body(id), b"a");
        assert!(!staged.recorder().ended(id).reused);
    }
    in_every_loop!(check);
}

/// The response arrives before the body is sent: it is delivered, the upload stops, the connection
/// is not reused (RFC 9112 §9.3, §9.6).
#[test]
fn an_early_response_ends_the_upload() {
    fn check<L: ClientLoop>() {
        let body = vec![b'x'; 16_000_000 / L::SLOWER];
        let script = |heard: &ScriptedRequest| match heard.method() {
            "POST" => vec![ServerStep::Send(answer("413 Content Too Large", "", b"no"))],
            _ => ok(b"second"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        staged.peer.hasty = true;
        let options = Options { expect_continue_from: None, ..Options::default() };
        let request = Request::with_method("POST", &staged.url("/"))
            .body(RequestBody::Bytes(body.into()))
            .options(Arc::new(options));
        let id = staged.start(&request.build().unwrap());
        staged.run();
        assert_eq!(staged.recorder().ended(id).status, 413);
        assert_eq!(staged.recorder().body(id), b"no");
        staged.peer.hasty = false;
        let second = staged.get("/second");
        staged.run();
        assert_eq!(staged.recorder().body(second), b"second");
        assert!(!staged.recorder().ended(second).reused);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// RFC 9110 §15.5.20. All requests of the transfer that follow the 421 avoid the shared connection.
#[test]
fn misdirected_request_is_sent_again_on_its_own_connection() {
    fn check<L: ClientLoop>() {
        let script = |heard: &ScriptedRequest| {
            let challenge = "WWW-Authenticate: Basic realm=\"r\"\r\n";
            let authorized = heard.field("authorization").is_some();
            vec![ServerStep::Send(match (heard.path(), heard.connection) {
                ("/wrong", 0) => answer("421 Misdirected Request", "", b"wrong"),
                ("/wrong", _) if !authorized => answer("401 Unauthorized", challenge, b"who"),
                _ => answer("200 OK", "", b"right"),
            })]
        };
        for method in ["GET", "POST"] {
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let url = staged.url("/wrong").replace("://", "://user:password@");
            let body = match method {
                "POST" => RequestBody::Bytes("body".into()),
                _ => RequestBody::Empty,
            };
            let request = Request::with_method(method, &url).body(body).build().unwrap();
            let id = staged.start(&request);
            staged.run();
            let last = staged.get("/last");
            staged.run();
            for id in [id, last] {
                assert_eq!(staged.recorder().body(id), b"right");
            }
            let done = staged.recorder().ended(id);
            let hops: Vec<u16> = done.hops.iter().map(|hop| hop.status).collect();
            assert_eq!((&hops[..], done.status), (&[421, 401][..], 200));
            let heard = staged.peer.requests.iter();
            let connections: Vec<usize> = heard.map(|heard| heard.connection).collect();
            assert_eq!(connections, [0, 1, 2, 0], "{method}");
            staged.rest();
            assert_eq!((staged.peer.open(), staged.client.engine().origins()), (1, 1));
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}

/// One connection is allowed: the others are closed before the request is sent again.
#[test]
fn misdirected_requests_keep_to_the_limit_of_connections() {
    fn check<L: ClientLoop>() {
        let script = |heard: &ScriptedRequest| match heard.connection {
            0 => vec![ServerStep::Send(answer("421 Misdirected Request", "", b"wrong"))],
            _ => ok(b"right"),
        };
        let config = Config { connections_max: 1, ..Config::default() };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        let ids: Vec<_> = (0..3).map(|_| staged.get("/")).collect();
        let mut most = 0;
        staged.run_until(|client| {
            most = most.max(client.connections());
            client.running() == 0
        });
        for id in ids {
            assert_eq!(staged.recorder().body(id), b"right");
        }
        assert_eq!(most, 1);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// A streamed body cannot be sent again.
#[test]
fn a_421_after_a_stream_is_delivered() {
    fn check<L: ClientLoop>() {
        let recorder = TransferRecorder::with(|context, id, event| {
            if matches!(event, TransferEvent::Writable) {
                context.send(id, bytes::Bytes::from_static(b"hello"));
                context.finish(id);
            }
        });
        let script =
            |_: &ScriptedRequest| vec![ServerStep::Send(answer("421 Misdirected", "", b"wrong"))];
        let mut staged = Staged::<L>::new(recorder, Config::default(), script);
        let options = Options { expect_continue_from: None, ..Options::default() };
        let request = Request::with_method("POST", &staged.url("/"))
            .body(RequestBody::Stream(Some(5)))
            .options(Arc::new(options));
        let id = staged.start(&request.build().unwrap());
        staged.run();
        let done = staged.recorder().ended(id);
        assert_eq!((done.status, done.hops.len()), (421, 0));
        assert_eq!(staged.recorder().body(id), b"wrong");
        assert_eq!(staged.peer.accepted(), 1);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// The body waits for the server's 100; after a refusal it is not sent at all.
#[test]
fn a_body_waits_for_100() {
    fn check<L: ClientLoop>() {
        for (status, sent) in [("100 Continue", 5), ("417 Expectation Failed", 0)] {
            let script = move |heard: &ScriptedRequest| match (heard.method(), status) {
                ("POST", "100 Continue") => {
                    assert_eq!(heard.field("expect"), Some("100-continue"));
                    vec![ServerStep::Send(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())]
                }
                ("POST", _) => vec![ServerStep::Send(answer(status, "", b"no"))],
                _ => ok(b"second"),
            };
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            staged.peer.hasty = true;
            let options = Options { expect_continue_from: Some(1), ..Options::default() };
            let request = Request::with_method("POST", &staged.url("/"))
                .body(RequestBody::Bytes("hello".into()))
                .options(Arc::new(options));
            let id = staged.start(&request.build().unwrap());
            while staged.peer.requests.is_empty() {
                staged.turn();
            }
            staged.rest();
            let progress = staged.with(|context| context.progress(id));
            assert_eq!(progress.map_or(0, |progress| progress.sent), sent, "{status}");
            staged.peer.act(0, ok(b"yes"));
            staged.run();
            let expected: &[u8] = if sent > 0 { b"yes" } else { b"no" };
            assert_eq!(staged.recorder().body(id), expected);
        }
    }
    in_every_loop!(check);
}

/// The declared length of a streamed body must be true.
#[test]
fn a_stream_of_the_wrong_length_fails() {
    fn check<L: ClientLoop>() {
        for (declared, sent) in [(5, "helloworld"), (10, "hello")] {
            let recorder = TransferRecorder::with(move |context, id, event| {
                if matches!(event, TransferEvent::Writable) {
                    context.send(id, bytes::Bytes::from_static(sent.as_bytes()));
                    context.finish(id);
                }
            });
            let mut staged = Staged::<L>::new(recorder, Config::default(), |_| ok(b""));
            let request = Request::with_method("POST", &staged.url("/"))
                .body(RequestBody::Stream(Some(declared)))
                .build();
            let id = staged.start(&request.unwrap());
            staged.run();
            let done = staged.recorder().ended(id);
            assert_eq!(done.result.as_ref().unwrap_err().kind(), "misuse");
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}
