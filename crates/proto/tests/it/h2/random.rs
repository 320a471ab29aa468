//! Random frames, and both roles back to back with random steps: the fuzz targets with a seed, and
//! that any cut of the bytes gives the same events.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{BodyLen, Client, Server};
use proptest::prelude::*;

use super::wire::{
    END_HEADERS, HEADERS, PING, PRIORITY, RawPeer, RecordedSide, WHOLE, block, data, frame,
    get_frame, post_frame, reset, settings, window_update,
};

#[path = "../../../../../fuzz/src/streams.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a crate of its own elsewhere")]
mod fuzz;

use crate::smoke::mutate::Random;

type StreamsTarget = (&'static str, fn(&[u8]));

/// Runs a target on random bytes.
fn smoke((name, target): StreamsTarget, rounds: usize, len_max: usize) {
    let mut random = Random(SEED);
    for round in 0..rounds {
        let len = random.below(len_max);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
        // Most frames are of few streams and of known types.
        if name != "back_to_back" {
            for frame in bytes.chunks_mut(5) {
                let kind = [0, 0, 1, 1, 1, 2, 3, 4, 6, 7, 8, 9, 16, frame[0]];
                frame[0] = kind[random.below(kind.len())];
                if let [_, flags, stream, payload, ..] = frame {
                    *stream = (*stream % 8) | 1;
                    *flags &= 0x0d;
                    *payload %= 5; // short, and no more bytes of the data
                }
            }
        }
        let result = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
        assert!(result.is_ok(), "{name}, round {round}: {bytes:?}");
    }
}

#[test]
fn random_frames_give_events_or_an_error() {
    smoke(("server_frames", fuzz::server_frames), 500, 200);
    smoke(("client_frames", fuzz::client_frames), 500, 200);
}

#[test]
fn random_steps_lose_no_message() {
    smoke(("back_to_back", fuzz::back_to_back), 600, 600);
}

/// A sweep resets many streams at once: more than a server bears in two of them.
#[test]
fn requests_that_time_out_are_resets_of_the_client() {
    let opened = |streams| [0, 0].repeat(streams);
    let given_up = [15, 255].repeat(2);
    let steps = [opened(100), given_up.clone(), opened(60), given_up].concat();
    fuzz::back_to_back(&[&[0], &steps[..]].concat());
}

/// One frame, mostly valid.
fn any_frame(response: bool) -> impl Strategy<Value = Vec<u8>> {
    let id = (0u32..5).prop_map(|n| n * 2 + 1);
    let status = move |flags: u8, id: u32| match response {
        true => frame(HEADERS, flags, id, block(&[(":status", b"200"), ("x", b"y")])),
        false => get_frame(flags, id),
    };
    let body = proptest::collection::vec(any::<u8>(), 0..60);
    prop_oneof![
        4 => id.clone().prop_map(move |id| status(END_HEADERS, id)),
        2 => id.clone().prop_map(move |id| status(WHOLE, id)),
        1 => id.clone().prop_map(post_frame),
        4 => (id.clone(), body.clone()).prop_map(|(id, body)| data(0, id, body)),
        2 => (id.clone(), body.clone()).prop_map(|(id, body)| data(1, id, body)),
        1 => (id.clone(), body.clone()).prop_map(|(id, body)| data(8, id, body)),
        1 => id.clone().prop_map(|id| frame(HEADERS, WHOLE, id, block(&[("x", b"y")]))),
        1 => id.clone().prop_map(|id| reset(id, ErrorCode::Cancel)),
        1 => (id.clone(), 0u32..9).prop_map(|(id, n)| window_update(id, n)),
        1 => (0u32..70_000).prop_map(|n| settings(&[(4, n)])),
        1 => id.clone().prop_map(|id| frame(PRIORITY, 0, id, [0, 0, 0, 0, 1])),
        1 => Just(frame(PING, 0, 0, [0; 8])),
        1 => Just(frame(77, 3, 0, b"unknown")),
        1 => (any::<u8>(), 0u8..18, id, body)
            .prop_map(|(flags, kind, id, body)| frame(kind, flags, id, body)),
    ]
}

/// What comes of the bytes in pieces of these sizes.
fn outcome<S: RecordedSide>(
    mut peer: RawPeer<S>,
    bytes: &[u8],
    sizes: &[usize],
) -> (Vec<String>, String) {
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (piece, later) = rest.split_at(rest.len().min(*size));
        peer.feed(piece);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    peer.end();
    (peer.merged(), peer.errors_sent())
}

fn client() -> RawPeer<Client> {
    let mut peer = RawPeer::client(3);
    peer.request("HEAD", BodyLen::Empty);
    peer.request("POST", BodyLen::Unknown);
    peer.frames.clear();
    peer
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_cut_gives_the_same_events(
        requests in proptest::collection::vec(any_frame(false), 1..30),
        responses in proptest::collection::vec(any_frame(true), 1..30),
        sizes in proptest::collection::vec(1usize..50, 1..5),
    ) {
        let bytes = requests.concat();
        let whole = outcome::<Server>(RawPeer::server(), &bytes, &[bytes.len()]);
        prop_assert_eq!(&outcome::<Server>(RawPeer::server(), &bytes, &sizes), &whole);
        prop_assert_eq!(&outcome::<Server>(RawPeer::server(), &bytes, &[1]), &whole);
        let bytes = responses.concat();
        let whole = outcome(client(), &bytes, &[bytes.len()]);
        prop_assert_eq!(&outcome(client(), &bytes, &sizes), &whole);
        prop_assert_eq!(&outcome(client(), &bytes, &[1]), &whole);
    }
}

const SEED: u64 = 0x5eed_4821;
