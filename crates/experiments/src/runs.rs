//! The experiments, and running them.

mod idle;
mod sides;

use crate::Error;
use crate::lab::{Lab, Options, Stopper};
use crate::machine;
use crate::report::{Outcome, Report};

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
pub const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "idle",
    title: "one active transfer among thousands that wait",
    source: "project Hiper's measurements of December 2005, and its final report of 2006",
    run: idle::run,
}];

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
            Err(error) => outcome.failure = Some(error.to_string()),
        }
        if cfg!(debug_assertions) {
            outcome.missing.push(UNOPTIMISED.to_owned());
        }
        report.experiments.push(outcome);
    }
    Ok(report)
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
