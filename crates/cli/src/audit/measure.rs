//! Runs a program, with or without a load, while it is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fulmar_audit::Cost;
use fulmar_audit::report::{AuditRun, CountUnit, LoadSummary};
use fulmar_audit::{CallCounts, Timeline};
use fulmar_load::{Options, RunReport, RunUntil};
use fulmar_sys as sys;

use super::arguments::{AuditPlan, AuditSubject, AuditedProgram};
use super::endpoint::LoadEndpoint;
use super::program::RunningProgram;
use crate::load::traffic;
use crate::output::{ToolFailure, warn};
use crate::signals;

/// Set by SIGINT and SIGTERM.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// Installs the signal handlers.
    pub(crate) fn install() -> Result<Self, ToolFailure> {
        let interrupt = Self::default();
        let rope = Arc::clone(&interrupt.0);
        signals::watch(move |_| rope.store(true, Ordering::Release))
            .map_err(|error| ToolFailure::new("cannot install signal handlers", error))?;
        Ok(interrupt)
    }

    /// True once a signal has arrived.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// True if a signal has arrived, or arrives soon: Ctrl-C also reaches the program, which may
    /// exit before this process handles the signal.
    fn will_be_raised(&self) -> bool {
        let until = sys::now() + EXIT_DELAY_MAX;
        while !self.is_raised() && sys::now() < until {
            thread::park_timeout(TICK);
        }
        self.is_raised()
    }
}

/// The result of a program.
pub(crate) struct MeasuredRun {
    pub(crate) run: AuditRun,
    /// The program failed by itself.
    pub(crate) failure: Option<ToolFailure>,
}

/// Starts a program, counts, and stops it.
pub(crate) fn run(
    subject: &AuditSubject,
    plan: &AuditPlan,
    interrupt: &InterruptFlag,
) -> Result<MeasuredRun, ToolFailure> {
    let RawCounts { command, counts, load, timeline, failure } = match &subject.load {
        Some(options) => under_load(subject, options, plan, interrupt)?,
        None => by_itself(subject, plan, interrupt)?,
    };
    let requests = load.as_ref().map(|load| load.requests);
    let unit = match plan.per.map(|per| CountUnit::of(per, &counts, requests)).transpose() {
        Ok(unit) => unit,
        // interrupted or failed before the first unit
        Err(_) if interrupt.is_raised() || failure.is_some() => None,
        Err(error) => return Err(ToolFailure::new(&command, error)),
    };
    let cost = Cost::measure(&counts, plan.scope); // nothing is being counted now
    if plan.clock && counts.clock_reads.is_none() {
        warn(&format!(
            "{command}: clock reads were not counted: the program did not load the library, as a \
             program that is linked statically loads nothing"
        ));
    }
    Ok(MeasuredRun { run: AuditRun { command, unit, counts, load, cost, timeline }, failure })
}

/// The counts before they are divided by a unit.
struct RawCounts {
    command: String,
    counts: CallCounts,
    load: Option<LoadSummary>,
    timeline: Option<Timeline>,
    failure: Option<ToolFailure>,
}

/// Counts without a load until the program exits or the time is over.
fn by_itself(
    subject: &AuditSubject,
    plan: &AuditPlan,
    interrupt: &InterruptFlag,
) -> Result<RawCounts, ToolFailure> {
    let mut program = RunningProgram::new(&subject.program, plan)?;
    let end = plan.at_most.map(|at_most| sys::now() + at_most);
    while !program.wait(TICK)? {
        if interrupt.is_raised() || end.is_some_and(|end| sys::now() >= end) {
            break;
        }
    }
    let counts = program.snapshot()?;
    let mut timeline = program.timeline()?;
    if let Some(timeline) = &mut timeline {
        timeline.truncate(usize::try_from(plan.timeline).unwrap_or(usize::MAX));
    }
    let (command, status) = (program.command.clone(), program.status());
    program.stop()?;
    let failed = status.filter(|status| !status.success() && !interrupt.will_be_raised());
    let failure = failed.map(|status| ToolFailure::new(&command, format!("exited with {status}")));
    Ok(RawCounts { command, counts, load: None, timeline, failure })
}

/// Counts under a load, from one idle state to the next.
fn under_load(
    subject: &AuditSubject,
    options: &Options,
    plan: &AuditPlan,
    interrupt: &InterruptFlag,
) -> Result<RawCounts, ToolFailure> {
    let endpoints = LoadEndpoint::all(options)?;
    let starts = matches!(subject.program, AuditedProgram::Command(_));
    if let Some(endpoint) = endpoints.iter().find(|endpoint| starts && endpoint.is_open()) {
        let why =
            "address already in use: stop the process that listens there, or use another port";
        return Err(ToolFailure::new(endpoint, why));
    }
    let mut program = RunningProgram::new(&subject.program, plan)?;
    await_listeners(&mut program, &endpoints, plan, interrupt)?;
    let mut options = options.clone();
    // After the start, because the program would inherit the raised limit.
    traffic::fit(&mut options, false)?;
    let warm_up = warm_up(&mut program, &options, plan.warm_up, interrupt)?;
    let before = program.settled()?;
    let report = load(&mut program, &options, None, interrupt)?;
    let counts = program.settled()?.minus(&before);
    if report.requests == 0 && !interrupt.is_raised() {
        return Err(ToolFailure::new(&program.command, no_response(&report)));
    }
    let timeline = match plan.timeline {
        1.. if !interrupt.is_raised() => {
            timeline(&mut program, &options, plan.timeline, interrupt)?
        }
        _ => None,
    };
    let command = program.command.clone();
    program.stop()?;
    let load = Some(summary(&report, warm_up));
    Ok(RawCounts { command, counts, load, timeline, failure: None })
}

