//! Connections with layers, without a driver: ends, bytes above the socket, and errors.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use fulmar_engine::{Action, DriverEvent, End, Engine, SocketEvent, SocketId};
use fulmar_proto::{
    Input, Layer, LayerError, Opened, Outbox, PeerError, Sealed, Segment, Transmit,
};
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{http1_tls, server_tls};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::recording_client::RecordingClient;
use fulmar_tests::tls_end::{TlsEnd, flatten};
use fulmar_tls::TlsError;

/// A client's engine on one side, a session on the other, and a driver that is the test.
struct Scene {
    asker: RecordingClient,
    socket: SocketId,
    server: TlsEnd,
    unread: BytesMut,
    reading: bool,
    resumed: bool,
    shut: bool,
    closed: bool,
}

impl Scene {
    /// Both sessions are established, unless the certificate is not trusted.
    fn new(owner: CertOwner) -> Self {
        let certs = Certs::new();
        let (client, server) = (http1_tls(&certs), server_tls(&certs, owner));
        let mut asker = RecordingClient::default();
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
        let layer = client.session("localhost").expect("a name");
        let socket = asker.connect(peer, Some(Box::new(layer)));
        let mut scene = Self {
            asker,
            socket,
            server: TlsEnd::new(server.session().expect("a session")),
            unread: BytesMut::new(),
            reading: true,
            resumed: false,
            shut: false,
            closed: false,
        };
        let action = scene.asker.poll_action();
        assert!(matches!(action, Some(Action::Connect { .. })), "{action:?}");
        scene.asker.handle(sys::now(), SocketEvent::Connected.of(socket));
        scene.carry();
        scene
    }

    /// Performs the client's actions; its bytes reach the server.
    fn act(&mut self) {
        while let Some(action) = self.asker.poll_action() {
            match action {
                Action::Transmit { socket } => {
                    let bytes = self.asker.poll_transmit(socket).map_or_else(Vec::new, flatten);
                    self.server.wire.extend_from_slice(&bytes);
                    self.asker.handle(sys::now(), SocketEvent::Sent(bytes.len() as u64).of(socket));
                }
                Action::Read { on, .. } => {
                    self.reading = on;
                    self.resumed = on;
                }
                Action::Shutdown { .. } => self.shut = true,
                Action::Close { .. } => self.closed = true,
                action => panic!("{action:?}"),
            }
        }
    }

    /// Until both sides are quiet.
    fn carry(&mut self) {
        loop {
            self.act();
            let _ = self.server.open(); // a client that fails sends an alert
            let bytes = self.server.take();
            if bytes.is_empty() && !self.resumed {
                return;
            }
            self.give(&bytes, false);
        }
    }

    /// Bytes reach the client's socket.
    fn give(&mut self, bytes: &[u8], eof: bool) {
        self.unread.extend_from_slice(bytes);
        if self.reading || eof {
            self.resumed = false;
            let mut unread = std::mem::take(&mut self.unread);
            self.asker.handle(
                sys::now(),
                SocketEvent::Input(Input::all(&mut unread, eof)).of(self.socket),
            );
            self.unread = unread;
        }
        self.act();
    }

    fn send(&mut self, text: &str) {
        self.server.send(text.as_bytes());
        self.carry();
    }

    fn send_request(&mut self) {
        self.asker.get(self.socket, "/");
        self.carry();
        assert!(self.server.above.split().starts_with(b"GET / HTTP/1.1\r\n"));
    }

    fn end(&mut self) -> End {
        assert!(self.closed && !self.asker.holds(self.socket));
        self.asker.book.ends.pop().expect("it was told")
    }
}

fn tls_error(end: End) -> TlsError {
    match end {
        End::Layer(error) => *error.downcast().expect("an error of TLS"),
        end => panic!("{end:?}"),
    }
}

#[test]
fn a_connection_is_established_once_its_layer_is() {
    let mut scene = Scene::new(CertOwner::Server);
    assert_eq!((scene.asker.book.established, scene.asker.book.agreed.len()), (1, 1));
    scene.send_request();
    scene.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(scene.asker.book.answers, [(200, b"hi".to_vec())]);
    scene.asker.leave(scene.socket);
    scene.carry();
    assert!(scene.server.ended, "close_notify was sent");
    assert!(matches!(scene.end(), End::Closed));
}

