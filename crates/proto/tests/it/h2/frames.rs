//! The rules of frames and streams (RFC 9113 §3.4 to §6.10), in the order of h2spec's chapters.
//!
//! A row has the frames of a peer and the errors that they cause. Each row is received in one piece
//! and byte by byte.

use fulmar_proto::h2::{ErrorCode, H2, PREFACE};
use fulmar_proto::{Client, Connection, Server};

use super::wire::{
    ACK, CONTINUATION, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PRIORITY,
    PRIORITY_UPDATE, PUSH_PROMISE, RST_STREAM, RawPeer, RecordedSide, SETTINGS, WHOLE,
    WINDOW_UPDATE, WITH_PRIORITY, block, data, frame, get, get_frame, post_frame, preface, request,
    reset, settings, window_update,
};

/// A name, the frames, and the errors.
type FrameRow = (&'static str, Vec<u8>, &'static str);

/// Receives each row behind `lead`, whole and byte by byte.
fn check<S: RecordedSide>(new: impl Fn() -> RawPeer<S>, rows: &[FrameRow]) {
    for (name, bytes, expected) in rows {
        let mut whole = new();
        whole.feed(bytes);
        assert_eq!(whole.errors(), *expected, "{name}");
        for size in [1, 7] {
            let mut pieces = new();
            pieces.feed_pieces(bytes, size);
            assert_eq!(pieces.errors(), *expected, "{name}, in pieces of {size}");
            assert_eq!(pieces.merged(), whole.merged(), "{name}, in pieces of {size}");
        }
        let is_failed = expected.starts_with("GOAWAY") && !expected.ends_with("NO_ERROR");
        assert_eq!(whole.error.is_some(), is_failed, "{name}");
        assert_eq!(whole.connection.io_state().finished, is_failed, "{name}");
    }
}

/// A server without a stream.
fn fresh() -> RawPeer<Server> {
    RawPeer::server()
}

/// The body of stream 1 is expected.
fn open() -> RawPeer<Server> {
    after(&post_frame(1))
}

/// The request of stream 1 is complete, its response is not.
fn half_closed() -> RawPeer<Server> {
    after(&get_frame(WHOLE, 1))
}

/// Stream 1 has ended by its messages.
fn closed() -> RawPeer<Server> {
    let mut peer = half_closed();
    peer.respond(1, b"");
    peer.frames.clear();
    peer
}

/// The client has reset stream 1.
fn reset_by_client() -> RawPeer<Server> {
    after(&[post_frame(1), reset(1, ErrorCode::Cancel)].concat())
}

/// The server has reset stream 1.
fn reset_by_server() -> RawPeer<Server> {
    let mut peer = open();
    peer.connection.cut_off(fulmar_proto::StreamId(1));
    peer.flush();
    peer.frames.clear();
    peer
}

fn after(lead: &[u8]) -> RawPeer<Server> {
    let mut peer = RawPeer::server();
    peer.feed(lead);
    assert_eq!(peer.errors(), "");
    peer
}

const PROTOCOL: &str = "GOAWAY PROTOCOL_ERROR";
const SIZE: &str = "GOAWAY FRAME_SIZE_ERROR";
const FLOW: &str = "GOAWAY FLOW_CONTROL_ERROR";
const COMPRESSION: &str = "GOAWAY COMPRESSION_ERROR";
const CLOSED: &str = "GOAWAY STREAM_CLOSED";
const STREAM_PROTOCOL: &str = "RST_STREAM 1 PROTOCOL_ERROR";
const STREAM_CLOSED: &str = "RST_STREAM 1 STREAM_CLOSED";
const STREAM_FLOW: &str = "RST_STREAM 1 FLOW_CONTROL_ERROR";

