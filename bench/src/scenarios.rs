//! The scenarios, and running them.

mod audit;
mod bulk;
mod capi;
mod forward;
mod generators;
mod guessing;
mod hiper;
mod hyper;
mod idle_streams;
mod instructions;
mod loops;
mod memory;
mod pipelining;
mod proxies;
mod responses;
mod servers;
mod sides;
mod transfers;
mod under_load;
mod urls;

use std::path::Path;

use fulmar_sys as sys;

use crate::BenchError;
use crate::lab::{KernelCount, Lab, RunOptions, RunStopper};
use crate::machine;
use crate::report::{BenchReport, Metric, Sheet, VERSION, grouped, lower};

/// A measurement with a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchScenario {
    /// On the command line.
    pub(crate) name: &'static str,
    /// One line.
    pub(crate) title: &'static str,
    /// The document with the repeated measurement; empty if there is none.
    pub(crate) source: &'static str,
    run: RunScenario,
}

type RunScenario = fn(&Lab, &mut Sheet) -> Result<(), BenchError>;

impl BenchScenario {
    const fn new(name: &'static str, title: &'static str, run: RunScenario) -> Self {
        Self { name, title, source: "", run }
    }
}

/// All scenarios, in the order of a run of all.
pub(crate) fn all() -> Vec<BenchScenario> {
    let groups: &[&[BenchScenario]] = &[
        REFERENCE,
        generators::SCENARIOS,
        servers::SERVE,
        guessing::SCENARIOS,
        idle_streams::SCENARIOS,
        hiper::SCENARIOS,
        pipelining::SCENARIOS,
        transfers::SCENARIOS,
        capi::SCENARIOS,
        bulk::SCENARIOS,
        servers::EMBEDDED,
        memory::SCENARIOS,
        proxies::SCENARIOS,
        loops::SCENARIOS,
        audit::SCENARIOS,
        instructions::SCENARIOS,
    ];
    groups.concat()
}

/// The measurements of published documents, repeated.
const REFERENCE: &[BenchScenario] = &[
    BenchScenario {
        source: "project Hiper's measurements of December 2005, and its final report of 2006",
        ..BenchScenario::new(
            "idle",
            "one active transfer among thousands of idle ones",
            hiper::idle,
        )
    },
    BenchScenario {
        source: "project Hiper's measurements of 6 December 2005",
        ..BenchScenario::new("urls", "many URLs at once, by the number of active ones", urls::run)
    },
    BenchScenario {
        source: "Robert Iakobashvili's measurements of curl-loader of 10 April 2007",
        ..BenchScenario::new("hyper", "clients that fetch 104 KB repeatedly", hyper::run)
    },
    BenchScenario {
        source: "GNU libmicrohttpd's report of its Summer of Code of 22 August 2019",
        ..BenchScenario::new("responses", "four kinds of responses, call by call", responses::run)
    },
    BenchScenario {
        source: "Willy Tarreau's change to HAProxy's poller of 15 November 2013",
        ..BenchScenario::new("forward", "10,000 forwarded connections", forward::run)
    },
];

/// The named scenarios, each once; `reference` and `all` are groups.
pub(crate) fn choose(names: &[String]) -> Result<Vec<BenchScenario>, BenchError> {
    let all = all();
    let mut chosen: Vec<BenchScenario> = Vec::new();
    for name in names {
        let found: Vec<_> = match name.as_str() {
            "all" => all.iter().collect(),
            "reference" => all.iter().filter(|scenario| !scenario.source.is_empty()).collect(),
            name => all.iter().filter(|scenario| scenario.name == name).collect(),
        };
        if found.is_empty() {
            return Err(BenchError::UnknownScenario(name.clone()));
        }
        for scenario in found {
            if !chosen.iter().any(|known| known.name == scenario.name) {
                chosen.push(*scenario);
            }
        }
    }
    Ok(chosen)
}

