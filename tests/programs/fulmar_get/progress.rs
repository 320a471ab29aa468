//! The output of `fulmar get`: progress on a terminal, and the summary.

use std::path::Path;

use fulmar_tests::get::{Download, ScriptedSite, SiteReply, SiteRequest, message};
use fulmar_tests::process::{eventually, fulmar, peer, run, text};
use fulmar_tests::tree::noise;
use rustix::process::Signal;

/// Runs `fulmar get` on a terminal: its status, its output, and the final screen.
fn on_terminal(
    download: &Download,
    terminal: &[&str],
    arguments: &[&str],
) -> (i32, String, Vec<String>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/terminal.py");
    let mut command = peer("python3");
    command.arg(script).args(terminal).arg(fulmar());
    command.arg("get").arg("-o").arg(download.out()).args(arguments);
    serde_json::from_str(&text(&run(&mut command).stdout)).unwrap()
}

/// A site with `/long`, which sends 1,000,000 of 2,000,000 bytes and then stalls.
fn half() -> ScriptedSite {
    ScriptedSite::start(|asked: &SiteRequest| match &asked.target[..] {
        "/long" => {
            let mut bytes = message(200, "", &noise(2_000_000));
            bytes.truncate(bytes.len() - 1_000_000);
            SiteReply::Hang(bytes)
        }
        target => SiteReply::ok(target),
    })
}

#[test]
fn progress_is_for_terminals() {
    let site = ScriptedSite::start(|asked| match (&asked.target[..], asked.before) {
        ("/slow", 0) => SiteReply::Hang(Vec::new()),
        (target, _) => SiteReply::ok(target),
    });
    let download = Download::new();
    let arguments = ["--stall-timeout", "4s", &site.url("/a"), &site.url("/slow")];
    let (status, seen, screen) = on_terminal(&download, &[], &arguments);
    assert_eq!(status, 0);
    assert!(seen.contains("1 file, 0 failed, 1 next"), "{seen:?}");
    assert!(seen.contains("slowest: 127.0.0.1 0 B/s"), "{seen:?}");
    assert!(seen.contains("50 %, 2 B, "), "URLs of the command line have a number: {seen:?}");
    assert!(screen.is_empty(), "{screen:?}");
    let quiet = download.run(&["-q", &site.url("/b")]);
    assert!(quiet.status.success() && quiet.stdout.is_empty(), "{quiet:?}");
}

#[test]
fn progress_counts_spliced_bytes_as_they_arrive() {
    let site = half();
    let download = Download::new();
    let arguments = ["--retry", "0", "--stall-timeout", "4s", &site.url("/long")];
    let (status, seen, _) = on_terminal(&download, &[], &arguments);
    assert_eq!(status, 1);
    assert!(seen.contains("50 %, 1.00 MB of 2.00 MB, "), "{seen:?}");
    assert!(seen.contains(" left, 0 files, 0 failed, 1 next"), "{seen:?}");
}

#[test]
fn summary_after_an_interrupt_counts_spliced_bytes() {
    let site = half();
    let download = Download::new();
    let running = download.start(&[&site.url("/long")]);
    eventually("half of it is there", || {
        download.files().iter().any(|(_, bytes)| bytes.len() == 1_000_000)
    });
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(130));
    assert!(ended.stdout.contains("  bytes         1,000,000 in "), "{ended:?}");
}

#[test]
fn narrow_terminal_shows_whole_figures_and_an_interrupt_leaves_no_line() {
    let site = half();
    let download = Download::new();
    let terminal = ["--columns", "50", "--interrupt", "1.00 MB of 2.00 MB"];
    let (status, seen, screen) = on_terminal(&download, &terminal, &[&site.url("/long")]);
    assert_eq!(status, 130);
    assert!(screen.is_empty(), "{screen:?} is left of {seen:?}");
    let drawn = seen.split(['\r', '\n', '\x1b']).filter(|part| part.contains(" MB, "));
    for line in drawn.filter_map(|part| part.split_once('%')).map(|(_, line)| line.trim()) {
        assert!(line.chars().count() < 47, "{line:?}");
        let last = line.rsplit(", ").next().unwrap();
        let whole = ["/s", "left", "files", "failed", "next"].iter().any(|it| last.ends_with(it));
        assert!(whole, "{line:?} ends in the middle");
    }
}

#[test]
fn summary_counts_are_right() {
    let site =
        ScriptedSite::start(|asked| match (&asked.target[..], asked.field("authorization")) {
            ("/private", None) => {
                SiteReply::whole(401, "WWW-Authenticate: Basic realm=\"x\"\r\n", "who?")
            }
            ("/private", Some(_)) => SiteReply::ok("12345"),
            ("/from", _) => SiteReply::whole(302, "Location: /to\r\n", ""),
            ("/missing", _) => SiteReply::whole(404, "", noise(20_000)),
            (target, _) => SiteReply::ok(target),
        });
    let download = Download::new();
    let private = site.url("/private").replace("//", "//user:secret@");
    let ended = download.run(&["--jsonl", "records", &private]);
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stdout.contains("0 redirects, 0 retries"), "401 is none: {ended:?}");
    assert!(ended.stdout.contains("  bytes         5 in "), "{ended:?}");
    assert_eq!(download.records()[0]["redirects"], 0);
    assert!(!ended.stdout.contains("0.0 MB/s"), "{ended:?}");
    let ended = download.run(&[&site.url("/from")]);
    assert!(ended.stdout.contains("1 redirect, 0 retries"), "{ended:?}");
    let ended = download.run(&[&site.url("/missing")]);
    assert!(ended.stdout.contains("  bytes         0 in "), "{ended:?}");
    assert!(ended.stdout.contains(": 0 B/s, 0 files/s"), "failures are no files: {ended:?}");
}
