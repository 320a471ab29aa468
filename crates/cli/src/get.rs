//! `fulmar get`: arguments, a progress display, the summary.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use fulmar_fetch::{FetchError, Options, Progress, Proxy, Report, Running, Source, Trust};
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};

use crate::output::{Failure, complain, say};
use crate::signals::{self, INTERRUPTED};
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
    input: Option<PathBuf>,

    /// Where the files go; made if it is not there
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output_dir: PathBuf,

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

    /// Leave out what is there already
    #[arg(long)]
    skip_existing: bool,

    /// What makes a run that was killed continue [default: .fulmar-get.journal in DIR]
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

    /// Trust the certificates in this file, in PEM, and no others
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,

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

    /// Write a line of JSON for each URL
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,

    #[command(flatten)]
    loops: loops::LoopArguments,

    /// Print the system calls per file, and what drove the loop
    #[arg(long)]
    ledger: bool,

    /// Say nothing but what went wrong with the run itself
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
    let bar = bar(&options);
    let on_fault = complaints(&arguments, &bar);
    let running = fulmar_fetch::start(options, on_fault).map_err(failure)?;
    let began = [running.driven().clone()];
    loops::tell(&began);
    watch(&running, &news, &bar);
    let report = running.finish().map_err(failure)?;
    bar.finish_and_clear();
    loops::tell_loss(&began, [&report.driven]);
    report.trouble.iter().for_each(|trouble| complain(trouble));
    print(&arguments, &report)?;
    Ok(match &report {
        report if report.stopped => ExitCode::from(INTERRUPTED),
        report if report.is_success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    let list = arguments.input.clone().map(|path| match path.as_os_str() == "-" {
        true => Source::Stdin,
        false => Source::File(path),
    });
    let proxy = match arguments.proxy.as_deref() {
        None => Proxy::Environment,
        Some("") => Proxy::None,
        Some(url) => Proxy::Given(url.to_owned()),
    };
    let trust = match &arguments.cacert {
        _ if arguments.insecure => Trust::Anybody,
        None => Trust::System,
        Some(path) => Trust::File(path.clone()),
    };
    let budget = descriptors::for_connections(1)?;
    let budget = budget.shared(3); // each may have a file of its own, in a directory of its own
    let (connections, message) = budget.fit(arguments.connections);
    message.iter().for_each(|message| complain(message));
    Ok(Options {
        urls: arguments.urls.clone(),
        list,
        dir: arguments.output_dir.clone(),
        mirror: arguments.mirror,
        skip_existing: arguments.skip_existing,
        resume: arguments.resume,
        journal: arguments.journal.clone(),
        records: arguments.jsonl.clone(),
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
        | FetchError::Resolve(_)
        | FetchError::Proxy(_)
        | FetchError::ProxyVariable(_)
        | FetchError::Tls(_) => Failure::Usage(error.to_string()),
        _ => Failure::Message(error.to_string()),
    }
}

/// Draws nothing if nobody sees it.
fn bar(options: &Options) -> ProgressBar {
    if !options.watched {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("a constant"));
    bar
}

/// Each failure as a line above the progress.
fn complaints(arguments: &Arguments, bar: &ProgressBar) -> impl FnMut(&str) + Send + 'static {
    let (quiet, bar) = (arguments.quiet, bar.clone());
    move |message| {
        if !quiet {
            bar.suspend(|| complain(message));
        }
    }
}

/// Until it has ended.
fn watch(running: &Running, news: &mpsc::Receiver<News>, bar: &ProgressBar) {
    let mut before = Progress::default();
    while !running.is_finished() {
        match news.recv_timeout(TICK) {
            Ok(News::Interrupt) => running.stopper().stop(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let progress = running.progress();
        if !bar.is_hidden() && progress.elapsed > before.elapsed {
            bar.set_message(line(&before, &progress));
            before = progress;
        }
    }
}

fn line(before: &Progress, now: &Progress) -> String {
    let millis = (now.elapsed - before.elapsed).as_millis().max(1);
    let speed = u128::from(now.bytes - before.bytes) * 1_000 / millis;
    let speed = u64::try_from(speed).unwrap_or(u64::MAX);
    let mut line = format!(
        "{} files, {} failed, {} next, {}, {}/s",
        now.over - now.failed,
        now.failed,
        now.under_way,
        HumanBytes(now.bytes),
        HumanBytes(speed)
    );
    // What is in hand has been read, and is still to be done.
    if let Some(share) = now.list_share.filter(|share| *share > 0.0) {
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        let (over, next) = (now.over as f64, now.under_way as f64);
        let done = share * over / (over + next).max(1.0);
        if done > 0.0 {
            let left = now.elapsed.mul_f64((1.0 - done).max(0.0) / done);
            line += &format!(", {:.0} %, {} left", done * 100.0, HumanDuration(left));
        }
    }
    let slowest = now.slowest.iter();
    let slowest: Vec<_> = slowest.map(|(host, n)| format!("{host} {}/s", HumanBytes(*n))).collect();
    if !slowest.is_empty() {
        line += &format!("; slowest: {}", slowest.join(", "));
    }
    line
}

fn print(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
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

const TICK: Duration = Duration::from_millis(50);
/// More than any machine has descriptors for.
const COUNT_MAX: usize = 1_000_000;
const HELP: &str = "\
A line of a list is `URL [NAME [CHECKSUM]]`, with tabs between, or blanks if it has no tab; a name
that is `-` is none; a checksum is md5:, sha1:, sha256: or sha512: and hexadecimal digits. Nothing
that exists is overwritten.

Exit status: 0 if every URL has its file; 1 if one failed; 2 if the command line is wrong; 130
after SIGINT or SIGTERM: the same command goes on from there. A second signal ends it at once.";
