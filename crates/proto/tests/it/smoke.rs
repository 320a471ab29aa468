//! The fuzz targets on mutated cases, with a seed: what every test run can afford of fuzzing.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "../../../../fuzz/src/proto.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a crate of its own elsewhere")]
mod fuzz;

#[path = "../../../../fuzz/src/middle.rs"]
#[allow(unreachable_pub, reason = "as above")]
mod hostile;

#[path = "../../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, reason = "as above")]
pub(crate) mod mutate;

use mutate::{Random, mutate};

type ProtoTarget = (&'static str, fn(&[u8]));

const TARGETS: [ProtoTarget; 5] = [
    ("request_head", fuzz::request_head),
    ("response_head", fuzz::response_head),
    ("chunked", fuzz::chunked),
    ("server_connection", fuzz::server_connection),
    ("client_connection", fuzz::client_connection),
];

#[test]
fn mutated_cases_give_events_or_errors() {
    let corpus: Vec<Vec<u8>> = crate::common::cases()
        .into_iter()
        .map(|case| case.input)
        .filter(|c| c.len() < 600)
        .collect();
    let mut random = Random(SEED);
    for round in 0..ROUNDS {
        let mut data = random.next().to_le_bytes()[..4].to_vec();
        data.extend_from_slice(&corpus[random.below(corpus.len())]);
        for _ in 0..random.below(4) {
            mutate(&mut data, &corpus, &mut random);
        }
        let (name, target) = TARGETS[round % TARGETS.len()];
        let result = catch_unwind(AssertUnwindSafe(|| target(&data)));
        assert!(result.is_ok(), "{name}, round {round}: {}", crate::common::escape(&data));
    }
}

#[test]
fn an_honest_middle_changes_nothing() {
    for plan in 0..=u16::MAX {
        let [kind, size] = plan.to_be_bytes();
        if size % 51 == 0 {
            hostile::middle(&[kind, size]);
        }
    }
}

#[test]
fn a_hostile_middle_gives_events_or_errors() {
    let mut random = Random(SEED);
    for round in 0..20_000 {
        let len = 2 + 4 * (1 + random.below(4));
        let data: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
        let result = catch_unwind(AssertUnwindSafe(|| hostile::middle(&data)));
        assert!(result.is_ok(), "round {round}: {}", crate::common::escape(&data));
    }
}

const SEED: u64 = 0x5eed_00f0_1a2b;
const ROUNDS: usize = 400_000;
