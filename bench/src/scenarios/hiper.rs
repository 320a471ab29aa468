//! `idle` and `urls`: one active transfer among idle ones, and many active ones (project Hiper,
//! 2005).
//!
//! The document opened 1,001 to 9,001 connections, one of which delivered a byte at a time, and
//! timed select() and curl_multi_perform(); and fetched 2,000 URLs. Here libcurl is used as it was
//! then, as the project made it, and fulmar's client does the same work.

use std::process::Command;

use serde_json::Value;

use super::sizes;
use crate::BenchError;
use crate::lab::{CPeer, Lab};
use crate::loads::{callgrind, instructions};
use crate::report::{FULMAR, Metric, Sheet, grouped, lower, neutral};
use crate::servers::{BenchServer, Wrapper};

/// The names of the sides, and the option of libcurl's program.
const SIDES: [(&str, &str); 3] =
    [("libcurl multi_perform", "perform"), ("libcurl multi_socket", "socket"), (FULMAR, "")];

fn client(lab: &Lab, (side, how): (&str, &str)) -> Result<Command, BenchError> {
    if side == FULMAR {
        return Ok(lab.worker("among"));
    }
    let mut command = Command::new(CPeer::HIPER.program(lab)?);
    command.args(["--use", how]);
    Ok(command)
}

/// Leaves libcurl out if it cannot be compiled; the reason is in the report.
fn available(
    lab: &Lab,
    sheet: &mut Sheet,
) -> Result<Vec<(&'static str, &'static str)>, BenchError> {
    match CPeer::HIPER.program(lab) {
        Ok(_) => Ok(SIDES.to_vec()),
        Err(BenchError::Missing(why)) => {
            sheet.report.miss(why);
            SIDES[..2].iter().for_each(|(side, _)| sheet.column(side, "not installed"));
            Ok(vec![SIDES[2]])
        }
        Err(error) => Err(error),
    }
}

pub(super) fn idle(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = IDLE_ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = available(lab, sheet)?;
    let sizes = sizes(lab, SIZES, 1, sheet)?;
    for (size, perform, select) in DOCUMENT.iter().filter(|(size, ..)| sizes.contains(size)) {
        let row = grouped(*size);
        sheet.document(&EVENTS[0], &row, "2005: select + multi_perform", perform + select);
        sheet.document(&WORK, &row, "2005: multi_perform", *perform);
        sheet.document(&WAIT, &row, "2005: select", *select);
    }
    sheet.note(&EVENTS[0], EVENT_NOTE);
    let seconds = lab.seconds().to_string();
    let measured = lab.interleave(lab.options.rounds, sides.len(), sizes.len(), |at, case| {
        let (size, side) = (sizes[case], sides[at].0);
        lab.progress(&format!("idle: {size} connections, {side}"));
        let command = client(lab, sides[at])?;
        let run = one(lab, sheet, command, size, &["--seconds", &seconds])?;
        let (row, number) = (grouped(size), |value: &Value| value.as_f64().unwrap_or(f64::NAN));
        for (phase, metrics) in run["phases"].as_array().into_iter().flatten().zip([0, 1]) {
            let each = |field: &str| number(&phase[field]) / number(&phase["events"]);
            let (wait, work) = (each("wait_us"), each("handle_us"));
            sheet.add(&EVENTS[metrics], &row, side, wait + work);
            if metrics == 0 && side != FULMAR {
                sheet.add(&WORK, &row, side, work);
                sheet.add(&WAIT, &row, side, wait);
            }
            let calls = phase["calls"].as_object().into_iter().flatten();
            let total: f64 = calls.map(|(_, count)| number(count)).sum();
            sheet.add(&CALLS[metrics], &row, side, total / number(&phase["events"]));
            let reads = phase["calls"]["recv"].as_f64().unwrap_or(0.0) / number(&phase["events"]);
            sheet.add(&READS[metrics], &row, side, reads);
            sheet.add(&PACKETS[metrics], &row, side, each("packets"));
        }
        if size > 1 {
            let us = number(&run["open_cpu_us"]) / number(&run["idle"]);
            sheet.add(&OPENING, &row, side, us);
        }
        Ok(())
    });
    let counted = match lab.installed("valgrind") {
        Ok(_) => counted(lab, sheet, &sides, &sizes),
        Err(error) => Err(error),
    };
    BenchError::all([measured, counted].into_iter().filter_map(Result::err))
}

