//! Failures while a program is counted: messages and exit statuses.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fulmar_audit::{BackendChoice, CallCounts, Counter, CounterEnd};
use fulmar_tests::load::Nginx;
use fulmar_tests::process::{
    ChildProcess, ExitOutput, PATIENCE, Serve, eventually, fulmar, is_asleep, peer, run,
};
use fulmar_tests::tree::Tree;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

const METHODS: [BackendChoice; 2] = [BackendChoice::Best, BackendChoice::Trace];

fn audit(arguments: &[&str]) -> Command {
    let mut command = Command::new(fulmar());
    command.arg("audit").args(arguments);
    command
}

fn ended(arguments: &[&str]) -> ExitOutput {
    ChildProcess::start(&mut audit(arguments)).wait()
}

fn json(ended: &ExitOutput) -> Value {
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

/// Calls with numbers of another table, which cannot be counted by name.
const STRANGE: &str = "import ctypes; [ctypes.CDLL(None).syscall(0x40000027) for _ in range(5)]";

#[test]
fn lost_events_are_reported_and_no_budget_holds() {
    let tree = Tree::new();
    tree.file("budget.toml", "all = 100000\n");
    let budget = tree.root().join("budget.toml").display().to_string();
    let program = ["--", "python3", "-I", "-c", STRANGE];
    let ended = ended(&[&["--budget", &budget], &program[..]].concat());
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert!(ended.stdout.contains("lost            5 events: the true counts"), "{ended:?}");
    assert!(ended.stdout.contains("5 calls of a 32-bit program"), "{ended:?}");
    assert!(ended.stderr.contains("cannot check the budget: 5 events were lost"), "{ended:?}");
}

#[test]
fn a_budget_with_an_unknown_name_is_refused() {
    let tree = Tree::new();
    tree.file("budget.toml", "recieve = 1\n");
    let budget = tree.root().join("budget.toml").display().to_string();
    let ended = ended(&["--budget", &budget, "--", "true"]);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("`recieve` is unknown: did you mean `receive`?"));
}

/// A number from proc_pid_status(5).
fn status_number(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_joined_process_that_ends_is_reported_until_then() {
    let mut shell = Command::new("/bin/dash");
    shell.args(["-c", "echo waits; read line; cd /nowhere"]);
    let mut process = ChildProcess::start_with(&mut shell, Stdio::piped());
    process.wait_stdout("waits");
    let pid = process.id();
    eventually("it waits", || is_asleep(pid));
    let before = status_number(pid, "voluntary_ctxt_switches");
    let arguments = ["--json", "--counter", "ptrace", "--pid", &pid.to_string()];
    let audit = ChildProcess::start(&mut audit(&arguments));
    // The tracer has stopped the process once, and it waits again. From now on its calls are
    // traced.
    eventually("it is traced", || {
        let was_stopped = status_number(pid, "voluntary_ctxt_switches") > before;
        status_number(pid, "TracerPid") > 0 && was_stopped && is_asleep(pid)
    });
    process.close_stdin();
    let json = json(&audit.wait());
    assert_eq!(json["calls"]["chdir"]["errors"]["ENOENT"], 1, "{json}");
}

/// All threads of a process are counted together, so a thread number is refused. So is a zombie.
#[test]
fn threads_and_zombies_are_refused() {
    let script = "import subprocess, threading, sys\n\
                  t = threading.Thread(target=sys.stdin.read); t.start()\n\
                  p = subprocess.Popen(['true'], stdout=subprocess.PIPE); p.stdout.read()\n\
                  while open(f'/proc/{p.pid}/stat').read().split(') ')[1][0] != 'Z': pass\n\
                  print('numbers', t.native_id, p.pid, flush=True)";
    let mut python = peer("python3");
    python.args(["-I", "-c", script]);
    let mut python = ChildProcess::start_with(&mut python, Stdio::piped());
    let numbers = python.wait_stdout("numbers");
    let numbers: Vec<_> = numbers.split_whitespace().skip(1).collect();
    let part = format!("{} is a thread of process {}", numbers[0], python.id());
    let gone = format!("no such process: {}", numbers[1]);
    for counter in ["best", "ptrace"] {
        for (number, expected) in numbers.iter().zip([&part, &gone]) {
            let ended = ended(&["--counter", counter, "--for", "50ms", "--pid", number]);
            assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(3), ""), "{ended:?}");
            assert!(ended.stderr.contains(expected), "{expected}: {ended:?}");
        }
    }
    python.close_stdin();
    assert!(python.wait().status.success());
}

