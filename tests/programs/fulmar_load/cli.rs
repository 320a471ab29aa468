//! `fulmar load` on the command line: arguments, messages, signals, streams, limits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_tests::http::HttpClient;
use fulmar_tests::load::{LoadReport, command, load, refusing, report};
use fulmar_tests::loops::requested_options;
use fulmar_tests::process::{
    BY_CALLS, ChildProcess, ExitOutput, Serve, eventually, fulmar, peer, run, text,
};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

use crate::fulmar_load::loaded;

fn serve() -> Serve {
    Serve::start(&Tree::new().root(), &[&["--test-endpoints"], BY_CALLS].concat())
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Runs a line of shell in which `$FULMAR` is the binary and `$URL` a small file.
fn shell(line: &str, url: &str) -> ExitOutput {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("FULMAR", fulmar()).env("URL", url);
    ChildProcess::start(&mut command).wait()
}

#[test]
fn without_a_url_there_is_a_server_and_a_ledger_of_both_sides() {
    let ended = load(&[&["-c", "4", "-n", "500", "--ledger"], BY_CALLS].concat());
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let (ours, its) = ended.stdout.split_once("system calls of the embedded server").unwrap();
    let (report, ours) = ours.split_once("system calls of the load").unwrap();
    for part in
        ["500 answered", "4 requested, 4 established, 4 opened", "errors        none", "limit  "]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    let row = |table: &str, name: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
    };
    assert_eq!((row(ours, "send"), row(its, "send")), (Some(500), Some(500)), "{ended:?}");
    assert_eq!((row(ours, "connect"), row(its, "accept4")), (Some(4), Some(4)), "{ended:?}");
    assert!(ours.contains("driven by") && its.contains("driven by"), "{ended:?}");
}

#[test]
fn urls_without_a_connection_are_refused() {
    let urls = ["http://127.0.0.1:1/a", "http://127.0.0.1:1/b", "http://127.0.0.1:2/"];
    let ended = load(&[&["-c", "1", "-n", "1"], &urls[..]].concat());
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let expected = "too few connections (1) for URLs of 2 destinations";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    assert!(ended.stderr.contains("--connections 2"), "{ended:?}");
}

#[test]
fn the_json_object_has_the_documented_keys() {
    let ended = load(&["-c", "2", "-n", "100", "-R", "10000", "--json"]);
    let json = &ended.stdout;
    let value = LoadReport::of(&ended).0;
    let documented = [
        "url",
        "driver",
        "connections",
        "requests",
        "errors",
        "status",
        "duration_s",
        "rps",
        "bytes",
        "latency_us",
        "raw_latency_us",
        "cpu_us_per_request",
        "rss_bytes",
        "limited_by",
        "syscalls",
        "syscalls_per_request",
    ];
    let place = |key: &&str| json.find(&format!("\"{key}\":")).expect("a key");
    assert!(documented.iter().map(place).is_sorted(), "{json}");
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let added = [
        "rate",
        "cpu_share",
        "cpu_user_us_per_request",
        "threads",
        "depth",
        "protocol",
        "streams",
        "turns",
        "steady",
        "broken",
        "without_descriptor",
        "tls",
        "lost",
        "outage_s",
        "operations",
        "spin",
    ];
    let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(keys(&value), set(&[&documented[..], &added].concat()));
    assert_eq!(keys(&value["connections"]), set(&["requested", "established", "opened"]));
    let latency = set(&["min", "mean", "p50", "p90", "p99", "p999", "max"]);
    assert_eq!(
        (keys(&value["latency_us"]), keys(&value["raw_latency_us"])),
        (latency.clone(), latency)
    );
    assert_eq!(keys(&value["syscalls"]["connect"]), set(&["calls", "eagain"]));
    let spin = requested_options().spin.to_string();
    assert_eq!((&value["spin"], &value["status"]["200"]), (&spin.into(), &100.into()));
    let driver = value["driver"].as_str().unwrap();
    assert!(["epoll", "ring", "ring:1"].contains(&driver), "{json}");
    let l = &value["latency_us"];
    let order = ["min", "p50", "p90", "p99", "p999", "max"].map(|key| l[key].as_u64().unwrap());
    assert!(order.is_sorted() && order[0] > 0, "{json}");
}

