//! One C program on `curl_multi_socket_action`, linked once: with the installed libcurl, and with
//! fulmar's library of the same name.

use std::process::Command;

use super::sides::with_fulmar_library;
use super::transfers::{CALLS_TIMED, Interval, PLAIN, RSS_EACH};
use super::{BenchScenario, CALLS, CPU, EAGAIN, INSTRUCTIONS};
use crate::BenchError;
use crate::lab::{CPeer, Lab};
use crate::loads::{callgrind, instructions};
use crate::report::{BarLimit, FULMAR, Sheet, grouped};
use crate::servers::BenchServer;

pub(super) const SCENARIOS: &[BenchScenario] = &[
    BenchScenario::new("capi-curl-200", TITLE, |lab, sheet| requests(lab, sheet, 200, 0.45)),
    BenchScenario::new("capi-curl-1000", TITLE, |lab, sheet| requests(lab, sheet, 1000, 0.28)),
    BenchScenario::new("capi-curl-8000", TITLE, |lab, sheet| requests(lab, sheet, 8000, 0.09)),
    BenchScenario::new(
        "capi-curl-sequence",
        "a C program with libcurl and fulmar's: one transfer after the other",
        sequence,
    ),
    BenchScenario::new(
        "capi-curl-memory",
        "a C program with libcurl and fulmar's: memory of transfers and handles",
        memory,
    ),
];

const TITLE: &str = "a C program with libcurl and fulmar's: 128 B, many transfers at a time";

/// The libraries. The program is the same file.
const SIDES: [&str; 2] = [PLAIN, FULMAR];

/// The command with the library of a side. Without fulmar's the scenario fails.
fn with_library(lab: &Lab, side: &str, command: Command) -> Result<Command, BenchError> {
    if side != FULMAR {
        return Ok(command);
    }
    with_fulmar_library(lab, &command).map_err(|error| match error {
        BenchError::Missing(why) => BenchError::process("capi", why),
        error => error,
    })
}

fn client(lab: &Lab, words: &[&str], urls: &[String]) -> Result<Command, BenchError> {
    let mut command = Command::new(CPeer::LIBCURL.program(lab)?);
    command.args(words);
    for url in urls {
        command.args(["--url", url]);
    }
    Ok(command)
}

fn run(
    lab: &Lab,
    sheet: &mut Sheet,
    side: &str,
    words: &[&str],
    urls: &[String],
) -> Result<Interval, BenchError> {
    let command = with_library(lab, side, client(lab, words, urls)?)?;
    let (found, line) = lab.run_json(command)?;
    sheet.report.command(&line);
    Ok(Interval(found))
}

/// The cost of a request while all transfers have a connection; system calls again while the
/// client is the bottleneck and the server has both cores.
fn requests(lab: &Lab, sheet: &mut Sheet, clients: usize, ratio: f64) -> Result<(), BenchError> {
    let row = &format!("128 B, {clients} transfers");
    sheet.limit(&CPU, row, BarLimit::at_most_times(ratio).to(PLAIN));
    sheet.limit(&CALLS, row, BarLimit::at_most(2.1));
    let (count, seconds) = (clients.to_string(), lab.seconds().to_string());
    let words = ["--mode", "requests", "--clients", &count, "--seconds", &seconds];
    let timed = lab.interleave(lab.options.rounds, SIDES.len(), 1, |at, _| {
        let server = BenchServer::one_call(lab, clients, 1, &lab.cores.server)?;
        let found = run(lab, sheet, SIDES[at], &words, &[server.url("/bytes/128")])?;
        server.stop_whole()?;
        sheet.add(&CPU, row, SIDES[at], found.cpu_us());
        sheet.add(&CALLS_TIMED, row, SIDES[at], found.calls());
        sheet.add(&EAGAIN, row, SIDES[at], found.get("eagain") / found.get("requests"));
        Ok(())
    });
    let both = lab.cores.both();
    let saturated = lab.interleave(lab.few_rounds(), SIDES.len(), 1, |at, _| {
        let server = BenchServer::one_call(lab, 0, 2, &both)?;
        let found = run(lab, sheet, SIDES[at], &words, &[server.url("/bytes/128")])?;
        server.stop()?;
        sheet.add(&CALLS, row, SIDES[at], found.calls());
        Ok(())
    });
    BenchError::all([timed, saturated].into_iter().filter_map(Result::err))
}

/// The user instructions of a transfer of 6 bytes, one at a time: the difference of two run
/// lengths.
fn sequence(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    lab.installed("valgrind")?;
    let cases = [("a new handle for each", "new", 20_000.0), ("one handle", "reused", 16_000.0)];
    for (row, _, limit) in cases {
        sheet.limit(&INSTRUCTIONS, row, BarLimit::at_most(limit));
    }
    lab.interleave(1, SIDES.len(), cases.len(), |at, case| {
        let (row, handles, _) = cases[case];
        let mut counts = Vec::new();
        for length in ["1000", "4000"] {
            let server = BenchServer::one_call(lab, 0, 1, &lab.cores.server)?;
            let words = ["--mode", "requests", "--handles", handles, "--requests", length];
            let command = client(lab, &words, &[server.url("/bytes/6")])?;
            let out = lab.path().join(format!("callgrind-{at}-{handles}-{length}"));
            let command = with_library(lab, SIDES[at], callgrind(&command, &out, &[]))?;
            let (found, line) = lab.run_json(command)?;
            sheet.report.command(&line);
            server.stop()?;
            counts.push((instructions(&out)?, Interval(found).get("requests")));
        }
        let each = (counts[1].0 - counts[0].0) / (counts[1].1 - counts[0].1);
        sheet.add(&INSTRUCTIONS, row, SIDES[at], each);
        Ok(())
    })
}

/// Transfers without a response, and easy handles that were used alone and are kept.
fn memory(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let cases = [("waiting", 9_000_u32, 2_048.0), ("performed", 200, 13.0 * 1024.0)];
    let row = |(mode, count, _): (&str, u32, f64)| match mode {
        "waiting" => format!("{} waiting transfers", grouped(count)),
        _ => format!("{} performed handles", grouped(count)),
    };
    for case in cases {
        sheet.limit(&RSS_EACH, &row(case), BarLimit::at_most(case.2));
    }
    lab.interleave(lab.few_rounds(), SIDES.len(), cases.len(), |at, case| {
        let (mode, count, _) = cases[case];
        let server = BenchServer::one_call(lab, 0, 1, &lab.cores.server)?;
        let target = if mode == "waiting" { "/idle" } else { "/bytes/6" };
        let clients = count.to_string();
        let words = ["--mode", mode, "--clients", &clients];
        let found = run(lab, sheet, SIDES[at], &words, &[server.url(target)])?;
        server.stop()?;
        sheet.add(&RSS_EACH, &row(cases[case]), SIDES[at], found.growth() / f64::from(count));
        Ok(())
    })
}
