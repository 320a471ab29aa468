//! Heads byte for byte: those of requests as the caller wrote them, those of responses as received.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fulmar_client::{
    Application, Client, Config, Context, Error, Options, Request, RequestBody, RequestBuilder,
    ResponseProfile, TransferEvent, TransferId, VerbatimHead,
};
use fulmar_engine::{Action, CloseKind, Engine, SocketEvent, SocketId};
use fulmar_proto::{Input, PeerError, Segment};

use crate::{NOW, WALL};

/// Records the received lines and the ends, and sends a body when there is room.
#[derive(Debug, Default)]
struct RawRecorder {
    lines: String,
    body: Vec<u8>,
    ends: Vec<String>,
    upload: Option<Bytes>,
}

impl Application for RawRecorder {
    fn handle(&mut self, context: &mut Context<'_>, id: TransferId, event: TransferEvent<'_>) {
        let mut add = |name: &str, bytes: &[u8]| {
            self.lines.push_str(&format!("{name} {}|", bytes.escape_ascii()));
        };
        match event {
            TransferEvent::Informational(it) => add("interim", it.headers.received().unwrap()),
            TransferEvent::Head { response, .. } => {
                add("head", response.headers.received().unwrap());
            }
            TransferEvent::Trailers(fields) => add("trailers", fields.received().unwrap()),
            TransferEvent::MalformedHead { error, received, judged } => {
                add(&format!("{error:?} after"), &received[..judged]);
            }
            TransferEvent::Data(bytes) => self.body.extend_from_slice(&bytes),
            TransferEvent::Writable => {
                if let Some(upload) = self.upload.take() {
                    context.send(id, upload);
                    context.finish(id);
                }
            }
            TransferEvent::Done(done) => self.ends.push(match &done.result {
                Ok(()) => format!("ok {}", done.status),
                Err(Error::Peer(error)) => format!("{error:?}"),
                Err(error) => error.kind().to_owned(),
            }),
            TransferEvent::Redirect { .. } | TransferEvent::Upgraded => panic!("{event:?}"),
        }
    }
}

/// A client, and what it has sent.
struct DrivenClient {
    client: Client<RawRecorder>,
    sent: Vec<u8>,
    socket: Option<SocketId>,
    closed: usize,
}

impl DrivenClient {
    fn new(upload: Option<&'static [u8]>) -> Self {
        let recorder =
            RawRecorder { upload: upload.map(Bytes::from_static), ..RawRecorder::default() };
        let client = Client::new(*NOW, WALL, recorder, Config::default());
        Self { client, sent: Vec::new(), socket: None, closed: 0 }
    }

    fn start(&mut self, request: &Request) {
        self.client.start(*NOW, request);
        self.act();
    }

    fn receive(&mut self, bytes: &[u8], eof: bool) {
        let mut block = BytesMut::from(bytes);
        let socket = self.socket.expect("a connection");
        self.client.handle(*NOW, SocketEvent::Input(Input::all(&mut block, eof)).of(socket));
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Connect { socket, .. } => {
                    self.socket = Some(socket);
                    self.client.handle(*NOW, SocketEvent::Connected.of(socket));
                }
                Action::Transmit { socket } => {
                    let before = self.sent.len();
                    if let Some(transmit) = self.client.poll_transmit(socket) {
                        self.sent.extend_from_slice(transmit.inline);
                        for segment in transmit.segments {
                            let Segment::Bytes(bytes) = segment else { panic!("no files") };
                            self.sent.extend_from_slice(bytes);
                        }
                    }
                    let sent = (self.sent.len() - before) as u64;
                    self.client.handle(*NOW, SocketEvent::Sent(sent).of(socket));
                }
                Action::Close { kind: CloseKind::Normal | CloseKind::Reset, .. } => {
                    self.closed += 1;
                }
                _ => {}
            }
        }
    }

    fn sent(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.sent)).expect("text")
    }
}

fn verbatim(text: &'static str) -> VerbatimHead {
    VerbatimHead::new(text).expect("a head")
}

