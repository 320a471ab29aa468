//! Who is counted, until when, and with which end: threads, children, those who leave.

use std::process::{Command, Stdio};
use std::time::Duration;

use fulmar_audit::{AuditError, Counter, Counts, End, Method};
use fulmar_tests::process::{self, PATIENCE, Process, eventually};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

/// Both counters; the kernel's where it may.
const METHODS: [Method; 2] = [Method::Best, Method::Trace];

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/dash");
    command.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs to the end of all that was started.
fn run(script: &str, method: Method) -> (End, Counts) {
    let counter = Counter::start(shell(script), method).expect("it starts");
    let end = counter.wait(Some(PATIENCE)).expect("it can be waited for");
    (end.expect("it ends"), counter.snapshot().expect("counts"))
}

fn code(end: End) -> Option<i32> {
    match end {
        End::Ended(status) => status.code(),
        End::Gone | End::Stopped => None,
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
        let End::Ended(status) = end else { panic!("{end:?}") };
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

/// Also those whose parents are gone, in a session of their own: a daemon.
#[test]
fn what_a_command_leaves_behind_is_followed_until_it_ends() {
    for method in METHODS {
        let script = "setsid sh -c 'sleep 0.2; cd /nowhere; exit 5' & exit 4";
        let (end, counts) = run(script, method);
        assert_eq!(code(end), Some(4), "{method:?}: the command's own");
        assert_eq!(counts.calls["chdir"].failed(), 1, "{counts:?}");
    }
}

#[test]
fn a_command_that_is_not_there() {
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
fn a_process_that_is_gone() {
    let gone = Process::start(&mut shell("exit 0"));
    let pid = gone.id();
    gone.wait();
    for method in METHODS {
        let error = Counter::join(pid, method).expect_err("none");
        assert!(matches!(error, AuditError::Gone { pid: told } if told == pid), "{error}");
        assert_eq!(error.to_string(), format!("no process has the number {pid}"));
    }
}

/// Not a child of ours: who traces hears of the end of its own children, and whoever waits for them
/// does not.
#[test]
fn a_process_that_was_running_is_joined_with_its_children_and_left_alone() {
    for method in METHODS {
        let script = "exec 3<&0; ((read line <&3; cd /nowhere) & wait; exit 8) & \
                      echo number $!; wait $!";
        let mut process = Process::start_with(&mut shell(script), Stdio::piped());
        let number = process.wait_stdout("number");
        let pid = number.split_whitespace().next_back().and_then(|pid| pid.parse().ok());
        let counter = Counter::join(pid.expect("a number"), method).expect("it runs");
        assert_eq!(counter.wait(Some(Duration::ZERO)).expect("no error"), None, "it runs on");
        process.close_stdin(); // the child ends, and then its parent
        assert_eq!(counter.wait(Some(PATIENCE)).expect("no error"), Some(End::Gone));
        let counts = counter.snapshot().expect("counts");
        let failed = counts.calls.get("chdir").map(fulmar_audit::Tally::failed);
        assert_eq!(failed, Some(1), "{method:?}: of the child: {counts:?}");
        assert_eq!((counts.processes, counts.lost), (2, 0), "{counts:?}");
        assert_eq!(process.wait().status.code(), Some(8));
    }
}

#[test]
fn a_wait_can_be_stopped_and_the_program_goes_on() {
    for method in METHODS {
        let process = Process::start_with(&mut shell("read line"), Stdio::piped());
        let counter = Counter::join(process.id(), method).expect("it runs");
        let stopper = counter.stopper();
        let other = std::thread::spawn(move || stopper.stop());
        assert_eq!(counter.wait(Some(PATIENCE)).expect("no error"), Some(End::Stopped));
        other.join().expect("no panic").expect("it can be woken");
        assert_eq!(counter.wait(Some(Duration::ZERO)).expect("no error"), None, "it runs on");
    }
}

/// Whoever is just becoming another program stops for that, and not once more because it was asked
/// to.
#[test]
fn a_process_is_joined_while_it_becomes_another_program() {
    let tree = Tree::new();
    let script = tree.root().join("again");
    // Written by another program: what another thread starts meanwhile would have it open for
    // writing for a moment, and nobody could run it (`ETXTBSY`).
    let text = "printf '#!/bin/sh\nexec \"$0\"\n' > \"$0\"; chmod 755 \"$0\"";
    process::run(Command::new("/bin/dash").args(["-c", text]).arg(&script));
    let process = Process::start(&mut Command::new(script));
    for _ in 0..20 {
        let counter = Counter::join(process.id(), Method::Trace).expect("it runs");
        eventually("it becomes another", || {
            counter.snapshot().expect("counts").calls.get("execve").is_some_and(|it| it.count > 1)
        });
    }
    process.signal(Signal::KILL);
    process.wait();
}

/// Whoever is traced stops when it is told to, and goes on when it is told to.
#[test]
fn a_traced_program_is_stopped_and_continued_as_ever() {
    let script = "trap 'exit 6' TERM; kill -STOP $$; while :; do cd /; done";
    let counter = Counter::start(shell(script), Method::Trace).expect("it starts");
    let pid = counter.pid();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_stopped = || stat().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('t'));
    let calls = || counter.snapshot().expect("counts").total();
    eventually("it stands", || {
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

/// A program that waits for its input, and the input, which ends it.
fn waiting() -> Process {
    let mut process = Process::start_with(&mut shell("echo waits; read line"), Stdio::piped());
    process.wait_stdout("waits");
    process
}

/// Who was counted is let go with the counter: for the next one, and to go on as ever.
#[test]
fn counters_of_one_process_follow_each_other() {
    for method in METHODS {
        let mut process = waiting();
        for at in 0..3 {
            let counter = Counter::join(process.id(), method);
            drop(counter.unwrap_or_else(|e| panic!("{method:?} {at}: {e}")));
        }
        process.close_stdin();
        assert_eq!(process.wait().status.code(), Some(1), "{method:?}: `read` found nothing");
    }
}

/// Only one can trace; the kernel counts for as many as ask.
#[test]
fn counters_of_one_process_at_the_same_time() {
    let mut process = waiting();
    let kernel =
        [Counter::join(process.id(), Method::Best), Counter::join(process.id(), Method::Best)];
    let [Ok(one), other] = kernel else { panic!("{kernel:?}") };
    if one.refused().is_some() {
        assert!(matches!(other, Err(AuditError::Traced { .. })), "{other:?}");
        return;
    }
    let traced = Counter::join(process.id(), Method::Trace).expect("nobody traces it");
    let error = Counter::join(process.id(), Method::Trace).expect_err("only one can");
    let AuditError::Traced { pid, by } = error else { panic!("{error}") };
    assert_eq!(pid, process.id());
    assert!(error.to_string().contains(&format!("is traced already, by {by},")), "{error}");
    process.close_stdin();
    for counter in [one, other.expect("the kernel does not mind"), traced] {
        assert_eq!(counter.wait(Some(PATIENCE)).expect("no error"), Some(End::Gone));
        let counts = counter.snapshot().expect("counts");
        assert!(counts.calls["read"].count >= 1, "{counts:?}");
    }
}
