//! The watchdog of a test binary: runs it, and ends it if a test hangs.
//!
//! A test hangs if it has run for `FULMAR_TEST_SECONDS`, by default 120, or if for so long the
//! binary has printed nothing. Then the watchdog prints the tests that are running and where the
//! threads are, aborts the binary with its child processes, and reports a failure. A wait for
//! cargo does not count: tests build the programs that they run.
//!
//! Cargo starts it by `scripts/test-runner`, which compiles this file alone: it uses nothing but
//! the standard library.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "no crate of the workspace is linked")]

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use progress::{Hang, TestProgress};

mod progress;

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else { fail("usage: watchdog PROGRAM [ARGUMENT]...") };
    let status = limit().and_then(|limit| run(&program, arguments.collect(), limit));
    match status {
        Ok(status) => std::process::exit(status),
        Err(error) => fail(&format!("{}: {error}", Path::new(&program).display())),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("watchdog: {message}");
    std::process::exit(1)
}

/// How long a test may run.
fn limit() -> io::Result<Duration> {
    let Some(given) = std::env::var_os(LIMIT) else { return Ok(LIMIT_DEFAULT) };
    match given.to_str().and_then(|seconds| seconds.parse().ok()) {
        Some(0) => Ok(Duration::MAX),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err(io::Error::other(format!("{LIMIT} is no number of seconds: {given:?}"))),
    }
}

/// Runs the binary to its end: the status to exit with.
fn run(program: &OsString, mut arguments: Vec<OsString>, limit: Duration) -> io::Result<i32> {
    // Its output goes through a pipe, so libtest cannot see the terminal.
    let is_doc = program.to_string_lossy().contains("/rustdoctest");
    let has_color = arguments.iter().any(|it| it.to_string_lossy().starts_with("--color"));
    if io::stdout().is_terminal() && !is_doc && !has_color {
        arguments.push("--color=always".into());
    }
    let mut command = Command::new(program);
    if is_doc {
        command.env(DOCTEST_PATH, program); // rustdoc sets it where no other program runs them
    }
    let start = Instant::now();
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
    let progress = Arc::new(Mutex::new(TestProgress::new(limit)));
    let stdout = child.stdout.take().expect("it is piped");
    let ended = forward(stdout, Arc::clone(&progress), start);
    let status = loop {
        let is_open = matches!(ended.recv_timeout(TICK), Err(RecvTimeoutError::Timeout));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if !is_open {
            std::thread::park_timeout(SHORT_TICK); // it is about to end
        }
        let now = start.elapsed();
        let mut progress = progress.lock().expect("no thread has panicked");
        if let Some(hang) = progress.hang(now) {
            if children(child.id()).into_iter().any(is_cargo) {
                progress.excuse(now);
                continue;
            }
            report(program, child.id(), &hang);
            drop(progress);
            break abort(&mut child)?;
        }
    };
    let _ = ended.recv_timeout(TICK); // an error if the pipe is still held by a child of its
    Ok(status.code().unwrap_or_else(|| {
        eprintln!("watchdog: {}: {status}", Path::new(program).display());
        STATUS_SIGNALLED
    }))
}

/// Passes the output on, in a thread; the channel is closed at its end.
fn forward(
    mut from: ChildStdout,
    progress: Arc<Mutex<TestProgress>>,
    start: Instant,
) -> Receiver<()> {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let _sender = sender;
        let mut block = vec![0; 64 << 10];
        let mut to = io::stdout();
        while let Ok(n @ 1..) = from.read(&mut block) {
            let bytes = &block[..n];
            progress.lock().expect("no thread has panicked").handle_output(start.elapsed(), bytes);
            if to.write_all(bytes).and_then(|()| to.flush()).is_err() {
                return; // nothing reads it: the binary gets the same error
            }
        }
    });
    ended
}

/// Prints what hangs, and where.
fn report(program: &OsString, pid: u32, hang: &Hang) {
    let program = Path::new(program).display();
    eprintln!("\nwatchdog: {program} hangs; it printed nothing for {} s", hang.silence.as_secs());
    for (name, time) in &hang.running {
        eprintln!("watchdog: running: {name} ({} s)", time.as_secs());
    }
    for thread in threads(pid) {
        eprintln!("watchdog: thread {thread}");
    }
    let gdb = ["-batch", "-nx", "-iex", "set debuginfod enabled off", "-p", &pid.to_string()];
    let stacks = ["-ex", "thread apply all backtrace 20"];
    let output = Command::new("gdb").args(gdb).args(stacks).stdin(Stdio::null()).output();
    match output {
        Ok(output) => eprintln!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => eprintln!("watchdog: install gdb to see the stacks of the threads"),
    }
    eprintln!("watchdog: aborting it ({LIMIT} sets the limit; 0 is none)");
}

/// What each thread does (proc(5)). The kernel keeps 15 bytes of a name.
fn threads(pid: u32) -> Vec<String> {
    let describe = |thread: fs::DirEntry| {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
        let state = fields.next().unwrap_or_default();
        let ticks: Vec<_> = fields.skip(10).take(2).collect();
        let (name, at, call) = (read("comm"), read("wchan"), read("syscall"));
        let call = call.split(' ').next().unwrap_or_default();
        format!(
            "{} '{}': state {state}, ticks {}, in '{at}', system call {}",
            thread.file_name().to_string_lossy(),
            name.trim_end(),
            ticks.join("+"),
            call.trim_end(),
        )
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.into_iter().flatten().flatten().map(describe).collect()
}

/// Aborts it, so that a core is dumped where that is wanted, and kills the processes below it.
fn abort(child: &mut Child) -> io::Result<ExitStatus> {
    let mut below = children(child.id());
    let mut at = 0;
    while let Some(pid) = below.get(at) {
        below.extend(children(*pid));
        at += 1;
    }
    signal("ABRT", &[child.id()]);
    let deadline = Instant::now() + ABORT_MAX;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= deadline => child.kill()?,
            None => std::thread::park_timeout(SHORT_TICK),
        }
    };
    signal("KILL", &below);
    Ok(status)
}

/// The shell's own command is everywhere.
fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    let command = format!("kill -{name} {}", pids.join(" "));
    if !pids.is_empty() {
        let _ = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).status();
    }
}

/// The processes that its threads have started; none where there is no proc(5).
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().flatten().flatten();
    let lists = lists.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn is_cargo(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "cargo")
}

const LIMIT: &str = "FULMAR_TEST_SECONDS";
const LIMIT_DEFAULT: Duration = Duration::from_secs(120);
/// Doc tests that share a binary then run in a process each.
const DOCTEST_PATH: &str = "RUSTDOC_DOCTEST_BIN_PATH";
const TICK: Duration = Duration::from_secs(1);
const SHORT_TICK: Duration = Duration::from_millis(5);
/// For writing a core.
const ABORT_MAX: Duration = Duration::from_secs(20);
/// As a shell has it for SIGABRT.
const STATUS_SIGNALLED: i32 = 134;

#[cfg(test)]
mod tests;
