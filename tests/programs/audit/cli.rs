//! `fulmar audit` on the command line: tables, records, budgets, messages, exit statuses.

use std::fs;
use std::path::Path;
use std::process::Command;

use fulmar_tests::load::{Nginx, scripted};
use fulmar_tests::process::{ChildProcess, ExitOutput, fulmar, peer, run};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;
use serde_json::Value;

/// Runs `fulmar audit` with these arguments.
fn audit(arguments: &[&str]) -> ExitOutput {
    ChildProcess::start(Command::new(fulmar()).arg("audit").args(arguments)).wait()
}

/// Audits `fulmar serve` on a Unix socket under 200 requests on one connection.
fn of_serve(tree: &Tree, arguments: &[&str]) -> ExitOutput {
    let (root, socket) = (tree.root(), tree.root().join(".socket"));
    let (root, socket) = (root.display().to_string(), socket.display().to_string());
    let _ = fs::remove_file(&socket); // from the previous run
    let listen = format!("unix:{socket}");
    let load = ["--load", "http://localhost/a.txt", "--unix-socket", &socket, "-c", "1"];
    let program = ["--", fulmar().to_str().expect("UTF-8"), "serve", &root, "--driver", "epoll"];
    let (size, listen) = (["-n", "200", "--warm-up", "20"], ["--listen", &listen]);
    audit(&[&load[..], &size, arguments, &program, &listen].concat())
}

fn tree() -> Tree {
    let tree = Tree::new();
    tree.file("a.txt", "a file\n");
    tree
}

fn status(ended: &ExitOutput) -> Option<i32> {
    ended.status.code()
}