/// Runs the scenarios. `keep` receives the report after each of them. One that fails keeps its
/// figures and its error; a stopped run ends with the complete scenarios.
pub(crate) fn run(
    chosen: &[BenchScenario],
    options: &RunOptions,
    stopper: &RunStopper,
) -> Result<BenchReport, BenchError> {
    // cargo names the directory of a build after its profile.
    let directory = options.fulmar.parent().and_then(Path::file_name).unwrap_or_default();
    let note = unoptimized(&directory.to_string_lossy());
    let mut report = BenchReport { version: VERSION, ..BenchReport::default() };
    for scenario in chosen {
        let lab = Lab::new(options.clone(), stopper.clone())?;
        if report.machine.facts.is_empty() {
            report.machine = machine::describe(&lab.cores, &lab.options.fulmar);
        }
        lab.progress(scenario.name);
        let mut sheet = Sheet::default();
        sheet.report.name = scenario.name.to_owned();
        sheet.report.title = scenario.title.to_owned();
        sheet.report.source = scenario.source.to_owned();
        let errors = (scenario.run)(&lab, &mut sheet).err().map_or_else(Vec::new, BenchError::flat);
        // The errors of a stopped run are those of processes that were ended.
        if stopper.is_stopped() {
            break;
        }
        let (missing, failed): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| matches!(error, BenchError::Missing(_)));
        missing.iter().for_each(|error| sheet.report.miss(error.to_string()));
        sheet.report.failure = BenchError::all(failed).err().map(|error| error.to_string());
        sheet.report.missing.extend(note.map(ToOwned::to_owned));
        report.experiments.push(sheet.finish());
    }
    Ok(report)
}

/// The numbers of connections: those of the command line, or else the published ones, each once.
/// Numbers that exceed the limit of descriptors are left out and reported.
fn sizes(
    lab: &Lab,
    published: &[u32],
    descriptors_each: u32,
    sheet: &mut Sheet,
) -> Result<Vec<u32>, BenchError> {
    let limit = sys::raise_descriptors().map_err(BenchError::io("the limit of descriptors"))?.now;
    let given = &lab.options.connections;
    let mut sizes: Vec<u32> = Vec::new();
    for size in if given.is_empty() { published } else { given } {
        let needed = u64::from(*size) * u64::from(descriptors_each) + DESCRIPTORS_SPARE;
        if needed > limit {
            sheet.report.miss(format!(
                "{} connections: they need {needed} descriptors, the limit is {limit}; raise it \
                 (ulimit -Hn)",
                grouped(*size)
            ));
        } else if !sizes.contains(size) {
            sizes.push(*size);
        }
    }
    Ok(sizes)
}

/// The counts of the kernel, or `None` with the reason in the report.
fn counted(
    found: Result<KernelCount, String>,
    sheet: &mut Sheet,
) -> Option<crate::lab::CallFigures> {
    match found {
        Ok(count) => {
            count.notes.into_iter().for_each(|note| sheet.report.miss(note));
            Some(count.counts)
        }
        Err(why) => {
            sheet.report.miss(format!("system calls: {why}"));
            None
        }
    }
}

/// A note that times are of a build without full optimization.
fn unoptimized(profile: &str) -> Option<&'static str> {
    ["debug", "release"].contains(&profile).then_some(
        "fulmar with full optimization: this binary was built without it, and its times are \
         longer; 'make dist' builds the binary of the published figures",
    )
}

/// User and system time of a request, in the process that is measured.
const CPU: Metric = lower("CPU per request", "us");
/// System calls of a request, if the process is always busy.
const CALLS: Metric = lower("System calls per request, saturated", "calls");
/// Those that returned EAGAIN.
const EAGAIN: Metric = lower("EAGAIN per request, saturated", "calls");
/// User instructions of a request.
const INSTRUCTIONS: Metric = lower("Instructions per request", "instructions");
/// Besides its connections, a process has files, a selector, a listener and a ring.
const DESCRIPTORS_SPARE: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let chosen = choose(&names).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|scenario| scenario.name).collect())
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
    fn each_scenario_is_chosen_once_and_unknown_names_are_reported() {
        assert_eq!(chosen(&["urls", "idle", "urls"]), Ok(vec!["urls", "idle"]));
        let reference = vec!["idle", "urls", "hyper", "responses", "forward"];
        assert_eq!(chosen(&["idle", "reference"]), Ok(reference));
        let all: Vec<_> = all().iter().map(|scenario| scenario.name).collect();
        assert_eq!(chosen(&["all", "idle"]), Ok(all.clone()));
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
        let unknown = "no scenario 'bogus'; 'fulmar bench --list' names them";
        assert_eq!(chosen(&["all", "bogus"]), Err(unknown.to_owned()));
    }
}
