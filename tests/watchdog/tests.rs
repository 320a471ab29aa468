//! The watchdog as cargo starts it, with tests that hang on purpose.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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

/// Test binaries that start at the same time may each compile the watchdog.
#[test]
fn concurrent_watchdog_builds_do_not_collide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let here = std::env::current_exe().expect("a running test has a path");
    for _ in 0..3 {
        let target = tempfile::tempdir().expect("a directory");
        let start = |_| {
            let mut command = Command::new(root.join("scripts/test-runner"));
            command.arg(&here).arg("--list").env("CARGO_TARGET_DIR", target.path());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("it starts")
        };
        for run in [0; 4].map(start) {
            let output = run.wait_with_output().expect("it ends");
            let text = text(&output);
            assert!(output.status.success() && text.contains("builds_do_not_collide"), "{text}");
        }
        let left = fs::read_dir(target.path().join("watchdog")).expect("a directory");
        assert_eq!(left.count(), 1, "nothing but the watchdog is left");
    }
}