/// Tickets and alerts belong to the layer: a server that sends only these has not responded.
#[test]
fn records_of_the_layer_cause_no_events() {
    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    assert_eq!(scene.asker.book.heard, 0, "a handshake, and tickets after it");
    scene.server.layer.finish();
    let bytes = scene.server.take();
    scene.give(&bytes, true);
    assert_eq!(scene.asker.book.heard, 0);
    assert!(matches!(scene.end(), End::Peer(PeerError::UnexpectedEof)));

    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.send("H");
    assert_eq!(scene.asker.book.heard, 1);
}

#[test]
fn an_untrusted_server_gets_an_alert_and_no_request() {
    let mut scene = Scene::new(CertOwner::Stranger);
    assert_eq!(tls_error(scene.end()), TlsError::UnknownIssuer);
    assert_eq!(scene.asker.book.established, 0);
    let error = scene.server.open();
    assert!(error.is_ok(), "it was told already");
    assert!(!scene.server.established, "an alert came instead of a Finished");
}

/// Row 47: the end of the socket is not the end of the body.
#[test]
fn a_body_that_ends_with_the_connection_must_end_with_close_notify() {
    let head = "HTTP/1.1 200 OK\r\n\r\nas long as it comes";
    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.send(head);
    scene.give(b"", true);
    assert_eq!(tls_error(scene.end()), TlsError::Truncated);
    assert!(scene.asker.book.answers.is_empty(), "nobody knows whether that was all");

    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.send(head);
    scene.server.layer.finish();
    let bytes = scene.server.take();
    scene.give(&bytes, true);
    assert_eq!(scene.asker.book.answers.len(), 1);
    assert!(matches!(scene.end(), End::Closed));
}

#[test]
fn a_complete_answer_needs_no_close_notify() {
    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    scene.give(b"", true);
    assert_eq!(scene.asker.book.answers.len(), 1);
    assert!(matches!(scene.end(), End::Closed));
}

#[test]
fn an_answer_cut_short_is_an_error_with_or_without_close_notify() {
    let part = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf of";
    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.send(part);
    scene.give(b"", true);
    assert_eq!(tls_error(scene.end()), TlsError::Truncated);

    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.send(part);
    scene.server.layer.finish();
    scene.carry();
    assert!(matches!(scene.end(), End::Peer(PeerError::UnexpectedEof)));
}

#[test]
fn an_aborted_upload_does_not_end_with_close_notify() {
    let mut scene = Scene::new(CertOwner::Server);
    scene.asker.abandon(scene.socket);
    scene.carry();
    assert!(matches!(scene.end(), End::Closed));
    assert!(!scene.server.ended, "nobody may take it for complete");
}

/// T6: no event reports bytes that were already read from the socket.
#[test]
fn held_back_bytes_are_delivered_on_resumption() {
    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.asker.book.holding = true;
    let size = 600_000;
    scene.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n"));
    let piece = vec![b'x'; 10_000];
    let mut bytes = Vec::new();
    for _ in 0..size / piece.len() {
        scene.server.send(&piece);
        bytes.extend(scene.server.take());
    }
    scene.give(&bytes, false);
    assert!(!scene.reading, "the peer has to wait");
    let before = scene.asker.received();
    assert!((200_000..400_000).contains(&before), "no more was opened: {before}");
    scene.asker.release(scene.socket);
    scene.act();
    assert!(scene.reading && scene.resumed, "it is asked again");
    scene.carry(); // with nothing new from the socket
    assert_eq!(scene.asker.book.answers.len(), 1, "{}", scene.asker.received());
    assert_eq!(scene.asker.book.answers[0].1.len(), size);
}

