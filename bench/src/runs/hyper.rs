//! Clients that fetch 104 KB again and again (curl-loader, 2007).
//!
//! The document ran 200 clients for 100 seconds and told the system calls for each send(): libcurl
//! asked poll() ten times about sockets that epoll had just called ready, and the clock 57 times.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::libcurl::{Side, Sides};
use super::sides::{interleave, sizes};
use crate::Error;
use crate::lab::{Lab, PATIENCE, Serve};
use crate::report::{Better, Cell, Column, Outcome, Plot, Row, Table, grouped};

pub(super) fn run(lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    outcome.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = Sides::hyper(lab, outcome)?;
    let sizes = sizes(lab, SIZES, 1, outcome)?;
    if sizes.is_empty() {
        return Ok(());
    }
    let empty = || sizes.iter().map(|_| Vec::new()).collect::<Vec<_>>();
    let mut found = Found { runs: sides.all.iter().map(|_| empty()).collect(), sizes, sides };
    let (count, cases) = (found.sides.all.len(), found.sizes.len());
    let measured = interleave(lab, count, cases, |side, at| {
        let clients = found.sizes[at];
        lab.say(&format!("hyper: {clients} clients, {}", found.sides.all[side].name));
        if let Some((run, line)) = one(lab, &found.sides.all[side], clients)? {
            outcome.command(&line);
            found.runs[side][at].push(run);
        }
        Ok(())
    });
    let tables = [found.total(), found.by_call(), found.time(), found.clock_reads()];
    outcome.tables.extend(tables);
    measured
}

/// What one process told of its interval.
#[derive(Debug, Deserialize)]
struct Run {
    requests: f64,
    cpu_user_us: f64,
    cpu_system_us: f64,
    clock_reads: f64,
    syscalls: BTreeMap<String, f64>,
}

fn one(lab: &Lab, side: &Side, clients: u32) -> Result<Option<(Run, String)>, Error> {
    let Some(mut command) = side.command(lab, "transfers") else { return Ok(None) };
    let server = Serve::start(lab, &["127.0.0.1"], &lab.cores.server)?;
    command.args(["--mode", "requests", "--clients", &clients.to_string()]);
    command.args(["--seconds", &lab.options.interval.as_secs_f64().to_string()]);
    command.args(["--url", &format!("http://{}/bytes/{BODY}", server.addresses[0])]);
    let line = lab.line(&command);
    let text = lab.client(command)?.output(PATIENCE + lab.options.interval * 2)?;
    server.child.stop()?;
    let run: Run = serde_json::from_str(&text).map_err(Error::unreadable(&line))?;
    match run.requests > 0.0 {
        true => Ok(Some((run, line))),
        false => {
            let why =
                "not one request was answered in its interval; give it more time (--duration)";
            Err(Error::Process { command: line, why: why.to_owned() })
        }
    }
}

struct Found {
    sizes: Vec<u32>,
    sides: Sides,
    runs: Vec<Vec<Vec<Run>>>,
}

impl Found {
    fn cells(&self, size: usize, of: impl Fn(&Run) -> f64) -> impl Iterator<Item = Cell> {
        self.sides.all.iter().zip(&self.runs).map(move |(side, runs)| {
            let figures: Vec<_> = runs[size].iter().map(&of).collect();
            Cell::of(&figures, side.absent())
        })
    }

    /// A row for each number of clients; what the document tells stands beside 200.
    fn table(&self, title: &str, then: Option<[f64; 2]>, of: impl Fn(&Run) -> f64) -> Table {
        let rows = self.sizes.iter().enumerate().map(|(at, clients)| {
            let known = then.filter(|_| *clients == DOCUMENT_CLIENTS);
            let document = then.iter().flatten().enumerate().map(|(which, _)| {
                known.map_or_else(Cell::none, |known| Cell::exactly(known[which]))
            });
            let cells = document.chain(self.cells(at, &of)).collect();
            Row { name: grouped(*clients), at: Some(f64::from(*clients)), cells }
        });
        let document = then.iter().flatten().zip(COLUMNS).map(|(_, name)| Column::document(name));
        Table {
            title: title.to_owned(),
            note: String::new(),
            unit: "calls per request".to_owned(),
            row_name: "clients".to_owned(),
            better: Better::Lower,
            columns: document.chain(self.sides.columns()).collect(),
            rows: rows.collect(),
            plot: None,
        }
    }

