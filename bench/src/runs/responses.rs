//! Four kinds of responses, call by call (libmicrohttpd, 2019).
//!
//! The document counts setsockopt() around the parts of a response, and asks that a tiny one
//! leaves in one packet. Here every call of a response is counted, and the packets that it leaves in.

mod asker;
mod servers;
mod trace;

use super::sides::interleave;
use crate::Error;
use crate::lab::{Counted, Lab, count};
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table};
use asker::Asker;
use servers::{Server, Side};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    servers::make_site(lab)?;
    let sides = servers::sides(lab, outcome)?;
    let empty = || SCENARIOS.iter().map(|_| Vec::new()).collect::<Vec<_>>();
    let mut found = Found { runs: sides.iter().map(|_| empty()).collect(), sides };
    let mut servers: Vec<Option<Server>> = found.sides.iter().map(|_| None).collect();
    let measured = interleave(lab, found.sides.len(), SCENARIOS.len(), |side, at| {
        let scenario = &SCENARIOS[at];
        if servers[side].is_none() {
            servers[side] = Server::start(lab, &found.sides[side])?;
        }
        let Some(server) = &servers[side] else { return Ok(()) };
        if found.sides[side].can(scenario) {
            lab.say(&format!("responses: {}, {}", scenario.name, found.sides[side].name()));
            outcome.command(&server.line);
            let run = one(lab, server, scenario, outcome)?;
            found.runs[side][at].push(run);
        }
        Ok(())
    });
    servers.into_iter().flatten().try_for_each(|server| server.child.stop().map(drop))?;
    if found.runs.iter().flatten().flatten().any(|run| run.counted.is_some()) {
        outcome.tables.push(found.calls());
        (0..SCENARIOS.len()).for_each(|at| outcome.tables.push(found.by_call(at)));
        outcome.tables.push(found.options());
    }
    outcome.tables.push(found.packets());
    let traced = trace::add(lab, &found.sides, outcome);
    Error::all([measured, traced].into_iter().filter_map(Result::err).collect())
}

/// What is answered.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    name: &'static str,
    target: &'static str,
    body_len: usize,
}

/// What one server did, for each response.
struct Run {
    counted: Option<Counted>,
    /// Packets with data that reached the client.
    packets: f64,
    /// setsockopt() of a connection with one response.
    options: Option<f64>,
}

/// Responses on a connection that stands, then connections with a single one.
fn one(
    lab: &Lab,
    server: &Server,
    scenario: &Scenario,
    outcome: &mut Outcome,
) -> Result<Run, Error> {
    let requests = lab.options.requests.min(REQUESTS_MAX);
    let mut asker = Asker::connect(lab, server.port)?;
    (0..WARM_UP).try_for_each(|_| asker.ask(scenario))?;
    let before = asker.packets()?;
    let counted = count(server.pid, || (0..requests).try_for_each(|_| asker.ask(scenario)))?;
    let mut packets = asker.packets()? - before;
    if counted.is_err() {
        let before = asker.packets()?;
        (0..requests).try_for_each(|_| asker.ask(scenario))?;
        packets = asker.packets()? - before;
    }
    drop(asker);
    let single = || Asker::connect(lab, server.port)?.ask(scenario);
    let connections = count(server.pid, || (0..CONNECTIONS).try_for_each(|_| single()))?;
    let options = connections.as_ref().ok().map(|counted| {
        let calls = counted.counted.calls.get("setsockopt").map_or(0.0, |call| call.calls);
        calls / f64::from(CONNECTIONS)
    });
    let each = 1.0 / f64::from(requests);
    let counted = super::counted(counted, each, outcome);
    Ok(Run { counted, packets: packets * each, options })
}

/// By side, scenario and round.
struct Found {
    sides: Vec<Side>,
    runs: Vec<Vec<Vec<Run>>>,
}

impl Found {
    fn cells(&self, at: usize, of: impl Fn(&Run) -> Option<f64>) -> impl Iterator<Item = Cell> {
        self.sides.iter().zip(&self.runs).map(move |(side, runs)| {
            let figures: Vec<_> = runs[at].iter().filter_map(&of).collect();
            Cell::of(&figures, side.absent(&SCENARIOS[at]))
        })
    }