#[test]
fn a_handshake_has_its_own_deadline() {
    let certs = Certs::new();
    let mut asker = RecordingClient::default();
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
    let layer = http1_tls(&certs).session("localhost").expect("a name");
    let socket = asker.connect(peer, Some(Box::new(layer)));
    let now = sys::now();
    asker.handle(now, SocketEvent::Connected.of(socket));
    asker.handle(now + PATIENCE - Duration::from_secs(1), DriverEvent::Timeout);
    assert!(asker.holds(socket));
    asker.handle(now + PATIENCE + Duration::from_secs(1), DriverEvent::Timeout);
    assert!(matches!(asker.book.ends[..], [End::TimedOut(Some(fulmar_proto::Phase::Handshake))]));
}

#[test]
fn a_record_that_was_tampered_with_ends_the_connection_with_an_alert() {
    let mut scene = Scene::new(CertOwner::Server);
    scene.send_request();
    scene.server.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let mut bytes = scene.server.take();
    *bytes.last_mut().expect("a record") ^= 1;
    scene.give(&bytes, false);
    assert_eq!(tls_error(scene.end()), TlsError::BadRecord);
    let error = scene.server.open().expect_err("an alert");
    assert!(error.to_string().contains("BadRecordMac"), "{error}");
}

/// A tunnel as a proxy opens it: a word each way, then it is gone.
#[derive(Debug)]
struct TunnelLayer {
    outbox: Outbox,
    next: Option<Box<dyn Layer>>,
}

impl TunnelLayer {
    fn before(next: Option<Box<dyn Layer>>) -> Box<dyn Layer> {
        let mut outbox = Outbox::default();
        outbox.push(Segment::from(&b"open"[..]));
        Box::new(Self { outbox, next })
    }
}

impl Layer for TunnelLayer {
    fn open(&mut self, input: &mut Input<'_>, _: &mut BytesMut) -> Result<Opened, LayerError> {
        if input.len() < 4 {
            return Ok(Opened::Blocked);
        }
        assert_eq!(&input.take(4)[..], b"gone");
        Ok(Opened::Replaced(self.next.take()))
    }

    fn seal(&mut self, _: Transmit<'_>) -> Result<Sealed, LayerError> {
        panic!("nothing is sealed before it stands")
    }

    fn seal_loaded(&mut self, _: &[u8]) -> Result<(), LayerError> {
        panic!("nothing was to be loaded")
    }

    fn finish(&mut self) {}

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.outbox.transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
    }
}

/// What the client sends now.
fn sent(asker: &mut RecordingClient, socket: SocketId) -> Vec<u8> {
    let action = asker.poll_action();
    assert!(matches!(action, Some(Action::Transmit { .. })), "{action:?}");
    let bytes = asker.poll_transmit(socket).map_or_else(Vec::new, flatten);
    asker.handle(sys::now(), SocketEvent::Sent(bytes.len() as u64).of(socket));
    bytes
}

#[test]
fn a_finished_layer_is_replaced() {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
    let certs = Certs::new();
    for with_tls in [false, true] {
        let tls =
            || -> Box<dyn Layer> { Box::new(http1_tls(&certs).session("localhost").unwrap()) };
        let mut asker = RecordingClient::default();
        let socket = asker.connect(peer, Some(TunnelLayer::before(with_tls.then(tls))));
        asker.get(socket, "/"); // before the handshake is complete
        let action = asker.poll_action();
        assert!(matches!(action, Some(Action::Connect { .. })), "{action:?}");
        asker.handle(sys::now(), SocketEvent::Connected.of(socket));
        assert_eq!(sent(&mut asker, socket), b"open");
        for piece in [&b"go"[..], b"gone"] {
            let mut bytes = BytesMut::from(piece);
            asker.handle(sys::now(), SocketEvent::Input(Input::all(&mut bytes, false)).of(socket));
            assert_eq!(bytes.is_empty(), piece.len() == 4, "all of its answer, or none");
        }
        assert_eq!(asker.book.established, u32::from(!with_tls));
        let bytes = sent(&mut asker, socket);
        match with_tls {
            false => assert!(bytes.starts_with(b"GET / HTTP/1.1\r\n")),
            true => assert_eq!(bytes[0], 22, "a ClientHello"),
        }
    }
}
