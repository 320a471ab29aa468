//! `idle`: one active transfer among idle ones (project Hiper, 2005), and `event-systems`: the same
//! in several loops.
//!
//! The document opened 1,001 to 9,001 connections, one of which delivered a byte at a time, and
//! timed select() and curl_multi_perform(). Here libcurl is used as it was then, and as the project
//! made it, and fulmar's client and library do the same work.

use std::process::Command;

use serde_json::Value;

use super::sides::{ClientSide, SidePrograms, available};
use super::{BenchScenario, sizes};
use crate::BenchError;
use crate::lab::{CPeer, Lab};
use crate::loads::{callgrind, instructions};
use crate::report::{FULMAR, Metric, Sheet, grouped, higher, lower, neutral};
use crate::servers::{BenchServer, Wrapper};

pub(super) const SCENARIOS: &[BenchScenario] = &[BenchScenario::new(
    "event-systems",
    "an event among N connections, in each event loop",
    event_systems,
)];

/// The programs of `idle`, `urls` and `event-systems`.
pub(super) const PROGRAMS: SidePrograms =
    SidePrograms { epoll: CPeer::HIPER, libevent: CPeer::HIPER_LIBEVENT, worker: "among" };

pub(super) const PERFORM: &str = "libcurl multi_perform";

/// The sides of `idle` and `urls`. Instructions are counted of those with `true`.
pub(super) const SIDES: [(ClientSide, bool); 11] = [
    (ClientSide::libcurl(PERFORM, &["--use", "perform"]), true),
    (ClientSide::libcurl("libcurl multi_socket", &["--use", "socket"]), true),
    (ClientSide::libcurl("libcurl multi_socket, no mask", &["--use", "no-mask"]), false),
    (ClientSide::libevent("libcurl, libevent", &["--use", "socket"]), false),
    (ClientSide::worker(FULMAR, &[]), true),
    (ClientSide::worker("fulmar socket_action", &["--loop", "application"]), true),
    (ClientSide::worker("fulmar socket_action, no mask", &["--loop", "no-mask"]), false),
    (ClientSide::library("fulmar's libcurl multi_perform", &["--use", "perform"]), false),
    (ClientSide::library("fulmar's libcurl multi_socket", &["--use", "socket"]), true),
    (ClientSide::library("fulmar's libcurl multi_socket, no mask", &["--use", "no-mask"]), false),
    (ClientSide::library_libevent("fulmar's libcurl, libevent", &["--use", "socket"]), false),
];

/// The sides of `event-systems`.
const LOOPS: [ClientSide; 9] = [
    ClientSide::libcurl("libcurl, poll", &["--use", "perform"]),
    ClientSide::libcurl("libcurl, epoll", &["--use", "socket"]),
    ClientSide::libevent("libcurl, libevent", &["--use", "socket"]),
    ClientSide::worker(FULMAR, &[]),
    ClientSide::worker("fulmar, level-triggered epoll", &["--loop", "level"]),
    ClientSide::worker("fulmar, poll", &["--loop", "poll"]),
    ClientSide::worker("fulmar, ring for every list", &["--loop", "ring:1"]),
    ClientSide::worker("fulmar, the application's epoll", &["--loop", "application"]),
    ClientSide::library_libevent("fulmar's libcurl, libevent", &["--use", "socket"]),
];

