//! Runs the fuzz target on mutated configurations, with a fixed seed. The originals are the
//! configurations that are compared with HAProxy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

#[path = "../../../../fuzz/src/haproxy.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a crate of its own elsewhere")]
mod fuzz;

#[path = "../../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, reason = "as above")]
pub(crate) mod mutate;

use mutate::{Random, mutate};

#[test]
fn mutated_configurations_are_read_or_refused() {
    let corpus = corpus();
    corpus.iter().for_each(|case| fuzz::configuration(case));
    let mut random = Random(SEED);
    for round in 0..ROUNDS {
        let mut data = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(8) {
            mutate(&mut data, &corpus, &mut random);
        }
        let result = catch_unwind(AssertUnwindSafe(|| fuzz::configuration(&data)));
        assert!(result.is_ok(), "round {round}: {}", data.escape_ascii());
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/haproxy/valid");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a configuration")).collect()
}

const SEED: u64 = 0x0f17_7a9e_55aa_1234;
const ROUNDS: usize = 600;