#[test]
fn a_connection_begins_with_its_preface() {
    let mut second_line = preface();
    second_line[20] = b'x';
    let new = || {
        let mut peer = RawPeer::new(H2::<Server>::default());
        peer.flush();
        peer.frames.clear();
        peer
    };
    check(
        new,
        &[
            ("valid", preface(), ""),
            ("HTTP/1", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), PROTOCOL),
            ("another word", second_line, PROTOCOL),
            ("no SETTINGS", [&PREFACE[..], &get_frame(WHOLE, 1)].concat(), PROTOCOL),
            ("SETTINGS of a stream", [&PREFACE[..], &frame(SETTINGS, 0, 1, [])].concat(), PROTOCOL),
            ("an acknowledgement", [&PREFACE[..], &frame(SETTINGS, ACK, 0, [])].concat(), PROTOCOL),
        ],
    );
    let mut client = RawPeer::new(H2::<Client>::default());
    client.feed(frame(PING, 0, 0, [0; 8]));
    assert!(client.errors().contains(PROTOCOL), "a server begins with SETTINGS");
}

#[test]
fn unknown_frames_flags_and_reserved_bits_are_ignored() {
    let mut reserved = get_frame(WHOLE, 1);
    reserved[5] |= 0x80;
    check(
        fresh,
        &[
            ("type 22", frame(22, 0xff, 0, b"anything"), ""),
            ("type 22 of a stream", frame(22, 0, 9, b"anything"), ""),
            ("flags of PING", frame(PING, 0xfe, 0, [1; 8]), ""),
            ("flags of SETTINGS", frame(SETTINGS, 0xfe, 0, []), ""),
            ("flags of HEADERS", get_frame(WHOLE | 0xd2, 1), ""),
            ("reserved bit", reserved, ""),
            ("reserved bit of an increment", frame(WINDOW_UPDATE, 0, 0, [0x80, 0, 0, 1]), ""),
            ("unknown setting", settings(&[(0xff, 9)]), ""),
        ],
    );
    check(
        open,
        &[
            ("flags of DATA", data(0xf6, 1, b"x"), ""),
            ("unknown code of GOAWAY", frame(GOAWAY, 0, 0, [0, 0, 0, 0, 0, 0, 0, 0xff]), ""),
            ("unknown code of RST_STREAM", frame(RST_STREAM, 0, 1, [0, 0, 0, 0xff]), ""),
        ],
    );
}

#[test]
fn frames_have_at_most_16384_bytes() {
    check(
        open,
        &[
            ("DATA of the limit", data(0, 1, [b'x'; 16_384]), ""),
            ("DATA over the limit", data(0, 1, [b'x'; 16_385]), SIZE),
            ("HEADERS over the limit", frame(HEADERS, END_HEADERS, 3, [0; 16_385]), SIZE),
            ("unknown frame over the limit", frame(99, 0, 0, [0; 16_385]), SIZE),
        ],
    );
}

#[test]
fn header_blocks_are_contiguous() {
    let all = get(&[("x-y", b"z")]);
    let (first, rest) = all.split_at(7);
    let start = frame(HEADERS, END_STREAM, 1, first);
    let then = |more: &[u8]| [&start[..], more].concat();
    let last = frame(CONTINUATION, END_HEADERS, 1, rest);
    check(
        fresh,
        &[
            ("one CONTINUATION", then(&last), ""),
            (
                "empty ones between",
                then(&[frame(CONTINUATION, 0, 1, []), last.clone()].concat()),
                "",
            ),
            ("PRIORITY", then(&frame(PRIORITY, 0, 1, [0, 0, 0, 0, 1])), PROTOCOL),
            ("PING", then(&frame(PING, 0, 0, [0; 8])), PROTOCOL),
            ("an unknown frame", then(&frame(22, 0, 1, [])), PROTOCOL),
            ("DATA", then(&data(0, 1, [])), PROTOCOL),
            ("HEADERS of another stream", then(&get_frame(WHOLE, 3)), PROTOCOL),
            ("HEADERS of the same", then(&get_frame(WHOLE, 1)), PROTOCOL),
            ("CONTINUATION of another", then(&frame(CONTINUATION, 4, 3, rest)), PROTOCOL),
            ("CONTINUATION of none", then(&frame(CONTINUATION, 4, 0, rest)), PROTOCOL),
            ("after the last", then(&[last.clone(), last.clone()].concat()), PROTOCOL),
            ("alone", last.clone(), PROTOCOL),
            ("on stream 0", frame(CONTINUATION, END_HEADERS, 0, rest), PROTOCOL),
        ],
    );
    check(open, &[("behind DATA", [data(0, 1, []), last].concat(), PROTOCOL)]);
}

