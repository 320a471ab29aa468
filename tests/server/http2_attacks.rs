//! Attacks on a server of HTTP/2: each ends its connection at a limit, or costs no more than its
//! bytes, and another client is served meanwhile.
//!
//! `docs/http2.md` lists the limits. The tables of `crates/proto/tests/it/h2` have the frames and
//! messages in detail; this is the engine with handlers, deadlines and memory.

use std::time::Duration;

use fulmar_engine::SocketId;
use fulmar_proto::h2::{ErrorCode, Http2Limits};
use fulmar_server::{Limits, ServerEngine, Stop};
use fulmar_tests::app::{App, app};
use fulmar_tests::http2::Http2Client;
use fulmar_tests::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM,
    ReceivedFrame, SETTINGS, cancel, frame, get, ping, post, preface, request_block, settings,
    stream, take_frames, window_update,
};

use super::engine_hand::EngineHand;

pub(super) fn hand(limits: Limits) -> EngineHand<App> {
    EngineHand::new(|now| ServerEngine::new(now, app(), limits, Stop::new()))
}

/// Sends what a client has queued, and receives, until all its responses are complete.
pub(super) fn finish(hand: &mut EngineHand<App>, socket: SocketId, client: &mut Http2Client) {
    for _ in 0..1_000 {
        let bytes = client.poll_bytes();
        assert!(bytes.is_empty() || hand.send(socket, &bytes), "the connection is open");
        client.receive(&hand.take_received(socket));
        if client.is_done() {
            return;
        }
    }
    panic!("a response is missing: {:?}", client.responses);
}

/// A client that behaves.
struct GoodClient {
    socket: SocketId,
    client: Http2Client,
}

impl GoodClient {
    fn new(hand: &mut EngineHand<App>) -> Self {
        Self { socket: hand.connect(), client: Http2Client::default() }
    }

    fn is_served(&mut self, hand: &mut EngineHand<App>) {
        let id = self.client.request("POST", "/echo", b"still there");
        finish(hand, self.socket, &mut self.client);
        assert_eq!(self.client.responses[&id].body, b"still there");
    }
}

/// The frames that a client has received.
fn frames(hand: &mut EngineHand<App>, socket: SocketId) -> Vec<ReceivedFrame> {
    let mut bytes = hand.take_received(socket);
    let frames = take_frames(&mut bytes);
    assert!(bytes.is_empty(), "only whole frames are sent");
    frames
}

/// Sends frames until GOAWAY arrives: how many were accepted.
fn flood(hand: &mut EngineHand<App>, attack: &Attack) -> (SocketId, u32) {
    let socket = hand.connect();
    hand.send(socket, &preface(&[]));
    hand.send(socket, &attack.lead);
    for n in 0..20_000 {
        hand.send(socket, &(attack.next)(n));
        if let Some(goaway) = frames(hand, socket).iter().find(|frame| frame.kind == GOAWAY) {
            assert_eq!(goaway.code(), Some(ErrorCode::EnhanceYourCalm.code()), "{}", attack.name);
            return (socket, n);
        }
    }
    panic!("{}: 20,000 frames were accepted", attack.name);
}

/// What is sent repeatedly; it receives how often it was sent.
type NextFrames = fn(u32) -> Vec<u8>;

/// An attack that ends at a limit.
struct Attack {
    name: &'static str,
    /// What is sent first.
    lead: Vec<u8>,
    next: NextFrames,
    /// How often it is accepted.
    limit: u32,
}

fn attack(name: &'static str, lead: Vec<u8>, next: NextFrames, limit: u32) -> Attack {
    Attack { name, lead, next, limit }
}

fn floods() -> Vec<Attack> {
    [stream_attacks(), block_attacks(), frame_attacks()].into_iter().flatten().collect()
}

