//! Heads byte for byte: those of requests as the caller wrote them, those of responses as received.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fulmar_client::{
    Options, Protocol, Request, RequestBody, RequestBuilder, ResponseProfile, VerbatimHead,
};
use fulmar_proto::{Connection, Event, Input, PeerError, Scratch, ServerConnection};

use crate::driven::{DrivenClient, OK};

fn verbatim(text: &'static str) -> VerbatimHead {
    VerbatimHead::new(text).expect("a head")
}

fn request(head: VerbatimHead) -> RequestBuilder {
    let options = Options { profile: ResponseProfile::Libcurl, ..Options::default() };
    Request::with_verbatim_head("http://user:pw@127.0.0.1/", head).options(Arc::new(options))
}

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
fn trailers_are_sent_behind_chunks() {
    let text = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut driven = DrivenClient::new(Some(b"abc"));
    driven.client.application_mut().trailer = Some(("X-Sum", "1"));
    driven.start(&request(verbatim(text)).body(RequestBody::Stream(None)).build().unwrap());
    assert_eq!(driven.sent(), format!("{text}3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"));
    driven.receive(OK, false);
    assert_eq!(driven.client.application().ends, ["ok 200"]);
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

/// Names in lower case, `Host` as the authority, and nothing that concerns one connection.
#[test]
fn http2_gets_the_fields_of_a_verbatim_head() {
    let text = "GET /x HTTP/1.1\r\nHost: A.example\r\nX-Odd:  1\r\nConnection: close\r\n\r\n";
    let options = Options { protocol: Protocol::Http2, ..Options::default() };
    let request = request(verbatim(text)).options(Arc::new(options)).build().unwrap();
    let mut driven = DrivenClient::new(None);
    driven.start(&request);
    let mut block = BytesMut::from(&driven.sent_bytes()[..]);
    let (mut input, mut scratch) = (Input::all(&mut block, false), Scratch::default());
    let mut server = ServerConnection::default();
    let event = server.poll_event(&mut input, &mut scratch).unwrap().expect("a request");
    let Event::Head { head, .. } = event else { panic!("{event:?}") };
    assert_eq!((head.method, head.target), (&b"GET"[..], &b"/x"[..]));
    let fields: Vec<_> = head.headers.iter().collect();
    assert_eq!(fields, [(&b"host"[..], &b"A.example"[..]), (b"x-odd", b"1")]);
    assert!(head.headers.received().is_none(), "it had no lines");
    let odd = Options { protocol: Protocol::Http2, ..Options::default() };
    let head = verbatim("GET / HTTP/1.1\r\nno colon\r\n\r\n");
    let built = Request::with_verbatim_head("http://127.0.0.1/", head).options(Arc::new(odd));
    assert!(built.build().is_err(), "HTTP/2 has no such line");
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

/// The transfer ends when it is resumed.
#[test]
fn a_transfer_may_pause_at_its_trailers() {
    let mut driven = DrivenClient::new(None);
    driven.client.application_mut().pauses_at_trailers = true;
    let id = driven.start(&Request::get("http://127.0.0.1/").build().unwrap());
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    driven.receive(format!("{head}0\r\nA: b\r\n\r\n").as_bytes(), false);
    assert!(driven.client.application().lines.ends_with("trailers A: b\\r\\n\\r\\n|"));
    assert!(driven.client.application().ends.is_empty());
    let now = driven.now;
    driven.client.with(now, |_, context| context.resume(id));
    driven.act();
    assert_eq!(driven.client.application().ends, ["ok 200"]);
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
