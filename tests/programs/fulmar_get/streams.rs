//! `-` as standard input and output, `-O`, and hosts in other scripts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use fulmar_tests::get::{Download, ScriptedSite, SiteReply, message};
use fulmar_tests::process::{ChildProcess, ExitOutput, fulmar};

/// `fulmar get` without `-o`, next to the output directory.
fn get(download: &Download, arguments: &[&str]) -> ExitOutput {
    let mut command = Command::new(fulmar());
    command.arg("get").args(arguments).current_dir(download.turn_while(""));
    ChildProcess::start(&mut command).wait()
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|it| it.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn bodies_go_to_standard_output_in_the_order_of_their_urls() {
    let site = ScriptedSite::start(|asked| match (&asked.target[..], asked.before) {
        ("/busy", 0) => SiteReply::whole(503, "", "an error, which is not printed"),
        ("/from", _) => SiteReply::whole(302, "Location: /to\r\n", ""),
        ("/long", _) => SiteReply::ok("x".repeat(600_000)),
        (target, _) => SiteReply::ok(format!("{target}\n")),
    });
    let urls = ["/busy", "/from", "/long", "/a"].map(|target| site.url(target));
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let expected = format!("/busy\n/to\n{}/a\n", "x".repeat(600_000));
    for output in [["-o", "-"], ["-O", "-"]] {
        let download = Download::new();
        let ended = get(&download, &[&output[..], &urls].concat());
        assert!(ended.status.success(), "{}", ended.stderr);
        assert!(ended.stdout == expected, "{} bytes", ended.stdout.len());
        assert!(
            ended.stderr.contains("4 fetched"),
            "the summary is on standard error: {}",
            ended.stderr
        );
        assert!(files(&download.turn_while("")).is_empty(), "no file, no journal");
    }
}

#[test]
fn broken_body_on_standard_output_is_not_begun_again() {
    let site = ScriptedSite::start(|_| {
        let mut bytes = message(200, "", &[b'y'; 1_000]);
        bytes.truncate(bytes.len() - 500);
        SiteReply::Close(bytes)
    });
    let download = Download::new();
    let ended = get(&download, &["-o", "-", &site.url("/a")]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!((ended.stdout, site.count("/a")), ("y".repeat(500), 1));
}

#[test]
fn records_go_to_standard_output() {
    let site = ScriptedSite::start(|asked| SiteReply::ok(&asked.target));
    let download = Download::new();
    let ended = get(&download, &["--jsonl", "-", "-o", "out", &site.url("/a"), &site.url("/b")]);
    assert!(ended.status.success(), "{ended:?}");
    let lines: Vec<serde_json::Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert!(ended.stderr.contains("2 fetched"), "{ended:?}");
    assert_eq!(files(&download.turn_while("")), ["out"]);
}

#[test]
fn one_url_goes_into_a_file_of_any_name() {
    let site = ScriptedSite::start(|asked| SiteReply::ok(&asked.target));
    let download = Download::new();
    let url = site.url("/a");
    assert!(get(&download, &["-O", "name", &url]).status.success());
    assert!(get(&download, &["--output", "dir/name", &url]).status.success());
    assert_eq!(fs::read(download.turn_while("name")).unwrap(), b"/a");
    assert_eq!(fs::read(download.turn_while("dir/name")).unwrap(), b"/a");
    let ended = get(&download, &["-O", "name", &url]);
    assert!(ended.stderr.contains("the output file exists"), "{ended:?}");
}

#[test]
fn streams_used_twice_are_refused() {
    let download = Download::new();
    for (arguments, part) in [
        (&["-i", "-", "--cacert", "-"][..], "standard input (-) is used twice: --input and"),
        (&["-o", "-", "--jsonl", "-", "http://h/"], "standard output (-) is used twice"),
        (&["-O", "-", "--jsonl", "-", "http://h/"], "--output and --jsonl"),
        (&["-o", "-", "--resume", "http://h/"], "--resume cannot be combined"),
        (&["-o", "-", "--skip-existing", "http://h/"], "--skip-existing cannot be combined"),
        (&["-O", "x", "http://h/a", "http://h/b"], "use --output-dir for several"),
        (&["-O", "x/..", "http://h/"], "not a file name"),
        (&["--resolve", "b\u{fc} cher:80:::1", "http://h/"], "b\u{fc} cher:80:::1"),
        (&["--resolve", "h:x:::1", "http://h/"], "\"h:x:::1\": invalid port"),
    ] {
        let ended = get(&download, arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
    }
    assert!(files(&download.turn_while("")).is_empty());
}

#[test]
fn certificates_come_from_standard_input() {
    let download = Download::new();
    let mut command = Command::new(fulmar());
    command.args(["get", "--cacert", "-", "https://localhost/"]);
    command.current_dir(download.turn_while(""));
    let ended = ChildProcess::start_with(&mut command, Stdio::null()).wait();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("no certificate in PEM"), "{ended:?}");
}

#[test]
fn hosts_in_other_scripts_have_addresses() {
    let site = ScriptedSite::start(|asked| SiteReply::ok(asked.field("host").unwrap()));
    let port = site.url("").rsplit(':').next().unwrap().to_owned();
    let download = Download::new();
    let known = format!("b\u{fc}cher.example:{port}:127.0.0.1");
    let url = format!("http://b\u{fc}cher.example:{port}/a");
    let ended = get(&download, &["--resolve", &known, &url]);
    assert!(ended.status.success(), "{ended:?}");
    let host = format!("xn--bcher-kva.example:{port}");
    assert_eq!(fs::read_to_string(download.turn_while("a")).unwrap(), host);
}

/// `fulmar` with these arguments and this standard input.
fn fulmar_with(download: &Download, arguments: &str, input: &str) -> ExitOutput {
    let file = download.turn_while("input");
    fs::write(&file, input).unwrap();
    let mut command = Command::new(fulmar());
    command.args(arguments.split(' ')).current_dir(download.turn_while(""));
    ChildProcess::start_with(&mut command, fs::File::open(file).unwrap().into()).wait()
}

#[test]
fn every_file_argument_accepts_a_dash() {
    let download = Download::new();
    let twice = "is used twice: ";
    for (arguments, status, part) in [
        ("get -o out -i -", 1, "line 1: nonsense"),
        ("get --cacert - https://127.0.0.1:1/", 2, "PEM: no certificate in PEM"),
        ("load --cacert - -n 1 https://127.0.0.1:1/", 2, "PEM: no certificate in PEM"),
        ("load --cert - --key k -n 1 https://127.0.0.1:1/", 2, "PEM: no certificate in PEM"),
        ("load --cert - --key - https://127.0.0.1:1/", 2, "twice: --cert and --key"),
        ("load --body @- --cacert - https://127.0.0.1:1/", 2, "twice: --body and --cacert"),
        ("serve --tls-cert - --tls-key k", 2, "PEM: no certificate in PEM"),
        ("serve --tls-cert c --tls-key - --tls-client-ca -", 2, "--tls-key and --tls-client-ca"),
        ("serve --tls-cert c --tls-key - --auth -", 2, "twice: --tls-key and --auth"),
        ("serve --auth -", 2, "-: "),
        ("audit --budget - -- true", 2, "standard input: "),
        ("audit --compare - -- true", 2, "standard input: "),
        ("audit --budget - --compare - -- true", 2, "twice: --budget and --compare"),
        ("audit --record - --json -- true", 2, "twice: by --record and --json"),
        ("bench --from -", 2, "standard input: it cannot be read as a report"),
        ("bench --from - --json - --html -", 2, "twice: --json and --html"),
        ("proxy -c -f -", 1, "standard input:1"),
        ("proxy -c -f - -f -", 2, twice),
    ] {
        let ended = fulmar_with(&download, arguments, "nonsense\n");
        assert_eq!(ended.status.code(), Some(status), "{arguments}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments}: {ended:?}");
        assert!(!download.turn_while("-").exists(), "{arguments}");
    }
    let config = "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server \
                  1s\nlisten a\n bind 127.0.0.1:0\n server s 127.0.0.1:1\n";
    let ended = fulmar_with(&download, "proxy -c -f -", config);
    assert!(ended.status.success(), "{ended:?}");
    let ended = fulmar_with(&download, "proxy -W -f -", config);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("master-worker mode reads the configuration"), "{ended:?}");
    let report =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/bench.json")).unwrap();
    let ended = fulmar_with(&download, "bench --from - --json -", &report);
    assert!(ended.status.success() && !ended.stderr.is_empty(), "{ended:?}");
    serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap();
}

#[test]
fn body_of_a_load_comes_from_standard_input() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"the body") {
            let mut some = [0; 4_096];
            match stream.read(&mut some).unwrap() {
                0 => return seen,
                n => seen.extend_from_slice(&some[..n]),
            }
        }
        stream.write_all(&message(200, "", b"")).unwrap();
        seen
    });
    let download = Download::new();
    let arguments = format!("load --body @- -c 1 -n 1 http://{address}/");
    let ended = fulmar_with(&download, &arguments, "the body");
    assert!(server.join().unwrap().ends_with(b"\r\n\r\nthe body"), "{ended:?}");
    assert!(ended.status.success(), "{ended:?}");
}