/// Streams that the client opens for nothing.
fn stream_attacks() -> Vec<Attack> {
    let row = |name, next| attack(name, Vec::new(), next, 100);
    vec![
        // CVE-2023-44487: with a response that takes time, and with one longer than its window.
        row("rapid reset", |n| [get(stream(n), "/delay/5000"), cancel(stream(n))].concat()),
        row("reset of bodies", |n| [get(stream(n), "/bytes/200000"), cancel(stream(n))].concat()),
        // CVE-2025-8671: the server resets the stream.
        row("increments of 0", |n| idle_and(n, window_update(stream(n), 0))),
        row("too wide windows", |n| idle_and(n, window_update(stream(n), (1 << 31) - 1))),
        row("DATA behind the end", |n| idle_and(n, frame(DATA, 0, stream(n), b"x"))),
        row("malformed requests", |n| {
            frame(HEADERS, WHOLE, stream(n), request_block("GET", "/", &[("X", b"y")]))
        }),
        attack("refused streams", Vec::new(), |n| post(stream(n), "/idle"), 128 + 100),
    ]
}

/// A request without a response, and a frame of its stream.
fn idle_and(n: u32, frame: Vec<u8>) -> Vec<u8> {
    [get(stream(n), "/idle"), frame].concat()
}

/// Header blocks that are long, or cost more than their bytes.
fn block_attacks() -> Vec<Attack> {
    let begun = |block: &[u8]| frame(HEADERS, END_STREAM, 1, block);
    let short = begun(&request_block("GET", "/", &[]));
    let bomb = |n| frame(HEADERS, WHOLE, stream(n + 1), [0xbe; 16_000]);
    vec![
        // CVE-2024-27316
        attack("CONTINUATION", short, |_| frame(CONTINUATION, 0, 1, b""), 7),
        attack("long blocks", begun(&LONG), |_| frame(CONTINUATION, 0, 1, LONG), 1),
        // CVE-2016-6581
        attack("header bomb", frame(HEADERS, WHOLE, 1, bomb_entry()), bomb, 9),
    ]
}

/// Frames without progress.
fn frame_attacks() -> Vec<Attack> {
    let none = Vec::new;
    let closed = || get(1, "/bytes/1");
    let opened = [settings(&[(4, 0)]), get(1, "/bytes/100000")].concat();
    vec![
        // CVE-2019-9512, CVE-2019-9515, CVE-2019-9513, CVE-2019-9518
        attack("PING", none(), |_| ping(), 1_000),
        attack("PING, acknowledged", none(), |_| frame(PING, 1, 0, [0; 8]), 1_000),
        attack("SETTINGS", none(), |_| settings(&[(4, 1)]), 200),
        attack("SETTINGS, acknowledged", none(), |_| frame(SETTINGS, 1, 0, b""), 1_000),
        attack("PRIORITY", none(), |n| frame(PRIORITY, 0, stream(n + 1), [0; 5]), 1_000),
        attack("unknown frames", none(), |_| frame(99, 0, 0, b"?"), 1_000),
        attack("empty DATA", post(1, "/idle"), |_| frame(DATA, 0, 1, b""), 250),
        // Of a closed stream
        attack("late WINDOW_UPDATE", closed(), |_| window_update(1, 1), 1_000),
        attack("late RST_STREAM", closed(), |_| cancel(1), 1_000),
        attack("late DATA", closed(), |_| frame(DATA, 0, 1, b"x"), 991),
        // CVE-2019-9511, CVE-2019-9517
        attack("openings by a byte", opened, |_| window_update(1, 1), 995),
    ]
}

/// A request with a field of 4,000 bytes, which enters the table.
fn bomb_entry() -> Vec<u8> {
    let field = [&[0x40, 1, b'x', 127, 0xa1, 0x1e][..], &[b'v'; 4_000]].concat();
    [request_block("GET", "/bytes/1", &[]), field].concat()
}

