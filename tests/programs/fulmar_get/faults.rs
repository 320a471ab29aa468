//! `fulmar get` when servers, disks or users fail: incomplete files never look complete.

use std::fs;
use std::process::Command;

use fulmar_tests::get::{Download, ScriptedSite, SiteReply, SiteRequest, message};
use fulmar_tests::load::refusing;
use fulmar_tests::process::{ChildProcess, ExitOutput, eventually, fulmar};
use fulmar_tests::tree::noise;
use rustix::process::Signal;

const JOURNAL: &str = ".fulmar-get.journal";

fn head(len: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n")
}

/// One URL for each kind of failure, among good ones.
fn broken(asked: &SiteRequest) -> SiteReply {
    match &asked.target[..] {
        "/short" => SiteReply::Close((head(10) + "12345").into_bytes()),
        "/shorter" => SiteReply::Close(head(10).into_bytes()),
        "/long" => SiteReply::Close((head(10) + "1234567890 and more").into_bytes()),
        "/chunked" => SiteReply::Close(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n".to_vec(),
        ),
        "/nonsense" => SiteReply::Close(b"220 welcome\r\n\r\n".to_vec()),
        "/nothing" => SiteReply::Close(Vec::new()),
        "/missing" => SiteReply::whole(404, "", "what you look for is not here"),
        "/part" => SiteReply::whole(206, "Content-Range: bytes 0-4/10\r\n", "12345"),
        "/not-modified" => SiteReply::Send(b"HTTP/1.1 304 X\r\n\r\n".to_vec()),
        "/loop" => SiteReply::whole(302, "Location: /loop\r\n", ""),
        "/nowhere" => SiteReply::whole(302, "Location: ftp://h/\r\n", ""),
        "/endless" => {
            let mut bytes = b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            (0..40).for_each(|_| {
                bytes.extend_from_slice(b"1000\r\n");
                bytes.extend_from_slice(&[b'x'; 0x1000]);
                bytes.extend_from_slice(b"\r\n");
            });
            SiteReply::Hang(bytes)
        }
        "/silent" => SiteReply::Hang(Vec::new()),
        "/stalled" => SiteReply::Hang((head(10) + "12345").into_bytes()),
        target => SiteReply::ok(target),
    }
}

/// Responses of old servers that only a lenient client accepts.
fn old(asked: &SiteRequest) -> SiteReply {
    let text = match &asked.target[..] {
        "/folded" => "HTTP/1.1 200 OK\r\nX: a\r\n  b\r\nContent-Length: 5\r\n\r\nhello",
        "/line-feeds" => "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        "/padded" => {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5   \r\nhello\r\n0   \r\n\r\n"
        }
        "/both" => {
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\n"
        }
        _ => "hello",
    };
    SiteReply::Close(text.as_bytes().to_vec())
}

#[test]
fn responses_of_old_servers_are_stored() {
    let site = ScriptedSite::start(old);
    let targets = ["/folded", "/line-feeds", "/padded", "/both", "/bare"];
    let urls: Vec<String> = targets.iter().map(|target| site.url(target)).collect();
    let all: Vec<&str> = urls.iter().map(String::as_str).collect();
    let download = Download::new();
    let ended = download.run(&[&["--retry", "0", "--jsonl", "records"], &all[..]].concat());
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(download.names(), [JOURNAL, "both", "folded", "line-feeds", "padded"]);
    assert!(download.files()[1..].iter().all(|(_, bytes)| bytes == b"hello"));
    let records = download.records();
    let bare = records.iter().find(|record| record["result"] == "failed").expect("one has failed");
    assert_eq!(
        (&bare["url"], &bare["error"]["kind"]),
        (&urls[4].as_str().into(), &"protocol".into())
    );
    let ended = download.run(&[&["--http0.9"], &all[..]].concat());
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(download.names(), ["bare", "both", "folded", "line-feeds", "padded"]);
    assert_eq!(download.files()[0].1, b"hello");
}