pub(super) fn idle(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = IDLE_ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = available(lab, sheet, &SIDES.map(|(side, _)| side), &PROGRAMS)?;
    let sizes = sizes(lab, SIZES, 1, sheet)?;
    add_document(sheet, &sizes);
    let seconds = lab.seconds().to_string();
    let measured = lab.interleave(lab.options.rounds, sides.len(), sizes.len(), |at, case| {
        let (size, side) = (sizes[case], &sides[at]);
        lab.progress(&format!("idle: {size} connections, {}", side.name));
        let command = side.command(lab, &PROGRAMS)?;
        let words = ["--sizes", "1,16384", "--seconds", &seconds];
        let run = one(lab, sheet, side, command, size, &words)?;
        let row = grouped(size);
        for (phase, which) in run["phases"].as_array().into_iter().flatten().zip([0, 1]) {
            add_phase(sheet, side, &row, phase, which);
        }
        if size > 1 {
            let us = number(&run["open_cpu_us"]) / number(&run["idle"]);
            side.add(sheet, &OPENING, &row, us);
        }
        Ok(())
    });
    for (row, side) in sizes.iter().flat_map(|size| sides.iter().map(|it| (grouped(*size), it))) {
        let mut median = |name| sheet.median(&EVENTS[0], &row, name);
        if let (Some(all), Some(this)) = (median(PERFORM), median(side.name)) {
            side.add(sheet, &RATIO, &row, all / this);
        }
    }
    let counted = match lab.installed("valgrind") {
        Ok(_) => counted(lab, sheet, &sides, &sizes),
        Err(error) => Err(error),
    };
    BenchError::all([measured, counted].into_iter().filter_map(Result::err))
}

/// The figures of the document for these numbers of connections.
fn add_document(sheet: &mut Sheet, sizes: &[u32]) {
    let (both, row) = ("2005: select + multi_perform", grouped(ALONE.0));
    if sizes.contains(&ALONE.0) {
        sheet.document(&EVENTS[0], &row, both, ALONE.1);
        sheet.document(&RATE, &row, both, (1e6 / ALONE.1).round());
    }
    for (size, perform, select) in DOCUMENT.iter().filter(|(size, ..)| sizes.contains(size)) {
        let (row, total) = (grouped(*size), perform + select);
        sheet.document(&EVENTS[0], &row, both, total);
        sheet.document(&RATE, &row, both, (1e6 / total).round());
        sheet.document(&WORK, &row, "2005: multi_perform", *perform);
        sheet.document(&WAIT, &row, "2005: select", *select);
    }
    sheet.note(&EVENTS[0], EVENT_NOTE);
    sheet.note(&RATE, RATE_NOTE);
    sheet.note(&RATIO, "The time of libcurl multi_perform by that of each side: medians.");
}

