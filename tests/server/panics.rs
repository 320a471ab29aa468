//! Panics of application code: each ends one request or one connection, wherever it happens, and is
//! reported. The server has no driver, so that everything happens in one thread; the panics
//! themselves are real.

use std::any::Any;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::panic::panic_any;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::sim::PeerId;
use fulmar_engine::{Accepted, End, Engine, ListenerId, SocketId};
use fulmar_observe::{Metrics, Recorder};
use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, Request, Response, Server, ServerConnection,
    UsageError,
};
use fulmar_semantics::clock::Clock;
use fulmar_server::{
    BodyHandler, ExchangeContext, ExchangeSummary, Handler, HandlerApp, HandlerFailure,
    HandlerResult, Layers, Limits, Observer, OwnedResponse, Panic, Produced, Responder, ServerApp,
    ServerEngine, Stop, Suspended,
};
use fulmar_sys as sys;
use fulmar_tests::http2::Http2Client;
use fulmar_tests::loops::LISTENER;
use fulmar_tests::server_hand::ServerHand;

/// Panics when it is dropped.
struct DropPanic;

impl Drop for DropPanic {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Panics at the place that the target names.
#[derive(Default)]
struct FaultyHandler {
    suspended: Rc<RefCell<Vec<Suspended>>>,
    calls_after: Rc<RefCell<Vec<&'static str>>>,
}

impl Handler for FaultyHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let ok = Response::new(200, Headers::EMPTY);
        match request.target {
            b"/handler" => panic!("in the handler"),
            b"/payload" => panic_any(DropPanic),
            b"/started" => {
                responder.send_head(ok, BodyLen::Exact(10))?;
                responder.send(Bytes::from_static(b"half"))?;
                panic!("after the head")
            }
            b"/answered" => {
                responder.text(200, "whole\n")?;
                panic!("after the response")
            }
            b"/collect" => responder.collect(100, |_, _| panic!("with the body")),
            b"/timer" => {
                responder.suspend_until(responder.now() + SECOND, |_| panic!("at the deadline"));
                Ok(())
            }
            b"/suspend" => {
                self.suspended.borrow_mut().push(responder.suspend());
                Ok(())
            }
            b"/defer" if responder.notes::<u8>().next().is_some() => panic!("the second time"),
            b"/defer" => {
                responder.defer(request)?.handle_again(1_u8);
                Ok(())
            }
            b"/produce" => {
                let mut pieces = 0;
                responder.produce(ok, BodyLen::Unknown, move |responder| {
                    pieces += 1;
                    assert!(pieces < 3, "no third piece");
                    responder.send(Bytes::from_static(b"piece"))?;
                    Ok(Produced::More)
                })
            }
            b"/data" | b"/end" | b"/ready" | b"/gone" => responder.attach(FaultyWork {
                at: request.target.to_vec(),
                calls_after: Rc::clone(&self.calls_after),
                panicked: false,
                grenade: None,
            }),
            b"/drop" => {
                let (at, calls_after) = (b"/end".to_vec(), Rc::clone(&self.calls_after));
                let grenade = Some(DropPanic);
                responder.attach(FaultyWork { at, calls_after, panicked: false, grenade })
            }
            b"/tunnel" => {
                let mut headers = HeaderBuf::new();
                headers.push("Upgrade", b"echo")?;
                let calls_after = Rc::clone(&self.calls_after);
                let at = b"/data".to_vec();
                responder.upgrade(
                    Response::new(101, headers.as_headers()),
                    FaultyWork { at, calls_after, panicked: false, grenade: None },
                )
            }
            b"/misuse" => {
                let added = [("X-Evil", &b"a\r\nb: c"[..])];
                responder.reply(Response { added: &added, ..ok }, "never sent")
            }
            b"/short" => {
                responder.send_head(ok, BodyLen::Exact(10))?;
                responder.end()
            }
            b"/silent" => Ok(()),
            _ => responder.text(200, "good\n"),
        }
    }

    fn establish(&mut self, peer: SocketAddr, _: Option<&dyn Any>) -> Option<Box<dyn Any>> {
        assert!(peer.port() != 666, "not this one");
        None
    }

    fn exhausted(&mut self) {
        panic!("exhausted");
    }
}

