//! Handlers, as a program writes them, in every kind of loop, at full speed and byte by byte.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fulmar_engine::End;
use fulmar_proto::{BodyLen, HeaderBuf, Headers, Request, Response};
use fulmar_server::{
    BodyHandler, Deferred, Handler, HandlerApp, HandlerResult, Limits, OwnedResponse, Produced,
    Responder, Resumer, ServerEngine, Stop, Suspended,
};
use fulmar_sys::{self as sys, Call as System, Ledger};
use fulmar_tests::http::{HttpClient, HttpReply};
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, done, turn_while};
use fulmar_tests::tests_in_three_loops;

/// The channels between the server's thread and the test.
#[derive(Default)]
struct Shop {
    /// Exchanges that another thread responds to.
    waiting: Option<mpsc::Sender<Suspended>>,
    /// Requests that are to be handled again.
    deferred: Option<mpsc::Sender<Deferred>>,
    /// Resumers of paused streams.
    resumers: Option<mpsc::Sender<Resumer>>,
    /// The ends that were reported to body handlers.
    gone: Rc<RefCell<Vec<String>>>,
}

impl Handler for Shop {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let ok = Response::new(200, Headers::EMPTY);
        match request.target {
            b"/text" => responder.text(200, "hello\n"),
            b"/upper" => responder
                .collect(SMALL, |responder, body| responder.text(200, body.to_ascii_uppercase())),
            b"/ten" => {
                let mut left = b'0'..=b'9';
                responder.produce(ok, BodyLen::Unknown, move |responder| match left.next() {
                    Some(digit) => {
                        responder.send(Bytes::from(vec![digit])).map(|()| Produced::More)
                    }
                    None => Ok(Produced::All),
                })
            }
            b"/echo" => {
                responder.attach(EchoHandler { gone: Rc::clone(&self.gone) })?;
                responder.send_head(ok, BodyLen::Unknown)
            }
            b"/later" => {
                let suspended = responder.suspend();
                let waiting = self.waiting.as_ref().expect("this test answers elsewhere");
                waiting.send(suspended).expect("the other thread waits");
                Ok(())
            }
            b"/check" => self.check(responder, request),
            b"/soon" => {
                let deadline = responder.now() + Duration::from_millis(20);
                responder.suspend_until(deadline, |responder| {
                    responder.collect(SMALL, |responder, body| responder.text(200, body.to_vec()))
                });
                Ok(())
            }
            b"/ticks" => {
                let resumers = self.resumers.as_ref().expect("this test wakes from elsewhere");
                resumers.send(responder.resumer()).expect("the other thread waits");
                let mut ticks = 0;
                responder.produce(ok, BodyLen::Unknown, move |responder| {
                    ticks += 1;
                    match ticks {
                        1 => Ok(Produced::Nothing), // the first call may produce nothing
                        4 => Ok(Produced::All),
                        _ => {
                            responder.send(Bytes::from_static(b"tick\n"))?;
                            Ok(Produced::Nothing)
                        }
                    }
                })
            }
            b"/split" => {
                let added = [("X-Evil", &b"a\r\nX-Injected: b"[..])];
                responder.reply(Response { added: &added, ..ok }, "never sent")
            }
            b"/forgets" => Ok(()),
            b"/breaks" => {
                responder.send_head(ok, BodyLen::Exact(10))?;
                responder.send(Bytes::from_static(b"half"))?;
                responder.end()
            }
            b"/socket" => {
                let mut headers = HeaderBuf::new();
                headers.push("Upgrade", b"echo")?;
                let head = Response::new(101, headers.as_headers());
                responder.upgrade(head, EchoHandler { gone: Rc::clone(&self.gone) })
            }
            _ => responder.text(404, "nothing here\n"),
        }
    }
}

impl Shop {
    /// Defers the request twice, then responds with the kept bytes.
    fn check(&self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let rounds = responder.notes::<&str>().count();
        responder.add_field("X-Rounds", rounds.to_string().into_bytes());
        if rounds < 2 {
            let waiting = self.deferred.as_ref().expect("this test checks elsewhere");
            waiting.send(responder.defer(request)?).expect("the other thread waits");
            return Ok(());
        }
        let notes: String = responder.notes::<&str>().copied().collect();
        let kept = request.headers.get("X-Kept").unwrap_or_default();
        let kept = [kept, request.method, notes.as_bytes()].join(&b' ');
        responder.collect(SMALL, move |responder, body| {
            responder.text(200, [&kept[..], &body[..]].join(&b' '))
        })
    }
}

