//! `--timeline`: the calls of a request in order, as strace shows them.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use fulmar_audit::{AuditError, BackendChoice, Counter, CounterOptions, KernelRefusal};
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::Nginx;
use fulmar_tests::process::{ChildProcess, ExitOutput, eventually, fulmar, is_asleep, peer};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;
use serde_json::Value;

/// Name and result; -1 for a failure.
type CallResult = (String, i64);

/// The completed calls in the output of `strace -o`.
fn rows(written: &str) -> Vec<CallResult> {
    let row = |line: &str| {
        let (call, result) = line.rsplit_once(" = ")?;
        let name =
            call.split_once('(')?.0.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        Some((name.to_owned(), result.split(' ').next()?.parse().ok()?))
    };
    written.lines().filter_map(row).collect()
}

#[test]
fn the_timeline_of_nginx_equals_strace() {
    let nginx = Nginx::start();
    let scope = CounterOptions {
        method: BackendChoice::Kernel,
        timeline: true,
        ..CounterOptions::default()
    };
    let counter = match Counter::join(nginx.process.id(), scope) {
        Ok(counter) => counter,
        Err(AuditError::Refused(KernelRefusal::Privileges)) => return,
        Err(error) => panic!("{error}"),
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("calls");
    let mut strace = peer("strace");
    strace.args(["-p", &counter.pid().to_string(), "-o"]).arg(&file);
    let mut strace = ChildProcess::start(&mut strace);
    strace.wait_stderr("attached");
    let mut client = HttpClient::connect(nginx.address);
    client.get("/");
    quiet(&counter);
    counter.record().expect("it can be read");
    for _ in 0..3 {
        client.get("/");
    }
    quiet(&counter);
    let timeline = counter.timeline().expect("it can be read").expect("it was requested");
    strace.signal(Signal::INT);
    strace.wait();
    assert_eq!((timeline.left_out, timeline.lost), (0, 0));
    let result = |call: &fulmar_audit::TimedCall| call.error().map_or(call.result, |_| -1);
    let ours: Vec<_> =
        timeline.calls.iter().map(|call| (call.name.clone(), result(call))).collect();
    let theirs = rows(&fs::read_to_string(file).expect("it was written"));
    assert!(ours.len() >= 9 && theirs.ends_with(&ours), "{ours:?}\n{theirs:?}");
    let received = timeline.calls.iter().find(|call| call.name == "recvfrom").expect("a request");
    assert!(received.arguments.contains(r#", "GET / HTTP/1.1\r\n"#), "{received:?}");
    assert!(received.at_ns > Some(0) && received.took_ns > Some(0), "{received:?}");
    assert_eq!((received.process, received.thread), (counter.pid(), counter.pid()));
}

/// Waits until the process is idle.
fn quiet(counter: &Counter) {
    let mut last = 0;
    eventually("it is quiet", || {
        thread::park_timeout(Duration::from_millis(50));
        let now = counter.snapshot().expect("counts").total();
        std::mem::replace(&mut last, now) == now && is_asleep(counter.pid())
    });
}

/// `fulmar audit` of `fulmar serve` with these options.
fn of_serve(options: &[&str]) -> ExitOutput {
    let tree = Tree::new();
    tree.file("a.txt", "a file\n");
    let socket = tree.turn_while("socket").display().to_string();
    let listen = format!("unix:{socket}");
    let mut command = Command::new(fulmar());
    command.args(["audit", "--load", "http://localhost/a.txt", "--unix-socket", &socket]);
    command.args(["-c", "2", "-n", "40", "--warm-up", "3"]).args(options).arg("--").arg(fulmar());
    command.arg("serve").arg(tree.root()).args(["--driver", "epoll", "--listen", &listen]);
    let ended = ChildProcess::start(&mut command).wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    ended
}

/// The names of the calls of a connection, without those that failed with `EAGAIN`.
fn names(json: &Value) -> Vec<&str> {
    let calls = json["timeline"]["calls"].as_array().expect("a list");
    let found = calls.iter().filter(|call| call["error"].is_null());
    let names = found.map(|call| call["call"].as_str().expect("a name"));
    names.filter(|name| ["accept4", "recvfrom", "sendto", "close"].contains(name)).collect()
}

#[test]
fn the_timeline_follows_the_load() {
    for counter in ["best", "ptrace"] {
        let options = ["--json", "--timeline=2", "--counter", counter];
        let json: Value = serde_json::from_str(&of_serve(&options).stdout).expect("one object");
        let timeline = &json["timeline"];
        assert_eq!((&timeline["requests"], &timeline["lost"]), (&2.into(), &0.into()), "{json}");
        let expected = ["accept4", "recvfrom", "sendto", "recvfrom", "sendto", "recvfrom", "close"];
        assert_eq!(names(&json), expected, "{counter}: {json}");
        assert_eq!(json["groups"]["send"], 40, "they are not counted: {json}");
        let calls = timeline["calls"].as_array().expect("a list");
        let sent = calls.iter().find(|call| call["call"] == "sendto").expect("an answer");
        let arguments = sent["arguments"].as_str().expect("text");
        assert!(arguments.contains(r#""HTTP/1.1 200 OK\r\n"#), "{sent}");
        assert!(sent["took_us"].as_f64() > Some(0.0), "{sent}");
    }
}

#[test]
fn the_timeline_is_printed_as_text() {
    let text = of_serve(&["--timeline"]).stdout;
    assert!(text.contains("  timeline        1 request more, on one connection"), "{text}");
    assert!(text.contains(r#", "GET /a.txt HTTP/1.1\r\n"#), "{text}");
    let close = text.lines().find(|line| line.contains("close(")).expect("it was closed");
    assert!(close.ends_with(") = 0"), "{close}");
}

#[test]
fn without_a_load_the_first_calls_are_listed() {
    for counter in ["best", "ptrace"] {
        let mut command = Command::new(fulmar());
        command.args(["audit", "--json", "--timeline=2", "--counter", counter]);
        command.args(["--", "/bin/dash", "-c", "cd /"]);
        let ended = ChildProcess::start(&mut command).wait();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
        let calls = json["timeline"]["calls"].as_array().expect("a list");
        assert_eq!((calls.len(), &calls[0]["call"]), (2, &"execve".into()), "{json}");
        let all = json["all"]["calls"].as_u64();
        assert_eq!(json["timeline"]["left_out"].as_u64().map(|n| n + 2), all, "{json}");
        assert_eq!(json["timeline"]["requests"], Value::Null);
    }
}
