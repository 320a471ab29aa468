//! The end of a connection and of its streams: GOAWAY, the end of the input, deadlines, phases.

use fulmar_proto::h2::{ErrorCode, H2};
use fulmar_proto::{
    BodyLen, Connection, Headers, PeerError, Phase, Reset, Response, Segment, Server, Side,
    StreamId,
};

use super::wire::{
    ACK, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RawPeer, WHOLE, WINDOW_UPDATE, WireFrame,
    block, data, frame, get_frame, post_frame, reset, settings, window_update,
};

fn server(bytes: &[u8]) -> RawPeer<Server> {
    let mut peer = RawPeer::server();
    peer.feed(bytes);
    peer
}

/// The last streams and codes of the sent GOAWAY frames.
fn goaways(frames: &[WireFrame]) -> Vec<(u32, u32)> {
    let last = |frame: &WireFrame| u32::from_be_bytes(frame.payload[..4].try_into().expect("4"));
    let of = frames.iter().filter(|frame| frame.kind == GOAWAY);
    of.map(|frame| (last(frame), frame.number())).collect()
}

fn goaway(last: u32, code: ErrorCode) -> Vec<u8> {
    frame(GOAWAY, 0, 0, [last.to_be_bytes(), code.code().to_be_bytes()].concat())
}

/// The acknowledgement of the last PING.
fn pong(peer: &RawPeer<Server>) -> Vec<u8> {
    let ping = peer.frames.iter().rfind(|frame| frame.kind == PING).expect("a PING was sent");
    assert_eq!(ping.flags, 0);
    frame(PING, ACK, 0, &ping.payload)
}

#[test]
fn a_server_ends_in_two_steps_and_loses_no_request() {
    let mut peer = server(&get_frame(WHOLE, 1));
    peer.connection.close_after();
    peer.flush();
    assert_eq!(goaways(&peer.frames), [(0x7fff_ffff, 0)]);
    let pong = pong(&peer);
    peer.feed([get_frame(WHOLE, 3), pong].concat());
    assert_eq!(goaways(&peer.frames)[1..], [(3, 0)]);
    // Behind the last one: ignored with all its frames.
    let late = [post_frame(5), data(0, 5, b"x"), window_update(5, 9), data(END_STREAM, 5, b"y")];
    peer.feed(late.concat());
    peer.feed([frame(HEADERS, WHOLE, 5, block(&[])), reset(5, ErrorCode::Cancel)].concat());
    assert_eq!((peer.error, peer.events.len()), (None, 4));
    assert!(!peer.connection.io_state().finished);
    peer.respond(1, b"one");
    peer.respond(3, b"two");
    assert_eq!((peer.body_size(1), peer.body_size(3)), (3, 3));
    assert!(peer.connection.io_state().finished && !peer.connection.io_state().closed);
    assert_eq!(peer.connection.io_state().phase, Phase::Linger);
    assert_eq!(goaways(&peer.frames).len(), 2);
    peer.end();
    assert!(peer.connection.io_state().closed);
}

#[test]
fn an_idle_server_ends_after_a_round_trip() {
    let mut peer = RawPeer::server();
    peer.connection.close_after();
    peer.flush();
    assert!(!peer.connection.io_state().finished);
    assert_eq!(peer.connection.io_state().phase, Phase::Linger);
    peer.feed(frame(PING, ACK, 0, b"another "));
    assert!(!peer.connection.io_state().finished, "another PING");
    let pong = pong(&peer);
    peer.feed(pong);
    assert!(peer.connection.io_state().finished);
    assert_eq!(goaways(&peer.frames), [(0x7fff_ffff, 0), (0, 0)]);
}

/// Without a limit, it could open one stream after the other for ever. Without a stream, the phase
/// has a deadline, which frames do not extend.
#[test]
fn a_peer_that_acknowledges_no_ping_opens_a_limited_number_of_streams() {
    let mut peer = RawPeer::server();
    peer.connection.close_after();
    peer.flush();
    let last = 2 * 128 + 1;
    for stream in (1..=last).step_by(2) {
        assert_eq!(goaways(&peer.frames), [(0x7fff_ffff, 0)]);
        assert_eq!(peer.connection.io_state().phase, Phase::Linger, "no stream is open");
        peer.feed(get_frame(WHOLE, stream));
        peer.respond(stream, b"ok");
        assert_eq!(peer.body_size(stream), 2);
    }
    assert_eq!(goaways(&peer.frames)[1..], [(last, 0)]);
    assert!(peer.connection.io_state().finished);
}

