//! Where experiments take place: cores, a directory, and processes that end with it.

mod children;
mod compiler;
mod cores;
mod counting;
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::Error;

pub use children::Stopper;
pub(crate) use children::{Child, find};
pub(crate) use compiler::Peer;
pub(crate) use cores::Cores;
pub(crate) use counting::{Call, Count, Counted, count, cpu_us};
pub(crate) use programs::{Serve, free_port, nginx, nginx_temporary};

/// Whatever takes longer hangs. A machine that is busy with other things may take twenty times as
/// long as one that is not, on which no process takes a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What a run is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program: it takes part as fulmar's side.
    pub program: PathBuf,
    /// How long each figure is measured.
    pub interval: Duration,
    /// How often each side is measured; medians are told.
    pub rounds: u32,
    /// Numbers of connections instead of the document's; empty: the document's.
    pub connections: Vec<u32>,
    /// Requests, where they are counted.
    pub requests: u32,
}

/// A place for one run.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) options: Options,
    pub(crate) cores: Cores,
    pub(crate) directory: TempDir,
    stopper: Stopper,
    say: fn(&str),
}

impl Lab {
    /// A new directory, and two cores if there are two. `say` hears what is being done.
    pub(crate) fn new(options: Options, stopper: Stopper, say: fn(&str)) -> Result<Self, Error> {
        let made = tempfile::Builder::new().prefix("fulmar-bench-").tempdir();
        let directory = made.map_err(Error::io("a temporary directory"))?;
        let cores = Cores::find().map_err(Error::io("the processors of this process"))?;
        Ok(Self { options, cores, directory, stopper, say })
    }

    pub(crate) fn say(&self, what: &str) {
        (self.say)(what);
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a command of a client.
    pub(crate) fn client(&self, command: Command) -> Result<Child, Error> {
        self.start(command, &self.cores.client)
    }

    /// Starts a command of a server.
    pub(crate) fn server(&self, command: Command) -> Result<Child, Error> {
        self.start(command, &self.cores.server)
    }

    /// Starts a command on these processors. What it leaves of its own goes with the directory.
    pub(crate) fn start(&self, mut command: Command, cpus: &[usize]) -> Result<Child, Error> {
        command.env("TMPDIR", self.path());
        Child::start(command, cpus, &self.stopper)
    }

    /// This program as a side that is measured: see [`crate::worker`].
    pub(crate) fn worker(&self, name: &str) -> Command {
        let mut command = Command::new(&self.options.program);
        command.args(["bench-worker", name]);
        command
    }

    /// A command line as it would be typed, without directories that only live for a run.
    pub(crate) fn line(&self, command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let directory = self.path().display().to_string();
        let program = self.options.program.display().to_string();
        let words = words.map(|word| {
            let word = word.to_string_lossy().replace(&program, "fulmar");
            word.replace(&directory, "DIR")
        });
        words.collect::<Vec<_>>().join(" ")
    }
}