#[test]
fn each_flood_ends_its_connection_and_no_other() {
    let mut hand = hand(Limits::default());
    let mut good = GoodClient::new(&mut hand);
    for attack in floods() {
        let Attack { name, limit, .. } = attack;
        let before = hand.engine.connections();
        let (socket, accepted) = flood(&mut hand, &attack);
        assert_eq!(accepted, limit, "{name}");
        good.is_served(&mut hand);
        // What follows GOAWAY is drained for two seconds, and has no effect.
        hand.send(socket, &ping());
        hand.pass(Duration::from_secs(3));
        assert!(hand.is_ended(socket), "{name}");
        assert_eq!(hand.engine.connections(), before, "{name}");
        good.is_served(&mut hand);
    }
}

/// The limits that a server sets hold in its connections.
#[test]
fn a_server_sets_the_limits() {
    let http2 = Http2Limits {
        streams_max: 5,
        block_frames_max: 3,
        peer_resets_max: 7,
        idle_frames_max: 300,
        ..Http2Limits::default()
    };
    let mut hand = hand(Limits { http2: Some(http2), ..Limits::default() });
    let expected =
        [("rapid reset", 7), ("refused streams", 5 + 30), ("CONTINUATION", 2), ("PING", 300)];
    let attacks = floods();
    for (name, limit) in expected {
        let attack = attacks.iter().find(|attack| attack.name == name).expect("an attack");
        assert_eq!(flood(&mut hand, attack).1, limit, "{name}");
    }
    GoodClient::new(&mut hand).is_served(&mut hand);
}

