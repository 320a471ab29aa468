//! Processes that take part, and end with the run.
//!
//! Each leads a process group of its own, so that it is ended with all that it started (nginx's
//! workers), and hears a Ctrl-C at the terminal from us alone.

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

use crate::Error;

/// Ends a run from elsewhere: everything that it has started, and what it would start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopper(Arc<Mutex<Group>>);

#[derive(Debug, Default)]
struct Group {
    is_stopped: bool,
    /// Leaders of process groups.
    alive: Vec<u32>,
}

impl Stopper {
    /// Ends all processes at once, and lets none start. The run then ends with
    /// [`Error::Stopped`].
    pub(crate) fn stop(&self) {
        let mut group = self.lock();
        group.is_stopped = true;
        group.alive.drain(..).for_each(kill);
    }

    /// True once it was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them. It is ended when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    line: String,
    out: File,
    err: File,
    stopper: Stopper,
}

impl Child {
    /// Starts it on these processors, with its output in files that have no name; people know it as
    /// `line`.
    pub(crate) fn start(
        mut command: Command,
        line: String,
        cpus: &[usize],
        stopper: &Stopper,
    ) -> Result<Self, Error> {
        let file = || tempfile::tempfile().map_err(Error::io("a temporary file"));
        let (out, err) = (file()?, file()?);
        let copy = |file: &File| file.try_clone().map_err(Error::io("a temporary file"));
        command.stdin(Stdio::null()).stdout(copy(&out)?).stderr(copy(&err)?).process_group(0);
        let mut group = stopper.lock();
        if group.is_stopped {
            return Err(Error::Stopped);
        }
        let process = spawn(&mut command, cpus).map_err(Error::io(line.clone()))?;
        group.alive.push(process.id());
        drop(group);
        Ok(Self { process, line, out, err, stopper: stopper.clone() })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The first process that it started, once there is one: nginx's worker.
    pub(crate) fn worker(&mut self) -> Result<u32, Error> {
        let path = format!("/proc/{0}/task/{0}/children", self.id());
        self.until(START_TIMEOUT, move |_| {
            fs::read_to_string(&path).ok()?.split_whitespace().next()?.parse().ok()
        })
    }

    /// Waits until somebody accepts connections at this port of loopback.
    pub(crate) fn accepting(&mut self, port: u16) -> Result<(), Error> {
        self.until(START_TIMEOUT, |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok())?;
        Ok(())
    }

    /// Waits until all that it has printed satisfies `found`.
    pub(crate) fn printed<T>(&mut self, found: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        self.until(START_TIMEOUT, |child| found(&text(&child.out)))
    }

    /// Waits until what it has complained of contains `part`.
    pub(crate) fn complained(&mut self, part: &str) -> Result<(), Error> {
        self.until(START_TIMEOUT, |child| text(&child.err).contains(part).then_some(()))
    }

    /// Asks `found` until it finds something; the process has to live meanwhile.
    pub(crate) fn until<T>(
        &mut self,
        most: Duration,
        mut found: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Error> {
        let end = sys::now() + most;
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(self.failed(&format!("ended early, {status}")));
            }
            if sys::now() >= end {
                return Err(self.failed(&format!("nothing came of it within {most:?}")));
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Waits for its end; its output, if it succeeded.
    pub(crate) fn output(mut self, most: Duration) -> Result<String, Error> {
        let end = sys::now() + most;
        let status = loop {
            match self.process.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if sys::now() < end => thread::park_timeout(LOOK),
                Ok(None) => return Err(self.failed(&format!("did not end within {most:?}"))),
                Err(error) => return Err(Error::Io { doing: self.line.clone(), error }),
            }
        };
        self.forget();
        match status.success() {
            true => Ok(text(&self.out)),
            false => Err(self.failed(&status.to_string())),
        }
    }

    /// Ends it as it likes to be ended; what it printed.
    pub(crate) fn stop(mut self) -> Result<String, Error> {
        self.end();
        Ok(text(&self.out))
    }

    fn failed(&self, why: &str) -> Error {
        if self.stopper.is_stopped() {
            return Error::Stopped;
        }
        let told = text(&self.err);
        let told = told.trim();
        let why = if told.is_empty() { why.to_owned() } else { format!("{why}: {told}") };
        Error::Process { command: self.line.clone(), why }
    }

    /// SIGTERM, and after a while SIGKILL to whatever is left of its group.
    fn end(&mut self) -> Option<ExitStatus> {
        if let Some(process) = Target::process(self.process.id()) {
            let _ = sys::send_signal(process, TERMINATE); // it may have ended
        }
        let end = sys::now() + END_TIMEOUT;
        while sys::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            thread::park_timeout(LOOK);
        }
        self.forget();
        self.process.wait().ok()
    }

    /// Nothing of its group is left, and its number may be another's from now on.
    fn forget(&self) {
        let mut group = self.stopper.lock();
        if let Some(at) = group.alive.iter().position(|id| *id == self.process.id()) {
            kill(group.alive.swap_remove(at));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
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

/// All of a group: its leader was not waited for, or only just.
fn kill(leader: u32) {
    if let Some(group) = Target::group(leader) {
        let _ = sys::send_signal(group, KILL); // nobody may be left
    }
}

/// All that is in a file that somebody else writes, whose place in it is theirs.
fn text(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().map_or(0, |it| usize::try_from(it.len()).unwrap_or(0))];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

/// Where an installed program lies; system directories count, also if PATH leaves them out.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SYSTEM_DIRS.iter().map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|file| file.is_file())
}

const SYSTEM_DIRS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// How long a program may take until it listens: a machine may be busy.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one may take to end, before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// signal(7).
const TERMINATE: i32 = 15;
const KILL: i32 = 9;
