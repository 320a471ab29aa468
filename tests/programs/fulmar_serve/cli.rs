//! The command line of `fulmar serve`: refusals, output, and cleanup.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::process::{BY_CALLS, ChildProcess, ExitOutput, Serve, eventually, fulmar, peer};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::Signal;

fn end_of(arguments: &[&str]) -> ExitOutput {
    ChildProcess::start(Command::new(fulmar()).args(arguments)).wait()
}

fn assert_no_panic(ended: &ExitOutput) {
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn an_invalid_command_line_is_status_2() {
    let cases: [(&[&str], &str); 11] = [
        (&["serve", "--no-such-flag"], "--no-such-flag"),
        (&["serve", "--listen", "nonsense"], "nonsense"),
        (&["serve", "--listen", "127.0.0.1:65536"], "127.0.0.1:65536"),
        (&["serve", "--threads", "0"], "--threads"),
        (&["serve", "--threads", "1025"], "--threads"),
        (&["serve", "--max-connections", "0"], "--max-connections"),
        (&["serve", "--idle-timeout", "0"], "--idle-timeout"),
        (&["serve", "--idle-timeout", "-1"], "-1"),
        (&["serve", "--head-timeout", "inf"], "inf"),
        (&["serve", "--log-format", "xml"], "xml"),
        (&["serve", "a", "b"], "b"),
    ];
    for (arguments, named) in cases {
        let ended = end_of(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(named), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    assert_eq!(end_of(&[]).status.code(), Some(2));
    assert_eq!(end_of(&["dance"]).status.code(), Some(2));
}

#[test]
fn failures_are_status_1_with_a_message() {
    let tree = Tree::new();
    let root = tree.root();
    let root = root.to_str().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap().to_string();
    let listen = ["--listen", "127.0.0.1:0"];
    let cases: [(Vec<&str>, &str, &str); 4] = [
        (vec!["serve", root, "--listen", &busy], &busy, "in use"),
        (vec!["serve", root, "--listen", &busy, "--threads", "2"], &busy, "in use"),
        (vec!["serve", root, "--listen", "192.0.2.1:8080"], "192.0.2.1:8080", "assign"),
        (
            vec!["serve", root, listen[0], listen[1], "--access-log", "/nowhere/log"],
            "/nowhere/log",
            "No such file",
        ),
    ];
    for (arguments, named, why) in cases {
        fails(&arguments, 1, named, why);
    }
}

/// The command fails with this status, and with one line that contains `named` and `why`.
fn fails(arguments: &[&str], status: i32, named: &str, why: &str) {
    let ended = end_of(arguments);
    assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {}", ended.stderr);
    let lines: Vec<_> = ended.stderr.lines().collect();
    let [line] = lines[..] else { panic!("{arguments:?}: {}", ended.stderr) };
    assert!(line.starts_with("fulmar: ") && line.contains(named), "{line}");
    assert!(line.contains(why), "{line}");
    assert_eq!(ended.stdout, "", "{arguments:?}");
}

#[test]
fn inputs_that_cannot_be_used_are_status_2() {
    let tree = Tree::new();
    let file = tree.file("f", "x");
    let (root, file) = (tree.root(), file.to_str().unwrap().to_owned());
    let root = root.to_str().unwrap();
    let missing = format!("{root}/missing");
    for (arguments, named, why) in [
        (&[&missing[..]][..], &missing, "No such file"),
        (&[&file], &file, "Not a directory"),
        (&[root, "--tls-cert", &file, "--tls-key", &file], &file, "no certificate in PEM"),
        (&[root, "--tls-cert", &missing, "--tls-key", &file], &missing, "No such file"),
        (&[root, "--auth", &missing], &missing, "No such file"),
        (&[root, "--auth", &file], &file, "expected user:password"),
    ] {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        fails(&arguments, 2, named, why);
    }
}

#[test]
fn port_0_selects_a_free_port() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    assert_ne!(serve.address.port(), 0);
    assert_eq!(HttpClient::connect(serve.address).get("/f").body, b"inside");
    let mut command = Command::new(fulmar());
    command.arg("serve").arg(tree.root()).args(["--listen", "[::1]:0"]);
    let serve = Serve::start_command(&mut command, true);
    assert!(serve.address.is_ipv6());
    assert_eq!(HttpClient::connect(serve.address).get("/f").body, b"inside");
}

fn refuses(serve: &Serve) -> bool {
    std::net::TcpStream::connect(serve.address).is_err()
}

#[test]
fn a_download_in_progress_is_finished_after_sigterm() {
    let tree = Tree::new();
    let bytes = noise(20 << 20);
    tree.file("large", &bytes);
    let serve = Serve::start(&tree.root(), &["--drain-timeout", "60"]);
    let mut idle = HttpClient::connect(serve.address);
    idle.get("/none");
    let mut client = HttpClient::connect(serve.address);
    client.send_get("/large");
    assert_eq!(client.read_head().unwrap().status, 200);
    let mut body = client.read_bytes(10_000);
    serve.process.signal(Signal::TERM);
    // New connections are refused and idle ones closed, while this one continues.
    eventually("it listens no more", || refuses(&serve));
    assert_eq!(idle.read_to_end().unwrap(), b"");
    body.extend(client.read_to_end().unwrap());
    assert!(body == bytes);
    let ended = serve.process.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "");
}

#[test]
fn clients_that_connect_during_shutdown_do_no_harm() {
    let tree = Tree::new();
    tree.file("f", "inside");
    for _ in 0..5 {
        let serve = Serve::start(&tree.root(), &["--drain-timeout", "60"]);
        let mut idle: Vec<_> = (0..10).map(|_| HttpClient::connect(serve.address)).collect();
        idle.iter_mut().for_each(|client| drop(client.get("/f")));
        serve.process.signal(Signal::TERM);
        eventually("it listens no more", || refuses(&serve));
        let ended = serve.process.wait();
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn endless_responses_are_closed_at_the_deadline() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints", "--drain-timeout", "0.5"]);
    let mut stream = HttpClient::connect(serve.address);
    stream.send_get("/stream/10000");
    assert_eq!(stream.read_head().unwrap().status, 200);
    let mut idle = HttpClient::connect(serve.address);
    idle.send_get("/idle");
    let mut other = HttpClient::connect(serve.address);
    other.get("/bytes/1"); // /idle has been read by now
    let start = fulmar_sys::now();
    serve.process.signal(Signal::TERM);
    let rest = stream.read_to_end();
    assert!(rest.is_err() || !rest.unwrap().ends_with(b"0\r\n\r\n"), "it looks complete");
    assert!(!idle.read_to_end().is_ok_and(|bytes| !bytes.is_empty()));
    let ended = serve.process.wait();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("2 connections were cut at the end"), "{}", ended.stderr);
    // Ten seconds are the default.
    let took = start.elapsed().as_millis();
    assert!((450..9_500).contains(&took), "{took} ms");
}

#[test]
fn a_pending_response_is_sent_with_connection_close() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = HttpClient::connect(serve.address);
    client.send_get("/delay/2000"); // the signal arrives within that time
    HttpClient::connect(serve.address).get("/bytes/1"); // the delay has started by now
    serve.process.signal(Signal::TERM);
    let answers = replies(&client.read_to_end().unwrap()).unwrap();
    assert_eq!((answers.len(), answers[0].body.as_slice()), (1, &b"delayed\n"[..]));
    assert_eq!(answers[0].field("connection"), Some("close"));
    assert_eq!(serve.process.wait().status.code(), Some(0));
}