fn request(head: VerbatimHead) -> RequestBuilder {
    let options = Options { profile: ResponseProfile::Libcurl, ..Options::default() };
    Request::with_verbatim_head("http://user:pw@127.0.0.1/", head).options(Arc::new(options))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\nContent-Length: 0\n\n";

#[test]
fn a_verbatim_request_is_sent_byte_for_byte() {
    let text = "get /x HTTP/1.1\r\nhOST:a\r\nodd line\r\n\r\n";
    let mut driven = DrivenClient::new(None);
    driven.start(&request(verbatim(text)).build().unwrap());
    assert_eq!(driven.sent(), text);
    driven.receive(OK, false);
    let bytes = RequestBody::Bytes(Bytes::from_static(b"abc"));
    driven.start(&request(verbatim(text)).body(bytes).build().unwrap());
    assert_eq!(driven.sent(), [text, "abc"].concat());
    driven.receive(OK, false);
    assert_eq!(driven.client.application().ends, ["ok 200", "ok 200"]);
    assert_eq!(driven.client.stats().connections, 1, "the connection is used again");
    let added = request(verbatim(text)).header("X", b"y").build();
    assert!(added.is_err(), "a field would change the head");
}

#[test]
fn a_verbatim_body_may_be_chunked_and_wait_for_100() {
    let text = "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut head = verbatim(text);
    head.expects_continue = true;
    let mut driven = DrivenClient::new(Some(b"abc"));
    driven.start(&request(head).body(RequestBody::Stream(None)).build().unwrap());
    assert_eq!(driven.sent(), text);
    driven.receive(b"HTTP/1.1 100 Go\r\nA:b\r\n\r\n", false);
    assert_eq!(driven.sent(), "3\r\nabc\r\n0\r\n\r\n");
    driven.receive(OK, false);
    let recorder = driven.client.application();
    assert_eq!(recorder.ends, ["ok 200"]);
    let interim = r"interim HTTP/1.1 100 Go\r\nA:b\r\n\r\n";
    let lines = format!(r"{interim}|head HTTP/1.1 200 OK\nContent-Length: 0\n\n|");
    assert_eq!(recorder.lines, lines);
}

#[test]
fn a_connection_closes_after_a_verbatim_request_that_closes() {
    let mut head = verbatim("GET / HTTP/1.1\r\n\r\n");
    head.closes = true;
    let mut driven = DrivenClient::new(None);
    driven.start(&request(head).build().unwrap());
    driven.receive(OK, false);
    assert_eq!((driven.client.connections(), driven.closed), (0, 1));
    assert_eq!(driven.client.application().ends, ["ok 200"]);
}

/// A redirect, a challenge, 417 and 421 are delivered.
#[test]
fn every_response_to_a_verbatim_request_is_delivered() {
    for (status, field) in [
        (302, "Location: /other"),
        (401, "WWW-Authenticate: Basic realm=x"),
        (417, "A: b"),
        (421, "A: b"),
    ] {
        let options = Options {
            redirects: Some(fulmar_semantics::redirect::Policy::default()),
            ..Options::default()
        };
        let head = verbatim("GET / HTTP/1.1\r\n\r\n");
        let request = request(head).options(Arc::new(options)).build().unwrap();
        let mut driven = DrivenClient::new(None);
        driven.start(&request);
        let response = format!("HTTP/1.1 {status} X\r\n{field}\r\nContent-Length: 0\r\n\r\n");
        driven.receive(response.as_bytes(), false);
        assert_eq!(driven.client.application().ends, [format!("ok {status}")]);
        assert_eq!(driven.sent(), "GET / HTTP/1.1\r\n\r\n", "it is sent once");
    }
}

#[test]
fn received_lines_are_delivered_as_they_came() {
    let mut driven = DrivenClient::new(None);
    driven.start(&request(verbatim("GET / HTTP/1.1\r\n\r\n")).build().unwrap());
    let head = "http/1.1 200\nx y:  1 \nTransfer-Encoding:chunked\n a\n\n";
    driven.receive(format!("{head}3\nabc\n0\nA:b\n\n").as_bytes(), false);
    let recorder = driven.client.application();
    let lines = format!("head {}|trailers A:b\\n\\n|", head.as_bytes().escape_ascii());
    assert_eq!((&recorder.lines[..], &recorder.body[..]), (&lines[..], &b"abc"[..]));
    assert_eq!(recorder.ends, ["ok 200"]);
}

#[test]
fn repaired_heads_have_their_received_bytes() {
    let mut driven = DrivenClient::new(None);
    driven.start(&Request::get("http://127.0.0.1/").build().unwrap());
    let head = "HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 0\n\n";
    driven.receive(head.as_bytes(), false);
    let lines = format!("head {}|", head.as_bytes().escape_ascii());
    assert_eq!(driven.client.application().lines, lines);
}

#[test]
fn the_lines_before_a_refused_one_are_delivered() {
    for (response, judged, error) in [
        (
            "HTTP/1.1 200 OK\r\nA: b\r\njunk\r\n\r\n",
            "HTTP/1.1 200 OK\\r\\nA: b\\r\\n",
            PeerError::MissingColon,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n", "HTTP/1.1 200 OK\\r\\n", PeerError::BadLength),
        ("HTTP/1.2 200 OK\r\n\r\n", "", PeerError::BadVersion),
        ("no head", "", PeerError::BadStartLine),
    ] {
        let mut driven = DrivenClient::new(None);
        driven.start(&request(verbatim("GET / HTTP/1.1\r\n\r\n")).build().unwrap());
        driven.receive(response.as_bytes(), false);
        let recorder = driven.client.application();
        assert_eq!(recorder.lines, format!("{error:?} after {judged}|"), "{response:?}");
        assert_eq!(recorder.ends, [format!("{error:?}")], "{response:?}");
    }
}
