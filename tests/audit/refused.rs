//! Where the kernel takes no counter, or tells less: what is said, and what is counted all the same.

use std::process::Command;

use fulmar_tests::process::{Ended, Process, fulmar};

/// `fulmar audit` of a small program, by way of another command.
fn audit(by: &[&str]) -> Ended {
    let mut command = Command::new(by[0]);
    command.args(&by[1..]).arg(fulmar()).args(["audit", "--json", "--", "/bin/dash", "-c", "cd /"]);
    Process::start(&mut command).wait()
}

fn json(ended: &Ended) -> serde_json::Value {
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

/// False if nobody may do this here.
fn may(by: &[&str]) -> bool {
    Command::new(by[0]).args(&by[1..]).arg("true").output().is_ok_and(|out| out.status.success())
}

#[test]
fn without_privileges_it_is_traced_and_that_is_said() {
    for by in [&["unshare", "-Ur"][..], &["setpriv", "--bounding-set=-all", "--inh-caps=-all"]] {
        if !may(by) {
            continue;
        }
        let ended = audit(by);
        let json = json(&ended);
        assert_eq!((&json["backend"], &json["lost"]), (&"ptrace".into(), &0.into()), "{json}");
        assert_eq!(json["calls"]["chdir"]["calls"], 1, "{json}");
        assert!(ended.stderr.contains("counting by tracing"), "{ended:?}");
        assert!(ended.stderr.contains("CAP_BPF"), "{ended:?}");
    }
}

/// True if the kernel counts for whoever runs the tests.
fn kernel_counts() -> bool {
    json(&audit(&["env"]))["backend"] == "ebpf"
}

#[test]
fn a_kernel_without_types_counts_calls_and_says_what_it_does_not_count() {
    let by =
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "-"];
    if !kernel_counts() || !may(&by) {
        return;
    }
    let json = json(&audit(&by));
    assert_eq!((&json["backend"], &json["ring"]), (&"ebpf".into(), &serde_json::Value::Null));
    assert_eq!(json["calls"]["chdir"]["calls"], 1, "{json}");
    let said = json["ring_unknown"].as_str();
    assert!(said.is_some_and(|said| said.contains("does not tell its types")), "{json}");
}

#[test]
fn processes_are_found_by_their_numbers_in_a_namespace() {
    let by = ["unshare", "-p", "--fork", "--mount-proc"];
    if !kernel_counts() || !may(&by) {
        return;
    }
    let started = json(&audit(&by));
    assert_eq!(
        (&started["backend"], &started["calls"]["chdir"]["calls"]),
        (&"ebpf".into(), &1.into())
    );
    let script = "while :; do cd /; done & exec \"$0\" audit --json --for 200ms --pid $!";
    let mut command = Command::new(by[0]);
    command.args(&by[1..]).args(["sh", "-c", script]).arg(fulmar());
    let joined = json(&Process::start(&mut command).wait());
    assert!(joined["calls"]["chdir"]["calls"].as_u64() > Some(0), "{joined}");
}
