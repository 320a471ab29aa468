//! Where scenarios run: cores, a directory, processes that end with the run, and their order.

mod children;
mod compiler;
mod cores;
mod counting;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use fulmar_sys as sys;
use serde_json::Value;
use tempfile::TempDir;

use crate::BenchError;

pub(crate) use children::{Child, RunStopper, find};
pub(crate) use compiler::CPeer;
pub(crate) use cores::Cores;
pub(crate) use counting::{
    CallFigures, KernelCount, children_cpu_us, count, cpu_us, memory, reset_peak,
};

/// The options of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    /// The binary `fulmar`.
    pub(crate) fulmar: PathBuf,
    /// This program: its workers are fulmar's sides, too.
    pub(crate) program: PathBuf,
    /// The length of each measured interval.
    pub(crate) interval: Duration,
    /// How often each side is measured.
    pub(crate) rounds: u32,
    /// Numbers of connections instead of the published ones; empty: those.
    pub(crate) connections: Vec<u32>,
    /// Requests, where they are counted.
    pub(crate) requests: u32,
}

/// The place of one run.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) options: RunOptions,
    pub(crate) cores: Cores,
    directory: TempDir,
    stopper: RunStopper,
}

impl Lab {
    /// A new directory, and two cores if there are two.
    pub(crate) fn new(options: RunOptions, stopper: RunStopper) -> Result<Self, BenchError> {
        let made = tempfile::Builder::new().prefix("fulmar-bench-").tempdir();
        let directory = made.map_err(BenchError::io("a temporary directory"))?;
        let cores = Cores::find().map_err(BenchError::io("the processors of this process"))?;
        Ok(Self { options, cores, directory, stopper })
    }

