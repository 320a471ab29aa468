//! `client-*`: clients with many transfers, fulmar's beside libcurl, against a server that sends
//! each response in one call.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{BenchScenario, CALLS, CPU, EAGAIN, INSTRUCTIONS};
use crate::BenchError;
use crate::lab::{CPeer, END_TIMEOUT, Lab, json, last};
use crate::loads::{callgrind, instructions};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, grouped, lower, neutral};
use crate::servers::{BenchServer, NginxServer, Wrapper, make_key};

pub(super) const SCENARIOS: &[BenchScenario] = &[
    BenchScenario::new("client-128-200", "client: 128 B beside libcurl", |lab, sheet| {
        sheet.limit(&INSTRUCTIONS, "128 B, 200 transfers", BarLimit::at_most(3000.0));
        small(lab, sheet, 200, 1.0 / 3.0)?;
        for side in [SIDES[0], SIDES[2]] {
            let each = counted(lab, sheet, side)?;
            sheet.add(&INSTRUCTIONS, "128 B, 200 transfers", side.0, each);
        }
        Ok(())
    }),
    BenchScenario::new("client-128-1000", "client: 128 B beside libcurl", |lab, sheet| {
        small(lab, sheet, 1000, 1.0 / 6.0)
    }),
    BenchScenario::new("client-128-8000", "client: 128 B beside libcurl", |lab, sheet| {
        small(lab, sheet, 8000, 1.0 / 20.0)
    }),
    BenchScenario::new("client-104k-200", "client: 104 KB beside libcurl", |lab, sheet| {
        let row = "104 KB, 200 transfers";
        sheet.limit(&CPU, row, BarLimit::at_most_times(0.6).to(PLAIN));
        sheet.limit(&CALLS, row, BarLimit::at_most(2.1));
        sheet.limit(&EAGAIN, row, BarLimit::at_most(0.0));
        requests(lab, sheet, row, 200, "/bytes/106496")
    }),
    BenchScenario::new(
        "client-http2-100",
        "client: 100 streams of an HTTP/2 connection beside libcurl",
        http2,
    ),
    BenchScenario::new(
        "client-waiting-18000",
        "client: opening and memory of waiting transfers",
        waiting,
    ),
    BenchScenario::new("client-idle-pooled", "client: memory of idle pooled connections", pooled),
];

/// The sides of `client-*`, the use of libcurl in each, and its buffer.
const SIDES: [(&str, &[&str]); 3] =
    [(PLAIN, &["--use", "plain"]), (BEST, &["--use", "best"]), (FULMAR, &[])];

/// The client of a side. bench/README.md describes its options and its report.
fn client(lab: &Lab, (side, how): (&str, &[&str]), words: &[&str]) -> Result<Command, BenchError> {
    let mut command = match side {
        FULMAR => lab.worker("transfers"),
        _ => Command::new(CPeer::LIBCURL.program(lab)?),
    };
    command.args(how).args(words);
    Ok(command)
}

fn small(lab: &Lab, sheet: &mut Sheet, clients: usize, ratio: f64) -> Result<(), BenchError> {
    let row = format!("128 B, {clients} transfers");
    sheet.limit(&CPU, &row, BarLimit::at_most_times(ratio).to(PLAIN));
    sheet.limit(&CPU_TO_BEST, &row, BarLimit::at_most_times(0.5).to(BEST));
    sheet.limit(&CALLS, &row, BarLimit::at_most(2.05));
    requests(lab, sheet, &row, clients, "/bytes/128")
}

/// The cost of a request while all clients have a connection; system calls again while the client
/// is the bottleneck and the server has both cores.
fn requests(
    lab: &Lab,
    sheet: &mut Sheet,
    row: &str,
    clients: usize,
    target: &str,
) -> Result<(), BenchError> {
    sheet.limit(&ALLOCATIONS, row, BarLimit::at_most(0.0));
    sheet.limit(&CLOCK_READS, row, BarLimit::at_most(1.0));
    let (count, seconds) = (clients.to_string(), lab.seconds().to_string());
    let words = ["--mode", "requests", "--clients", &count, "--seconds", &seconds, "--url"];
    let run = |sheet: &mut Sheet, at: usize, server: &BenchServer| {
        let mut command = client(lab, SIDES[at], &words)?;
        command.arg(server.url(target));
        let (found, line) = lab.run_json(command)?;
        sheet.report.command(&line);
        Ok::<_, BenchError>(Interval(found))
    };
    let timed = lab.interleave(lab.options.rounds, SIDES.len(), 1, |at, _| {
        let server = BenchServer::one_call(lab, clients, 1, &lab.cores.server)?;
        let (found, side) = (run(sheet, at, &server)?, SIDES[at].0);
        server.stop_whole()?;
        sheet.add(&CPU, row, side, found.cpu_us());
        if row.starts_with("128 B") && side != PLAIN {
            sheet.add(&CPU_TO_BEST, row, side, found.cpu_us());
        }
        sheet.add(&CALLS_TIMED, row, side, found.calls());
        sheet.add(&EAGAIN, row, side, found.get("eagain") / found.get("requests"));
        sheet.add(&ALLOCATIONS, row, side, found.get("allocations") / found.get("requests"));
        sheet.add(&CLOCK_READS, row, side, found.get("clock_reads") / found.get("turns"));
        Ok(())
    });
    let both = lab.cores.both();
    let saturated = lab.interleave(lab.few_rounds(), SIDES.len(), 1, |at, _| {
        let server = BenchServer::one_call(lab, 0, 2, &both)?;
        let found = run(sheet, at, &server)?;
        server.stop()?;
        sheet.add(&CALLS, row, SIDES[at].0, found.calls());
        Ok(())
    });
    BenchError::all([timed, saturated].into_iter().filter_map(Result::err))
}

