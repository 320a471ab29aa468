//! Which processes are counted, until when, and how counting ends: threads, children, daemons.

use std::process::{Command, Stdio};
use std::time::Duration;

use fulmar_audit::{AuditError, BackendChoice, CallCounts, Counter, CounterEnd};
use fulmar_tests::process::{self, ChildProcess, PATIENCE, eventually};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

/// Both counters; eBPF where permitted.
const METHODS: [BackendChoice; 2] = [BackendChoice::Best, BackendChoice::Trace];

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/dash");
    command.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs the script until all its processes have ended.
fn run(script: &str, method: BackendChoice) -> (CounterEnd, CallCounts) {
    let counter = Counter::start(shell(script), method).expect("it starts");
    let end = counter.wait(Some(PATIENCE)).expect("it can be waited for");
    (end.expect("it ends"), counter.snapshot().expect("counts"))
}

fn code(end: CounterEnd) -> Option<i32> {
    match end {
        CounterEnd::Ended(status) => status.code(),
        CounterEnd::Gone | CounterEnd::Stopped => None,
    }
}

#[test]
fn a_command_that_ends_early_has_its_own_status() {
    for method in METHODS {
        let (end, counts) = run("exit 7", method);
        assert_eq!(code(end), Some(7), "{method:?}");
        assert_eq!(counts.calls["execve"].count, 1);
        assert_eq!((counts.threads, counts.processes, counts.lost), (1, 1, 0), "{counts:?}");
    }
}

#[test]
fn a_command_that_a_signal_ends() {
    use std::os::unix::process::ExitStatusExt;
    for method in METHODS {
        let (end, _) = run("kill -KILL $$", method);
        let CounterEnd::Ended(status) = end else { panic!("{end:?}") };
        assert_eq!(status.signal(), Some(9), "{method:?}");
    }
}

#[test]
fn children_are_followed() {
    for method in METHODS {
        let (end, counts) = run("(cd /nowhere); (cd /nowhere); wait; exit 0", method);
        assert_eq!(code(end), Some(0));
        assert_eq!(counts.calls["chdir"].failed(), 2, "{method:?}: {counts:?}");
        assert_eq!(counts.processes, 3);
    }
}

/// Orphans in a session of their own too: a daemon.
#[test]
fn daemons_of_a_command_are_followed_until_they_end() {
    for method in METHODS {
        let script = "setsid sh -c 'sleep 0.2; cd /nowhere; exit 5' & exit 4";
        let (end, counts) = run(script, method);
        assert_eq!(code(end), Some(4), "{method:?}: the command's own");
        assert_eq!(counts.calls["chdir"].failed(), 1, "{counts:?}");
    }
}

#[test]
fn a_missing_command_is_reported() {
    for method in METHODS {
        let error = Counter::start(Command::new("/nowhere/program"), method).expect_err("none");
        let AuditError::Command { program, cause } = &error else { panic!("{error}") };
        assert_eq!(
            (program.as_str(), cause.kind()),
            ("/nowhere/program", std::io::ErrorKind::NotFound)
        );
        assert!(error.to_string().starts_with("/nowhere/program: No such file"), "{error}");
    }
}

#[test]
fn a_missing_process_is_reported() {
    let gone = ChildProcess::start(&mut shell("exit 0"));
    let pid = gone.id();
    gone.wait();
    for method in METHODS {
        let error = Counter::join(pid, method).expect_err("none");
        assert!(matches!(error, AuditError::Gone { pid: told } if told == pid), "{error}");
        assert_eq!(error.to_string(), format!("no such process: {pid}"));
    }
}

/// The process is not a child of the test: a tracer also reaps its own children, and would hide the
/// end of this one.
#[test]
fn a_running_process_is_attached_with_its_children_and_left_running() {
    for method in METHODS {
        let script = "exec 3<&0; ((read line <&3; cd /nowhere) & wait; exit 8) & \
                      echo number $!; wait $!";
        let mut process = ChildProcess::start_with(&mut shell(script), Stdio::piped());
        let number = process.wait_stdout("number");
        let pid = number.split_whitespace().next_back().and_then(|pid| pid.parse().ok());
        let counter = Counter::join(pid.expect("a number"), method).expect("it runs");
        assert_eq!(counter.wait(Some(Duration::ZERO)).expect("no error"), None, "it runs on");
        process.close_stdin(); // the child exits, and then its parent
        assert_eq!(counter.wait(Some(PATIENCE)).expect("no error"), Some(CounterEnd::Gone));
        let counts = counter.snapshot().expect("counts");
        let failed = counts.calls.get("chdir").map(fulmar_audit::CallTally::failed);
        assert_eq!(failed, Some(1), "{method:?}: of the child: {counts:?}");
        assert_eq!((counts.processes, counts.lost), (2, 0), "{counts:?}");
        assert_eq!(process.wait().status.code(), Some(8));
    }
}

