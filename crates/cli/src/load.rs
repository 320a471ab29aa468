//! `fulmar load`: arguments, a progress line, the report.

pub(crate) mod traffic;

use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use fulmar_host::{Host, Listen, Outcome, Running};
use fulmar_load::{LoadProgress, Options, RunReport, RunUntil};
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{HandlerApp, Limits};
use fulmar_sys as sys;

use crate::output::{ToolFailure, print_stdout};
use crate::signals::{self, INTERRUPTED};
use crate::{ledger_table, loops};
use traffic::TrafficArguments;

/// Generate HTTP load and report what limits it.
#[derive(Debug, Args)]
#[command(after_help = HELP, mut_arg("duration", |arg| arg.default_value("10s")))]
pub(crate) struct LoadArguments {
    /// URLs to request [default: an embedded server on loopback]
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    #[command(flatten)]
    traffic: TrafficArguments,

    #[command(flatten)]
    loops: loops::LoopArguments,

    /// Print system calls per request and statistics of the event loop
    #[arg(long)]
    ledger: bool,

    /// Print one JSON object instead of the report
    #[arg(long)]
    json: bool,
}

/// Messages to the main thread.
enum LoadMessage {
    Interrupt,
}

pub(crate) fn run(arguments: LoadArguments) -> Result<ExitCode, ToolFailure> {
    let traffic = &arguments.traffic;
    let mut options = traffic.options(&arguments.urls, Options::default().until)?;
    options.loop_options = arguments.loops.options()?;
    let embedded = match options.urls.is_empty() {
        true => Some(EmbeddedServer::start(&mut options)?),
        false => None,
    };
    options.check().map_err(|error| ToolFailure::Usage(error.to_string()))?;
    traffic::fit(&mut options, embedded.is_some())?;
    let (sender, news) = mpsc::channel();
    // Sending fails only while the process exits.
    signals::watch(move |_| drop(sender.send(LoadMessage::Interrupt)))
        .map_err(|error| ToolFailure::new("cannot install signal handlers", error))?;
    let running = fulmar_load::start(&options).map_err(|error| traffic::failure(&error))?;
    let mut began = running.drivers().to_vec();
    began.extend(embedded.iter().flat_map(|embedded| embedded.0.drivers().to_vec()));
    loops::warn_without_ring(&began);
    let interrupted = watch(&running, &news, &options);
    let mut report = running.finish().map_err(|error| traffic::failure(&error))?;
    report.connections.requested = traffic.connections;
    report.without_descriptor += traffic.connections - options.connections;
    let served = embedded.map(EmbeddedServer::finish).transpose()?;
    loops::warn_ring_lost(&began, report.drivers.iter().chain(served.iter().map(|it| &it.driver)));
    print(&arguments, &report, served.as_ref())?;
    Ok(match interrupted {
        true => ExitCode::from(INTERRUPTED),
        false if report.lost || report.requests == 0 => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Shows progress on a terminal until the run has ended. True if it was interrupted.
fn watch(
    running: &fulmar_load::LoadRun,
    news: &mpsc::Receiver<LoadMessage>,
    options: &Options,
) -> bool {
    let drawing = io::stderr().is_terminal();
    let mut before = LoadProgress::default();
    let mut interrupted = false;
    while !running.is_finished() {
        match news.recv_timeout(TICK) {
            Ok(LoadMessage::Interrupt) => {
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
        let _ = write!(io::stderr(), "\r\x1b[K"); // not important
    }
    interrupted
}

fn draw(before: &LoadProgress, now: &LoadProgress, options: &Options) {
    let (requests, time) = (now.requests - before.requests, now.elapsed - before.elapsed);
    let per_second = u128::from(requests) * 1_000_000 / time.as_micros().max(1);
    let until = match options.until {
        RunUntil::Elapsed(end) => format!("{:.0} s", end.as_secs_f64()),
        RunUntil::Requests(n) => format!("{n} requests"),
    };
    let _ = write!(
        io::stderr(),
        "\r\x1b[K{:.0} s of {until}: {} requests, {per_second} per second, {} connections, \
         {} errors",
        now.elapsed.as_secs_f64(),
        now.requests,
        now.connections,
        now.errors,
    ); // not important
}

fn print(
    arguments: &LoadArguments,
    report: &RunReport,
    served: Option<&Outcome<u64>>,
) -> Result<(), ToolFailure> {
    if arguments.json {
        return print_stdout(&(report.json() + "\n"));
    }
    print_stdout(&report.text())?;
    if arguments.ledger {
        print_stdout(&format!("\nsystem calls of the load\n{}", report.ledger_text()))?;
        if let Some(outcome) = served {
            let (stats, requests) = (outcome.usage.stats, outcome.report);
            print_stdout(&format!(
                "\nsystem calls of the embedded server\n{}\n  driven by       {}: {} turns, \
                 {:.1} events per turn\n",
                ledger_table::of(&outcome.usage.ledger, requests, "per request"),
                outcome.driver,
                stats.turns,
                ledger_table::ratio(stats.events, stats.turns),
            ))?;
        }
    }
    Ok(())
}

/// A server in this process, for a first try without another machine.
struct EmbeddedServer(Running<u64>);

impl EmbeddedServer {
    fn start(options: &mut Options) -> Result<Self, ToolFailure> {
        let (ours, its) = share_cpus();
        let host = Host::new(move |_| {
            its.as_deref().map_or(Ok(()), sys::run_on_cpus)?;
            Ok(HandlerApp::new(Endpoints::new(), sys::now(), sys::wall_clock))
        });
        let running = host
            .listen(Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()))
            .limits(Limits { drain_timeout: Duration::from_secs(1), ..Limits::default() })
            .loop_options(options.loop_options)
            .at_end(|calls| calls.requests())
            .start()
            .map_err(|error| ToolFailure::new("cannot start the embedded server", error))?;
        if let Some(cpus) = ours {
            sys::run_on_cpus(&cpus).map_err(|error| ToolFailure::new("processors", error))?;
        }
        options.urls.push(format!("http://{}/bytes/128", running.addresses()[0]));
        Ok(Self(running))
    }

    fn finish(self) -> Result<Outcome<u64>, ToolFailure> {
        self.0.stop();
        let outcomes =
            self.0.join().map_err(|error| ToolFailure::new("the embedded server", error))?;
        Ok(outcomes.into_iter().next().expect("it has one thread"))
    }
}

/// The processors for the load, and one for the embedded server. With several processors, neither
/// competes with the other.
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
Exit status: 0 if the load is complete, with any response status; 1 if no request got a response,
every connection was lost, or another error occurred; 2 if the command line or an input that it
names is invalid; 130 after SIGINT or SIGTERM, with the report so far. A second signal exits at
once.";
