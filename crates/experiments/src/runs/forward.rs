//! Forwarded connections (HAProxy, November 2013).
//!
//! Each connection of a client brings one request, which a proxy passes on over a connection of its
//! own; all of it is closed again. The document counts the system calls of 10,000.

mod proxies;

use std::process::Command;

use super::sides::interleave;
use crate::Error;
use crate::lab::{Counted, Lab, PATIENCE, Serve, count, cpu_us};
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table, grouped};
use proxies::{Mode, Proxy, Side};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = proxies::sides(outcome);
    let clients = match lab.options.connections.is_empty() {
        true => CLIENTS.to_vec(),
        false => lab.options.connections.clone(),
    };
    let cases: Vec<_> = Mode::BOTH
        .iter()
        .flat_map(|mode| clients.iter().map(|clients| (*mode, *clients)))
        .collect();
    let origin = Serve::start(lab, &["127.0.0.1"], &lab.cores.client)?;
    let mut found = Found { sides, cases, runs: Vec::new() };
    found.runs =
        found.sides.iter().map(|_| found.cases.iter().map(|_| Vec::new()).collect()).collect();
    let measured = interleave(lab, found.sides.len(), |side| {
        one_side(lab, &origin, side, &mut found, outcome)
    });
    if found.runs.iter().flatten().flatten().any(|run| run.counted.is_some()) {
        outcome.tables.push(found.totals());
        (0..found.cases.len()).for_each(|case| outcome.tables.push(found.calls(case)));
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

/// All cases of one side: a proxy of its own, warmed up, timed, then counted.
fn one_side(
    lab: &Lab,
    origin: &Serve,
    side: usize,
    found: &mut Found,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let Some(mut proxy) = Proxy::start(lab, &found.sides[side], &origin.addresses[0])? else {
        return Ok(());
    };
    let pid = proxy.pid()?;
    outcome.command(&proxy.line);
    for (case, (mode, clients)) in found.cases.iter().enumerate() {
        if !proxy.can(*mode) {
            continue;
        }
        lab.say(&format!(
            "forward: {} connections, {}, {clients} at a time, {}",
            lab.options.requests,
            mode.name(),
            found.sides[side].name()
        ));
        let requests = lab.options.requests;
        let load = |requests| ask(lab, proxy.port(*mode), *clients, requests);
        load((requests / 10).clamp(1, WARM_UP))?;
        let before = cpu_us(pid)?;
        let line = load(requests)?;
        let cpu = (cpu_us(pid)? - before) / f64::from(requests);
        outcome.command(&line);
        let counted = count(pid, || load(requests).map(drop))?;
        let counted = super::counted(counted, 10_000.0 / f64::from(requests), outcome);
        found.runs[side][case].push(Run { cpu_us: cpu, counted });
    }
    proxy.child.stop()?;
    Ok(())
}

/// As many connections, one request on each; every one of them has to be answered.
fn ask(lab: &Lab, port: u16, clients: u32, requests: u32) -> Result<String, Error> {
    let mut command = Command::new(&lab.options.program);
    command.args(["load", "--json", "--reconnect", "-H", "Connection: close"]);
    command.args(["-c", &clients.min(requests).to_string(), "-n", &requests.to_string()]);
    command.arg(format!("http://127.0.0.1:{port}/bytes/128"));
    let line = lab.line(&command);
    let text = lab.client(command)?.output(PATIENCE)?;
    let report: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
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
            let sides = self.sides.iter().enumerate().map(|(side, it)| {
                let runs: Vec<_> = self.runs[side][case].iter().filter_map(&now).collect();
                Cell::of(&runs, it.absent(*mode))
            });
            let name = format!("{}, {}", mode.name(), at_a_time(*clients));
            Row { name, at: None, cells: document.chain(sides).collect() }
        });
        rows.collect()
    }

    fn totals(&self) -> Table {
        let sum = |run: &Run| Some(run.counted.as_ref()?.values().map(|call| call.calls).sum());
        let mut table = self.table("All system calls", self.rows(|(_, calls, _)| *calls, sum));
        table.note =
            "The document's runs had one event for each wait: they stand beside one client at \
                      a time."
                .to_owned();
        table.plot = Some(Plot::Bars);
        table
    }

    fn waste(&self) -> Table {
        let sum = |run: &Run| Some(run.counted.as_ref()?.values().map(|call| call.eagain).sum());
        let mut table = self.table(
            "Calls that found nothing to do (EAGAIN)",
            self.rows(|(name, _, errors)| if *name == "connect" { 0.0 } else { *errors }, sum),
        );
        table.note =
            "The document tells all errors; those of connect, which is always in progress, are \
                      left out."
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

    /// Call by call, in the document's order, then what it does not know.
    fn calls(&self, case: usize) -> Table {
        let (mode, clients) = self.cases[case];
        let mut names: Vec<String> =
            mode.document()[0].1.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let counted =
            || self.runs.iter().flat_map(|side| &side[case]).filter_map(|run| run.counted.as_ref());
        for name in counted().flat_map(|counted| counted.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let rows = names.into_iter().map(|name| {
            let document = mode.document().iter().map(|(_, calls)| {
                let known = calls.iter().find(|(known, ..)| *known == name);
                known.map_or_else(|| Cell::exactly(0.0), |(_, calls, _)| Cell::exactly(*calls))
            });
            let sides = self.sides.iter().enumerate().map(|(side, it)| {
                let runs = self.runs[side][case].iter().filter_map(|run| run.counted.as_ref());
                let runs: Vec<_> =
                    runs.map(|it| it.get(&name).map_or(0.0, |call| call.calls.round())).collect();
                Cell::of(&runs, it.absent(mode))
            });
            Row { name: name.clone(), at: None, cells: document.chain(sides).collect() }
        });
        let rows = rows.collect();
        let mut table =
            self.table(&format!("Call by call: {}, {}", mode.name(), at_a_time(clients)), rows);
        table.columns = self.columns(mode.document());
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
