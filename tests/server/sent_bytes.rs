//! Observers receive the bytes of a response that were sent, and whether it was sent as a whole.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use fulmar_engine::sim::PeerId;
use fulmar_proto::{BodyLen, Headers, Request, Response};
use fulmar_semantics::clock::Clock;
use fulmar_server::{
    ExchangeSummary, Handler, HandlerApp, HandlerResult, Limits, Observer, Responder, ServerEngine,
    Stop,
};
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http2::Http2Client;
use fulmar_tests::https::{client_tls, layers, server_tls};
use fulmar_tests::loops::LISTENER;
use fulmar_tests::server_hand::ServerHand;
use fulmar_tests::tls_end::TlsEnd;

/// Responds with as many bytes as the target says.
struct Sized;

impl Handler for Sized {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let size = std::str::from_utf8(&request.target[1..]).expect("digits");
        let body = vec![b'x'; size.parse().expect("a number")];
        responder.reply(Response::new(200, Headers::EMPTY), body)
    }
}

/// Target, bytes, and whether the response is complete.
type Ended = (String, u64, bool);

#[derive(Clone, Default)]
struct EndedExchanges(Rc<RefCell<Vec<Ended>>>);

impl Observer for EndedExchanges {
    fn exchange_ended(&mut self, _: Instant, _: &Clock, exchange: &ExchangeSummary<'_>) {
        let target = String::from_utf8_lossy(exchange.request.target).into_owned();
        self.0.borrow_mut().push((target, exchange.bytes, exchange.complete));
    }
}

struct SizedServer {
    hand: ServerHand<HandlerApp<Sized>>,
    ended: EndedExchanges,
}

impl SizedServer {
    fn new() -> Self {
        Self::with_tls(None)
    }

    fn with_tls(certs: Option<&Certs>) -> Self {
        let ended = EndedExchanges::default();
        let observer = ended.clone();
        let hand = ServerHand::new(|now| {
            let app = HandlerApp::new(Sized, now, sys::wall_clock).with_observer(observer);
            let mut engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
            let tls = certs.map(|certs| layers(server_tls(certs, CertOwner::Server)));
            engine.add_listener(LISTENER, tls);
            engine
        });
        Self { hand, ended }
    }

    fn take(&self) -> Vec<Ended> {
        self.ended.0.take()
    }

