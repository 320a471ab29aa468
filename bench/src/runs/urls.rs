//! Many URLs at once, by the number of transfers that are alive (project Hiper, 2005).
//!
//! The document fetched 2,000 URLs and timed curl_multi_perform() by how many of them were not
//! done, almost all of which were readable each time, a byte at a time. Here all of them are.

use std::process::Command;

use serde::Deserialize;

use super::libcurl::Sides;
use super::sides::{interleave, sizes};
use crate::Error;
use crate::lab::{Lab, PATIENCE};
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table, grouped};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = Sides::hiper(lab, outcome)?;
    let document: Vec<u32> = DOCUMENT.iter().map(|(alive, ..)| *alive).chain([MOST]).collect();
    let mut levels = sizes(lab, &document, 2, outcome)?;
    if levels.is_empty() {
        return Ok(());
    }
    levels.sort_unstable_by(|a, b| b.cmp(a));
    let mut runs: Vec<Vec<Run>> = sides.all.iter().map(|_| Vec::new()).collect();
    let measured = interleave(lab, sides.all.len(), 1, |side, _| {
        let Some(command) = sides.all[side].command(lab, "among") else { return Ok(()) };
        lab.say(&format!("urls: {} transfers and fewer, {}", levels[0], sides.all[side].name));
        let (run, line) = one(lab, command, &levels)?;
        outcome.command(&line);
        runs[side].push(run);
        Ok(())
    });
    let figures = [Figure::Lap, Figure::Transfer, Figure::Longest];
    outcome.tables.extend(figures.map(|figure| table(&sides, &levels, &runs, figure)));
    measured
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
    max_us: f64,
}

/// What the document tells of each number of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// How long a lap takes.
    Lap,
    /// Its part for each transfer that is alive.
    Transfer,
    /// The longest of all laps.
    Longest,
}

fn one(lab: &Lab, mut command: Command, levels: &[u32]) -> Result<(Run, String), Error> {
    let words: Vec<_> = levels.iter().map(ToString::to_string).collect();
    command.args(["--alive", &words.join(","), "--laps", LAPS]);
    let line = lab.line(&command);
    let text = lab.client(command)?.output(PATIENCE)?;
    let run = serde_json::from_str(&text);
    Ok((run.map_err(Error::unreadable(&line))?, line))
}

impl Figure {
    fn title(self) -> &'static str {
        match self {
            Self::Lap => "A byte for each transfer that is alive",
            Self::Transfer => "The same, for each of them",
            Self::Longest => "The longest lap",
        }
    }

    fn note(self) -> &'static str {
        match self {
            Self::Lap => {
                "The wait is part of it; the document times only the work after it. In 2005 about \
                 nine in ten were readable each time."
            }
            Self::Transfer => "The same figures, divided: they are told, and not compared again.",
            Self::Longest => "Whatever else the machine did meanwhile is part of it.",
        }
    }

    fn unit(self) -> &'static str {
        if self == Self::Transfer { "µs per transfer" } else { "µs per lap" }
    }

    /// Of the document.
    fn then(self, &(alive, lap, longest): &(u32, f64, f64)) -> f64 {
        match self {
            Self::Lap => lap,
            Self::Transfer => (lap / f64::from(alive)).round(),
            Self::Longest => longest,
        }
    }

    fn now(self, alive: u32, level: &Level) -> f64 {
        match self {
            Self::Lap => level.us / level.laps,
            Self::Transfer => level.us / level.laps / f64::from(alive),
            Self::Longest => level.max_us,
        }
    }
}

fn table(sides: &Sides, levels: &[u32], runs: &[Vec<Run>], figure: Figure) -> Table {
    let rows = levels.iter().enumerate().rev().map(|(at, &alive)| {
        let known = DOCUMENT.iter().find(|(known, ..)| *known == alive);
        let then = known.map_or_else(Cell::none, |known| Cell::exactly(figure.then(known)));
        let now = sides.all.iter().zip(runs).map(|(side, runs)| {
            let levels = runs.iter().filter_map(|run| run.levels.get(at));
            let figures: Vec<_> = levels.map(|level| figure.now(alive, level)).collect();
            Cell::of(&figures, side.absent())
        });
        let cells = std::iter::once(then).chain(now).collect();
        Row { name: grouped(alive), at: Some(f64::from(alive)), cells }
    });
    let mut columns = vec![Column::document("2005: multi_perform")];
    columns.extend(sides.columns());
    Table {
        title: figure.title().to_owned(),
        note: figure.note().to_owned(),
        unit: figure.unit().to_owned(),
        row_name: "transfers alive".to_owned(),
        better: if figure == Figure::Transfer { Better::Neither } else { Better::Lower },
        columns,
        rows: rows.collect(),
        plot: (figure == Figure::Lap).then(|| Plot::Lines { axis: "transfers alive".to_owned() }),
    }
}

const ABOUT: &[&str] = &[
    "All transfers are started at once and are alive for as long as their bodies go on. In a lap, each \
     of them is sent one byte; measured is how long it takes until all bytes are delivered. Then \
     some of the bodies end, and fewer are alive.",
    "The client itself holds the other ends, and sends outside the time that is measured, so that the \
     number of those that are readable is no matter of chance.",
];

/// Transfers alive; microseconds of curl_multi_perform(): on average, and at most.
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
/// As many as were started then.
const MOST: u32 = 2_000;
const LAPS: &str = "200";