#[test]
fn a_joined_process_that_ends_under_load() {
    let mut nginx = Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} reuseport; access_log /dev/stderr; \
             location / {{ return 200 text; }} }}"
        )
    });
    let (pid, url) = (nginx.process.id().to_string(), nginx.url());
    let load = ["--load", &url, "-c", "1", "-d", "20", "--warm-up", "5", "--record", "/dev/null"];
    let audit = ChildProcess::start(&mut audit(&[&["--pid", &pid], &load[..]].concat()));
    nginx.process.wait_stderr("GET / "); // the load has started
    nginx.process.signal(Signal::KILL);
    let ended = audit.wait();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("the process is gone"), "{ended:?}");
}

/// Ctrl-C reaches the whole process group, so the command exits by itself.
#[test]
fn ctrl_c_under_load_prints_the_counts_so_far() {
    let tree = Tree::new();
    tree.file("a.txt", "a file\n");
    let (root, socket) = (tree.root(), tree.root().join(".socket"));
    let (listen, path) = (format!("unix:{}", socket.display()), socket.display().to_string());
    let load =
        ["--json", "--load", "http://h/a.txt", "--unix-socket", &path, "-c", "1", "-d", "20"];
    let program = ["--warm-up", "0", "--", fulmar().to_str().expect("UTF-8"), "serve"];
    let mut command = audit(&[&load[..], &program[..]].concat());
    command.arg(&root).args(["--listen", &listen, "--access-log", "/dev/stderr"]);
    let mut audit = ChildProcess::start(command.process_group(0));
    audit.wait_stderr("/a.txt");
    let group = Pid::from_raw(i32::try_from(audit.id()).expect("a number")).expect("not zero");
    kill_process_group(group, Signal::INT).expect("it runs");
    let ended = audit.wait();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert!(json["all"]["calls"].as_u64() > Some(0), "{json}");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_with_a_message() {
    let script = "trap '' TERM; echo begun; while :; do sleep 0.05; done";
    let command = ["--stop-timeout", "100ms", "--", "/bin/dash", "-c", script];
    let mut audit = ChildProcess::start(&mut audit(&command));
    audit.wait_stderr("begun");
    audit.signal(Signal::INT);
    let ended = audit.wait();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("no exit after SIGTERM, sending SIGKILL"), "{ended:?}");
    assert!(ended.stdout.contains("execve"), "{ended:?}");
}

#[test]
fn error_responses_are_counted_and_reported() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &[]);
    let pid = serve.process.id().to_string();
    let url = serve.url("/nowhere");
    let load = ["--load", &url, "-c", "1", "-n", "50", "--warm-up", "5"];
    let ended = ended(&[&["--pid", &pid], &load[..]].concat());
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let expected = "50 responses with a status of 400 or above";
    assert!(ended.stdout.contains(expected), "{ended:?}");
}

#[test]
fn a_server_without_responses_is_no_measurement() {
    let script = "import socket\nl = socket.create_server(('127.0.0.1', 0))\n\
                  print('port', l.getsockname()[1], flush=True)\n\
                  while True: l.accept()[0].close()";
    let mut server = ChildProcess::start(peer("python3").args(["-I", "-c", script]));
    let port = server.wait_stdout("port").trim().trim_start_matches("port ").to_owned();
    let (pid, url) = (server.id().to_string(), format!("http://127.0.0.1:{port}/"));
    let load = ["--load", &url, "-c", "1", "-n", "50", "--warm-up", "0"];
    let ended = ended(&[&["--pid", &pid], &load[..]].concat());
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.stderr.contains("no request got a response: "), "{ended:?}");
    assert!(ended.stderr.contains("closed") || ended.stderr.contains("reset"), "{ended:?}");
}

