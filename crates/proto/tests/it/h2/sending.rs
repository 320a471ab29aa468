//! What is sent and in which order: priorities (RFC 9218), turns, frames of heads and bodies.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use fulmar_proto::h2::H2;
use fulmar_proto::{
    BodyLen, Client, Connection, FileRange, HeaderBuf, Headers, Request, Response, Segment, Server,
    StreamId, UsageError,
};

use super::wire::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PRIORITY_UPDATE, RST_STREAM, RawPeer,
    WHOLE, block, data, frame, get_frame, host, post_frame, request, settings, window_update,
};

/// A server with a closed window, whose streams have these priorities.
fn prioritized(priorities: &[&str]) -> RawPeer<Server> {
    let mut peer = RawPeer::server();
    peer.feed([settings(&[(4, 0)]), window_update(0, 1 << 20)].concat());
    for (n, priority) in priorities.iter().enumerate() {
        let fields: &[(&str, &[u8])] = &[("priority", priority.as_bytes())];
        let fields = if priority.is_empty() { &[] } else { fields };
        peer.feed(frame(HEADERS, WHOLE, stream(n), request("GET", "/", fields)));
    }
    peer
}

fn stream(n: usize) -> u32 {
    u32::try_from(n).expect("few") * 2 + 1
}

/// Queues a body on each stream, opens the windows, and returns the streams of the DATA frames in
/// order, without repetition.
fn turns(peer: &mut RawPeer<Server>, count: usize, size: usize) -> Vec<u32> {
    for n in 0..count {
        let id = StreamId(stream(n));
        let len = BodyLen::Exact(size as u64);
        peer.connection.send_head(id, Response::new(200, Headers::EMPTY), len).expect("valid");
        let body = Segment::Bytes(vec![b'x'; size].into());
        peer.connection.send_data(id, body).expect("valid");
        peer.connection.send_end(id, Headers::EMPTY).expect("valid");
    }
    peer.flush();
    peer.feed(settings(&[(4, 1 << 20)]));
    let data = peer.frames.iter().filter(|frame| frame.kind == DATA);
    let mut order: Vec<u32> = data.map(|frame| frame.stream).collect();
    order.dedup();
    order
}

#[test]
fn urgent_responses_come_first() {
    let mut peer = prioritized(&["u=5", "", "u=1", "u=7", "u=0"]);
    assert_eq!(turns(&mut peer, 5, 100_000), [9, 5, 3, 1, 7]);
}

#[test]
fn incremental_responses_take_turns_others_do_not() {
    let mut peer = prioritized(&["i", "i", "i"]);
    assert_eq!(turns(&mut peer, 3, 100_000), [1, 3, 5, 1, 3, 5]);
    let mut peer = prioritized(&["u=3", "u=3", "u=3"]);
    assert_eq!(turns(&mut peer, 3, 100_000), [1, 3, 5]);
    let mut peer = prioritized(&["", "", ""]);
    assert_eq!(turns(&mut peer, 3, 150_000), [1, 3, 5, 1, 3, 5, 1, 3, 5]);
}

