//! The fuzz targets on mutated cases, with a seed: what every test run can afford of fuzzing.

use std::panic::{AssertUnwindSafe, catch_unwind};

mod common;

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a crate of its own elsewhere")]
mod fuzz;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 5] = [
    ("request_head", fuzz::request_head),
    ("response_head", fuzz::response_head),
    ("chunked", fuzz::chunked),
    ("server_connection", fuzz::server_connection),
    ("client_connection", fuzz::client_connection),
];

#[test]
fn mutated_cases_give_events_or_errors() {
    let corpus: Vec<Vec<u8>> =
        common::cases().into_iter().map(|case| case.input).filter(|c| c.len() < 600).collect();
    let mut random = Random(SEED);
    for round in 0..ROUNDS {
        let mut data = random.next().to_le_bytes()[..4].to_vec();
        data.extend_from_slice(&corpus[random.below(corpus.len())]);
        for _ in 0..random.below(4) {
            mutate(&mut data, &corpus, &mut random);
        }
        let (name, target) = TARGETS[round % TARGETS.len()];
        let result = catch_unwind(AssertUnwindSafe(|| target(&data)));
        assert!(result.is_ok(), "{name}, round {round}: {}", common::escape(&data));
    }
}

fn mutate(data: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(data.len());
    match random.below(6) {
        0 => data[at] = random.next().to_le_bytes()[0],
        1 => data[at] ^= 1 << random.below(8),
        2 => drop(data.remove(at)),
        3 => data.insert(at, SPECIAL[random.below(SPECIAL.len())]),
        4 => {
            let other = &corpus[random.below(corpus.len())];
            data.truncate(at.max(4));
            data.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        _ => {
            let end = (at + random.below(40)).min(data.len());
            let piece = data[at..end].to_vec();
            data.splice(at..at, piece);
        }
    }
    if data.len() < 5 {
        data.extend_from_slice(b"GET /");
    }
}

/// xorshift64*: reproducible, and good enough to break things.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % n.max(1)
    }
}

const SEED: u64 = 0x5eed_00f0_1a2b;
const ROUNDS: usize = 400_000;
const SPECIAL: &[u8] = b"\r\n\0 \t:;,=\"\\#%0fF\x7f\xff";
