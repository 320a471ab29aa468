//! Other programs: `fulmar` itself, as built, and its peers.
//!
//! Every process ends with the test that started it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The limit of every wait: long enough for a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Each operation is a call, without polling, whatever the environment: for tests that count calls.
pub const BY_CALLS: &[&str] = &["--driver", "epoll", "--spin", "off"];

/// Where the binary lies.
pub fn fulmar() -> &'static Path {
    built("fulmar")
}

/// The path of the example of hosts.
pub fn hello() -> &'static Path {
    built("hello")
}

/// The example of this name.
///
/// # Panics
/// There is none.
pub fn example(name: &str) -> &'static Path {
    built(name)
}

fn built(name: &str) -> &'static Path {
    static BINARIES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let of_name = |path: &&PathBuf| path.file_name().is_some_and(|known| known == name);
    let binaries = BINARIES.get_or_init(build);
    binaries.iter().find(of_name).unwrap_or_else(|| panic!("no binary or example {name}"))
}

/// All binaries and examples that tests run, built by this cargo in this profile: cargo does not
/// build those of other packages for a test. The whole workspace is built at once, as for its
/// tests: then the features of shared crates are the same, and nothing is built twice.
fn build() -> Vec<PathBuf> {
    let here = std::env::current_exe().expect("a running test has a path");
    let profile = here.ancestors().nth(2).and_then(Path::file_name).expect("PROFILE/deps/TEST");
    let profile = if profile == "debug" { OsStr::new("dev") } else { profile };
    let output = Command::new(env!("CARGO"))
        .args(["build", "--workspace", "--bins", "--examples"])
        .args(["--message-format=json-render-diagnostics", "--profile"])
        .arg(profile)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "the binaries do not build");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    };
    text.lines().filter_map(executable).collect()
}

/// A command for a peer; a missing one is an error, not a reason to skip a test.
///
/// # Panics
/// It is not installed.
pub fn peer(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let found = found.unwrap_or_else(|| {
        panic!("{name} is not installed; `scripts/setup-peers` installs what these tests need")
    });
    Command::new(found)
}

/// Runs a command to its end.
///
/// # Panics
/// It does not start, or fails.
pub fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// Bytes as text for messages.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Polls a condition until it holds.
///
/// # Panics
/// It never is.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = fulmar_sys::now() + PATIENCE;
    while !condition() {
        assert!(fulmar_sys::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// True if every thread of a process sleeps (proc_pid_stat(5)): it waits, and has no work left. A
/// thread that waits for a CPU does not sleep.
pub fn is_asleep(pid: u32) -> bool {
    let sleeps = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('S'))
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.is_ok_and(|threads| threads.flatten().all(sleeps))
}

/// True once a process has ended, also while nothing has waited for it (proc_pid_stat(5), `Z`):
/// process 1 of a container may not wait for the orphans that it inherits.
pub fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// A command for Python itself: the program of this name may be a script that searches for it, with
/// calls of its own.
///
/// # Panics
/// It is not installed.
pub fn python() -> Command {
    let told = run(peer("python3").args(["-I", "-c", "import sys; print(sys.executable)"]));
    Command::new(text(&told.stdout).trim())
}

/// A child process, which is killed when it is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    stdout: PipeLines,
    stderr: PipeLines,
}

/// The output of a process that has ended.
#[derive(Debug)]
pub struct ExitOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// And to standard error.
    pub stderr: String,
}

impl ChildProcess {
    /// Starts it.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts it with this standard input.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_with(command: &mut Command, stdin: Stdio) -> Self {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = PipeLines::of(child.stdout.take().expect("piped"));
        let stderr = PipeLines::of(child.stderr.take().expect("piped"));
        Self { child, stdout, stderr }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it writes a line with `part` to standard output, and returns that line.
    ///
    /// # Panics
    /// It does not.
    pub fn wait_stdout(&mut self, part: &str) -> String {
        self.stdout.wait(part).unwrap_or_else(|| self.give_up(part))
    }

    /// As [`ChildProcess::wait_stdout`], of standard error.
    ///
    /// # Panics
    /// It does not.
    pub fn wait_stderr(&mut self, part: &str) -> String {
        self.stderr.wait(part).unwrap_or_else(|| self.give_up(part))
    }

