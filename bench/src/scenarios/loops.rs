//! `ring-*`, `driver-*`, `spin-*`: fulmar beside itself with another event loop. `pair-*`: both
//! ends are fulmar, beside wrk and nginx.

use std::time::Duration;

use super::under_load::{LoadCase, measure};
use super::{BenchScenario, CALLS, CPU};
use crate::BenchError;
use crate::lab::{END_TIMEOUT, Lab, children_cpu_us, wait};
use crate::loads::{BenchLoad, LoadProgram, Priority, fulmar_load, wrk, wrk_requests};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, grouped, higher, lower};
use crate::servers::{BenchServer, NginxServer, Wrapper};

pub(super) const SCENARIOS: &[BenchScenario] = &[
    BenchScenario::new("ring-serve-64", "serve over io_uring beside epoll", |lab, sheet| {
        serve_ring(lab, sheet, kept(64, 0.3))
    }),
    BenchScenario::new("ring-serve-1000", "serve over io_uring beside epoll", |lab, sheet| {
        serve_ring(lab, sheet, kept(1000, 0.1))
    }),
    BenchScenario::new(
        "ring-serve-close-64",
        "serve over io_uring, short connections",
        |lab, sheet| serve_ring(lab, sheet, closed(64)),
    ),
    BenchScenario::new(
        "ring-serve-close-1000",
        "serve over io_uring, short connections",
        |lab, sheet| serve_ring(lab, sheet, closed(1000)),
    ),
    BenchScenario::new("ring-load-64", "load over io_uring beside epoll", |lab, sheet| {
        load_ring(lab, sheet, 64, 0.3)
    }),
    BenchScenario::new("ring-load-1000", "load over io_uring beside epoll", |lab, sheet| {
        load_ring(lab, sheet, 1000, 0.1)
    }),
    BenchScenario::new("driver-serve-64", "serve with each driver", |lab, sheet| {
        serve_drivers(lab, sheet, kept(64, 3.0))
    }),
    BenchScenario::new("spin-one", "one connection, with and without polling", spin_one),
    BenchScenario::new("spin-idle", "the cost of polling with little to do", spin_idle),
    BenchScenario::new("pair-64", "load and serve beside wrk and nginx", |lab, sheet| {
        pair(lab, sheet, 64)
    }),
];

fn kept(connections: u32, calls: f64) -> LoadCase {
    let row = format!("128 B, {} connections", grouped(connections));
    // For the system calls a generator sends more than wrk can.
    let load = BenchLoad { program: LoadProgram::Fulmar, ..BenchLoad::kept(connections) };
    LoadCase {
        calls: Some(calls),
        saturating: Some(load),
        saturated_under: Wrapper::No,
        ..LoadCase::new(row, "/bytes/128", BenchLoad::kept(connections))
    }
}

/// For the system calls the server runs last: the generator opens no more than it can take.
fn closed(clients: u32) -> LoadCase {
    let row = format!("128 B, {} clients, a connection for each request", grouped(clients));
    let load = BenchLoad { program: LoadProgram::Fulmar, ..BenchLoad::kept(clients) }.closing();
    let case = LoadCase::new(row, "/bytes/128", load);
    LoadCase { per: "connection", calls: Some(0.5), ..case }
}

/// Both loops with the clients on another core; calls if there is more to do than they can.
fn serve_ring(lab: &Lab, sheet: &mut Sheet, case: LoadCase) -> Result<(), BenchError> {
    let case = LoadCase { peers: &[EPOLL], cpu: Some(BarLimit::at_most_times(1.02)), ..case };
    measure(lab, sheet, &case, &|side, wrapper| {
        let words = ["--driver", if side == FULMAR { "ring" } else { "epoll" }];
        Ok(BenchServer::serve(lab, &words, &["127.0.0.1"], &lab.cores.server, wrapper)?.0)
    })
}

