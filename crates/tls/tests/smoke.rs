//! Runs the fuzz targets for records and modified bytes with a fixed seed.

#[path = "../../../fuzz/src/tls.rs"]
#[allow(unreachable_pub, reason = "a separate crate in fuzz")]
mod fuzz;

#[path = "../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, dead_code, reason = "as above")]
mod mutate;

use mutate::Random;

#[test]
fn unmodified_records_deliver_every_byte() {
    fuzz::wire(b"");
}

#[test]
fn random_records_are_rejected() {
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
fn modified_bytes_are_never_delivered() {
    let mut random = Random(SEED);
    for round in 0..150 {
        let [low, high, mask, ..] = random.next().to_le_bytes();
        let data = [high % 16, low, mask | 1];
        let result = std::panic::catch_unwind(|| fuzz::wire(&data));
        assert!(result.is_ok(), "round {round}: {}", data.escape_ascii());
    }
}

const SEED: u64 = 0xfeed_f00d_1234_5678;
