//! HTTP/2: many transfers on one connection, each with an end of its own.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fulmar_client::{
    Client, Config, Context, Error, Options, Protocol, Request, RequestBody, TransferEvent,
    TransferId, VerbatimHead,
};
use fulmar_proto::PeerError;
use fulmar_proto::h2::ErrorCode;
use fulmar_server::{Limits, ServerEngine};
use fulmar_sys::{self as sys, Ledger};
use fulmar_tests::app::{App, server};
use fulmar_tests::budget::budget;
use fulmar_tests::http2_server::{Http2Request, Http2Step, ScriptedHttp2};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::OwnLoop;
use fulmar_tests::process::PATIENCE;
use fulmar_tests::scripted::ok;
use fulmar_tests::transfers::{ClientAndServer, ClientLoop, Staged, TransferRecorder};
use fulmar_tests::tree::noise;

fn options(protocol: Protocol) -> std::sync::Arc<Options> {
    Options { protocol, ..Options::default() }.into()
}

fn http2() -> std::sync::Arc<Options> {
    options(Protocol::Http2)
}

#[test]
fn many_transfers_share_one_connection() {
    fn check<L: ClientLoop>() {
        let mut pair = ClientAndServer::<L, OwnLoop<ServerEngine<App>>>::new(
            TransferRecorder::default(),
            Config::default(),
        );
        let body = noise(200_000 / L::SLOWER + 1);
        let mut expected = Vec::new();
        for n in 0..40_usize {
            let url = pair.url(&format!("/bytes/{n}"));
            let request = Request::get(&url).options(http2()).build().expect("a request");
            expected.push((pair.start(&request), n));
        }
        let echo = Request::with_method("POST", &pair.url("/echo")).options(http2());
        let echo = echo.body(RequestBody::Bytes(body.clone().into())).build().expect("a request");
        let echoes = [pair.start(&echo), pair.start(&echo)];
        let head = Request::with_method("HEAD", &pair.url("/bytes/1000")).options(http2());
        let head = pair.start(&head.build().expect("a request"));
        pair.run();
        let stats = pair.client.engine().stats();
        assert_eq!((stats.connections, stats.reused, stats.ended), (1, 42, 43));
        let recorder = pair.client.engine().application();
        for (id, len) in expected {
            assert!(recorder.ended(id).result.is_ok());
            assert_eq!(recorder.body(id).len(), len);
        }
        for id in echoes {
            assert!(recorder.ended(id).result.is_ok() && recorder.body(id) == body);
        }
        assert_eq!((recorder.ended(head).status, recorder.body(head)), (200, &b""[..]));
    }
    in_every_loop!(check);
}

/// A hundred transfers at a time: their requests and responses share calls.
#[test]
fn a_hundred_streams_cost_few_calls() {
    const COUNT: usize = 2_000;
    let left = Rc::new(Cell::new(COUNT - 100));
    let recorder = TransferRecorder::with({
        let left = Rc::clone(&left);
        move |context, _, event| {
            if let TransferEvent::Done(done) = event
                && let Some(rest) = left.get().checked_sub(1)
            {
                left.set(rest);
                context.start(&done.request);
            }
        }
    });
    let client = Client::new(sys::now(), sys::wall_clock(), recorder, Config::default());
    let mut client = OwnLoop::by_calls(client).0;
    let (mut server, address) = OwnLoop::by_calls(server(Limits::default()));
    let url = format!("http://{address}/bytes/100");
    let request = Request::get(&url).options(http2()).build().expect("a request");
    client.0.with(|client, now| {
        for _ in 0..100 {
            client.start(now, &request);
        }
    });
    let (start, mut calls) = (sys::now(), 0);
    while client.0.engine.running() > 0 {
        assert!(sys::now() - start < PATIENCE, "nothing happens any more");
        let before = Ledger::here();
        client.0.try_turn().expect("a turn");
        calls += (Ledger::here() - before).total();
        server.0.try_turn().expect("a turn");
    }
    let stats = client.0.engine.stats();
    assert_eq!((stats.ended, stats.connections), (COUNT as u64, 1));
    let most = COUNT as u64 * budget("system_calls_per_1000", "client_http2_100_streams") / 1_000;
    assert!(calls <= most, "{calls} calls");
}

