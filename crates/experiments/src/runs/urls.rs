//! Many URLs at once, by the number of transfers that are alive (project Hiper, 2005).
//!
//! The document fetched 2,000 URLs and timed curl_multi_perform() by how many of them were not
//! done, almost all of which were readable each time, a byte at a time. Here all of them are.

use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::libcurl::Sides;
use super::sides::interleave;
use crate::Error;
use crate::lab::Lab;
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table, grouped};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = Sides::hiper(lab, outcome)?;
    let mut levels = match lab.options.connections.is_empty() {
        true => DOCUMENT.iter().map(|(alive, _)| *alive).chain([MOST]).collect(),
        false => lab.options.connections.clone(),
    };
    levels.sort_unstable_by(|a, b| b.cmp(a));
    levels.dedup();
    let mut runs: Vec<Vec<Run>> = sides.all.iter().map(|_| Vec::new()).collect();
    interleave(lab, sides.all.len(), |side| {
        let Some(command) = sides.all[side].command(lab, "among") else { return Ok(()) };
        lab.say(&format!("urls: {} transfers and fewer, {}", levels[0], sides.all[side].name));
        let (run, line) = one(lab, command, &levels)?;
        outcome.command(&line);
        runs[side].push(run);
        Ok(())
    })?;
    for per_transfer in [false, true] {
        outcome.tables.push(table(&sides, &levels, &runs, per_transfer));
    }
    Ok(())
}

/// What one process told.
#[derive(Debug, Deserialize)]
struct Run {
    levels: Vec<Level>,
}

#[derive(Debug, Deserialize)]
struct Level {
    laps: f64,
    us: f64,
}

fn one(lab: &Lab, mut command: Command, levels: &[u32]) -> Result<(Run, String), Error> {
    let words: Vec<_> = levels.iter().map(ToString::to_string).collect();
    command.args(["--alive", &words.join(","), "--laps", LAPS]);
    let line = lab.line(&command);
    let text = lab.client(command)?.output(RUN_TIMEOUT)?;
    let run = serde_json::from_str(&text);
    Ok((run.map_err(Error::unreadable(&line))?, line))
}

fn table(sides: &Sides, levels: &[u32], runs: &[Vec<Run>], per_transfer: bool) -> Table {
    let rows = levels.iter().enumerate().rev().map(|(at, alive)| {
        let by = if per_transfer { f64::from(*alive) } else { 1.0 };
        let known = DOCUMENT.iter().find(|(known, _)| known == alive);
        let then = known.map_or_else(Cell::none, |(_, us)| Cell::exactly((us / by).round()));
        let now = sides.all.iter().zip(runs).map(|(side, runs)| {
            let laps = runs.iter().filter_map(|run| run.levels.get(at));
            let us: Vec<_> = laps.map(|level| level.us / level.laps / by).collect();
            Cell::of(&us, side.absent())
        });
        let cells = std::iter::once(then).chain(now).collect();
        Row { name: grouped(*alive), at: Some(f64::from(*alive)), cells }
    });
    let mut columns = vec![Column::document("2005: multi_perform")];
    columns.extend(sides.columns());
    Table {
        title: match per_transfer {
            false => "A byte for each transfer that is alive".to_owned(),
            true => "The same, for each of them".to_owned(),
        },
        note: match per_transfer {
            false => "The wait is part of it; the document times only the work after it. In 2005 \
                      about nine in ten were readable each time."
                .to_owned(),
            true => String::new(),
        },
        unit: if per_transfer { "µs per transfer" } else { "µs per lap" }.to_owned(),
        row_name: "transfers alive".to_owned(),
        better: Better::Lower,
        columns,
        rows: rows.collect(),
        plot: (!per_transfer).then(|| Plot::Lines { axis: "transfers alive".to_owned() }),
    }
}

const ABOUT: &[&str] = &[
    "All transfers are started at once and are alive for as long as their bodies go on. In a lap, each \
     of them is sent one byte; measured is how long it takes until all bytes are delivered. Then \
     some of the bodies end, and fewer are alive.",
    "The client itself holds the other ends, and sends outside the time that is measured, so that the \
     number of those that are readable is no matter of chance.",
];

/// Transfers alive, and microseconds of curl_multi_perform().
const DOCUMENT: &[(u32, f64)] = &[
    (50, 579.0),
    (60, 673.0),
    (70, 877.0),
    (100, 1_134.0),
    (150, 1_787.0),
    (200, 2_112.0),
    (300, 2_901.0),
    (401, 3_855.0),
    (500, 4_552.0),
    (915, 11_700.0),
];
/// As many as were started then.
const MOST: u32 = 2_000;
const LAPS: &str = "200";
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
