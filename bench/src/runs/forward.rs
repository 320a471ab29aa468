//! Forwarded connections (HAProxy, November 2013).
//!
//! Each connection of a client brings one request, which a proxy passes on over a connection of its
//! own; all of it is closed again. The document counts the system calls of 10,000.

mod proxies;

use std::process::Command;

use super::sides::{interleave, sizes};
use crate::Error;
use crate::lab::{Counted, Lab, PATIENCE, Serve, count, cpu_us};
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table, Whose, grouped};
use proxies::{Mode, Proxy, Side};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = proxies::sides(outcome);
    let clients = sizes(lab, CLIENTS, 2, outcome)?;
    let cases: Vec<_> = Mode::BOTH
        .iter()
        .flat_map(|mode| clients.iter().map(|clients| (*mode, *clients)))
        .collect();
    let origin = Serve::start(lab, &["127.0.0.1"], &lab.cores.client)?;
    let mut proxies: Vec<Option<Proxy>> = sides.iter().map(|_| None).collect();
    let runs = sides.iter().map(|_| cases.iter().map(|_| Vec::new()).collect()).collect();
    let mut found = Found { sides, cases, runs };
    let measured = interleave(lab, found.sides.len(), found.cases.len(), |side, case| {
        if proxies[side].is_none() {
            proxies[side] = Proxy::start(lab, &found.sides[side], &origin.addresses[0])?;
        }
        let Some(proxy) = &proxies[side] else { return Ok(()) };
        let (mode, clients) = found.cases[case];
        if proxy.can(mode) {
            let requests = lab.options.requests;
            let (name, mode_name) = (found.sides[side].name(), mode.name());
            lab.say(&format!(
                "forward: {requests} connections, {mode_name}, {clients} at a time, {name}"
            ));
            found.runs[side][case].push(one(lab, proxy, mode, clients, outcome)?);
        }
        Ok(())
    });
    proxies.into_iter().flatten().try_for_each(|proxy| proxy.child.stop().map(drop))?;
    if found.all().any(|run| run.counted.is_some()) {
        outcome.tables.push(found.totals());
        (0..found.cases.len()).for_each(|case| outcome.tables.push(found.calls(case)));
        outcome.tables.extend(found.operations());
        outcome.tables.push(found.waste());
    }
    outcome.tables.push(found.times());
    measured
}

/// What one run of one proxy brought: processor time of a connection, calls of 10,000.
struct Run {
    cpu_us: f64,
    counted: Option<Counted>,
}

/// By side, case and round.
struct Found {
    sides: Vec<Side>,
    cases: Vec<(Mode, u32)>,
    runs: Vec<Vec<Vec<Run>>>,
}

/// A proxy in one case: warmed up, timed, then counted.
fn one(
    lab: &Lab,
    proxy: &Proxy,
    mode: Mode,
    clients: u32,
    outcome: &mut Outcome,
) -> Result<Run, Error> {
    outcome.command(&proxy.line);
    let requests = lab.options.requests;
    let load = |requests| ask(lab, proxy.port(mode), clients, requests);
    load((requests / 10).clamp(1, WARM_UP))?;
    let before = cpu_us(proxy.pid)?;
    let line = load(requests)?;
    let cpu_us = (cpu_us(proxy.pid)? - before) / f64::from(requests);
    outcome.command(&line);
    let counted = count(proxy.pid, || load(requests).map(drop))?;
    let counted = super::counted(counted, 10_000.0 / f64::from(requests), outcome);
    Ok(Run { cpu_us, counted })
}

