//! The command line of `fulmar-bench`, and the files that it writes.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::lab::{RunOptions, RunStopper, find};
use crate::report::{self, BenchReport};
use crate::scenarios;
use crate::worker;

/// Measure fulmar beside its peers, in turn on the same cores.
#[derive(Debug, Parser)]
#[command(name = "fulmar bench", bin_name = "fulmar bench", version, after_help = HELP)]
#[command(args_override_self = true)]
struct Arguments {
    /// Scenarios (--list names them), `reference` for the first five, or `all`
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "from", "all"])]
    names: Vec<String>,

    /// List the scenarios
    #[arg(long)]
    list: bool,

    /// Run all scenarios unless some are named
    #[arg(long)]
    all: bool,

    /// Length of each measured interval: 10, 500ms, 2m
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "1s",
          value_parser = duration)]
    duration: Duration,

    /// How often each side is measured, in turn
    #[arg(short, long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Numbers of connections, separated by commas, instead of the published ones
    #[arg(short, long, value_name = "N,N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Vec<u32>,

    /// Requests, where they are counted instead of timed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(10..))]
    requests: u32,

    /// Write the report as JSON; `-` is standard output, and the text goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the report as JSON, and its text next to it as FILE.md
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,

    /// Write the report as one HTML file; `-` as for --json
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Show a report that --json wrote instead of measuring; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "list"])]
    from: Option<PathBuf>,

    /// Directory of the binary `fulmar` (default: that of this program, then PATH)
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
}

/// Why the program ends early.
enum BenchFailure {
    Usage(String),
    Message(String),
}

/// Runs a worker, or scenarios.
pub(crate) fn run() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let result = match words.next().as_deref() {
        Some("worker") => work(&words.collect::<Vec<_>>()),
        _ => measure(&Arguments::parse()),
    };
    let (message, status) = match result {
        Ok(status) => return status,
        Err(BenchFailure::Usage(message)) => (message, USAGE),
        Err(BenchFailure::Message(message)) => (message, 1),
    };
    eprintln!("fulmar-bench: {message}");
    ExitCode::from(status)
}

fn work(words: &[String]) -> Result<ExitCode, BenchFailure> {
    let output = worker::run(words).map_err(|error| BenchFailure::Message(error.to_string()))?;
    print(&output).map(|()| ExitCode::SUCCESS)
}

fn measure(arguments: &Arguments) -> Result<ExitCode, BenchFailure> {
    if arguments.list {
        let lines = scenarios::all().into_iter().map(|it| match it.source {
            "" => format!("{:21}  {}\n", it.name, it.title),
            source => format!("{:21}  {}\n{:21}  after {source}\n", it.name, it.title, ""),
        });
        return print(&lines.collect::<String>()).map(|()| ExitCode::SUCCESS);
    }
    let all = ["all".to_owned()];
    let names = if arguments.names.is_empty() { &all[..] } else { &arguments.names };
    let chosen = scenarios::choose(names);
    let chosen = chosen.map_err(|error| BenchFailure::Usage(error.to_string()))?;
    // Opened before a run of minutes, so that a wrong path is reported at once.
    let files = ReportFiles::open(arguments)?;
    if let Some(path) = &arguments.from {
        return files.write(&read(path)?).map(|()| ExitCode::SUCCESS);
    }
    let stopper = RunStopper::default();
    watch_signals(stopper.clone()).map_err(|error| failure("signals", error))?;
    let options = RunOptions {
        fulmar: fulmar(arguments.binaries.as_deref())?,
        program: std::env::current_exe().map_err(|error| failure("this program's path", error))?,
        interval: arguments.duration,
        rounds: arguments.rounds,
        connections: arguments.connections.clone(),
        requests: arguments.requests,
    };
    let report = scenarios::run(&chosen, &options, &stopper)
        .map_err(|error| BenchFailure::Message(error.to_string()))?;
    files.write(&report)?;
    Ok(match (stopper.is_stopped(), report.is_good()) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, false) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
    })
}

/// The binary that is measured: in `directory`, or next to this program, or on PATH.
fn fulmar(directory: Option<&Path>) -> Result<PathBuf, BenchFailure> {
    let here = std::env::current_exe().ok();
    let directory = directory.or_else(|| here.as_deref().and_then(Path::parent));
    let beside = directory.map(|directory| directory.join("fulmar")).filter(|it| it.is_file());
    beside.or_else(|| find("fulmar")).ok_or_else(|| {
        BenchFailure::Message(
            "the binary 'fulmar' is not next to fulmar-bench and not on PATH; build it with \
             'make build', or name its directory with --binaries"
                .to_owned(),
        )
    })
}