#[test]
fn a_server_that_breaks_the_protocol_is_reported_with_the_cause() {
    let script = "import socket\nl = socket.create_server(('127.0.0.1', 0))\n\
                  print('port', l.getsockname()[1], flush=True)\n\
                  while True:\n  c = l.accept()[0]\n  c.recv(999)\n  \
                  c.send(b'no HTTP\\r\\n\\r\\n')\n  c.close()";
    let mut server = ChildProcess::start(peer("python3").args(["-I", "-c", script]));
    let port = server.wait_stdout("port").trim().trim_start_matches("port ").to_owned();
    let (pid, url) = (server.id().to_string(), format!("http://127.0.0.1:{port}/"));
    let load = ["--load", &url, "-c", "1", "-n", "5", "--warm-up", "0"];
    let ended = ended(&[&["--pid", &pid], &load[..]].concat());
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("protocol 5; the start line is malformed (5)"), "{ended:?}");
}

#[test]
fn the_overhead_of_counting_is_measured_and_reported() {
    for counter in ["best", "ptrace"] {
        let json = json(&ended(&["--json", "--per", "2", "--counter", counter, "--", "true"]));
        let (cost, calls) = (&json["cost"], json["all"]["calls"].as_f64().expect("a number"));
        let call = cost["call_ns"].as_f64().expect("it was measured");
        assert!(call < 1e8, "{counter}: {json}");
        let per_unit = cost["per_unit_us"].as_f64().expect("a number");
        assert!((per_unit - call * calls / 2e3).abs() < 0.01 + per_unit / 1e3, "{counter}: {json}");
        assert!(counter == "best" || cost["other_call_ns"] == 0.0, "{json}");
    }
    let text = ended(&["--", "true"]).stdout;
    assert!(text.contains("counting costs about ") && text.contains(" ns for each call"), "{text}");
}

/// The counts of a whole program.
fn whole(mut command: Command, method: BackendChoice) -> (Option<i32>, CallCounts) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let counter = Counter::start(command, method).expect("it starts");
    let end = counter.wait(Some(PATIENCE)).expect("no error").expect("it ends");
    let CounterEnd::Ended(status) = end else { panic!("{end:?}") };
    (status.code(), counter.snapshot().expect("counts"))
}

/// If a thread calls execve, it takes the number of the main thread, which ends.
#[test]
fn execve_is_followed() {
    for method in METHODS {
        let mut python = peer("python3");
        python.args(["-I", "-c"]).arg(
            "import os, threading\n\
             run = lambda: os.execv('/bin/dash', ['dash', '-c', 'cd /nowhere; exec true'])\n\
             threading.Thread(target=run).start(); threading.Event().wait()",
        );
        let (code, counts) = whole(python, method);
        assert_eq!((code, counts.lost), (Some(0), 0), "{method:?}: {counts:?}");
        assert_eq!(counts.calls["chdir"].failed(), 1, "{counts:?}");
        assert_eq!(counts.threads, counts.processes + 1, "{counts:?}");
    }
}

/// The numbers mean other calls: 20 is `getpid` in 32-bit programs, and `writev` otherwise.
#[test]
fn calls_of_a_32_bit_program_are_counted_as_foreign() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (source, program) = (dir.path().join("a.s"), dir.path().join("program"));
    let assembly = ".globl _start\n_start: mov $5, %esi\nagain: mov $20, %eax\nint $0x80\n\
                    dec %esi\njnz again\nmov $1, %eax\nxor %ebx, %ebx\nint $0x80\n\
                    .section .note.GNU-stack\n";
    fs::write(&source, assembly).expect("a file");
    run(peer("cc").args(["-m32", "-nostdlib", "-static", "-o"]).args([&program, &source]));
    if Command::new(&program).status().is_err() {
        return; // a kernel without 32-bit support
    }
    for method in METHODS {
        let (code, counts) = whole(Command::new(&program), method);
        assert_eq!(code, Some(0), "{method:?}");
        assert_eq!((counts.lost, counts.foreign), (5, 5), "{method:?}: {counts:?}");
        let calls: Vec<_> = counts.calls.keys().collect();
        assert_eq!(calls, ["execve"], "{method:?}");
    }
}

