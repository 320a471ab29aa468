//! Peers that cost more than they request: each has a limit, and the memory of the connection is
//! bounded meanwhile.

use fulmar_proto::h2::{ErrorCode, H2, Http2Limits, PINGS_MAX};
use fulmar_proto::{
    BodyLen, Client, Connection, Event, Headers, Input, Response, Scratch, Segment, Server,
    StreamId,
};

use super::wire::{
    ACK, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PRIORITY, PRIORITY_UPDATE,
    RawPeer, RecordedSide, WHOLE, block, data, frame, get, get_frame, post_frame, request, reset,
    settings, window_update,
};

const CALM: &str = "GOAWAY ENHANCE_YOUR_CALM";
/// The defaults of [`Http2Limits`].
const STREAMS_MAX: u32 = 128;
const BLOCK_FRAMES_MAX: u32 = 8;
const PEER_RESETS_MAX: u32 = 100;
const IDLE_FRAMES_MAX: u32 = 1_000;

/// A client reads a body that was framed whole, and widens its window as it does.
#[test]
fn updates_of_a_stream_that_has_ended_are_free() {
    let mut peer = RawPeer::server();
    peer.feed(get_frame(WHOLE, 1));
    peer.respond(1, b"whole");
    for _ in 0..3 * IDLE_FRAMES_MAX {
        peer.feed(window_update(1, 4_096));
    }
    assert_eq!(peer.errors(), "");
}

/// 4 hours of a response that is due, with a PING each second: libraries send them to keep
/// connections alive.
#[test]
fn a_client_bears_pings_on_a_quiet_stream() {
    let mut peer = RawPeer::client(1);
    for n in 0..4 * 3_600_u32 {
        peer.feed(frame(PING, 0, 0, [n.to_be_bytes(), [0; 4]].concat()));
        peer.flush();
    }
    assert_eq!((peer.errors().as_str(), peer.connection.open_streams()), ("", 1));
}

/// Years of a connection without requests: acknowledgements of our PINGs use up no budget, and a
/// peer that sends none receives few PINGs.
#[test]
fn our_own_pings_are_limited_by_their_acknowledgements() {
    let mut peer = RawPeer::client(0);
    for n in 1..=10 * IDLE_FRAMES_MAX {
        assert!(peer.connection.ping(2 * u64::from(n), 1));
        assert!(!peer.connection.ping(2 * u64::from(n) + 1, 1), "too soon");
        peer.flush();
        peer.feed(frame(PING, ACK, 0, [0; 8]));
    }
    assert_eq!((peer.errors().as_str(), peer.count(PING)), ("", 10 * IDLE_FRAMES_MAX as usize));
    let queued = (0..100).filter(|n| peer.connection.ping(100_000 + n, 0)).count();
    assert_eq!(queued, PINGS_MAX.into());
    peer.feed(frame(PING, ACK, 0, [0; 8]));
    assert!(peer.connection.ping(200_000, 0) && !peer.connection.ping(300_000, 0));
}

#[test]
fn a_client_ends_if_its_server_does_not_read_acknowledgements() {
    let pings = |count| frame(PING, 0, 0, [0; 8]).repeat(count);
    let mut peer = RawPeer::client(1);
    peer.feed(pings(50_000));
    assert_eq!(peer.errors(), "");
    peer.feed(pings(70_000));
    assert!(peer.errors().ends_with(CALM), "{}", peer.errors());
}

/// Headers that are decoded cost their price although an earlier field was malformed.
#[test]
fn a_bomb_behind_a_malformed_field_is_a_bomb() {
    let mut peer = RawPeer::server();
    let mut lead = get(&[]);
    lead.extend([0x40, 1, b'n', 0x7f, 0xbd, 0x1d]); // indexed, with a value of 3,900 bytes
    lead.extend([b'v'; 3_900]);
    peer.feed(frame(HEADERS, WHOLE, 1, &lead));
    let mut bomb = vec![0x00, 1, b'A', 0]; // an upper case name
    bomb.extend([0x80 | 62; 4_000]);
    let accepted = flood(&mut peer, |n| frame(HEADERS, WHOLE, 2 * n + 3, &bomb));
    assert!(accepted <= 11, "{accepted}");
}

/// Feeds frames until the connection ends; how many were accepted.
fn flood<S: RecordedSide>(peer: &mut RawPeer<S>, mut next: impl FnMut(u32) -> Vec<u8>) -> u32 {
    for n in 0..20_000 {
        peer.feed(next(n));
        if peer.error.is_some() {
            assert!(peer.errors().ends_with(CALM), "{}", peer.errors());
            assert_eq!(peer.connection.open_streams(), 0);
            return n;
        }
    }
    panic!("20,000 frames were accepted");
}

