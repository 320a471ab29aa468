//! `fulmar serve`: arguments, messages, the end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_observe::{AccessLog, Format, Output};
use fulmar_serve::{Files, FilesOptions, Options, Outcome, RunOptions, Running};
use fulmar_server::{Calls, Limits};
use fulmar_sys as sys;

use crate::output::{Failure, complain, say};
use crate::signals::{self, INTERRUPTED, Interrupt};
use crate::{descriptors, durations, table};

/// Serve the files of a directory.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The directory
    #[arg(default_value = ".")]
    dir: PathBuf,

    /// Where to listen; port 0 asks for a free one, which is printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Threads, each with a listener of its own (SO_REUSEPORT)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// List directories that have no index.html
    #[arg(long)]
    list: bool,

    /// Serve and list names that begin with a dot
    #[arg(long)]
    hidden: bool,

    /// Append a line for each answer to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// How the lines of the access log look
    #[arg(long, value_enum, default_value_t = LogFormat::Combined)]
    log_format: LogFormat,

    /// Connections at a time; beyond it clients wait. As many as there are descriptors by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,

    /// Close a connection that has no request for so long
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = durations::parse)]
    idle_timeout: Duration,

    /// From the first byte of a request's head to its last
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = durations::parse)]
    head_timeout: Duration,

    /// Between two bytes of a request's body
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    body_timeout: Duration,

    /// Between two bytes that the client takes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    send_timeout: Duration,

    /// From SIGTERM or SIGINT to the end of connections that are still busy
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = durations::parse)]
    drain_timeout: Duration,

    /// Print the system calls per request at the end
    #[arg(long)]
    ledger: bool,

    /// Answer /bytes/N, /stream/CHUNK, /delay/MS, /status/CODE, /echo, /idle and /.ledger
    #[arg(long)]
    test_endpoints: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// As Apache and nginx write it
    Combined,
    /// An object a line
    Json,
}

/// What the main thread hears of.
enum News {
    Signal(Interrupt),
    Ended,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let options = run_options(&arguments)?;
    let log_to_stdout = arguments.access_log.as_deref() == Some(Path::new("-"));
    let (sender, news) = mpsc::channel();
    signals::watch(sender.clone(), News::Signal)
        .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let running = start(&arguments, &options, sender)?;
    let address = running.address();
    let greeting = format!("serving {} on http://{address}/", arguments.dir.display());
    match log_to_stdout {
        true => complain(&greeting),
        false => say(&format!("{greeting}\n"))?,
    }
    let interrupt = match news.recv() {
        Ok(News::Signal(interrupt)) => interrupt,
        Ok(News::Ended) | Err(_) => Interrupt::Terminate, // the outcome says why
    };
    running.stop();
    let outcome = running.join().map_err(|error| Failure::new("serve", error))?;
    report(&arguments, &outcome, log_to_stdout)?;
    Ok(match interrupt {
        Interrupt::Interrupt => ExitCode::from(INTERRUPTED),
        Interrupt::Terminate => ExitCode::SUCCESS,
    })
}

fn run_options(arguments: &Arguments) -> Result<RunOptions, Failure> {
    let threads = usize::from(arguments.threads);
    let budget = descriptors::for_connections()?;
    // What is remembered of files keeps descriptors too.
    let files = threads * Options::default().entries_max;
    let fits = budget.connections.saturating_sub(files).max(budget.connections / 2);
    let budget = descriptors::Budget { connections: fits, ..budget };
    let wanted = arguments.max_connections.map_or(fits, |n| usize::try_from(n).unwrap_or(fits));
    let (connections, message) = budget.fit(wanted);
    message.iter().for_each(|message| complain(message));
    Ok(RunOptions {
        listen: arguments.listen,
        threads,
        limits: Limits {
            connections_max: connections.div_ceil(threads),
            idle_timeout: arguments.idle_timeout,
            head_timeout: arguments.head_timeout,
            body_timeout: arguments.body_timeout,
            send_timeout: arguments.send_timeout,
            drain_timeout: arguments.drain_timeout,
            ..Limits::default()
        },
    })
}

fn start(
    arguments: &Arguments,
    options: &RunOptions,
    news: mpsc::Sender<News>,
) -> Result<Running, Failure> {
    let files = FilesOptions {
        root: arguments.dir.clone(),
        site: Options { hidden: arguments.hidden, list: arguments.list, ..Options::default() },
        test_endpoints: arguments.test_endpoints,
    };
    let format = match arguments.log_format {
        LogFormat::Combined => Format::Combined,
        LogFormat::Json => Format::Json,
    };
    let dir = &arguments.dir;
    std::fs::read_dir(dir).map_err(|error| Failure::new(dir.display(), error))?;
    let log = arguments.access_log.as_deref().map(open_log).transpose()?;
    let make = move || {
        let calls = Calls::new(Files::open(&files)?, sys::now(), sys::wall_clock);
        let log = log.clone().map(|output| AccessLog::new(output, format));
        Ok(match log {
            Some(log) => calls.with_observer(log.on_trouble(|t| complain(&t.to_string()))),
            None => calls,
        })
    };
    let on_end = move || {
        let _ = news.send(News::Ended); // the main thread is gone: nobody needs to know
    };
    Running::start(options, make, on_end)
        .map_err(|error| Failure::new(format!("cannot serve on {}", arguments.listen), error))
}

/// What all threads write to.
fn open_log(path: &Path) -> Result<Output, Failure> {
    let fd = match path == Path::new("-") {
        true => io::stdout().as_fd().try_clone_to_owned(),
        false => sys::open_log(path),
    };
    fd.map(Output::new).map_err(|error| Failure::new(path.display(), error))
}

fn report(arguments: &Arguments, outcome: &Outcome, to_stderr: bool) -> Result<(), Failure> {
    if outcome.accept_failures > 0 {
        complain(&format!(
            "descriptors or memory ran out {} times; clients waited",
            outcome.accept_failures
        ));
    }
    if !arguments.ledger {
        return Ok(());
    }
    let stats = outcome.stats;
    let text = format!(
        "{} requests on {} connections; driver epoll, {} turns, {} events\n{}",
        outcome.requests,
        stats.accepted,
        stats.turns,
        stats.events,
        table::of(&outcome.ledger, outcome.requests, "per request")
    );
    if to_stderr {
        complain(&text);
        return Ok(());
    }
    say(&text)
}

const HELP: &str = "\
Exit status: 0 after SIGTERM, 130 after SIGINT, 1 if it could not serve, 2 if the command line is
wrong. A second signal ends it at once.";
