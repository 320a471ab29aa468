//! Which existing files count as done: checksums, lengths, and what reached the disk.

use std::fs;
use std::path::PathBuf;

use fulmar_tests::get::{Download, ScriptedSite, SiteReply};
use fulmar_tests::process::{ExitOutput, peer, run, text};

const JOURNAL: &str = ".fulmar-get.journal";

/// A site with files `good`; one other is missing, so a run leaves its journal.
fn site() -> ScriptedSite {
    ScriptedSite::start(|asked| match &asked.target[..] {
        "/missing" => SiteReply::whole(404, "", ""),
        _ => SiteReply::ok("good\n"),
    })
}

fn sum(download: &Download) -> String {
    fs::write(download.turn_while("sum"), "good\n").unwrap();
    let output = run(peer("sha256sum").arg(download.turn_while("sum")));
    let text = text(&output.stdout);
    format!("sha256:{}", text.split(' ').next().unwrap())
}

fn file(download: &Download, name: &str) -> PathBuf {
    download.out().join(name)
}

/// Runs a list of `/a`, with an optional checksum, and of a URL that fails.
fn run_a(
    download: &Download,
    site: &ScriptedSite,
    checksum: &str,
    arguments: &[&str],
) -> ExitOutput {
    let list = format!("{} a {checksum}\n{} b\n", site.url("/a"), site.url("/missing"));
    download.run_list(&list, arguments)
}

#[test]
fn existing_file_is_verified_and_a_wrong_one_is_fetched_again() {
    let (site, download) = (site(), Download::new());
    let sum = sum(&download);
    for (arguments, count) in [(&[][..], 1), (&["--skip-existing"], 3)] {
        run_a(&download, &site, &sum, arguments);
        let ended = run_a(&download, &site, &sum, arguments);
        assert!(ended.stdout.contains("0 fetched, 1 fetched by an earlier run"), "{ended:?}");
        assert_eq!(site.count("/a"), count, "a good file is not fetched again");
        // The same length: only the checksum differs.
        fs::write(file(&download, "a"), "evil\n").unwrap();
        let ended = run_a(&download, &site, &sum, arguments);
        assert!(ended.stdout.contains("1 fetched, 1 failed"), "{ended:?}");
        assert_eq!(fs::read(file(&download, "a")).unwrap(), b"good\n");
        assert_eq!(site.count("/a"), count + 1);
        fs::write(file(&download, "a"), "evil again\n").unwrap();
        run_a(&download, &site, &sum, arguments);
        assert_eq!(fs::read(file(&download, "a")).unwrap(), b"good\n");
    }
}

#[test]
fn skipped_file_of_another_program_is_verified_too() {
    let (site, download) = (site(), Download::new());
    let sum = sum(&download);
    fs::create_dir(download.out()).unwrap();
    fs::write(file(&download, "a"), "good\n").unwrap();
    let ended = run_a(&download, &site, &sum, &["--skip-existing"]);
    assert!(ended.stdout.contains("0 fetched, 1 skipped"), "{ended:?}");
    fs::write(file(&download, "a"), "something else").unwrap();
    let ended = run_a(&download, &site, "", &[]);
    assert!(ended.stderr.contains("the output file exists"), "{ended:?}");
    let ended = run_a(&download, &site, &sum, &[]);
    assert!(ended.stderr.contains("the output file exists"), "nothing allows it: {ended:?}");
    let ended = run_a(&download, &site, &sum, &["--skip-existing"]);
    assert!(ended.stdout.contains("1 fetched, 1 failed"), "{ended:?}");
    assert_eq!(fs::read(file(&download, "a")).unwrap(), b"good\n");
}

