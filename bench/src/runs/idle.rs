//! One active transfer among thousands that wait (project Hiper, 2005).
//!
//! The document opened 1,001 to 9,001 connections, one of which delivered a byte at a time, and
//! timed select() and curl_multi_perform(). The work is the same here, of three sides: libcurl as it
//! was used then, libcurl as the project made it, and fulmar's client.

mod instructions;

use std::process::Command;

use serde::Deserialize;

use super::libcurl::{Side, Sides};
use super::sides::{interleave, sizes};
use crate::Error;
use crate::lab::{Lab, PATIENCE, Serve};
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table, Whose, grouped};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = Sides::hiper(lab, outcome)?.all;
    let sizes = sizes(lab, SIZES, 1, outcome)?;
    let mut found = Found::new(sides.len(), &sizes);
    let measured = interleave(lab, sides.len(), sizes.len(), |side, at| {
        let size = sizes[at];
        lab.say(&format!("idle: {size} connections, {}", sides[side].name));
        let seconds = lab.options.interval.as_secs_f64().to_string();
        let (run, line) = one(lab, &sides[side], size, &["--seconds", &seconds])?;
        outcome.command(&line);
        found.runs[side][at].push(run);
        Ok(())
    });
    outcome.tables.push(found.events(&sides, 0));
    outcome.tables.push(found.split(&sides));
    outcome.tables.push(found.events(&sides, 1));
    outcome.tables.extend([0, 1].map(|phase| found.calls(&sides, phase)));
    outcome.tables.extend(found.opening(&sides));
    let counted = instructions::measure(lab, &sides, &sizes, outcome);
    Error::all([measured, counted].into_iter().filter_map(Result::err).collect())
}

/// What one process told.
#[derive(Debug, Deserialize)]
struct Run {
    idle: f64,
    open_cpu_us: f64,
    phases: Vec<Phase>,
}

/// Events of one size.
#[derive(Debug, Deserialize)]
struct Phase {
    events: f64,
    wait_us: f64,
    handle_us: f64,
    packets: f64,
    calls: std::collections::BTreeMap<String, f64>,
}

/// Of `connections`, one is active. The server of the others is new each time: a connection that waits
/// for an answer stays with it when its client is gone.
fn one(
    lab: &Lab,
    side: &Side,
    connections: u32,
    more: &[&str],
) -> Result<(Option<Run>, String), Error> {
    let Some(mut command) = side.command(lab, "among") else { return Ok((None, String::new())) };
    let server = Serve::start(lab, &ADDRESSES, &lab.cores.server)?;
    let line = prepare(&mut command, &server, connections, more, lab);
    let text = lab.client(command)?.output(PATIENCE + lab.options.interval * 2)?;
    server.child.stop()?;
    let run = serde_json::from_str(&text);
    Ok((Some(run.map_err(Error::unreadable(&line))?), line))
}

/// Adds what a run asks for; the line as it would be typed.
fn prepare(
    command: &mut Command,
    server: &Serve,
    connections: u32,
    more: &[&str],
    lab: &Lab,
) -> String {
    let idle = connections.saturating_sub(1);
    let peers = usize::try_from(idle.div_ceil(PER_ADDRESS)).unwrap_or(1).clamp(1, ADDRESSES.len());
    let peers = server.addresses[..peers].join(",");
    command.args(["--idle", &idle.to_string(), "--idle-peers", &peers, "--sizes", READS]);
    command.args(more);
    lab.line(command)
}

fn column(side: &Side) -> Column {
    Column { name: side.name.to_owned(), whose: side.whose }
}

/// What all runs brought: by side, size and round.
struct Found {
    sizes: Vec<u32>,
    runs: Vec<Vec<Vec<Option<Run>>>>,
}

impl Found {
    fn new(sides: usize, sizes: &[u32]) -> Self {
        let empty = || sizes.iter().map(|_| Vec::new()).collect();
        Self { sizes: sizes.to_vec(), runs: (0..sides).map(|_| empty()).collect() }
    }

