//! Flow control (RFC 9113 §5.2, §6.9): what is credited, what is held, and that nothing hangs.

use fulmar_proto::h2::{ErrorCode, H2, Http2Limits};
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Reset, Response, Segment, Server, StreamId,
};
use proptest::prelude::*;

use super::wire::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, RawPeer, SETTINGS, WHOLE, block, data, frame,
    get_frame, post_frame, reset, respond, settings, window_update,
};

/// The size of a connection's window on a server.
const WINDOW: u64 = 1 << 20;
const STREAM_WINDOW: usize = 65_535;

fn server_with(bytes: &[u8]) -> RawPeer<Server> {
    let mut peer = RawPeer::server();
    peer.feed(bytes);
    peer
}

/// Queues the head of a response, and a body that is not the last.
fn begin(peer: &mut RawPeer<Server>, stream: u32, body: Vec<u8>) {
    let id = StreamId(stream);
    let head = Response::new(200, Headers::EMPTY);
    peer.connection.send_head(id, head, BodyLen::Unknown).expect("valid");
    peer.connection.send_data(id, Segment::Bytes(body.into())).expect("valid");
    peer.flush();
}

#[test]
fn responses_stay_within_both_windows() {
    let small = [settings(&[(4, 10)]), get_frame(WHOLE, 1), get_frame(WHOLE, 3)].concat();
    let mut peer = server_with(&small);
    begin(&mut peer, 1, vec![b'x'; 30]);
    begin(&mut peer, 3, vec![b'x'; 30]);
    assert_eq!((peer.body_size(1), peer.body_size(3)), (10, 10));
    peer.feed(window_update(1, 5));
    assert_eq!((peer.body_size(1), peer.body_size(3)), (15, 10));
    peer.feed(settings(&[(4, 12)]));
    assert_eq!((peer.body_size(1), peer.body_size(3)), (17, 12));
    let mut peer = server_with(&[settings(&[(4, 1 << 20)]), get_frame(WHOLE, 1)].concat());
    begin(&mut peer, 1, vec![b'x'; 100_000]);
    assert_eq!(peer.body_size(1), STREAM_WINDOW, "the window of the connection");
    peer.feed(window_update(0, 1_000));
    assert_eq!(peer.body_size(1), STREAM_WINDOW + 1_000);
    peer.feed(window_update(0, 100_000));
    assert_eq!(peer.body_size(1), 100_000);
}

#[test]
fn a_window_can_be_negative() {
    let mut peer = server_with(&[settings(&[(4, 100)]), get_frame(WHOLE, 1)].concat());
    begin(&mut peer, 1, vec![b'x'; 300]);
    peer.feed(settings(&[(4, 40)])); // -60
    peer.feed(window_update(1, 60));
    assert_eq!(peer.body_size(1), 100);
    peer.feed(window_update(1, 1));
    assert_eq!(peer.body_size(1), 101);
    peer.feed(settings(&[(4, 0)])); // -40
    peer.feed(settings(&[(4, 50)])); // 10
    assert_eq!(peer.body_size(1), 111);
    assert_eq!(peer.errors(), "");
}

#[test]
fn an_end_needs_no_window() {
    let mut peer = server_with(&[settings(&[(4, 0)]), get_frame(WHOLE, 1)].concat());
    begin(&mut peer, 1, Vec::new());
    peer.connection.send_end(StreamId(1), Headers::EMPTY).expect("valid");
    peer.flush();
    assert_eq!(peer.connection.open_streams(), 0);
    let last = peer.frames.last().expect("it is sent");
    assert_eq!((last.kind, last.flags, last.payload.len()), (DATA, END_STREAM, 0));
}

#[test]
fn released_bytes_are_credited_by_halves_of_the_window() {
    let mut peer = server_with(&post_frame(1));
    for _ in 0..100 {
        peer.feed(data(0, 1, [b'x'; 16_000]));
    }
    assert_eq!(peer.errors(), "");
    let (stream, all) = (peer.increments(1), peer.increments(0));
    assert!((1_600_000 - STREAM_WINDOW as u64 / 2..=1_600_000).contains(&stream), "{stream}");
    assert!((1_600_000 - WINDOW / 2..=1_600_000).contains(&all), "{all}");
}

#[test]
fn nothing_is_credited_before_its_release() {
    let mut peer = server_with(&post_frame(1));
    let body = data(0, 1, [b'x'; 16_000]).repeat(4);
    peer.feed_with(body, |_, _| ());
    assert_eq!((peer.increments(1), peer.increments(0)), (0, 0));
    peer.connection.release(StreamId(1), 64_000);
    peer.flush();
    assert_eq!(peer.increments(1), 64_000);
    peer.connection.release(StreamId(1), 64_000);
    peer.flush();
    assert_eq!(peer.increments(1), 64_000, "no more than has arrived");
}

