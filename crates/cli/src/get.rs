//! `fulmar get`: arguments, a progress display, the summary.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use console::Term;
use fulmar_fetch::{
    FetchError, FetchProgress, Identity, ListSource, Options, OutputTarget, Protocol, ProxyChoice,
    RecordSink, Report, RunningFetch, Trust,
};
use indicatif::{DecimalBytes, HumanDuration};

use crate::files::{self, InputFile, OutputFile};
use crate::output::{ToolFailure, print_stderr, print_stdout, warn};
use crate::signals::{self, INTERRUPTED};
use crate::terminal_line::TerminalLine;
use crate::{descriptors, durations, fields, ledger_table, loops, numbers};

/// Download many URLs into files.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct GetArguments {
    /// URLs to fetch
    #[arg(value_name = "URL", required_unless_present = "input")]
    urls: Vec<String>,

    /// Read a list of URLs, with optional file names and checksums (see below); `-`: standard input
    #[arg(short, long, value_name = "FILE")]
    input: Option<InputFile>,

    /// Directory for the files, created if missing; `-`: standard output
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output_dir: OutputFile,

    /// File for a single URL; `-`: standard output
    #[arg(short = 'O', long, value_name = "FILE",
          conflicts_with_all = ["output_dir", "input", "mirror"])]
    output: Option<OutputFile>,

    /// Name files HOST/PATH instead of the last component of the path
    #[arg(short, long)]
    mirror: bool,

    /// Maximum number of connections
    #[arg(short = 'j', long, value_name = "N", default_value_t = 64, value_parser = count)]
    connections: usize,

    /// Maximum number of connections to one host
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count)]
    per_host: usize,

    /// Maximum number of requests per second to one host, a whole number
    #[arg(long, value_name = "N", value_parser = numbers::within(1..=u32::MAX))]
    rate: Option<u32>,

    /// Number of retries for each URL
    #[arg(long, value_name = "N", default_value_t = 3)]
    retry: u32,

    /// Keep partial files of failed transfers, and resume them
    #[arg(long)]
    resume: bool,

    /// Skip existing files; those with a checksum in the list are verified
    #[arg(long)]
    skip_existing: bool,

    /// Do not flush files to the disk (fsync) before they count as finished
    #[arg(long)]
    no_sync: bool,

    /// Journal: records finished files so that an interrupted run can resume [default:
    /// .fulmar-get.journal in DIR]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,

    /// Add a header field, `Name: value`; repeatable
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = fields::parse)]
    headers: Vec<(String, String)>,

    /// Use these addresses for a host instead of DNS; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDR[,ADDR]")]
    resolve: Vec<String>,

    /// Proxy URL: http://, socks5:// or socks5h://; empty: no proxy, ignoring the environment
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,

    /// Trust only the CA certificates in FILE (PEM); `-`: standard input
    #[arg(long, value_name = "FILE")]
    cacert: Option<InputFile>,

    /// Do not verify server certificates
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    insecure: bool,

    /// Client certificate (PEM), sent to every server that requires one; `-`: standard input
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<InputFile>,

    /// Private key of the client certificate (PEM); `-`: standard input
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<InputFile>,

    /// Connect timeout, including the TLS handshake
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    connect_timeout: Duration,

    /// Timeout without received data
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = durations::parse)]
    stall_timeout: Duration,

    /// Timeout for each attempt, from the established connection to the end of the file
    #[arg(long, value_name = "TIME", value_parser = durations::parse)]
    max_time: Option<Duration>,

    /// Let the server choose HTTP/2 for https (ALPN). This is the default; the last one of this and
    /// --http1.1 counts
    #[arg(long, overrides_with_all = ["http11", "http2"])]
    http2: bool,

    /// Use HTTP/1.1, although the server would choose HTTP/2 for https
    #[arg(long = "http1.1", conflicts_with = "http2_prior_knowledge", overrides_with = "http2")]
    http11: bool,

    /// Use HTTP/2 for http too, without negotiation: the server must speak it. For https, ALPN
    /// decides as usual
    #[arg(long)]
    http2_prior_knowledge: bool,

    /// Accept HTTP/0.9 responses: a body without a status line or header fields
    #[arg(long = "http0.9")]
    http09: bool,

    /// Append a line of JSON for each URL to FILE; `-`: standard output
    #[arg(long, value_name = "FILE")]
    jsonl: Option<OutputFile>,

    #[command(flatten)]
    loops: loops::LoopArguments,

    /// Print system calls per fetched file and statistics of the event loop
    #[arg(long)]
    ledger: bool,

    /// Print only fatal errors
    #[arg(short, long)]
    quiet: bool,
}

