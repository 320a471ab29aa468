//! Responses, as a client receives them (RFC 9113 §8.1, §8.3.2).

use fulmar_proto::{BodyLen, Client, Connection, Headers, Segment, StreamId};

use super::wire::{
    END_HEADERS, END_STREAM, HEADERS, PUSH_PROMISE, RawPeer, WHOLE, block, data, frame,
};

/// Names and values in order.
type FieldTexts<'a> = Vec<(&'a str, &'a [u8])>;

const MALFORMED: &str = "RST_STREAM 1 PROTOCOL_ERROR";

/// Sends a request, and receives frames, whole and byte by byte.
fn receive(method: &str, bytes: &[u8]) -> (String, String) {
    let run = |size: usize| {
        let mut peer: RawPeer<Client> = RawPeer::client(0);
        peer.request(method, BodyLen::Empty);
        peer.frames.clear();
        peer.feed_pieces(bytes, size);
        (peer.merged().join("; "), peer.errors())
    };
    let whole = run(bytes.len());
    assert_eq!(run(1), whole, "byte by byte");
    whole
}

fn head(flags: u8, fields: &[(&str, &[u8])]) -> Vec<u8> {
    frame(HEADERS, flags, 1, block(fields))
}

fn status(flags: u8, status: &str) -> Vec<u8> {
    head(flags, &[(":status", status.as_bytes())])
}

#[test]
fn a_status_has_three_digits() {
    for value in ["", "20", "2000", "0200", "abc", "2 0", "+20", "-10", "099", "000", "20a"] {
        let (events, errors) = receive("GET", &status(WHOLE, value));
        assert_eq!((events.as_str(), errors.as_str()), ("1 reset 1", MALFORMED), "{value}");
    }
    for value in ["200", "599", "999"] {
        let (events, errors) = receive("GET", &status(WHOLE, value));
        let expected = format!("1 head {value} [] Empty; 1 end ");
        assert_eq!((events, errors.as_str()), (expected, ""));
    }
}

