//! `load-*`: `fulmar load` beside wrk, both against nginx; over HTTP/2 beside h2load, both against
//! h2o.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{BenchScenario, CALLS, CPU};
use crate::BenchError;
use crate::lab::{Child, END_TIMEOUT, Lab, children_cpu_us, count, cpu_us, memory, wait};
use crate::loads::{BenchLoad, Priority, check_http2, fulmar_load, h2load, wrk, wrk_requests};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, grouped, lower, neutral};
use crate::servers::{BenchServer, NginxServer, Wrapper};

pub(super) const SCENARIOS: &[BenchScenario] = &[
    BenchScenario::new("load-nginx-64", "load: CPU per request beside wrk", |lab, sheet| {
        cpu(lab, sheet, 64, 1.05)
    }),
    BenchScenario::new("load-nginx-1000", "load: CPU per request beside wrk", |lab, sheet| {
        cpu(lab, sheet, 1000, 1.0)
    }),
    BenchScenario::new(
        "load-nginx-8000",
        "load: CPU per request beside wrk, memory",
        |lab, sheet| {
            sheet.limit(&RSS, &grouped(8000), BarLimit::at_most(40.0));
            cpu(lab, sheet, 8000, 0.9)?;
            rss_growth(lab, sheet)
        },
    ),
    BenchScenario::new("load-calls-64", "load: system calls per request, saturated", calls),
    BenchScenario::new("load-http2-1", "load: HTTP/2 beside h2load", |lab, sheet| {
        http2_cpu(lab, sheet, 1)
    }),
    BenchScenario::new("load-http2-32", "load: HTTP/2 beside h2load", |lab, sheet| {
        http2_cpu(lab, sheet, 32)
    }),
    BenchScenario::new("load-http2-memory", "load: memory of HTTP/2 streams", http2_memory),
    BenchScenario::new("load-stall", "load: p99 of an open loop over a stall of the server", stall),
];

/// CPU per request in an interval in which all connections are open, and memory at its end. The
/// generators are interrupted after it, so that opening is not part of it.
fn cpu(lab: &Lab, sheet: &mut Sheet, connections: u32, limit: f64) -> Result<(), BenchError> {
    let row = grouped(connections);
    let metric = CPU.rows("connections");
    sheet.limit(&metric, &row, BarLimit::at_most_times(limit));
    let sides = ["wrk", FULMAR];
    lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let nginx = NginxServer::default().start(lab)?;
        let url = nginx.url("/tiny");
        let mut command = match sides[at] {
            "wrk" => wrk(lab, 1, connections, FOREVER_S)?,
            _ => {
                let mut command = lab.fulmar(&["load", "--json", "-c", &connections.to_string()]);
                command.args(["-d", &FOREVER_S.to_string()]);
                command
            }
        };
        command.arg(&url);
        sheet.report.command(&lab.line(&command));
        let mut generator = lab.client(command)?;
        until_open(&nginx, &mut generator, connections)?;
        let (before, spent) = (nginx.status()?.1, cpu_us(generator.id())?);
        wait(lab.options.interval);
        let (after, now) = (nginx.status()?.1, cpu_us(generator.id())?);
        sheet.add(&metric, &row, sides[at], (now - spent) / f64::max(after - before, 1.0));
        sheet.add(&RSS, &row, sides[at], memory(generator.id(), "VmRSS")? / 1e6);
        generator.stop()?;
        nginx.stop()
    })
}

fn until_open(
    nginx: &BenchServer,
    generator: &mut Child,
    connections: u32,
) -> Result<(), BenchError> {
    let open = |_: &mut Child| (nginx.status().ok()?.0 >= f64::from(connections)).then_some(());
    generator.until(OPEN_TIMEOUT, open)?;
    wait(SETTLE);
    Ok(())
}

