//! `hyper`: clients that fetch 104 KB repeatedly, each on a connection of its own (curl-loader,
//! 2007).

use super::sides::{ClientSide, SidePrograms, available};
use super::transfers::{BEST, Interval, PLAIN};
use super::{CPU, sizes};
use crate::BenchError;
use crate::lab::{CPeer, Lab};
use crate::report::{FULMAR, Metric, Sheet, grouped, higher, lower, neutral};
use crate::servers::{BenchServer, Wrapper};

pub(super) const PROGRAMS: SidePrograms =
    SidePrograms { epoll: CPeer::LIBCURL, libevent: CPeer::LIBCURL_LIBEVENT, worker: "transfers" };

const SIDES: [ClientSide; 10] = [
    ClientSide::libcurl(NO_MASK, &["--use", "no-mask"]),
    ClientSide::libcurl(PLAIN, &["--use", "plain"]),
    ClientSide::libcurl(BEST, &["--use", "best", "--buffer", "131072"]),
    ClientSide::libevent("libcurl, libevent", &["--use", "plain"]),
    ClientSide::worker(FULMAR, &[]),
    ClientSide::worker("fulmar socket_action", &["--loop", "application"]),
    ClientSide::worker("fulmar socket_action, no mask", &["--loop", "no-mask"]),
    ClientSide::library("fulmar's libcurl", &["--use", "plain"]),
    ClientSide::library("fulmar's libcurl, no mask", &["--use", "no-mask"]),
    ClientSide::library_libevent("fulmar's libcurl, libevent", &["--use", "plain"]),
];

pub(super) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sizes = sizes(lab, &[DOCUMENT_CLIENTS, 1_000, 2_000, 5_000, 8_000], 1, sheet)?;
    if sizes.contains(&DOCUMENT_CLIENTS) {
        add_document(sheet);
    }
    let sides = available(lab, sheet, &SIDES, &PROGRAMS)?;
    let measured = lab.interleave(lab.options.rounds, sides.len(), sizes.len(), |at, case| {
        let (side, clients) = (&sides[at], sizes[case]);
        lab.progress(&format!("hyper: {clients} clients, {}", side.name));
        let found = one(lab, sheet, side, clients)?;
        let row = grouped(clients);
        let rate = found.get("requests") / found.get("seconds");
        side.add(sheet, &RATE, &row, rate);
        side.add(sheet, &BANDWIDTH, &row, found.get("bytes") / found.get("seconds") / 1e6);
        side.add(sheet, &ALL_CALLS, &row, found.calls());
        side.add(sheet, &CPU.rows("clients"), &row, found.cpu_us());
        let reads = found.get("clock_reads") / found.get("requests");
        side.add(sheet, &CLOCK_EACH, &row, reads);
        if case == 0 {
            for (name, share) in found.by_name() {
                side.add(sheet, &BY_NAME, &name, share);
            }
            sheet.zeros(&BY_NAME);
        }
        Ok(())
    });
    for (row, side) in sizes.iter().flat_map(|size| sides.iter().map(|it| (grouped(*size), it))) {
        let mut median = |name| sheet.median(&RATE, &row, name);
        if let (Some(before), Some(this)) = (median(NO_MASK), median(side.name)) {
            side.add(sheet, &RATIO, &row, this / before);
        }
    }
    measured
}

/// One client against a server of its own.
fn one(
    lab: &Lab,
    sheet: &mut Sheet,
    side: &ClientSide,
    clients: u32,
) -> Result<Interval, BenchError> {
    let cpus = &lab.cores.server;
    let (server, addresses) = BenchServer::serve(lab, &[], &["127.0.0.1"], cpus, Wrapper::No)?;
    let (count, seconds) = (clients.to_string(), lab.seconds().to_string());
    let mut command = side.command(lab, &PROGRAMS)?;
    command.args(["--mode", "requests", "--clients", &count, "--seconds", &seconds]);
    command.args(["--url", &format!("http://{}/bytes/{BODY_SIZE}", addresses[0])]);
    let (found, line) = lab.run_json(side.finish(lab, command)?)?;
    server.stop()?;
    sheet.report.command(&line);
    let found = Interval(found);
    match found.get("requests") < 1.0 {
        true => {
            let why = "no response in its interval; increase --duration";
            Err(BenchError::process(&line, why))
        }
        false => Ok(found),
    }
}