    /// A row for each scenario.
    fn table(&self, title: &str, unit: &str, of: impl Fn(&Run) -> Option<f64>) -> Table {
        let rows = SCENARIOS.iter().enumerate().map(|(at, scenario)| Row {
            name: scenario.name.to_owned(),
            at: None,
            cells: self.cells(at, &of).collect(),
        });
        Table {
            title: title.to_owned(),
            note: String::new(),
            unit: unit.to_owned(),
            row_name: "response".to_owned(),
            better: Better::Lower,
            columns: self.sides.iter().map(Side::column).collect(),
            rows: rows.collect(),
            plot: None,
        }
    }

    fn calls(&self) -> Table {
        let of = |run: &Run| Some(hundredths(run.counted.as_ref()?.total()));
        let mut table = self.table("All system calls of a response", "calls per response", of);
        table.note =
            "One request at a time on one connection that stands, so each has a wait of its \
                      own."
                .to_owned();
        table.plot = Some(Plot::Bars);
        table
    }

    fn by_call(&self, at: usize) -> Table {
        let mut names: Vec<&String> = Vec::new();
        let counted = self.runs.iter().flat_map(|side| &side[at]);
        for name in counted.filter_map(|run| run.counted.as_ref()).flat_map(|it| it.calls.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut table = self.table("", "calls per response", |_| None);
        table.title = format!("Call by call: {}", SCENARIOS[at].name);
        (table.row_name, table.better) = ("call".to_owned(), Better::Neither);
        let rows = names.iter().map(|name| {
            let of = |run: &Run| {
                let counted = run.counted.as_ref()?;
                Some(hundredths(counted.calls.get(*name).map_or(0.0, |call| call.calls)))
            };
            Row { name: (*name).clone(), at: None, cells: self.cells(at, of).collect() }
        });
        table.rows = rows.collect();
        table.drop_rows_of_nothing();
        table.plot = Some(Plot::Stacks);
        table
    }

    /// What the document is about.
    fn options(&self) -> Table {
        let mut table = self.table(
            "setsockopt of a connection with one response",
            "calls per connection",
            |run| run.options.map(hundredths),
        );
        table.note =
            "The document's figures are those of libmicrohttpd on Linux before and after its \
                      change."
                .to_owned();
        for (name, calls) in DOCUMENT.iter().rev() {
            table.columns.insert(0, Column::document(name));
            table.rows.iter_mut().for_each(|row| row.cells.insert(0, Cell::exactly(*calls)));
        }
        table
    }

    fn packets(&self) -> Table {
        let mut table = self.table(
            "Packets with data on their way to the client",
            "packets per response",
            |run| Some(hundredths(run.packets)),
        );
        table.note =
            "As the kernel counts them on the client's connection (TCP_INFO). A packet of \
                      the loopback holds up to 64 KB."
                .to_owned();
        table
    }
}

/// Calls that come once in a thousand responses are of no response.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

const ABOUT: &[&str] = &[
    "The four scenarios of the document: continuous (ten pieces of one byte, chunked, from a producer \
     that always has the next), tiny (128 bytes), modest (64 KB), and a file of 104 KB. nginx has the \
     modest one from a file, and no producer. With its option tcp_nopush it joins head and file in \
     packets, which takes two calls more; by default it does not.",
    "One client asks, reads the whole answer, and asks again.",
];

const SCENARIOS: [Scenario; 4] = [
    Scenario { name: "continuous", target: "/continuous", body_len: 10 },
    Scenario { name: "tiny", target: "/tiny", body_len: 128 },
    Scenario { name: "modest", target: "/modest", body_len: 64 * 1024 },
    Scenario { name: "sendfile", target: "/104k", body_len: 104 * 1024 },
];
/// setsockopt() of a response on Linux, all four scenarios alike.
const DOCUMENT: &[(&str, f64)] = &[("libmicrohttpd before, 2019", 9.0), ("after", 1.0)];
/// More tell nothing new: every response is like the other.
const REQUESTS_MAX: u32 = 1_000;
const WARM_UP: u32 = 20;
const CONNECTIONS: u32 = 50;
