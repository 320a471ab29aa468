//! Requests that are encoded once, and what a load generator needs to know of its server.

use bytes::BytesMut;
use fulmar_proto::h2::{ErrorCode, H2, RequestBlock};
use fulmar_proto::{
    Client, Connection, Event, HeaderBuf, Input, PeerError, Request, Scratch, Server, StreamId,
    UrlScheme, UsageError,
};

use super::wire::{DATA, HEADERS, RawPeer, WINDOW_UPDATE, frame, preface, reset, settings};

const MAX_CONCURRENT_STREAMS: u16 = 3;
const HEADER_TABLE_SIZE: u16 = 1;

fn encoded(method: &str, fields: &[(&str, &[u8])], body: &[u8], scheme: UrlScheme) -> RequestBlock {
    let mut headers = HeaderBuf::new();
    for (name, value) in fields {
        headers.push(name, value).expect("a field");
    }
    let request = Request::new(method.as_bytes(), b"/a?b", headers.as_headers());
    RequestBlock::new(&request, body, scheme).expect("valid")
}

/// Sends a request on this many streams; the frames, and what a server receives.
fn sent(request: &RequestBlock, count: usize) -> (RawPeer<Client>, Vec<String>) {
    let mut client = RawPeer::client(0);
    let mut server = RawPeer::<Server>::new(H2::default());
    server.feed(preface());
    for _ in 0..count {
        let stream = client.connection.open().expect("a stream");
        client.connection.send_encoded(stream, request).expect("valid");
    }
    client.flush();
    for it in &client.frames {
        server.feed(frame(it.kind, it.flags, it.stream, &it.payload));
    }
    (client, server.merged())
}

#[test]
fn every_stream_has_the_same_block_and_the_server_the_same_request() {
    let fields: [(&str, &[u8]); 4] =
        [("Host", b"a.example"), ("X-One", b"1"), ("Cookie", b"k=v"), ("Connection", b"X-Hop")];
    let (client, events) = sent(&encoded("GET", &fields, b"", UrlScheme::Https), 50);
    let blocks: Vec<_> = client.frames.iter().filter(|it| it.kind == HEADERS).collect();
    assert_eq!(blocks.len(), 50);
    assert!(blocks.iter().all(|it| it.payload == blocks[0].payload));
    assert!(blocks[0].payload.len() < 40, "{}", blocks[0].payload.len());
    let expected = "head GET /a?b [host: a.example, x-one: 1, cookie: k=v] Empty";
    for (n, pair) in events.chunks(2).enumerate() {
        let id = 2 * n + 1;
        assert_eq!(pair, [format!("{id} {expected}"), format!("{id} end ")]);
    }
    assert_eq!(client.connection.open_streams(), 50);
}

#[test]
fn a_body_follows_its_head() {
    let (client, events) = sent(&encoded("POST", &[("Host", b"a")], b"hello", UrlScheme::Http), 2);
    let kinds: Vec<u8> = client.frames.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [HEADERS, HEADERS, DATA, DATA]);
    assert!(events.contains(&"3 data hello".to_owned()), "{events:?}");
    assert!(events[0].ends_with("[host: a, content-length: 5] Exact(5)"), "{events:?}");
}

#[test]
fn a_smaller_table_of_the_server_is_acknowledged_in_the_next_block() {
    let mut peer = RawPeer::client(0);
    peer.feed(settings(&[(HEADER_TABLE_SIZE, 0)]));
    peer.frames.clear();
    let request = encoded("GET", &[("Host", b"a")], b"", UrlScheme::Http);
    for _ in 0..2 {
        let stream = peer.connection.open().expect("a stream");
        peer.connection.send_encoded(stream, &request).expect("valid");
    }
    peer.flush();
    let [first, second] = &peer.frames[..] else { panic!("two requests") };
    assert_eq!(first.payload[0], 0x20, "a size update to 0 (RFC 7541 §4.2)");
    assert_eq!(first.payload[1..], second.payload[..]);
}

#[test]
fn a_stream_is_used_once_and_connect_is_refused() {
    let request = encoded("GET", &[], b"", UrlScheme::Http);
    let mut client = H2::<Client>::default();
    assert_eq!(client.send_encoded(StreamId(1), &request), Err(UsageError::NoSuchStream));
    let stream = client.open().expect("a stream");
    client.send_encoded(stream, &request).expect("valid");
    assert_eq!(client.send_encoded(stream, &request), Err(UsageError::HeadAlreadySent));
    let headers = HeaderBuf::new();
    let connect = Request::new(b"CONNECT", b"a:80", headers.as_headers());
    assert_eq!(RequestBlock::new(&connect, b"", UrlScheme::Http).err(), Some(UsageError::BadHead));
}