#[test]
fn idle_streams_accept_headers_and_priority_only() {
    check(
        fresh,
        &[
            ("HEADERS", get_frame(WHOLE, 1), ""),
            ("PRIORITY", frame(PRIORITY, 0, 1, [0, 0, 0, 0, 1]), ""),
            ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"), ""),
            ("DATA", data(0, 1, b"x"), PROTOCOL),
            ("empty DATA with END_STREAM", data(END_STREAM, 1, []), PROTOCOL),
            ("RST_STREAM", reset(1, ErrorCode::Cancel), PROTOCOL),
            ("WINDOW_UPDATE", window_update(1, 100), PROTOCOL),
            ("CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, []), PROTOCOL),
            ("PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2]), PROTOCOL),
        ],
    );
    // A client never opens a stream with an even id.
    check(
        open,
        &[
            ("DATA of an even stream", data(0, 2, b"x"), PROTOCOL),
            ("RST_STREAM of an even stream", reset(2, ErrorCode::Cancel), PROTOCOL),
            ("WINDOW_UPDATE of an even stream", window_update(2, 100), PROTOCOL),
            ("DATA of a later stream", data(0, 3, b"x"), PROTOCOL),
        ],
    );
}

#[test]
fn half_closed_and_closed_streams_accept_no_message() {
    check(
        half_closed,
        &[
            ("DATA", data(0, 1, b"x"), STREAM_CLOSED),
            ("empty DATA", data(END_STREAM, 1, []), STREAM_CLOSED),
            ("HEADERS", get_frame(WHOLE, 1), STREAM_CLOSED),
            ("CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, []), PROTOCOL),
            ("WINDOW_UPDATE", window_update(1, 1), ""),
            ("PRIORITY", frame(PRIORITY, 0, 1, [0, 0, 0, 0, 1]), ""),
            ("RST_STREAM", reset(1, ErrorCode::Cancel), ""),
        ],
    );
    let late: [FrameRow; 4] = [
        ("WINDOW_UPDATE", window_update(1, 1), ""),
        ("PRIORITY", frame(PRIORITY, 0, 1, [0, 0, 0, 0, 1]), ""),
        ("RST_STREAM", reset(1, ErrorCode::Cancel), ""),
        ("CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, []), PROTOCOL),
    ];
    for new in [closed, reset_by_client, reset_by_server] {
        check(new, &late);
    }
    for new in [closed, reset_by_client] {
        check(
            new,
            &[("DATA", data(0, 1, b"x"), STREAM_CLOSED), ("HEADERS", get_frame(WHOLE, 1), CLOSED)],
        );
    }
    let trailers = frame(HEADERS, WHOLE, 1, block(&[("x", b"y")]));
    check(
        reset_by_server,
        &[
            ("DATA of a stream that the server has reset", data(0, 1, b"x"), ""),
            ("its trailers", trailers, ""),
        ],
    );
}

#[test]
fn ids_of_streams_are_odd_and_grow() {
    check(
        fresh,
        &[
            ("even", get_frame(WHOLE, 2), PROTOCOL),
            ("0", get_frame(WHOLE, 0), PROTOCOL),
            ("gaps", [get_frame(WHOLE, 1), get_frame(WHOLE, 7)].concat(), ""),
            ("back", [get_frame(WHOLE, 5), get_frame(WHOLE, 3)].concat(), PROTOCOL),
            ("largest", get_frame(WHOLE, 0x7fff_ffff), ""),
        ],
    );
}

#[test]
fn a_stream_over_the_limit_is_refused() {
    let mut peer = fresh();
    for n in 0..128 {
        peer.feed(post_frame(n * 2 + 1));
    }
    assert_eq!((peer.errors().as_str(), peer.connection.open_streams()), ("", 128));
    peer.feed(post_frame(257));
    assert_eq!(peer.errors(), "RST_STREAM 257 REFUSED_STREAM");
    // Its body and trailers may be on their way.
    peer.feed([data(0, 257, b"x"), frame(HEADERS, WHOLE, 257, block(&[("x", b"y")]))].concat());
    assert_eq!((peer.events.len(), peer.error), (128, None));
}

#[test]
fn a_stream_cannot_depend_on_itself() {
    let with = |on: u32| [&on.to_be_bytes()[..], &[9], &get(&[])].concat();
    check(
        fresh,
        &[
            ("HEADERS", frame(HEADERS, WHOLE | WITH_PRIORITY, 1, with(3)), ""),
            ("exclusive", frame(HEADERS, WHOLE | WITH_PRIORITY, 1, with(0x8000_0003)), ""),
            ("HEADERS on itself", frame(HEADERS, WHOLE | WITH_PRIORITY, 1, with(1)), PROTOCOL),
            ("PRIORITY on itself", frame(PRIORITY, 0, 1, [0x80, 0, 0, 1, 1]), PROTOCOL),
            ("too short", frame(HEADERS, WHOLE | WITH_PRIORITY, 1, [0, 0, 0]), SIZE),
        ],
    );
}

#[test]
fn padding_is_shorter_than_its_frame() {
    let padded = |len: u8, rest: &[u8]| [&[len][..], rest].concat();
    let head = |len: u8, zeros: usize| {
        let payload = [&[len][..], &get(&[]), &vec![0; zeros]].concat();
        frame(HEADERS, WHOLE | PADDED, 1, payload)
    };
    check(
        open,
        &[
            ("DATA", data(PADDED, 1, padded(2, b"x\0\0")), ""),
            ("no bytes but padding", data(PADDED, 1, padded(3, &[0; 3])), ""),
            ("padding of 0", data(PADDED, 1, padded(0, b"x")), ""),
            ("as long as the frame", data(PADDED, 1, padded(4, &[0; 3])), PROTOCOL),
            ("longer", data(PADDED, 1, padded(9, &[0; 3])), PROTOCOL),
            ("no length", data(PADDED, 1, []), SIZE),
        ],
    );
    check(
        fresh,
        &[
            ("HEADERS", head(3, 3), ""),
            ("HEADERS, too long", frame(HEADERS, WHOLE | PADDED, 1, [9, 0, 0]), PROTOCOL),
            ("HEADERS without a length", frame(HEADERS, WHOLE | PADDED, 1, []), SIZE),
            ("HEADERS, padding is no field", head(2, 3), COMPRESSION),
        ],
    );
}

#[test]
fn frames_of_the_connection_and_of_streams_are_not_exchanged() {
    check(
        open,
        &[
            ("DATA", data(0, 0, b"x"), PROTOCOL),
            ("HEADERS", get_frame(WHOLE, 0), PROTOCOL),
            ("PRIORITY", frame(PRIORITY, 0, 0, [0; 5]), PROTOCOL),
            ("RST_STREAM", reset(0, ErrorCode::Cancel), PROTOCOL),
            ("SETTINGS", frame(SETTINGS, 0, 1, []), PROTOCOL),
            ("PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2]), PROTOCOL),
            ("PING", frame(PING, 0, 1, [0; 8]), PROTOCOL),
            ("GOAWAY", frame(GOAWAY, 0, 1, [0; 8]), PROTOCOL),
            ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 1, b"\0\0\0\x01u=1"), PROTOCOL),
            ("PRIORITY_UPDATE of stream 0", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\0u=1"), PROTOCOL),
        ],
    );
}

#[test]
fn frames_of_a_fixed_size_have_it() {
    let sizes = [
        (PRIORITY, 1, 5),
        (RST_STREAM, 1, 4),
        (PING, 0, 8),
        (WINDOW_UPDATE, 0, 4),
        (WINDOW_UPDATE, 1, 4),
    ];
    for (kind, stream, size) in sizes {
        for wrong in [0, size - 1, size + 1] {
            check(open, &[("wrong size", frame(kind, 0, stream, vec![7; wrong]), SIZE)]);
        }
    }
    check(
        open,
        &[
            ("SETTINGS", frame(SETTINGS, 0, 0, [0; 5]), SIZE),
            ("SETTINGS, acknowledged with a payload", frame(SETTINGS, ACK, 0, [0; 6]), SIZE),
            ("GOAWAY", frame(GOAWAY, 0, 0, [0; 7]), SIZE),
            ("GOAWAY with a text", frame(GOAWAY, 0, 0, [0; 20]), ""),
            ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, [0; 3]), SIZE),
        ],
    );
}

#[test]
fn settings_have_valid_values() {
    let one = |id, value| settings(&[(id, value)]);
    check(
        fresh,
        &[
            ("table of 0", one(1, 0), ""),
            ("largest table", one(1, u32::MAX), ""),
            ("push", [one(2, 0), one(2, 1)].concat(), ""),
            ("push 2", one(2, 2), PROTOCOL),
            ("streams", [one(3, 0), one(3, u32::MAX)].concat(), ""),
            ("windows", [one(4, 0), one(4, 0x7fff_ffff)].concat(), ""),
            ("window of 2^31", one(4, 0x8000_0000), FLOW),
            ("frames", [one(5, 16_384), one(5, 16_777_215)].concat(), ""),
            ("short frames", one(5, 16_383), PROTOCOL),
            ("long frames", one(5, 16_777_216), PROTOCOL),
            ("list", [one(6, 0), one(6, u32::MAX)].concat(), ""),
            ("CONNECT", [one(8, 0), one(8, 1)].concat(), ""),
            ("CONNECT 2", one(8, 2), PROTOCOL),
        ],
    );
    let mut client = RawPeer::client(0);
    client.feed(one(2, 1));
    assert_eq!(client.errors(), PROTOCOL, "a server cannot enable push");
}

#[test]
fn settings_and_pings_are_acknowledged_once() {
    let mut peer = fresh();
    let bytes = [settings(&[(4, 1)]), frame(PING, 0, 0, b"12345678"), frame(PING, 1, 0, [9; 8])];
    peer.feed(bytes.concat());
    peer.feed(frame(SETTINGS, ACK, 0, []));
    let sent: Vec<_> =
        peer.frames.iter().map(|it| (it.kind, it.flags, it.payload.as_slice())).collect();
    assert_eq!(sent, [(SETTINGS, ACK, &b""[..]), (PING, ACK, b"12345678")]);
}

#[test]
fn windows_have_31_bits() {
    const MAX: u32 = 0x7fff_ffff;
    check(
        half_closed,
        &[
            ("0 on the connection", window_update(0, 0), PROTOCOL),
            ("0 on a stream", window_update(1, 0), STREAM_PROTOCOL),
            (
                "largest",
                [window_update(0, MAX - 65_535), window_update(1, MAX - 65_535)].concat(),
                "",
            ),
            ("over, connection", window_update(0, MAX - 65_534), FLOW),
            ("over, stream", window_update(1, MAX - 65_534), STREAM_FLOW),
            (
                "twice",
                [window_update(1, MAX / 2), window_update(1, MAX / 2 + 1)].concat(),
                STREAM_FLOW,
            ),
            ("by SETTINGS", [window_update(1, MAX - 65_535), settings(&[(4, MAX)])].concat(), FLOW),
        ],
    );
}

#[test]
fn data_stay_within_the_windows() {
    let full = data(0, 1, [b'x'; 16_384]).repeat(3);
    let mut held = open();
    // Nothing is released.
    held.feed_with([full.clone(), data(0, 1, [b'x'; 16_383])].concat(), |_, _| ());
    assert_eq!(held.errors(), "");
    held.feed_with(data(0, 1, b"x"), |_, _| ());
    assert_eq!(held.errors(), STREAM_FLOW);
    let mut padded = open();
    padded.feed_with([full, data(PADDED, 1, [0; 16_384])].concat(), |_, _| ());
    assert_eq!(padded.errors(), STREAM_FLOW, "padding counts");
    let mut all = fresh();
    for stream in (1..=31).step_by(2) {
        let body = data(0, stream, [b'x'; 16_384]).repeat(3);
        let bytes = [post_frame(stream), body, data(0, stream, [b'x'; 16_383])];
        all.feed_with(bytes.concat(), |_, _| ());
    }
    assert_eq!(all.errors(), "", "16 windows but 16 bytes");
    all.feed_with([post_frame(33), data(0, 33, [b'x'; 17])].concat(), |_, _| ());
    assert_eq!(all.errors(), FLOW);
}

#[test]
fn header_blocks_that_cannot_be_decoded_end_the_connection() {
    let head = |block: &[u8]| frame(HEADERS, WHOLE, 1, [&get(&[])[..], block].concat());
    check(
        fresh,
        &[
            ("index 0", head(&[0x80]), COMPRESSION),
            ("index of no entry", head(&[0xbe]), COMPRESSION),
            ("name of no entry", head(&[0x7e, 1, b'x']), COMPRESSION),
            ("size update behind fields", head(&[0x20]), COMPRESSION),
            ("large size update", frame(HEADERS, WHOLE, 1, [0x3f, 0xe2, 0x1f]), COMPRESSION),
            (
                "long integer",
                head(&[0xff, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
                COMPRESSION,
            ),
            ("Huffman, padding of 8 bits", head(&[0, 1, b'x', 0x82, 0x1f, 0xff]), COMPRESSION),
            ("Huffman, padding of 0", head(&[0, 1, b'x', 0x81, 0x00]), COMPRESSION),
            ("Huffman, end of string", head(&[0, 1, b'x', 0x84, 255, 255, 255, 255]), COMPRESSION),
            ("cut", head(&[0, 1, b'x', 5, b'y']), COMPRESSION),
            ("trailers", [post_frame(1), frame(HEADERS, WHOLE, 1, [0x80])].concat(), COMPRESSION),
            (
                "behind the end",
                [get_frame(WHOLE, 1), frame(HEADERS, WHOLE, 1, [0x80])].concat(),
                COMPRESSION,
            ),
        ],
    );
    check(reset_by_server, &[("closed stream", frame(HEADERS, WHOLE, 1, [0x80]), COMPRESSION)]);
}

#[test]
fn trailers_end_a_message() {
    let fields = |flags, fields: &[(&str, &[u8])]| frame(HEADERS, flags, 1, block(fields));
    check(
        open,
        &[
            ("trailers", fields(WHOLE, &[("x", b"y")]), ""),
            ("none", fields(WHOLE, &[]), ""),
            ("without END_STREAM", fields(END_HEADERS, &[("x", b"y")]), STREAM_PROTOCOL),
            ("a second head", frame(HEADERS, WHOLE, 1, request("GET", "/", &[])), STREAM_PROTOCOL),
            ("framing", fields(WHOLE, &[("content-length", b"0")]), STREAM_PROTOCOL),
            ("host", fields(WHOLE, &[("host", b"b")]), STREAM_PROTOCOL),
        ],
    );
    let mut peer = open();
    peer.feed([data(0, 1, b"body"), fields(WHOLE, &[("x", b"y")])].concat());
    assert_eq!(peer.events[1..], ["1 data body", "1 end x: y"]);
}

#[test]
fn nothing_is_parsed_behind_an_error() {
    let mut peer = open();
    let ping = frame(PING, 0, 0, [0; 8]);
    peer.feed([frame(PING, 0, 1, [0; 8]), ping.clone(), get_frame(WHOLE, 3)].concat());
    peer.feed(ping);
    assert_eq!((peer.errors().as_str(), peer.count(PING), peer.events.len()), (PROTOCOL, 0, 1));
    let last = peer.frames.iter().find(|frame| frame.kind == GOAWAY).expect("it is sent");
    assert_eq!(last.payload[..4], [0, 0, 0, 1], "the last stream that was processed");
    peer.end();
    assert!(peer.connection.io_state().closed);
}
