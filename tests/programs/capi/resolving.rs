//! Answers of name servers.

use std::process::Command;

use super::{compiled, libraries, printed_by};

/// Addresses of each version, aliases, truncated answers, errors, silence, answers to other
/// questions. Needs a network of its own, where port 53 is free.
#[test]
fn names_are_resolved_as_by_libcurl() {
    let probe = ["-rnm", "ip", "link", "set", "lo", "up"];
    if !Command::new("unshare").args(probe).output().is_ok_and(|it| it.status.success()) {
        return;
    }
    let program = compiled("tests/programs/capi", "resolving");
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/capi-resolv.conf");
    std::fs::write(file, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n").expect("a file");
    let line = format!("ip link set lo up && mount --bind {file} /etc/resolv.conf && exec \"$0\"");
    let [original, ours] = [None, Some(libraries())].map(|folder| {
        let mut command = Command::new("unshare");
        printed_by(command.args(["-rnm", "sh", "-c", &line]).arg(&program), folder)
    });
    assert!(original.contains("cut: 0, '127.0.0.1'"), "{original}");
    assert_eq!(ours, original);
}