/// Runs a command under a `seccomp(2)` filter that fails a call with an error; optionally only one
/// command of `bpf(2)`.
fn filtered(script: &[(u32, Option<u32>, i32)]) -> PathBuf {
    let mut lines = String::from(
        "import ctypes, os, struct, sys\nc = ctypes.CDLL(None)\nc.prctl(38, 1, 0, 0, 0)\n\
         def refuse(call, command, error):\n\
         \x20 op = lambda *a: struct.pack('HBBI', *a)\n\
         \x20 code = [op(0x20, 0, 0, 0), op(0x15, 0, 1 if command is None else 3, call)]\n\
         \x20 if command is not None: code += [op(0x20, 0, 0, 16), op(0x15, 0, 1, command)]\n\
         \x20 code += [op(6, 0, 0, 0x50000 | error), op(6, 0, 0, 0x7fff0000)]\n\
         \x20 text = ctypes.create_string_buffer(b''.join(code))\n\
         \x20 f = struct.pack('H6xQ', len(code), ctypes.addressof(text))\n\
         \x20 if c.prctl(22, 2, f, 0, 0): os._exit(9)\n",
    );
    for (call, command, error) in script {
        let command = command.map_or("None".to_owned(), |command| command.to_string());
        lines += &format!("refuse({call}, {command}, {error})\n");
    }
    lines += "os.execv(sys.argv[1], sys.argv[1:])\n";
    let dir = tempfile::tempdir().expect("a temporary directory").keep();
    let path = dir.join("filtered.py");
    fs::write(&path, lines).expect("a file");
    path
}

fn under_filter(filter: &[(u32, Option<u32>, i32)], arguments: &[&str]) -> ExitOutput {
    let script = filtered(filter);
    let mut command = peer("python3");
    command.arg("-I").arg(&script).arg(fulmar()).arg("audit").args(arguments);
    let ended = ChildProcess::start(&mut command).wait();
    fs::remove_dir_all(script.parent().expect("its directory")).expect("it is ours");
    ended
}

const BPF: u32 = 321;
const PTRACE: u32 = 101;
const PROGRAM: [&str; 5] = ["--json", "--", "/bin/dash", "-c", "cd /"];

#[test]
fn an_old_kernel_is_reported_and_ptrace_is_used() {
    // Without bpf(2), and without raw tracepoints (`BPF_RAW_TRACEPOINT_OPEN`, Linux 4.17).
    for (filter, expected) in [
        ((BPF, None, Errno::NOSYS.raw_os_error()), "does not support the maps of the counter"),
        ((BPF, Some(17), Errno::INVAL.raw_os_error()), "does not support raw tracepoints"),
    ] {
        let ended = under_filter(&[filter], &PROGRAM);
        let json = json(&ended);
        assert_eq!(
            (&json["backend"], &json["calls"]["chdir"]["calls"]),
            (&"ptrace".into(), &1.into())
        );
        let privileged = !ended.stderr.contains("CAP_BPF");
        assert!(!privileged || ended.stderr.contains(expected), "{expected}: {ended:?}");
        assert!(ended.stderr.contains("using ptrace instead"), "{ended:?}");
    }
}

#[test]
fn a_program_under_another_tracer_is_refused() {
    let mut strace = peer("strace");
    strace.args(["-f", "-o", "/dev/null"]).arg(fulmar());
    strace.args(["audit", "--counter", "ptrace", "--", "true"]);
    let ended = ChildProcess::start(&mut strace).wait();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.stderr.contains("is already traced by "), "{ended:?}");
}

#[test]
fn missing_permissions_are_reported() {
    let filter =
        [(BPF, None, Errno::PERM.raw_os_error()), (PTRACE, None, Errno::PERM.raw_os_error())];
    for (counter, expected) in [
        ("best", "ptrace(2) is not permitted here: Operation not permitted"),
        ("ebpf", "cannot use eBPF: eBPF needs root or CAP_BPF and CAP_PERFMON"),
    ] {
        let ended = under_filter(&filter, &[&["--counter", counter], &PROGRAM[..]].concat());
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(3), ""), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {ended:?}");
    }
}