#[test]
fn a_second_call_changes_nothing() {
    let mut peer = server(&get_frame(WHOLE, 1));
    peer.connection.close_after();
    peer.connection.close_after();
    peer.flush();
    assert_eq!(goaways(&peer.frames), [(0x7fff_ffff, 0)]);
    let pong = pong(&peer);
    peer.feed(pong);
    assert_eq!(goaways(&peer.frames), [(0x7fff_ffff, 0), (1, 0)]);
    peer.connection.close_after();
    peer.respond(1, b"");
    assert_eq!(goaways(&peer.frames).len(), 2);
    assert!(peer.connection.io_state().finished);
}

#[test]
fn a_connection_that_has_not_begun_ends_at_once() {
    let mut peer = RawPeer::new(H2::<Server>::default());
    peer.connection.close_after();
    peer.flush();
    assert!(peer.connection.io_state().finished);
}

#[test]
fn close_among_the_fields_is_a_goaway() {
    let mut peer = server(&get_frame(WHOLE, 1));
    let added: [(&str, &[u8]); 1] = [("Connection", b"close")];
    let head = Response { added: &added, ..Response::new(204, Headers::EMPTY) };
    peer.connection.send_head(StreamId(1), head, BodyLen::Empty).expect("valid");
    peer.flush();
    assert_eq!(goaways(&peer.frames), [(0x7fff_ffff, 0)]);
}

#[test]
fn a_client_repeats_what_the_server_has_not_processed() {
    let mut peer = RawPeer::client(4);
    peer.feed(goaway(0x7fff_ffff, ErrorCode::NoError));
    assert_eq!((peer.connection.vacancy(), peer.connection.open_streams()), (0, 4));
    peer.feed(goaway(3, ErrorCode::NoError));
    assert_eq!(peer.events, ["7 reset 7", "5 reset 7"]);
    assert!(!peer.connection.io_state().finished);
    for stream in [1, 3] {
        peer.feed(frame(HEADERS, WHOLE, stream, block(&[(":status", b"204")])));
    }
    assert_eq!(peer.events.len(), 6);
    let io = peer.connection.io_state();
    assert!(io.closed && io.finished, "{io:?}");
    assert_eq!(peer.connection.open(), None);
}

#[test]
fn an_idle_client_ends_with_its_server() {
    let mut peer = RawPeer::client(0);
    peer.feed(goaway(0, ErrorCode::EnhanceYourCalm));
    assert!(peer.connection.io_state().closed);
    let mut peer = RawPeer::client(1);
    peer.connection.close_after();
    assert_eq!((peer.connection.vacancy(), peer.connection.io_state().finished), (0, false));
    peer.feed(frame(HEADERS, WHOLE, 1, block(&[(":status", b"204")])));
    assert!(peer.connection.io_state().closed);
}

#[test]
fn the_goaway_of_a_client_ends_the_connection_after_its_streams() {
    let mut peer = server(&[get_frame(WHOLE, 1), goaway(0, ErrorCode::NoError)].concat());
    assert!(peer.connection.expects_no_more_requests());
    peer.respond(1, b"ok");
    assert_eq!(peer.body_size(1), 2);
    assert!(peer.connection.io_state().finished);
}

#[test]
fn the_end_of_the_input_leaves_whole_requests() {
    let mut peer = server(&[get_frame(WHOLE, 1), post_frame(3), data(0, 3, b"half")].concat());
    peer.end();
    assert_eq!(peer.events.last().map(String::as_str), Some("3 reset 8"));
    assert_eq!(peer.connection.open_streams(), 1);
    peer.respond(1, b"whole");
    assert_eq!(peer.body_size(1), 5);
    assert!(peer.connection.io_state().closed);
    // In the middle of a frame, or of the preface.
    for bytes in [&b""[..], b"PRI * HT", &super::wire::preface()[..30]] {
        let mut peer = RawPeer::new(H2::<Server>::default());
        peer.feed(bytes);
        peer.end();
        assert!(peer.connection.io_state().closed, "{bytes:?}");
    }
}

