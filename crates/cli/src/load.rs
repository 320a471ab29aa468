//! `fulmar load`: arguments, a progress line, the report.

use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use fulmar_host::{Host, Listen, Outcome, Running};
use fulmar_load::tls::{ClientOptions, Identity, Roots, Verify};
use fulmar_load::{Options, Progress, Report, Sources, Until};
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{Calls, Limits};
use fulmar_sys as sys;

use crate::output::{Failure, complain, say};
use crate::signals::{self, INTERRUPTED};
use crate::{descriptors, durations, fields, loops, table};

/// Load a server, and say what limits it.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// What to request; without one, an embedded server on loopback
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// Connections in all
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: u32,

    /// How long: 10, 500ms, 2m
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = durations::parse)]
    duration: Duration,

    /// How many requests, instead of how long
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,

    /// Threads, which share the connections
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: u32,

    #[command(flatten)]
    loops: loops::LoopArguments,

    /// Requests per second in all, at planned times: an open loop, whose latency counts from the
    /// planned time
    #[arg(short = 'R', long, value_name = "N")]
    rate: Option<u64>,

    /// Requests outstanding on one connection
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pipelining: u32,

    /// The method
    #[arg(short, long, value_name = "METHOD", default_value = "GET")]
    method: String,

    /// A header field, `Name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = fields::parse)]
    headers: Vec<(String, String)>,

    /// The body of every request; `@FILE` reads it from a file
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,

    /// A new connection for every request
    #[arg(long)]
    reconnect: bool,

    /// Source addresses: 127.0.0.2-127.0.0.9, 10.1.0.0/24, or several with commas. Each has its
    /// own 28,000 ports towards a server
    #[arg(long, value_name = "ADDR-RANGE")]
    bind: Option<Sources>,

    /// Do not check the server's certificate
    #[arg(short = 'k', long)]
    insecure: bool,

    /// Trust the authorities in FILE (PEM), and nobody else
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,

    /// The name asked for in TLS, and looked for in the certificate, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,

    /// A client certificate (PEM), for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Connect to this Unix socket, whatever the URL's host
    #[arg(long, value_name = "PATH", conflicts_with = "bind")]
    unix_socket: Option<PathBuf>,

    /// For a connection to stand, a handshake to be complete, and for an answer to be complete
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    timeout: Duration,

    /// Print the system calls per request, and what drove the loop
    #[arg(long)]
    ledger: bool,

    /// Print one JSON object instead of the report
    #[arg(long)]
    json: bool,
}

