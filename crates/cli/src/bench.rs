//! `fulmar bench`: arguments, what is being done, the reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fulmar_experiments::report::{self, Report};
use fulmar_experiments::{EXPERIMENTS, Options, Stopper, worker};

use crate::durations;
use crate::output::{Failure, complain, say};
use crate::signals::{self, INTERRUPTED};

/// Make the reference measurements again, beside the peers that are installed.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// Which experiments; `all` is all of them
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "from"])]
    names: Vec<String>,

    /// Tell what there is
    #[arg(long)]
    list: bool,

    /// How long each figure is measured: 10, 500ms, 2m
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = durations::parse)]
    duration: Duration,

    /// How often each side is measured, in turn; medians are told
    #[arg(short, long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Connections, several with commas, instead of the document's
    #[arg(short, long, value_name = "N,N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Vec<u32>,

    /// Requests, where they are counted and not timed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(10..))]
    requests: u32,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Measure nothing: show a report that `--json` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "list"])]
    from: Option<PathBuf>,
}

/// One side of an experiment, as a process: `fulmar bench` starts it.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.list {
        let width = EXPERIMENTS.iter().map(|it| it.name.len()).max().unwrap_or(0);
        let line = |it: &fulmar_experiments::Experiment| {
            format!("{:width$}  {}\n{:width$}  after {}\n", it.name, it.title, "", it.source)
        };
        return say(&EXPERIMENTS.iter().map(line).collect::<String>()).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.from {
        let text = fs::read_to_string(path).map_err(|e| Failure::new(path.display(), e))?;
        let report = Report::from_json(&text).map_err(|e| Failure::new(path.display(), e))?;
        return tell(arguments, &report).map(|()| ExitCode::SUCCESS);
    }
    let stopper = Stopper::default();
    let stopped = stopper.clone();
    signals::watch(move |_| stopped.stop())
        .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let program = std::env::current_exe().map_err(|e| Failure::new("this program's path", e))?;
    let options = Options {
        program,
        interval: arguments.duration,
        rounds: arguments.rounds,
        connections: arguments.connections.clone(),
        requests: arguments.requests,
    };
    let report = fulmar_experiments::run(&arguments.names, options, &stopper, complain).map_err(
        |error| match error {
            fulmar_experiments::Error::Unknown { .. } => Failure::Usage(error.to_string()),
            error => Failure::Message(error.to_string()),
        },
    )?;
    tell(arguments, &report)?;
    let failed = report.experiments.iter().any(|outcome| outcome.failure.is_some());
    Ok(match (stopper.is_stopped(), failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Does what the process that started this one asks for.
pub(crate) fn work(arguments: &Worker) -> Result<ExitCode, Failure> {
    let told = worker::run(&arguments.words).map_err(|e| Failure::Message(e.to_string()))?;
    say(&told).map(|()| ExitCode::SUCCESS)
}

fn tell(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
    write(arguments.json.as_deref(), || report.json())?;
    write(arguments.html.as_deref(), || report::html(report))?;
    say(&report::text(report))
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()).map_err(|error| Failure::new(path.display(), error))
}

const HELP: &str = "\
Exit status: 0 when everything was measured, whoever is ahead; 1 if an experiment failed; 2 if the
command line is wrong; 130 after SIGINT or SIGTERM, with the experiments that were complete.
Whatever was started is ended in every case.";
