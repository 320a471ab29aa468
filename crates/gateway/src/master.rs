//! The master process: starts, replaces and ends the worker process.
//!
//! ```text
//!            spawn                 ready                      replaced
//!   (none) ─────────▶ starting ───────────────▶ current ─────────────────▶ former
//!                        │ exits: current stays             │ exits: so does  │ exits
//!                                                             the master
//! ```
//!
//! A worker is the same program with the same arguments; [`WORKER`] in its environment marks it as
//! one. Its standard input is a socket. It writes a word there when it is ready, and exits at the
//! end of the stream. A new worker takes the listeners over from the current one, which only then
//! stops gracefully. A worker that fails to start therefore changes nothing.
//!
//! A master in the background has no standard error. Its messages, and those of a worker that
//! starts, go to the logs of `global`.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use fulmar_haproxy::Global;
use fulmar_proxy::LogSeverity;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::logs::GlobalLog;
use crate::service::{ForegroundParent, Notify, signal_all};

/// How workers are started, and where their state is reported.
#[derive(Debug)]
pub struct Master {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, the same for every worker.
    pub arguments: Vec<OsString>,
    /// Its working directory.
    pub folder: PathBuf,
    /// The master keeps running when its worker exits by itself, and waits for a reload.
    pub outlives_workers: bool,
    /// The settings of the first worker, with the logs of a master in the background.
    pub global: Box<Global>,
    /// The service manager.
    pub notify: Option<Notify>,
    /// The parent that waits in the foreground.
    pub waiting: Option<ForegroundParent>,
    /// Called with each message and its severity.
    pub report: fn(MessageLevel, &str),
}

/// Severity of a master's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageLevel {
    /// Normal operation.
    Notice,
    /// Unexpected, no action required.
    Warning,
    /// Requires action.
    Alert,
}

impl MessageLevel {
    /// The level of a line on standard error.
    fn of_line(line: &str) -> Self {
        match line {
            _ if line.starts_with("[ALERT]") => Self::Alert,
            _ if line.starts_with("[WARNING]") => Self::Warning,
            _ => Self::Notice,
        }
    }

    fn severity(self) -> LogSeverity {
        match self {
            Self::Notice => LogSeverity::Notice,
            Self::Warning => LogSeverity::Warning,
            Self::Alert => LogSeverity::Alert,
        }
    }
}

/// Events of the master.
enum MasterEvent {
    Signal(i32),
    /// The worker with this process number is ready.
    Ready(u32),
    /// A line that this worker has printed while starting; only in the background.
    Line(u32, String),
}

struct WorkerProcess {
    child: Child,
    state: WorkerState,
    /// Closed together with the master; the worker then exits too.
    _link: OwnedFd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    Starting,
    Current,
    Former,
}

impl Master {
    /// Runs workers until the end. Returns the exit status.
    ///
    /// # Errors
    /// The first worker cannot be started, or signals cannot be received.
    pub fn run(self) -> io::Result<u8> {
        let (sender, events) = channel();
        listen_for_signals(sender.clone())?;
        let mut state_ = MasterState {
            master: self,
            log: None,
            workers: Vec::new(),
            sender,
            ending: false,
            again: false,
            has_served: false,
        };
        state_.start()?;
        state_.run(&events)
    }
}