/// Edge-triggered epoll beside the other drivers.
fn serve_drivers(lab: &Lab, sheet: &mut Sheet, case: LoadCase) -> Result<(), BenchError> {
    let case = LoadCase { peers: &["level", "poll", "ring"], ..case };
    measure(lab, sheet, &case, &|side, wrapper| {
        let words = ["--driver", if side == FULMAR { EPOLL } else { side }];
        Ok(BenchServer::serve(lab, &words, &["127.0.0.1"], &lab.cores.server, wrapper)?.0)
    })
}

/// The same of the generator: two workers of nginx have both cores. For the system calls it shares
/// a core with one worker and runs last, so that all responses have arrived when it runs.
fn load_ring(lab: &Lab, sheet: &mut Sheet, connections: u32, most: f64) -> Result<(), BenchError> {
    let row = format!("{} connections, saturated", grouped(connections));
    sheet.limit(&CPU, &row, BarLimit::at_most_times(1.02));
    sheet.limit(&CALLS, &row, BarLimit::at_most(most));
    let (both, client) = (lab.cores.both(), &lab.cores.client);
    let count = connections.to_string();
    let report = |sheet: &mut Sheet, side: &str, nginx: &BenchServer, priority| {
        let driver = if side == FULMAR { "ring" } else { "epoll" };
        let words = ["-c", &count, "--driver", driver, "--spin", "off"];
        let url = nginx.url("/tiny");
        let (report, line) = fulmar_load(lab, client, priority, lab.seconds(), &words, &url)?;
        sheet.report.command(&line);
        Ok::<_, BenchError>(report)
    };
    let sides = [EPOLL, FULMAR];
    let nginx =
        NginxServer { workers: 2, cpus: Some(&both), ..NginxServer::default() }.start(lab)?;
    let timed = lab.interleave(lab.options.rounds, 2, 1, |at, _| {
        let found = report(sheet, sides[at], &nginx, Priority::Normal)?;
        let us = found["cpu_us_per_request"].as_f64().unwrap_or(f64::NAN);
        sheet.add(&CPU, &row, sides[at], us);
        Ok(())
    });
    nginx.stop()?;
    let nginx = NginxServer { cpus: Some(client), ..NginxServer::default() }.start(lab)?;
    let counted = lab.interleave(lab.few_rounds(), 2, 1, |at, _| {
        let found = report(sheet, sides[at], &nginx, Priority::Last)?;
        let calls = found["steady"]["syscalls_per_request"].as_f64().unwrap_or(f64::NAN);
        sheet.add(&CALLS, &row, sides[at], calls);
        Ok(())
    });
    nginx.stop()?;
    BenchError::all([timed, counted].into_iter().filter_map(Result::err))
}

/// One connection: both ends poll before they sleep, or neither does.
fn spin_one(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let both = lab.cores.both();
    let (server, client) = (&lab.cores.server, &lab.cores.client);
    let places =
        [("own cores", server, client), ("one core", server, server), ("unpinned", &both, &both)];
    sheet.limit(&RATE, "own cores", BarLimit::at_least_times(4.0));
    sheet.limit(&RATE, "one core", BarLimit::at_least_times(0.97));
    sheet.limit(&P50, "own cores", BarLimit::at_most_times(0.25));
    let sides = [(SLEEPS, "off"), (FULMAR, "auto")];
    lab.interleave(lab.options.rounds, sides.len(), places.len(), |at, case| {
        let ((side, spin), (row, server, client)) = (sides[at], places[case]);
        let words = ["--spin", spin];
        let serve = BenchServer::serve(lab, &words, &["127.0.0.1"], server, Wrapper::No)?.0;
        let (words, url) = (["-c", "1", "--spin", spin], serve.url("/bytes/128"));
        let (report, line) =
            fulmar_load(lab, client, Priority::Normal, lab.seconds(), &words, &url)?;
        sheet.report.command(&serve.line);
        sheet.report.command(&line);
        sheet.add(&RATE, row, side, report["rps"].as_f64().unwrap_or(f64::NAN));
        sheet.add(&P50, row, side, report["latency_us"]["p50"].as_f64().unwrap_or(f64::NAN));
        serve.stop()
    })
}