#[test]
fn a_priority_can_be_updated() {
    let mut peer = prioritized(&["u=5", "u=5", "u=5"]);
    peer.feed(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=2"));
    peer.feed(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6"));
    peer.feed(frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x09u=6")); // idle
    assert_eq!(turns(&mut peer, 3, 1_000), [5, 3, 1]);
    assert_eq!(peer.errors(), "");
}

#[test]
fn a_later_urgent_response_overtakes_what_is_not_framed() {
    let lead = [settings(&[(4, 1 << 24)]), window_update(0, 1 << 24), get_frame(WHOLE, 1)];
    let mut peer = RawPeer::server();
    peer.feed(lead.concat());
    let long = Segment::Bytes(vec![b'x'; 2_000_000].into());
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(StreamId(1), head, BodyLen::Exact(2_000_000)).expect("valid");
    peer.connection.send_data(StreamId(1), long).expect("valid");
    let first = peer.connection.poll_transmit().expect("a part").len();
    assert!(first < 300_000, "{first} bytes cannot be overtaken");
    assert_eq!(peer.connection.poll_transmit().expect("the same").len(), first);
    let urgent = frame(HEADERS, WHOLE, 3, request("GET", "/", &[("priority", b"u=0")]));
    peer.feed_with(urgent, |server, event| {
        if matches!(event, fulmar_proto::Event::Head { .. }) {
            super::wire::respond(server, StreamId(3), b"urgent");
        }
    });
    let at = |stream| peer.frames.iter().rposition(|it| it.kind == DATA && it.stream == stream);
    assert!(at(3) < at(1));
    assert_eq!(peer.body_size(1), 2_000_000);
}

#[test]
fn a_head_and_a_short_body_are_one_piece() {
    let mut peer = RawPeer::server();
    peer.feed([get_frame(WHOLE, 1), get_frame(WHOLE, 3)].concat());
    for id in [1, 3] {
        super::wire::respond(&mut peer.connection, StreamId(id), b"hello");
    }
    let transmit = peer.connection.poll_transmit().expect("two responses");
    assert!(transmit.as_inline().is_some());
    peer.flush();
    let kinds: Vec<_> = peer.frames.iter().map(|it| (it.kind, it.flags, it.stream)).collect();
    let head = |id| (HEADERS, END_HEADERS, id);
    let body = |id| (DATA, END_STREAM, id);
    assert_eq!(kinds, [head(1), head(3), body(1), body(3)]);
}

#[test]
fn files_are_sent_between_frame_headers() {
    let file = std::fs::File::open("/dev/null").expect("a file");
    let file = Arc::new(OwnedFd::from(file));
    let mut peer = RawPeer::server();
    peer.feed(get_frame(WHOLE, 1));
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(StreamId(1), head, BodyLen::Exact(40_000)).expect("valid");
    let range = FileRange { file, offset: 7, len: 40_000 };
    peer.connection.send_data(StreamId(1), range.into()).expect("valid");
    peer.connection.send_end(StreamId(1), Headers::EMPTY).expect("valid");
    let transmit = peer.connection.poll_transmit().expect("a response");
    let ranges: Vec<_> = transmit
        .segments
        .iter()
        .filter_map(|segment| match segment {
            Segment::File(range) => Some((range.offset, range.len)),
            _ => None,
        })
        .collect();
    assert_eq!(ranges, [(7, 16_384), (16_391, 16_384), (32_775, 7_232)]);
    peer.flush();
    assert_eq!(peer.body_size(1), 40_000);
    assert_eq!(peer.connection.open_streams(), 0);
}

#[test]
fn every_cut_of_what_was_sent_leaves_the_rest() {
    let mut peer = RawPeer::server();
    peer.feed([settings(&[(4, 1 << 20)]), window_update(0, 1 << 20), get_frame(WHOLE, 1)].concat());
    peer.frames.clear();
    let body: Vec<u8> = (0..150_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(StreamId(1), head, BodyLen::Unknown).expect("valid");
    peer.connection.send_data(StreamId(1), Segment::Bytes(body.clone().into())).expect("valid");
    peer.connection.send_end(StreamId(1), Headers::EMPTY).expect("valid");
    let mut client = RawPeer::client(1);
    for size in (1..).step_by(977) {
        let Some(transmit) = peer.connection.poll_transmit() else { break };
        let mut bytes = transmit.inline.to_vec();
        for segment in transmit.segments {
            let Segment::Bytes(piece) = segment else { panic!("bytes were queued") };
            bytes.extend_from_slice(piece);
        }
        bytes.truncate(size);
        peer.connection.handle_sent(bytes.len() as u64);
        client.feed(bytes);
    }
    let events = client.merged();
    assert_eq!(events.len(), 3);
    assert_eq!(events[1], format!("1 data {}", body.escape_ascii()));
}

#[test]
fn trailers_follow_the_body() {
    let mut trailers = HeaderBuf::new();
    trailers.push("X-Sum", b"7").expect("valid");
    for body in [&b"body"[..], b""] {
        let mut peer = RawPeer::server();
        peer.feed(get_frame(WHOLE, 1));
        let id = StreamId(1);
        let head = Response::new(200, Headers::EMPTY);
        peer.connection.send_head(id, head, BodyLen::Unknown).expect("valid");
        peer.connection.send_data(id, Segment::from(body)).expect("valid");
        peer.connection.send_end(id, trailers.as_headers()).expect("valid");
        peer.flush();
        let last = peer.frames.last().expect("trailers");
        assert_eq!((last.kind, last.flags), (HEADERS, WHOLE));
        assert!(peer.frames.iter().all(|it| it.kind != DATA || it.flags == 0));
        assert_eq!(peer.body_size(1), body.len());
        let mut client = RawPeer::client(1);
        for it in &peer.frames {
            client.feed(frame(it.kind, it.flags, it.stream, &it.payload));
        }
        assert_eq!(client.events.last().map(String::as_str), Some("1 end x-sum: 7"));
    }
}

#[test]
fn bodies_of_head_204_and_304_are_counted_and_not_sent() {
    for (method, status, len) in [
        ("HEAD", 200, BodyLen::Exact(5)),
        ("HEAD", 200, BodyLen::Unknown),
        ("GET", 204, BodyLen::Exact(5)),
        ("GET", 304, BodyLen::Exact(5)),
        ("GET", 200, BodyLen::Empty),
    ] {
        let mut peer = RawPeer::server();
        peer.feed(frame(HEADERS, WHOLE, 1, request(method, "/", &[])));
        let id = StreamId(1);
        let connection = &mut peer.connection;
        connection.send_head(id, Response::new(status, Headers::EMPTY), len).expect("valid");
        if len == BodyLen::Exact(5) {
            connection.send_data(id, Segment::from(&b"hello"[..])).expect("counted");
            let more = connection.send_data(id, Segment::from(&b"!"[..]));
            assert_eq!(more, Err(UsageError::BodyLongerThanDeclared));
        }
        connection.send_end(id, Headers::EMPTY).expect("valid");
        peer.flush();
        let sent: Vec<_> = peer.frames.iter().map(|it| (it.kind, it.flags)).collect();
        assert_eq!(sent, [(HEADERS, WHOLE)], "{method} {status}");
        assert_eq!(peer.connection.open_streams(), 0);
    }
}

#[test]
fn misuse_leaves_the_state_unchanged() {
    let mut peer = RawPeer::server();
    peer.feed(post_frame(1));
    let server = &mut peer.connection;
    let (id, body) = (StreamId(1), || Segment::from(&b"abc"[..]));
    let bad: [(&str, &[u8]); 1] = [("x", b"a\r\nb")];
    let head = |status| Response::new(status, Headers::EMPTY);
    assert_eq!(server.send_data(id, body()), Err(UsageError::NoSuchStream));
    assert_eq!(server.send_end(id, Headers::EMPTY), Err(UsageError::NoSuchStream));
    for wrong in [head(99), head(101), head(1_000), Response { added: &bad, ..head(200) }] {
        assert_eq!(server.send_head(id, wrong, BodyLen::Exact(3)), Err(UsageError::BadHead));
    }
    assert_eq!(
        server.send_head(StreamId(9), head(200), BodyLen::Empty),
        Err(UsageError::NoSuchStream)
    );
    assert!(server.poll_transmit().is_none_or(|transmit| transmit.is_empty()));
    server.send_head(id, head(200), BodyLen::Exact(3)).expect("valid");
    assert_eq!(
        server.send_head(id, head(200), BodyLen::Exact(3)),
        Err(UsageError::HeadAlreadySent)
    );
    let long = Segment::from(&b"abcd"[..]);
    assert_eq!(server.send_data(id, long), Err(UsageError::BodyLongerThanDeclared));
    assert_eq!(server.send_end(id, Headers::EMPTY), Err(UsageError::BodyShorterThanDeclared));
    server.send_data(id, body()).expect("valid");
    let mut trailers = HeaderBuf::new();
    trailers.push("Content-Length", b"1").expect("a field");
    let _ = server.send_end(id, trailers.as_headers());
    let _ = server.send_end(id, Headers::EMPTY);
    assert_eq!(server.send_end(id, Headers::EMPTY), Err(UsageError::NoSuchStream));
    assert_eq!(server.send_data(id, body()), Err(UsageError::NoSuchStream));
    peer.flush();
    assert_eq!((peer.body_size(1), peer.count(RST_STREAM)), (3, 0));
}

#[test]
fn requests_that_cannot_be_sent_are_refused() {
    let mut client = H2::<Client>::default();
    let id = client.open().expect("a stream");
    let headers = host();
    let with = |method: &'static [u8], target: &'static [u8]| {
        Request::new(method, target, headers.as_headers())
    };
    for (method, target) in [
        (&b"G T"[..], &b"/"[..]),
        (b"GET", b"/a b"),
        (b"GET", b"/\r\n"),
        (b"GET", b"x"),
        (b"", b"/"),
    ] {
        let sent = client.send_head(id, with(method, target), BodyLen::Empty);
        assert_eq!(sent, Err(UsageError::BadHead), "{target:?}");
    }
    let websocket = Request { protocol: Some(b"websocket"), ..with(b"GET", b"/") };
    assert_eq!(client.send_head(id, websocket, BodyLen::Empty), Err(UsageError::BadHead));
    assert_eq!(client.open_streams(), 1);
    client.send_head(id, with(b"GET", b"/"), BodyLen::Empty).expect("valid");
}

/// The head that a server receives of a request, or why it is not sent.
fn sent_as(method: &str, target: &str) -> Result<String, UsageError> {
    let headers = host();
    let mut peer = RawPeer::client(0);
    let id = peer.connection.open().expect("a stream");
    let request = Request::new(method.as_bytes(), target.as_bytes(), headers.as_headers());
    peer.connection.send_head(id, request, BodyLen::Empty)?;
    peer.flush();
    let mut server = RawPeer::server();
    server.feed(frame(HEADERS, WHOLE, 1, &peer.frames[0].payload));
    assert_eq!(server.errors(), "");
    let head = server.events[0].strip_prefix("1 head ").expect("a head");
    Ok(head.strip_suffix(" Empty").expect("without a body").to_owned())
}

#[test]
fn targets_in_absolute_form_are_split() {
    let rows = [
        ("GET", "http://b:80/x?y", "GET /x?y [host: b:80]"),
        ("GET", "http://b", "GET / [host: b]"),
        ("OPTIONS", "http://b/", "OPTIONS / [host: b]"),
        ("OPTIONS", "http://b", "OPTIONS * [host: b]"),
        ("OPTIONS", "*", "OPTIONS * [host: a]"),
        ("OPTIONS", "/x", "OPTIONS /x [host: a]"),
        ("CONNECT", "b:80", "CONNECT b:80 [host: b:80]"),
    ];
    for (method, target, expected) in rows {
        assert_eq!(sent_as(method, target).as_deref(), Ok(expected), "{method} {target}");
    }
    for (method, target) in [
        ("GET", "*"),
        ("GET", "http://"),
        ("GET", "http://b?y"),
        ("GET", "http://user@b/"),
        ("GET", "http://b c/"),
        ("CONNECT", "b"),
        ("CONNECT", "/"),
    ] {
        assert_eq!(sent_as(method, target), Err(UsageError::BadHead), "{method} {target}");
    }
}

#[test]
fn extended_connect_needs_the_setting_of_the_server() {
    let headers = host();
    let request = Request {
        protocol: Some(b"websocket"),
        ..Request::new(b"CONNECT", b"/chat", headers.as_headers())
    };
    for (settings_of_server, expected) in [
        (None, Err(UsageError::NoExtendedConnect)),
        (Some(settings(&[])), Err(UsageError::NoExtendedConnect)),
        (Some(settings(&[(8, 0)])), Err(UsageError::NoExtendedConnect)),
        (Some(settings(&[(8, 1)])), Ok(())),
    ] {
        let mut peer = RawPeer::new(H2::<Client>::default());
        peer.feed(settings_of_server.unwrap_or_default());
        let id = peer.connection.open().expect("a stream");
        assert_eq!(peer.connection.send_head(id, request, BodyLen::Empty), expected);
        peer.flush();
        assert_eq!(peer.count(HEADERS), usize::from(expected.is_ok()));
    }
}

/// A head closes the streams below it that have none, and its server would report an error for
/// theirs (RFC 9113 §5.1.1).
#[test]
fn heads_have_the_order_in_which_streams_are_opened() {
    let headers = host();
    let request = Request::new(b"GET", b"/", headers.as_headers());
    let mut peer = RawPeer::client(0);
    let client = &mut peer.connection;
    let [a, b, c] = [(); 3].map(|()| client.open().expect("a stream"));
    let late = client.send_head(c, request, BodyLen::Empty);
    assert_eq!(late, Err(UsageError::HeadOutOfOrder));
    client.send_head(a, request, BodyLen::Empty).expect("the first one");
    let late = client.send_head(c, request, BodyLen::Empty);
    assert_eq!(late, Err(UsageError::HeadOutOfOrder));
    client.cut_off(b);
    client.send_head(c, request, BodyLen::Empty).expect("nothing is before it");
    peer.flush();
    let heads: Vec<u32> = peer.frames.iter().map(|frame| frame.stream).collect();
    assert_eq!(heads[heads.len() - 2..], [a.0, c.0]);
}

#[test]
fn long_header_blocks_continue_in_other_frames() {
    let mut headers = host();
    let value: Vec<u8> = (0..30_000u32).map(|n| b'a' + n.to_le_bytes()[0] % 26).collect();
    headers.push("x", &value).expect("valid");
    let mut peer = RawPeer::client(0);
    let id = peer.connection.open().expect("a stream");
    let request = Request::new(b"POST", b"/", headers.as_headers());
    peer.connection.send_head(id, request, BodyLen::Unknown).expect("valid");
    peer.flush();
    let kinds: Vec<_> = peer.frames.iter().map(|it| (it.kind, it.flags)).collect();
    assert_eq!(kinds, [(HEADERS, 0), (CONTINUATION, END_HEADERS)]);
    assert!(peer.frames.iter().all(|it| it.payload.len() <= 16_384));
    let mut server = RawPeer::server();
    for it in &peer.frames {
        server.feed(frame(it.kind, it.flags, it.stream, &it.payload));
    }
    assert_eq!((server.errors().as_str(), server.events.len()), ("", 1));
}

#[test]
fn names_are_sent_in_lower_case_without_those_of_the_connection() {
    let mut headers = host();
    for (name, value) in [("X-Upper", &b"1"[..]), ("TE", b"trailers"), ("Upgrade", b"h2c")] {
        headers.push(name, value).expect("valid");
    }
    let added: [(&str, &[u8]); 3] =
        [("Keep-Alive", b"5"), ("Connection", b"x"), ("Transfer-Encoding", b"chunked")];
    let mut peer = RawPeer::client(0);
    let id = peer.connection.open().expect("a stream");
    let request = Request { added: &added, ..Request::new(b"GET", b"/", headers.as_headers()) };
    peer.connection.send_head(id, request, BodyLen::Empty).expect("valid");
    peer.flush();
    let mut server = RawPeer::server();
    server.feed(frame(HEADERS, WHOLE, 1, &peer.frames[0].payload));
    let expected = "1 head GET / [host: a, x-upper: 1, te: trailers] Empty";
    assert_eq!((server.events[0].as_str(), server.errors().as_str()), (expected, ""));
}

#[test]
fn a_tunnel_carries_bytes_and_both_ends() {
    let connect = block(&[(":method", b"CONNECT"), (":authority", b"a:80")]);
    let mut peer = RawPeer::server();
    peer.feed([frame(HEADERS, END_HEADERS, 1, &connect), data(0, 1, b"early")].concat());
    assert_eq!(peer.events, ["1 head CONNECT a:80 [host: a:80] Empty", "1 end "]);
    let id = StreamId(1);
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(id, head, BodyLen::Empty).expect("valid");
    peer.feed([]);
    assert_eq!(peer.events[2..], ["1 upgraded", "1 data early"]);
    peer.connection.send_data(id, Segment::from(&b"reply"[..])).expect("valid");
    peer.feed(data(END_STREAM, 1, b"late"));
    assert_eq!(peer.events[4..], ["1 data late", "1 end "]);
    peer.connection.send_end(id, Headers::EMPTY).expect("valid");
    peer.flush();
    assert_eq!((peer.body_size(1), peer.connection.open_streams()), (5, 0));
    // The end of the client's direction can come before the response, while the stream is held.
    let mut peer = RawPeer::server();
    peer.feed([frame(HEADERS, END_HEADERS, 1, &connect), data(0, 1, b"early")].concat());
    peer.connection.set_held(id, true);
    peer.feed(data(END_STREAM, 1, []));
    peer.connection.set_held(id, false);
    peer.feed([]);
    assert_eq!(peer.events[1..], ["1 end "]);
    peer.connection.send_head(id, head, BodyLen::Empty).expect("valid");
    peer.feed([]);
    assert_eq!(peer.events[2..], ["1 upgraded", "1 data early", "1 end "]);
    // The request can be the end of one direction.
    let mut peer = RawPeer::server();
    peer.feed(frame(HEADERS, WHOLE, 1, &connect));
    peer.connection.send_head(id, head, BodyLen::Empty).expect("valid");
    peer.feed([]);
    assert_eq!(peer.events[1..], ["1 end ", "1 upgraded", "1 end "]);
}

#[test]
fn a_client_has_a_tunnel_after_2xx() {
    let mut peer = RawPeer::client(0);
    let id = peer.request("CONNECT", BodyLen::Empty);
    peer.feed(frame(HEADERS, END_HEADERS, 1, block(&[(":status", b"200")])));
    assert_eq!(peer.events, ["1 head 200 [] Empty", "1 upgraded"]);
    peer.connection.send_data(id, Segment::from(&b"x"[..])).expect("valid");
    peer.connection.send_end(id, Headers::EMPTY).expect("valid");
    peer.feed([data(0, 1, b"y"), data(END_STREAM, 1, b"z")].concat());
    assert_eq!(peer.merged()[2..], ["1 data yz", "1 end "]);
    assert_eq!((peer.errors().as_str(), peer.connection.open_streams()), ("", 0));
    let mut peer = RawPeer::client(0);
    peer.request("CONNECT", BodyLen::Empty);
    let refusal = frame(HEADERS, END_HEADERS, 1, block(&[(":status", b"403")]));
    peer.feed([refusal, data(END_STREAM, 1, b"no")].concat());
    assert_eq!(peer.events, ["1 head 403 [] Unknown", "1 data no", "1 end "]);
    assert_eq!(
        (peer.errors().as_str(), peer.connection.open_streams()),
        ("RST_STREAM 1 CANCEL", 0)
    );
}

#[test]
fn a_response_that_refuses_a_tunnel_may_have_trailers() {
    let trailers = || frame(HEADERS, END_HEADERS | END_STREAM, 1, block(&[("x-end", b"y")]));
    for (status, last) in [(b"403", "1 end x-end: y"), (b"200", "1 reset 1")] {
        let mut peer = RawPeer::client(0);
        peer.request("CONNECT", BodyLen::Empty);
        let head = frame(HEADERS, END_HEADERS, 1, block(&[(":status", &status[..])]));
        peer.feed([head, data(0, 1, b"no"), trailers()].concat());
        assert_eq!(peer.events.last().map(String::as_str), Some(last), "{:?}", peer.events);
    }
}

/// It was kept as if it had a complete response.
#[test]
fn a_reset_ends_a_tunnel_whose_other_half_is_closed() {
    for held in [false, true] {
        let mut peer = RawPeer::client(0);
        let id = peer.request("CONNECT", BodyLen::Empty);
        peer.feed(frame(HEADERS, END_HEADERS, 1, block(&[(":status", b"200")])));
        peer.connection.set_held(id, held);
        peer.feed(data(END_STREAM, 1, b"z"));
        peer.feed(super::wire::reset(1, fulmar_proto::h2::ErrorCode::Cancel));
        assert_eq!(peer.events.last().map(String::as_str), Some("1 reset 8"));
        assert_eq!((peer.connection.open_streams(), peer.errors().as_str()), (0, ""));
    }
}