#[test]
fn each_failure_is_reported_and_does_not_affect_others() {
    let site = ScriptedSite::start(broken);
    let (_holder, refused) = refusing();
    let download = Download::new();
    let expected = [
        ("/short", "truncated"),
        ("/shorter", "truncated"),
        ("/long", "excess"),
        ("/chunked", "truncated"),
        ("/nonsense", "protocol"),
        ("/nothing", "closed"),
        ("/missing", "status"),
        ("/part", "status"),
        ("/not-modified", "status"),
        ("/loop", "redirect"),
        ("/nowhere", "redirect"),
        ("/endless", "status"),
        ("/silent", "timeout"),
        ("/stalled", "timeout"),
    ];
    let mut list = String::new();
    for (target, _) in expected {
        list += &format!("{}\n{}\n", site.url(target), site.url(&format!("/good{target}")));
    }
    // The bad URLs have the same names as the good ones, so they get other names in the list.
    let list: String = list
        .lines()
        .map(|url| {
            format!("{url} {}\n", url.rsplit_once(":").unwrap().1.split_once('/').unwrap().1)
        })
        .collect();
    let list = format!("{list}{refused} refused\n");
    let arguments =
        ["--retry", "0", "--stall-timeout", "4s", "--jsonl", "records", "--per-host", "4"];
    let ended = download.run_list(&list, &arguments);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let records = download.records();
    for (record, (target, kind)) in records.iter().step_by(2).zip(expected) {
        assert_eq!(record["error"]["kind"], kind, "{target}: {record}");
    }
    let last = records.last().unwrap();
    assert_eq!(last["error"]["kind"], "connect");
    let address = refused.trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(last["tried"], serde_json::json!([address]));
    let timings = last["timings_us"].as_object().unwrap();
    assert!(timings["first_byte"].is_null() && timings["total"].is_u64(), "{last}");
    let mut names: Vec<_> = expected.iter().map(|(target, _)| format!("good{target}")).collect();
    names.push(JOURNAL.to_owned());
    names.sort();
    assert_eq!(download.names(), names, "{ended:?}");
}

