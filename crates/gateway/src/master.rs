//! A process that looks after the one that works: starts it, replaces it, ends with it.
//!
//! ```text
//!            spawn                 ready                      replaced
//!   (none) ─────────▶ starting ───────────────▶ current ─────────────────▶ former
//!                        │ ends: the current one stays      │ ends: so do we  │ ends
//! ```
//!
//! A worker is our own program with the same arguments, told by [`WORKER`] who it is. It finds a
//! socket on its standard input: it writes a word there when it serves, and ends when there is
//! nobody left at the other end. A new one takes the listeners over from the current one, which
//! ends gracefully only then; so one that cannot start changes nothing.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::service::{Notify, Waiting, signal_all};

/// How workers are started, and who wants to hear of it.
#[derive(Debug)]
pub struct Master {
    /// The program.
    pub program: PathBuf,
    /// What it is given, each time anew.
    pub arguments: Vec<OsString>,
    /// Where it is started.
    pub folder: PathBuf,
    /// It goes on when its worker ends by itself, and waits for a reload.
    pub outlives_workers: bool,
    /// The service manager.
    pub notify: Option<Notify>,
    /// Whoever waits in the foreground.
    pub waiting: Option<Waiting>,
    /// Takes what is to be told, as its severity and text.
    pub tell: fn(Told, &str),
}

/// How bad what a master tells is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// As it should be.
    Notice,
    /// Worth a look.
    Warning,
    /// Somebody has to act.
    Alert,
}

/// What happens to a master.
enum News {
    Signal(i32),
    /// The worker of this number serves.
    Ready(u32),
}

struct Worker {
    child: Child,
    state: State,
    /// Closed with us: then it ends too.
    _link: OwnedFd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Current,
    Former,
}

impl Master {
    /// Looks after workers until the end; the status to end with.
    ///
    /// # Errors
    /// The first worker cannot be started at all, or signals cannot be heard.
    pub fn run(self) -> io::Result<u8> {
        let (sender, news) = channel();
        listen_for_signals(sender.clone())?;
        let mut crew = Crew {
            master: self,
            workers: Vec::new(),
            sender,
            ending: false,
            again: false,
            has_served: false,
        };
        crew.start()?;
        crew.run(&news)
    }
}