    /// The directory of the run.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The length of the interval in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.options.interval.as_secs_f64()
    }

    /// Rounds of what takes long and varies little.
    pub(crate) fn few_rounds(&self) -> u32 {
        self.options.rounds.min(3)
    }

    /// Prints what is being done.
    pub(crate) fn progress(&self, what: &str) {
        eprintln!("fulmar-bench: {what}");
    }

    /// Starts a command on the clients' core.
    pub(crate) fn client(&self, command: Command) -> Result<Child, BenchError> {
        self.start(command, &self.cores.client)
    }

    /// Starts a command on these processors. It ends with this process, its temporary files are in
    /// the directory of the run, and the environment does not choose its event loop.
    pub(crate) fn start(&self, command: Command, cpus: &[usize]) -> Result<Child, BenchError> {
        let line = self.line(&command);
        let mut under = self.worker("under");
        under.arg(std::process::id().to_string());
        under.arg(command.get_program()).args(command.get_args());
        under.env("TMPDIR", self.path()).env_remove("FULMAR_DRIVER").env_remove("FULMAR_SPIN");
        Child::start(under, line, cpus, &self.stopper)
    }

    /// Runs a client to its end; its output and its command line.
    pub(crate) fn run(&self, command: Command) -> Result<(String, String), BenchError> {
        let line = self.line(&command);
        Ok((self.client(command)?.output(END_TIMEOUT + self.options.interval * 2)?, line))
    }

    /// As [`Lab::run`], for a client that prints JSON.
    pub(crate) fn run_json(&self, command: Command) -> Result<(Value, String), BenchError> {
        let (text, line) = self.run(command)?;
        Ok((json(&text, &line)?, line))
    }

    /// An installed program.
    pub(crate) fn installed(&self, name: &str) -> Result<Command, BenchError> {
        let found = find(name).map(Command::new);
        found.ok_or_else(|| {
            BenchError::Missing(format!("{name} is not installed: install {}", package(name)))
        })
    }

    /// The binary `fulmar`.
    pub(crate) fn fulmar(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.options.fulmar);
        command.args(words);
        command
    }

    /// A worker of this program: see [`crate::worker`].
    pub(crate) fn worker(&self, name: &str) -> Command {
        let mut command = Command::new(&self.options.program);
        command.args(["worker", name]);
        command
    }

    /// A command line without the directories and ports of this run.
    pub(crate) fn line(&self, command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let directory = self.path().display().to_string();
        let names = [(&self.options.program, "fulmar-bench"), (&self.options.fulmar, "fulmar")];
        let words = words.map(|word| {
            let name = names.iter().find(|(program, _)| program.as_os_str() == word);
            let word = name.map_or_else(|| word.to_string_lossy(), |(_, name)| (*name).into());
            without_ports(&word.replace(&directory, "DIR"))
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Measures each case of every side once a round. The sides follow each other directly, in
    /// reverse order in every other round, so that other load of the machine falls on all of them.
    ///
    /// A side that fails in a case is left out of it from then on. Its error is printed at once and
    /// returned at the end.
    pub(crate) fn interleave(
        &self,
        rounds: u32,
        sides: usize,
        cases: usize,
        one: impl FnMut(usize, usize) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        in_turn(rounds, sides, cases, one, |error| self.progress(&error.to_string()))
    }
}

fn in_turn(
    rounds: u32,
    sides: usize,
    cases: usize,
    mut one: impl FnMut(usize, usize) -> Result<(), BenchError>,
    print: impl Fn(&BenchError),
) -> Result<(), BenchError> {
    let mut failed: Vec<(usize, usize)> = Vec::new();
    let mut errors = Vec::new();
    for (round, case) in (0..rounds).flat_map(|round| (0..cases).map(move |case| (round, case))) {
        for at in 0..sides {
            let side = if round.is_multiple_of(2) { at } else { sides - 1 - at };
            if failed.contains(&(side, case)) {
                continue;
            }
            match one(side, case) {
                Ok(()) => {}
                Err(BenchError::Stopped) => return Err(BenchError::Stopped),
                Err(error) => {
                    print(&error);
                    failed.push((side, case));
                    errors.push(error);
                }
            }
        }
    }
    BenchError::all(errors)
}

/// Waits for a time.
pub(crate) fn wait(time: Duration) {
    let end = sys::now() + time;
    while let Some(left) = end.checked_duration_since(sys::now()).filter(|it| !it.is_zero()) {
        thread::park_timeout(left);
    }
}

/// Parses the report of a command.
pub(crate) fn json(text: &str, line: &str) -> Result<Value, BenchError> {
    serde_json::from_str(text)
        .map_err(|error| BenchError::process(line, format!("no report: {error}")))
}

/// A command that runs another one after everything else on its core: ready events accumulate.
pub(crate) fn last(command: &Command) -> Command {
    wrapped("chrt", &["--idle", "0"], command)
}

/// A command that runs another one.
pub(crate) fn wrapped(program: &str, words: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(program);
    wrapped.args(words).arg(command.get_program()).args(command.get_args());
    wrapped
}

/// The Debian package of a program.
fn package(program: &str) -> &str {
    match program {
        "nginx" => "nginx-light",
        "h2load" => "nghttp2-client",
        "nghttpd" => "nghttp2-server",
        "cc" => "gcc",
        other => other,
    }
}

/// Replaces the ports of loopback addresses, which differ from run to run.
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

/// Longer than any process takes on a busy machine.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_run_are_replaced() {
        for (word, expected) in [
            ("127.0.0.1:81,127.0.0.2:4000", "127.0.0.1:PORT,127.0.0.2:PORT"),
            ("http://127.0.0.1:81/bytes/128", "http://127.0.0.1:PORT/bytes/128"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1", "127.0.0.1"),
            ("-c", "-c"),
        ] {
            assert_eq!(without_ports(word), expected);
        }
    }

    #[test]
    fn sides_take_turns_and_a_failed_side_is_left_out() {
        let (mut seen, printed) = (Vec::new(), std::cell::Cell::new(0));
        let one = |side, case| {
            seen.push((side, case));
            let failed = (side, case) == (1, 0);
            if failed { Err(BenchError::process("peer", "fell over")) } else { Ok(()) }
        };
        let ended = in_turn(2, 2, 2, one, |_| printed.set(printed.get() + 1));
        let first = [(0, 0), (1, 0), (0, 1), (1, 1)];
        let second = [(0, 0), (1, 1), (0, 1)];
        assert_eq!(seen, [first.as_slice(), second.as_slice()].concat());
        assert_eq!(printed.get(), 1);
        assert_eq!(ended.expect_err("a side failed").to_string(), "peer: fell over");
    }

    #[test]
    fn a_stopped_run_measures_nothing_more() {
        let mut seen = 0;
        let one = |_, _| {
            seen += 1;
            Err(BenchError::Stopped)
        };
        let ended = in_turn(3, 2, 1, one, |_| {});
        assert!(matches!(ended, Err(BenchError::Stopped)));
        assert_eq!(seen, 1);
    }
}
