//! What was seen and could not be entered is told, never left out in silence.

use fulmar_audit::{Backend, Counter, Counts, Method};
use fulmar_tests::process::{PATIENCE, peer};

/// Counts of a Python script, in which `call` makes a system call by its number.
fn counts(script: &str, method: Method) -> Counts {
    let mut command = peer("python3");
    let call = "import ctypes; call = ctypes.CDLL(None).syscall";
    command.args(["-I", "-c", &format!("{call}\n{script}")]);
    let counter = Counter::start(command, method).expect("it starts");
    counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    counter.snapshot().expect("counts")
}

/// A number of another table (x32) would be counted as a call that it is not.
#[test]
fn calls_by_the_numbers_of_another_table() {
    for method in [Method::Best, Method::Trace] {
        let counts = counts("[call(0x40000000 + 39) for _ in range(5)]", method);
        assert_eq!(counts.lost, 5, "{counts:?}");
        let unnamed = |name: &&String| name.starts_with("syscall_");
        assert_eq!(counts.calls.keys().find(unnamed), None, "{counts:?}");
    }
}

/// The kernel's counter has a table of kinds, of limited size; the calls are counted all the same.
#[test]
fn kinds_beyond_those_that_are_told_apart() {
    let counts = counts("[call(16, -1, 0x7000 + at) for at in range(5000)]", Method::Best);
    assert!(counts.calls["ioctl"].count >= 5_000, "{counts:?}");
    let told: u64 = counts.calls["ioctl"].kinds.values().sum();
    if counts.backend == Backend::Ebpf {
        assert!((900..=5_000).contains(&counts.lost), "{} lost", counts.lost);
        assert_eq!(told + counts.lost, counts.calls["ioctl"].count);
    }
}
