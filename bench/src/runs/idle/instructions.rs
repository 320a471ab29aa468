//! User instructions of an event, counted by callgrind: virtual machines seldom have the counters
//! that would tell them, and these are the same on a busy machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::super::libcurl::Side;
use super::{ADDRESSES, column, prepare};
use crate::Error;
use crate::lab::{Lab, PATIENCE, Serve, find};
use crate::report::{Better, Cell, Outcome, Plot, Row, Table, grouped};

/// Adds the table, or says what is missing. The smallest number of connections, and the largest that
/// does not take too long.
pub(super) fn measure(
    lab: &Lab,
    sides: &[Side],
    sizes: &[u32],
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let Some(valgrind) = find("valgrind") else {
        outcome.missing.push("instructions per event: install valgrind".to_owned());
        return Ok(());
    };
    let mut chosen: Vec<u32> = sizes.iter().copied().filter(|size| *size <= SIZE_MAX).collect();
    chosen.sort_unstable();
    chosen.dedup();
    if chosen.len() > 2 {
        chosen = vec![chosen[0], chosen[chosen.len() - 1]];
    }
    let mut rows = Vec::new();
    for size in chosen {
        let mut cells = Vec::new();
        for side in sides {
            lab.say(&format!("idle: instructions, {size} connections, {}", side.name));
            cells.push(per_event(lab, &valgrind, side, size)?);
        }
        let name = grouped(size);
        rows.push(Row { name, at: Some(f64::from(size)), cells });
    }
    outcome.tables.push(Table {
        title: "User instructions of an event of 1 byte or 16 KB".to_owned(),
        note:
            "Counted by callgrind, as the difference of two run lengths with both sizes in equal \
               numbers; the same on a busy machine."
                .to_owned(),
        unit: "instructions per event".to_owned(),
        row_name: "connections".to_owned(),
        better: Better::Lower,
        columns: sides.iter().map(column).collect(),
        rows,
        plot: Some(Plot::Lines { axis: "connections".to_owned() }),
    });
    Ok(())
}

fn per_event(lab: &Lab, valgrind: &Path, side: &Side, size: u32) -> Result<Cell, Error> {
    let mut counted = Vec::new();
    for events in EVENTS {
        let Some(plain) = side.command(lab, "among") else {
            return Ok(Cell::of(&[], side.absent()));
        };
        let server = Serve::start(lab, &ADDRESSES, &lab.cores.server)?;
        let out = lab.path().join("callgrind");
        let mut command = Command::new(valgrind);
        command.args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=steady"]);
        command.arg("--toggle-collect=*among::steady*");
        command.arg(format!("--callgrind-out-file={}", out.display()));
        command.arg(plain.get_program()).args(plain.get_args());
        prepare(&mut command, &server, size, &["--events", &events.to_string()], lab);
        lab.client(command)?.output(PATIENCE)?;
        server.child.stop()?;
        let text = fs::read(&out).map_err(Error::io("callgrind's file"))?;
        counted.push(total(&String::from_utf8_lossy(&text)));
    }
    let (Some(few), Some(many)) = (counted[0], counted[1]) else {
        return Ok(Cell::of(&[], "no symbols to count by"));
    };
    let phases = 2.0; // one for each size of an event
    Ok(Cell::exactly(((many - few) / (EVENTS[1] - EVENTS[0]) / phases).round()))
}

/// All instructions in a callgrind file; `None` if it saw none.
fn total(text: &str) -> Option<f64> {
    let of = |line: &str| {
        line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: "))?.parse().ok()
    };
    text.lines().find_map(of).filter(|count: &f64| *count > 0.0)
}

/// Two run lengths.
const EVENTS: [f64; 2] = [50.0, 150.0];
/// Opening more takes minutes under valgrind.
const SIZE_MAX: u32 = 3_001;
