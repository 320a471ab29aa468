//! Tunnels through streams of HTTP/2 (CONNECT, RFC 9113 §8.5).

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use fulmar_engine::End;
use fulmar_proto::{Headers, Request, Response};
use fulmar_server::{
    BodyHandler, Handler, HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop,
};
use fulmar_sys as sys;
use fulmar_tests::http2::Http2Client;
use fulmar_tests::loops::LISTENER;
use fulmar_tests::server_hand::ServerHand;

/// Makes a tunnel of each request, whether it requests one or not.
struct TunnelHandler {
    ends: Rc<RefCell<Vec<String>>>,
}

impl Handler for TunnelHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
        let ends = Rc::clone(&self.ends);
        responder.upgrade(Response::new(200, Headers::EMPTY), TunnelEcho { ends })
    }
}

/// Returns what it receives, and ends when the client has ended.
struct TunnelEcho {
    ends: Rc<RefCell<Vec<String>>>,
}

impl BodyHandler for TunnelEcho {
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        responder.send(bytes)
    }

    fn end(&mut self, responder: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
        responder.end()
    }

    fn gone(&mut self, end: &End) {
        self.ends.borrow_mut().push(format!("{end:?}"));
    }
}

fn hand(ends: &Rc<RefCell<Vec<String>>>) -> ServerHand<HandlerApp<TunnelHandler>> {
    ServerHand::new(|now| {
        let handler = TunnelHandler { ends: Rc::clone(ends) };
        let app = HandlerApp::new(handler, now, sys::wall_clock);
        let mut engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
        engine.add_listener(LISTENER, None);
        engine
    })
}

/// One connection carries any number of tunnels, one after the other: each is over with its stream.
#[test]
fn tunnel_is_over_when_both_directions_have_ended() {
    let ends = Rc::default();
    let mut hand = hand(&ends);
    let peer = hand.connect();
    let mut client = Http2Client::default();
    for count in 1..=300 {
        let stream = client.request("CONNECT", "test:80", b"ping");
        for _ in 0..4 {
            hand.send(peer, client.poll_bytes());
            let received = std::mem::take(&mut hand.peer(peer).received);
            client.receive(&received);
        }
        let response = &client.responses[&stream];
        assert_eq!((response.status, &response.body[..]), (200, &b"ping"[..]), "tunnel {count}");
        assert!(response.is_whole, "tunnel {count}");
        assert_eq!(ends.borrow().len(), count);
    }
    assert!(ends.borrow().iter().all(|end| end == "Closed"), "{ends:?}");
    assert!(hand.peer(peer).closed.is_none());
}

/// 200 to another method is a response with a body, and no tunnel.
#[test]
fn upgrade_of_a_request_without_connect_is_an_error() {
    let ends = Rc::default();
    let mut hand = hand(&ends);
    let peer = hand.connect();
    let mut client = Http2Client::default();
    let stream = client.request("GET", "/", b"");
    hand.send(peer, client.poll_bytes());
    let received = std::mem::take(&mut hand.peer(peer).received);
    client.receive(&received);
    assert_eq!(client.responses[&stream].status, 500);
    assert!(client.responses[&stream].is_whole);
}