fn listen_for_signals(sender: Sender<News>) -> io::Result<()> {
    let mut signals = Signals::new(HEARD)?;
    let body = move || {
        for signal in signals.forever() {
            let _ = sender.send(News::Signal(signal)); // nobody listens: the end is near
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

struct Crew {
    master: Master,
    workers: Vec<Worker>,
    sender: Sender<News>,
    /// We were asked to end.
    ending: bool,
    /// We were asked to reload while a worker was starting.
    again: bool,
    /// There has been a worker that served.
    has_served: bool,
}

impl Crew {
    fn run(&mut self, news: &Receiver<News>) -> io::Result<u8> {
        loop {
            let Ok(next) = news.recv() else { unreachable!("we have a sender ourselves") };
            match next {
                News::Ready(pid) => self.promote(pid),
                News::Signal(SIGCHLD) => {
                    if let Some(status) = self.bury()? {
                        return Ok(status);
                    }
                }
                News::Signal(SIGUSR2 | SIGHUP) => self.reload(),
                News::Signal(signal @ (SIGTTOU | SIGTTIN)) => self.signal_workers(signal),
                News::Signal(signal) => self.end(signal),
            }
        }
    }

    fn tell(&self, told: Told, text: &str) {
        (self.master.tell)(told, text);
    }

    fn find(&self, state: State) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.state == state)
    }

    fn start(&mut self) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let before = self.find(State::Current).map(|worker| worker.child.id().to_string());
        let child = Command::new(&self.master.program)
            .args(&self.master.arguments)
            .current_dir(&self.master.folder)
            .env(WORKER, before.unwrap_or_default())
            .env("HAPROXY_MWORKER", "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let pid = child.id();
        let link = OwnedFd::from(ours.try_clone()?);
        self.workers.push(Worker { child, state: State::Starting, _link: link });
        self.tell(Told::Notice, &format!("New worker ({pid}) forked"));
        let sender = self.sender.clone();
        let body = move || {
            let mut word = [0; READY.len()];
            let mut ours = ours;
            if ours.read_exact(&mut word).is_ok() {
                let _ = sender.send(News::Ready(pid)); // nobody listens: the end is near
            }
        };
        thread::Builder::new().name("worker".into()).spawn(body).map(drop)
    }

    /// A worker serves: the one before it has been told to go by it, and is told by us in case that
    /// it could not be.
    fn promote(&mut self, pid: u32) {
        let mut former = Vec::new();
        for worker in &mut self.workers {
            match worker.state {
                State::Starting if worker.child.id() == pid => worker.state = State::Current,
                State::Current => {
                    worker.state = State::Former;
                    former.push(worker.child.id());
                }
                State::Starting | State::Former => {}
            }
        }
        self.has_served = true;
        signal_all(&former, SIGUSR1);
        self.tell(Told::Notice, "Loading success.");
        if let Some(notify) = &self.master.notify {
            notify.ready("Ready.");
        }
        if let Some(waiting) = self.master.waiting.take()
            && let Err(error) = waiting.dismiss()
        {
            self.tell(Told::Warning, &format!("cannot leave the terminal: {error}"));
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
        if self.find(State::Starting).is_some() {
            self.again = true;
            return;
        }
        self.tell(Told::Notice, "Reloading");
        if let Some(notify) = &self.master.notify {
            notify.reloading();
        }
        if let Err(error) = self.start() {
            self.fail(&format!("cannot start a worker: {error}"));
        }
    }

    /// What we have goes on.
    fn fail(&self, why: &str) {
        self.tell(Told::Warning, &format!("Loading failure! {why}"));
        if let Some(notify) = &self.master.notify {
            notify.ready("Reload failed!");
        }
    }

    fn end(&mut self, signal: i32) {
        self.ending = true;
        self.tell(Told::Warning, "Exiting Master process...");
        if let Some(notify) = &self.master.notify {
            notify.stopping();
        }
        let signal = if signal == SIGUSR1 { SIGUSR1 } else { SIGTERM };
        self.signal_workers(signal);
    }

    /// True if a worker that could not start is not the end of us: somebody works, or did once.
    fn goes_on(&self) -> bool {
        let waits = self.master.outlives_workers && self.has_served;
        self.find(State::Current).is_some() || waits
    }

    fn signal_workers(&self, signal: i32) {
        let pids: Vec<u32> = self.workers.iter().map(|worker| worker.child.id()).collect();
        signal_all(&pids, signal);
    }

    /// Looks who has ended; our own status, if that is the end of us too.
    fn bury(&mut self) -> io::Result<Option<u8>> {
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
            let (code, how) = told(status);
            match state {
                // The next one has its listeners, and is about to say so.
                State::Current if code == 0 && self.find(State::Starting).is_some() => {
                    self.bury_former(pid, code, &how);
                }
                State::Former => self.bury_former(pid, code, &how),
                State::Starting if self.goes_on() => {
                    self.fail(match self.find(State::Current) {
                        Some(_) => "The worker before goes on",
                        None => "There is no worker",
                    });
                    if std::mem::take(&mut self.again) {
                        self.reload();
                    }
                }
                State::Starting if self.ending => {}
                State::Starting => return Ok(Some(code)), // it has said why
                State::Current => {
                    let level = if self.ending && code == 0 { Told::Warning } else { Told::Alert };
                    let text = format!("Current worker ({pid}) exited with code {code} ({how})");
                    self.tell(level, &text);
                    if !self.ending && !self.master.outlives_workers {
                        return Ok(Some(self.give_up(code)));
                    }
                }
            }
        }
        if self.ending && self.workers.is_empty() {
            self.tell(Told::Warning, "All workers exited. Exiting... (0)");
            return Ok(Some(0));
        }
        Ok(None)
    }

    fn bury_former(&self, pid: u32, code: u8, how: &str) {
        let text = format!("Former worker ({pid}) exited with code {code} ({how})");
        self.tell(Told::Warning, &text);
    }

    /// Who should work has ended by itself.
    fn give_up(&mut self, code: u8) -> u8 {
        self.tell(Told::Alert, "exit-on-failure: killing every processes with SIGTERM");
        self.signal_workers(SIGTERM);
        for worker in &mut self.workers {
            let _ = worker.child.wait(); // it is ours, and SIGTERM ends it
        }
        self.tell(Told::Warning, &format!("All workers exited. Exiting... ({code})"));
        code
    }
}

/// As a shell counts: the status, or 128 and the signal; and its name.
fn told(status: ExitStatus) -> (u8, String) {
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

/// A worker's link to its master.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    /// The worker before, to take the listeners over from.
    pub before: Option<u32>,
}

impl Link {
    /// `None` if no master has started us.
    ///
    /// # Errors
    /// There is no standard input.
    pub fn from_environment() -> io::Result<Option<Self>> {
        let Ok(before) = std::env::var(WORKER) else { return Ok(None) };
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Some(Self { stream, before: before.parse().ok() }))
    }

    /// We serve. When the master is gone, `on_end` is called, on a thread of its own.
    ///
    /// # Errors
    /// The master is gone already, or there can be no thread.
    pub fn ready(mut self, on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.stream.write_all(READY)?;
        let body = move || {
            let _ = self.stream.read(&mut [0]); // nothing ever comes but the end
            on_end();
        };
        thread::Builder::new().name("master".into()).spawn(body).map(drop)
    }
}

/// Tells a process that it is a worker, and the number of the one before it.
const WORKER: &str = "FULMAR_PROXY_WORKER";
const HEARD: [i32; 8] = [SIGCHLD, SIGUSR1, SIGUSR2, SIGHUP, SIGTERM, SIGINT, SIGTTOU, SIGTTIN];
const READY: &[u8] = b"ready\n";