/// 100 streams of one connection. The server is fulmar's: it spends the least time on a response,
/// so that it leaves the client the most work. System calls are counted after everything else of
/// the server's core: then the responses to all outstanding requests are ready at a time.
fn http2(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let row = "128 B, 100 streams";
    sheet.limit(&CPU, row, BarLimit::at_most_times(0.12).to(PLAIN));
    sheet.limit(&CALLS, row, BarLimit::at_most(0.1));
    let seconds = lab.seconds().to_string();
    let words = ["--mode", "requests", "--protocol", "http2", "--clients", "100"];
    let run = |sheet: &mut Sheet, at: usize, is_last: bool| {
        let server = BenchServer::http2(lab, FULMAR, None, Wrapper::No)?;
        let mut command = client(lab, SIDES[at], &words)?;
        command.args(["--seconds", &seconds, "--url", &server.url("/tiny")]);
        let (command, cpus) = match is_last {
            true => (last(&command), &lab.cores.server),
            false => (command, &lab.cores.client),
        };
        let line = lab.line(&command);
        sheet.report.command(&line);
        let found = json(&lab.start(command, cpus)?.output(END_TIMEOUT)?, &line)?;
        server.stop()?;
        let found = Interval(found);
        // The interval ends between the body and the end of a response.
        let odd = found.get("bytes") - 128.0 * found.get("requests");
        match odd.abs() <= 128.0 * 100.0 {
            true => Ok(found),
            false => Err(BenchError::process(&line, "responses do not have 128 bytes")),
        }
    };
    let timed = lab.interleave(lab.options.rounds, SIDES.len(), 1, |at, _| {
        let (found, side) = (run(sheet, at, false)?, SIDES[at].0);
        sheet.add(&CPU, row, side, found.cpu_us());
        sheet.add(&CALLS_TIMED, row, side, found.calls());
        sheet.add(&ALLOCATIONS, row, side, found.get("allocations") / found.get("requests"));
        sheet.add(&CLOCK_READS, row, side, found.get("clock_reads") / found.get("turns"));
        Ok(())
    });
    let saturated = lab.interleave(lab.few_rounds(), SIDES.len(), 1, |at, _| {
        let found = run(sheet, at, true)?;
        sheet.add(&CALLS, row, SIDES[at].0, found.calls());
        Ok(())
    });
    BenchError::all([timed, saturated].into_iter().filter_map(Result::err))
}

/// The user instructions of a transfer of 128 B, among 200.
pub(super) fn instructions_of_fulmar(lab: &Lab, sheet: &mut Sheet) -> Result<f64, BenchError> {
    counted(lab, sheet, SIDES[2])
}

/// The same of any side, as the difference of two run lengths.
fn counted(lab: &Lab, sheet: &mut Sheet, side: (&str, &[&str])) -> Result<f64, BenchError> {
    lab.installed("valgrind")?;
    let mut counts = Vec::new();
    for length in ["2000", "8000"] {
        let server = BenchServer::one_call(lab, 200, 1, &lab.cores.server)?;
        let words = ["--mode", "requests", "--clients", "200", "--requests", length, "--url"];
        let mut command = client(lab, side, &words)?;
        command.arg(server.url("/bytes/128"));
        let out = lab.path().join(format!("callgrind-{length}"));
        let (found, line) = lab.run_json(callgrind(&command, &out, &[]))?;
        sheet.report.command(&line);
        server.stop()?;
        counts.push((instructions(&out)?, Interval(found).get("requests")));
    }
    Ok((counts[1].0 - counts[0].0) / (counts[1].1 - counts[0].1))
}