/// Panics in one of its methods, and notes if it is called again.
struct FaultyWork {
    at: Vec<u8>,
    calls_after: Rc<RefCell<Vec<&'static str>>>,
    panicked: bool,
    grenade: Option<DropPanic>,
}

impl FaultyWork {
    fn reach(&mut self, place: &'static str) {
        if self.panicked {
            self.calls_after.borrow_mut().push(place);
        }
        if self.at == place.as_bytes() {
            self.panicked = true;
            panic!("in {place}");
        }
    }
}

impl BodyHandler for FaultyWork {
    fn data(&mut self, _: &mut Responder<'_>, _: Bytes) -> HandlerResult {
        self.reach("/data");
        Ok(())
    }

    fn end(&mut self, _: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
        self.reach("/end");
        Ok(())
    }

    fn ready(&mut self, _: &mut Responder<'_>) -> HandlerResult {
        self.reach("/ready");
        Ok(())
    }

    fn gone(&mut self, _: &End) {
        self.reach("/gone");
        let _ = &self.grenade;
    }
}

/// The events of observers, one line each.
#[derive(Clone, Default)]
struct FailureRecord(Rc<RefCell<Vec<String>>>);

impl FailureRecord {
    fn push(&self, line: String) {
        self.0.borrow_mut().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

impl Observer for FailureRecord {
    fn handler_failed(&mut self, _: Instant, _: &Clock, failure: &HandlerFailure<'_>) {
        let target = failure.request.map(|(_, asked)| text(asked.target));
        self.push(format!("{}: {}", target.unwrap_or_else(|| "-".into()), failure.error));
    }

    fn exchange_ended(&mut self, _: Instant, _: &Clock, exchange: &ExchangeSummary<'_>) {
        let error = exchange.error.map_or_else(|| "fine".into(), ToString::to_string);
        self.push(format!("{} {} {error}", text(exchange.request.target), exchange.status));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct FaultyServer {
    hand: ServerHand<HandlerApp<FaultyHandler>>,
    told: FailureRecord,
    metrics: Metrics,
    suspended: Rc<RefCell<Vec<Suspended>>>,
    calls_after: Rc<RefCell<Vec<&'static str>>>,
}

impl FaultyServer {
    fn new() -> Self {
        Self::with(|calls| calls)
    }

    fn with(change: impl FnOnce(HandlerApp<FaultyHandler>) -> HandlerApp<FaultyHandler>) -> Self {
        let (faulty, told, metrics) =
            (FaultyHandler::default(), FailureRecord::default(), Metrics::new());
        let (suspended, calls_after) =
            (Rc::clone(&faulty.suspended), Rc::clone(&faulty.calls_after));
        let (observer, recorder): (FailureRecord, Recorder) = (told.clone(), metrics.observer());
        let hand = ServerHand::new(|now| {
            let calls = change(HandlerApp::new(faulty, now, sys::wall_clock))
                .with_observer(observer)
                .with_observer(recorder);
            let mut engine = ServerEngine::new(now, calls, Limits::default(), Stop::new());
            engine.add_listener(LISTENER, None);
            engine
        });
        Self { hand, told, metrics, suspended, calls_after }
    }

    fn get(&mut self, socket: PeerId, target: &str) {
        self.hand.send(socket, format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }

    /// The statuses of the responses on a connection.
    fn statuses(&mut self, socket: PeerId) -> Vec<u16> {
        let sent = text(&self.hand.peer(socket).received);
        let heads = sent.split("HTTP/1.1 ").skip(1);
        heads.map(|head| head[..3].parse().unwrap()).collect()
    }

    fn is_closed(&mut self, socket: PeerId) -> bool {
        self.hand.peer(socket).closed.is_some()
    }

    fn panics(&self) -> u64 {
        let text = self.metrics.to_string();
        let name = "fulmar_http_handler_errors_total{cause=\"panic\"} ";
        let count = text.lines().find_map(|line| line.strip_prefix(name));
        count.map_or(0, |count| count.parse().unwrap())
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Before the head of a response: 500, and the connection stays open.
#[test]
fn a_panic_before_the_response_is_a_500() {
    let body = "Content-Length: 4\r\n\r\nbody";
    for (request, message) in [
        ("GET /handler HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "in the handler"),
        ("GET /payload HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "no message"),
        ("GET /end HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "in /end"),
        ("GET /ready HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "in /ready"),
        (format!("POST /collect HTTP/1.1\r\nHost: h\r\n{body}"), "with the body"),
        (format!("POST /data HTTP/1.1\r\nHost: h\r\n{body}"), "in /data"),
        (format!("POST /end HTTP/1.1\r\nHost: h\r\n{body}"), "in /end"),
    ] {
        let mut bench = FaultyServer::new();
        let (socket, other) = (bench.hand.connect(), bench.hand.connect());
        bench.get(other, "/suspend");
        bench.hand.send(socket, &request);
        assert_eq!(bench.statuses(socket), [500], "{request}");
        bench.get(socket, "/");
        assert_eq!(bench.statuses(socket), [500, 200], "{request}");
        let target = request.split(' ').nth(1).unwrap();
        let error = format!("panic: {message}");
        let expected =
            [format!("{target}: {error}"), format!("{target} 500 {error}"), "/ 200 fine".into()];
        assert_eq!(bench.told.take(), expected);
        assert_eq!(bench.panics(), 1);
        assert_eq!(bench.hand.server().first_panic().unwrap().message(), message);
        // Another waiting connection continues.
        let waiting = bench.suspended.borrow_mut().pop().unwrap();
        waiting.reply(OwnedResponse::text(200, "late"));
        bench.hand.wake();
        assert_eq!(bench.statuses(other), [200]);
        assert_eq!(*bench.calls_after.borrow(), [""; 0], "{request}");
    }
}

/// Bytes that were queued before, of this response and of earlier ones, are still sent; then the
/// connection ends, and the truncation is visible.
#[test]
fn a_panic_within_a_response_cuts_the_connection_off() {
    for (target, message, end) in
        [("/started", "after the head", "half"), ("/produce", "no third piece", "piece\r\n")]
    {
        let mut bench = FaultyServer::new();
        let (socket, other) = (bench.hand.connect(), bench.hand.connect());
        let get = |target| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        bench.hand.send(socket, get("/") + &get(target) + &get("/"));
        assert_eq!(bench.statuses(socket), [200, 200], "{target}");
        assert!(bench.hand.peer(socket).text().ends_with(end), "{target}");
        bench.hand.sim.pass(3 * SECOND); // what was queued is not lost to the request behind it
        assert!(bench.is_closed(socket));
        let error = format!("panic: {message}");
        let expected =
            ["/ 200 fine".into(), format!("{target}: {error}"), format!("{target} 200 {error}")];
        assert_eq!(bench.told.take(), expected);
        bench.get(other, "/");
        assert_eq!(bench.statuses(other), [200]);
    }
}

#[test]
fn a_panic_after_the_response_leaves_it_whole() {
    let mut bench = FaultyServer::new();
    let socket = bench.hand.connect();
    bench.get(socket, "/answered");
    bench.get(socket, "/");
    assert_eq!(bench.statuses(socket), [200, 200]);
    assert!(bench.hand.peer(socket).text().contains("whole\n"));
    let error = "panic: after the response";
    let expected =
        [format!("/answered: {error}"), format!("/answered 200 {error}"), "/ 200 fine".into()];
    assert_eq!(bench.told.take(), expected);
}

#[test]
fn a_panic_in_a_timer_or_a_resumed_closure_is_a_500() {
    let mut bench = FaultyServer::new();
    let (timed, resumed) = (bench.hand.connect(), bench.hand.connect());
    let (good, dropped) = (bench.hand.connect(), bench.hand.connect());
    bench.get(timed, "/timer");
    [resumed, good, dropped].into_iter().for_each(|socket| bench.get(socket, "/suspend"));
    let waiting: Vec<_> = bench.suspended.borrow_mut().drain(..).collect();
    let [first, second, third] = <[Suspended; 3]>::try_from(waiting).unwrap();
    first.resume(|_| panic!("resumed"));
    second.reply(OwnedResponse::text(200, "good"));
    drop(third);
    let deferred = bench.hand.connect();
    bench.get(deferred, "/defer");
    bench.hand.wake(); // all four in one delivery
    bench.hand.sim.pass(2 * SECOND);
    let all = [timed, resumed, good, dropped, deferred].map(|socket| bench.statuses(socket));
    assert_eq!(all, [[500], [500], [200], [500], [500]]);
    assert_eq!(bench.panics(), 3);
    let told = bench.told.take();
    for line in [
        "/suspend 500 panic: resumed",
        "/suspend 500 a suspended request was dropped without a response",
        "/timer 500 panic: at the deadline",
        "/defer 500 panic: the second time",
    ] {
        assert!(told.iter().any(|told| told == line), "{line}: {told:?}");
    }
}

/// The content of a message is dropped if its connection or exchange has ended.
#[test]
fn late_messages_may_panic_when_they_are_dropped() {
    let mut bench = FaultyServer::new();
    let (closed, reused) = (bench.hand.connect(), bench.hand.connect());
    for socket in [closed, reused] {
        bench.get(socket, "/suspend");
    }
    let waiting: Vec<_> = bench.suspended.borrow_mut().drain(..).collect();
    let [first, second] = <[Suspended; 2]>::try_from(waiting).unwrap();
    let exchange_over = |suspended: Suspended| {
        let grenade = DropPanic;
        suspended.resume(move |responder| {
            std::mem::forget(grenade);
            responder.text(200, "never")
        });
    };
    bench.hand.fail(closed);
    second.resume(|responder| responder.text(200, "in time"));
    bench.hand.wake();
    exchange_over(first);
    bench.hand.wake();
    bench.get(reused, "/");
    assert_eq!(bench.statuses(reused), [200, 200]);
    assert_eq!(bench.panics(), 1);
}

#[test]
fn a_panic_in_a_tunnel_closes_it() {
    let mut bench = FaultyServer::new();
    let socket = bench.hand.connect();
    bench.hand.send(
        socket,
        "GET /tunnel HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly",
    );
    assert_eq!(bench.statuses(socket), [101]);
    assert!(bench.is_closed(socket));
    assert_eq!(bench.panics(), 1);
    assert_eq!(*bench.calls_after.borrow(), [""; 0]);
}

/// Neither `gone` nor a destructor prevents the end of a connection from being counted.
#[test]
fn a_panic_when_the_client_is_gone_or_work_is_dropped_is_reported() {
    let mut bench = FaultyServer::new();
    let (gone, dropped) = (bench.hand.connect(), bench.hand.connect());
    bench.get(gone, "/gone");
    bench.hand.fail(gone);
    assert!(bench.told.take().contains(&"/gone: panic: in /gone".to_owned()));
    // Its method panics, and its destructor does, too.
    bench.get(dropped, "/drop");
    assert_eq!(bench.statuses(dropped), [500]);
    let expected = ["/drop: panic: in /end", "/drop: panic: dropped", "/drop 500 panic: in /end"];
    assert_eq!(bench.told.take(), expected);
    bench.get(dropped, "/");
    assert_eq!(bench.statuses(dropped), [500, 200]);
    assert_eq!(bench.panics(), 3);
    assert!(bench.metrics.to_string().contains("\nfulmar_connections_open 1\n"));
}

#[test]
fn a_panic_outside_of_requests_is_reported() {
    let mut bench = FaultyServer::new();
    assert!(bench.hand.connect_from("192.0.2.1:666").is_none(), "closed at once");
    assert_eq!(bench.told.take(), ["-: panic: not this one"]);
    bench.hand.sim.fail_accept(bench.hand.node, LISTENER);
    assert_eq!(bench.told.take(), ["-: panic: exhausted"]);
    assert_eq!(bench.panics(), 2);
    let text = bench.metrics.to_string();
    assert!(text.contains("fulmar_connections_ended_total{reason=\"panic\"} 1"), "{text}");
    assert!(text.contains("\nfulmar_accept_failures_total 1\n"), "{text}");
    bench.hand.sim.pass(SECOND); // the listener is paused
    let good = bench.hand.connect();
    bench.get(good, "/");
    assert_eq!(bench.statuses(good), [200]);
}

/// Its events are lost, those of other observers are not.
struct FaultyObserver;

impl Observer for FaultyObserver {
    fn accepted(&mut self, _: Instant, _: SocketAddr) {
        panic!("accepted");
    }

    fn exchange_ended(&mut self, _: Instant, _: &Clock, _: &ExchangeSummary<'_>) {
        panic!("answered");
    }

    fn handler_failed(&mut self, _: Instant, _: &Clock, _: &HandlerFailure<'_>) {
        panic!("told of failures");
    }

    fn poll_timeout(&self) -> Option<Instant> {
        panic!("asked for a deadline");
    }
}

#[test]
fn a_panic_of_an_observer_harms_nothing_else() {
    let mut bench = FaultyServer::with(|calls| calls.with_observer(FaultyObserver));
    let socket = bench.hand.connect();
    bench.get(socket, "/");
    bench.get(socket, "/handler");
    assert_eq!(bench.statuses(socket), [200, 500]);
    bench.hand.sim.pass(SECOND);
    bench.get(socket, "/");
    let told = bench.told.take();
    for line in [
        "-: panic: accepted",
        "/ 200 fine",
        "-: panic: answered",
        "/handler 500 panic: in the handler",
        "-: panic: asked for a deadline",
    ] {
        assert!(told.iter().any(|told| told == line), "{line}: {told:?}");
    }
}

/// The causes of a 500, and of a truncated response, that are not panics.
#[test]
fn observers_receive_the_cause_of_a_500() {
    let mut bench = FaultyServer::new();
    let socket = bench.hand.connect();
    let misuse = format!("misuse: {}", UsageError::BadHead);
    let silent = "the handler returned without a response";
    for (target, error) in [("/misuse", &*misuse), ("/silent", silent)] {
        bench.get(socket, target);
        let expected = [format!("{target}: {error}"), format!("{target} 500 {error}")];
        assert_eq!(bench.told.take(), expected);
    }
    assert_eq!(bench.statuses(socket), [500, 500]);
    bench.get(socket, "/short");
    assert!(bench.is_closed(socket));
    let error = format!("misuse: {}", UsageError::BodyShorterThanDeclared);
    assert_eq!(bench.told.take(), [format!("/short: {error}"), format!("/short 200 {error}")]);
    let text = bench.metrics.to_string();
    for sample in ["{cause=\"misuse\"} 2", "{cause=\"no_response\"} 1"] {
        let line = format!("fulmar_http_handler_errors_total{sample}");
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert_eq!((bench.panics(), bench.hand.server().first_panic()), (0, None));
}

/// An application of connections, which panics at the place that the target names.
#[derive(Default)]
struct FaultyApplication {
    told: FailureRecord,
}

impl ServerApp for FaultyApplication {
    type Data = u16;
    type Message = ();

    fn accept(&mut self, _: Instant, _: ListenerId, peer: SocketAddr) -> u16 {
        assert!(peer.port() != 666, "at the door");
        peer.port()
    }

    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        data: &mut u16,
        event: Event<'_, Server>,
    ) {
        match event {
            Event::Head { head, stream, .. } => match head.target {
                b"/head" => panic!("at the head"),
                b"/timer" => context.set_timer(Some(context.now + SECOND)),
                b"/half" => {
                    let head = Response::new(200, Headers::EMPTY);
                    reply.send_head(stream, head, BodyLen::Exact(10)).unwrap();
                    panic!("in the middle");
                }
                _ => {}
            },
            Event::Data { .. } => self.told.push(format!("data of {data}")),
            Event::End { stream, .. } => {
                let head = Response::new(204, Headers::EMPTY);
                reply.send_head(stream, head, BodyLen::Empty).unwrap();
                reply.send_end(stream, Headers::EMPTY).unwrap();
            }
            _ => {}
        }
    }

    fn handle_timer(&mut self, _: &mut ExchangeContext, _: &mut ServerConnection, _: &mut u16) {
        panic!("at the deadline");
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, data: u16, end: &End) {
        self.told.push(format!("{data} gone: {end:?}"));
        assert!(data != 13, "once more");
    }

    fn handle_panic(&mut self, _: Instant, data: Option<&mut u16>, panic: &Panic) {
        self.told.push(format!("{data:?}: {panic}"));
        panic!("again");
    }
}

/// Without a handler between, a panic ends its connection: with 500, or cut off.
#[test]
fn a_panic_of_an_application_ends_one_connection() {
    let raw = FaultyApplication::default();
    let told = raw.told.clone();
    let mut hand = ServerHand::new(|now| {
        let mut engine = ServerEngine::new(now, raw, Limits::default(), Stop::new());
        let refuse = |peer: SocketAddr| panic!("no layer for {peer}");
        engine.add_listener(LISTENER, None);
        engine.add_listener(ListenerId(7), Some(Layers::new(refuse)));
        engine
    });
    let other = hand.connect_from("192.0.2.1:1").unwrap();
    let post = |target| format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo");
    hand.send(other, post("/"));
    for (port, target, sent, why) in [
        (2, "/head", "HTTP/1.1 500 ", "at the head"),
        (13, "/head", "HTTP/1.1 500 ", "at the head"),
        (3, "/half", "HTTP/1.1 200 ", "in the middle"),
    ] {
        told.take();
        let socket = hand.connect_from(&format!("192.0.2.1:{port}")).unwrap();
        hand.send(socket, post(target));
        hand.finish(socket);
        hand.sim.pass(5 * SECOND);
        let wire = hand.peer(socket);
        assert!(wire.text().starts_with(sent), "{}", wire.text());
        assert!(wire.text().contains("close") == (sent == "HTTP/1.1 500 "), "{}", wire.text());
        assert!(wire.closed.is_some());
        let mut expected =
            vec![format!("Some({port}): panic: {why}"), format!("{port} gone: Panicked")];
        if port == 13 {
            expected.push("None: panic: once more".to_owned());
        }
        assert_eq!(told.take(), expected, "nothing is called for it afterwards");
    }
    let timed = hand.connect_from("192.0.2.1:4").unwrap();
    hand.send(timed, "GET /timer HTTP/1.1\r\nHost: h\r\n");
    hand.send(timed, "\r\n");
    hand.sim.pass(2 * SECOND);
    told.take();
    assert!(hand.connect_from("192.0.2.1:666").is_none());
    assert_eq!(told.take(), ["None: panic: at the door"]);
    hand.send(other, "dy");
    assert!(hand.peer(other).text().starts_with("HTTP/1.1 204 "));
    assert_eq!(hand.server().first_panic().unwrap().message(), "at the head");
    told.take();
    let peer = "192.0.2.1:5".parse().unwrap();
    let now = sys::now();
    let refused =
        hand.server().accept(now, Accepted { listener: ListenerId(7), peer, local: None });
    assert!(refused.is_none());
    assert_eq!(told.take(), ["None: panic: no layer for 192.0.2.1:5"]);
}

/// Requests of HTTP/2 that were on their way when the application panicked are refused: the client
/// may send them elsewhere.
#[test]
fn requests_behind_a_panic_of_an_application_are_refused() {
    let mut hand = ServerHand::new(|now| {
        let app = FaultyApplication::default();
        let mut engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
        engine.add_listener(LISTENER, None);
        engine
    });
    let socket = hand.connect();
    let mut client = Http2Client::default();
    let first = client.request("GET", "/head", b"");
    hand.send(socket, client.poll_bytes());
    let later = client.request("GET", "/", b"");
    hand.send(socket, client.poll_bytes());
    let received = std::mem::take(&mut hand.peer(socket).received);
    client.receive(&received);
    assert_eq!(client.responses[&first].status, 500);
    assert_eq!(client.responses[&later].reset, Some(ErrorCode::RefusedStream));
}