/// What the main thread hears of.
enum News {
    Interrupt,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let mut options = options(&arguments)?;
    let embedded = match options.urls.is_empty() {
        true => Some(Embedded::start(&mut options)?),
        false => None,
    };
    options.check().map_err(|error| Failure::Usage(error.to_string()))?;
    fit(&mut options, embedded.is_some())?;
    let (sender, news) = mpsc::channel();
    // Nobody listens any more: the end is near.
    signals::watch(move |_| drop(sender.send(News::Interrupt)))
        .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let running = fulmar_load::start(&options).map_err(|e| Failure::Message(e.to_string()))?;
    loops::tell(running.driven());
    let interrupted = watch(&running, &news, &options);
    let mut report = running.finish().map_err(|e| Failure::Message(e.to_string()))?;
    report.connections.asked = arguments.connections;
    report.without_descriptor += arguments.connections - options.connections;
    let served = embedded.map(Embedded::finish).transpose()?;
    print(&arguments, &report, served.as_ref())?;
    Ok(match interrupted {
        true => ExitCode::from(INTERRUPTED),
        false if report.lost || report.requests == 0 => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    let body = match arguments.body.as_deref().map(|text| (text, text.strip_prefix('@'))) {
        None => Vec::new(),
        Some((_, Some(path))) => std::fs::read(path).map_err(|error| Failure::new(path, error))?,
        Some((text, None)) => text.as_bytes().to_vec(),
    };
    Ok(Options {
        urls: arguments.urls.clone(),
        connections: arguments.connections,
        until: arguments.requests.map_or(Until::Elapsed(arguments.duration), Until::Requests),
        threads: arguments.threads,
        loop_options: arguments.loops.options()?,
        rate: arguments.rate,
        depth: arguments.pipelining,
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body,
        reconnect: arguments.reconnect,
        bind: arguments.bind.clone().unwrap_or_default(),
        tls: tls(arguments),
        unix_socket: arguments.unix_socket.clone(),
        timeout: arguments.timeout,
    })
}

fn tls(arguments: &Arguments) -> ClientOptions {
    let identity = arguments.cert.clone().zip(arguments.key.clone());
    ClientOptions {
        roots: arguments.cacert.clone().map_or(Roots::Platform, |file| Roots::Files(vec![file])),
        verify: if arguments.insecure { Verify::Nothing } else { Verify::Full },
        server_name: arguments.sni.clone(),
        identity: identity.map(|(cert, key)| Identity::files(cert, key)),
        ..Options::default().tls
    }
}

/// As many connections as there are descriptors; an embedded server needs one for each too.
fn fit(options: &mut Options, embedded: bool) -> Result<(), Failure> {
    let mut budget = descriptors::for_connections()?;
    if embedded {
        budget.connections /= 2;
    }
    let wanted = usize::try_from(options.connections).unwrap_or(usize::MAX);
    if budget.connections == 0 {
        let limit = budget.limit;
        let message = format!(
            "{wanted} connections do not fit, nor does a single one: this process may open {limit} \
             descriptors (ulimit -Hn)"
        );
        return Err(Failure::Message(message));
    }
    let (fits, message) = budget.fit(wanted);
    message.iter().for_each(|message| complain(message));
    options.connections = u32::try_from(fits).unwrap_or(u32::MAX);
    Ok(())
}

/// Until it has ended; draws a line meanwhile if somebody sees it. True if it was interrupted.
fn watch(running: &fulmar_load::Running, news: &mpsc::Receiver<News>, options: &Options) -> bool {
    let drawing = io::stderr().is_terminal();
    let mut before = Progress::default();
    let mut interrupted = false;
    while !running.is_finished() {
        match news.recv_timeout(TICK) {
            Ok(News::Interrupt) => {
                interrupted = true;
                running.stopper().stop();
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let progress = running.progress();
        if drawing && progress.elapsed.saturating_sub(before.elapsed) >= REDRAW {
            draw(&before, &progress, options);
            before = progress;
        }
    }
    if drawing {
        let _ = write!(io::stderr(), "\r\x1b[K"); // a line that cannot be cleared harms nobody
    }
    interrupted
}

fn draw(before: &Progress, now: &Progress, options: &Options) {
    let (requests, time) = (now.requests - before.requests, now.elapsed - before.elapsed);
    let per_second = u128::from(requests) * 1_000_000 / time.as_micros().max(1);
    let until = match options.until {
        Until::Elapsed(end) => format!("{:.0} s", end.as_secs_f64()),
        Until::Requests(n) => format!("{n} requests"),
    };
    let _ = write!(
        io::stderr(),
        "\r\x1b[K{:.0} s of {until}: {} requests, {per_second} per second, {} connections, {} errors",
        now.elapsed.as_secs_f64(),
        now.requests,
        now.connections,
        now.errors,
    ); // progress that cannot be shown harms nobody
}

fn print(
    arguments: &Arguments,
    report: &Report,
    served: Option<&Outcome<u64>>,
) -> Result<(), Failure> {
    if arguments.json {
        return say(&(report.json() + "\n"));
    }
    say(&report.text())?;
    if arguments.ledger {
        say(&format!("\nsystem calls of the load\n{}", report.ledger_text()))?;
        if let Some(outcome) = served {
            let (stats, requests) = (outcome.usage.stats, outcome.report);
            say(&format!(
                "\nsystem calls of the embedded server\n{}\n  driven by       {}: {} turns, \
                 {:.1} events per turn\n",
                table::of(&outcome.usage.ledger, requests, "per request"),
                outcome.driven,
                stats.turns,
                table::ratio(stats.events, stats.turns),
            ))?;
        }
    }
    Ok(())
}

/// A server in this process, for a first look without another machine.
struct Embedded(Running<u64>);

impl Embedded {
    fn start(options: &mut Options) -> Result<Self, Failure> {
        let (ours, its) = share_cpus();
        let host = Host::new(move |_| {
            its.as_deref().map_or(Ok(()), sys::run_on_cpus)?;
            Ok(Calls::new(Endpoints::new(), sys::now(), sys::wall_clock))
        });
        let running = host
            .listen(Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()))
            .limits(Limits { drain_timeout: Duration::from_secs(1), ..Limits::default() })
            .loop_options(options.loop_options)
            .at_end(|calls| calls.requests())
            .start()
            .map_err(|error| Failure::new("cannot start the embedded server", error))?;
        if let Some(cpus) = ours {
            sys::run_on_cpus(&cpus).map_err(|error| Failure::new("processors", error))?;
        }
        options.urls.push(format!("http://{}/bytes/128", running.addresses()[0]));
        Ok(Self(running))
    }

    fn finish(self) -> Result<Outcome<u64>, Failure> {
        self.0.stop();
        let outcomes = self.0.join().map_err(|error| Failure::new("the embedded server", error))?;
        Ok(outcomes.into_iter().next().expect("it has one thread"))
    }
}

/// Processors for the load, which its threads inherit, and one for the embedded server: where
/// there are several, neither waits for the other's.
fn share_cpus() -> (Option<Vec<usize>>, Option<Vec<usize>>) {
    match sys::allowed_cpus() {
        Ok(mut cpus) if cpus.len() > 1 => {
            let last = cpus.pop();
            (Some(cpus), last.map(|cpu| vec![cpu]))
        }
        _ => (None, None),
    }
}

const TICK: Duration = Duration::from_millis(50);
const REDRAW: Duration = Duration::from_millis(500);
const HELP: &str = "\
Exit status: 0 when the load is done, whatever was answered; 1 if nothing was answered or every
connection was lost; 2 if the command line is wrong; 130 after SIGINT or SIGTERM, with the report
of what was done. A second signal ends it at once.";
