//! The command line of `fulmar audit`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_audit::report::Per;
use fulmar_audit::{Method, Scope};
use fulmar_host::LoopOptions;
use fulmar_load::{Options, Until};

use crate::files::{InputFile, OutputFile};
use crate::load::traffic::Traffic;
use crate::output::Failure;
use crate::{durations, numbers};

/// Count the system calls of any program.
#[derive(Debug, Args)]
#[command(
    after_help = HELP,
    override_usage = "fulmar audit [OPTIONS] -- COMMAND...\n       \
                      fulmar audit [OPTIONS] --compare -- COMMAND... -- OTHER...\n       \
                      fulmar audit [OPTIONS] --pid PID",
    mut_group("Traffic", |group| group.requires("load")),
    mut_arg("duration", |arg| arg.help("How long the load lasts, instead of 10,000 requests")),
)]
pub(crate) struct Arguments {
    /// The program, and what follows it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// A process that runs already, with its threads and children
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "compare_load"],
          value_parser = numbers::within(1..=u32::MAX))]
    pid: Option<u32>,

    /// Request this URL as soon as the program listens there; may be given several times. The
    /// options below `Load` shape the load, as those of `fulmar load` do
    #[arg(long, value_name = "URL")]
    load: Vec<String>,

    /// So many requests before counting begins
    #[arg(long, value_name = "N", default_value_t = WARM_UP, requires = "load",
          value_parser = numbers::parse::<u64>)]
    warm_up: u64,

    /// How long the program may take until it listens
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = durations::parse)]
    start_timeout: Duration,

    /// How long the program may take to end, from SIGTERM on; then it is killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = durations::parse)]
    stop_timeout: Duration,

    /// Without a load: count for so long, instead of until the program ends
    #[arg(long = "for", value_name = "TIME", value_parser = durations::parse, conflicts_with = "load")]
    at_most: Option<Duration>,

    /// Divide by connections that were accepted (`accept`), or begun (`connect`), by requests
    /// that were answered (`request`, as with a load), or by a number
    #[arg(long, value_name = "UNIT")]
    per: Option<Per>,

    /// Compare the counts with those in FILE, which --record wrote (`-`: standard input); without
    /// FILE, with those of a second program, which follows another `--`
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(super) compare: Option<Option<InputFile>>,

    /// What is requested of the second program, if it is something else; may be given several times
    #[arg(long, value_name = "URL", requires = "load")]
    compare_load: Vec<String>,

    /// Write the counts to FILE, as text that can be kept; `-` is standard output, and the table
    /// goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<OutputFile>,

    /// Exit with 1 if the counts exceed those in FILE (TOML): `recvfrom = 1.1`, for each unit; `-`
    /// is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) budget: Option<InputFile>,

    /// Who counts
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Counter::Best)]
    counter: Counter,

    /// Count clock reads too, which are no system calls: by a library that the command loads,
    /// which the machine's C compiler makes
    #[arg(long, conflicts_with = "pid")]
    clock: bool,

    /// Tell calls apart by what the program was doing for a connection: accept, connect, TLS, head,
    /// body, close
    #[arg(long)]
    phases: bool,

    /// Show calls one after the other: with a load, those of N requests more on one connection
    /// (1), without one the first N (100)
    #[arg(
        long, value_name = "N", num_args = 0..=1, require_equals = true, conflicts_with = "compare",
        value_parser = numbers::within(1..=u64::MAX)
    )]
    timeline: Option<Option<u64>>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten, next_help_heading = "Load")]
    traffic: Traffic,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Counter {
    /// the kernel, or tracing if it will not
    Best,
    /// the kernel or nobody
    Ebpf,
    /// tracing, even if the kernel would
    Ptrace,
}

/// What is asked for, made ready.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) this: Subject,
    pub(crate) other: Option<Subject>,
    /// A record to compare with.
    pub(crate) kept: Option<InputFile>,
    /// Clock reads are counted too.
    pub(crate) clock: bool,
    pub(crate) per: Option<Per>,
    pub(crate) warm_up: u64,
    pub(crate) start_timeout: Duration,
    pub(crate) stop_timeout: Duration,
    pub(crate) at_most: Option<Duration>,
    pub(crate) scope: Scope,
    /// How long the timeline is: requests with a load, calls without. 0 if there is none.
    pub(crate) timeline: u64,
}