#[test]
fn the_end_of_the_input_ends_requests_without_a_response() {
    let mut peer = RawPeer::client(2);
    peer.feed(frame(HEADERS, END_HEADERS, 1, block(&[(":status", b"200")])));
    peer.end();
    assert_eq!(peer.error, Some(PeerError::UnexpectedEof));
    assert!(peer.connection.io_state().closed);
    let mut peer = RawPeer::client(2);
    peer.feed(goaway(3, ErrorCode::InternalError));
    peer.end();
    assert_eq!(peer.error, Some(PeerError::Goaway(ErrorCode::InternalError)));
    // A whole response that is held is delivered all the same.
    for (frames, error) in [
        (Vec::new(), PeerError::UnexpectedEof),
        (goaway(3, ErrorCode::NoError), PeerError::Goaway(ErrorCode::NoError)),
    ] {
        let mut peer = RawPeer::client(2);
        peer.connection.set_held(StreamId(1), true);
        peer.feed([frame(HEADERS, WHOLE, 1, block(&[(":status", b"204")])), frames].concat());
        assert_eq!(peer.connection.eof_error(), None);
        peer.end();
        assert_eq!((peer.connection.eof_error(), peer.connection.vacancy()), (Some(error), 0));
        assert_eq!((peer.events.len(), peer.events[0].as_str()), (1, "3 reset 8"));
        peer.connection.set_held(StreamId(1), false);
        peer.end();
        assert_eq!(peer.events[1..], ["1 head 204 [] Empty", "1 end "]);
        assert!(peer.error.is_none() && peer.connection.io_state().closed);
    }
    let mut idle = RawPeer::client(0);
    idle.end();
    assert!(idle.error.is_none() && idle.connection.io_state().closed);
}

#[test]
fn a_late_peer_is_sent_away() {
    let mut peer = server(&post_frame(1));
    assert!(peer.connection.handle_late());
    peer.flush();
    assert_eq!(goaways(&peer.frames), [(1, 0)]);
    assert_eq!(peer.connection.open_streams(), 0);
    peer.feed(get_frame(WHOLE, 3));
    assert_eq!(peer.events.len(), 1);
    assert!(!peer.connection.handle_late(), "nothing is changed twice");
    assert!(!RawPeer::client(1).connection.handle_late());
}

/// True if a sweep resets streams.
fn sweeps<S: Side>(connection: &mut H2<S>, now: u64, span: u64) -> bool {
    let before = connection.open_streams();
    connection.sweep(now, span, false);
    connection.open_streams() < before
}

#[test]
fn a_sweep_resets_streams_that_do_not_move() {
    let lead = [settings(&[(4, 4)]), post_frame(1), post_frame(3), get_frame(WHOLE, 5)];
    let mut peer = server(&lead.concat());
    let head = Response::new(200, Headers::EMPTY);
    let get = StreamId(5);
    peer.connection.send_head(get, head, BodyLen::Unknown).expect("valid");
    peer.connection.send_data(get, Segment::from(&b"123456789"[..])).expect("valid");
    peer.feed(get_frame(WHOLE, 7)); // the application has to respond
    assert!(!sweeps(&mut peer.connection, 10, 10), "all have moved");
    assert!(!sweeps(&mut peer.connection, 19, 10), "within the span");
    // PING and padding move nothing; stream 3 moves.
    peer.feed([frame(PING, 0, 0, [0; 8]), data(0, 1, []), data(0, 3, b"x")].concat());
    assert!(sweeps(&mut peer.connection, 20, 10));
    peer.feed([]);
    assert_eq!(peer.errors(), "RST_STREAM 1 CANCEL, RST_STREAM 5 CANCEL");
    assert_eq!(peer.events[7..], ["1 reset 8", "5 reset 8"], "{:?}", peer.events);
    assert!(sweeps(&mut peer.connection, 30, 10));
    peer.feed([]);
    assert!(!sweeps(&mut peer.connection, 40, 10));
    assert_eq!((peer.connection.open_streams(), peer.events.len()), (1, 10));
}