/// One process. The server of the idle connections is new each time: a connection that waits for a
/// response stays open there when its client has ended.
fn one(
    lab: &Lab,
    sheet: &mut Sheet,
    mut command: Command,
    connections: u32,
    words: &[&str],
) -> Result<Value, BenchError> {
    let idle = connections.saturating_sub(1);
    let count = usize::try_from(idle.div_ceil(PER_ADDRESS)).unwrap_or(1).clamp(1, 2);
    let hosts = ["127.0.0.1", "127.0.0.2"];
    let cpus = &lab.cores.server;
    let (server, addresses) = BenchServer::serve(lab, &[], &hosts, cpus, Wrapper::No)?;
    let peers = addresses[..count].join(",");
    command.args(["--idle", &idle.to_string(), "--idle-peers", &peers, "--sizes", "1,16384"]);
    command.args(words);
    let (run, line) = lab.run_json(command)?;
    sheet.report.command(&line);
    server.stop()?;
    Ok(run)
}

/// User instructions of an event: the smallest number of connections, and the largest that does not
/// take minutes under valgrind.
fn counted(
    lab: &Lab,
    sheet: &mut Sheet,
    sides: &[(&str, &str)],
    sizes: &[u32],
) -> Result<(), BenchError> {
    let mut chosen: Vec<u32> = sizes.iter().copied().filter(|size| *size <= 3_001).collect();
    chosen.sort_unstable();
    chosen.dedup();
    if chosen.len() > 2 {
        chosen = vec![chosen[0], chosen[chosen.len() - 1]];
    }
    for (size, side) in chosen.iter().flat_map(|size| sides.iter().map(move |side| (*size, *side)))
    {
        lab.progress(&format!("idle: instructions, {size} connections, {}", side.0));
        let mut counts = Vec::new();
        for events in ["50", "150"] {
            let out = lab.path().join("callgrind");
            let command = callgrind(&client(lab, side)?, &out, &["steady", "*among::steady*"]);
            one(lab, sheet, command, size, &["--events", events])?;
            counts.push(instructions(&out)?);
        }
        // 100 events of each of the two sizes.
        sheet.add(&INSTRUCTIONS, &grouped(size), side.0, ((counts[1] - counts[0]) / 200.0).round());
    }
    sheet.note(&INSTRUCTIONS, "Counted by callgrind, as the difference of two run lengths.");
    Ok(())
}

pub(super) fn urls(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = URLS_ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = available(lab, sheet)?;
    let published: Vec<u32> =
        URLS_DOCUMENT.iter().map(|(alive, ..)| *alive).chain([2_000]).collect();
    let mut levels = sizes(lab, &published, 2, sheet)?;
    levels.sort_unstable();
    for (alive, lap, longest) in URLS_DOCUMENT.iter().filter(|it| levels.contains(&it.0)) {
        let (row, column) = (grouped(*alive), "2005: multi_perform");
        sheet.document(&LAP, &row, column, *lap);
        sheet.document(&EACH, &row, column, (lap / f64::from(*alive)).round());
        sheet.document(&LONGEST, &row, column, *longest);
    }
    sheet.note(&LAP, "The wait is part of it; the document times only the work after it.");
    let words: Vec<_> = levels.iter().rev().map(ToString::to_string).collect();
    if levels.is_empty() {
        return Ok(());
    }
    lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let side = sides[at].0;
        lab.progress(&format!("urls: {} transfers and fewer, {side}", words[0]));
        let mut command = client(lab, sides[at])?;
        command.args(["--alive", &words.join(","), "--laps", "200"]);
        let (run, line) = lab.run_json(command)?;
        sheet.report.command(&line);
        let found = run["levels"].as_array().cloned().unwrap_or_default();
        for (level, alive) in found.iter().rev().zip(&levels) {
            let get = |field: &str| level[field].as_f64().unwrap_or(f64::NAN);
            let (row, lap) = (grouped(*alive), get("us") / get("laps"));
            sheet.add(&LAP, &row, side, lap);
            sheet.add(&EACH, &row, side, lap / f64::from(*alive));
            sheet.add(&LONGEST, &row, side, get("max_us"));
        }
        Ok(())
    })
}