/// Expects a failure with this exit status and part of the message.
fn fails(arguments: &[&str], status: i32, part: &str) {
    let ended = load(arguments);
    assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {ended:?}");
    assert!(ended.stderr.contains(part), "{arguments:?}: {part:?} in {}", ended.stderr);
    assert_eq!(ended.stdout, "", "{arguments:?}");
    let program = ["fulmar: ", "error: "];
    assert!(program.iter().any(|p| ended.stderr.starts_with(p)), "{arguments:?}: {ended:?}");
}

#[test]
fn invalid_arguments_are_usage_errors() {
    for (arguments, part) in [
        (&["--bogus"][..], "--bogus"),
        (&["-n", "1", "-d", "1"], "cannot be used with"),
        (&["-n", "x"], "invalid value 'x' for '--requests <N>': must be a whole number"),
        (&["-R", "10k"], "invalid value '10k' for '--rate <N>': must be a whole number"),
        (&["-c", "-1"], "unexpected argument '-1'"),
        (&["-t", "5000000000"], "must be at most 4294967295"),
        (&["-p", ""], "must be a whole number"),
        (&["-d", "0"], "greater than 0"),
        (&["-d", "1y"], "use ms, s, m or h"),
        (&["--timeout", "0"], "greater than 0"),
        (&["--bind", "127.0.0.9-127.0.0.2"], "not a list of source addresses"),
        (&["-H", "nonsense"], "expected `Name: value`"),
        (&["-c", "0"], "connections must be 1 to 1,000,000"),
        (&["-c", "1000001"], "connections must be 1 to 1,000,000"),
        (&["-p", "0"], "must be 1 to 64"),
        (&["-p", "65"], "must be 1 to 64"),
        (&["-n", "0"], "at least one request"),
        (&["-R", "0"], "the rate must be 1 to"),
        (&["-t", "0"], "threads must be 1 to"),
        (&["-c", "4", "-t", "5"], "more threads than connections"),
        (&["--reconnect", "-p", "2"], "one request at a time: omit -p and -m"),
        (&["--reconnect", "--http2", "-m", "10"], "one request at a time: omit -p and -m"),
        (&["-X", "CONNECT"], "CONNECT opens a tunnel"),
    ] {
        fails(arguments, 2, part);
        let url = [arguments, &["http://127.0.0.1:1/"]].concat();
        fails(&url, 2, part);
    }
}

#[test]
fn invalid_requests_are_usage_errors() {
    for (arguments, part) in [
        (&["127.0.0.1:80"][..], "does not begin with http://"),
        (&["ftp://127.0.0.1/"], "\"ftp\" is not spoken"),
        (&["http:///path"], "no host"),
        (&["http://127.0.0.1:0/"], "port 0"),
        (&["http://127.0.0.1:99999/"], "malformed"),
        (&["http://a b/"], "blanks"),
        (&["http://u:p@127.0.0.1/"], "user names"),
        (&["-X", "G T", "http://127.0.0.1:1/"], "the request cannot be made"),
        (&["-H", "a b: c", "http://127.0.0.1:1/"], "is not a header field"),
        (&["--body", "@/nonexistent", "http://127.0.0.1:1/"], "/nonexistent: No such file"),
        (&["--cacert", "/nonexistent", "https://127.0.0.1:1/"], "/nonexistent: No such file"),
        (&["--cacert", "/dev/null", "https://127.0.0.1:1/"], "/dev/null: no certificate in PEM"),
    ] {
        fails(arguments, 2, part);
    }
}

#[test]
fn failed_requests_are_reported() {
    let (_holder, refused) = refusing();
    for (arguments, part) in [
        (&["http://nonexistent.invalid/"][..], "\"nonexistent.invalid\" cannot be resolved"),
        (&["--bind", "::1", "http://127.0.0.1:1/"], "no address of the family"),
        (&["-n", "5", &refused], "Connection refused"),
        (&["-d", "60", &refused], "Connection refused"),
        (
            &["--unix-socket", "/nonexistent/socket", "http://127.0.0.1:1/"],
            "connected to the Unix socket /nonexistent/socket: No such file or directory",
        ),
    ] {
        fails(arguments, 1, part);
    }
}

