//! `fulmar serve`: arguments, messages, the end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_host::{Host, Listen, Outcome, Usage};
use fulmar_serve::log::{Format, Trouble};
use fulmar_serve::{App, AppOptions, Counts, Options};
use fulmar_server::Limits;
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

    /// Take the listeners over from the process that answers at PATH, and answer the next one there
    #[arg(long, value_name = "PATH")]
    hand_over: Option<PathBuf>,

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

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let limits = limits(&arguments)?;
    check(&arguments)?;
    let host = host(&arguments, limits);
    let (sender, interrupts) = mpsc::channel();
    let stopper = host.stopper();
    signals::watch(move |interrupt| {
        let _ = sender.send(interrupt); // nobody listens any more: the end is near
        stopper.stop();
    })
    .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let running = host.start().map_err(failure)?;
    let log_to_stdout = arguments.access_log.as_deref() == Some(Path::new("-"));
    let address = &running.addresses()[0];
    let greeting = format!("serving {} on http://{address}/", arguments.dir.display());
    match log_to_stdout {
        true => complain(&greeting),
        false => say(&format!("{greeting}\n"))?,
    }
    let outcomes = running.join().map_err(failure)?;
    report(&arguments, &outcomes, log_to_stdout)?;
    Ok(match interrupts.try_recv() {
        Ok(Interrupt::Interrupt) => ExitCode::from(INTERRUPTED),
        Ok(Interrupt::Terminate) | Err(_) => ExitCode::SUCCESS,
    })
}

fn failure(error: fulmar_host::Error) -> Failure {
    Failure::Message(error.to_string())
}

fn limits(arguments: &Arguments) -> Result<Limits, Failure> {
    let threads = usize::from(arguments.threads);
    let budget = descriptors::for_connections()?;
    // What is remembered of files keeps descriptors too.
    let files = threads * Options::default().entries_max;
    let fits = budget.connections.saturating_sub(files).max(budget.connections / 2);
    let budget = descriptors::Budget { connections: fits, ..budget };
    let wanted = arguments.max_connections.map_or(fits, |n| usize::try_from(n).unwrap_or(fits));
    let (connections, message) = budget.fit(wanted);
    message.iter().for_each(|message| complain(message));
    Ok(Limits {
        connections_max: connections.div_ceil(threads),
        idle_timeout: arguments.idle_timeout,
        head_timeout: arguments.head_timeout,
        body_timeout: arguments.body_timeout,
        send_timeout: arguments.send_timeout,
        drain_timeout: arguments.drain_timeout,
        ..Limits::default()
    })
}

fn host(arguments: &Arguments, limits: Limits) -> Host<App, Counts> {
    let app = AppOptions {
        root: arguments.dir.clone(),
        site: Options { hidden: arguments.hidden, list: arguments.list, ..Options::default() },
        test_endpoints: arguments.test_endpoints,
    };
    let format = match arguments.log_format {
        LogFormat::Combined => Format::Combined,
        LogFormat::Json => Format::Json,
    };
    let log = arguments.access_log.clone();
    let host = Host::new(move |_| {
        let log = match &log {
            Some(path) => Some((open_log(path)?, format)),
            None => None,
        };
        App::open(&app, log, tell_trouble)
    });
    let host = match &arguments.hand_over {
        Some(path) => host.hand_over(path),
        None => host,
    };
    host.listen(Listen::tcp(arguments.listen))
        .threads(arguments.threads.into())
        .limits(limits)
        .at_end(|app| app.finish(sys::now()))
}

/// What would stop every thread is told once, and by name.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    std::fs::read_dir(dir).map_err(|error| Failure::new(dir.display(), error))?;
    if let Some(path) = &arguments.access_log {
        open_log(path).map_err(|error| Failure::new(path.display(), error))?;
    }
    Ok(())
}

fn open_log(path: &Path) -> io::Result<OwnedFd> {
    if path == Path::new("-") {
        return io::stdout().as_fd().try_clone_to_owned();
    }
    sys::open_log(path)
}

fn tell_trouble(trouble: Trouble) {
    match trouble {
        Trouble::Failed(error) => complain(&format!(
            "cannot write the access log: {error}; serving goes on, lines that find no room are \
             lost, and writing is tried again every second"
        )),
        Trouble::Recovered { lost } => {
            complain(&format!("the access log can be written again; {lost} lines were lost"));
        }
    }
}

fn report(
    arguments: &Arguments,
    outcomes: &[Outcome<Counts>],
    to_stderr: bool,
) -> Result<(), Failure> {
    let counts: Counts = outcomes.iter().map(|outcome| outcome.report).sum();
    let usage: Usage = outcomes.iter().map(|outcome| outcome.usage).sum();
    if counts.lost_log_lines > 0 {
        complain(&format!("{} lines of the access log were lost", counts.lost_log_lines));
    }
    if usage.accept_failures > 0 {
        let times = usage.accept_failures;
        complain(&format!("descriptors or memory ran out {times} times; clients waited"));
    }
    if !arguments.ledger {
        return Ok(());
    }
    let stats = usage.stats;
    let text = format!(
        "{} requests on {} connections; driver epoll, {} turns, {} events\n{}",
        counts.requests,
        stats.accepted,
        stats.turns,
        stats.events,
        table::of(&usage.ledger, counts.requests, "per request")
    );
    if to_stderr {
        complain(&text);
        return Ok(());
    }
    say(&text)
}

const HELP: &str = "\
Exit status: 0 after SIGTERM or a hand-over, 130 after SIGINT, 1 if it could not serve, 2 if the command line is
wrong. A second signal ends it at once.";