/// Transfers without a response: the cost of opening one, and its memory.
fn waiting(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let sizes = [4_500_u32, 9_000, 18_000];
    for size in sizes {
        sheet.limit(&OPENING, &grouped(size), BarLimit::at_most(45.0));
        sheet.limit(&RSS_EACH, &grouped(size), BarLimit::at_most(768.0));
    }
    let sides = [SIDES[0], SIDES[2]];
    let result = lab.interleave(lab.few_rounds(), sides.len(), sizes.len(), |at, case| {
        let (server, size) = (BenchServer::one_call(lab, 0, 1, &lab.cores.server)?, sizes[case]);
        let clients = size.to_string();
        let mut command = client(lab, sides[at], &["--mode", "waiting", "--clients", &clients])?;
        for address in ["127.0.0.1", "127.0.0.2"] {
            command.args(["--url", &format!("http://{address}:{}/idle", server.port)]);
        }
        let (found, line) = lab.run_json(command)?;
        sheet.report.command(&line);
        server.stop()?;
        let (found, row, side) = (Interval(found), grouped(size), sides[at].0);
        let us = found.get("cpu_user_us") + found.get("cpu_system_us");
        sheet.add(&OPENING, &row, side, us / f64::from(size));
        sheet.add(&RSS_EACH, &row, side, found.growth() / f64::from(size));
        Ok(())
    });
    let row = "18,000 by 4,500";
    sheet.limit(&LINEAR, row, BarLimit::at_most(1.25));
    for (side, _) in sides {
        let mut each = |size| sheet.median(&OPENING, &grouped(size), side);
        if let (Some(few), Some(many)) = (each(sizes[0]), each(sizes[2])) {
            sheet.add(&LINEAR, row, side, many / few);
        }
    }
    result
}

/// Connections that have had a response and wait for another transfer; with TLS behind nginx.
fn pooled(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let cases = [("8,000", 8_000_usize, 384.0), ("4,000 with TLS", 4_000, 4_096.0)];
    for (row, _, limit) in cases {
        sheet.limit(&RSS_EACH, row, BarLimit::at_most(limit));
    }
    let key = make_key(lab, "P-256")?;
    let certificate = key.with_extension("crt");
    let sides = [SIDES[0], SIDES[2]];
    lab.interleave(lab.few_rounds(), sides.len(), cases.len(), |at, case| {
        let (row, count, _) = cases[case];
        let server = BenchServer::one_call(lab, count, 1, &lab.cores.server)?;
        let clients = count.to_string();
        let mut command = client(lab, sides[at], &["--mode", "pooled", "--clients", &clients])?;
        let front = match case {
            0 => None,
            _ => Some(front(lab, server.port, &key)?),
        };
        if front.is_some() {
            command.arg("--cacert").arg(&certificate);
        }
        command.args(["--url", &front.as_ref().unwrap_or(&server).url("/bytes/128")]);
        let (found, line) = lab.run_json(command)?;
        sheet.report.command(&line);
        front.map_or(Ok(()), BenchServer::stop)?;
        server.stop()?;
        sheet.add(&RSS_EACH, row, sides[at].0, Interval(found).growth() / count as f64);
        Ok(())
    })
}

fn front(lab: &Lab, upstream: u16, key: &Path) -> Result<BenchServer, BenchError> {
    let wrapper = Wrapper::No;
    NginxServer { key: Some(key), upstream: Some(upstream), wrapper, ..NginxServer::default() }
        .start(lab)
}

/// What a client reports of its interval.
pub(super) struct Interval(pub(super) Value);

impl Interval {
    pub(super) fn get(&self, field: &str) -> f64 {
        self.0[field].as_f64().unwrap_or(f64::NAN)
    }

    pub(super) fn cpu_us(&self) -> f64 {
        (self.get("cpu_user_us") + self.get("cpu_system_us")) / self.get("requests")
    }

    /// System calls of a request, by name.
    pub(super) fn by_name(&self) -> Vec<(String, f64)> {
        let calls = self.0["syscalls"].as_object().into_iter().flatten();
        let each = |count: &Value| count.as_f64().unwrap_or(0.0) / self.get("requests");
        calls.map(|(name, count)| (name.clone(), each(count))).collect()
    }

    pub(super) fn calls(&self) -> f64 {
        self.by_name().iter().map(|(_, share)| share).sum()
    }

    /// The memory that was added in the interval.
    pub(super) fn growth(&self) -> f64 {
        self.get("rss_bytes") - self.get("rss_before_bytes")
    }
}

pub(super) const PLAIN: &str = "libcurl";
pub(super) const BEST: &str = "libcurl, at its best";
const CPU_TO_BEST: Metric = lower("CPU per request, libcurl at its best", "us");
pub(super) const CALLS_TIMED: Metric = neutral("System calls per request, as timed", "calls");
const ALLOCATIONS: Metric = lower("Allocations per request", "");
const CLOCK_READS: Metric = lower("Clock reads per turn of the event loop", "");
const OPENING: Metric = lower("CPU to open each transfer", "us").rows("waiting transfers");
pub(super) const RSS_EACH: Metric = lower("RSS of each", "B").rows("connections");
const LINEAR: Metric = lower("CPU to open each transfer, relative", "x");