/// A client in a loop of its own, and a scripted server.
struct Http2Staged {
    client: OwnLoop<Client<TransferRecorder>>,
    peer: ScriptedHttp2,
}

impl Http2Staged {
    fn new(script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static) -> Self {
        Self::with(TransferRecorder::default(), script)
    }

    fn with(
        recorder: TransferRecorder,
        script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static,
    ) -> Self {
        Self::with_config(Config::default(), recorder, script)
    }

    fn with_config(
        config: Config,
        recorder: TransferRecorder,
        script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static,
    ) -> Self {
        let client = Client::new(sys::now(), sys::wall_clock(), recorder, config);
        Self { client: OwnLoop::by_calls(client).0, peer: ScriptedHttp2::new(script) }
    }

    fn request(&self, method: &str, path: &str, options: &std::sync::Arc<Options>) -> Request {
        let url = format!("http://{}{path}", self.peer.address());
        let body = match method {
            "POST" => RequestBody::Bytes("body".into()),
            _ => RequestBody::Empty,
        };
        let builder = Request::with_method(method, &url).options(options.clone());
        builder.body(body).build().expect("a request")
    }

    fn start(&mut self, method: &str, path: &str) -> TransferId {
        let request = self.request(method, path, &http2());
        self.start_request(&request)
    }

    fn start_request(&mut self, request: &Request) -> TransferId {
        self.client.0.with(|client, now| client.start(now, request))
    }