#[test]
fn a_foreign_address_cannot_be_bound() {
    let serve = serve();
    fails(&["-n", "5", "--bind", "10.255.255.1", &serve.url("/")], 1, "address of --bind");
}

#[test]
fn an_interrupt_prints_the_report() {
    let serve = serve();
    let mut client = HttpClient::connect(serve.address);
    let url = serve.url("/bytes/128");
    for signal in [Signal::INT, Signal::TERM] {
        let running = ChildProcess::start(&mut command(&["-c", "4", "-d", "60", "--json", &url]));
        loaded(&mut client, 200);
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let report = LoadReport::of(&ended);
        assert!(report.requests() > 100 && report.errors().is_empty(), "{report:?}");
        assert!(report.0["duration_s"].as_f64().unwrap() < 30.0, "{report:?}");
    }
}

#[test]
fn an_interrupt_does_not_wait_for_responses() {
    let serve = serve();
    let mut client = HttpClient::connect(serve.address);
    let url = serve.url("/idle");
    let running = ChildProcess::start(&mut command(&["-c", "4", "-n", "4", "--json", &url]));
    eventually("requests", || client.ledger().of("accept4") >= 5);
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert_eq!(LoadReport::of(&ended).requests(), 0, "{ended:?}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let serve = serve();
    for reader in ["head -1", ":"] {
        let line = format!("{{ \"$FULMAR\" load -n 100 --ledger $URL; echo $? >&2; }} | {reader}");
        let ended = shell(&line, &serve.url("/bytes/128"));
        assert_eq!(ended.stderr, "0\n", "{reader}: {ended:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let serve = serve();
    for option in ["", "--json", "--ledger"] {
        let line = format!("\"$FULMAR\" load -n 100 {option} $URL > /dev/full");
        let ended = shell(&line, &serve.url("/bytes/128"));
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let message = "fulmar: standard output: No space left on device";
        assert!(ended.stderr.starts_with(message), "{ended:?}");
    }
}

#[test]
fn progress_is_for_terminals() {
    let serve = serve();
    let url = serve.url("/bytes/128");
    let ended = load(&["-R", "100", "-d", "1.2", &url]);
    assert!(ended.stderr.is_empty() && !ended.stdout.contains('\x1b'), "{ended:?}");
    let mut command = peer("python3");
    command.arg(script("terminal.py")).arg(fulmar());
    command.args(["load", "-R", "100", "-d", "3", &url]);
    let output = text(&run(&mut command).stdout);
    let (status, seen, _screen): (i32, String, Vec<String>) =
        serde_json::from_str(&output).unwrap();
    assert_eq!(status, 0);
    let begin = ["1", "2", "3"].map(|s| format!("\r\x1b[K{s} s of 3 s: "));
    assert!(
        begin.iter().any(|line| seen.contains(line)) && seen.contains(" connections, 0 errors"),
        "{seen:?}"
    );
    assert!(seen.ends_with("\r\x1b[K") && !seen.contains('\n'), "it is cleared: {seen:?}");
}

#[test]
fn connections_are_reduced_to_the_descriptor_limit() {
    let serve = serve();
    let line = "ulimit -n 128 && exec \"$FULMAR\" load -c 500 -n 2000 --json $URL";
    let ended = shell(line, &serve.url("/bytes/128"));
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.starts_with("fulmar: 500 connections exceed the limit"), "{ended:?}");
    assert!(
        ended.stderr.contains("128 file descriptors") && ended.stderr.contains(" 64"),
        "{ended:?}"
    );
    let report = LoadReport::of(&ended);
    assert_eq!((report.requests(), report.errors()), (2_000, vec![]), "{report:?}");
    assert_eq!(report.count("/connections/established"), 64, "{report:?}");
    assert_eq!(report.count("/connections/requested"), 500, "{report:?}");
    assert_eq!(report.count("/without_descriptor"), 436, "{report:?}");
    assert_eq!((report.calls("socket"), report.calls("connect")), (64, 64), "{report:?}");
}

#[test]
fn an_embedded_server_needs_descriptors_too() {
    let ended = shell("ulimit -n 128 && exec \"$FULMAR\" load -c 500 -n 2000 --json", "");
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.contains("500 connections exceed the limit"), "{ended:?}");
    let report = LoadReport::of(&ended);
    assert_eq!((report.requests(), report.errors()), (2_000, vec![]), "{report:?}");
    assert_eq!(report.count("/connections/established"), 32, "{report:?}");
}

#[test]
fn no_room_for_a_single_connection_is_an_error() {
    let serve = serve();
    let ended = shell("ulimit -n 20 && exec \"$FULMAR\" load -n 10 $URL", &serve.url("/"));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("too many open files") && ended.stdout.is_empty(), "{ended:?}");
    assert!(!ended.stderr.contains("continuing"), "{ended:?}");
}