#[test]
fn no_stream_is_credited_behind_its_end() {
    let mut peer = server_with(&post_frame(1));
    let body = [data(0, 1, [b'x'; 16_000]).repeat(3), data(END_STREAM, 1, [b'x'; 16_000])].concat();
    peer.feed_with(body, |_, _| ());
    peer.connection.release(StreamId(1), 64_000);
    peer.flush();
    assert_eq!(peer.increments(1), 0);
}

/// Sixteen windows of streams are the window of a client's connection. If they are held, other
/// streams receive all the same, and each holds no more than its window.
#[test]
fn held_streams_of_a_client_leave_the_connection_open() {
    const STREAM: usize = 1 << 20;
    let mut peer = RawPeer::client(17);
    for id in (0..17).map(|n| 2 * n + 1) {
        peer.feed(frame(HEADERS, END_HEADERS, id, block(&[(":status", b"200")])));
        if id < 33 {
            peer.connection.set_held(StreamId(id), true);
        }
    }
    let piece = vec![b'x'; STREAM / 64];
    for id in (0..16).map(|n| 2 * n + 1) {
        (0..64).for_each(|_| peer.feed(data(0, id, &piece)));
        assert_eq!(peer.increments(id), 0);
    }
    (0..640).for_each(|_| peer.feed(data(0, 33, &piece)));
    assert_eq!(peer.errors(), "");
    assert!(peer.increments(33) >= 9 * STREAM as u64);
    // Held bytes are not credited to the connection a second time, whatever becomes of them.
    peer.connection.reset(StreamId(1), Reset::Cancelled);
    peer.connection.set_held(StreamId(3), false);
    peer.feed([]);
    let (arrived, credited) = (26 * STREAM as u64, peer.increments(0));
    assert!((arrived - (8 << 20)..=arrived).contains(&credited), "{credited}");
    assert!(peer.increments(3) >= STREAM as u64 / 2);
    peer.feed(data(0, 1, b"x"));
    peer.feed(data(0, 5, b"x"));
    assert_eq!(peer.errors(), "RST_STREAM 1 CANCEL, RST_STREAM 5 FLOW_CONTROL_ERROR");
}

/// Receives more until the connection is credited: then with every byte that has arrived.
fn assert_no_leak(mut peer: RawPeer<Server>, mut arrived: u64, name: &str) {
    assert_eq!((peer.connection.open_streams(), peer.error), (0, None), "{name}");
    let before = peer.increments(0);
    peer.feed(post_frame(20_001));
    while peer.increments(0) == before {
        peer.feed(data(0, 20_001, [b'x'; 1_000]));
        arrived += 1_000;
        assert!(!peer.errors().contains("GOAWAY"), "{name}");
    }
    assert_eq!(peer.increments(0), arrived, "{name}");
}

