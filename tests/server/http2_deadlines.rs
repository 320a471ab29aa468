//! Clients of HTTP/2 that stall, in virtual time: frames that move no message extend no deadline.

use std::time::Duration;

use fulmar_engine::sim::PeerId;
use fulmar_proto::BodyLen;
use fulmar_server::{Limits, ServerEngine, Stop};
use fulmar_tests::app::{App, app};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http2::Http2Client;
use fulmar_tests::https::{client_tls, layers, server_tls};
use fulmar_tests::loops::LISTENER;
use fulmar_tests::server_hand::ServerHand;
use fulmar_tests::tls_end::TlsEnd;

type DeadlineHand = ServerHand<App>;

const SECOND: Duration = Duration::from_secs(1);
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// A server whose timeouts are all ten seconds.
fn hand(certs: Option<&Certs>) -> DeadlineHand {
    ServerHand::new(|now| {
        let limits = Limits {
            idle_timeout: TEN_SECONDS,
            head_timeout: TEN_SECONDS,
            body_timeout: TEN_SECONDS,
            send_timeout: TEN_SECONDS,
            abandoned_timeout: TEN_SECONDS,
            ..Limits::default()
        };
        let mut engine = ServerEngine::new(now, app(), limits, Stop::new());
        let tls = certs.map(|certs| layers(server_tls(certs, CertOwner::Server)));
        engine.add_listener(LISTENER, tls);
        engine
    })
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn receive(hand: &mut DeadlineHand, peer: PeerId, client: &mut Http2Client) {
    let received = std::mem::take(&mut hand.peer(peer).received);
    client.receive(&received);
}

/// Lets seconds pass, each after what `act` sends, until `done`; returns their number.
fn seconds_until(
    hand: &mut DeadlineHand,
    mut act: impl FnMut(&mut DeadlineHand, u32),
    mut done: impl FnMut(&mut DeadlineHand) -> bool,
) -> u32 {
    for second in 0..60 {
        if done(hand) {
            return second;
        }
        act(hand, second);
        hand.jump(SECOND);
    }
    panic!("it lives on");
}

/// The client has opened its windows, and reads nothing from its socket. It sends frames instead.
#[test]
fn sent_frames_do_not_replace_reading() {
    for frame in [frame(0xee, 0, 0, &[0; 16_000]), frame(8, 0, 0, &[0, 0, 0, 1])] {
        let mut hand = hand(None);
        let peer = hand.connect();
        let mut client = Http2Client::default();
        client.request("GET", "/bytes/900000", b"");
        hand.peer(peer).window = 100_000;
        hand.send(peer, client.poll_bytes());
        let seconds = seconds_until(
            &mut hand,
            |hand, _| hand.send(peer, &frame),
            |hand| hand.peer(peer).closed.is_some(),
        );
        assert!((10..=20).contains(&seconds), "{seconds}");
    }
}

/// A header block is always incomplete, and a new one begins before the timeout of the last.
#[test]
fn header_fragments_do_not_keep_stalled_streams() {
    let mut hand = hand(None);
    let peer = hand.connect();
    let mut client = Http2Client::default();
    client.holds_windows = true;
    let stalled = client.request("GET", "/bytes/3000000", b"");
    hand.send(peer, client.poll_bytes());
    let mut rest = Vec::new();
    receive(&mut hand, peer, &mut client);
    hand.send(peer, client.poll_bytes()); // acknowledgements
    let mut act = |hand: &mut DeadlineHand, client: &mut Http2Client| {
        client.request("GET", "/bytes/1", b"");
        let block = client.poll_bytes();
        // HEADERS without END_HEADERS; its CONTINUATION follows in a second.
        let (begin, end) = block.split_at(block.len() - 1);
        let stream = u32::from_be_bytes(begin[5..9].try_into().unwrap());
        let begin = frame(1, 1, stream, &begin[9..]);
        hand.send(peer, std::mem::replace(&mut rest, frame(9, 4, stream, end)));
        hand.send(peer, begin);
        receive(hand, peer, client);
    };
    for second in 0..40 {
        act(&mut hand, &mut client);
        let is_reset = client.responses[&stalled].reset.is_some();
        match second {
            0..10 => assert!(!is_reset, "after {second} seconds"),
            31.. => assert!(is_reset, "after {second} seconds"),
            _ => {}
        }
        hand.jump(SECOND);
    }
    assert!(hand.peer(peer).closed.is_none());
}

/// A window that is opened by a byte now and then does not move its stream.
#[test]
fn windows_of_one_byte_do_not_keep_a_stream() {
    let mut hand = hand(None);
    let peer = hand.connect();
    let mut client = Http2Client::default();
    let stalled = client.request("GET", "/bytes/3000000", b"");
    hand.send(peer, client.poll_bytes());
    let reset = frame(3, 0, stalled, &[0, 0, 0, 8]);
    let seconds = seconds_until(
        &mut hand,
        |hand, _| hand.send(peer, frame(8, 0, stalled, &[0, 0, 0, 1])),
        |hand| hand.peer(peer).received.ends_with(&reset),
    );
    assert!((10..=21).contains(&seconds), "{seconds}");
}

/// A stalled response is reset; the upload beside it goes on.
#[test]
fn upload_goes_on_beside_a_stalled_response() {
    let mut hand = hand(None);
    let peer = hand.connect();
    let mut client = Http2Client::default();
    client.holds_windows = true;
    let stalled = client.request("GET", "/bytes/3000000", b"");
    let upload = client.begin("POST", "/echo", BodyLen::Exact(100));
    hand.send(peer, client.poll_bytes());
    for _ in 0..40 {
        hand.send(peer, frame(0, 0, upload, b"x"));
        hand.jump(SECOND);
    }
    receive(&mut hand, peer, &mut client);
    assert!(client.responses[&stalled].reset.is_some());
    assert_eq!(client.responses[&upload].reset, None);
}

/// The client is gone, and its handler has not responded yet.
#[test]
fn exchange_of_a_gone_client_ends() {
    let mut hand = hand(None);
    let peer = hand.connect();
    let mut client = Http2Client::default();
    client.request("GET", "/idle", b"");
    hand.send(peer, client.poll_bytes());
    hand.jump(30 * SECOND);
    assert!(hand.peer(peer).closed.is_none(), "the application may take any time");
    hand.finish(peer);
    let closed = |hand: &mut DeadlineHand| hand.peer(peer).closed.is_some();
    assert_eq!(seconds_until(&mut hand, |_, _| {}, closed), 10);
}

/// Acknowledgements in the layer are no message: over TLS too, PINGs do not extend the timeout.
#[test]
fn pings_over_tls_do_not_extend_the_idle_timeout() {
    let certs = Certs::new();
    let mut hand = hand(Some(&certs));
    let peer = hand.connect();
    let mut end = TlsEnd::new(client_tls(&certs).session("localhost").unwrap());
    let mut client = Http2Client::default();
    client.request("GET", "/bytes/1", b"");
    let mut request = Some(client.poll_bytes());
    let seconds = seconds_until(
        &mut hand,
        |hand, _| {
            for _ in 0..4 {
                hand.send(peer, end.take());
                end.wire.extend_from_slice(&std::mem::take(&mut hand.peer(peer).received));
                end.open().unwrap();
            }
            if let Some(request) = request.take() {
                end.send(&request);
            }
            end.send(&frame(6, 0, 0, b"pingpong"));
            hand.send(peer, end.take());
        },
        |hand| hand.peer(peer).closed.is_some(),
    );
    assert!((10..=12).contains(&seconds), "{seconds}");
}