/// Messages to the main thread.
enum GetMessage {
    Interrupt,
}

pub(crate) fn run(arguments: GetArguments) -> Result<ExitCode, ToolFailure> {
    let options = options(&arguments)?;
    let (sender, news) = mpsc::channel();
    // Sending fails only while the process exits.
    signals::watch(move |_| drop(sender.send(GetMessage::Interrupt)))
        .map_err(|error| ToolFailure::new("cannot install signal handlers", error))?;
    let shown = TerminalLine::new(options.watched);
    let on_fault = failure_printer(&arguments, &shown);
    let running = fulmar_fetch::start(options, on_fault).map_err(failure)?;
    let began = [running.driver().clone()];
    loops::warn_without_ring(&began);
    watch(&running, &news, &shown);
    let report = running.finish().map_err(failure)?;
    loops::warn_ring_lost(&began, [&report.driver]);
    report.errors.iter().for_each(|trouble| warn(trouble));
    print(&arguments, &report)?;
    Ok(match &report {
        report if report.stopped => ExitCode::from(INTERRUPTED),
        report if report.is_success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks that no stream is used twice, and returns the destination of files.
fn output(arguments: &GetArguments) -> Result<OutputTarget, ToolFailure> {
    let inputs = [
        ("--input", &arguments.input),
        ("--cacert", &arguments.cacert),
        ("--cert", &arguments.cert),
        ("--key", &arguments.key),
    ];
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
            let message = "--output needs a single URL; use --output-dir for several";
            return Err(ToolFailure::Usage(message.to_owned()));
        }
        (Some(OutputFile::Path(path)), _) if path.file_name().is_none() => {
            let message = format!("--output {}: not a file name", path.display());
            return Err(ToolFailure::Usage(message));
        }
        (Some(OutputFile::Path(path)), _) => OutputTarget::File(path.clone()),
        (Some(OutputFile::Stdout), _) | (None, OutputFile::Stdout) => OutputTarget::Stdout,
        (None, OutputFile::Path(dir)) => OutputTarget::Dir(dir.clone()),
    };
    let set = [
        ("--resume", arguments.resume),
        ("--skip-existing", arguments.skip_existing),
        ("--journal", arguments.journal.is_some()),
        ("--mirror", arguments.mirror),
    ];
    match set.iter().find(|(_, is_set)| *is_set && output == OutputTarget::Stdout) {
        Some((name, _)) => {
            Err(ToolFailure::Usage(format!("{name} cannot be combined with standard output")))
        }
        None => Ok(output),
    }
}

fn options(arguments: &GetArguments) -> Result<Options, ToolFailure> {
    let output = output(arguments)?;
    let list = arguments.input.clone().map(|list| match list {
        InputFile::Stdin => ListSource::Stdin,
        InputFile::Path(path) => ListSource::File(path),
    });
    let proxy = match arguments.proxy.as_deref() {
        None => ProxyChoice::Environment,
        Some("") => ProxyChoice::None,
        Some(url) => ProxyChoice::Given(url.to_owned()),
    };
    let trust = match &arguments.cacert {
        _ if arguments.insecure => Trust::Any,
        None => Trust::System,
        Some(InputFile::Path(path)) => Trust::File(path.clone()),
        Some(file @ InputFile::Stdin) => Trust::Pem(file.read()?),
    };
    let identity = match (&arguments.cert, &arguments.key) {
        (Some(cert), Some(key)) => Some(Identity::new(cert.pem()?, key.pem()?)),
        _ => None,
    };
    let budget = descriptors::for_connections(1)?;
    let budget = budget.shared(3); // a connection, its file and the file's directory
    let (connections, message) = budget.fit(arguments.connections);
    message.iter().for_each(|message| warn(message));
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
            OutputFile::Stdout => RecordSink::Stdout,
            OutputFile::Path(path) => RecordSink::File(path),
        }),
        connections,
        per_host: arguments.per_host,
        rate: arguments.rate,
        retries: arguments.retry,
        headers: arguments.headers.clone(),
        resolve: arguments.resolve.clone(),
        proxy,
        trust,
        identity,
        connect_timeout: arguments.connect_timeout,
        stall_timeout: arguments.stall_timeout,
        max_time: arguments.max_time,
        protocol: match (arguments.http11, arguments.http2_prior_knowledge) {
            (true, _) => Protocol::Http1,
            (false, true) => Protocol::Http2,
            (false, false) => Protocol::Negotiated,
        },
        http09: arguments.http09,
        loop_options: arguments.loops.options()?,
        watched: !arguments.quiet && io::stderr().is_terminal(),
    })
}