    fn give_up(&mut self, part: &str) -> ! {
        let _ = self.child.kill();
        self.stdout.wait_end();
        self.stderr.wait_end();
        panic!("no line with {part:?}; {}\n{}", self.stdout.seen, self.stderr.seen)
    }

    /// Ends its standard input, if it was piped.
    pub fn close_stdin(&mut self) {
        self.child.stdin.take();
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// It has ended already.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is there");
    }

    /// Stops all of its threads until [`Signal::CONT`].
    ///
    /// # Panics
    /// It has ended.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat =
                thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
            stat.expect("it runs").rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        let threads = format!("/proc/{}/task", self.id());
        eventually("every thread has stopped", || {
            std::fs::read_dir(&threads).expect("it runs").all(is_stopped)
        });
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn wait(mut self) -> ExitOutput {
        if !self.stdout.wait_end() || !self.stderr.wait_end() {
            self.give_up("its end");
        }
        let status = self.child.wait().expect("it was not waited for");
        let (stdout, stderr) = (self.stdout.seen.clone(), self.stderr.seen.clone());
        ExitOutput { status, stdout, stderr }
    }

    /// Processor time used so far, in hundredths of a second.
    ///
    /// # Panics
    /// It has ended.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("the name stands in parentheses");
        let field = |at: usize| fields.split(' ').nth(at).and_then(|n| n.parse::<u64>().ok());
        field(11).zip(field(12)).map(|(user, system)| user + system).expect("proc(5)")
    }

    /// The number of its open descriptors.
    ///
    /// # Panics
    /// It has ended.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs").count()
    }

    /// The number of its next descriptor. Higher ones may be open: inherited ones.
    ///
    /// # Panics
    /// It has ended.
    pub fn next_descriptor(&self) -> u64 {
        let open = |n: &u64| Path::new(&format!("/proc/{}/fd/{n}", self.id())).is_symlink();
        (0..).find(|n| !open(n)).expect("not all are open")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// A pipe, line by line.
#[derive(Debug)]
struct PipeLines {
    lines: Receiver<String>,
    seen: String,
}

impl PipeLines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if sender.send(text(&line)).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self { lines, seen: String::new() }
    }

    fn wait(&mut self, part: &str) -> Option<String> {
        if let Some(line) = self.seen.lines().find(|line| line.contains(part)) {
            return Some(line.to_owned());
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).ok()?;
            self.seen.push_str(&line);
            if line.contains(part) {
                return Some(line);
            }
        }
    }

    fn wait_end(&mut self) -> bool {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.seen.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

/// A running `fulmar serve`.
#[derive(Debug)]
pub struct Serve {
    /// The process.
    pub process: ChildProcess,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Serve {
    /// Serves `dir` on a free port of loopback.
    ///
    /// # Panics
    /// It does not print its address.
    pub fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Self::command(dir);
        command.args(arguments);
        let to_stdout = arguments.windows(2).any(|pair| pair == ["--access-log", "-"]);
        Self::start_command(&mut command, !to_stdout)
    }

    /// `fulmar serve DIR --listen` with a free port of loopback.
    pub fn command(dir: &Path) -> Command {
        let mut command = Command::new(fulmar());
        command.arg("serve").arg(dir).args(["--listen", "127.0.0.1:0"]);
        command
    }

    /// Starts a command that runs `fulmar serve`, which prints its address to one of the two
    /// streams.
    ///
    /// # Panics
    /// It does not print its address.
    pub fn start_command(command: &mut Command, on_stdout: bool) -> Self {
        let mut process = ChildProcess::start(command);
        let greeting = match on_stdout {
            true => process.wait_stdout("serving "),
            false => process.wait_stderr("serving "),
        };
        let address = greeting.trim_end().rsplit("://").next().expect("it ends in a URL");
        let address = address.trim_end_matches('/').parse().expect("an address");
        Self { process, address }
    }

    /// The URL of a target, unchanged.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Sends a signal and waits for the end.
    pub fn end(self, signal: Signal) -> ExitOutput {
        self.process.signal(signal);
        self.process.wait()
    }
}