#[test]
fn closed_streams_return_their_bytes() {
    const ROUNDS: u32 = 60;
    type Ending = (&'static str, fn(&mut RawPeer<Server>, u32));
    let endings: [Ending; 7] = [
        ("reset by the client", |peer, id| peer.feed_with(reset(id, ErrorCode::Cancel), |_, _| ())),
        ("reset by the server", |peer, id| peer.connection.reset(StreamId(id), Reset::Internal)),
        ("held, then reset", |peer, id| {
            peer.connection.set_held(StreamId(id), true);
            peer.feed_with(data(0, id, [b'x'; 100]), |_, _| ());
            peer.connection.reset(StreamId(id), Reset::Cancelled);
        }),
        ("answered early", |peer, id| {
            peer.respond(id, b"no");
            peer.feed_with(data(END_STREAM, id, [b'x'; 100]), |_, _| ());
        }),
        ("malformed", |peer, id| {
            peer.feed_with(frame(HEADERS, WHOLE, id, block(&[("X", b"y")])), |_, _| ());
        }),
        ("late data", |peer, id| {
            peer.connection.reset(StreamId(id), Reset::Internal);
            peer.feed_with(data(PADDED, id, [20; 100]), |_, _| ());
        }),
        ("too much data", |peer, id| {
            peer.feed_with(data(0, id, [b'x'; 16_384]).repeat(4), |_, _| ());
        }),
    ];
    for (name, end) in endings {
        let mut peer = RawPeer::server();
        let mut arrived = 0;
        for n in 0..ROUNDS {
            let id = n * 2 + 1;
            // 48,000 bytes, and 300 of which 201 are padding and its length.
            let body =
                [data(0, id, [b'x'; 16_000]).repeat(3), data(PADDED, id, padding())].concat();
            peer.feed_with([post_frame(id), body].concat(), |_, _| ());
            peer.connection.release(StreamId(id), 1_000);
            end(&mut peer, id);
            peer.flush();
            arrived += 48_300
                + match name {
                    "held, then reset" | "answered early" | "late data" => 100,
                    "too much data" => 65_536,
                    _ => 0,
                };
        }
        assert_no_leak(peer, arrived, name);
    }
}

/// 300 bytes, of which 201 are padding and its length.
fn padding() -> [u8; 300] {
    let mut payload = [0; 300];
    payload[0] = 200;
    payload
}

#[test]
fn a_held_stream_keeps_its_parts_in_order() {
    let mut peer = server_with(&[post_frame(1), post_frame(3)].concat());
    peer.connection.set_held(StreamId(1), true);
    let trailers = frame(HEADERS, WHOLE, 1, block(&[("x", b"y")]));
    let parts = [data(0, 1, b"ab"), data(END_STREAM, 3, b"other"), data(0, 1, b"cd"), trailers];
    peer.feed(parts.concat());
    assert_eq!(peer.events[2..], ["3 data other", "3 end "]);
    assert!(!peer.connection.has_event());
    peer.connection.set_held(StreamId(1), false);
    assert!(peer.connection.has_event());
    peer.feed([]);
    assert_eq!(peer.merged()[4..], ["1 data abcd", "1 end x: y"]);
}

#[test]
fn an_end_waits_while_its_stream_is_held() {
    for (body, count) in [(data(END_STREAM, 1, b"x"), 2), (data(END_STREAM, 1, b""), 1)] {
        let mut peer = RawPeer::server();
        let hold = |server: &mut H2<Server>, event: &Event<'_, Server>| {
            server.set_held(event.stream(), true);
        };
        peer.feed_with(post_frame(1), |_, _| ());
        if count == 1 {
            peer.connection.set_held(StreamId(1), true);
        }
        peer.feed_with(body, hold);
        assert_eq!(peer.events.len(), count, "{:?}", peer.events);
        peer.connection.set_held(StreamId(1), false);
        peer.feed([]);
        assert_eq!(peer.events.last().map(String::as_str), Some("1 end "));
    }
    let mut peer = RawPeer::server();
    peer.feed_with(get_frame(WHOLE, 1), |server, event| server.set_held(event.stream(), true));
    assert_eq!(peer.events.len(), 1, "the end of a request without a body");
    peer.connection.set_held(StreamId(1), false);
    peer.feed([]);
    assert_eq!(peer.events[1], "1 end ");
}

#[test]
fn a_reset_reaches_a_held_stream() {
    let mut peer = server_with(&post_frame(1));
    peer.connection.set_held(StreamId(1), true);
    peer.feed([data(0, 1, b"parked"), reset(1, ErrorCode::Cancel)].concat());
    assert_eq!(peer.events[1..], ["1 reset 8"]);
}

#[test]
fn a_full_stream_has_room_again_once_it_moves() {
    let mut peer = server_with(&[settings(&[(4, 0)]), get_frame(WHOLE, 1)].concat());
    begin(&mut peer, 1, vec![b'x'; 1]);
    let id = StreamId(1);
    assert_eq!(peer.connection.room(id), 240 * 1024 - 1);
    while peer.connection.room(id) > 0 {
        let len = usize::try_from(peer.connection.room(id).min(10_000)).expect("short");
        peer.connection.send_data(id, Segment::Bytes(vec![b'x'; len].into())).expect("valid");
    }
    peer.feed(window_update(1, 100_000));
    assert_eq!((peer.connection.room(id), peer.events.len()), (0, 2), "only a part has moved");
    peer.feed(window_update(0, 200_000));
    peer.feed(window_update(1, 100_000));
    peer.feed([]);
    assert_eq!(peer.events[2..], ["1 writable"]);
    assert!(peer.connection.room(id) > 0);
}