/// A program, and what it is to be put through.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) who: Who,
    pub(crate) load: Option<Options>,
}

/// A program.
#[derive(Debug)]
pub(crate) enum Who {
    /// To be started: at least one word.
    Command(Vec<OsString>),
    /// It runs.
    Process(u32),
}

impl Arguments {
    /// What is asked for.
    pub(crate) fn asked(&self) -> Result<Asked, Failure> {
        let (this, other) = self.commands()?;
        let this = self.pid.map_or(Who::Command(this), Who::Process);
        let per = match (self.per, self.load.is_empty()) {
            (Some(Per::Request), true) => {
                let why = "--per request: requests are counted by --load; use `accept` or a number";
                return Err(Failure::Usage(why.into()));
            }
            (Some(per), _) => Some(per),
            (None, false) => Some(Per::Request),
            (None, true) => None,
        };
        let elsewhere = if self.compare_load.is_empty() { &self.load } else { &self.compare_load };
        Ok(Asked {
            this: Subject { who: this, load: self.load(&self.load)? },
            other: match other {
                Some(other) => {
                    Some(Subject { who: Who::Command(other), load: self.load(elsewhere)? })
                }
                None => None,
            },
            kept: self.compare.clone().flatten(),
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

    fn scope(&self) -> Scope {
        let method = match self.counter {
            Counter::Best => Method::Best,
            Counter::Ebpf => Method::Kernel,
            Counter::Ptrace => Method::Trace,
        };
        Scope { method, phases: self.phases, timeline: self.timeline.is_some() }
    }

    /// The command, and a second one behind another `--` if it was asked for.
    fn commands(&self) -> Result<(Vec<OsString>, Option<Vec<OsString>>), Failure> {
        let usage = |why: &str| Err(Failure::Usage(why.to_owned()));
        let compares = matches!(self.compare, Some(None));
        let mut words = self.command.splitn(2, |word| compares && word == "--");
        let this = words.next().unwrap_or_default().to_vec();
        let other = words.next().map(<[OsString]>::to_vec);
        match &other {
            _ if this.is_empty() && self.pid.is_none() => {
                usage("what is to be counted? `fulmar audit [OPTIONS] -- COMMAND...`, or --pid PID")
            }
            None if compares => usage(
                "--compare: with what? A FILE, or a second command: \
                 `--compare -- COMMAND... -- OTHER...`",
            ),
            Some(other) if other.is_empty() => usage("--compare: no command follows the second --"),
            other if has_no_name(&this) || other.as_ref().is_some_and(|it| has_no_name(it)) => {
                usage("a command has a name, and this one is empty")
            }
            None if !self.compare_load.is_empty() => {
                usage("--compare-load is for a second command, and there is none")
            }
            _ => Ok((this, other)),
        }
    }

    fn load(&self, urls: &[String]) -> Result<Option<Options>, Failure> {
        if urls.is_empty() {
            return Ok(None);
        }
        let mut options = self.traffic.options(urls, Until::Requests(REQUESTS))?;
        options.loop_options = LoopOptions::from_environment().map_err(Failure::Message)?;
        options.check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Some(options))
    }
}

/// As what a shell makes of a variable that is not set.
fn has_no_name(command: &[OsString]) -> bool {
    command.first().is_some_and(|program| program.is_empty())
}

/// As many as the tables that this is measured by, which are of 10,000.
const REQUESTS: u64 = 10_000;
/// Enough that what is done once has been done.
const WARM_UP: u64 = 1_000;
/// What fits a few screens.
const TIMELINE_CALLS: u64 = 100;
const HELP: &str = "\
Exit status: 0 when it was counted, and the budget holds; 1 if the budget is exceeded; 2 if the
command line, a budget or a record is wrong; 3 if it could not be counted; 130 after SIGINT or
SIGTERM, with what was counted until then.";
