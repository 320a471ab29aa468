//! `fulmar get` on the command line: lists, names, files, records, signals.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::get::{Download, ScriptedSite, SiteReply};
use fulmar_tests::https::Https;
use fulmar_tests::origins::free_address;
use fulmar_tests::process::{ChildProcess, ExitOutput, Serve, eventually, fulmar, text};
use fulmar_tests::tree::{Tree, encode, noise};
use rustix::process::Signal;

fn ok(ended: &ExitOutput) {
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

/// A server that responds with the request target.
fn mirror() -> ScriptedSite {
    ScriptedSite::start(|asked| SiteReply::ok(&asked.target))
}

#[test]
fn every_file_is_complete() {
    let tree = Tree::new();
    let mut list = String::new();
    let serve = {
        for number in 0..600_usize {
            let len = number * number % 100_003;
            tree.file(format!("d{}/{number}", number % 7), noise(len));
        }
        tree.file("long", noise(3_000_000));
        let mut command = Serve::command(&tree.root());
        command.args(["--listen", "0.0.0.0:0"]);
        Serve::start(&tree.root(), &[])
    };
    for number in 0..600 {
        list += &format!(
            "{}\td{}/{number}\n",
            serve.url(&format!("/d{}/{number}", number % 7)),
            number % 7
        );
    }
    list += &format!("{} long\n", serve.url("/long"));
    let download = Download::new();
    let ended = download.run_list(&list, &["-j", "40", "--ledger"]);
    ok(&ended);
    assert!(ended.stdout.contains("601 fetched\n"), "{ended:?}");
    let ours = download.files();
    assert_eq!(ours.len(), 601, "and nothing of ours is left");
    for (name, bytes) in ours {
        assert!(bytes == fs::read(tree.root().join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn a_list_names_files_and_their_checksums() {
    let site = ScriptedSite::start(|_| SiteReply::ok("abc"));
    let url = site.url("/abc");
    let good = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let list = format!(
        "# a comment\r\n\r\n{url}\r\n{url} b\r\n{url}\tc d\tsha256:{good}\n\
         {url} d/e/f -\n{url} - md5:00000000000000000000000000000000\n{url} g md5:0\n\
         {url} a - - d\n{url} bad md5:00000000000000000000000000000000"
    );
    let download = Download::new();
    let ended = download.run_list(&list, &["--jsonl", "records"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let names = download.names();
    assert_eq!(names, [".fulmar-get.journal", "abc", "b", "c d", "d/e/f"]);
    let failures: Vec<_> = ended.stderr.lines().collect();
    for (line, why) in [
        (7, "the same output name"),
        (8, "the checksum must have 32 hexadecimal digits"),
        (9, "more than the fields"),
        (10, "the file has the checksum md5:900150983cd24fb0d6963f7d28e17f72 instead of md5:0000"),
    ] {
        let start = format!("fulmar: line {line}: ");
        let found = failures.iter().find(|failure| failure.starts_with(&start));
        assert!(found.is_some_and(|failure| failure.contains(why)), "{line}: {failures:?}");
    }
    assert_eq!(failures.len(), 4);
    let records = download.records();
    let of = |key: &str| records.iter().map(|record| record[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("line"), [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(of("bytes"), [3, 3, 3, 3, 0, 0, 0, 0]);
    let kinds: Vec<_> = records.iter().map(|r| r["error"]["kind"].as_str().unwrap_or("")).collect();
    assert_eq!(kinds, ["", "", "", "", "duplicate", "list", "list", "checksum"]);
}

#[test]
fn a_list_is_read_from_a_pipe_while_it_is_written() {
    let site = mirror();
    let download = Download::new();
    let mut command = download.command(&["-i", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for name in ["a", "b", "c"] {
        write!(pipe, "{}\n{}", site.url("/"), &site.url(&format!("/{name}"))[..0]).unwrap();
        writeln!(pipe, "{}", site.url(&format!("/{name}"))).unwrap();
        pipe.flush().unwrap();
        let file = download.out().join(name);
        eventually("the file is there, though the list goes on", || file.exists());
    }
    drop(pipe);
    assert_eq!(child.wait().unwrap().code(), Some(1), "one name thrice");
    assert_eq!(site.count("/"), 1, "the second was not requested");
}

#[test]
fn names_come_from_urls_and_stay_in_the_directory() {
    let site = mirror();
    let download = Download::new();
    let targets = ["/", "/a/b", "/c?d=/e", "/%2e%2e/f", "/..%2f..%2fg", &encode("/i j é")];
    let urls: Vec<_> = targets.iter().map(|target| site.url(target)).collect();
    ok(&download.run(&urls.iter().map(String::as_str).collect::<Vec<_>>()));
    let expected = ["..%2F..%2Fg", "b", "c?d=%2Fe", "f", "i j é", "index.html"].map(str::to_owned);
    assert_eq!(download.names(), expected);
    let url = site.url("/x");
    let bad =
        ["../x", "/tmp/x", "a/../../x", "..", ".", "a//b", "a/", "a\0b", ".fulmar-get.journal"];
    let long = "x".repeat(300);
    let list: String = bad.iter().chain([&&*long]).map(|name| format!("{url}\t{name}\n")).collect();
    let outer = Download::new();
    let ended = outer.run_list(&list, &["--jsonl", "records"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(outer.records().iter().all(|record| record["error"]["kind"] == "name"), "{ended:?}");
    assert!(!outer.out().exists(), "nothing was received");
    assert_eq!(site.count("/x"), 0, "nothing was requested");
    assert!(!outer.turn_while("x").exists());
}

#[test]
fn links_in_the_directory_are_not_followed() {
    let site = mirror();
    let download = Download::new();
    fs::create_dir_all(download.out()).unwrap();
    fs::create_dir(download.turn_while("elsewhere")).unwrap();
    fs::write(download.turn_while("precious"), "mine").unwrap();
    symlink(download.turn_while("elsewhere"), download.out().join("d")).unwrap();
    symlink(download.turn_while("precious"), download.out().join("f")).unwrap();
    symlink("../new", download.out().join("dangling")).unwrap();
    let url = site.url("/x");
    let list = format!("{url} d/x\n{url} f\n{url} dangling\n{url} fine\n");
    let ended = download.run_list(&list, &[]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(fs::read(download.turn_while("precious")).unwrap(), b"mine");
    assert!(fs::read_dir(download.turn_while("elsewhere")).unwrap().next().is_none());
    assert!(!download.turn_while("new").exists());
    assert_eq!(download.names(), [".fulmar-get.journal", "fine"]);
}

#[test]
fn existing_files_are_not_overwritten_and_can_be_skipped() {
    let site = mirror();
    let download = Download::new();
    fs::create_dir_all(download.out()).unwrap();
    fs::write(download.out().join("a"), "mine").unwrap();
    let (a, b) = (site.url("/a"), site.url("/b"));
    let ended = download.run(&[&a, &b]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("/a: the output file exists"), "{ended:?}");
    ok(&download.run(&["--skip-existing", &a, &b]));
    assert_eq!(fs::read(download.out().join("a")).unwrap(), b"mine");
    assert_eq!((site.count("/a"), site.count("/b")), (0, 1));
}

#[test]
fn two_urls_with_one_name_fail_except_with_mirror() {
    let site = mirror();
    let download = Download::new();
    let urls = [site.url("/x/a"), site.url("/y/a"), site.url("/z/")];
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let ended = download.run(&urls);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("/y/a: another URL"), "{ended:?}");
    assert_eq!((site.count("/x/a"), site.count("/y/a")), (1, 0));
    let mirrored = Download::new();
    ok(&mirrored.run(&[&["--mirror"], &urls[..]].concat()));
    let host = site.url("").trim_start_matches("http://").to_owned();
    let expected = ["x/a", "y/a", "z/index.html"].map(|name| format!("{host}/{name}"));
    assert_eq!(mirrored.names(), expected);
}

#[test]
fn records_have_the_documented_keys() {
    let site = ScriptedSite::start(|asked| match &asked.target[..] {
        "/from" => SiteReply::whole(302, "Location: /to\r\n", ""),
        _ => SiteReply::ok("12345"),
    });
    let download = Download::new();
    let from = site.url("/from");
    ok(&download.run(&["--jsonl", "records", &from]));
    let record = &download.records()[0];
    let keys: BTreeSet<_> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let documented = [
        "url",
        "line",
        "result",
        "final_url",
        "output",
        "status",
        "bytes",
        "resumed_from",
        "redirects",
        "retries",
        "peer",
        "tried",
        "timings_us",
        "error",
    ];
    assert_eq!(keys, BTreeSet::from(documented));
    let timings = record["timings_us"].as_object().unwrap();
    let keys: BTreeSet<_> = timings.keys().map(String::as_str).collect();
    let documented = ["queue", "name", "connect", "handshake", "first_byte", "total"];
    assert_eq!(keys, BTreeSet::from(documented));
    assert_eq!((&record["url"], &record["final_url"]), (&from.into(), &site.url("/to").into()));
    assert_eq!((&record["status"], &record["bytes"]), (&200.into(), &5.into()));
    assert_eq!((&record["redirects"], &record["output"]), (&1.into(), &"from".into()));
    assert_eq!((&record["result"], &record["peer"]), (&"fetched".into(), &"127.0.0.1".into()));
    assert!(timings["total"].as_u64().unwrap() > 0);
}

#[test]
fn fields_and_proxies_are_used() {
    let site =
        ScriptedSite::start(|asked| SiteReply::ok(asked.head.split("\r\n\r\n").next().unwrap()));
    let download = Download::new();
    ok(&download.run(&["-H", "X-Test: a b", "-H", "User-Agent: me", &site.url("/a")]));
    let head = text(&fs::read(download.out().join("a")).unwrap());
    assert!(head.contains("\r\nx-test: a b") && head.contains("\r\nuser-agent: me"), "{head}");
    ok(&download.run(&["--proxy", &site.url(""), "http://somewhere.invalid/b"]));
    assert_eq!(site.count("http://somewhere.invalid/b"), 1);
    let mut command = download.command(&["http://somewhere.invalid/c"]);
    let output = command.env("http_proxy", site.url("")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut command = download.command(&["--proxy", "", &site.url("/d")]);
    assert!(command.env("http_proxy", "http://127.0.0.1:1").status().unwrap().success());
}

#[test]
fn passwords_of_urls_are_neither_in_messages_nor_in_records() {
    let site = ScriptedSite::start(|asked| match &asked.target[..] {
        "/good" => SiteReply::ok("good"),
        _ => SiteReply::whole(401, "WWW-Authenticate: Basic realm=\"x\"\r\n", "who?"),
    });
    let download = Download::new();
    let with = |target: &str, login: &str| site.url(target).replace("//", &format!("//{login}@"));
    let long = format!("ann:{}", "secret".repeat(20));
    let list = [
        with("/good", "ann:secret"),
        with("/bad", "ann:secret"),
        with("/broken", "ann:sec/ret"),
        format!("{} a name of many words", with("/line", &long)),
        "ann:secret@h/?u=http://x".to_owned(),
    ];
    let ended = download.run_list(&list.join("\n"), &["--retry", "0", "--jsonl", "records"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let message = format!("line 2: {}: the server responded with status 401", with("/bad", "ann"));
    assert!(ended.stderr.contains(&message), "{ended:?}");
    assert!(!format!("{ended:?}").contains("sec"), "{ended:?}");
    let records = download.records();
    assert_eq!(records.len(), 5);
    assert!(records.iter().all(|record| !record.to_string().contains("sec")), "{records:?}");
    let good = records.iter().find(|record| record["status"] == 200).expect("one succeeds");
    assert_eq!(good["url"], with("/good", "ann"));
}

#[test]
fn server_certificates_are_verified() {
    let certs = Certs::new();
    let https = Https::start(&certs, CertOwner::Server);
    let url = format!("https://{}/bytes/5000", https.address);
    let ca = certs.ca();
    let ca = ca.to_str().unwrap();
    let download = Download::new();
    let ended = download.run(&["--retry", "0", "--jsonl", "records", &url]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(download.records()[0]["error"]["kind"], "tls");
    assert!(!download.out().exists(), "nothing was received");
    ok(&download.run(&["--cacert", ca, &url]));
    assert_eq!(download.files()[0].1.len(), 5_000);
    ok(&Download::new().run(&["-k", &url]));
    let ended = download.run(&["--cacert", "missing.pem", &url]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("missing.pem"), "{ended:?}");
}

#[test]
fn host_names_are_resolved() {
    let site = mirror();
    let port = site.url("").rsplit(':').next().unwrap().to_owned();
    let download = Download::new();
    let url = |host: &str| format!("http://{host}:{port}/{host}");
    let known = format!("known.test:{port}:127.0.0.1");
    ok(&download.run(&["--resolve", &known, &url("known.test"), &url("localhost")]));
    assert_eq!(download.names(), ["known.test", "localhost"]);
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let download = Download::new();
    for (arguments, part) in [
        (&[][..], "required"),
        (&["-j", "0", "http://h/"], "1 to"),
        (&["-j", "x", "http://h/"], "must be a whole number"),
        (&["--rate", "0", "http://h/"], "must be at least 1"),
        (&["--rate", "1.5", "http://h/"], "must be a whole number"),
        (&["-H", "x", "http://h/"], "Name: value"),
        (&["-H", "a b: c", "http://h/"], "a b"),
        (&["--max-time", "0", "http://h/"], "greater than 0"),
        (&["--resolve", "h", "http://h/"], "h"),
        (&["--proxy", "ftp://h/", "http://h/"], "ftp"),
    ] {
        let ended = download.run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
        assert!(!download.out().exists(), "{arguments:?}");
    }
    let ended = download.run(&["-i", "missing"]);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("the list missing: No such file"), "{ended:?}");
    for (arguments, part) in [
        (&["-i", "."][..], "cannot read the rest of the list"),
        (&["--journal", "missing/journal", "http://h/"], "the journal missing/journal: No such"),
        (&["--jsonl", "missing/records", "http://h/"], "the records missing/records: No such"),
    ] {
        let ended = download.run(arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
        assert!(!download.out().exists(), "{arguments:?}: nothing was received");
    }
    fs::write(download.turn_while("file"), "").unwrap();
    let ended = download.run(&["-o", "file", "http://h/"]);
    assert_eq!(ended.status.code(), Some(2), "given twice: {ended:?}");
}

#[test]
fn nothing_received_leaves_nothing_behind() {
    let refused = format!("http://{}/d/e/x", free_address());
    let download = Download::new();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(fulmar());
        command.arg("get").args(arguments).args(["--retry", "0", &refused]);
        command.current_dir(download.turn_while("")).env_remove("http_proxy");
        ChildProcess::start(&mut command).wait()
    };
    for arguments in [&["-O", "a/b/c"][..], &["-o", "a/b", "--mirror"], &["--resume"]] {
        let ended = run(arguments);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stdout.contains(" 0 opened, "), "refused connections: {ended:?}");
        let left: Vec<_> = fs::read_dir(download.turn_while("")).unwrap().collect();
        assert!(left.is_empty(), "{arguments:?}: {left:?}");
    }
    // What was there before stays, and so does the journal of a run that has received a file.
    fs::create_dir_all(download.turn_while("a/b")).unwrap();
    run(&["-O", "a/b/c"]);
    assert!(download.turn_while("a/b").exists());
    let site = mirror();
    let ended = download.run(&["--retry", "0", &site.url("/good"), &refused]);
    assert!(ended.stdout.contains(" 1 opened, "), "{ended:?}");
    assert_eq!(download.names(), [".fulmar-get.journal", "good"]);
    let ended = download.run(&["--retry", "0", &refused]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(download.names(), [".fulmar-get.journal", "good"], "of the run before");
}

#[test]
fn name_of_the_output_need_not_be_utf_8() {
    let site = mirror();
    let download = Download::new();
    fs::create_dir(download.out()).unwrap();
    let path = download.out().join(OsStr::from_bytes(b"a\xff"));
    let mut command = Command::new(fulmar());
    command.args(["get", &site.url("/x"), "-O"]).arg(&path).env_remove("http_proxy");
    ok(&ChildProcess::start(&mut command).wait());
    assert!(path.exists());
}

#[test]
fn ledger_divides_by_fetched_files() {
    let site = mirror();
    let download = Download::new();
    let refused = format!("http://{}/x", free_address());
    let shares = |urls: &[&str]| {
        let ended = download.run(&[&["--ledger", "--no-sync", "--retry", "0"], urls].concat());
        let line = ended.stdout.lines().find(|line| line.starts_with("  all  ")).unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (words[1].clone(), words[2].clone())
    };
    let (all, share) = shares(&[&site.url("/a"), &refused]);
    assert_eq!(share, format!("{all}.0000"));
    assert_eq!(shares(&[&refused]).1, "-");
}

#[test]
fn a_signal_stops_the_run_and_the_same_command_resumes_it() {
    let site = ScriptedSite::start(|asked| match (&asked.target[..], asked.before) {
        ("/slow", 0) => {
            SiteReply::Hang(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec())
        }
        (target, _) => SiteReply::ok(target),
    });
    let download = Download::new();
    let urls = [site.url("/a"), site.url("/slow"), site.url("/b")];
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    for signal in [Signal::INT, Signal::TERM] {
        let running = download.start(&urls);
        if signal == Signal::INT {
            let there = |name: &str| download.out().join(name).exists();
            eventually("all but one are there", || there("a") && there("b"));
            eventually("the slow one has begun", || site.count("/slow") == 1);
            running.signal(signal);
            let ended = running.wait();
            assert_eq!(ended.status.code(), Some(130), "{ended:?}");
            assert!(ended.stdout.contains("2 fetched, 1 unfinished"), "{ended:?}");
            assert_eq!(download.names(), [".fulmar-get.journal", "a", "b"]);
        } else {
            let ended = running.wait();
            ok(&ended);
            assert!(ended.stdout.contains("1 fetched, 2 fetched by an earlier run"), "{ended:?}");
        }
    }
    assert_eq!(download.names(), ["a", "b", "slow"]);
    assert_eq!((site.count("/a"), site.count("/b"), site.count("/slow")), (1, 1, 2));
}