    /// A client that reads this many bytes, and has requested these targets.
    fn http1(&mut self, window: usize, targets: &[&str]) -> PeerId {
        let peer = self.hand.connect();
        self.hand.peer(peer).window = window;
        let requests =
            targets.iter().map(|target| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let requests: String = requests.collect();
        self.hand.send(peer, requests);
        peer
    }

    /// A client of HTTP/2 whose windows take 1 MiB of the response.
    fn http2(&mut self, target: &str) -> (PeerId, Http2Client, u32) {
        let peer = self.hand.connect();
        let mut client = Http2Client::default();
        client.holds_windows = true;
        let stream = client.request("GET", target, b"");
        self.exchange(peer, &mut client);
        (peer, client, stream)
    }

    fn exchange(&mut self, peer: PeerId, client: &mut Http2Client) {
        loop {
            self.hand.send(peer, client.poll_bytes());
            let received = std::mem::take(&mut self.hand.peer(peer).received);
            if received.is_empty() {
                return;
            }
            client.receive(&received);
        }
    }
}

#[test]
fn a_response_is_reported_once_it_is_sent() {
    let mut server = SizedServer::new();
    let peer = server.http1(100_000, &["/1000000"]);
    assert_eq!(server.take(), []);
    server.hand.take(peer, 500_000);
    assert_eq!(server.take(), []);
    server.hand.take(peer, 500_000);
    assert_eq!(server.take(), [("/1000000".to_owned(), 1_000_000, true)]);
    server.hand.send(peer, "GET /6 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(server.take(), [("/6".to_owned(), 6, true)]);
    server.hand.fail(peer);
    assert_eq!(server.take(), []);
}

#[test]
fn the_bytes_that_a_lost_client_did_not_take_are_not_counted() {
    let mut server = SizedServer::new();
    let peer = server.http1(100_000, &["/1000000"]);
    server.hand.fail(peer);
    let [(_, bytes, complete)]: [Ended; 1] = server.take().try_into().expect("one exchange");
    assert!((99_000..100_000).contains(&bytes) && !complete, "{bytes} {complete}");
}

#[test]
fn each_of_pipelined_responses_has_its_bytes() {
    let mut server = SizedServer::new();
    let peer = server.http1(150_000, &["/100000", "/200000"]);
    assert_eq!(server.take(), [("/100000".to_owned(), 100_000, true)]);
    server.hand.fail(peer);
    let [(target, bytes, complete)]: [Ended; 1] = server.take().try_into().expect("one exchange");
    assert!(target == "/200000" && (49_000..50_000).contains(&bytes) && !complete, "{bytes}");
}

#[test]
fn a_stream_that_the_client_resets_has_its_framed_bytes() {
    let mut server = SizedServer::new();
    let (peer, mut client, stream) = server.http2("/4000000");
    let received = client.responses[&stream].body.len() as u64;
    assert!(received > 0 && server.take().is_empty());
    client.reset(stream);
    let other = client.request("GET", "/20000", b"");
    server.exchange(peer, &mut client);
    let expected = [("/4000000".to_owned(), received, false), ("/20000".to_owned(), 20_000, true)];
    assert_eq!(server.take(), expected);
    assert_eq!(client.responses[&other].body.len(), 20_000);
}

#[test]
fn streams_of_a_lost_connection_have_their_sent_bytes() {
    let lose: [fn(&mut SizedServer, PeerId); 3] = [
        |server, peer| server.hand.fail(peer),
        |server, peer| server.hand.send(peer, [0, 0, 1, 6, 0, 0, 0, 0, 0, 0]), // a short PING
        |server, _| server.hand.sim.pass(std::time::Duration::from_secs(300)),
    ];
    for lose in lose {
        let mut server = SizedServer::new();
        let (peer, client, stream) = server.http2("/4000000");
        let received = client.responses[&stream].body.len() as u64;
        lose(&mut server, peer);
        server.hand.fail(peer);
        assert_eq!(server.take(), [("/4000000".to_owned(), received, false)]);
    }
}

/// The bytes of the second response behind it were counted as unsent bytes of the first one.
#[test]
fn a_response_is_reported_while_a_later_one_is_queued() {
    let mut server = SizedServer::new();
    let peer = server.http1(30_200, &["/30000", "/10000"]);
    // A small one counts as sent once it is queued.
    let expected = [("/10000".to_owned(), 10_000, true), ("/30000".to_owned(), 30_000, true)];
    assert_eq!(server.take(), expected);
    server.hand.fail(peer);
    assert_eq!(server.take(), []);
}

/// A client of HTTP/2, in clear text or over TLS, that reads its socket slowly.
struct SlowClient {
    peer: PeerId,
    http: Http2Client,
    tls: Option<TlsEnd>,
}

impl SlowClient {
    fn connect(server: &mut SizedServer, certs: Option<&Certs>) -> Self {
        let tls = certs.map(|certs| TlsEnd::new(client_tls(certs).session("localhost").unwrap()));
        let peer = server.hand.connect();
        let mut this = Self { peer, http: Http2Client::default(), tls };
        for _ in 0..4 {
            this.exchange(server); // the handshake, and SETTINGS
        }
        this
    }

    /// Sends what is pending, and receives what has arrived.
    fn exchange(&mut self, server: &mut SizedServer) {
        let bytes = match &mut self.tls {
            Some(end) => {
                if end.established {
                    end.send(&self.http.poll_bytes());
                }
                end.take()
            }
            None => self.http.poll_bytes(),
        };
        server.hand.send(self.peer, bytes);
        let received = std::mem::take(&mut server.hand.peer(self.peer).received);
        match &mut self.tls {
            Some(end) => {
                end.wire.extend_from_slice(&received);
                end.open().expect("the server follows the protocol");
                self.http.receive(&std::mem::take(&mut end.above));
            }
            None => self.http.receive(&received),
        }
    }
}

/// Responses of HTTP/2 were reported once the connection had no more bytes to send, and lost all
/// framed bytes of the connection if it failed.
#[test]
fn a_stream_is_reported_while_others_have_data() {
    let certs = Certs::new();
    for certs in [None, Some(&certs)] {
        let mut server = SizedServer::with_tls(certs);
        let mut client = SlowClient::connect(&mut server, certs);
        server.hand.peer(client.peer).window = 0;
        let large = client.http.request("GET", "/4000000", b"");
        let small = client.http.request("GET", "/20000", b"");
        client.exchange(&mut server);
        let mut ended = Vec::new();
        for _ in 0..1_000 {
            server.hand.take(client.peer, 1_000);
            client.exchange(&mut server);
            ended.extend(server.take());
        }
        assert_eq!(client.http.responses[&small].body.len(), 20_000);
        assert_eq!(ended, [("/20000".to_owned(), 20_000, true)], "TLS: {}", certs.is_some());
        server.hand.fail(client.peer);
        let received = client.http.responses[&large].body.len() as u64;
        let [(target, bytes, complete)]: [Ended; 1] = server.take().try_into().expect("one");
        assert!(target == "/4000000" && !complete);
        // The headers of framed and unsent bytes are subtracted. TLS: sealed bytes count as sent.
        let sealed = if certs.is_some() { 300_000 } else { 0 };
        assert!((received - 1_000..=received + sealed).contains(&bytes), "{bytes} of {received}");
    }
}

/// A reset reported a complete response if all of it was framed, though none of it was sent.
#[test]
fn a_reset_does_not_report_framed_bytes_as_sent() {
    for is_read in [true, false] {
        let mut server = SizedServer::new();
        let mut client = SlowClient::connect(&mut server, None);
        server.hand.peer(client.peer).window = 0;
        let stream = client.http.begin("POST", "/20000", BodyLen::Exact(5));
        client.exchange(&mut server);
        client.http.reset(stream);
        client.exchange(&mut server);
        assert_eq!(server.take(), []);
        if is_read {
            server.hand.take(client.peer, 30_000);
            assert_eq!(server.take(), [("/20000".to_owned(), 20_000, true)]);
        }
        server.hand.fail(client.peer);
        let lost = ("/20000".to_owned(), 0, false);
        assert_eq!(server.take(), if is_read { vec![] } else { vec![lost] });
    }
}
