//! The one property of these targets: random bytes in random splits give events or a `PeerError`,
//! nothing else, of strict and of lenient connections.
//! No panic, no event after an error, no event out of nothing.
//!
//! The first bytes of the data determine how the rest is split, the second byte also the leniency
//! of the connection. `crates/proto/tests/it/smoke.rs` runs the same functions on mutated cases in
//! every test run.

use bytes::BytesMut;
use fulmar_proto::Side;
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::h1::{H1, HEAD_SIZE_MAX, Leniency, TRAILERS_SIZE_MAX};
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, Input, Request, Response, Scratch, Segment,
};

/// A request head; what follows it is not answered.
pub fn request_head(data: &[u8]) {
    feed(&mut lenient(H1Server::default(), data), b"", data, |_, _| ());
}

/// A response head, and the body it announces.
pub fn response_head(data: &[u8]) {
    feed(&mut lenient(asked(b"GET", 1), data), b"", data, |_, _| ());
}

/// A chunked body, received by both sides.
pub fn chunked(data: &[u8]) {
    let request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    feed(&mut lenient(H1Server::default(), data), request, data, |_, _| ());
    feed(&mut lenient(asked(b"GET", 1), data), response, data, |_, _| ());
}

/// A server that answers: early, late, with and without a length, or with a tunnel.
pub fn server_connection(data: &[u8]) {
    let kind = data.first().copied().unwrap_or_default();
    let mut upgrade = HeaderBuf::new();
    upgrade.push("Upgrade", b"x").expect("a field");
    feed(&mut H1Server::default(), b"", data, |connection, event| {
        let stream = event.stream();
        let due = match event {
            Event::Head { .. } => kind & 1 == 0,
            Event::End { .. } => kind & 1 == 1,
            Event::Data { bytes, .. } => {
                connection.release(stream, bytes.len());
                false
            }
            _ => false,
        };
        if !due {
            return;
        }
        if kind & 2 == 0 {
            let head = Response::new(101, upgrade.as_headers());
            let _ = connection.send_head(stream, head, BodyLen::Empty);
        }
        let len = if kind & 4 == 0 { BodyLen::Exact(2) } else { BodyLen::Unknown };
        let status = if kind & 8 == 0 { 200 } else { 304 };
        let _ = connection.send_head(stream, Response::new(status, Headers::EMPTY), len);
        let _ = connection.send_data(stream, Segment::from(&b"ok"[..]));
        let _ = connection.send_end(stream, Headers::EMPTY);
    });
}

/// A client with requests of several kinds outstanding.
pub fn client_connection(data: &[u8]) {
    let kind = data.first().copied().unwrap_or_default();
    let methods = [&b"GET"[..], b"HEAD", b"CONNECT", b"POST"];
    let connection = asked(methods[usize::from(kind & 3)], usize::from(kind >> 2 & 3));
    let mut connection = lenient(connection, data);
    feed(&mut connection, b"", data, |connection, event| {
        if let Event::Data { stream, bytes } = event {
            connection.release(*stream, bytes.len());
        }
    });
}

/// The connection, with a leniency that the second byte chooses.
fn lenient<S: Side>(mut connection: H1<S>, data: &[u8]) -> H1<S> {
    let choice = data.get(1).map_or(0, |byte| usize::from(*byte) % PROFILES.len());
    connection.set_leniency(PROFILES[choice]);
    connection
}

/// A client that has sent `count` requests.
fn asked(method: &[u8], count: usize) -> H1Client {
    let mut connection = H1Client::with_depth(4);
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"a").expect("a field");
    if method == b"POST" {
        headers.push("Upgrade", b"x").expect("a field");
    }
    for _ in 0..count {
        let Some(stream) = connection.open() else { break };
        let target = if method == b"CONNECT" { &b"a:80"[..] } else { b"/" };
        let request = Request::new(method, target, headers.as_headers());
        connection.send_head(stream, request, BodyLen::Empty).expect("a sound head");
        connection.send_end(stream, Headers::EMPTY).expect("complete");
    }
    flush(&mut connection);
    connection
}

/// Feeds `lead` and then `data` in pieces, as a driver would.
fn feed<C: Connection>(
    connection: &mut C,
    lead: &[u8],
    data: &[u8],
    mut app: impl FnMut(&mut C, &Event<'_, C::Role>),
) {
    let (sizes, data) = data.split_at(data.len().min(SIZES_LEN));
    let bytes = [lead, data].concat();
    let mut rest = &bytes[..];
    let (mut block, mut scratch) = (BytesMut::new(), Scratch::default());
    let (mut failed, mut events) = (false, 0);
    for turn in 0.. {
        let size = sizes.get(turn % SIZES_LEN).map_or(1, |size| usize::from(*size) + 1);
        let (piece, later) = rest.split_at(size.min(rest.len()));
        rest = later;
        block.extend_from_slice(piece);
        let eof = rest.is_empty();
        let mut input = Input::all(&mut block, eof);
        loop {
            match connection.poll_event(&mut input, &mut scratch) {
                Ok(Some(event)) => {
                    assert!(!failed, "no event follows an error");
                    events += 1;
                    assert!(events < 3 * bytes.len() + 100, "events come out of bytes");
                    app(connection, &event);
                }
                Ok(None) if flush(connection) => {}
                Ok(None) => break,
                Err(_) => {
                    assert!(!failed, "one error ends it");
                    failed = true;
                }
            }
        }
        assert!(!failed || connection.io_state().finished, "an error finishes our side");
        let _ =
            (connection.io_state().phase, connection.io_state().wants_read, connection.vacancy());
        if eof || connection.io_state().closed {
            return;
        }
        if connection.io_state().wants_read {
            let bound = HEAD_SIZE_MAX.max(TRAILERS_SIZE_MAX) + 256;
            assert!(block.len() <= bound, "{} bytes are left unread", block.len());
        }
    }
}

/// Sends all that is queued; false if that was nothing.
fn flush<C: Connection>(connection: &mut C) -> bool {
    let size = connection.poll_transmit().map_or(0, |transmit| {
        let segments: u64 = transmit.segments.iter().map(Segment::len).sum();
        transmit.inline.len() as u64 + segments
    });
    connection.handle_sent(size);
    size > 0
}

const SIZES_LEN: usize = 4;
const PROFILES: [Leniency; 3] =
    [Leniency::strict(), Leniency::lenient(), Leniency::lenient().with(Leniency::HTTP_09)];