/// As many connections, one request on each; every one of them has to be answered.
fn ask(lab: &Lab, port: u16, clients: u32, requests: u32) -> Result<String, Error> {
    let mut command = Command::new(&lab.options.fulmar);
    command.args(["load", "--json", "--reconnect", "-H", "Connection: close"]);
    command.args(["-c", &clients.min(requests).to_string(), "-n", &requests.to_string()]);
    command.arg(format!("http://127.0.0.1:{port}/bytes/128"));
    let line = lab.line(&command);
    let text = lab.client(command)?.output(PATIENCE)?;
    let report = serde_json::from_str::<serde_json::Value>(&text);
    let report = report.map_err(Error::unreadable(&line))?;
    let answered = report["status"]["200"].as_u64().unwrap_or(0);
    match answered == u64::from(requests) {
        true => Ok(line),
        false => {
            let why = format!("{answered} of {requests} requests were answered with 200");
            Err(Error::Process { command: line, why })
        }
    }
}

impl Found {
    fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().flatten().flatten()
    }

    fn columns(&self, document: Document) -> Vec<Column> {
        let then = document.iter().map(|(name, _)| Column::document(name));
        then.chain(self.sides.iter().map(Side::column)).collect()
    }

    fn table(&self, title: &str, rows: Vec<Row>) -> Table {
        Table {
            title: title.to_owned(),
            note: String::new(),
            unit: "calls for 10,000 connections".to_owned(),
            row_name: "connections".to_owned(),
            better: Better::Lower,
            columns: self.columns(Mode::Tcp.document()),
            rows,
            plot: None,
        }
    }

    /// A row for each case: what the document tells of one client at a time, and all sides.
    fn rows(&self, then: impl Fn(&Then) -> f64, now: impl Fn(&Run) -> Option<f64>) -> Vec<Row> {
        let cases = self.cases.iter().enumerate();
        let rows = cases.map(|(case, (mode, clients))| {
            let document = mode.document().iter().map(|(_, calls)| match clients {
                1 => Cell::exactly(calls.iter().map(&then).sum()),
                _ => Cell::none(),
            });
            let sides = 0..self.sides.len();
            let sides = sides.map(|side| self.cell(side, case, &now));
            Row {
                name: case_name(*mode, *clients),
                at: None,
                cells: document.chain(sides).collect(),
            }
        });
        rows.collect()
    }

    fn cell(&self, side: usize, case: usize, of: impl Fn(&Run) -> Option<f64>) -> Cell {
        let runs: Vec<_> = self.runs[side][case].iter().filter_map(of).collect();
        Cell::of(&runs, self.sides[side].absent(self.cases[case].0))
    }

    /// Of calls and of operations, since many of these are one of those.
    fn totals(&self) -> Table {
        let sum = |run: &Run| Some(run.counted.as_ref()?.total());
        let mut table = self.table("All system calls", self.rows(|(_, calls, _)| *calls, sum));
        table.note =
            "The document's runs had one event for each wait: they stand beside one client at \
                      a time."
                .to_owned();
        let both = |run: &Run| {
            let counted = run.counted.as_ref()?;
            Some(counted.total() + counted.operations())
        };
        if self.has_operations() {
            table.note += " What fulmar does in a ring (io_uring) takes one call for many operations. \
                           The last column counts each of them as well.";
            let ours = self.sides.iter().position(|side| matches!(side, Side::Fulmar));
            let ours = ours.unwrap_or_default();
            let name = "fulmar, calls and operations".to_owned();
            table.columns.push(Column { name, whose: Whose::Beside });
            let cells = (0..self.cases.len()).map(|case| self.cell(ours, case, both));
            table.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell));
        }
        table.plot = Some(Plot::Bars);
        table
    }

    fn has_operations(&self) -> bool {
        self.all().any(|run| run.counted.as_ref().is_some_and(|it| it.operations() > 0.0))
    }

    /// What was done in rings, by operation; `None` if nothing was.
    fn operations(&self) -> Option<Table> {
        let mut names: Vec<&String> = Vec::new();
        let counted = || self.all().filter_map(|run| run.counted.as_ref());
        for name in counted().flat_map(|counted| counted.ring.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut table =
            self.table("Operations in rings (io_uring), which are no calls", Vec::new());
        table.note =
            "An operation in a ring does what a call of this name does. They are handed over \
                      in lists, by io_uring_enter, which is among the calls above."
                .to_owned();
        table.unit = "operations for 10,000 connections".to_owned();
        (table.row_name, table.better) = ("operation".to_owned(), Better::Neither);
        let cases = self.cases.iter().enumerate();
        let places =
            cases.flat_map(|(case, _)| (0..self.sides.len()).map(move |side| (case, side)));
        let places: Vec<_> = places
            .filter(|&(case, side)| {
                let counted = self.runs[side][case].iter().filter_map(|run| run.counted.as_ref());
                counted.map(Counted::operations).any(|operations| operations > 0.0)
            })
            .collect();
        let column = |&(case, side): &(usize, usize)| {
            let (mode, clients) = self.cases[case];
            let name = format!("{}: {}", self.sides[side].name(), case_name(mode, clients));
            Column { name, whose: Whose::Beside }
        };
        table.columns = places.iter().map(column).collect();
        let rows = names.iter().map(|name| {
            let of = |run: &Run| {
                let counted = run.counted.as_ref()?;
                Some(counted.ring.get(*name).map_or(0.0, |it| it.calls.round()))
            };
            let cells = places.iter().map(|&(case, side)| self.cell(side, case, of));
            Row { name: (*name).clone(), at: None, cells: cells.collect() }
        });
        table.rows = rows.collect();
        (!names.is_empty()).then_some(table)
    }

    fn waste(&self) -> Table {
        let sum = |run: &Run| Some(run.counted.as_ref()?.in_vain());
        let mut table = self.table(
            "Calls that found nothing to do (EAGAIN)",
            self.rows(|(name, _, errors)| if *name == "connect" { 0.0 } else { *errors }, sum),
        );
        table.note = "Operations in rings are among them. The document tells all errors; those of \
                      connect, which is always in progress, are left out. fulmar's are first reads of \
                      new connections, before it is told that they have sent anything: a right one \
                      saves a wait, and where they are wrong, one connection in 256 has one."
            .to_owned();
        table
    }

    fn times(&self) -> Table {
        let mut table =
            self.table("Processor time of the proxy", self.rows(|_| 0.0, |run| Some(run.cpu_us)));
        table.columns.drain(..Mode::Tcp.document().len());
        table.rows.iter_mut().for_each(|row| drop(row.cells.drain(..Mode::Tcp.document().len())));
        table.note = "In runs of their own, in which nothing is counted.".to_owned();
        table.unit = "µs per connection".to_owned();
        table.plot = Some(Plot::Bars);
        table
    }

    /// Call by call, in the document's order, then what it does not know. It speaks of one client.
    fn calls(&self, case: usize) -> Table {
        let (mode, clients) = self.cases[case];
        let document: Document = if clients == 1 { mode.document() } else { &[] };
        let mut names: Vec<String> =
            mode.document()[0].1.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let counted =
            || self.runs.iter().flat_map(|side| &side[case]).filter_map(|run| run.counted.as_ref());
        for name in counted().flat_map(|counted| counted.calls.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let rows = names.into_iter().map(|name| {
            let then = document.iter().map(|(_, calls)| {
                let known = calls.iter().find(|(known, ..)| *known == name);
                known.map_or_else(|| Cell::exactly(0.0), |(_, calls, _)| Cell::exactly(*calls))
            });
            let of = |run: &Run| {
                let counted = run.counted.as_ref()?;
                Some(counted.calls.get(&name).map_or(0.0, |call| call.calls.round()))
            };
            let sides = (0..self.sides.len()).map(|side| self.cell(side, case, of));
            let cells = then.chain(sides).collect();
            Row { name: name.clone(), at: None, cells }
        });
        let rows = rows.collect();
        let mut table = self.table(&format!("Call by call: {}", case_name(mode, clients)), rows);
        table.drop_rows_of_nothing();
        table.columns = self.columns(document);
        if table.rows.iter().any(|row| row.name == "clock_gettime") {
            table.note =
                "clock_gettime is a system call where a program asks for the processor time \
                          of its thread, which the vDSO does not know."
                    .to_owned();
        }
        table.row_name = "call".to_owned();
        table.better = Better::Neither;
        table.plot = Some(Plot::Stacks);
        table
    }
}

fn case_name(mode: Mode, clients: u32) -> String {
    format!("{}, {}", mode.name(), at_a_time(clients))
}

fn at_a_time(clients: u32) -> String {
    match clients {
        1 => "one client".to_owned(),
        clients => format!("{} clients", grouped(clients)),
    }
}

const ABOUT: &[&str] = &[
    "A client opens a connection, asks for 128 bytes, and the connection ends with the answer. A proxy \
     between it and the server opens one of its own for each. In 2013 a change to HAProxy's poller was \
     argued for by the system calls of 10,000 such connections, in TCP mode and in HTTP mode, before \
     and after it.",
    "fulmar and HAProxy read one and the same configuration file; nginx has the same in its own words. \
     Each has one thread on a core of its own; clients and server share the other. Calls are counted \
     in the kernel, for all of them in the same way.",
];

/// Clients at a time: 2013's runs had one event for each wait, as one client has.
const CLIENTS: &[u32] = &[1, 64];
/// Connections before anything is counted: tables and pools have their size then.
const WARM_UP: u32 = 500;

/// A call, how often it was made, and how often with an error.
type Then = (&'static str, f64, f64);
type Document = &'static [(&'static str, &'static [Then])];

/// `strace -c` of HAProxy 1.5-dev, before and after the change, TCP mode.
const DOCUMENT_TCP: Document = &[
    (
        "HAProxy 2013, before",
        &[
            ("epoll_wait", 60_000.0, 1.0),
            ("shutdown", 20_000.0, 0.0),
            ("connect", 10_000.0, 10_000.0),
            ("sendto", 29_998.0, 9_998.0),
            ("epoll_ctl", 49_993.0, 0.0),
            ("recvfrom", 50_004.0, 20_002.0),
            ("close", 20_005.0, 0.0),
            ("accept4", 20_001.0, 10_001.0),
            ("setsockopt", 20_002.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
    (
        "HAProxy 2013, after",
        &[
            ("epoll_wait", 50_012.0, 1.0),
            ("shutdown", 20_000.0, 0.0),
            ("connect", 10_005.0, 10_003.0),
            ("sendto", 29_996.0, 9_996.0),
            ("epoll_ctl", 40_000.0, 0.0),
            ("recvfrom", 40_013.0, 10_013.0),
            ("close", 20_005.0, 0.0),
            ("accept4", 20_001.0, 10_001.0),
            ("setsockopt", 20_002.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
];

/// The same in HTTP mode.
const DOCUMENT_HTTP: Document = &[
    (
        "HAProxy 2013, before",
        &[
            ("epoll_wait", 60_006.0, 1.0),
            ("sendto", 30_000.0, 10_000.0),
            ("accept4", 20_001.0, 10_001.0),
            ("connect", 10_000.0, 10_000.0),
            ("close", 20_005.0, 0.0),
            ("recvfrom", 30_002.0, 10_002.0),
            ("epoll_ctl", 30_005.0, 0.0),
            ("shutdown", 10_000.0, 0.0),
            ("setsockopt", 20_003.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
    (
        "HAProxy 2013, after",
        &[
            ("epoll_wait", 50_008.0, 1.0),
            ("sendto", 30_000.0, 10_000.0),
            ("accept4", 20_001.0, 10_001.0),
            ("connect", 10_000.0, 10_000.0),
            ("close", 20_005.0, 0.0),
            ("recvfrom", 20_001.0, 1.0),
            ("epoll_ctl", 20_003.0, 0.0),
            ("shutdown", 10_000.0, 0.0),
            ("setsockopt", 20_003.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
];
