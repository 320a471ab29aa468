//! `urls`: many active transfers (project Hiper, 6 December 2005).
//!
//! The document fetched 2,000 URLs, timed curl_multi_perform() by the number of active transfers,
//! and summarized the run.

use serde_json::Value;

use super::hiper::{PROGRAMS, SIDES};
use super::sides::{ClientSide, available};
use super::sizes;
use crate::BenchError;
use crate::lab::Lab;
use crate::report::{Metric, Sheet, grouped, higher, lower, neutral};

pub(super) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = available(lab, sheet, &SIDES.map(|(side, _)| side), &PROGRAMS)?;
    let published: Vec<u32> = DOCUMENT.iter().map(|(alive, ..)| *alive).chain([2_000]).collect();
    let mut levels = sizes(lab, &published, 2, sheet)?;
    levels.sort_unstable();
    if levels.is_empty() {
        return Ok(());
    }
    add_document(sheet, &levels);
    let words: Vec<_> = levels.iter().rev().map(ToString::to_string).collect();
    lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let side = &sides[at];
        lab.progress(&format!("urls: {} transfers and fewer, {}", words[0], side.name));
        let mut command = side.command(lab, &PROGRAMS)?;
        command.args(["--alive", &words.join(","), "--laps", "200"]);
        let (run, line) = lab.run_json(side.finish(lab, command)?)?;
        sheet.report.command(&line);
        let found = run["levels"].as_array().cloned().unwrap_or_default();
        for (level, alive) in found.iter().rev().zip(&levels) {
            let get = |field: &str| level[field].as_f64().unwrap_or(f64::NAN);
            let (row, alive) = (grouped(*alive), f64::from(*alive));
            let lap = (get("wait_us") + get("handle_us")) / get("laps");
            side.add(sheet, &LAP, &row, lap);
            side.add(sheet, &EACH, &row, lap / alive);
            side.add(sheet, &RATE, &row, alive * 1e6 / lap);
            side.add(sheet, &LONGEST, &row, get("max_us"));
        }
        summarize(sheet, side, &found);
        Ok(())
    })
}

fn add_document(sheet: &mut Sheet, levels: &[u32]) {
    for (alive, lap, longest) in DOCUMENT.iter().filter(|it| levels.contains(&it.0)) {
        let (row, column) = (grouped(*alive), "2005: multi_perform");
        sheet.document(&LAP, &row, column, *lap);
        sheet.document(&EACH, &row, column, (lap / f64::from(*alive)).round());
        sheet.document(&LONGEST, &row, column, *longest);
    }
    sheet.note(&LAP, "The wait is part of it; the document times only the work after it.");
    for (row, value) in SUMMARY_DOCUMENT {
        sheet.document(&SUMMARY, row, "2005: select + multi_perform", *value);
    }
    sheet.note(&SUMMARY, SUMMARY_NOTE);
}

/// The summary of all laps of a run, in the document's terms.
fn summarize(sheet: &mut Sheet, side: &ClientSide, levels: &[Value]) {
    let get = |level: &Value, field: &str| level[field].as_f64().unwrap_or(f64::NAN);
    let sum = |field: &str| levels.iter().map(|level| get(level, field)).sum::<f64>();
    let by_alive = |field: &str| {
        let each = levels.iter().map(|level| get(level, "alive") * get(level, field));
        each.sum::<f64>() / sum(field)
    };
    let delivered: f64 = levels.iter().map(|it| get(it, "alive") * get(it, "laps")).sum();
    let transfers = levels.iter().map(|level| get(level, "alive")).fold(0.0, f64::max);
    let most = levels.iter().map(|level| get(level, "delivered_max")).fold(0.0, f64::max);
    let (paused, active) = (sum("wait_us"), sum("handle_us"));
    let figures = [
        (paused + active) / 1e3,
        paused / 1e3,
        active / 1e3,
        active / transfers,
        sum("actions"),
        by_alive("actions"),
        active / sum("actions"),
        sum("turns"),
        by_alive("turns"),
        delivered / (sum("turns") - sum("empty")),
        most,
        sum("empty"),
    ];
    for ((row, _), figure) in SUMMARY_DOCUMENT.iter().zip(figures) {
        side.add(sheet, &SUMMARY, row, figure);
    }
}

const ABOUT: &[&str] = &[
    "All transfers start at once and are active until their bodies end. In a lap, each of them \
     is sent one byte; the lap ends when all bytes are delivered. Then some of the bodies end.",
    "The client itself holds the other ends, and sends outside the measured time, so that the \
     number of readable sockets is always the same.",
    "The sides are those of the scenario `idle`.",
];
const SUMMARY_NOTE: &str = "As the document's of 6 December. Paused is the time of the waits, \
    active that of the work after them. A call is curl_multi_perform, \
    curl_multi_socket_action or, where fulmar waits itself, a turn of its loop. Of the document's \
    2,000 transfers 824 delivered data, by 115,585 us for each; here all do.";

const LAP: Metric = lower("A byte for each active transfer", "us per lap").rows("transfers");
const EACH: Metric = neutral("A byte, by transfers", "us per transfer").rows("transfers");
const RATE: Metric = higher("Rate of deliveries of a byte", "per second").rows("transfers");
const LONGEST: Metric = lower("The longest lap", "us per lap").rows("transfers");
const SUMMARY: Metric = neutral("Summary of the run", "").rows("figure");

/// Active transfers; microseconds of curl_multi_perform(), on average and at most.
const DOCUMENT: &[(u32, f64, f64)] = &[
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
/// The rows of the summary, and the document's figures.
const SUMMARY_DOCUMENT: &[(&str, f64)] = &[
    ("total time, ms", 108_149.0),
    ("paused, ms", 12_907.0),
    ("active, ms", 95_242.0),
    ("active by transfers, us", 47_621.0),
    ("calls", 46_684.0),
    ("transfers alive at a call", 206.0),
    ("time of a call, us", 2_040.0),
    ("waits", 45_267.0),
    ("transfers alive at a wait", 193.0),
    ("readable after a wait", 172.0),
    ("most readable after a wait", 549.0),
    ("waits without data", 0.0),
];