const IDLE_ABOUT: &[&str] = &[
    "A client holds N connections. All but one wait for a response that never arrives; the \
     active one delivers its body in pieces. An event is a wait, and the work until the bytes \
     are delivered.",
    "In 2005 libcurl was patched to read a single byte, so that an endless stream was always \
     ready. Here the client itself holds the other end of the active connection and sends \
     exactly one piece before each event, outside the measured time. All sides have the same \
     work, and no library is changed.",
    "The other end reads the request before it responds. Otherwise the kernel delays \
     acknowledgements, and receives would cost less.",
];
const URLS_ABOUT: &[&str] = &[
    "All transfers start at once and are active until their bodies end. In a lap, each of them \
     is sent one byte; the lap ends when all bytes are delivered. Then some of the bodies end.",
    "The client itself holds the other ends, and sends outside the measured time, so that the \
     number of readable sockets is always the same.",
];
const EVENT_NOTE: &str = "The machine of 2005 was an Athlon XP with 2,083 MHz: its curve \
    matters, not its height. The report of 2006 puts an event by curl_multi_socket and libevent \
    below 60 us, at 10,000 connections.";

const fn event(title: &'static str, unit: &'static str) -> Metric {
    lower(title, unit).rows("connections")
}
const EVENTS: [Metric; 2] = [
    event("An event of 1 byte: the wait and the work", "us per event"),
    event("An event of 16 KB: the wait and the work", "us per event"),
];
const WORK: Metric = neutral("An event of 1 byte: the work", "us per event").rows("connections");
const WAIT: Metric = neutral("An event of 1 byte: the wait", "us per event").rows("connections");
const CALLS: [Metric; 2] = [
    event("System calls of an event of 1 byte", "calls per event"),
    event("System calls of an event of 16 KB", "calls per event"),
];
const READS: [Metric; 2] = [
    neutral("Reads of an event of 1 byte", "reads per event").rows("connections"),
    neutral("Reads of an event of 16 KB", "reads per event").rows("connections"),
];
const PACKETS: [Metric; 2] = [
    neutral("Acknowledgements of an event of 1 byte", "packets per event").rows("connections"),
    neutral("Acknowledgements of an event of 16 KB", "packets per event").rows("connections"),
];
const OPENING: Metric = event("CPU to open each idle connection", "us per connection");
const INSTRUCTIONS: Metric = event("Instructions of an event of 1 byte or 16 KB", "instructions");
const LAP: Metric = lower("A byte for each active transfer", "us per lap").rows("transfers");
const EACH: Metric = neutral("A byte, by transfers", "us per transfer").rows("transfers");
const LONGEST: Metric = lower("The longest lap", "us per lap").rows("transfers");

/// Connections of the document, and the most that 20,000 descriptors allow.
const SIZES: &[u32] = &[1_001, 2_001, 3_001, 5_001, 9_001, 18_000];
/// Connections; microseconds of curl_multi_perform() and of select().
const DOCUMENT: &[(u32, f64, f64)] = &[
    (1_001, 3_504.0, 951.0),
    (2_001, 7_606.0, 1_988.0),
    (3_001, 11_045.0, 2_715.0),
    (5_001, 16_406.0, 4_024.0),
    (9_001, 32_147.0, 8_030.0),
];
/// Active transfers; microseconds of curl_multi_perform(), on average and at most.
const URLS_DOCUMENT: &[(u32, f64, f64)] = &[
    (50, 579.0, 2_351.0),
    (60, 673.0, 3_036.0),
    (70, 877.0, 5_402.0),
    (100, 1_134.0, 2_367.0),
    (150, 1_787.0, 3_025.0),
    (200, 2_112.0, 3_843.0),
    (300, 2_901.0, 5_629.0),
    (401, 3_855.0, 8_623.0),
    (500, 4_552.0, 8_409.0),
    (915, 11_700.0, 38_587.0),
];
/// The kernel's search for a free port grows steeply beyond.
const PER_ADDRESS: u32 = 9_000;
