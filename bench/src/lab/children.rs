//! The processes of a run, which end with it.
//!
//! Each leads a process group of its own, so that it is ended with its children (nginx's workers),
//! and receives a Ctrl-C of the terminal only from this process.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fulmar_sys::{self as sys, Target};

use super::wait;
use crate::BenchError;

/// Ends a run from another thread: its processes, and those that it would start.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunStopper(Arc<Mutex<ProcessGroups>>);

#[derive(Debug, Default)]
struct ProcessGroups {
    is_stopped: bool,
    /// Leaders of process groups.
    alive: Vec<u32>,
}

impl RunStopper {
    /// Ends all processes at once, and lets none start. The run then ends with
    /// [`BenchError::Stopped`].
    pub(crate) fn stop(&self) {
        let mut group = self.lock();
        group.is_stopped = true;
        group.alive.drain(..).for_each(kill);
    }

    /// True once it was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, ProcessGroups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process. It is ended when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    line: String,
    out: File,
    err: File,
    stopper: RunStopper,
}

impl Child {
    /// Starts it on these processors, with its output in unnamed files. Errors call it `line`.
    pub(crate) fn start(
        mut command: Command,
        line: String,
        cpus: &[usize],
        stopper: &RunStopper,
    ) -> Result<Self, BenchError> {
        let file = || tempfile::tempfile().map_err(BenchError::io("a temporary file"));
        let (out, err) = (file()?, file()?);
        let copy = |file: &File| file.try_clone().map_err(BenchError::io("a temporary file"));
        command.stdin(Stdio::null()).stdout(copy(&out)?).stderr(copy(&err)?).process_group(0);
        let mut group = stopper.lock();
        if group.is_stopped {
            return Err(BenchError::Stopped);
        }
        let process = spawn(&mut command, cpus).map_err(BenchError::io(line.clone()))?;
        group.alive.push(process.id());
        drop(group);
        Ok(Self { process, line, out, err, stopper: stopper.clone() })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The first process that it started, once there is one: nginx's worker.
    pub(crate) fn worker(&mut self) -> Result<u32, BenchError> {
        let path = format!("/proc/{0}/task/{0}/children", self.id());
        self.until(START_TIMEOUT, move |_| {
            fs::read_to_string(&path).ok()?.split_whitespace().next()?.parse().ok()
        })
    }

    /// Waits until a listener accepts connections at this port of loopback.
    pub(crate) fn accepting(&mut self, port: u16) -> Result<(), BenchError> {
        self.until(START_TIMEOUT, |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok())?;
        Ok(())
    }

    /// Waits until `found` finds something in its standard output.
    pub(crate) fn printed<T>(
        &mut self,
        found: impl Fn(&str) -> Option<T>,
    ) -> Result<T, BenchError> {
        self.until(START_TIMEOUT, |child| found(&text(&child.out)))
    }

    /// Waits until its standard error contains `part`.
    pub(crate) fn complained(&mut self, part: &str) -> Result<(), BenchError> {
        self.until(START_TIMEOUT, |child| text(&child.err).contains(part).then_some(()))
    }

    /// Calls `found` until it returns something; an error if the process ends first.
    pub(crate) fn until<T>(
        &mut self,
        most: Duration,
        mut found: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, BenchError> {
        let end = sys::now() + most;
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(self.failed(&format!("ended early, {status}")));
            }
            if sys::now() >= end {
                return Err(self.failed(&format!("not ready within {most:?}")));
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Waits for its end; its standard output, if it succeeded.
    pub(crate) fn output(mut self, most: Duration) -> Result<String, BenchError> {
        let end = sys::now() + most;
        let status = loop {
            match self.process.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if sys::now() < end => thread::park_timeout(LOOK),
                Ok(None) => return Err(self.failed(&format!("did not end within {most:?}"))),
                Err(error) => return Err(BenchError::Io { doing: self.line.clone(), error }),
            }
        };
        self.forget();
        match status.success() {
            true => Ok(text(&self.out)),
            false => Err(self.failed(&status.to_string())),
        }
    }

    /// Ends it with SIGTERM; its output.
    pub(crate) fn stop(mut self) -> Result<String, BenchError> {
        self.end(TERMINATE);
        Ok(text(&self.out))
    }

    /// Ends it with SIGINT; its output.
    pub(crate) fn interrupt(mut self) -> Result<String, BenchError> {
        self.end(INTERRUPT);
        Ok(text(&self.out))
    }

    /// Waits for its end; its output and errors.
    pub(crate) fn messages(mut self) -> Result<String, BenchError> {
        let _ = self.process.wait(); // its status does not matter
        self.forget();
        Ok(text(&self.out) + &text(&self.err))
    }

    /// Stops a process of its group for this long.
    pub(crate) fn pause(&self, pid: u32, time: Duration) {
        let send = |signal| Target::process(pid).map(|it| sys::send_signal(it, signal));
        send(STOP);
        wait(time);
        send(CONTINUE);
    }

    fn failed(&self, why: &str) -> BenchError {
        if self.stopper.is_stopped() {
            return BenchError::Stopped;
        }
        let errors = text(&self.err);
        let errors = errors.trim();
        let why = if errors.is_empty() { why.to_owned() } else { format!("{why}: {errors}") };
        BenchError::Process { command: self.line.clone(), why }
    }

    /// Sends a signal, and after a timeout SIGKILL to the rest of its group.
    fn end(&mut self, signal: i32) -> Option<ExitStatus> {
        if let Some(process) = Target::process(self.process.id()) {
            let _ = sys::send_signal(process, signal); // it may have ended
        }
        let end = sys::now() + END_TIMEOUT;
        while sys::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            thread::park_timeout(LOOK);
        }
        self.forget();
        self.process.wait().ok()
    }

    /// Kills the rest of its group; the kernel may reuse its number afterwards.
    fn forget(&self) {
        let mut group = self.stopper.lock();
        if let Some(at) = group.alive.iter().position(|id| *id == self.process.id()) {
            kill(group.alive.swap_remove(at));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end(TERMINATE);
    }
}

/// A child inherits the processors of the thread that starts it.
fn spawn(command: &mut Command, cpus: &[usize]) -> io::Result<process::Child> {
    let ours = sys::allowed_cpus()?;
    sys::run_on_cpus(cpus)?;
    let process = command.spawn();
    sys::run_on_cpus(&ours)?;
    process
}

/// Kills a group.
fn kill(leader: u32) {
    if let Some(group) = Target::group(leader) {
        let _ = sys::send_signal(group, KILL); // the group may be empty
    }
}

/// The contents of a file that a child writes, without moving its file offset.
fn text(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().map_or(0, |it| usize::try_from(it.len()).unwrap_or(0))];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

/// The path of an installed program; system directories are searched in any case.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SYSTEM_DIRS.iter().map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|file| file.is_file())
}

const SYSTEM_DIRS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// Until a program listens, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Until a program that does not end is killed.
const END_TIMEOUT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// signal(7).
const TERMINATE: i32 = 15;
const KILL: i32 = 9;
const INTERRUPT: i32 = 2;
const STOP: i32 = 19;
const CONTINUE: i32 = 18;