#[test]
fn the_soft_limit_is_raised_without_a_message() {
    let serve = serve();
    let line = "ulimit -Sn 64 && exec \"$FULMAR\" load -c 200 -n 2000 --json $URL";
    let ended = shell(line, &serve.url("/bytes/128"));
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    assert_eq!(LoadReport::of(&ended).count("/connections/established"), 200, "{ended:?}");
}

#[test]
fn exhausted_descriptors_do_not_spin() {
    let serve = serve();
    let mut command = peer("python3");
    command.arg(script("descriptors.py")).args(["70", "100"]).arg(fulmar());
    command.args(["load", "-c", "30", "-n", "2000", "--json"]).arg(serve.url("/bytes/128"));
    let ended = ChildProcess::start(&mut command).wait();
    assert!(ended.status.success(), "{ended:?}");
    let report = LoadReport::of(&ended);
    assert_eq!(report.requests(), 2_000, "{report:?}");
    let held = report.count("/connections/established");
    assert_eq!(report.count("/without_descriptor"), 30 - held, "{report:?}");
    assert!((1..30).contains(&held), "{report:?}");
    assert!(report.calls("socket") < 60, "{report:?}");
    assert!(report.errors().iter().all(|(kind, n)| *kind == "descriptors" && *n < 30));
}

#[test]
fn connections_come_from_the_addresses_of_bind() {
    let tree = Tree::new();
    tree.file("file", "small");
    let serve = Serve::start(&tree.root(), &["--access-log", "-"]);
    let url = serve.url("/file");
    let report = report(&["-c", "8", "-n", "800", "--bind", "127.0.0.2-127.0.0.5", &url]);
    assert_eq!((report.requests(), report.errors()), (800, vec![]), "{report:?}");
    let log = serve.end(Signal::TERM).stdout;
    let sources: BTreeSet<_> = log.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(sources.len(), 4, "{log}");
    assert!((2..=5).all(|n| sources.contains(format!("127.0.0.{n}").as_str())), "{sources:?}");
}

/// In a separate network namespace with hardly any ports.
fn with_ports(range: &str, load: &str) -> Option<ExitOutput> {
    let network = Command::new("unshare").args(["-rn", "true"]).output();
    if !network.is_ok_and(|output| output.status.success()) {
        return None; // not permitted here
    }
    let line = format!(
        "ip link set lo up && echo {range} > /proc/sys/net/ipv4/ip_local_port_range && \
         exec \"$FULMAR\" load {load}"
    );
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", &line]).env("FULMAR", fulmar());
    Some(ChildProcess::start(&mut command).wait())
}

#[test]
fn without_free_ports_the_message_has_the_remedy() {
    let Some(ended) = with_ports("50000 50010", "-c 30 -n 1000") else {
        return fails(&["-n", "5", "--bind", "10.255.255.1"], 1, "address of --bind");
    };
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stdout.contains("give more source addresses with --bind"), "{ended:?}");
    // Eleven ports less the server's own. The kernel may miss the last one.
    let held = ended.stdout.split("30 requested, ").nth(1).and_then(|rest| rest.split(' ').next());
    let held: u32 = held.and_then(|n| n.parse().ok()).expect("a count");
    assert!((5..=10).contains(&held), "{ended:?}");
    let Some(ended) = with_ports("50000 50000", "-c 3 -n 1000") else { return };
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no free source port"), "{ended:?}");
}
