//! The command line of `fulmar audit`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_audit::report::Per;
use fulmar_audit::{BackendChoice, CounterOptions};
use fulmar_host::LoopOptions;
use fulmar_load::{Options, RunUntil};

use crate::files::{InputFile, OutputFile};
use crate::load::traffic::TrafficArguments;
use crate::output::ToolFailure;
use crate::{durations, numbers};

/// Count the system calls of any program.
#[derive(Debug, Args)]
#[command(
    after_help = HELP,
    override_usage = "fulmar audit [OPTIONS] -- COMMAND...\n       \
                      fulmar audit [OPTIONS] --compare -- COMMAND... -- OTHER...\n       \
                      fulmar audit [OPTIONS] --pid PID",
    mut_group("TrafficArguments", |group| group.requires("load")),
    mut_arg("duration", |arg| arg.help("Duration of the load, instead of 10,000 requests")),
)]
pub(crate) struct AuditArguments {
    /// The command to start, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Attach to a running process, with its threads and children
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "compare_load"],
          value_parser = numbers::within(1..=u32::MAX))]
    pid: Option<u32>,

    /// Request this URL as soon as the program listens there; repeatable. The options below `Load`
    /// configure the load, as in `fulmar load`
    #[arg(long, value_name = "URL")]
    load: Vec<String>,

    /// Number of requests before counting starts
    #[arg(long, value_name = "N", default_value_t = WARM_UP, requires = "load",
          value_parser = numbers::parse::<u64>)]
    warm_up: u64,

    /// Timeout for the program to start listening
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = durations::parse)]
    start_timeout: Duration,

    /// Timeout for the program to exit after SIGTERM; then it is killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = durations::parse)]
    stop_timeout: Duration,

    /// Without a load: count for this time, instead of until the program exits
    #[arg(long = "for", value_name = "TIME", value_parser = durations::parse,
          conflicts_with = "load")]
    at_most: Option<Duration>,

    /// Divide the counts by accepted connections (`accept`), opened connections (`connect`),
    /// requests of the load (`request`, the default with --load), or a number
    #[arg(long, value_name = "UNIT")]
    per: Option<Per>,

    /// Compare the counts with FILE, written by --record (`-`: standard input). Without FILE:
    /// compare with a second command, which follows another `--`
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(super) compare: Option<Option<InputFile>>,

    /// URL for the second command, if it differs from --load; repeatable
    #[arg(long, value_name = "URL", requires = "load")]
    compare_load: Vec<String>,

    /// Write the counts to FILE as text for a later --compare; `-`: standard output, and the table
    /// goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<OutputFile>,

    /// Exit with status 1 if the counts exceed the budget in FILE (TOML, per unit:
    /// `recvfrom = 1.1`); `-`: standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) budget: Option<InputFile>,

    /// Backend that counts
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = CounterChoice::Best)]
    counter: CounterChoice,

    /// Also count clock reads through the vDSO, with a preloaded library; needs a C compiler (`cc`)
    #[arg(long, conflicts_with = "pid")]
    clock: bool,

    /// Group calls by the phase of their connection: accept, connect, TLS, head, body, close
    #[arg(long)]
    phases: bool,

    /// Add the time in system calls and between them, in microseconds per unit
    #[arg(long)]
    times: bool,

    /// List calls in order: with a load, those of N further requests on one connection
    /// (default: 1); without one, the first N calls (default: 100)
    #[arg(
        long, value_name = "N", num_args = 0..=1, require_equals = true, conflicts_with = "compare",
        value_parser = numbers::within(1..=u64::MAX)
    )]
    timeline: Option<Option<u64>>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten, next_help_heading = "Load")]
    traffic: TrafficArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CounterChoice {
    /// eBPF if permitted, otherwise ptrace
    Best,
    /// eBPF, or fail
    Ebpf,
    /// ptrace: slower, needs no privileges
    Ptrace,
}

/// The checked options of a run.
#[derive(Debug)]
pub(crate) struct AuditPlan {
    pub(crate) this: AuditSubject,
    pub(crate) other: Option<AuditSubject>,
    /// A record to compare with.
    pub(crate) stored: Option<InputFile>,
    /// Whether to count clock reads too.
    pub(crate) clock: bool,
    pub(crate) per: Option<Per>,
    pub(crate) warm_up: u64,
    pub(crate) start_timeout: Duration,
    pub(crate) stop_timeout: Duration,
    pub(crate) at_most: Option<Duration>,
    pub(crate) scope: CounterOptions,
    /// The length of the timeline: requests with a load, calls without. 0 if there is none.
    pub(crate) timeline: u64,
}

