//! `idle-streams`: one active stream among N idle ones, with an engine of the smallest kind: the
//! cost of an event of the core, and of opening idle connections.

use super::BenchScenario;
use crate::BenchError;
use crate::lab::Lab;
use crate::loads::{callgrind, instructions};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, grouped, lower, neutral};
use crate::servers::{BenchServer, Wrapper};

pub(super) const SCENARIOS: &[BenchScenario] =
    &[BenchScenario::new("idle-streams", "core: one active stream among N idle ones", run)];

fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    // A single connection costs less than the resolution of the kernel's accounting.
    for size in &SIZES[1..] {
        let row = grouped(*size);
        sheet.limit(&OPENING, &row, BarLimit::at_most(45.0));
        for _ in 0..lab.options.rounds {
            let (found, _) = one(lab, sheet, *size, 1_000, "chunked", false)?;
            let each = |field: &str| found[field].as_f64().unwrap_or(f64::NAN) / f64::from(*size);
            sheet.add(&OPENING, &row, FULMAR, each("open_cpu_us"));
            sheet.add(&RSS, &row, FULMAR, each("open_rss_bytes"));
        }
    }
    let mut each = |size| sheet.median(&OPENING, &grouped(size), FULMAR).unwrap_or(f64::NAN);
    let (few, many) = (each(SIZES[2]), each(SIZES[3]));
    sheet.limit(&FLAT, "opening, 18,000 by 9,000", BarLimit::at_most(1.25));
    sheet.add(&FLAT, "opening, 18,000 by 9,000", FULMAR, many / few);
    for framing in ["chunked", "length"] {
        let mut counts = Vec::new();
        for size in SIZES {
            let row = format!("{}, {framing}", grouped(size));
            let count = event_instructions(lab, sheet, size, framing)?;
            sheet.limit(&INSTRUCTIONS, &row, BarLimit::at_most(400.0));
            sheet.add(&INSTRUCTIONS, &row, FULMAR, count);
            counts.push(count);
        }
        let (least, most) =
            (counts.iter().copied().reduce(f64::min), counts.iter().copied().reduce(f64::max));
        let row = format!("instructions, {framing}, most by fewest");
        sheet.limit(&FLAT, &row, BarLimit::at_most(1.05));
        sheet.add(&FLAT, &row, FULMAR, most.unwrap_or(f64::NAN) / least.unwrap_or(f64::NAN));
    }
    Ok(())
}

/// User instructions of an event, as the difference of two run lengths. Only the events are
/// counted.
pub(super) fn event_instructions(
    lab: &Lab,
    sheet: &mut Sheet,
    size: u32,
    framing: &str,
) -> Result<f64, BenchError> {
    lab.installed("valgrind")?;
    let mut counts = Vec::new();
    for events in EVENTS {
        counts.push(one(lab, sheet, size, events, framing, true)?.1);
    }
    Ok((counts[1] - counts[0]) / f64::from(EVENTS[1] - EVENTS[0]))
}

/// The report of the client, and the instructions of its events. The servers are new each time: a
/// connection that waits for a response stays open there when its client has ended. A counted run
/// whose events were not alike is repeated.
fn one(
    lab: &Lab,
    sheet: &mut Sheet,
    size: u32,
    events: u32,
    framing: &str,
    is_counted: bool,
) -> Result<(serde_json::Value, f64), BenchError> {
    let cpus = &lab.cores.server;
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let serve = BenchServer::serve(lab, &[], &["0.0.0.0"], cpus, Wrapper::No)?.0;
        let mut pulse = lab.worker("pulse");
        pulse.args(["--framing", framing]);
        let pulse = BenchServer::printing_port(lab, pulse, cpus)?;
        let peers: Vec<_> = (0..size.div_ceil(PER_ADDRESS))
            .map(|host| format!("127.0.0.{}:{}", host + 1, serve.port))
            .collect();
        let mut command = lab.worker("idle");
        command.args(["--idle", &size.to_string(), "--events", &events.to_string()]);
        command.args(["--idle-peers", &peers.join(","), "--active", &pulse.address().to_string()]);
        let out = lab.path().join(format!("callgrind-{framing}-{size}-{events}"));
        if is_counted {
            command = callgrind(&command, &out, &["*idle::steady*"]);
        }
        let (found, line) = lab.run_json(command)?;
        sheet.report.command(&line);
        pulse.stop()?;
        serve.stop()?;
        if !is_counted {
            return Ok((found, 0.0));
        }
        let uneven = found["uneven"].as_f64().unwrap_or(f64::NAN);
        if uneven <= UNEVEN_MAX * f64::from(events) {
            return Ok((found, instructions(&out)?));
        }
        last = line;
    }
    Err(BenchError::process(&last, "events differ in size"))
}

const OPENING: Metric = lower("CPU to open each", "us").rows("idle streams");
const RSS: Metric = neutral("RSS of each in the client", "B").rows("idle streams");
const INSTRUCTIONS: Metric = lower("Instructions per event", "").rows("idle streams");
const FLAT: Metric = lower("Independence of the number of streams", "x");
const SIZES: [u32; 4] = [1, 1_000, 9_000, 18_000];
const EVENTS: [u32; 2] = [1_000, 6_000];
/// The kernel's search for a free port grows steeply beyond.
const PER_ADDRESS: u32 = 9_000;
const UNEVEN_MAX: f64 = 0.02;
const ATTEMPTS: u32 = 3;