fn file(tree: &Tree, name: &str, text: &str) -> String {
    let path = tree.root().join(name);
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn a_server_is_counted_request_by_request() {
    let ended = of_serve(&tree(), &["--json"]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    let calls = |name: &str| json["calls"][name]["calls"].as_u64().unwrap_or(0);
    assert_eq!((&json["unit"]["noun"], &json["unit"]["count"]), (&"request".into(), &200.into()));
    // Once a second the server opens the file again to check for changes.
    let opened = calls("openat2");
    let seconds = json["elapsed_s"].as_f64().expect("a number");
    assert!(opened as f64 <= seconds + 1.0, "the file is known: {json}");
    let closed = calls("close") - opened;
    assert_eq!((calls("sendto"), calls("accept4"), closed), (200, 1, 1), "{json}");
    let received = calls("recvfrom");
    assert!((200..=202).contains(&received), "with the connection's end: {received}");
    assert_eq!(json["calls"]["sendto"]["per_unit"], 1.0);
    assert_eq!(calls("execve"), 0, "the program has begun");
    assert_eq!((&json["lost"], &json["load"]["warm_up"]), (&0.into(), &20.into()));
    assert_eq!(json["processes"], 1);
}

/// Streams share calls, and each of them is a request.
#[test]
fn calls_are_divided_by_streams() {
    let ended = of_serve(&tree(), &["--json", "--http2", "-m", "50"]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!((&json["unit"]["noun"], &json["unit"]["count"]), (&"request".into(), &200.into()));
    let calls = |name: &str| json["calls"][name]["calls"].as_u64().unwrap_or(0);
    assert!((1..=40).contains(&(calls("sendto") + calls("sendmsg"))), "{json}");
    assert!((1..=60).contains(&calls("recvfrom")), "{json}");
}

#[test]
fn a_table_is_printed_and_a_record_is_written() {
    let tree = tree();
    let record = file(&tree, "kept.txt", "");
    let ended = of_serve(&tree, &["--record", &record]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    for part in ["200 requests answered over 1 connection, after 20", "per request", "by group"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let text = fs::read_to_string(&record).expect("it was written");
    assert!(text.starts_with("fulmar audit record 1\ncommand "), "{text}");
    assert!(text.contains("\nunit request 200\n") && text.contains("\ncall sendto 200 "), "{text}");
    let ended = of_serve(&tree, &["--compare", &record]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let row = ended.stdout.lines().find(|line| line.contains("sendto"));
    let cells: Vec<_> = row.expect("a row").split_whitespace().collect();
    assert_eq!(cells, ["sendto", "1.0000", "1.0000", "same"]);
}

#[test]
fn a_budget_fails_a_build() {
    let tree = tree();
    let holds = file(&tree, "holds.toml", "all = 4\nsend = 1\neagain = 0.1\n");
    let ended = of_serve(&tree, &["--budget", &holds]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let tight = file(&tree, "tight.toml", "send = 0.75\nall = 4");
    let ended = of_serve(&tree, &["--budget", &tight]);
    assert_eq!(status(&ended), Some(1), "{ended:?}");
    let complaint = "send: 1.0000 exceeds 0.75 by 0.2500";
    assert!(ended.stderr.contains(complaint) && !ended.stderr.contains("all:"), "{ended:?}");
}

#[test]
fn two_programs_are_compared() {
    let tree = tree();
    let root = tree.root().display().to_string();
    let serve =
        [fulmar().to_str().expect("UTF-8"), "serve", &root, "--driver", "epoll", "--listen"];
    let socket = tree.root().join("two.sock").display().to_string();
    let listen = format!("unix:{socket}");
    let load = ["--load", "http://h/a.txt", "--unix-socket", &socket, "-c", "1", "-n", "100"];
    let first = [&["--"], &serve[..], &[&listen]].concat();
    let second = [&["--"], &serve[..], &[&listen, "--list"]].concat();
    let ended = audit(&[&load[..], &["--warm-up", "5", "--compare"], &first, &second].concat());
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    assert!(ended.stdout.contains("first    second  difference"), "{}", ended.stdout);
}

#[test]
fn without_a_load_all_is_counted_until_the_end() {
    let ended = audit(&["--json", "--per", "3", "--", "sh", "-c", "echo said; exec true"]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("nothing but the object");
    assert!(ended.stderr.contains("said"), "{ended:?}");
    assert_eq!(json["command"], "sh -c 'echo said; exec true'");
    assert_eq!(json["unit"]["noun"], "item");
    assert!(json["calls"]["execve"]["calls"].as_u64() >= Some(2), "{json}");
}

#[test]
fn clock_reads_are_no_system_calls() {
    let line = "import time\nfor _ in range(1000): time.time()";
    let ended = audit(&["--clock", "--per", "1000", "--json", "--", "python3", "-I", "-c", line]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert!(json["clock_reads"].as_u64() >= Some(1_000), "{json}");
    assert_eq!(json["calls"]["clock_gettime"], Value::Null, "{json}");
    let waste = json["waste"].as_array().expect("a list");
    assert!(waste.iter().any(|waste| waste["class"] == "clock-reads"), "{json}");
}

#[test]
fn a_running_program_is_attached_and_left_running() {
    let nginx = Nginx::start();
    let pid = nginx.process.id().to_string();
    let url = nginx.url();
    let load = ["--load", &url, "-c", "2", "-n", "300", "--warm-up", "10", "--json"];
    let ended = audit(&[&["--pid", &pid], &load[..]].concat());
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!(json["calls"]["accept4"]["calls"], 2, "{json}");
    assert_eq!(json["groups"]["send"], 300, "{json}");
    assert_eq!(fulmar_tests::http::HttpClient::connect(nginx.address).get("/").status, 200);
}

#[test]
fn failures_to_count_are_reported() {
    let taken = scripted(|_| Ok(()));
    let socket = tree().root().join("unused").display().to_string();
    let ends = ["--load", "http://h/", "--unix-socket", &socket, "--start-timeout", "60s"];
    let unused = ["--load", "http://h/", "--unix-socket", &socket, "--start-timeout", "200ms"];
    let cases: &[(&[&str], &[&str], i32, &str)] = &[
        (&[], &["/nonexistent"], 3, "/nonexistent: No such file"),
        (&[], &["/tmp"], 3, "/tmp: is a directory"),
        (&[], &[""], 2, "name of the command is empty"),
        (&ends, &["sh", "-c", "exit 7"], 3, "exited before it listened on"),
        (&unused, &["sh", "-c", "exec tail -f /dev/null"], 3, "did not listen on"),
        (&["--load", &taken], &["true"], 3, "address already in use"),
        (&["--per", "accept"], &["true"], 3, "accepted no connection"),
        (&["--per", "request"], &["true"], 2, "needs --load"),
        (&["--per", "0"], &["true"], 2, "a number above 0"),
        (&["--budget", "/nonexistent"], &["true"], 2, "/nonexistent: No such file"),
        (&["--compare", "/nonexistent"], &["true"], 2, "/nonexistent: No such file"),
        (&["--budget", "/dev/zero"], &["true"], 2, "/dev/zero: too long"),
        (&["--compare", "/dev/null"], &["true"], 2, "not a record"),
        (&["--compare", "/dev/zero"], &["true"], 2, "/dev/zero: too long"),
        (&["--compare"], &["true"], 2, "needs a FILE"),
        (&["--compare-load", "http://h/"], &["true"], 2, "--load"),
        (&["-c", "4"], &["true"], 2, "--load"),
        (&["--load", "ftp://h/"], &["true"], 2, "ftp://h/"),
    ];
    for (options, command, code, message) in cases {
        let ended = audit(&[options, &["--"][..], *command].concat());
        assert_eq!(status(&ended), Some(*code), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{options:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{options:?}");
    }
    let ended = audit(&["--pid", "4294967295"]);
    assert_eq!(status(&ended), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("no such process"), "{ended:?}");
    assert_eq!(status(&audit(&[])), Some(2));
}

#[test]
fn counts_are_printed_if_the_record_cannot_be_written() {
    for options in [&["--record", "/dev/full"][..], &["--json", "--record", "/nonexistent/a"]] {
        let ended = audit(&[options, &["--", "true"]].concat());
        assert_eq!(status(&ended), Some(3), "{ended:?}");
        assert!(ended.stderr.contains(options[options.len() - 1]), "{ended:?}");
        assert!(ended.stdout.contains("execve"), "{ended:?}");
    }
    let mut full = Command::new("/bin/dash");
    full.args(["-c", "exec \"$0\" audit --json -- true > /dev/full"]).arg(fulmar());
    let ended = ChildProcess::start(&mut full).wait();
    assert_eq!(status(&ended), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("standard output: No space left"), "{ended:?}");
}

#[test]
fn counts_of_a_failed_command_are_printed_and_not_recorded() {
    let tree = tree();
    let record = tree.root().join("counts.txt").display().to_string();
    let ended = audit(&["--record", &record, "--per", "accept", "--", "sh", "-c", "exit 7"]);
    assert_eq!(status(&ended), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("exited with exit status: 7"), "{ended:?}");
    assert!(ended.stdout.contains("execve"), "{ended:?}");
    assert!(!Path::new(&record).exists());
}

/// A program that exits at once and loads no library.
#[cfg(target_arch = "x86_64")]
#[test]
fn uncounted_clock_reads_are_reported() {
    let tree = tree();
    let source = "void _start(void) { __asm__(\"mov $60, %eax; xor %edi, %edi; syscall\"); }";
    let source = file(&tree, "bare.c", source);
    let bare = tree.root().join("bare").display().to_string();
    run(peer("cc").args(["-static", "-nostdlib", "-o", &bare, &source]));
    let ended = audit(&["--clock", "--", &bare]);
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("clock reads were not counted"), "{ended:?}");
    assert!(!ended.stdout.contains("clock reads"), "{ended:?}");
}

#[test]
fn an_interrupt_stops_the_program_and_prints_the_counts() {
    let mut command = Command::new(fulmar());
    command.args(["audit", "--", "sh", "-c", "echo begun; exec tail -f /dev/null"]);
    let mut process = ChildProcess::start(&mut command);
    process.wait_stderr("begun");
    process.signal(Signal::INT);
    let ended = process.wait();
    assert_eq!(status(&ended), Some(130), "{ended:?}");
    assert!(ended.stdout.contains("execve"), "{ended:?}");
}

#[test]
fn a_daemon_is_followed_and_stopped() {
    let tree = tree();
    let socket = tree.root().join("d.sock").display().to_string();
    let root = tree.root().display().to_string();
    let line = format!(
        "{} serve {root} --driver epoll --listen unix:{socket} & exit 0",
        fulmar().display()
    );
    let load = ["--load", "http://h/a.txt", "--unix-socket", &socket, "-c", "1", "-n", "50"];
    let ended = audit(&[&load[..], &["--json", "--", "sh", "-c", &line]].concat());
    assert_eq!(status(&ended), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!(json["calls"]["sendto"]["calls"], 50, "{json}");
    assert!(!Path::new(&socket).exists(), "it ended in order");
}