    fn cell(&self, side: usize, size: usize, absent: &str, of: impl Fn(&Run) -> f64) -> Cell {
        let runs = self.runs[side][size].iter().flatten().map(of);
        Cell::of(&runs.collect::<Vec<_>>(), absent)
    }

    /// A row for each number of connections.
    fn rows(&self, cells: impl Fn(usize, u32) -> Vec<Cell>) -> Vec<Row> {
        let rows = self.sizes.iter().enumerate();
        rows.map(|(at, size)| Row {
            name: grouped(*size),
            at: Some(f64::from(*size)),
            cells: cells(at, *size),
        })
        .collect()
    }

    fn table(&self, sides: &[Side], of: impl Fn(&Run) -> f64) -> Table {
        let cells = |at, _| {
            let each = sides.iter().enumerate();
            each.map(|(side, it)| self.cell(side, at, it.absent(), &of)).collect()
        };
        Table {
            title: String::new(),
            note: String::new(),
            unit: "µs per event".to_owned(),
            row_name: "connections".to_owned(),
            better: Better::Lower,
            columns: sides.iter().map(column).collect(),
            rows: self.rows(cells),
            plot: Some(Plot::Lines { axis: "connections".to_owned() }),
        }
    }

    /// A wait and the work after it; the document's figures beside those of one byte.
    fn events(&self, sides: &[Side], phase: usize) -> Table {
        let each = |run: &Run| {
            let phase = &run.phases[phase];
            (phase.wait_us + phase.handle_us) / phase.events
        };
        let mut table = self.table(sides, each);
        table.title = format!("An event of {}: the wait and the work after it", EVENTS[phase]);
        if phase == 0 {
            table.columns.insert(0, Column::document("2005: select + multi_perform"));
            table.note = "2005 was another machine (Athlon XP, 2,083 MHz): its curve is what \
                          matters, not its height. The report of 2006 puts an event by \
                          curl_multi_socket and libevent below 60 µs, at 10,000 connections."
                .to_owned();
            for (row, size) in table.rows.iter_mut().zip(&self.sizes) {
                let known = DOCUMENT.iter().find(|(connections, ..)| connections == size);
                let sum = known.map(|(_, perform, select)| Cell::exactly(perform + select));
                row.cells.insert(0, sum.unwrap_or_else(Cell::none));
            }
        }
        table
    }

    /// As the document splits it: the wait apart from the work.
    fn split(&self, sides: &[Side]) -> Table {
        let mut table = self.table(sides, |run| run.phases[0].wait_us / run.phases[0].events);
        table.title = "As the document splits it: an event of 1 byte".to_owned();
        table.note = "fulmar's turn is one call, which waits and works.".to_owned();
        (table.better, table.plot) = (Better::Neither, None);
        let then = |name| Column::document(name);
        let now = |name: &str| Column { name: name.to_owned(), whose: Whose::Beside };
        table.columns = vec![
            then("2005: multi_perform"),
            then("2005: select"),
            now("curl_multi_perform"),
            now("curl_multi_poll"),
            now("curl_multi_socket_action"),
            now("epoll_wait"),
        ];
        table.rows = self.rows(|at, size| {
            let known = DOCUMENT.iter().find(|(connections, ..)| *connections == size);
            let document = |of: fn(&(u32, f64, f64)) -> f64| {
                known.map_or_else(Cell::none, |it| Cell::exactly(of(it)))
            };
            let wait = |run: &Run| run.phases[0].wait_us / run.phases[0].events;
            let handle = |run: &Run| run.phases[0].handle_us / run.phases[0].events;
            vec![
                document(|it| it.1),
                document(|it| it.2),
                self.cell(0, at, sides[0].absent(), handle),
                self.cell(0, at, sides[0].absent(), wait),
                self.cell(1, at, sides[1].absent(), handle),
                self.cell(1, at, sides[1].absent(), wait),
            ]
        });
        table
    }

