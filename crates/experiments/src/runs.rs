//! The experiments, and running them.

mod forward;
mod hyper;
mod idle;
mod libcurl;
mod responses;
mod sides;
mod urls;

use crate::Error;
use crate::lab::{Call, Count, Counted, Lab, Options, Stopper};
use crate::machine;
use crate::report::{Outcome, Report, Table};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// On the command line.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// The document whose table it makes again.
    pub source: &'static str,
    run: fn(&Lab, &mut Outcome) -> Result<(), Error>,
}

/// All of them, in the order of `all`.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "idle",
        title: "one active transfer among thousands that wait",
        source: "project Hiper's measurements of December 2005, and its final report of 2006",
        run: idle::run,
    },
    Experiment {
        name: "urls",
        title: "many URLs at once, by how many are alive",
        source: "project Hiper's measurements of 6 December 2005",
        run: urls::run,
    },
    Experiment {
        name: "hyper",
        title: "clients that fetch 104 KB, again and again",
        source: "Robert Iakobashvili's measurements of curl-loader of 10 April 2007",
        run: hyper::run,
    },
    Experiment {
        name: "responses",
        title: "four kinds of responses, call by call",
        source: "GNU libmicrohttpd's report of its Summer of Code of 22 August 2019",
        run: responses::run,
    },
    Experiment {
        name: "forward",
        title: "10,000 forwarded connections",
        source: "Willy Tarreau's change to HAProxy's poller of 15 November 2013",
        run: forward::run,
    },
];

/// Runs those named, or all if `all` is; `say` hears what is being done. One that fails leaves what it
/// has measured, and says so; a run that is stopped ends with those that were complete.
///
/// # Errors
/// A name is unknown, or there is no place to run in.
pub fn run(
    names: &[String],
    options: Options,
    stopper: &Stopper,
    say: fn(&str),
) -> Result<Report, Error> {
    let chosen = choose(names)?;
    let lab = Lab::new(options, stopper.clone(), say)?;
    let mut report =
        Report { version: 1, machine: machine::describe(&lab.cores), experiments: Vec::new() };
    for experiment in chosen {
        let mut outcome = Outcome {
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            source: experiment.source.to_owned(),
            ..Outcome::default()
        };
        match (experiment.run)(&lab, &mut outcome) {
            Ok(()) => {}
            Err(Error::Stopped) => break,
            Err(error) => {
                outcome.tables.retain(Table::has_measured);
                outcome.failure = Some(error.to_string());
            }
        }
        if cfg!(debug_assertions) {
            outcome.missing.push(UNOPTIMISED.to_owned());
        }
        report.experiments.push(outcome);
    }
    Ok(report)
}

/// Calls, multiplied: shares of a response, or as many as a document has.
fn scaled(counted: Counted, by: f64) -> Counted {
    let each = counted.into_iter();
    each.map(|(name, it)| (name, Call { calls: it.calls * by, eagain: it.eagain * by })).collect()
}

/// Counted calls, multiplied; what is to be known of how they were counted goes to `outcome`.
fn counted(found: Result<Count, String>, by: f64, outcome: &mut Outcome) -> Option<Counted> {
    match found {
        Ok(Count { calls, traced }) => {
            if let Some(why) = traced {
                outcome.miss(format!("calls without slowing anybody: all were traced, as {why}"));
            }
            Some(scaled(calls, by))
        }
        Err(why) => {
            outcome.miss(format!("system calls: {why}"));
            None
        }
    }
}

fn choose(names: &[String]) -> Result<Vec<Experiment>, Error> {
    if names.iter().any(|name| name == "all") {
        return Ok(EXPERIMENTS.to_vec());
    }
    let found = |name: &String| {
        let found = EXPERIMENTS.iter().find(|experiment| experiment.name == name);
        found.copied().ok_or_else(|| Error::Unknown { name: name.clone() })
    };
    names.iter().map(found).collect()
}

const UNOPTIMISED: &str = "fulmar's times: this binary was built without optimisation (cargo build \
                           --release), so they say nothing";