#[test]
fn wrong_file_stays_until_the_right_one_is_complete() {
    let site = ScriptedSite::start(|asked| match asked.before {
        0 => SiteReply::ok("good\n"),
        _ => SiteReply::whole(404, "", ""),
    });
    let download = Download::new();
    let sum = sum(&download);
    run_a(&download, &site, &sum, &[]);
    fs::write(file(&download, "a"), "evil\n").unwrap();
    let ended = run_a(&download, &site, &sum, &[]);
    assert!(ended.stdout.contains("0 fetched, 2 failed"), "{ended:?}");
    assert_eq!(fs::read(file(&download, "a")).unwrap(), b"evil\n");
}

#[test]
fn file_of_another_length_than_the_journal_says_is_fetched_again() {
    let (site, download) = (site(), Download::new());
    run_a(&download, &site, "", &[]);
    let journal = fs::read_to_string(file(&download, JOURNAL)).unwrap();
    let done = journal.lines().filter(|line| line.starts_with('*') && line.ends_with(" 5"));
    assert_eq!(done.count(), 1, "{journal}");
    fs::write(file(&download, "a"), "").unwrap();
    let ended = run_a(&download, &site, "", &[]);
    assert!(ended.stdout.contains("1 fetched, 1 failed"), "{ended:?}");
    assert_eq!(fs::read(file(&download, "a")).unwrap(), b"good\n");
    let ended = run_a(&download, &site, "", &[]);
    assert!(ended.stdout.contains("0 fetched, 1 fetched by an earlier run"), "{ended:?}");
}

#[test]
fn file_that_was_not_synced_before_a_restart_is_fetched_again() {
    let (site, download) = (site(), Download::new());
    run_a(&download, &site, "", &[]);
    // Killed before the file was synced: a file with its name is complete.
    let journal = fs::read_to_string(file(&download, JOURNAL)).unwrap();
    let unsynced = |line: &&str| !line.starts_with('*');
    let journal: String = journal.lines().filter(unsynced).map(|l| format!("{l}\n")).collect();
    fs::write(file(&download, JOURNAL), &journal).unwrap();
    let ended = run_a(&download, &site, "", &[]);
    assert!(ended.stdout.contains("0 fetched, 1 fetched by an earlier run"), "{ended:?}");
    // The power failed: its content may be lost.
    let boot = journal.lines().find(|line| line.starts_with('@')).unwrap();
    fs::write(file(&download, JOURNAL), journal.replace(boot, "@0-1")).unwrap();
    fs::write(file(&download, "a"), "\0\0\0\0\0").unwrap();
    let ended = run_a(&download, &site, "", &[]);
    assert!(ended.stdout.contains("1 fetched, 1 failed"), "{ended:?}");
    assert_eq!(fs::read(file(&download, "a")).unwrap(), b"good\n");
}

#[test]
fn journal_of_an_older_version_is_read() {
    let (site, download) = (site(), Download::new());
    run_a(&download, &site, "", &[]);
    let journal = fs::read_to_string(file(&download, JOURNAL)).unwrap();
    let old = |line: &&str| !line.starts_with(['*', '@']);
    let journal: String = journal.lines().filter(old).map(|l| format!("{l}\n")).collect();
    fs::write(file(&download, JOURNAL), journal).unwrap();
    let ended = run_a(&download, &site, "", &[]);
    assert!(ended.stdout.contains("0 fetched, 1 fetched by an earlier run"), "{ended:?}");
}

#[test]
fn no_sync_disables_fsync() {
    let (site, download) = (site(), Download::new());
    fs::create_dir(download.out()).unwrap();
    let url = site.url("/a");
    let ended = download.run(&["--ledger", &url]);
    let count = |ended: &ExitOutput, name: &str| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut lines = ended.stdout.lines().map(words);
        lines.find(|words| words.first().is_some_and(|it| it == name)).map(|it| it[1].clone())
    };
    assert_eq!(count(&ended, "fsync").as_deref(), Some("3"), "with journal and folder: {ended:?}");
    let ended = download.run(&["--ledger", "--no-sync", &site.url("/b")]);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!((count(&ended, "fsync"), count(&ended, "syncfs")), (None, None), "{ended:?}");
}
