//! Events that cannot be counted by name are counted as lost.

use fulmar_audit::{BackendChoice, CallCounts, Counter, CountingBackend};
use fulmar_tests::process::{PATIENCE, peer};

/// Counts of a Python script in which `call` makes a system call by its number.
fn counts(script: &str, method: BackendChoice) -> CallCounts {
    let mut command = peer("python3");
    let call = "import ctypes; call = ctypes.CDLL(None).syscall";
    command.args(["-I", "-c", &format!("{call}\n{script}")]);
    let counter = Counter::start(command, method).expect("it starts");
    counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    counter.snapshot().expect("counts")
}

/// A number of another table (x32) must not be counted as the call with the same low bits.
#[test]
fn calls_with_x32_numbers_are_lost() {
    for method in [BackendChoice::Best, BackendChoice::Trace] {
        let counts = counts("[call(0x40000000 + 39) for _ in range(5)]", method);
        assert_eq!(counts.lost, 5, "{counts:?}");
        let unnamed = |name: &&String| name.starts_with("syscall_");
        assert_eq!(counts.calls.keys().find(unnamed), None, "{counts:?}");
    }
}

/// The map of kinds has a limited size. Calls beyond it are still counted.
#[test]
fn kinds_beyond_the_limit_are_lost() {
    let counts = counts("[call(16, -1, 0x7000 + at) for at in range(5000)]", BackendChoice::Best);
    assert!(counts.calls["ioctl"].count >= 5_000, "{counts:?}");
    let told: u64 = counts.calls["ioctl"].kinds.values().sum();
    if counts.backend == CountingBackend::Ebpf {
        assert!((900..=5_000).contains(&counts.lost), "{} lost", counts.lost);
        assert_eq!(told + counts.lost, counts.calls["ioctl"].count);
    }
}