    fn calls(&self, sides: &[Side], phase: usize) -> Table {
        let all = |run: &Run| {
            let phase = &run.phases[phase];
            phase.calls.values().sum::<f64>() / phase.events
        };
        let mut table = self.table(sides, all);
        table.title = format!("System calls of an event of {}", EVENTS[phase]);
        let reads =
            |side| self.each(side, phase, |it| it.calls.get("recv").copied().unwrap_or(0.0));
        let packets = |side| self.each(side, phase, |it| it.packets);
        table.note = format!(
            "Reads for each event: {}. Acknowledgements of each that the client's kernel sends: {}.",
            told(sides, reads),
            told(sides, packets)
        );
        table.unit = "calls per event".to_owned();
        table.plot = None;
        table
    }

    /// What a side has of something, for each event in all runs.
    fn each(&self, side: usize, phase: usize, of: impl Fn(&Phase) -> f64) -> f64 {
        let phases = self.runs[side].iter().flatten().flatten().map(|run| &run.phases[phase]);
        let (sum, events) = phases
            .fold((0.0, 0.0), |(sum, events), phase| (sum + of(phase), events + phase.events));
        sum / f64::max(events, 1.0)
    }

    /// Nothing if no size has connections that wait.
    fn opening(&self, sides: &[Side]) -> Option<Table> {
        let mut table = self.table(sides, |run| run.open_cpu_us / run.idle);
        let waiting = table.rows.into_iter().zip(&self.sizes).filter(|(_, size)| **size > 1);
        table.rows = waiting.map(|(row, _)| row).collect();
        table.title = "Opening the connections that wait: processor time of the client".to_owned();
        table.note = "More than 9,000 go to two addresses: the kernel's search for a free port \
                      grows steeply beyond."
            .to_owned();
        table.unit = "µs per connection".to_owned();
        (!table.rows.is_empty()).then_some(table)
    }
}

/// Of each side that is here.
fn told(sides: &[Side], of: impl Fn(usize) -> f64) -> String {
    let each = sides.iter().enumerate().filter(|(_, side)| side.is_here());
    let each = each.map(|(at, side)| format!("{} {:.2}", side.name, of(at)));
    each.collect::<Vec<_>>().join(", ")
}

const ABOUT: &[&str] = &[
    "A client holds N connections. All but one have asked a server that never answers; the one that \
     is left delivers its body a piece at a time. Measured is what an event costs: a wait, and \
     everything until the bytes of the piece are delivered.",
    "In 2005 libcurl was patched to read a single byte, so that a stream without end was always \
     ready. Here the client itself holds the other end of the active connection and sends exactly \
     one piece before each event, outside the time that is measured. So every side has the same \
     work, and nobody's library is changed.",
    "It speaks when it is asked. Of a client that asks only after something has arrived the kernel \
     holds acknowledgements back, and its receives would cost less.",
];

/// Connections as in the document, and as many as 20,000 descriptors allow.
const SIZES: &[u32] = &[1_001, 2_001, 3_001, 5_001, 9_001, 18_000];
/// Bytes of an event, and as people say it.
const READS: &str = "1,16384";
const EVENTS: [&str; 2] = ["1 byte", "16 KB"];
/// Connections; microseconds of curl_multi_perform(), and of select().
const DOCUMENT: &[(u32, f64, f64)] = &[
    (1_001, 3_504.0, 951.0),
    (2_001, 7_606.0, 1_988.0),
    (3_001, 11_045.0, 2_715.0),
    (5_001, 16_406.0, 4_024.0),
    (9_001, 32_147.0, 8_030.0),
];
/// Beyond it the kernel's search for a port grows steeply.
const PER_ADDRESS: u32 = 9_000;
const ADDRESSES: [&str; 2] = ["127.0.0.1", "127.0.0.2"];