    fn total(&self) -> Table {
        let all = [0, 1].map(|which| {
            let calls = DOCUMENT.iter().filter(|(name, ..)| *name != CLOCK);
            calls.map(|(_, counts)| counts[which]).sum::<f64>() / SENDS[which]
        });
        let of = |run: &Run| run.syscalls.values().sum::<f64>() / run.requests;
        let mut table = self.table("All system calls of a request", Some(all), of);
        table.note =
            "libcurl's are counted by functions that stand before those of the C library, \
                      fulmar's by its ledger."
                .to_owned();
        table.plot = Some(Plot::Bars);
        table
    }

    /// As the document has it: relative to the number of requests.
    fn by_call(&self) -> Table {
        let at = self.sizes.iter().position(|size| *size == DOCUMENT_CLIENTS).unwrap_or(0);
        let mut names: Vec<String> = DOCUMENT
            .iter()
            .filter(|(name, _)| *name != CLOCK)
            .map(|(name, _)| (*name).to_owned())
            .collect();
        for name in self.runs.iter().flat_map(|side| &side[at]).flat_map(|run| run.syscalls.keys())
        {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let clients = self.sizes.get(at).copied().unwrap_or(0);
        let title = format!("Call by call: {} clients", grouped(clients));
        let mut table = self.table(&title, Some([0.0; 2]), |_| 0.0);
        let rows = names.into_iter().map(|name| {
            let known = DOCUMENT.iter().find(|(known, _)| *known == name);
            let then = (0..2).map(|which| {
                known.map_or_else(
                    || Cell::exactly(0.0),
                    |(_, calls)| {
                        Cell::exactly((calls[which] / SENDS[which] * 100.0).round() / 100.0)
                    },
                )
            });
            let of = |run: &Run| run.syscalls.get(&name).copied().unwrap_or(0.0) / run.requests;
            let cells = then.chain(self.cells(at, of)).collect();
            Row { name: name.clone(), at: None, cells }
        });
        table.rows = rows.collect();
        table.drop_rows_of_nothing();
        table.note = "The document's runs had 200 clients.".to_owned();
        (table.row_name, table.better) = ("call".to_owned(), Better::Neither);
        table.plot = Some(Plot::Stacks);
        table
    }

    fn time(&self) -> Table {
        let of = |run: &Run| (run.cpu_user_us + run.cpu_system_us) / run.requests;
        let mut table = self.table("Processor time of the client", None, of);
        table.unit = "µs per request".to_owned();
        table.plot = Some(Plot::Lines { axis: "clients".to_owned() });
        table
    }

    fn clock_reads(&self) -> Table {
        let reads = DOCUMENT.iter().find(|(name, _)| *name == CLOCK);
        let reads = reads.map(|(_, counts)| [0, 1].map(|which| counts[which] / SENDS[which]));
        let mut table =
            self.table("Reads of the clock", reads, |run| run.clock_reads / run.requests);
        table.note = "No system call any more, but no less often.".to_owned();
        table.unit = "reads per request".to_owned();
        table
    }
}

const ABOUT: &[&str] = &[
    "N clients on one thread, each with a connection of its own, fetch a file of 104 KB, and again as \
     soon as they have it. The document's author found libcurl asking poll() about sockets that epoll \
     had just told of, and proposed what became curl_multi_socket_action().",
    "libcurl is measured twice: as its example uses epoll, with a buffer of 16 KB as it is by default; \
     and with the least calls, where descriptors stay in epoll and the buffer has 128 KB, so that one \
     read may bring a file.",
];

/// Clients that the document speaks of.
const SIZES: &[u32] = &[200, 1_000, 2_000, 5_000, 8_000];
const DOCUMENT_CLIENTS: u32 = 200;
/// 104 KB.
const BODY: u32 = 104 * 1024;
const COLUMNS: [&str; 2] = ["curl-loader 2007, before", "curl-loader 2007, after"];
const CLOCK: &str = "gettimeofday";
/// Requests of each of the document's runs.
const SENDS: [f64; 2] = [27_220.0, 32_220.0];
/// Calls of each of the document's runs of 100 seconds.
const DOCUMENT: &[(&str, [f64; 2])] = &[
    ("send", SENDS),
    ("recv", [240_780.0, 285_780.0]),
    ("poll", [267_001.0, 67_740.0]),
    ("epoll_ctl", [53_441.0, 63_441.0]),
    ("epoll_wait", [1_305.0, 1_601.0]),
    (CLOCK, [1_562_830.0, 1_567_157.0]),
];
