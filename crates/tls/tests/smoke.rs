//! The fuzz targets on records and changes with a seed: what every test run can afford of fuzzing.

#[path = "../../../fuzz/src/tls.rs"]
#[allow(unreachable_pub, reason = "a crate of its own elsewhere")]
mod fuzz;

#[path = "../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, dead_code, reason = "as above")]
mod mutate;

use mutate::Random;

#[test]
fn an_honest_wire_carries_every_byte() {
    fuzz::wire(b"");
}

#[test]
fn records_of_any_bytes_are_refused() {
    let mut random = Random(SEED);
    for round in 0..2_000_usize {
        let mut data = vec![random.next().to_le_bytes()[0]];
        let len = u8::try_from(round % 200).expect("below 200");
        data.extend([22, 3, 3, 0, len, 1 + u8::from(round % 2 == 0), 0, 0, len.saturating_sub(4)]);
        data.extend((0..len).map(|_| random.next().to_le_bytes()[0]));
        fuzz::records(&data);
    }
}

#[test]
fn changed_bytes_are_never_delivered() {
    let mut random = Random(SEED);
    for round in 0..150 {
        let [low, high, mask, ..] = random.next().to_le_bytes();
        let data = [high % 16, low, mask | 1];
        let result = std::panic::catch_unwind(|| fuzz::wire(&data));
        assert!(result.is_ok(), "round {round}: {}", data.escape_ascii());
    }
}

const SEED: u64 = 0xfeed_f00d_1234_5678;