    fn act<O>(&mut self, act: impl FnOnce(&mut Context<'_>) -> O) -> O {
        self.client.0.with(|client, now| client.with(now, |_, context| act(context)))
    }

    /// A few turns of both sides, after which the client has received what the server has sent.
    fn exchange(&mut self) {
        for _ in 0..3 {
            self.peer.turn();
            self.client.0.turn_within(Duration::from_millis(1)).expect("a turn");
        }
    }

    fn run_until(&mut self, mut done: impl FnMut(&Client<TransferRecorder>) -> bool) {
        let start = sys::now();
        while !done(&self.client.0.engine) {
            assert!(sys::now() - start < PATIENCE, "nothing happens any more: {:?}", self.peer);
            self.client.0.turn_within(Duration::from_millis(1)).expect("a turn");
            self.peer.turn();
        }
    }

    fn run(&mut self) {
        self.run_until(|client| client.running() == 0);
    }

    fn result(&self, id: TransferId) -> Result<&[u8], &Error> {
        let recorder = self.client.0.engine.application();
        recorder.ended(id).result.as_ref().map(|()| recorder.body(id))
    }
}

fn respond(request: &Http2Request) -> Vec<Http2Step> {
    vec![Http2Step::Respond(request.path.clone().into_bytes())]
}

/// The server has not processed them, so a POST is sent again, too (RFC 9113 §8.7).
#[test]
fn refused_requests_are_sent_again() {
    let mut refused = 0;
    let mut staged = Http2Staged::new(move |request| {
        refused += 1;
        match refused {
            1..=3 => vec![Http2Step::Reset(ErrorCode::RefusedStream)],
            _ => respond(request),
        }
    });
    let ids = ["GET", "POST", "GET"].map(|method| staged.start(method, "/a"));
    staged.run();
    for id in ids {
        assert_eq!(staged.result(id).expect("a response"), b"/a");
        assert!(staged.client.0.engine.application().ended(id).retried);
    }
    assert_eq!((staged.peer.count("/a"), staged.peer.accepted()), (6, 1));
}

#[test]
fn refused_requests_are_sent_again_a_few_times_only() {
    let mut staged = Http2Staged::new(|_| vec![Http2Step::Reset(ErrorCode::RefusedStream)]);
    let id = staged.start("GET", "/");
    staged.run();
    assert!(matches!(staged.result(id), Err(Error::Reset(ErrorCode::RefusedStream))));
    assert_eq!(staged.peer.count("/"), 7, "the first one is sent before SETTINGS");
}

#[test]
fn a_reset_ends_one_transfer_with_its_code() {
    let mut staged = Http2Staged::new(|request| match request.path.as_str() {
        "/begun" => {
            vec![Http2Step::Begin(b"some".to_vec()), Http2Step::Reset(ErrorCode::InternalError)]
        }
        "/reset" => vec![Http2Step::Reset(ErrorCode::EnhanceYourCalm)],
        _ => respond(request),
    });
    let [begun, reset, whole] =
        ["/begun", "/reset", "/whole"].map(|path| staged.start("GET", path));
    staged.run();
    assert!(matches!(staged.result(begun), Err(Error::Reset(ErrorCode::InternalError))));
    assert!(matches!(staged.result(reset), Err(Error::Reset(ErrorCode::EnhanceYourCalm))));
    assert_eq!(staged.result(whole).expect("a response"), b"/whole");
    assert_eq!(staged.peer.accepted(), 1);
}

/// A malformed response is the same error as over HTTP/1 (RFC 9113 §8.1.1).
#[test]
fn malformed_responses_have_their_cause() {
    let head = |flags, rest: &[u8]| Http2Step::Frame(1, flags, [&[0x88], rest].concat());
    let length_5 = [0x0f, 0x0d, 1, b'5'];
    let upper_case = [0, 1, b'A', 1, b'b'];
    let data = |bytes: &[u8]| Http2Step::Frame(0, 1, bytes.to_vec());
    let rows = [
        (vec![head(4, &length_5), data(b"1234")], PeerError::BodyTooShort, "truncated"),
        (vec![head(5, &length_5)], PeerError::BodyTooShort, "truncated"),
        (vec![head(4, &length_5), head(5, b"")], PeerError::BodyTooShort, "truncated"),
        (vec![head(4, &length_5), data(b"123456")], PeerError::BodyTooLong, "excess"),
        (vec![head(5, &upper_case)], PeerError::BadField, "protocol"),
        (vec![head(4, b""), head(5, b"")], PeerError::BadTrailer, "protocol"),
        (vec![data(b"no head")], PeerError::Http2Stream(ErrorCode::ProtocolError), "protocol"),
        (
            vec![Http2Step::Frame(8, 0, vec![0; 4])],
            PeerError::Http2Stream(ErrorCode::ProtocolError),
            "protocol",
        ),
    ];
    for (steps, cause, kind) in rows {
        let mut staged = Http2Staged::new(move |_| steps.clone());
        let id = staged.start("GET", "/");
        staged.run();
        let error = staged.result(id).expect_err("a malformed response");
        assert!(matches!(error, Error::Peer(found) if *found == cause), "{error:?} {cause:?}");
        assert_eq!((error.kind(), staged.peer.count("/")), (kind, 1));
    }
}

#[test]
fn a_server_that_only_shuts_down_is_named() {
    let mut staged = Http2Staged::new(|_| vec![Http2Step::GoAway(0)]);
    let id = staged.start("GET", "/");
    staged.run();
    let error = staged.result(id).expect_err("no response");
    assert!(matches!(error, Error::Peer(PeerError::Goaway(ErrorCode::NoError))), "{error:?}");
    assert!(error.to_string().contains("GOAWAY (NO_ERROR)"), "{error}");
}

/// A client opens at most 100 streams before SETTINGS arrive. The others wait for them, as the
/// connection may carry them all.
#[test]
fn one_connection_takes_all_streams_that_its_server_accepts() {
    let mut staged = Http2Staged::new(respond);
    staged.peer.greeting = vec![Http2Step::StreamsMax(1_000)];
    let all: Vec<TransferId> = (0..300).map(|_| staged.start("GET", "/a")).collect();
    staged.run();
    assert!(all.iter().all(|id| staged.result(*id).is_ok()));
    assert_eq!((staged.peer.accepted(), staged.peer.requests.len()), (1, 300));
}

/// A server accepts ten streams at a time. Only its first connection begins with a hundred, and
/// no transfer fails for it.
#[test]
fn a_low_limit_of_streams_is_remembered() {
    let taken = Cell::new(((0, 0), 0));
    let mut staged = Http2Staged::new(move |request| {
        let now = (request.connection, request.turn);
        let (of, count) = taken.get();
        let count = if of == now { count + 1 } else { 1 };
        taken.set((now, count));
        match count {
            ..=10 => respond(request),
            _ => vec![Http2Step::Reset(ErrorCode::RefusedStream)],
        }
    });
    staged.peer.greeting = vec![Http2Step::StreamsMax(10)];
    let all: Vec<TransferId> = (0..500).map(|_| staged.start("POST", "/a")).collect();
    staged.run();
    for id in all {
        assert_eq!(staged.result(id).expect("a response"), b"/a");
    }
    assert_eq!(staged.peer.requests.len(), 500 + 90);
    assert!(staged.peer.accepted() > 1);
}

/// SETTINGS with a higher limit cause no other event.
#[test]
fn a_raised_limit_of_streams_is_used() {
    let config = Config { per_host_max: 1, ..Config::default() };
    let mut staged = Http2Staged::with_config(config, TransferRecorder::default(), |_| Vec::new());
    staged.peer.greeting = vec![Http2Step::StreamsMax(2)];
    for path in ["/a", "/b"] {
        staged.start("GET", path);
    }
    staged.exchange();
    staged.start("GET", "/c");
    staged.exchange();
    assert_eq!(staged.peer.requests.len(), 2, "the third one waits");
    staged.peer.perform(0, Http2Step::StreamsMax(4));
    staged.exchange();
    assert_eq!((staged.peer.accepted(), staged.peer.requests.len()), (1, 3));
}

/// SETTINGS may arrive at any time: the idle connection takes no request, and is closed.
#[test]
fn an_idle_connection_that_accepts_no_more_streams_is_replaced() {
    let mut staged = Http2Staged::new(respond);
    let first = staged.start("GET", "/first");
    staged.run();
    staged.peer.perform(0, Http2Step::StreamsMax(0));
    staged.exchange();
    let second = staged.start("GET", "/second");
    staged.run();
    assert_eq!(staged.result(first).expect("a response"), b"/first");
    assert_eq!(staged.result(second).expect("a response"), b"/second");
    assert_eq!((staged.peer.accepted(), staged.peer.requests[1].connection), (2, 1));
    staged.run_until(|client| client.connections() == 1);
}

/// GOAWAY leaves at once, although nothing else moves on the connection.
#[test]
fn close_idle_announces_the_end_of_connections_in_use() {
    let mut staged = Http2Staged::new(|request| match request.path.as_str() {
        "/slow" => vec![Http2Step::Begin(b"begun".to_vec())],
        _ => respond(request),
    });
    let slow = staged.start("GET", "/slow");
    staged.run_until(|client| client.application().body(slow) == b"begun");
    staged.exchange();
    assert!(!staged.peer.has_goaway(0));
    staged.client.0.with(Client::close_idle);
    staged.exchange();
    assert!(staged.peer.has_goaway(0));
    assert_eq!(staged.client.0.engine.running(), 1);
    let other = staged.start("GET", "/other");
    staged.run_until(|client| client.running() == 1);
    assert_eq!(staged.result(other).expect("a response"), b"/other");
    assert_eq!((staged.peer.accepted(), staged.peer.count("/other")), (2, 1));
}

/// RFC 9113 §6.8: streams above the last one were not processed.
#[test]
fn requests_behind_a_goaway_are_sent_on_another_connection() {
    let mut staged = Http2Staged::new(|request| match (request.connection, request.stream) {
        (0, 1) => vec![Http2Step::GoAway(1), Http2Step::Respond(b"first".to_vec())],
        (0, _) => Vec::new(),
        _ => respond(request),
    });
    let first = staged.start("POST", "/a");
    let behind = ["GET", "POST"].map(|method| staged.start(method, "/b"));
    staged.run();
    assert_eq!(staged.result(first).expect("a response"), b"first");
    for id in behind {
        assert_eq!(staged.result(id).expect("a response"), b"/b");
    }
    assert_eq!((staged.peer.accepted(), staged.peer.count("/a")), (2, 1));
}

#[test]
fn a_server_may_require_http1() {
    let mut staged = Http2Staged::new(|request| match request.is_http2 {
        true => vec![Http2Step::Reset(ErrorCode::Http11Required)],
        false => respond(request),
    });
    let id = staged.start("POST", "/old");
    staged.run();
    assert_eq!(staged.result(id).expect("a response"), b"/old");
    let ways: Vec<bool> = staged.peer.requests.iter().map(|request| request.is_http2).collect();
    assert_eq!(ways, [true, false]);
}

/// RFC 9110 §15.5.20: a POST, too, as the server has not processed it.
#[test]
fn misdirected_requests_are_sent_again_on_connections_of_their_own() {
    let mut staged = Http2Staged::new(|request| match (request.connection, &*request.path) {
        (0, "/wrong") => vec![Http2Step::Status(421)],
        _ => respond(request),
    });
    let first = staged.start("GET", "/first");
    staged.run();
    let wrong = ["GET", "POST"].map(|method| staged.start(method, "/wrong"));
    let right = staged.start("GET", "/right");
    staged.run();
    let last = staged.start("GET", "/last");
    staged.run();
    let recorder = staged.client.0.engine.application();
    for id in wrong {
        assert_eq!(staged.result(id).expect("a response"), b"/wrong");
        let done = recorder.ended(id);
        let hops: Vec<u16> = done.hops.iter().map(|hop| hop.status).collect();
        assert_eq!((&hops[..], done.reused, recorder.trace(id)), (&[421][..], false, "HdD".into()));
    }
    for id in [first, right, last] {
        assert!(staged.result(id).is_ok());
    }
    let (mut own, shared): (Vec<_>, Vec<_>) = staged
        .peer
        .requests
        .iter()
        .map(|request| (request.connection, &*request.path))
        .partition(|(connection, _)| *connection > 0);
    own.sort_unstable();
    assert_eq!(own, [(1, "/wrong"), (2, "/wrong")], "one request on each");
    assert_eq!(shared.len(), 5);
    let bodies = staged.peer.requests.iter().filter(|request| request.body == b"body").count();
    assert_eq!((bodies, staged.peer.accepted()), (2, 3));
    let client = &staged.client.0.engine;
    assert_eq!((client.connections(), client.idle_connections()), (1, 1), "the shared one is left");
}

#[test]
fn second_421_is_delivered() {
    let mut staged = Http2Staged::new(|_| vec![Http2Step::Status(421)]);
    let ids = ["GET", "POST"].map(|method| staged.start(method, "/"));
    staged.run();
    for id in ids {
        let done = staged.client.0.engine.application().ended(id);
        assert!(done.result.is_ok(), "{done:?}");
        assert_eq!((done.status, done.hops.len()), (421, 1));
    }
    assert_eq!((staged.peer.count("/"), staged.peer.accepted()), (4, 3));
}

/// Without GOAWAY the client cannot know which requests were processed: only idempotent ones are
/// sent again.
#[test]
fn lost_connection_retries_idempotent_requests_only() {
    let mut staged = Http2Staged::new(|request| match (request.connection, request.stream) {
        (0, 1) => respond(request),
        (0, 5) => vec![Http2Step::Close],
        (0, _) => Vec::new(),
        _ => respond(request),
    });
    let first = staged.start("GET", "/first");
    staged.run();
    let get = staged.start("GET", "/get");
    let post = staged.start("POST", "/post");
    staged.run();
    assert!(staged.result(first).is_ok());
    assert_eq!(staged.result(get).expect("a response"), b"/get");
    assert!(matches!(staged.result(post), Err(Error::Closed)), "{:?}", staged.result(post));
    assert_eq!((staged.peer.count("/get"), staged.peer.count("/post")), (2, 1));
}

/// Streams up to the last one of GOAWAY may have been processed, as without GOAWAY.
#[test]
fn a_connection_that_closes_behind_goaway_repeats_what_is_safe() {
    let mut staged = Http2Staged::new(|request| match (request.connection, request.stream) {
        (0, 1) => respond(request),
        (0, 5) => vec![Http2Step::GoAway(5), Http2Step::Close],
        (0, _) => Vec::new(),
        _ => respond(request),
    });
    staged.start("GET", "/first");
    staged.run();
    let get = staged.start("GET", "/get");
    let post = staged.start("POST", "/post");
    staged.run();
    assert_eq!(staged.result(get).expect("a response"), b"/get");
    assert!(staged.client.0.engine.application().ended(get).retried);
    let result = staged.result(post);
    assert!(matches!(result, Err(Error::Peer(PeerError::Goaway(_)))), "{result:?}");
    assert_eq!((staged.peer.count("/get"), staged.peer.count("/post")), (2, 1));
}

/// A connection is lost while a paused transfer has its whole response: the others do not wait for
/// it, and end as with any lost connection.
#[test]
fn a_paused_response_survives_its_connection_and_others_are_repeated() {
    let mut staged = Http2Staged::new(|request| match (request.connection, request.stream) {
        (0, 1 | 3) => respond(request),
        (0, 7) => vec![Http2Step::Close],
        (0, _) => Vec::new(),
        _ => respond(request),
    });
    staged.start("GET", "/first");
    staged.run();
    let held = staged.start("GET", "/held");
    staged.act(|context| context.pause(held));
    let get = staged.start("GET", "/get");
    let post = staged.start("POST", "/post");
    staged.run_until(|client| client.running() == 1);
    assert_eq!(staged.result(get).expect("a response"), b"/get");
    assert!(matches!(staged.result(post), Err(Error::Closed)), "{:?}", staged.result(post));
    staged.act(|context| context.resume(held));
    staged.run();
    assert_eq!(staged.result(held).expect("a response"), b"/held");
    assert_eq!((staged.peer.accepted(), staged.peer.count("/get")), (2, 2));
}

/// The responses are complete and arrive together. The first head pauses its own transfer and
/// another one.
#[test]
fn pausing_stops_events_that_have_arrived_already() {
    let paused = Rc::new(Cell::new(Vec::new()));
    let recorder = TransferRecorder::default();
    let silent = recorder.paused.clone();
    let recorder = TransferRecorder {
        act: Some(Box::new({
            let paused = Rc::clone(&paused);
            move |context, _, event| {
                if matches!(event, TransferEvent::Head { .. }) {
                    for id in paused.take() {
                        context.pause(id);
                        silent.borrow_mut().insert(id);
                    }
                }
            }
        })),
        ..recorder
    };
    let mut staged = Http2Staged::with(recorder, respond);
    let [first, second, third] = ["/1", "/2", "/3"].map(|path| staged.start("GET", path));
    paused.set(vec![first, third]);
    staged.run_until(|client| client.running() == 2);
    staged.exchange();
    let recorder = staged.client.0.engine.application();
    assert_eq!([first, second, third].map(|id| recorder.trace(id)), ["H", "HdD", ""]);
    recorder.paused.borrow_mut().clear();
    staged.act(|context| [first, third].map(|id| context.resume(id)));
    staged.run();
    for (id, body) in [(first, b"/1"), (second, b"/2"), (third, b"/3")] {
        assert_eq!(staged.result(id).expect("a response"), body);
    }
}

/// The whole body arrives at once, as the window of a stream is large.
#[test]
fn the_highest_speed_is_kept_on_a_stream() {
    let mut staged = Http2Staged::new(|_| vec![Http2Step::Respond(vec![b'x'; 60_000])]);
    let protocol = Protocol::Http2;
    let options = Options { highest_speed: Some(100_000), protocol, ..Options::default() };
    let request = staged.request("GET", "/", &options.into());
    let start = sys::now();
    let id = staged.start_request(&request);
    staged.run();
    assert_eq!(staged.result(id).expect("a response").len(), 60_000);
    let time = sys::now() - start;
    assert!(time >= Duration::from_millis(400), "{time:?}");
}

/// The first transfer of the connection is removed in the turn in which the server breaks the
/// protocol. That is no reason to send the others again, as behind a lost pipelined response.
#[test]
fn a_broken_connection_repeats_nothing_whatever_was_removed() {
    let removed = Rc::new(Cell::new(None));
    let recorder = TransferRecorder::with({
        let removed = Rc::clone(&removed);
        move |context, _, event| {
            if matches!(event, TransferEvent::Head { .. }) {
                context.remove(removed.get().expect("it was started first"));
            }
        }
    });
    let mut staged = Http2Staged::with(recorder, |request| match request.path.as_str() {
        "/begun" => vec![Http2Step::Begin(b"begun".to_vec()), Http2Step::Violate],
        _ => Vec::new(),
    });
    removed.set(Some(staged.start("GET", "/removed")));
    let others = ["/silent", "/begun"].map(|path| staged.start("GET", path));
    staged.run();
    for id in others {
        let result = staged.result(id);
        let broken = Error::Peer(PeerError::Http2(ErrorCode::ProtocolError));
        assert_eq!(format!("{result:?}"), format!("{:?}", Err::<&[u8], _>(broken)));
    }
    assert_eq!(staged.peer.accepted(), 1);
}

#[test]
fn a_removed_transfer_resets_its_stream_only() {
    let mut staged = Http2Staged::new(|request| match request.path.as_str() {
        "/slow" => vec![Http2Step::Begin(b"begun".to_vec())],
        _ => respond(request),
    });
    let slow = staged.start("GET", "/slow");
    staged.run_until(|client| client.application().body(slow) == b"begun");
    staged.client.0.with(|client, now| {
        assert!(client.with(now, |_, context: &mut Context<'_>| context.remove(slow)));
    });
    let other = staged.start("GET", "/other");
    staged.run();
    assert_eq!(staged.result(other).expect("a response"), b"/other");
    let cancel = ErrorCode::Cancel;
    assert_eq!((staged.peer.accepted(), &staged.peer.resets[..]), (1, &[(0, 1, cancel)][..]));
}

/// A silent server: the deadline of one transfer ends its stream, and the others go on.
#[test]
fn deadlines_belong_to_transfers() {
    let mut staged = Http2Staged::new(|request| match request.path.as_str() {
        "/silent" => Vec::new(),
        _ => respond(request),
    });
    let options = Options {
        protocol: Protocol::Http2,
        first_byte_timeout: Some(Duration::from_millis(30)),
        ..Options::default()
    };
    let request = staged.request("GET", "/silent", &options.into());
    let silent = staged.start_request(&request);
    staged.run();
    assert!(matches!(staged.result(silent), Err(Error::TimedOut(_))));
    let other = staged.start("GET", "/other");
    staged.run();
    assert!(staged.result(other).is_ok());
    assert_eq!((staged.peer.accepted(), staged.peer.resets.len()), (1, 1));
}

/// An upload that moves is not late, however long it takes.
#[test]
fn an_upload_that_moves_has_no_deadline() {
    let timeout = Duration::from_secs(1);
    let recorder = TransferRecorder::with({
        let (begin, mut is_sending) = (sys::now(), true);
        move |context, id, event| {
            if matches!(event, TransferEvent::Writable) && is_sending {
                context.send(id, bytes::Bytes::from(noise(10_000)));
                if sys::now() - begin > 2 * timeout {
                    context.finish(id);
                    is_sending = false;
                }
            }
        }
    });
    let mut staged = Http2Staged::with(recorder, |request| {
        vec![Http2Step::Respond(request.body.len().to_string().into_bytes())]
    });
    let options = Options {
        protocol: Protocol::Http2,
        first_byte_timeout: Some(timeout),
        expect_continue_from: None,
        ..Options::default()
    };
    let url = format!("http://{}/upload", staged.peer.address());
    let request = Request::with_method("POST", &url).options(options.into());
    let request = request.body(RequestBody::Stream(None)).build().expect("a request");
    let id = staged.start_request(&request);
    staged.run();
    let received = staged.result(id).expect("a response");
    assert!(received.ends_with(b"0000"), "{received:?} bytes in pieces of 10,000");
}

/// With HTTP/2 the method decides whether a response has a body, not the declaration of the head.
#[test]
fn a_verbatim_get_has_a_body_whatever_it_declares() {
    let len = Rc::new(Cell::new(None));
    let recorder = TransferRecorder::with({
        let len = Rc::clone(&len);
        move |_, _, event| {
            if let TransferEvent::Head { len: found, .. } = event {
                len.set(Some(*found));
            }
        }
    });
    let mut staged = Http2Staged::with(recorder, respond);
    let mut head = VerbatimHead::new("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").expect("a head");
    head.is_bodiless = true;
    let url = format!("http://{}/x", staged.peer.address());
    let request = Request::with_verbatim_head(&url, head).options(http2()).build();
    let id = staged.start_request(&request.expect("a request"));
    staged.run();
    assert_eq!(staged.result(id).expect("a response"), b"/x");
    let len = len.get().expect("a head");
    assert!(len.is_none_or(|len| len == 2), "{len:?}");
}

#[test]
fn a_server_of_http1_is_named() {
    let mut staged =
        Staged::<OwnLoop<_>>::new(TransferRecorder::default(), Config::default(), |_| ok(b"old"));
    staged.peer.greeting = ok(b"");
    let request = Request::get(&staged.url("/")).options(http2()).build().expect("a request");
    let id = staged.start(&request);
    staged.run();
    let result = &staged.recorder().ended(id).result;
    assert!(matches!(result, Err(Error::Peer(PeerError::NotHttp2))), "{result:?}");
}