/// Echoes its input, as fast as the client reads it.
struct EchoHandler {
    gone: Rc<RefCell<Vec<String>>>,
}

impl BodyHandler for EchoHandler {
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        responder.send(bytes)?;
        if responder.room() == 0 {
            responder.pause();
        }
        Ok(())
    }

    fn ready(&mut self, responder: &mut Responder<'_>) -> HandlerResult {
        responder.unpause();
        Ok(())
    }

    fn end(&mut self, responder: &mut Responder<'_>, trailers: Headers<'_>) -> HandlerResult {
        responder.end_with(trailers)
    }

    fn gone(&mut self, end: &End) {
        self.gone.borrow_mut().push(format!("{end:?}"));
    }
}

type ShopEngine = ServerEngine<HandlerApp<Shop>>;

fn start<L: Loop<Engine = ShopEngine>>(shop: Shop) -> (L, std::net::SocketAddr) {
    let app = HandlerApp::new(shop, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let (mut driver, address) = L::start(engine);
    let waker = driver.waker();
    driver.engine().mailbox().set_waker(waker.into());
    (driver, address)
}

fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn send_request(client: &mut HttpClient, request: impl AsRef<[u8]>) -> HttpReply {
    client.send(request);
    client.read_reply().expect("a reply")
}

fn answers_at_once<L: Loop<Engine = ShopEngine>>() {
    let (mut driver, address) = start::<L>(Shop::default());
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        for _ in 0..3 {
            let reply = client.get("/text");
            assert_eq!((reply.status, &reply.body[..]), (200, &b"hello\n"[..]));
            assert!(reply.field("date").is_some_and(|date| date.ends_with(" GMT")), "{reply:?}");
            assert_eq!(client.get("/other").status, 404);
        }
    });
    assert_eq!(driver.engine().application().requests(), 6);
}

fn a_body_is_collected_up_to_its_limit<L: Loop<Engine = ShopEngine>>() {
    let (mut driver, address) = start::<L>(Shop::default());
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        assert_eq!(send_request(&mut client, post("/upper", b"shout")).body, b"SHOUT");
        let chunked = b"POST /upper HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(send_request(&mut client, chunked).body, b"ABCDE");
        assert_eq!(send_request(&mut client, post("/upper", &[b'x'; SMALL])).body.len(), SMALL);
        assert_eq!(send_request(&mut client, post("/upper", &[b'x'; SMALL + 1])).status, 413);
        assert_eq!(client.get("/text").status, 200, "what was too long, but short, is swallowed");
        client.send("POST /upper HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        (0..5).for_each(|_| client.send(format!("{:x}\r\n{}\r\n", 300, "y".repeat(300))));
        assert_eq!(client.read_reply().expect("a reply").status, 413);
        client.send("0\r\n\r\n");
        assert_eq!(client.get("/text").status, 200);
    });
}

fn expect_continue_gets_100<L: Loop<Engine = ShopEngine>>() {
    let (mut driver, address) = start::<L>(Shop::default());
    turn_while(&mut driver, || {
        for (target, status) in [("/upper", 200), ("/soon", 200), ("/other", 404)] {
            let mut client = HttpClient::connect(address);
            client.send(format!(
                "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\
                 Expect: 100-continue\r\n\r\n"
            ));
            let first = client.read_head().expect("an answer");
            if status == 200 {
                assert_eq!(first.status, 100, "{target}");
                client.send("ok");
                assert_eq!(client.read_reply().expect("a reply").status, 200);
            } else {
                assert_eq!(
                    first.status, status,
                    "a handler that does not want it asks for nothing"
                );
            }
        }
    });
}

fn pieces_are_produced<L: Loop<Engine = ShopEngine>>() {
    let (mut driver, address) = start::<L>(Shop::default());
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        for _ in 0..2 {
            assert_eq!(client.get("/ten").body, b"0123456789");
        }
        let old = send_request(&mut client, "GET /ten HTTP/1.0\r\nHost: h\r\n\r\n");
        assert_eq!(old.body, b"0123456789");
    });
}