/// Stops the run at the first SIGINT or SIGTERM; the second one ends this process at once.
fn watch_signals(stopper: RunStopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let body = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                signal_hook::low_level::exit(INTERRUPTED.into());
            }
            stopper.stop();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

fn read(path: &Path) -> Result<BenchReport, BenchFailure> {
    let mut text = String::new();
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".into() } else { path.to_string_lossy() };
    let read = match is_stdin {
        true => io::stdin().lock().take(REPORT_SIZE_MAX).read_to_string(&mut text).map(drop),
        false => fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| BenchFailure::Usage(format!("{name}: {error}")))?;
    BenchReport::from_json(&text).map_err(|error| {
        BenchFailure::Usage(format!("{name}: it cannot be read as a report: {error}"))
    })
}

/// Where a report goes besides standard output.
struct ReportFiles<'a> {
    json: Option<(&'a Path, Option<File>)>,
    html: Option<(&'a Path, Option<File>)>,
    markdown: Option<PathBuf>,
}

impl<'a> ReportFiles<'a> {
    /// Opens the files; their contents stay until there is a report.
    fn open(arguments: &'a Arguments) -> Result<Self, BenchFailure> {
        let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if is_stdout(&arguments.json) && is_stdout(&arguments.html) {
            return Err(BenchFailure::Usage(
                "standard output (-) is named twice: --json and --html; use a file for one of them"
                    .to_owned(),
            ));
        }
        let open = |path: &'a Option<PathBuf>| match path.as_deref() {
            None => Ok(None),
            Some(path) if path == Path::new("-") => Ok(Some((path, None))),
            Some(path) => {
                let file = File::options().create(true).truncate(false).write(true).open(path);
                file.map(|file| Some((path, Some(file)))).map_err(|it| failure(path.display(), it))
            }
        };
        let json = if arguments.out.is_some() { &arguments.out } else { &arguments.json };
        let markdown = arguments.out.as_ref().map(|path| path.with_extension("md"));
        Ok(Self { json: open(json)?, html: open(&arguments.html)?, markdown })
    }

    /// Writes all of them, and the text to standard output even if a file cannot be written.
    fn write(self, report: &BenchReport) -> Result<(), BenchFailure> {
        let is_stdout = |place: &Option<(&Path, Option<File>)>| matches!(place, Some((_, None)));
        let text = report::markdown(report);
        let is_taken = is_stdout(&self.json) || is_stdout(&self.html);
        let json = self.json.map_or(Ok(()), |place| write(place, &report.json()));
        let html = self.html.map_or(Ok(()), |place| write(place, &report::html(report)));
        let markdown = self.markdown.map_or(Ok(()), |path| {
            fs::write(&path, &text).map_err(|error| failure(path.display(), error))
        });
        let printed = match is_taken {
            true => {
                eprint!("{text}");
                Ok(())
            }
            false => print(&text),
        };
        json.and(html).and(markdown).and(printed)
    }
}

/// Replaces the contents of a file; a pipe or a terminal has none.
fn write((path, file): (&Path, Option<File>), text: &str) -> Result<(), BenchFailure> {
    let Some(mut file) = file else { return print(text) };
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    let emptied = if is_file { file.set_len(0) } else { Ok(()) };
    let written = emptied.and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(|error| failure(path.display(), error))
}

/// Writes to standard output; a closed pipe (`| head`) is no error.
fn print(text: &str) -> Result<(), BenchFailure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failure("standard output", error))
        }
        _ => Ok(()),
    }
}

fn failure(doing: impl Display, why: impl Display) -> BenchFailure {
    BenchFailure::Message(format!("{doing}: {why}"))
}

/// `10`, `10s`, `500ms`, `2m`: a bare number is in seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("unknown unit '{unit}'; use ms, s or m")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{number}' is not a number"))?;
    let duration = Duration::try_from_secs_f64(number * scale).ok();
    duration.filter(|it| !it.is_zero()).ok_or_else(|| "must be positive".to_owned())
}

/// As clap ends.
const USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;
/// A hundred times the size of a report of all scenarios.
const REPORT_SIZE_MAX: u64 = 32 << 20;

const HELP: &str = "\
Exit status: 0 when everything was measured and all limits are met; 1 if a scenario failed, a limit
is not met, or a report cannot be written; 2 if the command line or a report that it names is
invalid; 130 after SIGINT or SIGTERM, with the scenarios that were complete. All processes of a run
end with it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("10", 10_000), ("1.5s", 1_500), ("250ms", 250), ("2m", 120_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "-1", "s", "1 s", "1d", "nan", "inf"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
