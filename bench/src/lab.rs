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

pub(crate) use children::Stopper;
pub(crate) use children::{Child, find};
pub(crate) use compiler::Peer;
pub(crate) use cores::Cores;
pub(crate) use counting::{Count, Counted, count, cpu_us};
pub(crate) use programs::{Serve, free_ports, nginx, nginx_first};

/// Whatever takes longer hangs. A machine that is busy with other things may take twenty times as
/// long as one that is not, on which no process takes a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What a run is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The binary `fulmar`.
    pub(crate) fulmar: PathBuf,
    /// This program: its workers are fulmar's sides, too.
    pub(crate) program: PathBuf,
    /// How long each figure is measured.
    pub(crate) interval: Duration,
    /// How often each side is measured; medians are told.
    pub(crate) rounds: u32,
    /// Numbers of connections instead of the document's; empty: the document's.
    pub(crate) connections: Vec<u32>,
    /// Requests, where they are counted.
    pub(crate) requests: u32,
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

    /// Starts a command on these processors, so that it ends with us whatever becomes of us. What it
    /// leaves of its own goes with the directory, and what the environment says about loops is not for
    /// it: command lines tell all.
    pub(crate) fn start(&self, command: Command, cpus: &[usize]) -> Result<Child, Error> {
        let line = self.line(&command);
        let mut under = self.worker("under");
        under.arg(std::process::id().to_string());
        under.arg(command.get_program()).args(command.get_args());
        under.env("TMPDIR", self.path()).env_remove("FULMAR_DRIVER").env_remove("FULMAR_SPIN");
        Child::start(under, line, cpus, &self.stopper)
    }

    /// This program as a side that is measured: see [`crate::worker`].
    pub(crate) fn worker(&self, name: &str) -> Command {
        let mut command = Command::new(&self.options.program);
        command.args(["worker", name]);
        command
    }

    /// A command line as it would be typed, without directories and ports that only live for a run.
    pub(crate) fn line(&self, command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let directory = self.path().display().to_string();
        let names = [(&self.options.program, "fulmar-bench"), (&self.options.fulmar, "fulmar")];
        let words = words.map(|word| {
            let name = names.iter().find(|(program, _)| program.as_os_str() == word);
            let word = name.map_or(word.to_string_lossy(), |(_, name)| (*name).into());
            without_ports(&word.replace(&directory, "DIR"))
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The ports of addresses of loopback are others each time.
fn without_ports(word: &str) -> String {
    let mut parts = word.split("127.0.0.");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (host, rest) = part.split_once(':').unwrap_or((part, ""));
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let port = &rest[..rest.len() - after.len()];
        let is_address = host.bytes().all(|byte| byte.is_ascii_digit());
        out += "127.0.0.";
        match is_address && !["", "0"].contains(&port) {
            true => out += &format!("{host}:PORT{after}"),
            false => out += part,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_ports;

    #[test]
    fn ports_of_a_run_are_not_told() {
        for (word, told) in [
            ("127.0.0.1:81,127.0.0.2:4000", "127.0.0.1:PORT,127.0.0.2:PORT"),
            ("http://127.0.0.1:81/bytes/128", "http://127.0.0.1:PORT/bytes/128"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1", "127.0.0.1"),
            ("-c", "-c"),
        ] {
            assert_eq!(without_ports(word), told);
        }
    }
}