fn server(bytes: &[u8]) -> RawPeer<Server> {
    let mut peer = RawPeer::server();
    peer.feed(bytes);
    peer
}

fn stream(n: u32) -> u32 {
    n * 2 + 1
}

#[test]
fn frames_without_progress_are_limited() {
    let small = |next: &dyn Fn(u32) -> Vec<u8>| {
        flood(&mut server(&[post_frame(1), get_frame(WHOLE, 3)].concat()), next)
    };
    let late = [post_frame(5), reset(5, ErrorCode::Cancel)].concat();
    let block_of_1 = block(&[("x", b"y")]);
    let rows: [(&str, u32, u32); 9] = [
        ("PING", IDLE_FRAMES_MAX, small(&|_| frame(PING, 0, 0, [0; 8]))),
        ("PING, ACK", IDLE_FRAMES_MAX, small(&|_| frame(PING, ACK, 0, [0; 8]))),
        ("SETTINGS", IDLE_FRAMES_MAX / 5, small(&|_| settings(&[(3, 1)]))),
        ("SETTINGS, ACK", IDLE_FRAMES_MAX, small(&|_| frame(4, ACK, 0, []))),
        ("PRIORITY", IDLE_FRAMES_MAX, small(&|_| frame(PRIORITY, 0, 9, [0; 5]))),
        (
            "PRIORITY_UPDATE",
            IDLE_FRAMES_MAX,
            small(&|_| frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=1")),
        ),
        ("unknown", IDLE_FRAMES_MAX, small(&|_| frame(77, 0, 0, b"x"))),
        ("empty DATA", IDLE_FRAMES_MAX / 4, small(&|_| data(0, 1, []))),
        ("padding only", IDLE_FRAMES_MAX / 4, small(&|_| data(PADDED, 1, [9; 10]))),
    ];
    for (name, limit, accepted) in rows {
        assert_eq!(accepted, limit, "{name}");
    }
    let closed = |next: &dyn Fn(u32) -> Vec<u8>| flood(&mut server(&late), next);
    assert_eq!(closed(&|_| window_update(5, 1)), IDLE_FRAMES_MAX);
    assert_eq!(closed(&|_| reset(5, ErrorCode::Cancel)), IDLE_FRAMES_MAX);
    assert!(closed(&|_| data(0, 5, b"x")) <= IDLE_FRAMES_MAX);
    let mut trailers = server(&post_frame(1));
    trailers.connection.cut_off(StreamId(1));
    let accepted = flood(&mut trailers, |_| frame(HEADERS, WHOLE, 1, &block_of_1));
    assert_eq!(accepted, IDLE_FRAMES_MAX / 10);
}

#[test]
fn streams_that_the_client_resets_are_limited() {
    let mut peer = RawPeer::server();
    let next = |n| [get_frame(WHOLE, stream(n)), reset(stream(n), ErrorCode::Cancel)].concat();
    assert_eq!(flood(&mut peer, next), PEER_RESETS_MAX);
    // A response that is queued but not sent earns nothing (CVE-2023-44487).
    let mut peer = RawPeer::server();
    peer.feed(settings(&[(4, 0)]));
    for n in 0..=PEER_RESETS_MAX {
        peer.feed_with(next(n), |server, event| {
            if let Event::Head { stream, .. } = event {
                super::wire::respond(server, *stream, b"ok");
            }
        });
    }
    assert!(peer.errors().ends_with(CALM));
}

#[test]
fn answered_streams_earn_resets() {
    let mut peer = RawPeer::server();
    for n in 0..1_000 {
        peer.feed(get_frame(WHOLE, stream(n * 2)));
        peer.respond(stream(n * 2), b"ok");
        peer.feed(
            [get_frame(WHOLE, stream(n * 2 + 1)), reset(stream(n * 2 + 1), ErrorCode::Cancel)]
                .concat(),
        );
    }
    assert_eq!(peer.errors(), "");
}

/// Streams that the server resets because of the client's frames (CVE-2025-8671).
#[test]
fn streams_that_the_client_has_reset_are_limited() {
    const MAX: u32 = 0x7fff_ffff;
    type Provoke = (&'static str, fn(u32) -> Vec<u8>);
    let rows: [Provoke; 7] = [
        ("increment of 0", |id| [get_frame(WHOLE, id), window_update(id, 0)].concat()),
        ("window overflow", |id| [get_frame(WHOLE, id), window_update(id, MAX)].concat()),
        ("DATA behind the end", |id| [get_frame(WHOLE, id), data(0, id, b"x")].concat()),
        ("HEADERS behind the end", |id| [get_frame(WHOLE, id), get_frame(WHOLE, id)].concat()),
        ("malformed", |id| frame(HEADERS, WHOLE, id, block(&[("X", b"y")]))),
        ("wrong length", |id| {
            let block = request("POST", "/", &[("content-length", b"1")]);
            [frame(HEADERS, END_HEADERS, id, block), data(END_STREAM, id, b"")].concat()
        }),
        ("bad trailers", |id| {
            [post_frame(id), frame(HEADERS, WHOLE, id, block(&[(":x", b"")]))].concat()
        }),
    ];
    for (name, provoke) in rows {
        let mut peer = RawPeer::server();
        assert_eq!(flood(&mut peer, |n| provoke(stream(n))), PEER_RESETS_MAX, "{name}");
    }
}

#[test]
fn header_blocks_are_limited_by_frames_and_bytes() {
    let start = frame(HEADERS, END_STREAM, 1, get(&[]));
    for piece in [&b""[..], &block(&[("x", b"y")])] {
        let mut peer = server(&start);
        let accepted = flood(&mut peer, |_| frame(CONTINUATION, 0, 1, piece));
        assert_eq!(accepted, BLOCK_FRAMES_MAX - 1);
    }
    let mut peer = server(&frame(HEADERS, END_STREAM, 1, vec![0; 16_384]));
    assert_eq!(flood(&mut peer, |_| frame(CONTINUATION, 0, 1, vec![0; 16_384])), 1);
    let mut whole = server(&start);
    for n in 1..BLOCK_FRAMES_MAX {
        let flags = if n == BLOCK_FRAMES_MAX - 1 { END_HEADERS } else { 0 };
        whole.feed(frame(CONTINUATION, flags, 1, []));
    }
    assert_eq!((whole.errors().as_str(), whole.events.len()), ("", 2));
}

#[test]
fn header_bombs_are_limited() {
    // An entry of 4,000 bytes, and 16,000 references to it.
    let mut bomb = get(&[]);
    bomb.extend([0x40, 1, b'x', 127, 0xa1, 0x1e]);
    bomb.extend([b'v'; 4_000]);
    bomb.resize(16_384, 0xbe);
    let mut peer = RawPeer::server();
    let accepted = flood(&mut peer, |n| frame(HEADERS, WHOLE, stream(n), &bomb));
    assert!(accepted <= 10, "{accepted} blocks of 49 MB were decoded");
    assert!(peer.events.is_empty());
}

#[test]
fn a_table_that_is_thrashed_costs_its_own_bytes() {
    let mut peer = RawPeer::server();
    for n in 0..2_000 {
        let mut head = vec![0x20, 0x3f, 0xe1, 0x1f];
        head.extend(get(&[]));
        head.extend([0x40, 1, b'x', 127, 0xa1, 0x1e]);
        head.extend([b'v'; 4_000]);
        peer.feed(frame(HEADERS, WHOLE, stream(n), head));
        peer.respond(stream(n), b"ok");
    }
    assert_eq!((peer.errors().as_str(), peer.connection.open_streams()), ("", 0));
}

#[test]
fn windows_that_open_byte_by_byte_are_limited() {
    for values in [[(4, 0)], [(4, 1 << 20)]] {
        let mut peer = server(&[settings(&values), get_frame(WHOLE, 1)].concat());
        let head = Response::new(200, Headers::EMPTY);
        peer.connection.send_head(StreamId(1), head, BodyLen::Unknown).expect("valid");
        let body = Segment::Bytes(vec![b'x'; 200_000].into());
        peer.connection.send_data(StreamId(1), body).expect("valid");
        peer.flush();
        let id = u32::from(values[0].1 == 0);
        let accepted = flood(&mut peer, |_| window_update(id, 1));
        assert!(accepted <= 2 * IDLE_FRAMES_MAX, "{accepted}");
    }
}

#[test]
fn streams_over_the_limit_are_refused_and_limited() {
    let mut peer = RawPeer::server();
    let accepted = flood(&mut peer, |n| post_frame(stream(n)));
    assert_eq!(accepted, STREAMS_MAX + IDLE_FRAMES_MAX / 10);
    assert_eq!(peer.events.len(), STREAMS_MAX as usize);
}

#[test]
fn requests_that_are_refused_by_status_are_limited() {
    let mut peer = RawPeer::server();
    let next = |n| frame(HEADERS, WHOLE, stream(n), request("POST", "/", &[("expect", b"tea")]));
    assert_eq!(flood(&mut peer, next), IDLE_FRAMES_MAX / 10);
}

/// Receives without sending anything, as if the peer did not read. Returns false once the
/// connection does not read either.
fn receive_only<S: RecordedSide>(
    connection: &mut H2<S>,
    bytes: &[u8],
    mut app: impl FnMut(&mut H2<S>, &Event<'_, S>),
) -> bool {
    let mut arrived = bytes::BytesMut::from(bytes);
    let mut scratch = Scratch::default();
    let mut input = Input::all(&mut arrived, false);
    while let Ok(Some(event)) = connection.poll_event(&mut input, &mut scratch) {
        app(connection, &event);
    }
    connection.io_state().wants_read
}

#[test]
fn a_client_that_does_not_read_is_not_read() {
    const MEMORY: u64 = 300 * 1024;
    let heads = |n: u32| get_frame(WHOLE, stream(n));
    let pings = |_: u32| [data(0, 1, b"x"), frame(PING, 0, 0, [0; 8])].concat();
    for (lead, next) in [(Vec::new(), &heads as &dyn Fn(u32) -> Vec<u8>), (post_frame(1), &pings)] {
        let mut peer = server(&lead);
        let offset = u32::from(!lead.is_empty());
        let mut turns = 0;
        while receive_only(&mut peer.connection, &next(turns + offset), |server, event| match event
        {
            Event::Head { stream, .. } => {
                let head = Response::new(204, Headers::EMPTY);
                server.send_head(*stream, head, BodyLen::Empty).expect("valid");
                server.send_end(*stream, Headers::EMPTY).expect("valid");
            }
            Event::Data { stream, bytes } => server.release(*stream, bytes.len()),
            _ => {}
        }) {
            turns += 1;
            assert!(turns < 100_000, "the queue has no limit");
        }
        let queued = peer.connection.unsent(StreamId(0));
        assert!(queued > 0 && queued < MEMORY, "{queued}");
        peer.flush();
        assert!(peer.connection.io_state().wants_read, "it continues once the peer reads");
    }
}

#[test]
fn a_server_that_does_not_read_is_left() {
    let mut peer = RawPeer::client(1);
    peer.feed(frame(HEADERS, END_HEADERS, 1, block(&[(":status", b"200")])));
    let next = [data(0, 1, b"x"), frame(PING, 0, 0, [0; 8])].concat().repeat(100);
    let release = |client: &mut H2<Client>, event: &Event<'_, Client>| {
        if let Event::Data { stream, bytes } = event {
            client.release(*stream, bytes.len());
        }
    };
    for _ in 0..2_000 {
        if !receive_only(&mut peer.connection, &next, release) {
            break;
        }
    }
    let queued = peer.connection.unsent(StreamId(0));
    assert!(peer.connection.io_state().finished && queued < 1_200_000, "{queued}");
}

#[test]
fn events_are_delivered_although_nothing_is_parsed() {
    let mut peer = server(&post_frame(1));
    peer.connection.set_held(StreamId(1), true);
    peer.feed(data(END_STREAM, 1, b"body"));
    peer.connection.set_held(StreamId(1), false);
    assert!(peer.connection.has_event());
    peer.feed([]);
    assert_eq!(peer.events[1..], ["1 data body", "1 end "]);
}

/// Each limit holds with the value that the server has set.
#[test]
fn limits_can_be_set() {
    let limits = Http2Limits {
        streams_max: 3,
        block_frames_max: 2,
        peer_resets_max: 5,
        idle_frames_max: 200,
        ..Http2Limits::default()
    };
    let server = || RawPeer::server_with(limits);
    let of = |peer: &mut RawPeer<Server>, next: &dyn Fn(u32) -> Vec<u8>| flood(peer, next);
    let reset = |n| [get_frame(WHOLE, stream(n)), reset(stream(n), ErrorCode::Cancel)].concat();
    assert_eq!(of(&mut server(), &reset), 5);
    assert_eq!(of(&mut server(), &|_| frame(PING, 0, 0, [0; 8])), 200);
    assert_eq!(of(&mut server(), &|n| post_frame(stream(n))), 3 + 200 / 10);
    let mut block = server();
    block.feed(frame(HEADERS, END_STREAM, 1, get(&[])));
    assert_eq!(of(&mut block, &|_| frame(CONTINUATION, 0, 1, [])), 1);
}
