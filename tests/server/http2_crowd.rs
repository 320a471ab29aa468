//! Ten thousand connections of HTTP/2 that misbehave, in memory: descriptors would limit them.

use std::time::Duration;

use fulmar_engine::SocketId;
use fulmar_server::Limits;
use fulmar_tests::app::App;
use fulmar_tests::http2::Http2Client;
use fulmar_tests::http2_frames::{
    CONTINUATION, END_STREAM, GOAWAY, HEADERS, cancel, frame, get, ping, preface, stream,
    take_frames,
};

use super::engine_hand::EngineHand;
use super::http2_attacks::{finish, hand};

/// A third holds a window of 0 over 100 bodies, a third floods until GOAWAY, and a third has sent
/// half a header block.
fn misbehave(hand: &mut EngineHand<App>, n: usize) -> SocketId {
    let socket = hand.connect();
    match n % 3 {
        0 => {
            let bodies: Vec<u8> = (0..100).flat_map(|n| get(stream(n), "/bytes/1000000")).collect();
            hand.send(socket, &[preface(&[(4, 0)]), bodies].concat());
            hand.take_received(socket);
        }
        1 => {
            hand.send(socket, &preface(&[]));
            match n % 2 {
                0 => hand.send(socket, &ping().repeat(1_001)),
                _ => (0..101).all(|n| {
                    hand.send(socket, &[get(stream(n), "/idle"), cancel(stream(n))].concat())
                }),
            };
            let sent = take_frames(&mut hand.take_received(socket));
            assert!(sent.iter().any(|frame| frame.kind == GOAWAY));
        }
        _ => {
            let half = frame(HEADERS, END_STREAM, 1, [0; 16_000]);
            let rest = frame(CONTINUATION, 0, 1, [0; 16_000]);
            hand.send(socket, &[preface(&[]), half, rest].concat());
            hand.take_received(socket);
        }
    }
    socket
}

#[test]
fn ten_thousand_hostile_connections_cost_bounded_memory() {
    let mut hand = hand(Limits::default());
    let mut client = Http2Client::default();
    let good = hand.connect();
    let mut kinds = [0; 3];
    for n in 0..CONNECTIONS {
        let before = hand.allocated;
        misbehave(&mut hand, n);
        kinds[n % 3] += hand.allocated - before;
        if n.is_multiple_of(100) {
            is_served(&mut hand, good, &mut client);
        }
    }
    assert_eq!(hand.engine.connections(), CONNECTIONS + 1);
    let third = i64::try_from(CONNECTIONS / 3).expect("a small number");
    for (name, bytes, most) in [
        ("a window of 0", kinds[0] / third, BODIES_MEMORY),
        ("floods", kinds[1] / third, FLOOD_MEMORY),
        ("half a header block", kinds[2] / third, BLOCK_MEMORY),
    ] {
        assert!(bytes <= most, "{name}: {bytes} bytes for each connection");
    }
    // The timeouts reset streams and end connections, the last of them idle, and free their memory.
    for _ in 0..15 {
        hand.pass(Duration::from_secs(10));
        is_served(&mut hand, good, &mut client);
    }
    assert_eq!(hand.engine.connections(), 1);
    let (all, left) = (kinds.iter().sum::<i64>(), hand.allocated);
    assert!(left <= all / 20, "{left} of {all} bytes are left");
}

/// An upload and a download are complete.
fn is_served(hand: &mut EngineHand<App>, good: SocketId, client: &mut Http2Client) {
    let body = vec![b'x'; 10_000];
    let echo = client.request("POST", "/echo", &body);
    let get = client.request("GET", "/bytes/50000", b"");
    finish(hand, good, client);
    assert_eq!(client.responses[&echo].body, body);
    assert_eq!(client.responses[&get].body.len(), 50_000);
}

const CONNECTIONS: usize = 9_999;
/// 100 streams with an exchange, a queued head and the begin of a body.
const BODIES_MEMORY: i64 = 96 * 1024;
/// A connection that discards what follows its GOAWAY.
const FLOOD_MEMORY: i64 = 2 * 1024;
/// The most that a header block may have before its end.
const BLOCK_MEMORY: i64 = 36 * 1024;
