//! `proxy-*`: `fulmar proxy` beside HAProxy and nginx, between the same clients and the same
//! server, which share a core.

use super::BenchScenario;
use super::under_load::{LoadCase, measure};
use crate::BenchError;
use crate::lab::Lab;
use crate::loads::{BenchLoad, wrk};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, lower};
use crate::servers::{BenchServer, ProxyFrontend, ProxyProcess, Wrapper, make_site};

pub(super) const SCENARIOS: &[BenchScenario] = &[
    BenchScenario::new("proxy-http-64", "proxy: keep-alive on both sides", |lab, sheet| {
        let case = LoadCase::new("128 B, 64 clients", "/tiny", BenchLoad::kept(64));
        let cpu = Some(BarLimit::at_most_times(0.92));
        proxy(lab, sheet, ProxyFrontend::Http, LoadCase { cpu, calls: Some(4.1), ..case })
    }),
    BenchScenario::new("proxy-http-1000", "proxy: keep-alive on both sides", |lab, sheet| {
        let case = LoadCase::new("128 B, 1,000 clients", "/tiny", BenchLoad::kept(1000));
        let cpu = Some(BarLimit::at_most_times(0.8));
        proxy(lab, sheet, ProxyFrontend::Http, LoadCase { cpu, ..case })
    }),
    BenchScenario::new(
        "proxy-http-short",
        "proxy: short clients, servers are kept",
        |lab, sheet| {
            let cpu = Some(BarLimit::at_most_times(0.9));
            proxy(
                lab,
                sheet,
                ProxyFrontend::Http,
                LoadCase { cpu, calls: Some(7.0), ..short("short clients") },
            )
        },
    ),
    BenchScenario::new("proxy-http-close", "proxy: a connection on each side", |lab, sheet| {
        let case = short("close on both sides");
        proxy(lab, sheet, ProxyFrontend::Close, LoadCase { calls: Some(11.0), ..case })
    }),
    BenchScenario::new("proxy-tcp-short", "proxy: TCP, a connection on each side", |lab, sheet| {
        let (cpu, case) = (Some(BarLimit::at_most_times(0.95)), short("TCP, server closes first"));
        proxy(lab, sheet, ProxyFrontend::Tcp, LoadCase { cpu, calls: Some(13.3), ..case })
    }),
    BenchScenario::new("proxy-1m", "proxy: bodies of 1 MB", |lab, sheet| {
        let long = |row: &str| LoadCase::new(row, "/1m", BenchLoad::kept(16));
        let cpu = |limit| Some(BarLimit::at_most_times(limit));
        let copied = LoadCase { cpu: cpu(0.8), ..long("1 MB, copied by all") };
        proxy(lab, sheet, ProxyFrontend::Copy, copied)?;
        proxy(lab, sheet, ProxyFrontend::Http, long("1 MB, defaults"))?;
        let spliced = LoadCase { cpu: cpu(1.0), peers: &["haproxy"], ..long("1 MB, spliced") };
        proxy(lab, sheet, ProxyFrontend::Splice, spliced)
    }),
    BenchScenario::new("proxy-latency", "proxy: latency of one client", latency),
];

fn short(row: &str) -> LoadCase {
    LoadCase { per: "connection", ..LoadCase::new(row, "/tiny", BenchLoad::kept(64).closing()) }
}

fn proxy(
    lab: &Lab,
    sheet: &mut Sheet,
    frontend: ProxyFrontend,
    case: LoadCase,
) -> Result<(), BenchError> {
    let origin = origin(lab)?;
    let peers = if case.peers.is_empty() { PEERS } else { case.peers };
    let start = |side: &str, wrapper: Wrapper<'_>| {
        let proxy = ProxyProcess::start(lab, side, origin.port, wrapper)?;
        match proxy.can(frontend) {
            true => Ok(proxy.at(frontend).server),
            false => Err(BenchError::Missing(crate::servers::TCP_IS_MISSING.to_owned())),
        }
    };
    let len = if case.targets[0] == "/1m" { 1024 * 1024 } else { 128 };
    super::servers::check(lab, peers, case.targets[0], len, None, &start)?;
    let result = measure(lab, sheet, &LoadCase { peers, ..case }, &start);
    origin.stop()?;
    result
}

/// The server behind the proxies, on the clients' core.
pub(super) fn origin(lab: &Lab) -> Result<BenchServer, BenchError> {
    let mut command = lab.worker("responses");
    command.args(["--defer-accept", "off", "--site"]).arg(make_site(lab)?);
    BenchServer::printing_port(lab, command, &lab.cores.client)
}

/// One client, closed loop: the median latency through the proxy.
fn latency(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let row = "128 B, one client";
    sheet.limit(&MEDIAN, row, BarLimit::at_most_times(1.0).to("haproxy"));
    let origin = origin(lab)?;
    let sides = ["haproxy", "nginx", FULMAR];
    let mut running: [Option<BenchServer>; 3] = [None, None, None];
    let result = lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let server = match &mut running[at] {
            Some(server) => server,
            place => {
                let proxy = ProxyProcess::start(lab, sides[at], origin.port, Wrapper::No)?;
                place.insert(proxy.server)
            }
        };
        let mut command = wrk(lab, 1, 1, lab.seconds())?;
        command.arg("--latency").arg(server.url("/tiny"));
        let (text, line) = lab.run(command)?;
        let word = text.lines().find_map(|line| line.trim().strip_prefix("50%")).map(str::trim);
        let us = word.and_then(|word| match word.strip_suffix("us") {
            Some(number) => number.parse::<f64>().ok(),
            None => word.strip_suffix("ms")?.parse::<f64>().ok().map(|ms| ms * 1e3),
        });
        let us = us.ok_or_else(|| BenchError::process(&line, format!("no median: {text}")))?;
        sheet.add(&MEDIAN, row, sides[at], us);
        sheet.report.command(&server.line);
        sheet.report.command(&line);
        Ok(())
    });
    running.into_iter().flatten().try_for_each(BenchServer::stop)?;
    origin.stop()?;
    result
}

const MEDIAN: Metric = lower("Median latency", "us");
const PEERS: &[&str] = &["haproxy", "nginx"];