/// The document's figures, with 200 clients.
fn add_document(sheet: &mut Sheet) {
    let row = grouped(DOCUMENT_CLIENTS);
    for (which, column) in DOCUMENT_COLUMNS.into_iter().enumerate() {
        let share = |counts: &[f64; 2]| counts[which] / SENDS[which];
        let calls = || DOCUMENT.iter().filter(|(name, _)| *name != CLOCK);
        let all = calls().map(|(_, counts)| share(counts)).sum();
        let rate = SENDS[which] / DOCUMENT_SECONDS;
        sheet.document(&RATE, &row, column, rate);
        sheet.document(&RATIO, &row, column, SENDS[which] / SENDS[0]);
        sheet.document(&BANDWIDTH, &row, column, rate * f64::from(BODY_SIZE) / 1e6);
        sheet.document(&ALL_CALLS, &row, column, all);
        for (name, counts) in calls() {
            sheet.document(&BY_NAME, name, column, share(counts));
        }
        for (_, counts) in DOCUMENT.iter().filter(|(name, _)| *name == CLOCK) {
            sheet.document(&CLOCK_EACH, &row, column, share(counts));
        }
    }
    sheet.note(&RATIO, "Medians. The document's change is the mask: it made 15 % more requests.");
}

const ABOUT: &[&str] = &[
    "N clients on one thread, each with a connection of its own, fetch a file of 104 KB \
     repeatedly. The author of the document found that libcurl called poll() for sockets that \
     epoll had just reported, and proposed what became curl_multi_socket_action().",
    "libcurl is measured without the mask of events, with it as its example uses epoll, with the \
     fewest calls (descriptors stay in epoll, and the buffer has 128 KB instead of 16 KB), and in \
     the loop of libevent.",
    "socket_action is the same interface of fulmar in Rust; \"fulmar's libcurl\" is the same C \
     program with fulmar's library. \"fulmar\" alone waits by itself, over epoll.",
];

const NO_MASK: &str = "libcurl, no mask";
const RATE: Metric = higher("Requests per second", "").rows("clients");
const RATIO: Metric =
    neutral("Requests per second, relative to libcurl without a mask", "x").rows("clients");
const BANDWIDTH: Metric = higher("Bandwidth", "MB/s").rows("clients");
const CLOCK_EACH: Metric = lower("Clock reads per request", "").rows("clients");
const ALL_CALLS: Metric = lower("System calls per request", "calls").rows("clients");
const BY_NAME: Metric = neutral("System calls per request, by name", "calls").rows("call");
const BODY_SIZE: u32 = 104 * 1024;
const DOCUMENT_CLIENTS: u32 = 200;
const DOCUMENT_COLUMNS: [&str; 2] = ["curl-loader 2007, before", "curl-loader 2007, after"];
const DOCUMENT_SECONDS: f64 = 100.0;
const CLOCK: &str = "gettimeofday";
/// Requests of the document's runs.
const SENDS: [f64; 2] = [27_220.0, 32_220.0];
/// Calls of the document's runs.
const DOCUMENT: &[(&str, [f64; 2])] = &[
    ("send", SENDS),
    ("recv", [240_780.0, 285_780.0]),
    ("poll", [267_001.0, 67_740.0]),
    ("epoll_ctl", [53_441.0, 63_441.0]),
    ("epoll_wait", [1_305.0, 1_601.0]),
    (CLOCK, [1_562_830.0, 1_567_157.0]),
];