#[test]
fn sigint_is_status_130_and_a_second_signal_ends_at_once() {
    let tree = Tree::new();
    let ended = Serve::start(&tree.root(), &["--ledger"]).end(Signal::INT);
    assert_eq!(ended.status.code(), Some(130));
    assert!(ended.stdout.contains("0 requests"), "{}", ended.stdout);
    let serve = Serve::start(&tree.root(), &["--test-endpoints", "--drain-timeout", "60"]);
    let mut client = HttpClient::connect(serve.address);
    client.send_get("/stream/10000");
    client.read_head().unwrap();
    serve.process.signal(Signal::TERM);
    eventually("it listens no more", || refuses(&serve));
    serve.process.signal(Signal::TERM);
    assert_eq!(serve.process.wait().status.code(), Some(130));
}

/// The first number of a row of the ledger's table.
fn calls(table: &str, name: &str) -> u64 {
    let row = table.lines().find(|line| line.split_whitespace().next() == Some(name));
    let row = row.unwrap_or_else(|| panic!("no {name} in\n{table}"));
    row.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_ledger_is_printed_at_the_end() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[&["--ledger"], BY_CALLS].concat());
    let mut client = HttpClient::connect(serve.address);
    (0..50).for_each(|_| drop(client.get("/f")));
    drop(client);
    let table = serve.end(Signal::TERM).stdout;
    assert!(table.contains("50 requests on 1 connections; driver "), "{table}");
    assert!(table.contains("per request") && table.contains("EAGAIN"), "{table}");
    assert_eq!(calls(&table, "accept4"), 1);
    assert_eq!(calls(&table, "send"), 50);
    assert!((50..=52).contains(&calls(&table, "recv")), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn threads_share_the_port_and_the_ledger_is_their_sum() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let flags = [&["--threads", "2", "--ledger"], BY_CALLS].concat();
    let serve = Serve::start(&tree.root(), &flags);
    for _ in 0..40 {
        let mut client = HttpClient::connect(serve.address);
        assert_eq!(client.get("/f").body, b"inside");
        assert_eq!(client.get("/f").body, b"inside");
    }
    let table = serve.end(Signal::TERM).stdout;
    assert!(table.contains("80 requests on 40 connections"), "{table}");
    assert_eq!(calls(&table, "accept4"), 40);
    assert_eq!(calls(&table, "send"), 80);
    // One per thread, so both threads are included.
    assert_eq!(calls(&table, "epoll_create1"), 2);
}

