//! `fulmar load`: arguments, a progress line, the report.

pub(crate) mod traffic;

use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use fulmar_host::{Host, Listen, Outcome, Running};
use fulmar_load::{Options, Progress, Report, Until};
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{Calls, Limits};
use fulmar_sys as sys;

use crate::output::{Failure, say};
use crate::signals::{self, INTERRUPTED};
use crate::{loops, table};
use traffic::Traffic;

/// Load a server, and say what limits it.
#[derive(Debug, Args)]
#[command(after_help = HELP, mut_arg("duration", |arg| arg.default_value("10s")))]
pub(crate) struct Arguments {
    /// What to request; without one, an embedded server on loopback
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    #[command(flatten)]
    traffic: Traffic,

    #[command(flatten)]
    loops: loops::LoopArguments,

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
    let traffic = &arguments.traffic;
    let mut options = traffic.options(&arguments.urls, Options::default().until)?;
    options.loop_options = arguments.loops.options()?;
    let embedded = match options.urls.is_empty() {
        true => Some(Embedded::start(&mut options)?),
        false => None,
    };
    options.check().map_err(|error| Failure::Usage(error.to_string()))?;
    traffic::fit(&mut options, embedded.is_some())?;
    let (sender, news) = mpsc::channel();
    // Nobody listens any more: the end is near.
    signals::watch(move |_| drop(sender.send(News::Interrupt)))
        .map_err(|error| Failure::new("cannot wait for signals", error))?;
    let running = fulmar_load::start(&options).map_err(|error| traffic::failure(&error))?;
    let mut began = running.driven().to_vec();
    began.extend(embedded.iter().flat_map(|embedded| embedded.0.driven().to_vec()));
    loops::tell(&began);
    let interrupted = watch(&running, &news, &options);
    let mut report = running.finish().map_err(|error| traffic::failure(&error))?;
    report.connections.asked = traffic.connections;
    report.without_descriptor += traffic.connections - options.connections;
    let served = embedded.map(Embedded::finish).transpose()?;
    loops::tell_loss(&began, report.driven.iter().chain(served.iter().map(|it| &it.driven)));
    print(&arguments, &report, served.as_ref())?;
    Ok(match interrupted {
        true => ExitCode::from(INTERRUPTED),
        false if report.lost || report.requests == 0 => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
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
Exit status: 0 when the load is done, whatever was answered; 1 if nothing was answered, every
connection was lost or something could not be had; 2 if the command line is wrong; 130 after SIGINT
or SIGTERM, with the report of what was done. A second signal ends it at once.";
