//! Clock reads, which are no system calls: counted by a preloaded library.

use std::process::Command;

use fulmar_audit::{BackendChoice, CallCounts, ClockShim, Counter};
use fulmar_tests::process::{self, PATIENCE};

fn counted(mut command: Command) -> CallCounts {
    let clock = ClockShim::prepare(&mut command).expect("there is a compiler");
    let counter =
        Counter::start(command, BackendChoice::Best).expect("it starts").with_clock(clock);
    counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    counter.snapshot().expect("counts")
}

fn python(script: &str) -> Command {
    let mut command = process::python();
    command.args(["-I", "-c", &format!("import ctypes, os; c = ctypes.CDLL(None)\n{script}")]);
    command
}

/// Reads at the start alone are subtracted. Children count like their parents.
#[test]
fn clock_reads_are_counted_in_all_processes() {
    let reads = |script: &str| counted(python(script)).clock_reads.expect("it was loaded");
    let none = reads("pid = os.fork()\nif pid: os.wait()");
    let some = reads("pid = os.fork()\nfor _ in range(40): c.time(None)\nif pid: os.wait()");
    assert_eq!(some - none, 80);
    // This clock measures processor time, and needs a system call.
    let spent = reads(
        "pid = os.fork()\nfor _ in range(40): c.clock_gettime(2, b' ' * 16)\nif pid: os.wait()",
    );
    assert_eq!(spent, none);
}

#[test]
fn clock_reads_of_a_static_program_are_unknown() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exit 0"]);
    let clock = ClockShim::prepare(&mut command).expect("there is a compiler");
    command.env_remove("LD_PRELOAD");
    let counter =
        Counter::start(command, BackendChoice::Best).expect("it starts").with_clock(clock);
    counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    assert_eq!(counter.snapshot().expect("counts").clock_reads, None);
}