#[test]
fn a_sweep_leaves_streams_whose_turn_is_not_the_peers() {
    let connect = block(&[(":method", b"CONNECT"), (":authority", b"a:80")]);
    let expect = super::wire::request("POST", "/", &[("expect", b"100-continue")]);
    let lead = [
        frame(HEADERS, END_HEADERS, 1, &connect),
        frame(HEADERS, END_HEADERS, 3, &connect),
        frame(HEADERS, END_HEADERS, 5, expect),
        post_frame(7),
        post_frame(9),
    ];
    let mut peer = server(&lead.concat());
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(StreamId(3), head, BodyLen::Unknown).expect("valid");
    peer.connection.set_held(StreamId(7), true);
    let full = [data(0, 9, [b'x'; 16_384]).repeat(3), data(0, 9, [b'x'; 16_383])].concat();
    peer.feed_with(full, |_, _| ());
    for now in 1..5 {
        assert!(!sweeps(&mut peer.connection, now * 10, 10));
    }
    let mut client = RawPeer::client(0);
    let upload = client.request("POST", BodyLen::Unknown);
    assert!(!sweeps(&mut client.connection, 10, 10) && !sweeps(&mut client.connection, 20, 10));
    client.connection.send_end(upload, Headers::EMPTY).expect("valid");
    client.flush();
    assert!(!sweeps(&mut client.connection, 30, 10));
    assert!(sweeps(&mut client.connection, 40, 10), "the response is due");
}

/// The rest of a request is drained, whether the application held it before its response or not.
#[test]
fn a_sweep_resets_held_streams_after_their_response() {
    let mut peer = server(&post_frame(1));
    peer.connection.set_held(StreamId(1), true);
    for now in 1..4 {
        assert!(!sweeps(&mut peer.connection, now * 10, 10), "the application has to respond");
    }
    peer.respond(1, b"early");
    assert_eq!(peer.connection.open_streams(), 1);
    assert!(!sweeps(&mut peer.connection, 40, 10));
    assert!(sweeps(&mut peer.connection, 50, 10));
}

/// Bytes of a held request that arrive behind the response are dropped, so it never ends.
#[test]
fn a_held_request_does_not_end_without_its_dropped_bytes() {
    let trailers = frame(HEADERS, WHOLE, 1, block(&[("x-sum", b"1")]));
    let rests = [data(END_STREAM, 1, b"dropped"), [data(0, 1, b"dropped"), trailers].concat()];
    for rest in rests {
        let mut peer = server(&[settings(&[(4, 0)]), post_frame(1)].concat());
        peer.connection.set_held(StreamId(1), true);
        peer.respond(1, b"early"); // waits for the window
        peer.feed(rest);
        peer.connection.set_held(StreamId(1), false);
        peer.feed([]);
        assert_eq!(peer.events.len(), 1, "the head: {:?}", peer.events);
        assert_eq!((peer.errors().as_str(), peer.body_size(1)), ("", 0));
        peer.feed(window_update(1, 5));
        assert_eq!((peer.body_size(1), peer.connection.open_streams()), (5, 0));
    }
}

/// The connection's window is smaller than those of its streams together: what held streams have
/// used of it, others cannot send.
#[test]
fn a_sweep_leaves_streams_that_wait_for_held_ones() {
    let mut peer = RawPeer::server();
    for n in 0..17 {
        peer.feed(post_frame(2 * n + 1));
    }
    for n in 0..16 {
        let stream = 2 * n + 1;
        peer.connection.set_held(StreamId(stream), true);
        peer.feed(
            [data(0, stream, [b'x'; 16_384]).repeat(3), data(0, stream, [b'x'; 16_383])].concat(),
        );
    }
    peer.feed(data(0, 33, [b'x'; 16]));
    assert_eq!((peer.errors().as_str(), peer.count(WINDOW_UPDATE)), ("", 0));
    assert_eq!(peer.connection.io_state().phase, Phase::Application);
    for now in 1..4 {
        assert!(!sweeps(&mut peer.connection, now * 10, 10));
    }
    peer.connection.set_held(StreamId(1), false);
    peer.feed([]);
    peer.connection.set_held(StreamId(3), false);
    peer.feed([]);
    let held: Vec<u32> = (2..16).map(|n| 2 * n + 1).collect();
    held.iter().for_each(|stream| peer.connection.set_held(StreamId(*stream), false));
    peer.feed([]);
    assert!(peer.increments(0) >= 1 << 19, "half of the window or more is returned");
    assert_eq!(peer.connection.io_state().phase, Phase::Body);
    assert!(!sweeps(&mut peer.connection, 40, 10), "the client can send only now");
    assert!(sweeps(&mut peer.connection, 50, 10));
}

