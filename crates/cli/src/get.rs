//! `fulmar get`: arguments, a progress display, the summary.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use console::Term;
use fulmar_fetch::{
    FetchError, Options, Output, Progress, Proxy, Report, Running, Sink, Source, Trust,
};
use indicatif::{DecimalBytes, HumanDuration};

use crate::files::{self, InputFile, OutputFile};
use crate::output::{Failure, complain, say, say_beside};
use crate::signals::{self, INTERRUPTED};
use crate::terminal_line::TerminalLine;
use crate::{descriptors, durations, fields, loops, table};

/// Fetch many URLs into files.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// What to fetch
    #[arg(value_name = "URL", required_unless_present = "input")]
    urls: Vec<String>,

    /// A list of URLs, each with a name and a checksum if there are any; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    input: Option<InputFile>,

    /// Directory for the files, made if it does not exist; `-` is standard output
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output_dir: OutputFile,

    /// File for the only URL; `-` is standard output
    #[arg(short = 'O', long, value_name = "FILE",
          conflicts_with_all = ["output_dir", "input", "mirror"])]
    output: Option<OutputFile>,

    /// Store HOST/PATH instead of the last part of the path
    #[arg(short, long)]
    mirror: bool,

    /// Connections in all
    #[arg(short = 'j', long, value_name = "N", default_value_t = 64, value_parser = count)]
    connections: usize,

    /// Connections to one host
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count)]
    per_host: usize,

    /// Requests a second to one host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// How often a URL is tried again
    #[arg(long, value_name = "N", default_value_t = 3)]
    retry: u32,

    /// Keep the beginning of a file that was cut off, and go on with it
    #[arg(long)]
    resume: bool,

    /// Leave out files that exist; those with a checksum in the list are verified
    #[arg(long)]
    skip_existing: bool,

    /// Do not wait until files are on the disk (fsync) before they count as done
    #[arg(long)]
    no_sync: bool,

    /// Journal: records finished files so that an interrupted run can resume [default:
    /// .fulmar-get.journal in DIR]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,

    /// A header field, `Name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = fields::parse)]
    headers: Vec<(String, String)>,

    /// Addresses of a host, instead of asking for them; may be given several times
    #[arg(long, value_name = "HOST:PORT:ADDR[,ADDR]")]
    resolve: Vec<String>,

    /// The proxy: http://, socks5:// or socks5h://; empty for none, whatever the environment says
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,

    /// Trust the certificates in this file, in PEM, and no others; `-` is standard input
    #[arg(long, value_name = "FILE")]
    cacert: Option<InputFile>,

    /// Do not verify who answers to https
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    insecure: bool,

    /// For a connection to stand
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    connect_timeout: Duration,

    /// For a server that says nothing
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = durations::parse)]
    stall_timeout: Duration,

    /// For one attempt to fetch a file, from when its connection is there
    #[arg(long, value_name = "TIME", value_parser = durations::parse)]
    max_time: Option<Duration>,

    /// Accept HTTP/0.9 responses: a body without a status line or header fields
    #[arg(long = "http0.9")]
    http09: bool,

    /// Append a line of JSON for each URL; `-` is standard output
    #[arg(long, value_name = "FILE")]
    jsonl: Option<OutputFile>,

    #[command(flatten)]
    loops: loops::LoopArguments,

    /// Print the system calls per file, and what drove the loop
    #[arg(long)]
    ledger: bool,

    /// Print only fatal errors
    #[arg(short, long)]
    quiet: bool,
}

