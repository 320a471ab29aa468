//! `instructions`: user instructions of a request in the engines, held against
//! `bench/budgets.toml`.

use super::BenchScenario;
use super::idle_streams::event_instructions;
use super::transfers;
use crate::BenchError;
use crate::budgets::Budgets;
use crate::lab::Lab;
use crate::loads::{callgrind, instructions};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, lower};

pub(super) const SCENARIOS: &[BenchScenario] =
    &[BenchScenario::new("instructions", "instructions per request and event, with budgets", run)];

fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    lab.installed("valgrind")?;
    let budgets = Budgets::read().instructions;
    for (row, budget) in [
        ("load, depth 1", budgets.load),
        ("server, depth 1", budgets.server),
        ("http2, depth 100", budgets.http2),
        ("client", budgets.client),
        ("idle event", budgets.idle_event),
    ] {
        sheet.limit(&EACH, row, BarLimit::at_most(budget));
    }
    let engines =
        [("load", 1), ("load", 8), ("server", 1), ("server", 8), ("http2", 1), ("http2", 100)];
    for (engine, depth) in engines {
        let each = in_memory(lab, sheet, engine, depth)?;
        sheet.add(&EACH, &format!("{engine}, depth {depth}"), FULMAR, each);
    }
    let each = transfers::instructions_of_fulmar(lab, sheet)?;
    sheet.add(&EACH, "client", FULMAR, each);
    let each = event_instructions(lab, sheet, IDLE, "chunked")?;
    sheet.add(&EACH, "idle event", FULMAR, each);
    sheet.note(&EACH, NOTE);
    Ok(())
}

/// An engine that is fed in memory, as the difference of two run lengths.
fn in_memory(lab: &Lab, sheet: &mut Sheet, engine: &str, depth: u32) -> Result<f64, BenchError> {
    let mut counts = Vec::new();
    for requests in REQUESTS {
        let mut command = lab.worker("in-memory");
        command.args(["--engine", engine, "--depth", &depth.to_string()]);
        command.args(["--requests", &requests.to_string()]);
        let out = lab.path().join(format!("callgrind-{engine}-{depth}-{requests}"));
        let (_, line) = lab.run(callgrind(&command, &out, &["*in_memory::steady*"]))?;
        sheet.report.command(&line);
        counts.push(instructions(&out)?);
    }
    Ok((counts[1] - counts[0]) / f64::from(REQUESTS[1] - REQUESTS[0]))
}

const EACH: Metric = lower("Instructions per request or event", "");
const REQUESTS: [u32; 2] = [8_000, 40_000];
/// Idle streams beside the active one.
const IDLE: u32 = 20;
const NOTE: &str = "Counted by callgrind, as the difference of two run lengths. load and server \
    are fed in memory, with 4 connections; http2 is the server with so many streams a turn. The \
    client has 200 transfers of 128 B over sockets; \
    the idle event is one of the worker 'idle'. The limits are in bench/budgets.toml.";
