//! An application that passes on bytes which would split a response in two: none of them is sent,
//! and the client gets an error, or a visibly incomplete response.

use fulmar_proto::{BodyLen, HeaderBuf, Headers, Request, Response, UsageError};
use fulmar_semantics::cookies::NewCookie;
use fulmar_server::{
    HandlerApp, HandlerResult, Limits, OwnedResponse, Responder, ServerEngine, Stop,
};
use fulmar_sys as sys;
use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::loops::{LISTENER, Loop, turn_while};
use fulmar_tests::tests_in_every_loop;

type InjectionPoint = fn(&mut Responder<'_>, &[u8]) -> HandlerResult;

/// Places where an application inserts given bytes.
const PLACES: [(&str, InjectionPoint); 10] = [
    ("the value of an added field", |responder, evil| {
        responder.reply(Response { added: &[("X", evil)], ..ok() }, "never sent")
    }),
    ("the name of an added field", |responder, evil| {
        let name = String::from_utf8_lossy(evil);
        responder.reply(Response { added: &[(&name, b"x")], ..ok() }, "never sent")
    }),
    ("the value of a field", |responder, evil| {
        let mut headers = HeaderBuf::new();
        headers.push("X", evil)?;
        responder.reply(Response::new(200, headers.as_headers()), "never sent")
    }),
    ("the name of a field", |responder, evil| {
        let mut headers = HeaderBuf::new();
        headers.push(&String::from_utf8_lossy(evil), b"x")?;
        responder.reply(Response::new(200, headers.as_headers()), "never sent")
    }),
    ("the place to go to", |responder, evil| {
        responder.respond(OwnedResponse::text(302, "never sent").with("Location", evil)?)
    }),
    ("the value of a cookie", |responder, evil| {
        let evil = String::from_utf8_lossy(evil);
        let cookie = NewCookie::new("name", &evil).to_value().map_err(|_| UsageError::BadHead)?;
        responder.respond(OwnedResponse::text(200, "never sent").with("Set-Cookie", cookie)?)
    }),
    ("the name of a cookie", |responder, evil| {
        let evil = String::from_utf8_lossy(evil);
        let cookie = NewCookie::new(&evil, "value").to_value().map_err(|_| UsageError::BadHead)?;
        responder.respond(OwnedResponse::text(200, "never sent").with("Set-Cookie", cookie)?)
    }),
    ("the path of a cookie", |responder, evil| {
        let evil = String::from_utf8_lossy(evil);
        let cookie = NewCookie { path: Some(&evil), ..NewCookie::new("name", "value") };
        let cookie = cookie.to_value().map_err(|_| UsageError::BadHead)?;
        responder.respond(OwnedResponse::text(200, "never sent").with("Set-Cookie", cookie)?)
    }),
    ("an interim answer", |responder, evil| {
        let hints = Response { added: &[("Link", evil)], ..Response::new(103, Headers::EMPTY) };
        responder.send_head(hints, BodyLen::Empty)?;
        responder.text(200, "never sent")
    }),
    ("a trailer", |responder, evil| {
        responder.send_head(ok(), BodyLen::Unknown)?;
        let mut trailers = HeaderBuf::new();
        trailers.push("X", evil)?;
        responder.end_with(trailers.as_headers())
    }),
];

/// What it is given.
const EVILS: [&[u8]; 14] = [
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"a\r\nX-Injected: b",
    b"a\nX-Injected: b",
    b"a\rX-Injected: b",
    b"a\r\n\r\nHTTP/1.1 200 OK\r\nX-Injected: b\r\n\r\n",
    b"a\r\n b",
    b"a\0b",
    b"a\x01b",
    b"a\x1b[0m",
    b"a\x7fb",
    b"a\x0bb",
];

fn ok() -> Response<'static> {
    Response::new(200, Headers::EMPTY)
}

/// `/PLACE/EVIL`, or any other target, which gets a response.
fn answer(responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
    let target = str::from_utf8(request.target).unwrap();
    let numbers = target[1..].split_once('/').and_then(|(place, evil)| {
        Some((place.parse::<usize>().ok()?, evil.parse::<usize>().ok()?))
    });
    let Some((place, evil)) = numbers else { return responder.text(200, "ok\n") };
    (PLACES[place].1)(responder, EVILS[evil])
}

type InjectionEngine =
    ServerEngine<HandlerApp<fn(&mut Responder<'_>, &Request<'_>) -> HandlerResult>>;

fn nothing_of_it_is_sent<L: Loop<Engine = InjectionEngine>>() {
    let app = HandlerApp::new(
        answer as fn(&mut Responder<'_>, &Request<'_>) -> _,
        sys::now(),
        sys::wall_clock,
    );
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let (mut driver, address) = L::start(engine);
    for (place, (what, _)) in PLACES.iter().enumerate() {
        for (evil, bytes) in EVILS.iter().enumerate() {
            let answer = turn_while(&mut driver, || {
                let mut client = HttpClient::connect(address);
                let evil = format!("GET /{place}/{evil} HTTP/1.1\r\nHost: h\r\n\r\n");
                let next = "GET /next HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
                client.send(evil + next); // at once: it may end with the first
                client.read_to_end().unwrap_or_default() // a partial response may end in a reset
            });
            let text = String::from_utf8_lossy(&answer);
            let told = format!("{what}, {bytes:?}: {text}");
            assert!(!text.contains("X-Injected") && !text.contains("never sent"), "{told}");
            let all = replies(&answer);
            if *what == "a trailer" {
                // The head is already queued: the body is truncated, visibly.
                assert!(answer.is_empty() || all.is_err(), "{told}");
            } else {
                let statuses: Vec<_> = all.unwrap().iter().map(|reply| reply.status).collect();
                assert_eq!(statuses, [500, 200], "{told}");
            }
        }
    }
}

tests_in_every_loop!(at_any_pace: [nothing_of_it_is_sent]);