/// A program and its load.
#[derive(Debug)]
pub(crate) struct AuditSubject {
    pub(crate) program: AuditedProgram,
    pub(crate) load: Option<Options>,
}

/// A program.
#[derive(Debug)]
pub(crate) enum AuditedProgram {
    /// A command to start, of at least one word.
    Command(Vec<OsString>),
    /// A running process.
    Process(u32),
}

impl AuditArguments {
    /// Checks the options and their combinations.
    pub(crate) fn plan(&self) -> Result<AuditPlan, ToolFailure> {
        let (this, other) = self.commands()?;
        let this = self.pid.map_or(AuditedProgram::Command(this), AuditedProgram::Process);
        let per = match (self.per, self.load.is_empty()) {
            (Some(Per::Request), true) => {
                let why = "--per request needs --load; use `accept` or a number";
                return Err(ToolFailure::Usage(why.into()));
            }
            (Some(per), _) => Some(per),
            (None, false) => Some(Per::Request),
            (None, true) => None,
        };
        let elsewhere = if self.compare_load.is_empty() { &self.load } else { &self.compare_load };
        Ok(AuditPlan {
            this: AuditSubject { program: this, load: self.load(&self.load)? },
            other: match other {
                Some(other) => Some(AuditSubject {
                    program: AuditedProgram::Command(other),
                    load: self.load(elsewhere)?,
                }),
                None => None,
            },
            stored: self.compare.clone().flatten(),
            clock: self.clock,
            per,
            warm_up: self.warm_up,
            start_timeout: self.start_timeout,
            stop_timeout: self.stop_timeout,
            at_most: self.at_most,
            scope: self.scope(),
            timeline: self.timeline.map_or(0, |length| {
                length.unwrap_or(if self.load.is_empty() { TIMELINE_CALLS } else { 1 })
            }),
        })
    }

    fn scope(&self) -> CounterOptions {
        let method = match self.counter {
            CounterChoice::Best => BackendChoice::Best,
            CounterChoice::Ebpf => BackendChoice::Kernel,
            CounterChoice::Ptrace => BackendChoice::Trace,
        };
        let (phases, times, timeline) = (self.phases, self.times, self.timeline.is_some());
        CounterOptions { method, phases, times, timeline }
    }

    /// The command, and the second one after another `--`, if any.
    fn commands(&self) -> Result<(Vec<OsString>, Option<Vec<OsString>>), ToolFailure> {
        let usage = |why: &str| Err(ToolFailure::Usage(why.to_owned()));
        let compares = matches!(self.compare, Some(None));
        let mut words = self.command.splitn(2, |word| compares && word == "--");
        let this = words.next().unwrap_or_default().to_vec();
        let other = words.next().map(<[OsString]>::to_vec);
        match &other {
            _ if this.is_empty() && self.pid.is_none() => {
                usage("missing command: `fulmar audit [OPTIONS] -- COMMAND...`, or --pid PID")
            }
            None if compares => usage(
                "--compare needs a FILE or a second command: \
                 `--compare -- COMMAND... -- OTHER...`",
            ),
            Some(other) if other.is_empty() => usage("--compare: no command follows the second --"),
            other if has_no_name(&this) || other.as_ref().is_some_and(|it| has_no_name(it)) => {
                usage("the name of the command is empty")
            }
            None if !self.compare_load.is_empty() => usage("--compare-load needs a second command"),
            _ => Ok((this, other)),
        }
    }

    fn load(&self, urls: &[String]) -> Result<Option<Options>, ToolFailure> {
        if urls.is_empty() {
            return Ok(None);
        }
        let mut options = self.traffic.options(urls, RunUntil::Requests(REQUESTS))?;
        options.loop_options = LoopOptions::from_environment().map_err(ToolFailure::Message)?;
        options.check().map_err(|error| ToolFailure::Usage(error.to_string()))?;
        Ok(Some(options))
    }
}

/// For example an unset variable in a shell.
fn has_no_name(command: &[OsString]) -> bool {
    command.first().is_some_and(|program| program.is_empty())
}

/// The tables of the reference measurements are per 10,000 requests.
const REQUESTS: u64 = 10_000;
/// Enough for one-time initialization to finish.
const WARM_UP: u64 = 1_000;
/// A few screens.
const TIMELINE_CALLS: u64 = 100;
const HELP: &str = "\
Exit status: 0 on success; 1 if the budget is exceeded; 2 if the command line or an input that it
names is invalid; 3 if counting failed; 130 after SIGINT or SIGTERM, with the counts so far.";