#[test]
fn help_fits() {
    for arguments in [&["--help"][..], &["serve", "--help"]] {
        let ended = end_of(arguments);
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
        for line in ended.stdout.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert!(ended.stdout.contains("Exit status"), "{}", ended.stdout);
    }
    let version = end_of(&["serve", "--version"]);
    assert_eq!(version.status.code(), Some(0), "{version:?}");
    assert!(version.stdout.contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    let help = end_of(&["serve", "-h"]).stdout;
    for flag in ["--listen", "--list", "--threads", "--access-log", "--ledger", "--drain-timeout"] {
        assert!(help.contains(flag), "{flag}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let tree = Tree::new();
    for arguments in [&["serve", "--help"][..], &["--help"], &["serve", "--listen", "127.0.0.1:0"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(fulmar());
        command.args(arguments).current_dir(tree.root()).stdin(Stdio::null());
        let output = command.stdout(writer).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
    let mut command = peer("sh");
    command.args(["-c", "\"$1\" serve --help | head -1", "sh"]).arg(fulmar());
    let ended = ChildProcess::start(&mut command).wait();
    assert_eq!((ended.stdout.lines().count(), ended.stderr.as_str()), (1, ""));
}

#[test]
fn access_logs_contain_every_request() {
    let tree = Tree::new();
    tree.file("f", "inside");
    for format in ["combined", "json"] {
        let log = tree.turn_while(format);
        let file = log.to_str().unwrap();
        let serve = Serve::start(&tree.root(), &["--access-log", file, "--log-format", format]);
        let mut client = HttpClient::connect(serve.address);
        client.get("/f?x=1");
        client
            .send("GET /none HTTP/1.1\r\nHost: h\r\nReferer: \"r\\\r\nUser-Agent: [\t2Jü\r\n\r\n");
        client.read_reply().unwrap();
        client.send("HEAD /f HTTP/1.0\r\n\r\n");
        client.read_to_end().unwrap();
        let mut bad = HttpClient::connect(serve.address);
        bad.send("GET / HTTP/1.1\r\nbad\r\n\r\n");
        bad.read_to_end().unwrap();
        assert_no_panic(&serve.end(Signal::TERM));
        let text = fs::read_to_string(&log).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        match format {
            "json" => assert_json(&lines),
            _ => assert_combined(&lines),
        }
    }
}

fn assert_combined(lines: &[&str]) {
    let expected = [
        "\"GET /f?x=1 HTTP/1.1\" 200 6 \"-\" \"-\"",
        "\"GET /none HTTP/1.1\" 404 LEN \"\\\"r\\\\\" \"[\\x092J\\xc3\\xbc\"",
        "\"HEAD /f HTTP/1.0\" 200 0 \"-\" \"-\"",
        "\"-\" 400 0 \"-\" \"-\"",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        let (start, rest) = line.split_once("] ").unwrap();
        assert!(start.starts_with("127.0.0.1 - - [") && start.ends_with(" +0000"), "{line}");
        match expected.split_once("LEN") {
            Some((before, after)) => {
                assert!(rest.starts_with(before) && rest.ends_with(after), "{line}");
            }
            None => assert_eq!(rest, expected),
        }
    }
}

fn assert_json(lines: &[&str]) {
    let parse = |line: &&str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let lines: Vec<_> = lines.iter().map(parse).collect();
    let expected = [
        (Some(["GET", "/f?x=1", "HTTP/1.1"]), 200, None),
        (Some(["GET", "/none", "HTTP/1.1"]), 404, Some("[\\x092J\\xc3\\xbc")),
        (Some(["HEAD", "/f", "HTTP/1.0"]), 200, None),
        (None, 400, None),
    ];
    for (line, (request, status, agent)) in lines.iter().zip(expected) {
        assert_eq!(line["peer"], "127.0.0.1");
        let members = ["method", "target", "version"].map(|name| line[name].as_str());
        assert_eq!(members, request.map_or([None; 3], |known| known.map(Some)));
        assert_eq!(line["status"], status);
        assert_eq!(line["user_agent"].as_str(), agent);
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
    assert_eq!(lines[1]["referer"], "\"r\\\\");
    assert_eq!((&lines[0]["bytes"], &lines[2]["bytes"]), (&6.into(), &0.into()));
}

#[test]
fn escaped_line_ends_forge_neither_a_log_line_nor_a_field() {
    let tree = Tree::new();
    tree.file("d\r\nX-Forged: y/f", "inside");
    let log = tree.turn_while("log");
    let serve = Serve::start(&tree.root(), &["--access-log", log.to_str().unwrap()]);
    let mut client = HttpClient::connect(serve.address);
    let reply = client.get("/d%0d%0aX-Forged:%20y");
    assert_eq!((reply.status, reply.field("x-forged")), (301, None));
    assert_eq!(reply.field("location"), Some("/d%0D%0AX-Forged%3A%20y/"));
    assert_eq!(client.get("/d%0D%0AX-Forged%3A%20y/f").body, b"inside");
    assert_eq!(HttpClient::connect(serve.address).get("/%0a%00").status, 400);
    assert_no_panic(&serve.end(Signal::TERM));
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("\"GET /d%0d%0aX-Forged:%20y HTTP/1.1\" 301"), "{text}");
}

#[test]
fn the_log_may_be_standard_output() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &["--access-log", "-", "--ledger"]);
    HttpClient::connect(serve.address).get("/f");
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.contains("\"GET /f HTTP/1.1\" 200 6"), "{}", ended.stdout);
    // Messages go to standard error.
    assert!(ended.stderr.contains("serving ") && ended.stderr.contains("1 requests"));
}