fn listen_for_signals(sender: Sender<MasterEvent>) -> io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    let body = move || {
        for signal in signals.forever() {
            let _ = sender.send(MasterEvent::Signal(signal)); // fails only if the master is exiting
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

struct MasterState {
    master: Master,
    /// Open once the terminal is left.
    log: Option<GlobalLog>,
    workers: Vec<WorkerProcess>,
    sender: Sender<MasterEvent>,
    /// A stop was requested.
    ending: bool,
    /// A reload was requested while a worker was starting.
    again: bool,
    /// At least one worker has become ready.
    has_served: bool,
}

impl MasterState {
    fn run(&mut self, events: &Receiver<MasterEvent>) -> io::Result<u8> {
        loop {
            let Ok(next) = events.recv() else { unreachable!("the master has a sender") };
            match next {
                MasterEvent::Ready(pid) => self.promote(pid),
                MasterEvent::Line(pid, line) => self.log_line(pid, &line),
                MasterEvent::Signal(SIGCHLD) => {
                    if let Some(status) = self.reap()? {
                        return Ok(status);
                    }
                }
                MasterEvent::Signal(SIGUSR2 | SIGHUP) => self.reload(),
                MasterEvent::Signal(signal @ (SIGTTOU | SIGTTIN)) => self.signal_workers(signal),
                MasterEvent::Signal(signal) => self.end(signal),
            }
        }
    }

    fn report(&mut self, level: MessageLevel, text: &str) {
        (self.master.report)(level, text);
        if let Some(log) = &mut self.log {
            log.log(level.severity(), text);
        }
    }

    /// Logs a line of a worker, unless it has started meanwhile: then it has its own logs.
    fn log_line(&mut self, pid: u32, line: &str) {
        let worker = self.workers.iter().find(|worker| worker.child.id() == pid);
        if worker.is_some_and(|worker| worker.state != WorkerState::Starting) {
            return;
        }
        if let Some(log) = &mut self.log {
            log.log(MessageLevel::of_line(line).severity(), line);
        }
    }

    fn find(&self, state: WorkerState) -> Option<&WorkerProcess> {
        self.workers.iter().find(|worker| worker.state == state)
    }

    fn start(&mut self) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let before = self.find(WorkerState::Current).map(|worker| worker.child.id().to_string());
        let (reader, stderr) = match self.log {
            None => (None, Stdio::inherit()),
            Some(_) => {
                let (reader, writer) = io::pipe()?;
                (Some(reader), Stdio::from(writer))
            }
        };
        let child = Command::new(&self.master.program)
            .args(&self.master.arguments)
            .current_dir(&self.master.folder)
            .env(WORKER, before.unwrap_or_default())
            .env("HAPROXY_MWORKER", "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stderr(stderr)
            .spawn()?;
        let pid = child.id();
        if let Some(reader) = reader {
            forward_lines(pid, reader, self.sender.clone())?;
        }
        let link = OwnedFd::from(ours.try_clone()?);
        self.workers.push(WorkerProcess { child, state: WorkerState::Starting, _link: link });
        self.report(MessageLevel::Notice, &format!("New worker ({pid}) forked"));
        let sender = self.sender.clone();
        let body = move || {
            let mut word = [0; READY.len()];
            let mut ours = ours;
            if ours.read_exact(&mut word).is_ok() {
                let _ = sender.send(MasterEvent::Ready(pid)); // fails only if the master is exiting
            }
        };
        thread::Builder::new().name("worker".into()).spawn(body).map(drop)
    }

    /// Makes a ready worker the current one. It has already stopped the previous worker; the signal
    /// is for the case that it could not.
    fn promote(&mut self, pid: u32) {
        let mut former = Vec::new();
        for worker in &mut self.workers {
            match worker.state {
                WorkerState::Starting if worker.child.id() == pid => {
                    worker.state = WorkerState::Current
                }
                WorkerState::Current => {
                    worker.state = WorkerState::Former;
                    former.push(worker.child.id());
                }
                WorkerState::Starting | WorkerState::Former => {}
            }
        }
        self.has_served = true;
        signal_all(&former, SIGUSR1);
        self.report(MessageLevel::Notice, "Loading success.");
        if let Some(notify) = &self.master.notify {
            notify.ready("Ready.");
        }
        let is_left = self.master.waiting.is_some();
        if let Some(waiting) = self.master.waiting.take()
            && let Err(error) = waiting.dismiss()
        {
            self.report(MessageLevel::Warning, &format!("cannot leave the terminal: {error}"));
        } else if is_left {
            self.log = GlobalLog::open(&self.master.global).ok(); // nothing can report an error
        }
        if self.ending {
            signal_all(&[pid], SIGUSR1);
        } else if std::mem::take(&mut self.again) {
            self.reload();
        }
    }

    fn reload(&mut self) {
        if self.ending {
            return;
        }
        if self.find(WorkerState::Starting).is_some() {
            self.again = true;
            return;
        }
        self.report(MessageLevel::Notice, "Reloading");
        if let Some(notify) = &self.master.notify {
            notify.reloading();
        }
        if let Err(error) = self.start() {
            self.report_failed_reload(&format!("cannot start a worker: {error}"));
        }
    }

    /// Reports a failed reload. The current worker continues.
    fn report_failed_reload(&mut self, why: &str) {
        self.report(MessageLevel::Warning, &format!("Loading failure! {why}"));
        if let Some(notify) = &self.master.notify {
            notify.ready("Reload failed!");
        }
    }

    fn end(&mut self, signal: i32) {
        self.ending = true;
        self.report(MessageLevel::Warning, "Exiting Master process...");
        if let Some(notify) = &self.master.notify {
            notify.stopping();
        }
        let signal = if signal == SIGUSR1 { SIGUSR1 } else { SIGTERM };
        self.signal_workers(signal);
    }

    /// True if the master keeps running after a worker failed to start.
    fn survives_failed_start(&self) -> bool {
        let waits = self.master.outlives_workers && self.has_served;
        self.find(WorkerState::Current).is_some() || waits
    }

    fn signal_workers(&self, signal: i32) {
        let pids: Vec<u32> = self.workers.iter().map(|worker| worker.child.id()).collect();
        signal_all(&pids, signal);
    }

    /// Reaps exited workers. Returns the exit status if the master is to exit.
    fn reap(&mut self) -> io::Result<Option<u8>> {
        let mut ended = Vec::new();
        let mut left = Vec::new();
        for mut worker in std::mem::take(&mut self.workers) {
            match worker.child.try_wait()? {
                Some(status) => ended.push((worker.child.id(), worker.state, status)),
                None => left.push(worker),
            }
        }
        self.workers = left;
        for (pid, state, status) in ended {
            let (code, how) = exit_code(status);
            match state {
                // The next worker has taken over its listeners and is about to report readiness.
                WorkerState::Current if code == 0 && self.find(WorkerState::Starting).is_some() => {
                    self.report_former(pid, code, &how);
                }
                WorkerState::Former => self.report_former(pid, code, &how),
                WorkerState::Starting if self.survives_failed_start() => {
                    self.report_failed_reload(match self.find(WorkerState::Current) {
                        Some(_) => "The previous worker continues",
                        None => "No worker is running",
                    });
                    if std::mem::take(&mut self.again) {
                        self.reload();
                    }
                }
                WorkerState::Starting if self.ending => {}
                // the worker has reported the reason
                WorkerState::Starting => return Ok(Some(code)),
                WorkerState::Current => {
                    let level = if self.ending && code == 0 {
                        MessageLevel::Warning
                    } else {
                        MessageLevel::Alert
                    };
                    let text = format!("Current worker ({pid}) exited with code {code} ({how})");
                    self.report(level, &text);
                    if !self.ending && !self.master.outlives_workers {
                        return Ok(Some(self.exit_on_failure(code)));
                    }
                }
            }
        }
        if self.ending && self.workers.is_empty() {
            self.report(MessageLevel::Warning, "All workers exited. Exiting... (0)");
            return Ok(Some(0));
        }
        Ok(None)
    }

    fn report_former(&mut self, pid: u32, code: u8, how: &str) {
        let text = format!("Former worker ({pid}) exited with code {code} ({how})");
        self.report(MessageLevel::Warning, &text);
    }

    /// The current worker exited by itself: stops all others.
    fn exit_on_failure(&mut self, code: u8) -> u8 {
        self.report(MessageLevel::Alert, "exit-on-failure: killing every processes with SIGTERM");
        self.signal_workers(SIGTERM);
        for worker in &mut self.workers {
            let _ = worker.child.wait(); // a child of ours that SIGTERM ends
        }
        self.report(MessageLevel::Warning, &format!("All workers exited. Exiting... ({code})"));
        code
    }
}

/// Passes the lines that a starting worker prints to the master, at most [`LINES_SIZE_MAX`] bytes.
fn forward_lines(pid: u32, reader: PipeReader, sender: Sender<MasterEvent>) -> io::Result<()> {
    let body = move || {
        for line in BufReader::new(reader.take(LINES_SIZE_MAX)).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            // Sending fails only if the master is exiting.
            let _ = sender.send(MasterEvent::Line(pid, line));
        }
    };
    thread::Builder::new().name("lines".into()).spawn(body).map(drop)
}

/// Exit code as in a shell (the status, or 128 plus the signal), and its name.
fn exit_code(status: ExitStatus) -> (u8, String) {
    match (status.code(), status.signal()) {
        (Some(code), _) => (u8::try_from(code).unwrap_or(1), "Exit".to_owned()),
        (None, signal) => {
            let signal = signal.unwrap_or(0);
            let name = match signal {
                SIGTERM => "Terminated".to_owned(),
                SIGINT => "Interrupt".to_owned(),
                9 => "Killed".to_owned(),
                11 => "Segmentation fault".to_owned(),
                6 => "Aborted".to_owned(),
                other => format!("signal {other}"),
            };
            (u8::try_from(128 + signal).unwrap_or(1), name)
        }
    }
}

/// A worker's connection to its master.
#[derive(Debug)]
pub struct MasterLink {
    stream: UnixStream,
    /// Process number of the previous worker, which hands over its listeners.
    pub before: Option<u32>,
}

impl MasterLink {
    /// `None` if no master started this process.
    ///
    /// # Errors
    /// Standard input cannot be duplicated.
    pub fn from_environment() -> io::Result<Option<Self>> {
        let Ok(before) = std::env::var(WORKER) else { return Ok(None) };
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Some(Self { stream, before: before.parse().ok() }))
    }

    /// Reports readiness. When the master exits, `on_end` is called on a thread of its own.
    ///
    /// # Errors
    /// The master has exited, or the thread cannot be started.
    pub fn ready(mut self, on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.stream.write_all(READY)?;
        let body = move || {
            // returns at the end of the stream; the master sends nothing
            let _ = self.stream.read(&mut [0]);
            on_end();
        };
        thread::Builder::new().name("master".into()).spawn(body).map(drop)
    }
}

/// Set for workers: the number of the previous worker, or empty.
const WORKER: &str = "FULMAR_PROXY_WORKER";
const SIGNALS: [i32; 8] = [SIGCHLD, SIGUSR1, SIGUSR2, SIGHUP, SIGTERM, SIGINT, SIGTTOU, SIGTTIN];
const READY: &[u8] = b"ready\n";
/// More than the messages about any configuration that was meant to work.
const LINES_SIZE_MAX: u64 = 64 * 1024;
