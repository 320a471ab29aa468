//! Kernels that refuse eBPF or report less: messages, and what is still counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_tests::process::{ChildProcess, ExitOutput, fulmar, peer, run};

/// `fulmar audit` of a small program, through another command.
fn audit(by: &[&str]) -> ExitOutput {
    let mut command = Command::new(by[0]);
    command.args(&by[1..]).arg(fulmar()).args(["audit", "--json", "--", "/bin/dash", "-c", "cd /"]);
    ChildProcess::start(&mut command).wait()
}

fn json(ended: &ExitOutput) -> serde_json::Value {
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

/// True if the command is permitted here.
fn may(by: &[&str]) -> bool {
    Command::new(by[0]).args(&by[1..]).arg("true").output().is_ok_and(|out| out.status.success())
}

#[test]
fn without_privileges_ptrace_is_used_with_a_message() {
    for by in [&["unshare", "-Ur"][..], &["setpriv", "--bounding-set=-all", "--inh-caps=-all"]] {
        if !may(by) {
            continue;
        }
        let ended = audit(by);
        let json = json(&ended);
        assert_eq!((&json["backend"], &json["lost"]), (&"ptrace".into(), &0.into()), "{json}");
        assert_eq!(json["calls"]["chdir"]["calls"], 1, "{json}");
        let why = "fulmar: eBPF needs root or CAP_BPF and CAP_PERFMON; using ptrace instead (same";
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
}

/// True if eBPF is permitted to the user of the tests.
fn kernel_counts() -> bool {
    json(&audit(&["env"]))["backend"] == "ebpf"
}

#[test]
fn without_btf_calls_are_counted_and_operations_are_not() {
    let by =
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "-"];
    if !kernel_counts() || !may(&by) {
        return;
    }
    let json = json(&audit(&by));
    assert_eq!((&json["backend"], &json["ring"]), (&"ebpf".into(), &serde_json::Value::Null));
    assert_eq!(json["calls"]["chdir"]["calls"], 1, "{json}");
    let said = json["ring_unknown"].as_str();
    assert!(said.is_some_and(|said| said.contains("has no type information")), "{json}");
}

#[test]
fn processes_in_a_pid_namespace_are_found() {
    let by = ["unshare", "-p", "--fork", "--mount-proc"];
    if !kernel_counts() || !may(&by) {
        return;
    }
    let started = json(&audit(&by));
    assert_eq!(
        (&started["backend"], &started["calls"]["chdir"]["calls"]),
        (&"ebpf".into(), &1.into())
    );
    let script = "while :; do cd /; done & exec \"$0\" audit --json --for 1s --pid $!";
    let mut command = Command::new(by[0]);
    command.args(&by[1..]).args(["sh", "-c", script]).arg(fulmar());
    let joined = json(&ChildProcess::start(&mut command).wait());
    assert!(joined["calls"]["chdir"]["calls"].as_u64() > Some(0), "{joined}");
}

/// A library that makes `bpf(2)` behave like Linux 5.7: no ring buffers (type 27), and maps are
/// locked memory of their creator.
fn as_before_ring_buffers(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("old.c"), folder.join("old.so"));
    let text = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <errno.h>\n#include <stdarg.h>\n\
                #include <sys/resource.h>\n#include <sys/syscall.h>\n\
                long syscall(long number, ...)\n{\n\
                long a[6];\nva_list all;\nva_start(all, number);\n\
                for (int at = 0; at < 6; at++) a[at] = va_arg(all, long);\nva_end(all);\n\
                if (number == SYS_bpf && a[0] == 0) {\n\
                struct rlimit limit;\ngetrlimit(RLIMIT_MEMLOCK, &limit);\n\
                errno = limit.rlim_cur > 4 << 20 ? EINVAL : EPERM;\n\
                if (*(unsigned *)a[1] == 27 || errno == EPERM) return -1;\n}\n\
                long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, \"syscall\");\n\
                return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);\n}\n";
    fs::write(&source, text).expect("a file");
    run(peer("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl"));
    library
}

#[test]
fn without_ring_buffers_calls_are_counted() {
    if !kernel_counts() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let library = as_before_ring_buffers(folder.path());
    let of = |options: &[&str]| {
        let mut command = Command::new("/bin/dash");
        command.args(["-c", "ulimit -S -l 64; LD_PRELOAD=$0 exec \"$@\""]).arg(&library);
        command.arg(fulmar()).args(["audit", "--json"]).args(options);
        command.args(["--", "/bin/dash", "-c", "ulimit -S -l; cd /"]);
        ChildProcess::start(&mut command).wait()
    };
    let counted = of(&["--counter", "ebpf"]);
    assert_eq!(json(&counted)["calls"]["chdir"]["calls"], 1, "{counted:?}");
    assert_eq!(counted.stderr, "64\n", "the program inherits the original limit");
    for options in [&["--phases"][..], &["--timeline"]] {
        let traced = of(options);
        assert_eq!(json(&traced)["backend"], "ptrace", "{traced:?}");
        let lacks = "this kernel does not support BPF ring buffers (Linux 5.8 or later)";
        assert!(traced.stderr.contains("using ptrace instead"), "{traced:?}");
        assert!(traced.stderr.contains(lacks), "{traced:?}");
        let refused = of(&[options, &["--counter", "ebpf"]].concat());
        assert_eq!((refused.status.code(), refused.stdout.as_str()), (Some(3), ""), "{refused:?}");
        assert!(refused.stderr.contains(lacks), "{refused:?}");
    }
}
