//! `-` as standard input and output, `-O`, and hosts in other scripts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fulmar_tests::get::{Answer, Download, Site, message};
use fulmar_tests::process::{Ended, Process, fulmar};

/// `fulmar get` without `-o`, beside the output directory.
fn get(download: &Download, arguments: &[&str]) -> Ended {
    let mut command = Command::new(fulmar());
    command.arg("get").args(arguments).current_dir(download.beside(""));
    Process::start(&mut command).wait()
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|it| it.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn bodies_go_to_standard_output_in_the_order_of_their_urls() {
    let site = Site::start(|asked| match (&asked.target[..], asked.before) {
        ("/busy", 0) => Answer::whole(503, "", "an error, which is not printed"),
        ("/from", _) => Answer::whole(302, "Location: /to\r\n", ""),
        ("/long", _) => Answer::ok("x".repeat(600_000)),
        (target, _) => Answer::ok(format!("{target}\n")),
    });
    let urls = ["/busy", "/from", "/long", "/a"].map(|target| site.url(target));
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let expected = format!("/busy\n/to\n{}/a\n", "x".repeat(600_000));
    for output in [["-o", "-"], ["-O", "-"]] {
        let download = Download::new();
        let ended = get(&download, &[&output[..], &urls].concat());
        assert!(ended.status.success(), "{}", ended.stderr);
        assert!(ended.stdout == expected, "{} bytes", ended.stdout.len());
        assert!(ended.stderr.contains("4 fetched"), "the summary is beside it: {}", ended.stderr);
        assert!(files(&download.beside("")).is_empty(), "no file, no journal");
    }
}

#[test]
fn broken_body_on_standard_output_is_not_begun_again() {
    let site = Site::start(|_| {
        let mut bytes = message(200, "", &[b'y'; 1_000]);
        bytes.truncate(bytes.len() - 500);
        Answer::Close(bytes)
    });
    let download = Download::new();
    let ended = get(&download, &["-o", "-", &site.url("/a")]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!((ended.stdout, site.count("/a")), ("y".repeat(500), 1));
}

#[test]
fn records_go_to_standard_output() {
    let site = Site::start(|asked| Answer::ok(&asked.target));
    let download = Download::new();
    let ended = get(&download, &["--jsonl", "-", "-o", "out", &site.url("/a"), &site.url("/b")]);
    assert!(ended.status.success(), "{ended:?}");
    let lines: Vec<serde_json::Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert!(ended.stderr.contains("2 fetched"), "{ended:?}");
    assert_eq!(files(&download.beside("")), ["out"]);
}

#[test]
fn one_url_goes_into_a_file_of_any_name() {
    let site = Site::start(|asked| Answer::ok(&asked.target));
    let download = Download::new();
    let url = site.url("/a");
    assert!(get(&download, &["-O", "name", &url]).status.success());
    assert!(get(&download, &["--output", "dir/name", &url]).status.success());
    assert_eq!(fs::read(download.beside("name")).unwrap(), b"/a");
    assert_eq!(fs::read(download.beside("dir/name")).unwrap(), b"/a");
    let ended = get(&download, &["-O", "name", &url]);
    assert!(ended.stderr.contains("the output exists"), "{ended:?}");
}

#[test]
fn streams_that_are_named_twice_are_refused() {
    let download = Download::new();
    for (arguments, part) in [
        (&["-i", "-", "--cacert", "-"][..], "standard input (-) is named twice: --input and"),
        (&["-o", "-", "--jsonl", "-", "http://h/"], "standard output (-) is named twice"),
        (&["-O", "-", "--jsonl", "-", "http://h/"], "--output and --jsonl"),
        (&["-o", "-", "--resume", "http://h/"], "--resume is for files"),
        (&["-o", "-", "--skip-existing", "http://h/"], "--skip-existing is for files"),
        (&["-O", "x", "http://h/a", "http://h/b"], "there are several URLs: use --output-dir"),
        (&["-O", "x/..", "http://h/"], "not the name of a file"),
        (&["--resolve", "b\u{fc} cher:80:::1", "http://h/"], "b\u{fc} cher:80:::1"),
        (&["--resolve", "h:x:::1", "http://h/"], "\"h:x:::1\": the port is no number"),
    ] {
        let ended = get(&download, arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
    }
    assert!(files(&download.beside("")).is_empty());
}

#[test]
fn certificates_come_from_standard_input() {
    let download = Download::new();
    let mut command = Command::new(fulmar());
    command.args(["get", "--cacert", "-", "https://localhost/"]);
    command.current_dir(download.beside(""));
    let ended = Process::start_with(&mut command, Stdio::null()).wait();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("no certificate in PEM"), "{ended:?}");
}

#[test]
fn hosts_in_other_scripts_have_addresses() {
    let site = Site::start(|asked| Answer::ok(asked.field("host").unwrap()));
    let port = site.url("").rsplit(':').next().unwrap().to_owned();
    let download = Download::new();
    let known = format!("b\u{fc}cher.example:{port}:127.0.0.1");
    let url = format!("http://b\u{fc}cher.example:{port}/a");
    let ended = get(&download, &["--resolve", &known, &url]);
    assert!(ended.status.success(), "{ended:?}");
    let host = format!("xn--bcher-kva.example:{port}");
    assert_eq!(fs::read_to_string(download.beside("a")).unwrap(), host);
}
