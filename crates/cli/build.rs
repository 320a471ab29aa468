//! Tells the program what it was built of: its version, and the commit.
//!
//! The commit is what `FULMAR_COMMIT` says, for whoever builds from an archive; else, of an optimised
//! build, what git says of this work tree, with `-dirty` where files differ from it; else nothing. An
//! archive that lies in somebody else's work tree is not of their commit. What is built again and
//! again for tests is of none: a commit alone would link it again.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let given = env::var(COMMIT).ok().or_else(commit).unwrap_or_default();
    let commit = given.lines().next().unwrap_or_default().trim();
    let version = env!("CARGO_PKG_VERSION");
    let told = if commit.is_empty() { String::new() } else { format!(" ({commit})") };
    println!("cargo::rustc-env={COMMIT}={commit}");
    println!("cargo::rustc-env=FULMAR_VERSION={version}{told}");
}

/// Of the work tree that this file belongs to; `None` without git, or if it belongs to none.
fn commit() -> Option<String> {
    if env::var("PROFILE").is_ok_and(|it| it != "release") {
        return None;
    }
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let moved = ["HEAD", "logs/HEAD"].into_iter();
    let moved = moved.filter_map(|name| git(&["rev-parse", "--git-path", name]));
    let paths = moved.chain(SOURCES.iter().map(|&path| path.to_owned()));
    for path in paths.filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}"); // one that is missing would be changed for ever
    }
    // As many digits in every clone, and no tags, which not every clone has.
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

/// What git prints here, if it has no complaint.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

const COMMIT: &str = "FULMAR_COMMIT";
/// Of what the program is made, seen from here: whatever changes there builds it again anyway.
const SOURCES: &[&str] = &["..", "../../bench/peers", "../../Cargo.toml", "../../Cargo.lock"];
