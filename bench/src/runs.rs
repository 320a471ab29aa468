//! The experiments, and running them.

mod forward;
mod hyper;
mod idle;
mod libcurl;
mod responses;
mod sides;
mod urls;

use std::path::Path;

use crate::Error;
use crate::lab::{Count, Counted, Lab, Options, Stopper};
use crate::machine;
use crate::report::{Outcome, Report, Table, VERSION};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experiment {
    /// On the command line.
    pub(crate) name: &'static str,
    /// One line.
    pub(crate) title: &'static str,
    /// The document whose table it makes again.
    pub(crate) source: &'static str,
    run: fn(&Lab, &mut Outcome) -> Result<(), Error>,
}

/// All of them, in the order of `all`.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
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

/// Those named, each once, or all if `all` is.
///
/// # Errors
/// A name is unknown.
pub(crate) fn choose(names: &[String]) -> Result<Vec<Experiment>, Error> {
    let mut chosen: Vec<Experiment> = Vec::new();
    for name in names.iter().filter(|name| *name != "all") {
        let found = EXPERIMENTS.iter().find(|experiment| experiment.name == name);
        let found = found.ok_or_else(|| Error::Unknown { name: name.clone() })?;
        if !chosen.iter().any(|known| known.name == found.name) {
            chosen.push(*found);
        }
    }
    let is_all = names.iter().any(|name| name == "all");
    Ok(if is_all { EXPERIMENTS.to_vec() } else { chosen })
}

/// Runs these; `say` hears what is being done. One that fails leaves what it has measured, and says
/// so; a run that is stopped ends with those that were complete.
///
/// # Errors
/// There is no place to run in.
pub(crate) fn run(
    chosen: &[Experiment],
    options: Options,
    stopper: &Stopper,
    say: fn(&str),
) -> Result<Report, Error> {
    let lab = Lab::new(options, stopper.clone(), say)?;
    let mut report = Report {
        version: VERSION,
        machine: machine::describe(&lab.cores, &lab.options.fulmar),
        experiments: Vec::new(),
    };
    // cargo names the directory of a build after its profile.
    let directory = lab.options.fulmar.parent().and_then(Path::file_name).unwrap_or_default();
    let directory = directory.to_string_lossy().into_owned();
    for experiment in chosen {
        let mut outcome = Outcome {
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            source: experiment.source.to_owned(),
            ..Outcome::default()
        };
        match (experiment.run)(&lab, &mut outcome) {
            Ok(()) => {}
            // What it complains of may be that all that it talks to was ended.
            Err(_) if stopper.is_stopped() => break,
            Err(error) => {
                outcome.tables.retain(Table::has_measured);
                outcome.failure = Some(error.to_string());
            }
        }
        outcome.missing.extend(unoptimized(&directory).map(ToOwned::to_owned));
        report.experiments.push(outcome);
    }
    Ok(report)
}

/// Counted calls, multiplied; what is to be known of how they were counted goes to `outcome`.
fn counted(found: Result<Count, String>, by: f64, outcome: &mut Outcome) -> Option<Counted> {
    match found {
        Ok(Count { counted, traced, unseen }) => {
            if let Some(why) = traced {
                outcome.miss(format!("calls without slowing anybody: all were traced, as {why}"));
            }
            if let Some(why) = unseen {
                outcome.miss(format!("operations of io_uring: {why}"));
            }
            Some(counted.scaled(by))
        }
        Err(why) => {
            outcome.miss(format!("system calls: {why}"));
            None
        }
    }
}

/// A note that fulmar's times are without full optimization, unless the profile is `dist`.
fn unoptimized(profile: &str) -> Option<&'static str> {
    ["debug", "release"].contains(&profile).then_some(
        "fulmar with full optimization: this binary was built without it, and its times are \
         longer; 'make dist' builds the binary of the published figures",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let chosen = choose(&names).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|experiment| experiment.name).collect())
    }

    #[test]
    fn profiles_other_than_dist_add_a_note() {
        assert_eq!(unoptimized("dist"), None);
        for profile in ["debug", "release"] {
            let note = unoptimized(profile).expect("a note");
            let parts = ["this binary was built without it", "'make dist' builds"];
            assert!(parts.iter().all(|part| note.contains(part)), "{note}");
        }
    }

    #[test]
    fn each_is_chosen_once_and_a_name_that_is_unknown_is_told_also_beside_all() {
        assert_eq!(chosen(&["urls", "idle", "urls"]), Ok(vec!["urls", "idle"]));
        let all: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(chosen(&["idle", "all"]), Ok(all));
        let unknown = "no experiment is called bogus; fulmar bench --list names them";
        assert_eq!(chosen(&["all", "bogus"]), Err(unknown.to_owned()));
    }
}
