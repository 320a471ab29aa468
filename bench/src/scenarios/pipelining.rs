//! `pipelining`: small requests over a network with latency, which project Hiper made pipelining
//! for (its final report of 2006). libcurl has had none since 7.62.

use super::BenchScenario;
use super::hyper::PROGRAMS;
use super::sides::{ClientSide, available};
use super::transfers::Interval;
use crate::BenchError;
use crate::lab::Lab;
use crate::report::{BarLimit, FULMAR, Metric, Sheet, higher, lower};
use crate::servers::{BenchServer, Wrapper};

pub(super) const SCENARIOS: &[BenchScenario] = &[BenchScenario::new(
    "pipelining",
    "128 B under latency: pipelined, one at a time, over several connections and streams",
    run,
)];

const SIDES: [ClientSide; 7] = [
    ClientSide::libcurl("libcurl, one at a time", &["--clients", "1"]),
    ClientSide::libcurl("libcurl, 16 connections", &["--clients", "16"]),
    ClientSide::libcurl("libcurl, 16 streams", &["--clients", "16", "--protocol", "http2"]),
    ClientSide::worker(FULMAR, &["--clients", "16", "--pipeline", "16"]),
    ClientSide::worker("fulmar, 4 pipelined", &["--clients", "4", "--pipeline", "4"]),
    ClientSide::worker("fulmar, one at a time", &["--clients", "1"]),
    ClientSide::worker("fulmar, 16 streams", &["--clients", "16", "--protocol", "http2"]),
];

/// Each side has a server and a relay of its own. The server is fulmar's, for HTTP/1.1 and HTTP/2.
fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let row = |round_trip: u32| format!("{round_trip} ms");
    let sides = available(lab, sheet, &SIDES, &PROGRAMS)?;
    let measured =
        lab.interleave(lab.options.rounds, sides.len(), ROUND_TRIPS_MS.len(), |at, case| {
            let (side, round_trip) = (&sides[at], ROUND_TRIPS_MS[case]);
            lab.progress(&format!("pipelining: {round_trip} ms, {}", side.name));
            let server = BenchServer::embedded(lab, FULMAR, None, false, Wrapper::No)?;
            let mut relay = lab.worker("delay");
            relay.args(["--to", &server.address().to_string()]);
            relay.args(["--delay-ms", &(round_trip / 2).to_string()]);
            let relay = BenchServer::printing_port(lab, relay, &lab.cores.server)?;
            let round_trip_s = f64::from(round_trip) / 1e3;
            let seconds = lab.seconds().max(ROUND_TRIPS_MIN * round_trip_s);
            let mut command = side.command(lab, &PROGRAMS)?;
            command.args(["--mode", "requests", "--seconds", &seconds.to_string()]);
            command.args(["--url", &relay.url("/tiny")]);
            let (found, line) = lab.run_json(side.finish(lab, command)?)?;
            sheet.report.command(&line);
            relay.stop()?;
            server.stop()?;
            let found = Interval(found);
            let rate = found.get("requests") / found.get("seconds");
            side.add(sheet, &RATE, &row(round_trip), rate);
            side.add(sheet, &ROUND_TRIPS, &row(round_trip), 1.0 / (rate * round_trip_s));
            Ok(())
        });
    sheet.limit(&ROUND_TRIPS, &row(100), BarLimit::at_most(0.07));
    measured
}

const ABOUT: &[&str] = &[
    "A relay delays all bytes by half of a round trip in each direction. Connections are open \
     before the interval begins.",
    "\"fulmar\" has 16 requests outstanding on one connection, by pipelining. libcurl supported \
     pipelining from 7.16, a result of project Hiper, to 7.61; today it opens more connections, or \
     multiplexes over HTTP/2.",
];
const RATE: Metric = higher("Requests per second", "").rows("round trip");
const ROUND_TRIPS: Metric = lower("Round trips per request", "").rows("round trip");
const ROUND_TRIPS_MS: [u32; 3] = [2, 20, 100];
/// The shortest interval.
const ROUND_TRIPS_MIN: f64 = 5.0;