/// A client that opens its windows piece by piece, and a server that writes whatever there is room
/// for. All bytes of all streams arrive.
fn drain_streams(sizes: &[usize], steps: &[u32], window: u32) {
    let mut peer = RawPeer::server();
    peer.feed(settings(&[(4, window)]));
    let mut left: Vec<usize> = sizes.to_vec();
    for n in 0..sizes.len() {
        let id = u32::try_from(n).expect("few") * 2 + 1;
        peer.feed(get_frame(WHOLE, id));
        let head = Response::new(200, Headers::EMPTY);
        peer.connection.send_head(StreamId(id), head, BodyLen::Unknown).expect("valid");
    }
    for turn in 0..20_000 {
        for (n, left) in left.iter_mut().enumerate() {
            let id = StreamId(u32::try_from(n).expect("few") * 2 + 1);
            while *left > 0 && peer.connection.room(id) > 0 {
                let room = usize::try_from(peer.connection.room(id)).expect("short");
                let len = room.min(*left).min(3_000);
                let piece = Segment::Bytes(vec![b'x'; len].into());
                peer.connection.send_data(id, piece).expect("there is room");
                *left -= len;
                if *left == 0 {
                    peer.connection.send_end(id, Headers::EMPTY).expect("valid");
                }
            }
        }
        peer.flush();
        peer.feed([]);
        if peer.connection.open_streams() == 0 {
            for (n, size) in sizes.iter().enumerate() {
                let id = u32::try_from(n).expect("few") * 2 + 1;
                assert_eq!(peer.body_size(id), *size, "stream {id}");
            }
            return;
        }
        let step = steps[turn % steps.len()];
        peer.feed(window_update(0, step));
        let id = u32::try_from(turn % sizes.len()).expect("few") * 2 + 1;
        peer.feed(window_update(id, step));
        assert_eq!(peer.errors(), "");
    }
    panic!("the streams hang with {left:?} bytes to be queued");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn senders_never_hang(
        sizes in proptest::collection::vec(1usize..300_000, 1..12),
        steps in proptest::collection::vec(1_000u32..60_000, 1..4),
        window in 0u32..100_000,
    ) {
        drain_streams(&sizes, &steps, window);
    }
}

#[test]
fn small_responses_of_many_streams_share_a_queue() {
    drain_streams(&[30_000; 100], &[5_000], 1_000);
}

#[test]
fn a_stalled_window_is_a_phase_of_sending() {
    use fulmar_proto::Phase;
    for values in [[(4, 10)], [(4, 1 << 20)]] {
        let mut peer = server_with(&[settings(&values), get_frame(WHOLE, 1)].concat());
        begin(&mut peer, 1, vec![b'x'; 100_000]);
        let io = peer.connection.io_state();
        assert_eq!((io.phase, io.wants_write), (Phase::Send, false), "{values:?}");
    }
    let mut peer = server_with(&[get_frame(WHOLE, 1)].concat());
    respond(&mut peer.connection, StreamId(1), b"ok");
    peer.flush();
    assert_eq!(peer.connection.io_state().phase, Phase::Idle);
    peer.feed(frame(HEADERS, END_HEADERS, 3, super::wire::request("POST", "/", &[])));
    assert_eq!(peer.connection.io_state().phase, Phase::Body);
}

/// The first frames announce the limits, and what is announced is enforced.
#[test]
fn a_server_announces_its_windows() {
    let usual = Http2Limits::default();
    let wide = Http2Limits { streams_max: 7, stream_window: 100_000, window: 300_000, ..usual };
    let least = Http2Limits { window: 65_535, ..usual };
    for (limits, streams, stream_window, increment) in [
        (usual, 128, None, (1 << 20) - 65_535),
        (wide, 7, Some(100_000), 300_000 - 65_535),
        (least, 128, None, 0),
    ] {
        let mut peer = RawPeer::new(H2::<Server>::with_limits(limits));
        peer.flush();
        let settings = peer.frames[0].payload.as_chunks::<6>().0.iter().map(|setting| {
            let [a, b, value @ ..] = *setting;
            (u16::from_be_bytes([a, b]), u32::from_be_bytes(value))
        });
        let settings: Vec<_> = settings.collect();
        let value = |id| settings.iter().find(|(it, _)| *it == id).map(|(_, value)| *value);
        assert_eq!(
            (peer.frames[0].kind, value(3), value(4)),
            (SETTINGS, Some(streams), stream_window)
        );
        assert_eq!(
            (peer.increments(0), peer.frames.len()),
            (increment, 1 + usize::from(increment > 0))
        );

        let mut peer = RawPeer::server_with(limits);
        let held = |_: &mut H2<Server>, _: &Event<'_, Server>| ();
        let size = stream_window.unwrap_or(65_535);
        peer.feed_with(post_frame(1), held);
        for sent in (0..size).step_by(10_000) {
            let len = (size - sent).min(10_000) as usize;
            peer.feed_with(data(0, 1, vec![b'x'; len]), held);
        }
        assert_eq!(peer.errors(), "");
        peer.feed_with(data(0, 1, b"x"), held);
        let connection = limits.window == size;
        let end = if connection { "GOAWAY" } else { "RST_STREAM 1" };
        assert_eq!(peer.errors(), format!("{end} FLOW_CONTROL_ERROR"));
    }
}