/// Without HTTP/2 its preface is a malformed request of HTTP/1, in any pieces.
#[test]
fn http2_can_be_switched_off() {
    let mut hand = hand(Limits { http2: None, ..Limits::default() });
    for size in [1, 3, 1_000] {
        let socket = hand.connect();
        for piece in preface(&[]).chunks(size) {
            hand.send(socket, piece);
        }
        let response = hand.take_received(socket);
        assert!(response.starts_with(b"HTTP/1.1 505 "), "{}", response.escape_ascii());
        hand.pass(Duration::from_secs(3));
        assert!(hand.is_ended(socket));
    }
    let socket = hand.connect();
    hand.send(socket, b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nok");
    let response = hand.take_received(socket);
    assert!(response.starts_with(b"HTTP/1.1 200 ") && response.ends_with(b"ok"));
}

/// A request that HTTP/1 would read otherwise reaches no handler, and only its stream ends.
#[test]
fn requests_that_smuggle_reach_no_handler() {
    let mut hand = hand(Limits::default());
    let socket = hand.connect();
    hand.send(socket, &preface(&[]));
    frames(&mut hand, socket);
    let fields: [&[(&str, &[u8])]; 12] = [
        &[("x", b"a\r\nHost: b")],
        &[("x", b"a\nb")],
        &[("x", b"a\0b")],
        &[("x", b"a\rb")],
        &[("x\r\ny", b"z")],
        &[("x: y", b"z")],
        &[("transfer-encoding", b"chunked")],
        &[("connection", b"transfer-encoding")],
        &[("content-length", b"1"), ("content-length", b"2")],
        &[("content-length", b"1, 2")],
        &[("content-length", b"+1")],
        &[("host", b"elsewhere")],
    ];
    let with = |fields| request_block("POST", "/echo", fields);
    let blocks = fields.into_iter().map(with).chain([
        request_block("GET", "/bytes/1 HTTP/1.1\r\nX: y", &[]),
        request_block("GET", "/bytes/1 /x", &[]),
        request_block("GET /x", "/bytes/1", &[]),
    ]);
    for (n, block) in (0..).zip(blocks) {
        let (bad, good) = (stream(2 * n), stream(2 * n + 1));
        hand.send(socket, &frame(HEADERS, END_HEADERS, bad, &block));
        hand.send(socket, &get(good, "/bytes/3"));
        let sent = frames(&mut hand, socket);
        let of = |id| sent.iter().filter(move |frame| frame.stream == id).collect::<Vec<_>>();
        let protocol_error = Some(ErrorCode::ProtocolError.code());
        let reset = of(bad);
        assert!(reset.len() == 1 && reset[0].kind == RST_STREAM, "{n}: {reset:?}");
        assert_eq!(reset[0].code(), protocol_error, "{n}");
        assert!(of(good).iter().any(|frame| frame.kind == DATA && frame.payload.len() == 3), "{n}");
    }
}

/// What is queued for a client that does not read has a limit: then its connection is not read, or
/// ends.
#[test]
fn clients_that_do_not_read_cost_bounded_memory() {
    let mut hand = hand(Limits::default());
    let rows: [(&str, NextFrames); 4] = [
        ("responses", |n| get(stream(n), "/bytes/1")),
        ("bodies", |n| get(stream(n), "/bytes/100000")),
        ("acknowledgements", |_| ping()),
        ("acknowledgements between DATA", |n| {
            [frame(DATA, 0, 1, [0; 300]), ping(), ping(), window_update(1, n + 1)].concat()
        }),
    ];
    for (name, next) in rows {
        let mut good = GoodClient::new(&mut hand);
        good.is_served(&mut hand);
        let before = hand.allocated;
        let socket = hand.connect();
        hand.send(socket, &[preface(&[]), post(1, "/echo")].concat());
        hand.stop_reading(socket);
        let most =
            (1..20_000).map_while(|n| hand.send(socket, &next(n)).then(|| hand.allocated - before));
        let most = most.max().expect("some are read");
        assert!(most <= UNREAD_MEMORY, "{name}: {most} bytes");
        good.is_served(&mut hand);
        // The timeout for sending ends it.
        hand.pass(Duration::from_secs(40));
        assert!(hand.is_ended(socket), "{name}");
    }
}

/// Tables that are filled and emptied by each request cost their size once.
#[test]
fn a_thrashed_table_keeps_its_size() {
    let mut hand = hand(Limits::default());
    let socket = hand.connect();
    hand.send(socket, &preface(&[]));
    let block = [&[0x20, 0x3f, 0xe1, 0x1f][..], &bomb_entry()].concat();
    let mut kept = Vec::new();
    for n in 0..2_000 {
        hand.send(socket, &frame(HEADERS, WHOLE, stream(n), &block));
        assert!(frames(&mut hand, socket).iter().all(|frame| frame.code().is_none()));
        kept.push(hand.allocated);
    }
    assert!(kept[1_999] <= kept[100] + 1_000, "{} {}", kept[100], kept[1_999]);
}

/// Windows of 0 and 1 bytes: neither PING nor openings by a byte extend a stream for long. Stalled
/// ones are reset after one to two timeouts; otherwise the connection ends.
#[test]
fn tiny_windows_with_pings_end() {
    for (window, opened, pings) in [(0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 20)] {
        let mut hand = hand(Limits::default());
        let mut good = GoodClient::new(&mut hand);
        let socket = hand.connect();
        hand.send(socket, &preface(&[(4, window)]));
        (0..100).for_each(|n| {
            hand.send(socket, &get(stream(n), "/bytes/100000"));
        });
        let mut left = 100_i32;
        let mut seconds = 0;
        while left > 0 && !hand.is_ended(socket) {
            assert!(seconds < 300, "window {window} by {opened}: {left} streams are left");
            (0..pings).for_each(|_| {
                hand.send(socket, &ping());
            });
            if opened > 0 {
                (0..100).for_each(|n| {
                    hand.send(socket, &window_update(stream(n), opened));
                });
            }
            let sent = frames(&mut hand, socket);
            left -= sent.iter().map(|frame| i32::from(frame.kind == RST_STREAM)).sum::<i32>();
            good.is_served(&mut hand);
            hand.pass(Duration::from_secs(1));
            seconds += 1;
        }
        assert!(seconds <= 70, "window {window} by {opened}: {seconds} s");
    }
}

/// The flags of a message without a body.
const WHOLE: u8 = END_HEADERS | END_STREAM;
/// Half of the longest header block.
const LONG: [u8; 16_000] = [0; 16_000];
/// The share of a connection's memory that may be queued, as much again that was received, and the
/// streams that wait.
const UNREAD_MEMORY: i64 = 512 * 1024;