fn failure(error: FetchError) -> ToolFailure {
    match error {
        FetchError::Header(_)
        | FetchError::Resolve(..)
        | FetchError::Proxy(_)
        | FetchError::ProxyVariable(_)
        | FetchError::Tls(_)
        | FetchError::List(..) => ToolFailure::Usage(error.to_string()),
        _ => ToolFailure::Message(error.to_string()),
    }
}

/// Prints each failure above the progress line.
fn failure_printer(
    arguments: &GetArguments,
    shown: &TerminalLine,
) -> impl FnMut(&str) + Send + 'static {
    let (quiet, shown) = (arguments.quiet, shown.clone());
    move |message| {
        if !quiet {
            shown.suspend(|| warn(message));
        }
    }
}

/// Shows progress until the run has ended.
fn watch(running: &RunningFetch, news: &mpsc::Receiver<GetMessage>, shown: &TerminalLine) {
    let mut before = FetchProgress::default();
    while !running.is_finished() {
        match news.recv_timeout(TICK) {
            Ok(GetMessage::Interrupt) => running.stopper().stop(),
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

/// The maximum width of the progress line. It leaves room for the `^C` that a terminal prints at
/// the cursor, so that it is erased with the line.
fn width() -> usize {
    usize::from(Term::stderr().size().1).saturating_sub(4)
}

/// The progress line: as many figures as fit, the most important first.
fn line(before: &FetchProgress, now: &FetchProgress, width: usize) -> String {
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

fn parts(before: &FetchProgress, now: &FetchProgress) -> Vec<String> {
    let millis = (now.elapsed - before.elapsed).as_millis().max(1);
    let speed = u128::from(now.bytes.saturating_sub(before.bytes)) * 1_000 / millis;
    let speed = u64::try_from(speed).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    let share = now.share.filter(|share| *share > 0.0);
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let share = match now.bytes_left.map(|left| (now.bytes as f64, left as f64)) {
        Some((bytes, left)) if bytes > 0.0 => Some(bytes / (bytes + left)),
        _ => share,
    };
    parts.extend(share.map(|share| format!("{:.0} %", share * 100.0)));
    parts.push(match now.bytes_left {
        Some(left) if left > 0 => {
            let size = now.bytes.saturating_add(left); // lengths from servers may be huge
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

/// Prints the summary. If standard output carries files or records, it goes to standard error.
fn print(arguments: &GetArguments, report: &Report) -> Result<(), ToolFailure> {
    let named = [Some(&arguments.output_dir), arguments.output.as_ref(), arguments.jsonl.as_ref()];
    let is_taken = named.into_iter().flatten().any(|file| *file == OutputFile::Stdout);
    let print = if is_taken { print_stderr } else { print_stdout };
    if !arguments.quiet {
        print(&report.text())?;
    }
    if arguments.ledger {
        print(&format!(
            "\nsystem calls\n{}\n  driven by       {}: {} turns, {:.1} events per turn\n",
            ledger_table::of(&report.ledger, report.tally.fetched, "per file"),
            report.driver,
            report.stats.turns,
            ledger_table::ratio(report.stats.events, report.stats.turns),
        ))?;
    }
    Ok(())
}

fn count(text: &str) -> Result<usize, String> {
    let number = numbers::within(1..=COUNT_MAX)(text)?;
    Ok(usize::try_from(number).expect("32 bits"))
}

/// In seconds. A longer estimate is not shown.
const LEFT_MAX: f64 = 1e7;
const TICK: Duration = Duration::from_millis(50);
/// More than any machine has descriptors for.
const COUNT_MAX: u32 = 1_000_000;
const HELP: &str = "\
Each line of a list is `URL [NAME [CHECKSUM]]`, separated by tabs, or by spaces if the line has no
tab. NAME `-`: no name. CHECKSUM: md5:, sha1:, sha256: or sha512: and hexadecimal digits. Existing
files are not overwritten, unless an earlier run left them incomplete or the checksum is wrong.

Exit status: 0 if every URL has its file; 1 if a URL failed; 2 if the command line or an input
that it names is invalid; 130 after SIGINT or SIGTERM: the same command resumes the run. A second
signal exits at once.";