#[test]
fn malformed_responses_are_reset() {
    let ok: (&str, &[u8]) = (":status", b"200");
    let rows: [(&str, FieldTexts<'_>); 14] = [
        ("no status", vec![("x", b"y")]),
        ("two", vec![ok, ok]),
        ("late", vec![("x", b"y"), ok]),
        ("of a request", vec![ok, (":path", b"/")]),
        ("method", vec![(":method", b"GET"), ok]),
        ("unknown", vec![ok, (":reason", b"OK")]),
        ("upper case", vec![ok, ("X", b"y")]),
        ("line end", vec![ok, ("x", b"y\r\nz: 1")]),
        ("NUL", vec![ok, ("x", b"\0")]),
        ("connection", vec![ok, ("connection", b"close")]),
        ("transfer-encoding", vec![ok, ("transfer-encoding", b"chunked")]),
        ("upgrade", vec![ok, ("upgrade", b"h2c")]),
        ("lengths", vec![ok, ("content-length", b"1"), ("content-length", b"2")]),
        ("length", vec![ok, ("content-length", b"1, 1")]),
    ];
    for (name, fields) in rows {
        for flags in [WHOLE, END_HEADERS] {
            let (events, errors) = receive("GET", &head(flags, &fields));
            assert_eq!((events.as_str(), errors.as_str()), ("1 reset 1", MALFORMED), "{name}");
        }
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let all = [status(END_HEADERS, "103"), status(END_HEADERS, "100"), status(WHOLE, "204")];
    let (events, errors) = receive("GET", &all.concat());
    let expected = "1 informational 103; 1 informational 100; 1 head 204 [] Empty; 1 end ";
    assert_eq!((events.as_str(), errors.as_str()), (expected, ""));
    for bad in [
        status(END_HEADERS, "101"),
        status(WHOLE, "103"),
        [status(END_HEADERS, "103"), data(END_STREAM, 1, b"x")].concat(),
    ] {
        assert_eq!(receive("GET", &bad).1, MALFORMED);
    }
    let late = [status(END_HEADERS, "200"), status(END_HEADERS, "103")].concat();
    assert_eq!(receive("GET", &late).1, MALFORMED, "behind the final one");
    let many = status(END_HEADERS, "103").repeat(16);
    assert_eq!(receive("GET", &many).1, "");
    let many = status(END_HEADERS, "103").repeat(17);
    assert_eq!(receive("GET", &many).1, "RST_STREAM 1 ENHANCE_YOUR_CALM");
}

#[test]
fn some_responses_have_no_body() {
    let length =
        |status: &[u8], flags: u8| head(flags, &[(":status", status), ("content-length", b"5")]);
    let rows = [
        ("HEAD", length(b"200", WHOLE), ""),
        ("HEAD", [length(b"200", END_HEADERS), data(END_STREAM, 1, b"")].concat(), ""),
        ("HEAD", [length(b"200", END_HEADERS), data(END_STREAM, 1, b"12345")].concat(), MALFORMED),
        ("GET", length(b"304", WHOLE), ""),
        ("GET", [length(b"304", END_HEADERS), data(END_STREAM, 1, b"12345")].concat(), MALFORMED),
        ("GET", [status(END_HEADERS, "204"), data(END_STREAM, 1, b"1")].concat(), MALFORMED),
        ("GET", length(b"200", WHOLE), MALFORMED),
        ("GET", [length(b"200", END_HEADERS), data(END_STREAM, 1, b"12345")].concat(), ""),
        ("GET", [length(b"200", END_HEADERS), data(END_STREAM, 1, b"1234")].concat(), MALFORMED),
        ("GET", [length(b"200", END_HEADERS), data(0, 1, b"123456")].concat(), MALFORMED),
    ];
    for (method, bytes, expected) in rows {
        let (events, errors) = receive(method, &bytes);
        assert_eq!(errors, expected, "{method}: {events}");
    }
}

#[test]
fn frames_of_a_server_concern_opened_streams() {
    const PROTOCOL: &str = "GOAWAY PROTOCOL_ERROR";
    let rows = [
        ("a stream that was not opened", frame(HEADERS, WHOLE, 3, block(&[(":status", b"200")]))),
        ("an even stream", frame(HEADERS, WHOLE, 2, block(&[(":status", b"200")]))),
        ("DATA of no stream", data(0, 3, b"x")),
        ("a push", frame(PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2])),
        ("a priority", frame(super::wire::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")),
    ];
    for (name, bytes) in rows {
        assert_eq!(receive("GET", &bytes).1, PROTOCOL, "{name}");
    }
    assert_eq!(receive("GET", &data(0, 1, b"x")).1, MALFORMED, "DATA before the head");
    // Opened here only.
    let mut peer = RawPeer::client(0);
    let stream = peer.connection.open().expect("a stream");
    peer.feed(frame(HEADERS, WHOLE, stream.0, block(&[(":status", b"200")])));
    assert_eq!((peer.errors().as_str(), peer.events.len()), (PROTOCOL, 0));
}

#[test]
fn a_stream_without_a_request_is_reset_in_silence() {
    let mut peer = RawPeer::client(0);
    let stream = peer.connection.open().expect("a stream");
    peer.connection.cut_off(stream);
    peer.flush();
    assert_eq!((peer.frames.len(), peer.connection.open_streams()), (0, 0));
    let next = peer.request("GET", BodyLen::Empty);
    assert_eq!(next, StreamId(3), "ids are not used again");
}

#[test]
fn an_early_response_ends_the_request() {
    let mut peer = RawPeer::client(0);
    let stream = peer.request("POST", BodyLen::Exact(10));
    peer.connection.send_data(stream, Segment::from(&b"12345"[..])).expect("valid");
    peer.feed([status(END_HEADERS, "413"), data(END_STREAM, 1, b"no")].concat());
    assert_eq!(peer.events, ["1 head 413 [] Unknown", "1 data no", "1 end "]);
    assert_eq!(peer.errors(), "RST_STREAM 1 CANCEL");
    assert!(peer.connection.send_end(stream, Headers::EMPTY).is_err());
}

#[test]
fn a_whole_response_survives_what_follows_it() {
    for eof in [false, true] {
        let mut peer = RawPeer::client(0);
        let stream = peer.request("POST", BodyLen::Exact(10));
        let response = [status(END_HEADERS, "200"), data(END_STREAM, 1, b"body")].concat();
        peer.feed_with(response, |client, event| client.set_held(event.stream(), true));
        assert_eq!(peer.events, ["1 head 200 [] Unknown"]);
        match eof {
            false => peer.feed(super::wire::reset(1, fulmar_proto::h2::ErrorCode::NoError)),
            true => peer.end(),
        }
        assert_eq!((peer.error, peer.connection.room(stream)), (None, u64::from(eof) * 245_760));
        peer.connection.set_held(stream, false);
        peer.feed([]);
        assert_eq!(peer.events[1..], ["1 data body", "1 end "]);
        assert_eq!(peer.connection.open_streams(), 0);
        assert_eq!(peer.connection.io_state().closed, eof);
    }
}

#[test]
fn heads_wait_while_their_stream_is_held() {
    let frames = [
        status(END_HEADERS, "100"),
        head(END_HEADERS, &[(":status", b"103"), ("link", b"a")]),
        head(END_HEADERS, &[(":status", b"200"), ("x", b"y")]),
        data(0, 1, b"bo"),
        data(0, 1, b"dy"),
        head(WHOLE, &[("sum", b"7")]),
    ];
    let expected = [
        "1 informational 100",
        "1 informational 103",
        "1 head 200 [x: y] Unknown",
        "1 data body",
        "1 end sum: 7",
    ];
    // Held from any frame on, or again from any event on.
    for from in 0..frames.len() {
        for again in 0..expected.len() {
            let mut peer = RawPeer::client(1);
            let id = StreamId(1);
            peer.feed(frames[..from].concat());
            let before = peer.events.len();
            peer.connection.set_held(id, true);
            peer.feed(frames[from..].concat());
            assert_eq!(peer.events.len(), before, "while it is held");
            peer.connection.set_held(id, false);
            let mut left = again;
            peer.feed_with([], |client, _| {
                if left == 0 {
                    client.set_held(id, true);
                }
                left = left.wrapping_sub(1);
            });
            peer.connection.set_held(id, false);
            peer.feed([]);
            assert_eq!(peer.merged()[..3], expected[..3]);
            assert_eq!(peer.merged()[3..], expected[3..], "from {from}, again {again}");
            assert_eq!((peer.errors().as_str(), peer.connection.open_streams()), ("", 0));
        }
    }
}

#[test]
fn a_tunnel_begins_when_its_held_head_is_delivered() {
    let mut peer = RawPeer::client(0);
    let id = peer.request("CONNECT", BodyLen::Empty);
    peer.connection.set_held(id, true);
    peer.feed([status(END_HEADERS, "200"), data(END_STREAM, 1, b"x")].concat());
    assert!(peer.events.is_empty(), "{:?}", peer.events);
    peer.connection.set_held(id, false);
    peer.feed([]);
    assert_eq!(peer.events, ["1 head 200 [] Empty", "1 upgraded", "1 data x", "1 end "]);
}
