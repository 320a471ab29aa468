//! HAProxy and we agree on everyday configurations: which are valid, which are not, and where the
//! first error is.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_haproxy::{
    Diagnostics, Environment, Loaded, Options, Severity, Source, ThisMachine, load,
};

#[test]
fn what_haproxy_takes_we_take() {
    for path in configurations("valid") {
        let theirs = Theirs::of(&path);
        assert!(theirs.is_valid, "{}: HAProxy refuses it:\n{}", path.display(), theirs.text);
        if let Err(found) = ours(&path) {
            panic!("{}: we refuse it:\n{found}", path.display());
        }
    }
}

#[test]
fn what_haproxy_refuses_we_refuse_on_the_same_line() {
    for path in configurations("invalid") {
        let theirs = Theirs::of(&path);
        assert!(!theirs.is_valid, "{}: HAProxy takes it:\n{}", path.display(), theirs.text);
        let Err(found) = ours(&path) else {
            panic!("{}: we take it, and HAProxy says:\n{}", path.display(), theirs.text);
        };
        let alert = found.0.iter().find(|found| found.severity == Severity::Alert);
        let place = alert.and_then(|alert| alert.place.as_ref());
        let line = place.unwrap_or_else(|| panic!("{}: no line:\n{found}", path.display())).line;
        if let Some((_, expected)) = BETTER.iter().find(|(name, _)| path.ends_with(name)) {
            assert_eq!(line, *expected, "{}", path.display());
            continue;
        }
        // Some of HAProxy's messages name no line.
        assert!(
            theirs.lines.is_empty() || theirs.lines.contains(&line),
            "{}: we say line {line}:\n{found}\nHAProxy says:\n{}",
            path.display(),
            theirs.text
        );
    }
}

/// Where HAProxy names another line than that of the cause, which we name.
const BETTER: &[(&str, u32)] = &[("http-to-tcp.cfg", 8), ("unclosed-block.cfg", 1)];

fn configurations(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("haproxy").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 25, "{}: {} files", folder.display(), paths.len());
    paths
}

fn ours(path: &Path) -> Result<Loaded, Diagnostics> {
    let sources = [Source::Path(path.to_owned())];
    load(&sources, &Environment::of_process(), &ThisMachine, &Options::default())
}

/// What `haproxy -c` says.
struct Theirs {
    is_valid: bool,
    /// Lines of its alerts.
    lines: BTreeSet<u32>,
    text: String,
}

impl Theirs {
    fn of(path: &Path) -> Self {
        let run = Command::new("haproxy").args(["-c", "-f"]).arg(path).output();
        let output = run.expect("haproxy is there: scripts/setup-peers installs it");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let alerts = || text.lines().filter(|line| line.starts_with("[ALERT]"));
        let file = format!("{}:", path.display());
        let number = |rest: &str| {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            rest[..end].parse().ok()
        };
        let lines = alerts().flat_map(|line| line.split(&file).skip(1).filter_map(number));
        let lines = lines.collect();
        // 2 is "valid, but there is nothing to listen on".
        let is_valid = matches!(output.status.code(), Some(0 | 2)) && alerts().next().is_none();
        Self { is_valid, lines, text }
    }
}
