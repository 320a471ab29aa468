//! Puts a program through what is to be counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fulmar_audit::Cost;
use fulmar_audit::report::{Load, Run, Unit};
use fulmar_audit::{Counts, Timeline};
use fulmar_load::{Options, Report, Until};
use fulmar_sys as sys;

use super::arguments::{Asked, Subject, Who};
use super::door::Door;
use super::program::Program;
use crate::load::traffic;
use crate::output::{Failure, complain};
use crate::signals;

/// Rings when somebody wants us to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bell(Arc<AtomicBool>);

impl Bell {
    /// Rings from now on at SIGINT and SIGTERM.
    pub(crate) fn hang() -> Result<Self, Failure> {
        let bell = Self::default();
        let rope = Arc::clone(&bell.0);
        signals::watch(move |_| rope.store(true, Ordering::Release))
            .map_err(|error| Failure::new("cannot wait for signals", error))?;
        Ok(bell)
    }

    /// True once it has rung.
    pub(crate) fn has_rung(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// True if it has rung, or does so in a moment: Ctrl-C reaches the program too, which may be
    /// faster at ending than we are at hearing of it.
    fn rings(&self) -> bool {
        let until = sys::now() + HEARING_TIME_MAX;
        while !self.has_rung() && sys::now() < until {
            thread::park_timeout(TICK);
        }
        self.has_rung()
    }
}

/// What was found of a program.
pub(crate) struct Measured {
    pub(crate) run: Run,
    /// It ended by itself, and badly: it has done something else than it should.
    pub(crate) failure: Option<Failure>,
}

/// Starts a program, counts, and ends it.
pub(crate) fn run(subject: &Subject, asked: &Asked, bell: &Bell) -> Result<Measured, Failure> {
    let Counted { command, counts, load, timeline, failure } = match &subject.load {
        Some(options) => under_load(subject, options, asked, bell)?,
        None => by_itself(subject, asked, bell)?,
    };
    let requests = load.as_ref().map(|load| load.requests);
    let unit = match asked.per.map(|per| Unit::of(per, &counts, requests)).transpose() {
        Ok(unit) => unit,
        Err(_) if bell.has_rung() || failure.is_some() => None, // too early to have any
        Err(error) => return Err(Failure::new(&command, error)),
    };
    let cost = Cost::measure(&counts, asked.scope); // now that nobody counts
    if asked.clock && counts.clock_reads.is_none() {
        complain(&format!(
            "{command}: clock reads are not known: it has not loaded what counts them, as a \
             program that is linked statically loads nothing"
        ));
    }
    Ok(Measured { run: Run { command, unit, counts, load, cost, timeline }, failure })
}

/// The same, before it is divided.
struct Counted {
    command: String,
    counts: Counts,
    load: Option<Load>,
    timeline: Option<Timeline>,
    failure: Option<Failure>,
}

/// All that it does until it ends, or the time has come.
fn by_itself(subject: &Subject, asked: &Asked, bell: &Bell) -> Result<Counted, Failure> {
    let mut program = Program::new(&subject.who, asked)?;
    let end = asked.at_most.map(|at_most| sys::now() + at_most);
    while !program.wait(TICK)? {
        if bell.has_rung() || end.is_some_and(|end| sys::now() >= end) {
            break;
        }
    }
    let counts = program.snapshot()?;
    let mut timeline = program.timeline()?;
    if let Some(timeline) = &mut timeline {
        timeline.truncate(usize::try_from(asked.timeline).unwrap_or(usize::MAX));
    }
    let (command, status) = (program.command.clone(), program.status());
    program.stop()?;
    let failed = status.filter(|status| !status.success() && !bell.rings());
    let failure = failed.map(|status| Failure::new(&command, format!("it failed: {status}")));
    Ok(Counted { command, counts, load: None, timeline, failure })
}

/// What a load makes it do, from a quiet moment to the next.
fn under_load(
    subject: &Subject,
    options: &Options,
    asked: &Asked,
    bell: &Bell,
) -> Result<Counted, Failure> {
    let doors = Door::all(options)?;
    let starts = matches!(subject.who, Who::Command(_));
    if let Some(door) = doors.iter().find(|door| starts && door.is_open()) {
        let why =
            "somebody listens there already, and would have the load: end it, or use another port";
        return Err(Failure::new(door, why));
    }
    let mut program = Program::new(&subject.who, asked)?;
    listens(&mut program, &doors, asked, bell)?;
    let mut options = options.clone();
    traffic::fit(&mut options, false)?; // not before: the program would inherit the limit
    let warm_up = warm_up(&mut program, &options, asked.warm_up, bell)?;
    let before = program.settled()?;
    let report = load(&mut program, &options, None, bell)?;
    let counts = program.settled()?.minus(&before);
    if report.requests == 0 && !bell.has_rung() {
        return Err(Failure::new(&program.command, unanswered(&report)));
    }
    let timeline = match asked.timeline {
        1.. if !bell.has_rung() => timeline(&mut program, &options, asked.timeline, bell)?,
        _ => None,
    };
    let command = program.command.clone();
    program.stop()?;
    let load = Some(brought(&report, warm_up));
    Ok(Counted { command, counts, load, timeline, failure: None })
}

/// What some requests more make it do, one after the other on one connection.
fn timeline(
    program: &mut Program,
    options: &Options,
    requests: u64,
    bell: &Bell,
) -> Result<Option<Timeline>, Failure> {
    let until = Until::Requests(requests);
    let options = Options { until, connections: 1, threads: 1, ..options.clone() };
    program.record()?;
    let report = load(program, &options, None, bell)?;
    program.settled()?;
    let timeline = program.timeline()?;
    Ok(timeline.map(|timeline| Timeline { requests: Some(report.requests), ..timeline }))
}

/// Waits until it listens everywhere.
fn listens(
    program: &mut Program,
    doors: &[Door],
    asked: &Asked,
    bell: &Bell,
) -> Result<(), Failure> {
    let deadline = sys::now() + asked.start_timeout;
    for door in doors {
        while !door.is_open() {
            let command = &program.command;
            let why = match program.ending() {
                Some(how) => format!("it ended before it listened on {door}: {how}"),
                None if bell.has_rung() => format!("interrupted before it listened on {door}"),
                None if sys::now() >= deadline => {
                    let waited = asked.start_timeout.as_secs_f64();
                    format!("it does not listen on {door} within {waited} s (--start-timeout)")
                }
                None => {
                    program.wait(TICK)?;
                    continue;
                }
            };
            return Err(Failure::new(command, why));
        }
    }
    Ok(())
}

/// So many requests that are in no count; how many were answered.
fn warm_up(
    program: &mut Program,
    options: &Options,
    requests: u64,
    bell: &Bell,
) -> Result<u64, Failure> {
    if requests == 0 || bell.has_rung() {
        return Ok(0);
    }
    let few = u32::try_from(requests).unwrap_or(u32::MAX).max(options.threads);
    let options = Options {
        until: Until::Requests(requests),
        connections: options.connections.min(few),
        ..options.clone()
    };
    Ok(load(program, &options, Some(WARM_UP_TIME_MAX), bell)?.requests)
}

/// Loads the program until the load is done, the time has come, or somebody wants us to end.
fn load(
    program: &mut Program,
    options: &Options,
    at_most: Option<Duration>,
    bell: &Bell,
) -> Result<Report, Failure> {
    let running = fulmar_load::start(options).map_err(|error| traffic::failure(&error))?;
    let end = at_most.map(|at_most| sys::now() + at_most);
    while !running.is_finished() {
        let ended = program.wait(TICK)?;
        if ended || bell.has_rung() || end.is_some_and(|end| sys::now() >= end) {
            running.stopper().stop();
            break;
        }
    }
    let report = running.finish();
    if report.is_err() {
        program.wait(HEARING_TIME_MAX)?; // perhaps its end, which is heard of after its sockets'
    }
    if let Some(how) = program.ending().filter(|_| !bell.rings()) {
        let why = format!("it ended while it was under load: {how}");
        return Err(Failure::new(&program.command, why));
    }
    let report = report.map_err(|error| traffic::failure(&error))?;
    if report.lost {
        complain(
            "the load lost the program: at the end no connection was left, and connects failed",
        );
    }
    Ok(report)
}

/// What came instead of answers, the most frequent first.
fn unanswered(report: &Report) -> String {
    let mut errors: Vec<_> = report.errors.iter().filter(|(_, count)| **count > 0).collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count)); // stable: then by name
    let errors: Vec<_> = errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let errors = if errors.is_empty() { "nothing came".to_owned() } else { errors.join(", ") };
    format!("no request was answered: {errors}")
}

fn brought(report: &Report, warm_up: u64) -> Load {
    let errors = report.errors.iter().map(|(kind, count)| ((*kind).to_owned(), *count));
    let refused = report.status.iter().filter(|(status, _)| **status >= 400);
    Load {
        url: report.url.clone(),
        connections: report.connections.held,
        requests: report.requests,
        errors: errors.collect(),
        refused: refused.map(|(_, count)| count).sum(),
        warm_up,
    }
}

/// Between two looks at what may have happened.
const TICK: Duration = Duration::from_millis(10);
/// As long as a thread of ours may take to run on a machine that is very busy, or a process to end.
const HEARING_TIME_MAX: Duration = Duration::from_millis(500);
/// A program that is slow is warm after this.
const WARM_UP_TIME_MAX: Duration = Duration::from_secs(5);