#[test]
fn a_sweep_resets_tunnels_that_do_not_move() {
    let connect = block(&[(":method", b"CONNECT"), (":authority", b"a:80")]);
    let mut peer = RawPeer::server();
    for stream in [1, 3] {
        peer.feed(frame(HEADERS, END_HEADERS, stream, &connect));
        let head = Response::new(200, Headers::EMPTY);
        peer.connection.send_head(StreamId(stream), head, BodyLen::Unknown).expect("valid");
    }
    peer.flush();
    assert!(!sweeps(&mut peer.connection, 10, 10), "both have moved");
    peer.feed(data(0, 3, b"x"));
    assert!(sweeps(&mut peer.connection, 20, 10));
    peer.feed(data(0, 3, b"x"));
    assert_eq!(peer.errors(), "RST_STREAM 1 CANCEL");
    assert!(!sweeps(&mut peer.connection, 30, 10), "it has moved");
    peer.feed(post_frame(5));
    peer.connection.set_held(StreamId(5), true);
    assert!(!sweeps(&mut peer.connection, 40, 10), "the span is not that of tunnels");
}

#[test]
fn a_stalled_window_of_the_connection_stalls_its_streams() {
    let lead = [settings(&[(4, 1 << 20)]), get_frame(WHOLE, 1), get_frame(WHOLE, 3)];
    let mut peer = server(&lead.concat());
    for stream in [1, 3] {
        let head = Response::new(200, Headers::EMPTY);
        peer.connection.send_head(StreamId(stream), head, BodyLen::Unknown).expect("valid");
        let body = Segment::Bytes(vec![b'x'; 100_000].into());
        peer.connection.send_data(StreamId(stream), body).expect("valid");
    }
    peer.flush();
    assert!(!sweeps(&mut peer.connection, 10, 10));
    assert!(sweeps(&mut peer.connection, 20, 10));
    assert_eq!(peer.connection.open_streams(), 0);
}

#[test]
fn control_frames_do_not_change_the_phase() {
    let mut peer = RawPeer::server();
    assert_eq!(peer.connection.io_state().phase, Phase::Idle);
    peer.feed_with(frame(PING, 0, 0, [0; 8]), |_, _| ());
    let mut quiet = RawPeer::server();
    let mut arrived = bytes::BytesMut::from(&frame(PING, 0, 0, [0; 8])[..]);
    let mut input = fulmar_proto::Input::all(&mut arrived, false);
    let mut scratch = fulmar_proto::Scratch::default();
    assert!(quiet.connection.poll_event(&mut input, &mut scratch).expect("valid").is_none());
    let io = quiet.connection.io_state();
    assert_eq!((io.phase, io.wants_write), (Phase::Idle, true));
    quiet.connection.poll_transmit().expect("an acknowledgement");
    assert_eq!(quiet.connection.io_state().phase, Phase::Idle);
    peer.feed(frame(HEADERS, END_STREAM, 1, super::wire::get(&[])));
    assert_eq!(peer.connection.io_state().phase, Phase::Head, "CONTINUATION is missing");
    let mut new = H2::<Server>::default();
    assert_eq!(new.io_state().phase, Phase::Head, "the preface is missing");
    new.close_after();
}

#[test]
fn phases_follow_the_streams() {
    let mut peer = server(&post_frame(1));
    assert_eq!(peer.connection.io_state().phase, Phase::Body);
    peer.feed_with(data(END_STREAM, 1, b"x"), |_, _| ());
    assert_eq!(peer.connection.io_state().phase, Phase::Application);
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(StreamId(1), head, BodyLen::Unknown).expect("valid");
    assert_eq!(peer.connection.io_state().phase, Phase::Send);
    peer.flush();
    assert_eq!(peer.connection.io_state().phase, Phase::Application);
    peer.connection.reset(StreamId(1), Reset::Internal);
    peer.flush();
    assert_eq!(peer.connection.io_state().phase, Phase::Idle);
    let connect = block(&[(":method", b"CONNECT"), (":authority", b"a:80")]);
    peer.feed(frame(HEADERS, END_HEADERS, 3, connect));
    assert_eq!(peer.connection.io_state().phase, Phase::Application);
    peer.connection.send_head(StreamId(3), head, BodyLen::Unknown).expect("valid");
    peer.flush();
    assert_eq!(peer.connection.io_state().phase, Phase::Tunnel);
    let mut client = RawPeer::client(1);
    assert_eq!(client.connection.io_state().phase, Phase::Response);
    client.feed(frame(HEADERS, WHOLE, 1, block(&[(":status", b"204")])));
    assert_eq!(client.connection.io_state().phase, Phase::Idle);
    client.request("POST", BodyLen::Unknown);
    assert_eq!(client.connection.io_state().phase, Phase::Application);
}
