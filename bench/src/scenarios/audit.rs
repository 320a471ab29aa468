//! `audit-nginx-64`: the cost of `fulmar audit` for nginx under wrk, and that of strace.

use std::process::Command;
use std::time::Duration;

use super::{BenchScenario, CPU};
use crate::BenchError;
use crate::lab::{Child, Lab, cpu_us, json, wait};
use crate::loads::BenchLoad;
use crate::report::{BarLimit, FULMAR, Metric, Sheet, higher};
use crate::servers::{BenchServer, NginxServer};

pub(super) const SCENARIOS: &[BenchScenario] =
    &[BenchScenario::new("audit-nginx-64", "audit: its cost for nginx under wrk", run)];

/// Each way in turn with nginx alone; the tracers once, as they slow it too much.
fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.limit(&RATE, WAYS[0].0, BarLimit::at_least_times(0.85));
    sheet.limit(&CPU, WAYS[0].0, BarLimit::at_most_times(1.15));
    let nginx = NginxServer::default().start(lab)?;
    let (rounds, cases) = (lab.options.rounds, WAYS.len());
    let result = lab.interleave(rounds, 2, cases, |side, case| {
        let (row, words) = WAYS[case];
        match side {
            0 => sample(lab, sheet, &nginx, row, ALONE).map(drop),
            _ => audited(lab, sheet, &nginx, row, words),
        }
    });
    audited(lab, sheet, &nginx, "--counter ptrace", &["--counter", "ptrace"])?;
    let mut strace = lab.installed("strace")?;
    strace.args(["-f", "-c", "-p", &nginx.pid.to_string()]);
    let strace = attach(lab, sheet, strace)?;
    sample(lab, sheet, &nginx, "--counter ptrace", "strace -c")?;
    strace.interrupt()?;
    nginx.stop()?;
    result
}

/// One interval of wrk; the number of requests.
fn sample(
    lab: &Lab,
    sheet: &mut Sheet,
    nginx: &BenchServer,
    row: &str,
    side: &str,
) -> Result<f64, BenchError> {
    let load = || BenchLoad::kept(64).run(lab, nginx, "/tiny", lab.seconds(), false);
    let (us, (requests, line)) = nginx.cpu_of(load)?;
    sheet.add(&RATE, row, side, requests / lab.seconds().round().max(1.0));
    sheet.add(&CPU, row, side, us / requests);
    sheet.report.command(&line);
    Ok(requests)
}

/// An interval under `fulmar audit`, which has to count all calls. With options that print each
/// call it shares a core with wrk, and may lose some; these have no phase.
fn audited(
    lab: &Lab,
    sheet: &mut Sheet,
    nginx: &BenchServer,
    row: &str,
    words: &[&str],
) -> Result<(), BenchError> {
    let mut command = lab.fulmar(&["audit", "--json"]);
    command.args(words).args(["--pid", &nginx.pid.to_string()]);
    let line = lab.line(&command);
    let audit = attach(lab, sheet, command)?;
    let requests = sample(lab, sheet, nginx, row, FULMAR)?;
    let report = json(&audit.interrupt()?, &line)?;
    let lost = report["lost"].as_f64().unwrap_or(0.0);
    let received = report["calls"]["recvfrom"]["calls"].as_f64().unwrap_or(0.0);
    if received < requests || (lost > 0.0 && report["phases"].is_null()) {
        return Err(BenchError::process(&line, format!("{received} calls counted, {lost} lost")));
    }
    if lost > 0.0 {
        sheet.note(&RATE, "Some calls have no phase: the reader of each call was too late.");
    }
    Ok(())
}

/// Starts a counter, and waits until it is idle: then it is attached.
fn attach(lab: &Lab, sheet: &mut Sheet, command: Command) -> Result<Child, BenchError> {
    sheet.report.command(&lab.line(&command));
    let child = lab.client(command)?;
    for _ in 0..ATTACH_STEPS {
        let before = cpu_us(child.id())?;
        wait(ATTACH);
        if cpu_us(child.id())? - before < IDLE_US {
            break;
        }
    }
    Ok(child)
}

/// The ways to count, and their options.
const WAYS: &[(&str, &[&str])] = &[
    ("64 connections", &["--counter", "ebpf"]),
    ("--phases", &["--counter", "ebpf", "--phases"]),
    ("--timeline", &["--counter", "ebpf", "--timeline"]),
];
const RATE: Metric = higher("Requests per second of nginx", "");
const ALONE: &str = "not counted";
const ATTACH: Duration = Duration::from_secs(1);
const ATTACH_STEPS: u32 = 20;
/// An idle process takes less in a second.
const IDLE_US: f64 = 2_000.0;
