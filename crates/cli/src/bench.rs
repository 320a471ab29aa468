//! `fulmar bench`: arguments, what is being done, the reports.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fulmar_experiments::report::{self, Report};
use fulmar_experiments::{EXPERIMENTS, Options, Stopper, worker};

use crate::files::{self, InputFile, OutputFile};
use crate::output::{Failure, complain, say, say_beside};
use crate::signals::{self, INTERRUPTED};
use crate::{durations, numbers};

/// Make the reference measurements again, beside the peers that are installed.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// Which experiments: idle, urls, hyper, responses, forward, or `all`
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
          value_parser = numbers::within(1..=1000_u32))]
    rounds: u32,

    /// Connections, several with commas, instead of the document's
    #[arg(short, long, value_name = "N,N", value_delimiter = ',',
          value_parser = numbers::within(1..=1_000_000_u32))]
    connections: Vec<u32>,

    /// Requests, where they are counted and not timed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000,
          value_parser = numbers::within(10..=u32::MAX))]
    requests: u32,

    /// Write the report as JSON; `-` is standard output, and the text goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,

    /// Write the report as one HTML file; `-` is standard output, as for --json
    #[arg(long, value_name = "FILE")]
    html: Option<OutputFile>,

    /// Measure nothing: show a report that `--json` wrote; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "list"])]
    from: Option<InputFile>,
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
    let chosen = fulmar_experiments::choose(&arguments.names);
    let chosen = chosen.map_err(|error| Failure::Usage(error.to_string()))?;
    // Who measures for a quarter of an hour wants to know before that there is no place for it.
    let files = Files::open(arguments)?;
    if let Some(file) = &arguments.from {
        let report = read(file)?;
        return files.tell(&report).map(|()| ExitCode::SUCCESS);
    }
    let stopper = Stopper::default();
    let stopped = stopper.clone();
    signals::watch(move |_| stopped.stop())
        .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let program = std::env::current_exe().map_err(|e| Failure::new("this program's path", e))?;
    let options = Options {
        program,
        commit: env!("FULMAR_COMMIT").to_owned(),
        interval: arguments.duration,
        rounds: arguments.rounds,
        connections: arguments.connections.clone(),
        requests: arguments.requests,
    };
    let report = fulmar_experiments::run(&chosen, options, &stopper, complain)
        .map_err(|error| Failure::Message(error.to_string()))?;
    files.tell(&report)?;
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

/// A report that was written.
fn read(file: &InputFile) -> Result<Report, Failure> {
    let bytes = file.read_at_most(REPORT_SIZE_MAX)?;
    Report::from_json(&String::from_utf8_lossy(&bytes)).map_err(|error| {
        Failure::new(file.name().display(), format!("it cannot be read as a report: {error}"))
    })
}

/// Where a report goes besides the text on standard output.
struct Files<'a> {
    json: Option<ReportFile<'a>>,
    html: Option<ReportFile<'a>>,
}

enum ReportFile<'a> {
    Stdout,
    File(&'a Path, File),
}

impl<'a> Files<'a> {
    /// What is in them stays until there is something better.
    fn open(arguments: &'a Arguments) -> Result<Self, Failure> {
        let outputs = [("--json", &arguments.json), ("--html", &arguments.html)];
        files::check_outputs(outputs.map(|(name, file)| (name, file.as_ref())))?;
        let open = |file: &'a Option<OutputFile>| {
            let path = match file {
                None => return Ok(None),
                Some(OutputFile::Stdout) => return Ok(Some(ReportFile::Stdout)),
                Some(OutputFile::Path(path)) => path,
            };
            let file = File::options().create(true).truncate(false).write(true).open(path);
            let place = file.map(|file| Some(ReportFile::File(path, file)));
            place.map_err(|error| Failure::new(path.display(), error))
        };
        Ok(Self { json: open(&arguments.json)?, html: open(&arguments.html)? })
    }

    /// To all of them, and as text to standard output whatever becomes of the others.
    fn tell(self, report: &Report) -> Result<(), Failure> {
        let is_taken = matches!(self.json, Some(ReportFile::Stdout));
        let is_taken = is_taken || matches!(self.html, Some(ReportFile::Stdout));
        let say = if is_taken { say_beside } else { say };
        let json = self.json.map_or(Ok(()), |file| write(file, &report.json()));
        let html = self.html.map_or(Ok(()), |file| write(file, &report::html(report)));
        let told = say(&report::text(report));
        json.and(html).and(told)
    }
}

/// Instead of what is in it; a pipe or a terminal has nothing to be taken away.
fn write(place: ReportFile<'_>, text: &str) -> Result<(), Failure> {
    let ReportFile::File(path, mut file) = place else { return say(text) };
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    let emptied = if is_file { file.set_len(0) } else { Ok(()) };
    emptied
        .and_then(|()| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(path.display(), error))
}

/// Of a report that is read: a hundred times that of all experiments.
const REPORT_SIZE_MAX: u64 = 32 << 20;

const HELP: &str = "\
Exit status: 0 when everything was measured, whoever is ahead; 1 if an experiment failed, or a
report cannot be read or written; 2 if the command line is wrong; 130 after SIGINT or SIGTERM, with
the experiments that were complete. Whatever was started is ended in every case.";