#[test]
fn transient_failures_are_retried() {
    let site = ScriptedSite::start(|asked| match (&asked.target[..], asked.before) {
        ("/busy", 0) => SiteReply::whole(503, "Retry-After: 1\r\n", "later"),
        ("/failing", 0 | 1) => SiteReply::whole(500, "", ""),
        ("/cut", 0) => SiteReply::Close((head(10) + "12345").into_bytes()),
        ("/missing", _) => SiteReply::whole(404, "", ""),
        ("/hopeless", _) => SiteReply::Close(Vec::new()),
        (target, _) => SiteReply::ok(target),
    });
    let download = Download::new();
    let targets = ["/busy", "/failing", "/cut", "/missing", "/hopeless"];
    let list: String = targets.iter().map(|target| site.url(target) + "\n").collect();
    let ended = download.run_list(&list, &["--retry", "2", "--jsonl", "records"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(download.names(), [JOURNAL, "busy", "cut", "failing"]);
    let retries: Vec<_> = download.records().iter().map(|r| r["retries"].as_u64()).collect();
    assert_eq!(retries, [1, 2, 1, 0, 2].map(Some));
    let counts = targets.map(|target| site.count(target));
    assert_eq!(counts[..4], [2, 3, 2, 1]);
    assert_eq!(fs::read(download.out().join("cut")).unwrap(), b"/cut");
    assert!(ended.stdout.contains("7 retries") || ended.stdout.contains("6 retries"), "{ended:?}");
}

#[test]
fn a_killed_run_is_resumed() {
    let site = ScriptedSite::start(|asked| match (&asked.target[..], asked.before) {
        ("/500", 0) => SiteReply::Hang((head(10) + "12345").into_bytes()),
        (target, _) => SiteReply::ok(target),
    });
    let download = Download::new();
    let list: String = (0..1_000).map(|n| format!("{}\n", site.url(&format!("/{n}")))).collect();
    fs::write(download.turn_while("list"), &list).unwrap();
    let arguments = ["-i", "list", "-j", "1"];
    let running = download.start(&arguments);
    eventually("it has come half the way", || site.count("/500") == 1);
    running.signal(Signal::KILL);
    assert!(running.wait().status.code().is_none());
    let there = download.names();
    assert!(there.len() >= 500, "{}", there.len());
    assert!(there.iter().all(|name| name.starts_with('.') || name.parse::<u32>().unwrap() < 500));
    // The kill tears a line.
    let journal = download.out().join(JOURNAL);
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend_from_slice(b"+0123456789");
    fs::write(&journal, bytes).unwrap();
    let ended = download.run(&arguments);
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stdout.contains("500 fetched, 500 fetched by an earlier run"), "{ended:?}");
    let asked = site.requests();
    assert_eq!(asked.len(), 1_001, "only the interrupted URL was requested twice");
    let files = download.files();
    assert_eq!(files.len(), 1_000);
    assert!(files.iter().all(|(name, bytes)| bytes == format!("/{name}").as_bytes()));
}

/// The body of `/a` in two versions. The first connection closes in the middle.
fn versioned(change: bool) -> impl Fn(&SiteRequest) -> SiteReply + Send + Sync {
    move |asked| {
        let body = noise(100_000);
        let etag = if change && asked.before > 0 { "\"two\"" } else { "\"one\"" };
        let fields = format!("ETag: {etag}\r\n");
        let from = asked.field("range").and_then(|range| {
            range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok()
        });
        match from.filter(|_| asked.field("if-range") == Some(etag)) {
            _ if asked.before == 0 => {
                let mut bytes = message(200, &fields, &body);
                bytes.truncate(bytes.len() - 40_000);
                SiteReply::Hang(bytes)
            }
            None => SiteReply::whole(200, &fields, &body),
            Some(from) => {
                let range = format!("Content-Range: bytes {from}-99999/100000\r\n{fields}");
                SiteReply::whole(206, &range, &body[from..])
            }
        }
    }
}

/// Runs, is killed in the middle of a body, and runs again.
fn resumed(change: bool, arguments: &[&str]) -> (ExitOutput, Download, ScriptedSite) {
    let site = ScriptedSite::start(versioned(change));
    let download = Download::new();
    let url = site.url("/a");
    let arguments = [arguments, &["--jsonl", "records", &url]].concat();
    let running = download.start(&arguments);
    eventually("most of it is there", || {
        download.files().iter().any(|(_, bytes)| bytes.len() == 60_000)
            && download.files().iter().any(|(name, bytes)| name == JOURNAL && bytes.contains(&b'='))
    });
    running.signal(Signal::KILL);
    drop(running.wait());
    let ended = download.run(&arguments);
    assert!(ended.status.success(), "{ended:?}");
    let files = download.files();
    assert!(files.len() == 1 && files[0] == ("a".to_owned(), noise(100_000)));
    (ended, download, site)
}

#[test]
fn a_truncated_body_is_resumed() {
    let (_, download, site) = resumed(false, &["--resume"]);
    let asked = site.requests();
    assert_eq!(asked[1].field("range"), Some("bytes=60000-"));
    assert_eq!(asked[1].field("if-range"), Some("\"one\""));
    let record = &download.records()[0];
    assert_eq!((&record["resumed_from"], &record["bytes"]), (&60_000.into(), &100_000.into()));
    assert_eq!(asked.len(), 2);
}

#[test]
fn a_changed_body_is_fetched_from_the_start() {
    let (_, download, site) = resumed(true, &["--resume"]);
    assert_eq!(site.requests()[1].field("if-range"), Some("\"one\""));
    assert_eq!(download.records()[0]["resumed_from"], 0);
}

#[test]
fn an_unsatisfiable_range_is_not_requested_twice() {
    let body = "1234567890";
    let site = ScriptedSite::start(move |asked| match asked.before {
        0 => {
            let mut bytes = message(200, "ETag: \"x\"\r\n", body.as_bytes());
            bytes.truncate(bytes.len() - 5);
            SiteReply::Close(bytes)
        }
        1 => SiteReply::whole(416, "Content-Range: bytes */3\r\n", "nonsense"),
        _ => SiteReply::ok(body),
    });
    let download = Download::new();
    let ended = download.run(&["--resume", &site.url("/a")]);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(download.files(), [("a".to_owned(), body.into())]);
    let ranges: Vec<_> =
        site.requests().iter().map(|asked| asked.field("range").map(str::to_owned)).collect();
    assert_eq!(ranges, [None, Some("bytes=5-".to_owned()), None]);
}

#[test]
fn a_checksum_covers_the_kept_part() {
    use std::fmt::Write;
    let bytes = noise(100_000);
    let mut list = String::new();
    let site = ScriptedSite::start(versioned(false));
    let sum = Command::new("sha256sum").arg("/dev/stdin").output();
    drop(sum);
    let download = Download::new();
    fs::write(download.turn_while("whole"), &bytes).unwrap();
    let output = Command::new("sha256sum").arg(download.turn_while("whole")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let digits = text.split(' ').next().unwrap();
    writeln!(list, "{} a sha256:{digits}", site.url("/a")).unwrap();
    let arguments = ["--resume", "--stall-timeout", "3s"];
    let ended = download.run_list(&list, &arguments);
    assert!(ended.status.success(), "{ended:?}");
    assert!(site.requests()[1].field("range").is_some(), "within one run, too");
    assert_eq!(download.files(), [("a".to_owned(), bytes)]);
}

#[test]
fn a_directory_is_locked_by_a_run() {
    let site = ScriptedSite::start(|_| SiteReply::Hang(Vec::new()));
    let download = Download::new();
    let first = download.start(&[&site.url("/a")]);
    eventually("the request arrives", || site.count("/a") == 1);
    let second = download.run(&[&site.url("/b")]);
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stderr.contains("locked by another 'fulmar get'"), "{second:?}");
    drop(first);
    assert_eq!(site.count("/b"), 0);
}

/// `fulmar get` with a file size limit of 512 bytes * `blocks`.
fn limited(download: &Download, blocks: u32, list: &str) -> ExitOutput {
    fs::write(download.turn_while("list"), list).unwrap();
    let line = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &line, "sh"]).arg(fulmar()).args(["get", "-o", "out", "-i", "list"]);
    command.current_dir(download.turn_while(""));
    ChildProcess::start(&mut command).wait()
}