/// Memory after four times the requests: nothing may be kept of a request.
fn rss_growth(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let row = "8,000 connections, 800,000 requests by 200,000";
    sheet.limit(&GROWTH, row, BarLimit::at_most(1.05));
    for _ in 0..lab.few_rounds() {
        let mut rss = Vec::new();
        for requests in ["200000", "800000"] {
            let nginx = NginxServer::default().start(lab)?;
            let words = ["-c", "8000", "-n", requests];
            let (cpus, url) = (&lab.cores.client, nginx.url("/tiny"));
            let (report, line) = fulmar_load(lab, cpus, Priority::Normal, 0.0, &words, &url)?;
            sheet.report.command(&line);
            rss.push(report["rss_bytes"].as_f64().unwrap_or(f64::NAN));
            nginx.stop()?;
        }
        sheet.add(&GROWTH, row, FULMAR, rss[1] / rss[0]);
    }
    Ok(())
}

/// System calls while the generator is the bottleneck: two workers of nginx have both cores.
fn calls(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let row = "64 connections";
    sheet.limit(&CALLS, row, BarLimit::at_most(2.1));
    let (cpus, client) = (lab.cores.both(), &lab.cores.client);
    let nginx =
        NginxServer { workers: 2, cpus: Some(&cpus), ..NginxServer::default() }.start(lab)?;
    let url = nginx.url("/tiny");
    for _ in 0..lab.options.rounds {
        let seconds = lab.seconds();
        let words = ["-c", "64"];
        let (report, line) = fulmar_load(lab, client, Priority::Normal, seconds, &words, &url)?;
        sheet.report.command(&line);
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
        let each = number(&report["steady"]["syscalls_per_request"]);
        sheet.add(&CALLS, row, FULMAR, each);
        sheet.add(&SHARE, row, FULMAR, number(&report["cpu_share"]));
    }
    let mut command: Command = wrk(lab, 1, 64, COUNTED_S + 1.0)?;
    command.arg(&url);
    let line = lab.line(&command);
    sheet.report.command(&line);
    let mut generator = lab.client(command)?;
    until_open(&nginx, &mut generator, 64)?;
    let before = nginx.status()?.1;
    let mut requests = 0.0;
    let found = count(generator.id(), || {
        wait(Duration::from_secs_f64(COUNTED_S / 2.0));
        requests = nginx.status()?.1 - before;
        Ok(())
    })?;
    if let Some(counts) = super::counted(found, sheet) {
        sheet.add(&CALLS, row, "wrk", counts.total() / requests);
    }
    wrk_requests(&generator.output(END_TIMEOUT)?, &line)?;
    nginx.stop()
}

/// CPU per response of whole runs, which open few connections. Of the servers h2o spends the least
/// time on a response, so that it leaves the generator the most work.
fn http2_cpu(lab: &Lab, sheet: &mut Sheet, connections: u32) -> Result<(), BenchError> {
    let row = format!("{connections} x {STREAMS} streams");
    sheet.limit(&CPU, &row, BarLimit::at_most_times(1.3));
    let load = BenchLoad::http2(connections, STREAMS);
    let (count, streams) = (connections.to_string(), STREAMS.to_string());
    let words = ["--http2", "-m", &streams, "-c", &count];
    let sides = ["h2load", FULMAR];
    lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let server = http2_server(lab)?;
        let (seconds, before) = (lab.seconds(), children_cpu_us());
        let (responses, line) = match sides[at] {
            FULMAR => {
                let (cpus, url) = (&lab.cores.client, server.url("/tiny"));
                let (report, line) =
                    fulmar_load(lab, cpus, Priority::Normal, seconds, &words, &url)?;
                let is_other = report["requests"] != report["status"]["200"];
                if is_other || report["protocol"] != "HTTP/2" {
                    return Err(BenchError::process(&line, "not only responses 200 of HTTP/2"));
                }
                (report["requests"].as_f64().unwrap_or(f64::NAN), line)
            }
            _ => load.run(lab, &server, "/tiny", seconds, false)?,
        };
        let us = children_cpu_us() - before;
        server.stop()?;
        sheet.report.command(&line);
        sheet.add(&CPU, &row, sides[at], us / responses);
        sheet.add(&PROCESS_SHARE, &row, sides[at], us / 1e6 / seconds);
        Ok(())
    })
}