/// The share of a core that polling takes with no or few requests. Requests at short intervals are
/// the worst case: each starts polling, and most polls find nothing.
fn spin_idle(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let rates = [0_u32, 100, 2_000, 5_000];
    sheet.limit(&SHARE, "no requests", BarLimit::at_most(5.0));
    let sides = [(SLEEPS, "off"), (FULMAR, "auto")];
    lab.interleave(lab.few_rounds(), sides.len(), rates.len(), |at, case| {
        let ((side, spin), rate) = (sides[at], rates[case]);
        let row = match rate {
            0 => "no requests".to_owned(),
            rate => format!("{} requests/s", grouped(rate)),
        };
        let (words, cpus) = (["--spin", spin], &lab.cores.server);
        let serve = BenchServer::serve(lab, &words, &["127.0.0.1"], cpus, Wrapper::No)?.0;
        let (url, client) = (serve.url("/bytes/128"), &lab.cores.client);
        let load = |seconds: f64, words: &[&str]| {
            fulmar_load(lab, client, Priority::Normal, seconds, words, &url).map(drop)
        };
        load(lab.seconds(), &["-c", "1"])?;
        let began = fulmar_sys::now();
        let (spent, ()) = serve.cpu_of(|| match rate {
            0 => {
                wait(IDLE);
                Ok(())
            }
            rate => load(lab.seconds(), &["-c", "1", "-R", &rate.to_string()]),
        })?;
        let elapsed = (fulmar_sys::now() - began).as_secs_f64();
        sheet.add(&SHARE, &row, side, spent / 1e6 / elapsed * 100.0);
        sheet.report.command(&serve.line);
        serve.stop()
    })
}

/// Both ends are fulmar, or neither: each end has a core.
fn pair(lab: &Lab, sheet: &mut Sheet, connections: u32) -> Result<(), BenchError> {
    let row = format!("128 B, {} connections", grouped(connections));
    sheet.limit(&RATE, &row, BarLimit::at_least_times(1.25));
    sheet.limit(&BOTH_ENDS, &row, BarLimit::at_most_times(0.85));
    let cpus = &lab.cores.server;
    let serve = BenchServer::serve(lab, &[], &["127.0.0.1"], cpus, Wrapper::No)?.0;
    let nginx = NginxServer::default().start(lab)?;
    let sides = [("wrk and nginx", &nginx, "/tiny"), (FULMAR, &serve, "/bytes/128")];
    let result = lab.interleave(lab.options.rounds, sides.len(), 1, |at, _| {
        let (side, server, target) = sides[at];
        let before = children_cpu_us();
        let (spent, (requests, line)) = server.cpu_of(|| match side {
            FULMAR => {
                let (words, url) = (["-c", &connections.to_string()], server.url(target));
                let (client, seconds) = (&lab.cores.client, lab.seconds());
                let (found, line) =
                    fulmar_load(lab, client, Priority::Normal, seconds, &words, &url)?;
                Ok((found["requests"].as_f64().unwrap_or(f64::NAN), line))
            }
            _ => {
                let mut command = wrk(lab, 1, connections, lab.seconds())?;
                command.arg(server.url(target));
                let line = lab.line(&command);
                let text = lab.client(command)?.output(END_TIMEOUT)?;
                Ok((wrk_requests(&text, &line)?, line))
            }
        })?;
        let client = children_cpu_us() - before;
        sheet.add(&RATE, &row, side, requests / lab.seconds());
        sheet.add(&BOTH_ENDS, &row, side, (spent + client) / requests);
        sheet.report.command(&server.line);
        sheet.report.command(&line);
        Ok(())
    });
    serve.stop()?;
    nginx.stop()?;
    result
}

const RATE: Metric = higher("Requests per second", "");
const P50: Metric = lower("p50", "us");
const SHARE: Metric = lower("Share of a core", "%");
const BOTH_ENDS: Metric = lower("CPU of both ends per request", "us");
const EPOLL: &str = "epoll";
const SLEEPS: &str = "--spin off";
const IDLE: Duration = Duration::from_secs(3);