/// Records the calls of further requests on one connection.
fn timeline(
    program: &mut RunningProgram,
    options: &Options,
    requests: u64,
    interrupt: &InterruptFlag,
) -> Result<Option<Timeline>, ToolFailure> {
    let until = RunUntil::Requests(requests);
    let options = Options { until, connections: 1, threads: 1, ..options.clone() };
    program.record()?;
    let report = load(program, &options, None, interrupt)?;
    program.settled()?;
    let timeline = program.timeline()?;
    Ok(timeline.map(|timeline| Timeline { requests: Some(report.requests), ..timeline }))
}

/// Waits until the program listens on all endpoints.
fn await_listeners(
    program: &mut RunningProgram,
    endpoints: &[LoadEndpoint],
    plan: &AuditPlan,
    interrupt: &InterruptFlag,
) -> Result<(), ToolFailure> {
    let deadline = sys::now() + plan.start_timeout;
    for endpoint in endpoints {
        while !endpoint.is_open() {
            let command = &program.command;
            let why = match program.ending() {
                Some(how) => format!("exited before it listened on {endpoint}: {how}"),
                None if interrupt.is_raised() => {
                    format!("interrupted before it listened on {endpoint}")
                }
                None if sys::now() >= deadline => {
                    let waited = plan.start_timeout.as_secs_f64();
                    format!("did not listen on {endpoint} within {waited} s (--start-timeout)")
                }
                None => {
                    program.wait(TICK)?;
                    continue;
                }
            };
            return Err(ToolFailure::new(command, why));
        }
    }
    Ok(())
}

/// Sends requests before counting starts; returns how many got a response.
fn warm_up(
    program: &mut RunningProgram,
    options: &Options,
    requests: u64,
    interrupt: &InterruptFlag,
) -> Result<u64, ToolFailure> {
    if requests == 0 || interrupt.is_raised() {
        return Ok(0);
    }
    let few = u32::try_from(requests).unwrap_or(u32::MAX).max(options.threads);
    let options = Options {
        until: RunUntil::Requests(requests),
        connections: options.connections.min(few),
        ..options.clone()
    };
    Ok(load(program, &options, Some(WARM_UP_TIME_MAX), interrupt)?.requests)
}

/// Loads the program until the load is complete, the time is over, or a signal arrives.
fn load(
    program: &mut RunningProgram,
    options: &Options,
    at_most: Option<Duration>,
    interrupt: &InterruptFlag,
) -> Result<RunReport, ToolFailure> {
    let running = fulmar_load::start(options).map_err(|error| traffic::failure(&error))?;
    let end = at_most.map(|at_most| sys::now() + at_most);
    while !running.is_finished() {
        let ended = program.wait(TICK)?;
        if ended || interrupt.is_raised() || end.is_some_and(|end| sys::now() >= end) {
            running.stopper().stop();
            break;
        }
    }
    let report = running.finish();
    if report.is_err() {
        program.wait(EXIT_DELAY_MAX)?; // its exit is reported after its sockets close
    }
    if let Some(how) = program.ending().filter(|_| !interrupt.will_be_raised()) {
        let why = format!("exited under load: {how}");
        return Err(ToolFailure::new(&program.command, why));
    }
    let report = report.map_err(|error| traffic::failure(&error))?;
    if report.lost {
        warn("all connections of the load were lost, and new ones failed");
    }
    Ok(report)
}

/// The errors instead of responses, the most frequent first, and their causes, as `load` prints
/// them.
fn no_response(report: &RunReport) -> String {
    let mut errors: Vec<_> = report.errors.iter().filter(|(_, count)| **count > 0).collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count)); // stable: then by name
    let errors: Vec<_> = errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let errors = if errors.is_empty() { "no errors either".to_owned() } else { errors.join(", ") };
    let tls = report.tls.iter().flat_map(|tls| &tls.causes);
    let mut reasons: Vec<_> =
        report.broken.iter().map(|(why, count)| (why.to_string(), *count)).collect();
    reasons.extend(tls.map(|(why, count)| (why.to_string(), *count)));
    let reasons: String = reasons.iter().map(|(why, count)| format!("; {why} ({count})")).collect();
    format!("no request got a response: {errors}{reasons}")
}

fn summary(report: &RunReport, warm_up: u64) -> LoadSummary {
    let errors = report.errors.iter().map(|(kind, count)| ((*kind).to_owned(), *count));
    let refused = report.status.iter().filter(|(status, _)| **status >= 400);
    LoadSummary {
        url: report.url.clone(),
        connections: report.connections.established,
        requests: report.requests,
        errors: errors.collect(),
        refused: refused.map(|(_, count)| count).sum(),
        warm_up,
    }
}

/// Poll interval.
const TICK: Duration = Duration::from_millis(10);
/// Scheduling delay of a thread, or of an exiting process, on a very busy machine.
const EXIT_DELAY_MAX: Duration = Duration::from_millis(500);
/// Even a slow program is warm after this time.
const WARM_UP_TIME_MAX: Duration = Duration::from_secs(5);