/// Memory while all streams of 1,000 connections have a request outstanding.
fn http2_memory(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let (connections, row) = (1_000, "1,000 x 100 streams");
    sheet.limit(&RSS, row, BarLimit::at_most_times(2.0));
    sheet.note(&RSS, H2LOAD_SAMPLES);
    let sides = ["h2load", FULMAR];
    lab.interleave(lab.few_rounds(), sides.len(), 1, |at, _| {
        let server = http2_server(lab)?;
        let (count, streams) = (connections.to_string(), STREAMS.to_string());
        let mut command = match sides[at] {
            FULMAR => lab.fulmar(&["load", "--http2", "-c", &count, "-m", &streams, "-d"]),
            _ => {
                let mut command = h2load(lab, &BenchLoad::http2(connections, STREAMS))?;
                command.arg("-D");
                command
            }
        };
        command.args([FOREVER_S.to_string(), server.url("/tiny")]);
        sheet.report.command(&lab.line(&command));
        let all = open_files(&server) + connections as usize;
        let mut generator = lab.client(command)?;
        generator.until(OPEN_TIMEOUT, |_| (open_files(&server) >= all).then_some(()))?;
        wait(SETTLE + lab.options.interval);
        sheet.add(&RSS, row, sides[at], memory(generator.id(), "VmRSS")? / 1e6);
        if open_files(&server) < all {
            return Err(BenchError::process(&server.line, "it has lost connections"));
        }
        generator.stop()?;
        server.stop()
    })
}

fn http2_server(lab: &Lab) -> Result<BenchServer, BenchError> {
    let server = BenchServer::http2(lab, "h2o", None, Wrapper::No)?;
    match check_http2(lab, &server, "/tiny", 128) {
        // fulmar is measured without h2load, too.
        Ok(()) | Err(BenchError::Missing(_)) => Ok(server),
        Err(error) => Err(error),
    }
}

/// The descriptors of a server.
fn open_files(server: &BenchServer) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid)).map_or(0, Iterator::count)
}

/// nginx is stopped for one second of ten: an open loop has to report the requests that should have
/// been sent, whose latency falls evenly from one second to nothing.
fn stall(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let row = "2,000 requests/s, the server stopped for 1 s of 10";
    sheet.limit(&P99, row, BarLimit::between(850.0, 950.0));
    for _ in 0..lab.few_rounds() {
        let nginx = NginxServer::default().start(lab)?;
        let url = nginx.url("/tiny");
        let mut command = lab.fulmar(&["load", "--json", "-c", "64", "-R", "2000", "-d", "10"]);
        command.arg(url);
        let line = lab.line(&command);
        sheet.report.command(&line);
        let generator = lab.client(command)?;
        wait(Duration::from_millis(4_500));
        nginx.child.pause(nginx.pid, Duration::from_secs(1));
        let report = crate::lab::json(&generator.output(END_TIMEOUT)?, &line)?;
        nginx.stop()?;
        let ms = |name: &str| report[name]["p99"].as_f64().map_or(f64::NAN, |us| us / 1e3);
        sheet.add(&P99, row, FULMAR, ms("latency_us"));
        sheet.add(&P99_SENT, row, FULMAR, ms("raw_latency_us"));
    }
    Ok(())
}

const RSS: Metric = lower("RSS of the generator", "MB").rows("connections");
const GROWTH: Metric = lower("RSS after four times the requests", "x");
const SHARE: Metric = neutral("CPU share of the load thread", "");
const PROCESS_SHARE: Metric = neutral("CPU share of the generator", "");
const H2LOAD_SAMPLES: &str = "Includes what h2load stores of up to a million responses.";
/// At a time, on each connection of HTTP/2.
const STREAMS: u32 = 100;
const P99: Metric = neutral("p99", "ms");
const P99_SENT: Metric = neutral("p99 from the send", "ms");
/// The generators are stopped when the interval is over.
const FOREVER_S: f64 = 600.0;
const COUNTED_S: f64 = 2.0;
const SETTLE: Duration = Duration::from_millis(500);
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
