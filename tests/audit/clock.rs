//! Clock reads, which are no system calls: by the library that a command loads.

use std::process::Command;

use fulmar_audit::{Clock, Counter, Counts, Method};
use fulmar_tests::process::{self, PATIENCE};

fn counted(mut command: Command) -> Counts {
    let clock = Clock::prepare(&mut command).expect("there is a compiler");
    let counter = Counter::start(command, Method::Best).expect("it starts").with_clock(clock);
    counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    counter.snapshot().expect("counts")
}

fn python(script: &str) -> Command {
    let mut command = process::python();
    command.args(["-I", "-c", &format!("import ctypes, os; c = ctypes.CDLL(None)\n{script}")]);
    command
}

/// What a start alone reads is left out; children count as their parents do.
#[test]
fn clock_reads_are_counted_in_all_processes() {
    let reads = |script: &str| counted(python(script)).clock_reads.expect("it was loaded");
    let none = reads("pid = os.fork()\nif pid: os.wait()");
    let some = reads("pid = os.fork()\nfor _ in range(40): c.time(None)\nif pid: os.wait()");
    assert_eq!(some - none, 80);
    // That clock, of processor time, takes a system call.
    let spent = reads(
        "pid = os.fork()\nfor _ in range(40): c.clock_gettime(2, b' ' * 16)\nif pid: os.wait()",
    );
    assert_eq!(spent, none);
}

#[test]
fn a_program_that_loads_nothing_is_not_said_to_read_no_clock() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exit 0"]);
    let clock = Clock::prepare(&mut command).expect("there is a compiler");
    command.env_remove("LD_PRELOAD");
    let counter = Counter::start(command, Method::Best).expect("it starts").with_clock(clock);
    counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    assert_eq!(counter.snapshot().expect("counts").clock_reads, None);
}