#[test]
fn a_wait_can_be_stopped_and_the_program_continues() {
    for method in METHODS {
        let process = ChildProcess::start_with(&mut shell("read line"), Stdio::piped());
        let counter = Counter::join(process.id(), method).expect("it runs");
        let stopper = counter.stopper();
        let other = std::thread::spawn(move || stopper.stop());
        assert_eq!(counter.wait(Some(PATIENCE)).expect("no error"), Some(CounterEnd::Stopped));
        other.join().expect("no panic").expect("it can be woken");
        assert_eq!(counter.wait(Some(Duration::ZERO)).expect("no error"), None, "it runs on");
    }
}

/// A process in the middle of an execve stops for the execve, and not once more for the interrupt.
#[test]
fn a_process_can_be_attached_during_an_execve() {
    let tree = Tree::new();
    let script = tree.root().join("again");
    // A shell writes the script. If the test wrote it, a child of another thread might still hold
    // it open for writing, and execve would fail with `ETXTBSY`.
    let text = "printf '#!/bin/sh\nexec \"$0\"\n' > \"$0\"; chmod 755 \"$0\"";
    process::run(Command::new("/bin/dash").args(["-c", text]).arg(&script));
    let process = ChildProcess::start(&mut Command::new(script));
    for _ in 0..20 {
        let counter = Counter::join(process.id(), BackendChoice::Trace).expect("it runs");
        eventually("it becomes another", || {
            counter.snapshot().expect("counts").calls.get("execve").is_some_and(|it| it.count > 1)
        });
    }
    process.signal(Signal::KILL);
    process.wait();
}

/// A traced program still stops at SIGSTOP and continues at SIGCONT.
#[test]
fn a_traced_program_stops_and_continues_by_signals() {
    let script = "trap 'exit 6' TERM; kill -STOP $$; while :; do cd /; done";
    let counter = Counter::start(shell(script), BackendChoice::Trace).expect("it starts");
    let pid = counter.pid();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_stopped = || stat().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('t'));
    let calls = || counter.snapshot().expect("counts").total();
    eventually("it is stopped", || {
        let before = calls();
        is_stopped()
            && calls() == before
            && counter.snapshot().is_ok_and(|c| c.calls.contains_key("kill"))
    });
    let target = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(target, Signal::CONT).expect("it is there");
    eventually("it goes on", || counter.snapshot().expect("counts").calls.contains_key("chdir"));
    rustix::process::kill_process(target, Signal::TERM).expect("it is there");
    let end = counter.wait(Some(PATIENCE)).expect("no error");
    assert_eq!(end.and_then(code), Some(6));
}

/// A program that waits for its input; closing it ends the program.
fn waiting() -> ChildProcess {
    let mut process = ChildProcess::start_with(&mut shell("echo waits; read line"), Stdio::piped());
    process.wait_stdout("waits");
    process
}

/// Dropping a counter releases its process: for the next counter, and to continue untraced.
#[test]
fn a_process_can_be_counted_again() {
    for method in METHODS {
        let mut process = waiting();
        for at in 0..3 {
            let counter = Counter::join(process.id(), method);
            drop(counter.unwrap_or_else(|e| panic!("{method:?} {at}: {e}")));
        }
        process.close_stdin();
        assert_eq!(process.wait().status.code(), Some(1), "{method:?}: `read` saw end of file");
    }
}

/// Only one tracer is possible; eBPF counts for any number of counters.
#[test]
fn a_process_can_have_several_counters() {
    let mut process = waiting();
    let kernel = [
        Counter::join(process.id(), BackendChoice::Best),
        Counter::join(process.id(), BackendChoice::Best),
    ];
    let [Ok(one), other] = kernel else { panic!("{kernel:?}") };
    if one.refused().is_some() {
        assert!(matches!(other, Err(AuditError::Traced { .. })), "{other:?}");
        return;
    }
    let traced = Counter::join(process.id(), BackendChoice::Trace).expect("no tracer yet");
    let error = Counter::join(process.id(), BackendChoice::Trace).expect_err("only one can");
    let AuditError::Traced { pid, by } = error else { panic!("{error}") };
    assert_eq!(pid, process.id());
    assert!(error.to_string().contains(&format!("is already traced by {by}:")), "{error}");
    process.close_stdin();
    for counter in [one, other.expect("the kernel does not mind"), traced] {
        assert_eq!(counter.wait(Some(PATIENCE)).expect("no error"), Some(CounterEnd::Gone));
        let counts = counter.snapshot().expect("counts");
        assert!(counts.calls["read"].count >= 1, "{counts:?}");
    }
}