#[test]
fn a_file_that_cannot_be_written_fails_alone() {
    let site = ScriptedSite::start(|asked| match &asked.target[..] {
        "/large" => SiteReply::ok(noise(200_000)),
        "/huge" => SiteReply::ok(noise(2_000_000)),
        target => SiteReply::ok(target),
    });
    let download = Download::new();
    let targets = ["/a", "/large", "/b", "/huge", "/c"];
    let list: String = targets.iter().map(|target| site.url(target) + "\n").collect();
    let ended = limited(&download, 200, &list);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("line 2: ") && ended.stderr.contains("line 4: "), "{ended:?}");
    assert!(ended.stderr.contains("File too large"), "{ended:?}");
    assert_eq!(download.names(), [JOURNAL, "a", "b", "c"]);
    assert_eq!((site.count("/large"), site.count("/huge")), (1, 1), "trying again is no use");
}

#[test]
fn many_directories_do_not_exhaust_descriptors() {
    let site = ScriptedSite::start(|asked| SiteReply::ok(&asked.target));
    let download = Download::new();
    let list: String =
        (0..600).map(|n| format!("{} d{n}/e/f\n", site.url(&format!("/{n}")))).collect();
    fs::write(download.turn_while("list"), list).unwrap();
    let line = "ulimit -n 128; exec \"$0\" get -o out -i list";
    let mut command = Command::new("sh");
    command.args(["-c", line]).arg(fulmar()).current_dir(download.turn_while(""));
    let ended = ChildProcess::start(&mut command).wait();
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.starts_with("fulmar: 64 connections exceed"), "{ended:?}");
    assert_eq!(download.names().len(), 600);
}

#[test]
fn a_full_disk_fails_only_files_without_room() {
    let probe = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "x", "/mnt"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return; // a separate file system may not be permitted; file size limits are tested above
    }
    let site = ScriptedSite::start(|asked| match &asked.target[..] {
        "/large" => SiteReply::ok(noise(600_000)),
        target => SiteReply::ok(target),
    });
    let download = Download::new();
    let list: String =
        ["/a", "/large", "/b"].iter().map(|target| site.url(target) + "\n").collect();
    fs::write(download.turn_while("list"), list).unwrap();
    let line = "mount -t tmpfs -o size=200k x /mnt && \"$0\" get -j 1 -i list -o /mnt; \
                echo status $?; ls -A /mnt";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", line]).arg(fulmar()).current_dir(download.turn_while(""));
    let ended = ChildProcess::start(&mut command).wait();
    assert!(ended.stdout.contains("status 1\n"), "{ended:?}");
    assert!(ended.stderr.contains("No space left on device"), "{ended:?}");
    let names: Vec<_> =
        ended.stdout.lines().skip_while(|l| !l.starts_with("status")).skip(1).collect();
    assert_eq!(names, [JOURNAL, "a", "b"]);
}