fn an_echo_survives_back_pressure<L: Loop<Engine = ShopEngine>>() {
    let (mut driver, address) = start::<L>(Shop::default());
    let body: Vec<u8> = (0..4_000_000 / L::SLOWER).map(|n| n.to_le_bytes()[0]).collect();
    let request = post("/echo", &body);
    let reply = turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        let mut writer = client.socket().try_clone().expect("a descriptor");
        thread::scope(|scope| {
            scope.spawn(|| std::io::Write::write_all(&mut writer, &request).expect("room"));
            client.read_reply().expect("a reply")
        })
    });
    assert!(reply.body == body, "every byte came back in its place");
}

fn another_thread_answers<L: Loop<Engine = ShopEngine>>() {
    let (waiting, suspended) = mpsc::channel::<Suspended>();
    let (mut driver, address) = start::<L>(Shop { waiting: Some(waiting), ..Shop::default() });
    turn_while(&mut driver, move || {
        let (mut one, mut two) = (HttpClient::connect(address), HttpClient::connect(address));
        one.send_get("/later");
        let first = suspended.recv().expect("one");
        two.send(post("/later", b"a body that waits"));
        let second = suspended.recv().expect("two");
        second.resume(|responder| {
            responder.collect(SMALL, |responder, body| responder.text(200, body.to_vec()))
        });
        first.reply(OwnedResponse::text(201, "made elsewhere"));
        let (a, b) = (one.read_reply().expect("a reply"), two.read_reply().expect("a reply"));
        let mut bodies = [a.body, b.body];
        bodies.sort();
        assert_eq!(bodies, [b"a body that waits".to_vec(), b"made elsewhere".to_vec()]);
        one.send_get("/later");
        let third = suspended.recv().expect("a third");
        third.resume(|responder| {
            responder.collect(SMALL, |responder, body| responder.text(200, body.to_vec()))
        });
        assert_eq!(one.read_reply().expect("a reply").body, b"", "there was none to collect");
        one.send_get("/later");
        drop(suspended.recv().expect("a fourth"));
        assert_eq!(one.read_reply().expect("a reply").status, 500, "it was forgotten");
        assert_eq!(one.get("/text").status, 200);
    });
}

fn a_deferred_request_is_handled_again<L: Loop<Engine = ShopEngine>>() {
    let (waiting, deferred) = mpsc::channel::<Deferred>();
    let (mut driver, address) = start::<L>(Shop { deferred: Some(waiting), ..Shop::default() });
    turn_while(&mut driver, move || {
        let mut client = HttpClient::connect(address);
        let body = "Content-Length: 4\r\n\r\nbody";
        for (request, expected) in [
            ("GET /check HTTP/1.1\r\nHost: h\r\nX-Kept: here\r\n\r\n", "here GET ab "),
            (&format!("PUT /check HTTP/1.1\r\nHost: h\r\n{body}")[..], " PUT ab body"),
        ] {
            // A second request waits behind it.
            client.send(format!("{request}GET /text HTTP/1.1\r\nHost: h\r\n\r\n"));
            for note in ["a", "b"] {
                deferred.recv().expect("it waits").handle_again(note);
            }
            let reply = client.read_reply().expect("a reply");
            assert_eq!((reply.status, &reply.body[..]), (200, expected.as_bytes()));
            assert_eq!(reply.fields.iter().filter(|(name, _)| name == "x-rounds").count(), 1);
            assert_eq!(reply.field("x-rounds"), Some("2"), "what was added before is dropped");
            assert_eq!(client.read_reply().expect("a reply").body, b"hello\n");
        }
        client.send("PUT /check HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n");
        client.send(&body[..body.len() - 4]);
        for note in ["a", "b"] {
            deferred.recv().expect("it waits").handle_again(note);
        }
        assert_eq!(client.read_head().expect("a head").status, 100, "not before it is handled");
        client.send("body");
        assert_eq!(client.read_reply().expect("a reply").body, b" PUT ab body");
        client.send_get("/check");
        drop(deferred.recv().expect("it waits"));
        assert_eq!(client.read_reply().expect("a reply").status, 500, "it was forgotten");
        assert_eq!(client.get("/text").status, 200);
    });
}

fn a_client_that_left_gets_no_response<L: Loop<Engine = ShopEngine>>() {
    let (waiting, suspended) = mpsc::channel::<Suspended>();
    let (mut driver, address) = start::<L>(Shop { waiting: Some(waiting), ..Shop::default() });
    let mut client = HttpClient::connect(address);
    client.send_get("/later");
    driver.turn_until(|driver| driver.engine().application().requests() == 1);
    let left = suspended.recv().expect("it waits");
    assert!(!left.is_gone());
    rustix::net::sockopt::set_socket_linger(client.socket(), Some(Duration::ZERO)).expect("open");
    drop(client);
    driver.turn_until(|driver| driver.engine().connections() == 0);
    assert!(left.is_gone());
    left.reply(OwnedResponse::text(200, "nobody hears it"));
    let reply = turn_while(&mut driver, || HttpClient::connect(address).get("/text"));
    assert_eq!(reply.status, 200);
}