#[test]
fn connection_close_ends_the_connection_after_its_response() {
    let request = encoded("GET", &[("Host", b"a"), ("Connection", b"close")], b"", UrlScheme::Http);
    let (mut client, events) = sent(&request, 1);
    assert!(events[0].ends_with("[host: a] Empty"), "{events:?}");
    assert_eq!((client.connection.vacancy(), client.connection.open_streams()), (0, 1));
    client.feed(reset(1, ErrorCode::Cancel));
    assert!(client.connection.io_state().closed);
}

#[test]
fn the_limit_of_streams_is_known_with_the_settings() {
    let mut peer = RawPeer::<Client>::new(H2::default());
    assert_eq!((peer.connection.peer_streams_max(), peer.connection.vacancy()), (None, 100));
    peer.feed(settings(&[]));
    assert_eq!(peer.connection.peer_streams_max(), Some(u32::MAX));
    assert_eq!(peer.connection.vacancy(), 65_535, "what this side can store");
    peer.feed(settings(&[(MAX_CONCURRENT_STREAMS, 3)]));
    assert_eq!((peer.connection.peer_streams_max(), peer.connection.vacancy()), (Some(3), 3));
}

#[test]
fn large_windows_need_no_updates() {
    let mut peer = RawPeer::<Client>::new(H2::with_window(1 << 30));
    peer.feed(settings(&[]));
    peer.request("GET", fulmar_proto::BodyLen::Empty);
    let first = u64::from(peer.frames.iter().find(|it| it.kind == WINDOW_UPDATE).unwrap().number());
    assert_eq!(first + 65_535, 1 << 30);
    peer.frames.clear();
    peer.feed(frame(HEADERS, 4, 1, super::wire::block(&[(":status", b"200")])));
    for _ in 0..200 {
        peer.feed(frame(DATA, 0, 1, vec![b'x'; 16_384]));
    }
    assert_eq!((peer.error, peer.count(WINDOW_UPDATE)), (None, 0));
}

#[test]
fn a_server_of_http1_is_recognized() {
    for size in [1, 9, 100] {
        let mut peer = RawPeer::<Client>::new(H2::default());
        peer.feed_pieces(b"HTTP/1.1 400 Bad Request\r\n\r\n", size);
        assert_eq!(peer.error, Some(PeerError::NotHttp2), "{size}");
        assert_eq!(peer.errors_sent(), "GOAWAY HTTP_1_1_REQUIRED");
    }
    let mut peer = RawPeer::<Client>::new(H2::default());
    peer.feed(b"SSH-2.0-OpenSSH_9.2\r\n");
    assert_eq!(peer.error, Some(PeerError::Http2(ErrorCode::FrameSizeError)));
}

/// After an upgrade from HTTP/1.1 only the response of the first stream is outstanding. It may
/// arrive in any pieces.
#[test]
fn an_upgraded_request_is_not_sent_again() {
    let headers = frame(HEADERS, 4, 1, b"\x88\x5c\x013");
    let response = [settings(&[]), headers, frame(DATA, 1, 1, b"abc")].concat();
    for size in 1..=response.len() {
        let mut connection = H2::<Client>::default();
        let begun = connection.poll_transmit().expect("the preface").inline.len();
        let stream = connection.open().expect("it is new");
        connection.begin_upgraded(stream, b"GET").expect("the first stream");
        assert_eq!(connection.poll_transmit().expect("the preface").inline.len(), begun);
        let other = connection.open().expect("it has room");
        assert!(connection.begin_upgraded(other, b"GET").is_err());
        let (mut block, mut scratch) = (BytesMut::new(), Scratch::default());
        let (mut status, mut body, mut is_complete) = (0, Vec::new(), false);
        for piece in response.chunks(size) {
            block.extend_from_slice(piece);
            let mut input = Input::all(&mut block, false);
            while let Some(event) = connection.poll_event(&mut input, &mut scratch).expect("sound")
            {
                match event {
                    Event::Head { head, .. } => status = head.status,
                    Event::Data { bytes, .. } => body.extend_from_slice(&bytes),
                    Event::End { stream: ended, .. } => is_complete = ended == stream,
                    _ => {}
                }
            }
        }
        assert_eq!((status, &body[..], is_complete), (200, &b"abc"[..], true), "{size}");
    }
}