/// What the main thread hears of.
enum News {
    Interrupt,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let options = options(&arguments)?;
    let (sender, news) = mpsc::channel();
    // Nobody listens any more: the end is near.
    signals::watch(move |_| drop(sender.send(News::Interrupt)))
        .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let shown = TerminalLine::new(options.watched);
    let on_fault = complaints(&arguments, &shown);
    let running = fulmar_fetch::start(options, on_fault).map_err(failure)?;
    let began = [running.driven().clone()];
    loops::tell(&began);
    watch(&running, &news, &shown);
    let report = running.finish().map_err(failure)?;
    loops::tell_loss(&began, [&report.driven]);
    report.trouble.iter().for_each(|trouble| complain(trouble));
    print(&arguments, &report)?;
    Ok(match &report {
        report if report.stopped => ExitCode::from(INTERRUPTED),
        report if report.is_success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks that no stream is used twice, and returns where files go.
fn output(arguments: &Arguments) -> Result<Output, Failure> {
    let inputs = [("--input", &arguments.input), ("--cacert", &arguments.cacert)];
    files::check_inputs(inputs.map(|(name, file)| (name, file.as_ref())))?;
    let dir = Some(&arguments.output_dir);
    let outputs = [
        ("--output-dir", dir),
        ("--output", arguments.output.as_ref()),
        ("--jsonl", arguments.jsonl.as_ref()),
    ];
    files::check_outputs(outputs)?;
    let output = match (&arguments.output, &arguments.output_dir) {
        (Some(OutputFile::Path(_)), _) if arguments.urls.len() > 1 => {
            let message = "--output names one file, and there are several URLs: use --output-dir";
            return Err(Failure::Usage(message.to_owned()));
        }
        (Some(OutputFile::Path(path)), _) if path.file_name().is_none() => {
            let message = format!("--output {}: not the name of a file", path.display());
            return Err(Failure::Usage(message));
        }
        (Some(OutputFile::Path(path)), _) => Output::File(path.clone()),
        (Some(OutputFile::Stdout), _) | (None, OutputFile::Stdout) => Output::Stdout,
        (None, OutputFile::Path(dir)) => Output::Dir(dir.clone()),
    };
    let set = [
        ("--resume", arguments.resume),
        ("--skip-existing", arguments.skip_existing),
        ("--journal", arguments.journal.is_some()),
        ("--mirror", arguments.mirror),
    ];
    match set.iter().find(|(_, is_set)| *is_set && output == Output::Stdout) {
        Some((name, _)) => {
            Err(Failure::Usage(format!("{name} is for files, and the output is standard output")))
        }
        None => Ok(output),
    }
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    let output = output(arguments)?;
    let list = arguments.input.clone().map(|list| match list {
        InputFile::Stdin => Source::Stdin,
        InputFile::Path(path) => Source::File(path),
    });
    let proxy = match arguments.proxy.as_deref() {
        None => Proxy::Environment,
        Some("") => Proxy::None,
        Some(url) => Proxy::Given(url.to_owned()),
    };
    let trust = match &arguments.cacert {
        _ if arguments.insecure => Trust::Anybody,
        None => Trust::System,
        Some(InputFile::Path(path)) => Trust::File(path.clone()),
        Some(file @ InputFile::Stdin) => Trust::Pem(file.read()?),
    };
    let budget = descriptors::for_connections(1)?;
    let budget = budget.shared(3); // each may have a file of its own, in a directory of its own
    let (connections, message) = budget.fit(arguments.connections);
    message.iter().for_each(|message| complain(message));
    Ok(Options {
        urls: arguments.urls.clone(),
        list,
        output,
        mirror: arguments.mirror,
        skip_existing: arguments.skip_existing,
        resume: arguments.resume,
        sync: !arguments.no_sync,
        journal: arguments.journal.clone(),
        records: arguments.jsonl.clone().map(|file| match file {
            OutputFile::Stdout => Sink::Stdout,
            OutputFile::Path(path) => Sink::File(path),
        }),
        connections,
        per_host: arguments.per_host,
        rate: arguments.rate,
        retries: arguments.retry,
        headers: arguments.headers.clone(),
        resolve: arguments.resolve.clone(),
        proxy,
        trust,
        connect_timeout: arguments.connect_timeout,
        stall_timeout: arguments.stall_timeout,
        max_time: arguments.max_time,
        http09: arguments.http09,
        loop_options: arguments.loops.options()?,
        watched: !arguments.quiet && io::stderr().is_terminal(),
    })
}

fn failure(error: FetchError) -> Failure {
    match error {
        FetchError::Header(_)
        | FetchError::Resolve(..)
        | FetchError::Proxy(_)
        | FetchError::ProxyVariable(_)
        | FetchError::Tls(_) => Failure::Usage(error.to_string()),
        _ => Failure::Message(error.to_string()),
    }
}

/// Each failure as a line above the progress.
fn complaints(arguments: &Arguments, shown: &TerminalLine) -> impl FnMut(&str) + Send + 'static {
    let (quiet, shown) = (arguments.quiet, shown.clone());
    move |message| {
        if !quiet {
            shown.suspend(|| complain(message));
        }
    }
}

/// Until it has ended.
fn watch(running: &Running, news: &mpsc::Receiver<News>, shown: &TerminalLine) {
    let mut before = Progress::default();
    while !running.is_finished() {
        match news.recv_timeout(TICK) {
            Ok(News::Interrupt) => running.stopper().stop(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let progress = running.progress();
        if progress.elapsed > before.elapsed {
            shown.set(line(&before, &progress, width()));
            before = progress;
        }
    }
    shown.set(String::new());
}

/// The columns that a line of progress may have: `^C`, which a terminal prints where the cursor
/// is, stays on the same line and is removed with it.
fn width() -> usize {
    usize::from(Term::stderr().size().1).saturating_sub(4)
}

/// What fits of a line of progress, the most important figures first.
fn line(before: &Progress, now: &Progress, width: usize) -> String {
    let mut line = String::new();
    for part in parts(before, now) {
        let separator = if line.is_empty() { "" } else { ", " };
        if line.chars().count() + separator.len() + part.chars().count() > width {
            break;
        }
        line += separator;
        line += &part;
    }
    line
}

fn parts(before: &Progress, now: &Progress) -> Vec<String> {
    let millis = (now.elapsed - before.elapsed).as_millis().max(1);
    let speed = u128::from(now.bytes.saturating_sub(before.bytes)) * 1_000 / millis;
    let speed = u64::try_from(speed).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    let share = now.share.filter(|share| *share > 0.0);
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    let share = match now.bytes_left.map(|left| (now.bytes as f64, left as f64)) {
        Some((bytes, left)) if bytes > 0.0 => Some(bytes / (bytes + left)),
        _ => share,
    };
    parts.extend(share.map(|share| format!("{:.0} %", share * 100.0)));
    parts.push(match now.bytes_left {
        Some(left) if left > 0 => {
            let size = now.bytes.saturating_add(left); // lengths come from servers
            format!("{} of {}", DecimalBytes(now.bytes), DecimalBytes(size))
        }
        _ => DecimalBytes(now.bytes).to_string(),
    });
    parts.push(format!("{}/s", DecimalBytes(speed)));
    let left = share.map(|share| now.elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share);
    if let Some(left) = left.filter(|left| *left < LEFT_MAX) {
        parts.push(format!("{} left", HumanDuration(Duration::from_secs_f64(left))));
    }
    let files = now.over - now.failed;
    parts.push(format!("{files} {}", if files == 1 { "file" } else { "files" }));
    parts.push(format!("{} failed", now.failed));
    parts.push(format!("{} next", now.under_way));
    let slowest = now.slowest.iter();
    let slowest: Vec<_> =
        slowest.map(|(host, n)| format!("{host} {}/s", DecimalBytes(*n))).collect();
    if !slowest.is_empty() {
        parts.push(format!("slowest: {}", slowest.join(", ")));
    }
    parts
}

/// To standard output, or to standard error if that has files or records.
fn print(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
    let named = [Some(&arguments.output_dir), arguments.output.as_ref(), arguments.jsonl.as_ref()];
    let is_taken = named.into_iter().flatten().any(|file| *file == OutputFile::Stdout);
    let say = if is_taken { say_beside } else { say };
    if !arguments.quiet {
        say(&report.text())?;
    }
    if arguments.ledger {
        let files = report.tally.over();
        say(&format!(
            "\nsystem calls\n{}\n  driven by       {}: {} turns, {:.1} events per turn\n",
            table::of(&report.ledger, files, "per file"),
            report.driven,
            report.stats.turns,
            table::ratio(report.stats.events, report.stats.turns),
        ))?;
    }
    Ok(())
}

fn count(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    match number {
        1..=COUNT_MAX => Ok(number),
        _ => Err(format!("must be 1 to {COUNT_MAX}")),
    }
}

/// Seconds; a longer time left means nothing.
const LEFT_MAX: f64 = 1e7;
const TICK: Duration = Duration::from_millis(50);
/// More than any machine has descriptors for.
const COUNT_MAX: usize = 1_000_000;
const HELP: &str = "\
A line of a list is `URL [NAME [CHECKSUM]]`, with tabs between, or blanks if it has no tab; a name
that is `-` is none; a checksum is md5:, sha1:, sha256: or sha512: and hexadecimal digits. Nothing
that exists is overwritten, unless an earlier run left it cut short or its checksum is wrong.

Exit status: 0 if every URL has its file; 1 if one failed; 2 if the command line is wrong; 130
after SIGINT or SIGTERM: the same command goes on from there. A second signal ends it at once.";
