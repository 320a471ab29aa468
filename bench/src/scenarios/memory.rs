//! Memory of idle connections, and the memory that is returned after a burst.

use std::time::Duration;

use super::BenchScenario;
use super::servers::PEERS;
use super::under_load::StartSide;
use crate::BenchError;
use crate::lab::{END_TIMEOUT, Lab, memory, reset_peak, wait};
use crate::loads::{BenchLoad, h2load};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, grouped, higher, lower};
use crate::servers::{BenchServer, NginxServer, ProxyFrontend, ProxyProcess, Wrapper, make_key};

pub(super) const SCENARIOS: &[BenchScenario] = &[
    BenchScenario::new("serve-idle-8000", "serve: memory of idle connections", |lab, sheet| {
        let start = |side: &str, wrapper: Wrapper<'_>| match side {
            FULMAR => {
                let cpus = &lab.cores.server;
                Ok(BenchServer::serve(lab, &[], &["127.0.0.1"], cpus, wrapper)?.0)
            }
            _ => NginxServer::default().start(lab),
        };
        idle(lab, sheet, PLAIN, 600.0, &["nginx"], &start)
    }),
    BenchScenario::new(
        "server-idle-8000",
        "server library: memory of idle connections",
        |lab, sheet| {
            embedded(lab, sheet, "", |sheet, start| idle(lab, sheet, PLAIN, 600.0, PEERS, start))
        },
    ),
    BenchScenario::new(
        "server-idle-tls-1000",
        "server library: memory of TLS connections",
        |lab, sheet| {
            embedded(lab, sheet, "P-256", |sheet, start| {
                idle(lab, sheet, TLS, 5_120.0, PEERS, start)
            })
        },
    ),
    BenchScenario::new(
        "server-burst-8000",
        "server library: memory after a burst",
        |lab, sheet| {
            embedded(lab, sheet, "", |sheet, start| burst(lab, sheet, PLAIN, PEERS, start))
        },
    ),
    BenchScenario::new(
        "server-burst-tls-1000",
        "server library: memory after a TLS burst",
        |lab, sheet| {
            embedded(lab, sheet, "P-256", |sheet, start| burst(lab, sheet, TLS, PEERS, start))
        },
    ),
    BenchScenario::new("proxy-idle-http", "proxy: memory of idle HTTP clients", |lab, sheet| {
        sheet.limit(&RSS_ALL, &grouped(PLAIN), BarLimit::at_most(12.0));
        proxied(lab, sheet, ProxyFrontend::Http, |sheet, start| {
            idle(lab, sheet, PLAIN, 400.0, PROXIES, start)
        })
    }),
    BenchScenario::new("proxy-idle-tcp", "proxy: memory of idle TCP tunnels", |lab, sheet| {
        proxied(lab, sheet, ProxyFrontend::Tcp, |sheet, start| {
            idle(lab, sheet, PLAIN, 800.0, PROXIES, start)
        })
    }),
    BenchScenario::new("proxy-burst", "proxy: memory after a burst", |lab, sheet| {
        proxied(lab, sheet, ProxyFrontend::Http, |sheet, start| {
            burst(lab, sheet, PLAIN, PROXIES, start)
        })
    }),
];

fn embedded(
    lab: &Lab,
    sheet: &mut Sheet,
    kind: &str,
    run: impl FnOnce(&mut Sheet, &StartSide<'_>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let key = if kind.is_empty() { None } else { Some(make_key(lab, kind)?) };
    run(sheet, &|side, wrapper| BenchServer::embedded(lab, side, key.as_deref(), false, wrapper))
}

fn proxied(
    lab: &Lab,
    sheet: &mut Sheet,
    frontend: ProxyFrontend,
    run: impl FnOnce(&mut Sheet, &StartSide<'_>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let origin = super::proxies::origin(lab)?;
    run(sheet, &|side, wrapper| {
        Ok(ProxyProcess::start(lab, side, origin.port, wrapper)?.at(frontend).server)
    })
}

/// Connections that have had one response each, one after the other, and are idle. A burst would
/// fill buffers that no connection owns. The first connection pays for what all share.
fn idle(
    lab: &Lab,
    sheet: &mut Sheet,
    connections: u32,
    limit: f64,
    peers: &[&str],
    start: &StartSide<'_>,
) -> Result<(), BenchError> {
    let row = grouped(connections);
    sheet.limit(&RSS_EACH, &row, BarLimit::at_most(limit));
    each_side(lab, sheet, peers, start, |sheet, side, server| {
        let before = server.rss()?;
        let held: Vec<_> =
            (0..connections).map(|_| server.idle_connection(TARGET)).collect::<Result<_, _>>()?;
        wait(SETTLE);
        let after = server.rss()?;
        drop(held);
        sheet.add(&RSS_EACH, &row, side, (after - before) / f64::from(connections));
        sheet.add(&RSS_ALL, &row, side, after / 1e6);
        Ok(())
    })
}

/// Connections that send ten requests each, all at once, then close: the share of the memory that
/// is returned within ten seconds.
fn burst(
    lab: &Lab,
    sheet: &mut Sheet,
    connections: u32,
    peers: &[&str],
    start: &StartSide<'_>,
) -> Result<(), BenchError> {
    let row = grouped(connections);
    sheet.limit(&RETURNED, &row, BarLimit::at_least(80.0));
    each_side(lab, sheet, peers, start, |sheet, side, server| {
        let before = server.rss()?;
        reset_peak(server.pid)?;
        let mut command = h2load(lab, &BenchLoad::kept(connections))?;
        command.args(["-n", &(10 * connections).to_string()]).arg(server.url(TARGET));
        sheet.report.command(&lab.line(&command));
        lab.client(command)?.output(END_TIMEOUT)?;
        wait(RETURN_TIME);
        let (peak, after) = (memory(server.pid, "VmHWM")?, server.rss()?);
        let returned = 100.0 * (peak - after) / f64::max(peak - before, 1.0);
        sheet.add(&RETURNED, &row, side, returned);
        Ok(())
    })
}

/// Each side in turn, with a new server each time, after a first request.
fn each_side(
    lab: &Lab,
    sheet: &mut Sheet,
    peers: &[&str],
    start: &StartSide<'_>,
    mut one: impl FnMut(&mut Sheet, &str, &BenchServer) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    lab.interleave(lab.few_rounds(), peers.len() + 1, 1, |at, _| {
        let side = peers.get(at).copied().unwrap_or(FULMAR);
        let server = start(side, Wrapper::No)?;
        server.check(TARGET, 128)?;
        wait(SETTLE);
        sheet.report.command(&server.line);
        one(sheet, side, &server)?;
        server.stop()
    })
}

const RSS_EACH: Metric = lower("RSS of each connection", "B").rows("idle connections");
const RSS_ALL: Metric = lower("RSS of the process", "MB").rows("idle connections");
const RETURNED: Metric = higher("RSS returned after a burst", "%").rows("connections");
const PROXIES: &[&str] = &["haproxy", "nginx"];
const TARGET: &str = "/tiny";
const PLAIN: u32 = 8_000;
const TLS: u32 = 1_000;
const SETTLE: Duration = Duration::from_millis(500);
const RETURN_TIME: Duration = Duration::from_secs(10);