fn a_paused_stream_resumes_on_request<L: Loop<Engine = ShopEngine>>() {
    let (sender, resumers) = mpsc::channel::<Resumer>();
    let (mut driver, address) = start::<L>(Shop { resumers: Some(sender), ..Shop::default() });
    turn_while(&mut driver, move || {
        let mut client = HttpClient::connect(address);
        client.send_get("/ticks");
        let resumer = resumers.recv().expect("it streams");
        assert_eq!(client.read_head().expect("a head").status, 200);
        for _ in 0..2 {
            resumer.resume();
            assert_eq!(client.read_bytes(10), b"5\r\ntick\n\r\n");
        }
        resumer.resume();
        assert_eq!(client.read_bytes(5), b"0\r\n\r\n");
        assert_eq!(client.get("/text").status, 200);
        assert!(resumer.is_gone());
        resumer.resume();
    });
}

fn handler_misuse_is_reported<L: Loop<Engine = ShopEngine>>() {
    let (mut driver, address) = start::<L>(Shop::default());
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        for target in ["/forgets", "/split"] {
            let reply = client.get(target);
            assert_eq!(reply.status, 500, "{target}");
            assert_eq!(reply.field("x-injected"), None);
        }
        client.send_get("/breaks");
        client.read_reply().expect_err("half an answer does not look whole");
    });
}

fn a_connection_is_handed_over<L: Loop<Engine = ShopEngine>>() {
    let shop = Shop::default();
    let gone = Rc::clone(&shop.gone);
    let (mut driver, address) = start::<L>(shop);
    turn_while(&mut driver, || {
        let mut client = HttpClient::connect(address);
        assert_eq!(client.get("/socket").status, 500, "it was not asked for");
        client.send(
            "GET /socket HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly",
        );
        let reply = client.read_head().expect("an answer");
        assert_eq!((reply.status, reply.field("upgrade")), (101, Some("echo")));
        assert_eq!(client.read_bytes(5), b"early");
        client.send("late");
        assert_eq!(client.read_bytes(4), b"late");
        client.finish();
        assert_eq!(client.read_to_end().expect("an orderly end"), b"");
    });
    driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!(*gone.borrow(), ["Closed"]);
}

/// While a client waits for an answer that is made elsewhere, nothing is done for it; and what
/// wakes the server, however often, is one write.
#[test]
fn waiting_costs_nothing() {
    let (waiting, suspended) = mpsc::channel::<Suspended>();
    let (mut driver, address) =
        start::<OwnLoop<ShopEngine>>(Shop { waiting: Some(waiting), ..Shop::default() });
    let mut clients: Vec<_> = (0..20).map(|_| HttpClient::connect(address)).collect();
    clients.iter_mut().for_each(|client| client.send_get("/later"));
    driver.turn_until(|driver| driver.engine().application().requests() == 20);
    let turns = driver.0.stats().turns;
    driver.turn(Duration::from_millis(50));
    assert_eq!(driver.0.stats().events, driver.0.stats().events);
    assert!(driver.0.stats().turns <= turns + 1);
    let before = Ledger::here();
    suspended.try_iter().for_each(|one| one.reply(OwnedResponse::text(200, "done")));
    driver.turn(Duration::from_millis(50));
    let spent = Ledger::here() - before;
    assert_eq!(spent.count(System::write).calls, 1, "twenty answers, one wake-up");
    assert_eq!(done(&spent, System::send), 20);
    for client in &mut clients {
        assert_eq!(client.read_reply().expect("a reply").body, b"done");
    }
}

tests_in_three_loops!(
    at_any_pace: [
        answers_at_once,
        a_body_is_collected_up_to_its_limit,
        expect_continue_gets_100,
        pieces_are_produced,
        an_echo_survives_back_pressure,
        another_thread_answers,
        a_deferred_request_is_handled_again,
        a_client_that_left_gets_no_response,
        a_paused_stream_resumes_on_request,
        handler_misuse_is_reported,
        a_connection_is_handed_over,
    ],
);

/// What `/upper` takes at most.
const SMALL: usize = 1000;
