//! Sets the version and the commit that the program was built from.
//!
//! The commit is `FULMAR_COMMIT`, for builds from an archive. Otherwise optimized builds use `git
//! describe` of this work tree, with `-dirty` if files differ from it. An archive unpacked inside
//! another work tree has no commit. Test builds have none either: each commit would relink them.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let given = env::var(COMMIT).ok().or_else(commit).unwrap_or_default();
    let commit = given.lines().next().unwrap_or_default().trim();
    let version = env!("CARGO_PKG_VERSION");
    let suffix = if commit.is_empty() { String::new() } else { format!(" ({commit})") };
    println!("cargo::rustc-env={COMMIT}={commit}");
    println!("cargo::rustc-env=FULMAR_VERSION={version}{suffix}");
}

/// The commit of the work tree that contains this file. `None` without git or a work tree.
fn commit() -> Option<String> {
    if env::var("PROFILE").is_ok_and(|it| it != "release") {
        return None;
    }
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let moved = ["HEAD", "logs/HEAD"].into_iter();
    let moved = moved.filter_map(|name| git(&["rev-parse", "--git-path", name]));
    let paths = moved.chain(SOURCES.iter().map(|&path| path.to_owned()));
    for path in paths.filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}"); // a missing file would always count as changed
    }
    // The same number of digits in every clone, and no tags, which some clones lack.
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

/// The output of git, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

const COMMIT: &str = "FULMAR_COMMIT";
/// The sources of the program. A change there causes a rebuild anyway.
const SOURCES: &[&str] = &["..", "../../bench/peers", "../../Cargo.toml", "../../Cargo.lock"];