/// The events of one size: 1 byte, or 16 KB.
fn add_phase(sheet: &mut Sheet, side: &ClientSide, row: &str, phase: &Value, which: usize) {
    let each = |field: &str| number(&phase[field]) / number(&phase["events"]);
    let (wait, work) = (each("wait_us"), each("handle_us"));
    side.add(sheet, &EVENTS[which], row, wait + work);
    if which == 0 {
        side.add(sheet, &WORK, row, work);
        side.add(sheet, &WAIT, row, wait);
        side.add(sheet, &RATE, row, 1e6 / (wait + work));
    } else {
        side.add(sheet, &BANDWIDTH, row, number(&phase["size"]) / (wait + work));
    }
    let calls = phase["calls"].as_object().into_iter().flatten();
    let total: f64 = calls.map(|(_, count)| number(count)).sum();
    side.add(sheet, &CALLS[which], row, total / number(&phase["events"]));
    let reads = phase["calls"]["recv"].as_f64().unwrap_or(0.0) / number(&phase["events"]);
    side.add(sheet, &READS[which], row, reads);
    side.add(sheet, &PACKETS[which], row, each("packets"));
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The time of an event of 1 byte by the number of connections, as the benchmark of libevent draws
/// it for event systems.
fn event_systems(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = LOOPS_ABOUT.iter().map(|&text| text.to_owned()).collect();
    let sides = available(lab, sheet, &LOOPS, &PROGRAMS)?;
    let sizes = sizes(lab, LOOP_SIZES, 1, sheet)?;
    let seconds = lab.seconds().to_string();
    lab.interleave(lab.options.rounds, sides.len(), sizes.len(), |at, case| {
        let (size, side) = (sizes[case], &sides[at]);
        lab.progress(&format!("event-systems: {size} connections, {}", side.name));
        let command = side.command(lab, &PROGRAMS)?;
        let words = ["--sizes", "1", "--seconds", &seconds];
        let run = one(lab, sheet, side, command, size, &words)?;
        let (row, phase) = (grouped(size), &run["phases"][0]);
        let each = |field: &str| number(&phase[field]) / number(&phase["events"]);
        side.add(sheet, &LOOP_EVENT, &row, each("wait_us") + each("handle_us"));
        let calls = phase["calls"].as_object().into_iter().flatten();
        let total: f64 = calls.map(|(_, count)| number(count)).sum();
        side.add(sheet, &LOOP_CALLS, &row, total / number(&phase["events"]));
        Ok(())
    })
}

/// One process. The server of the idle connections is new each time: a connection that waits for a
/// response stays open there when its client has ended.
fn one(
    lab: &Lab,
    sheet: &mut Sheet,
    side: &ClientSide,
    mut command: Command,
    connections: u32,
    words: &[&str],
) -> Result<Value, BenchError> {
    let idle = connections.saturating_sub(1);
    let count = usize::try_from(idle.div_ceil(PER_ADDRESS)).unwrap_or(1).clamp(1, 2);
    let hosts = ["127.0.0.1", "127.0.0.2"];
    let cpus = &lab.cores.server;
    let (server, addresses) = BenchServer::serve(lab, &[], &hosts, cpus, Wrapper::No)?;
    let peers = addresses[..count].join(",");
    command.args(["--idle", &idle.to_string(), "--idle-peers", &peers]).args(words);
    let (run, line) = lab.run_json(side.finish(lab, command)?)?;
    sheet.report.command(&line);
    server.stop()?;
    Ok(run)
}

/// User instructions of an event: the smallest number of connections, and the largest that does not
/// take minutes under valgrind.
fn counted(
    lab: &Lab,
    sheet: &mut Sheet,
    sides: &[ClientSide],
    sizes: &[u32],
) -> Result<(), BenchError> {
    let mut chosen: Vec<u32> = sizes.iter().copied().filter(|size| *size <= 3_001).collect();
    chosen.sort_unstable();
    chosen.dedup();
    if chosen.len() > 2 {
        chosen = vec![chosen[0], chosen[chosen.len() - 1]];
    }
    let is_counted = |side: &&ClientSide| SIDES.iter().any(|(it, on)| *on && it.name == side.name);
    let sides: Vec<_> = sides.iter().filter(is_counted).collect();
    for (size, side) in chosen.iter().flat_map(|size| sides.iter().map(move |side| (*size, *side)))
    {
        lab.progress(&format!("idle: instructions, {size} connections, {}", side.name));
        let mut counts = Vec::new();
        for events in ["50", "150"] {
            let out = lab.path().join("callgrind");
            let words = ["--sizes", "1,16384", "--events", events];
            let command = side.command(lab, &PROGRAMS)?;
            let command = callgrind(&command, &out, &["steady", "*among::steady*"]);
            one(lab, sheet, side, command, size, &words)?;
            counts.push(instructions(&out)?);
        }
        // 100 events of each of the two sizes.
        side.add(sheet, &INSTRUCTIONS, &grouped(size), ((counts[1] - counts[0]) / 200.0).round());
    }
    sheet.note(&INSTRUCTIONS, "Counted by callgrind, as the difference of two run lengths.");
    Ok(())
}

const IDLE_ABOUT: &[&str] = &[
    "A client holds N connections. All but one wait for a response that never arrives; the \
     active one delivers its body in pieces. An event is a wait, and the work until the bytes \
     are delivered.",
    "In 2005 libcurl was patched to read a single byte, so that an endless stream was always \
     ready. Here the client itself holds the other end of the active connection and sends \
     exactly one piece before each event, outside the measured time. All sides have the same \
     work, and no library is changed.",
    "The other end reads the request before it responds. Otherwise the kernel delays \
     acknowledgements, and receives would cost less.",
    "multi_socket is curl_multi_socket_action over epoll, with the events of a descriptor as its \
     mask. Without a mask the library finds them out itself. libevent drives the same program. \
     socket_action is the same interface of fulmar in Rust; \"fulmar's libcurl\" is the same C \
     program with fulmar's library. \"fulmar\" alone waits by itself, over epoll.",
];
const LOOPS_ABOUT: &[&str] = &[
    "One connection of N delivers a byte at a time, as in the scenario `idle`; the others wait. \
     The same client of fulmar runs in each loop. libcurl and fulmar's library run in libevent's.",
    "\"fulmar\" is edge-triggered epoll. The ring executes every list of operations, also those \
     of a single one. libcurl with poll is curl_multi_perform.",
];
const EVENT_NOTE: &str = "The machine of 2005 was an Athlon XP with 2,083 MHz: its curve \
    matters, not its height. The report of 2006 puts an event by curl_multi_socket and libevent \
    below 60 us, at 10,000 connections.";
const RATE_NOTE: &str = "The report of 2006 reckons for 20,000 connections: 11 reads per second, \
    and with 16 KB for each 180 KB/s, by select and curl_multi_perform; 16,666 and 260 MB/s by \
    curl_multi_socket, a ratio of 1:1,500.";

const fn event(title: &'static str, unit: &'static str) -> Metric {
    lower(title, unit).rows("connections")
}
const EVENTS: [Metric; 2] = [
    event("An event of 1 byte: the wait and the work", "us per event").charted(),
    event("An event of 16 KB: the wait and the work", "us per event"),
];
const RATE: Metric = higher("Rate of events of 1 byte", "events/s").rows("connections");
const BANDWIDTH: Metric = higher("Bandwidth by events of 16 KB", "MB/s").rows("connections");
const RATIO: Metric =
    neutral("An event of 1 byte, how many times shorter than by multi_perform", "times")
        .rows("connections");
const WORK: Metric = neutral("An event of 1 byte: the work", "us per event").rows("connections");
const WAIT: Metric = neutral("An event of 1 byte: the wait", "us per event").rows("connections");
const CALLS: [Metric; 2] = [
    event("System calls of an event of 1 byte", "calls per event"),
    event("System calls of an event of 16 KB", "calls per event"),
];
const READS: [Metric; 2] = [
    neutral("Reads of an event of 1 byte", "reads per event").rows("connections"),
    neutral("Reads of an event of 16 KB", "reads per event").rows("connections"),
];
const PACKETS: [Metric; 2] = [
    neutral("Acknowledgements of an event of 1 byte", "packets per event").rows("connections"),
    neutral("Acknowledgements of an event of 16 KB", "packets per event").rows("connections"),
];
const OPENING: Metric = event("CPU to open each idle connection", "us per connection");
const INSTRUCTIONS: Metric = event("Instructions of an event of 1 byte or 16 KB", "instructions");

const LOOP_EVENT: Metric = event("An event of 1 byte", "us per event").charted();
const LOOP_CALLS: Metric = event("System calls of an event", "calls per event");

/// No idle connection, connections of the document, and the most that 20,000 descriptors allow.
const SIZES: &[u32] = &[1, 1_001, 2_001, 3_001, 5_001, 9_001, 18_000];
/// Powers of ten, as in a graph of libevent's, up to the document's largest number.
const LOOP_SIZES: &[u32] = &[1, 10, 100, 1_000, 3_000, 9_001];
/// Without idle connections: microseconds of an event, on 14 December 2005.
const ALONE: (u32, f64) = (1, 5.0);
/// Connections; microseconds of curl_multi_perform() and of select().
const DOCUMENT: &[(u32, f64, f64)] = &[
    (1_001, 3_504.0, 951.0),
    (2_001, 7_606.0, 1_988.0),
    (3_001, 11_045.0, 2_715.0),
    (5_001, 16_406.0, 4_024.0),
    (9_001, 32_147.0, 8_030.0),
];
/// The kernel's search for a free port grows steeply beyond.
const PER_ADDRESS: u32 = 9_000;
