//! The watchdog as cargo starts it, with tests that hang on purpose.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A package with these tests, run by `cargo test` in this repository.
fn cargo_test(source: &str, limit: Option<&str>, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dir = tempfile::tempdir().expect("a directory");
    let manifest = dir.path().join("Cargo.toml");
    let package = "[package]\nname = \"hangs\"\nedition = \"2024\"\n\
                   [lib]\npath = \"lib.rs\"\n[workspace]\n";
    fs::write(&manifest, package).expect("a file");
    fs::write(dir.path().join("lib.rs"), source).expect("a file");
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--offline", "--lib", "--target-dir"]).arg(dir.path().join("target"));
    command.arg("--manifest-path").arg(manifest).arg("--").args(arguments);
    command.env_remove("FULMAR_TEST_SECONDS");
    command.envs(limit.map(|limit| ("FULMAR_TEST_SECONDS", limit)));
    command.current_dir(root).output().expect("cargo runs")
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).join("")
}

#[test]
fn a_test_that_hangs_is_named_and_ended() {
    let source = "#[test] fn ends() {}\n#[test] fn waits() { loop { std::thread::park() } }";
    let output = cargo_test(source, Some("5"), &["--test-threads=1"]);
    let text = text(&output);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("test ends ... ok"), "{text}");
    assert!(text.contains("watchdog: running: waits ("), "{text}");
    assert!(!text.contains("running: ends"), "{text}");
}

#[test]
fn tests_that_end_are_left_alone() {
    let output = cargo_test("#[test] fn ends() {}", None, &[]);
    let text = text(&output);
    assert!(output.status.success() && text.contains("test result: ok. 1 passed"), "{text}");
    assert!(!text.contains("watchdog"), "{text}");
}
