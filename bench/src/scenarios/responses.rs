//! `responses`: four kinds of responses, call by call (libmicrohttpd, 2019).
//!
//! The document counts setsockopt() around the parts of a response, and demands that a tiny one
//! leaves in one packet. Here every call of a response is counted, and its packets.

mod trace;

use fulmar_sys as sys;

use crate::BenchError;
use crate::http::BenchConnection;
use crate::lab::{Lab, count};
use crate::report::{FULMAR, Metric, Sheet, lower, neutral};
use crate::servers::{BenchServer, NginxServer, Wrapper};

pub(super) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    for (target, ..) in TARGETS {
        for (column, calls) in DOCUMENT {
            sheet.document(&OPTIONS, target, column, *calls);
        }
    }
    sheet.note(&CALLS, "One request at a time on one connection: each includes a wait.");
    sheet.note(
        &PACKETS,
        "Counted by the kernel (TCP_INFO). A packet of loopback holds up to 64 KB.",
    );
    let mut servers: Vec<Option<BenchServer>> = SIDES.iter().map(|_| None).collect();
    let rounds = lab.options.rounds;
    let measured = lab.interleave(rounds, SIDES.len(), TARGETS.len(), |at, case| {
        let (side, (name, target, len)) = (SIDES[at], TARGETS[case]);
        if !can(side, target) {
            return Ok(());
        }
        let server = match &mut servers[at] {
            Some(server) => server,
            place => place.insert(start(lab, side)?),
        };
        lab.progress(&format!("responses: {name}, {side}"));
        sheet.report.command(&server.line);
        one(lab, sheet, server, side, (name, target, len))
    });
    servers.into_iter().flatten().try_for_each(BenchServer::stop)?;
    let traced = trace::add(lab, sheet);
    BenchError::all([measured, traced].into_iter().filter_map(Result::err))
}

fn start(lab: &Lab, side: &str) -> Result<BenchServer, BenchError> {
    match side {
        "nginx" => NginxServer { nopush: false, ..NginxServer::default() }.start(lab),
        "nginx, tcp_nopush" => NginxServer::default().start(lab),
        _ => BenchServer::embedded(lab, side, None, false, Wrapper::No),
    }
}

/// nginx has no handler that produces chunks.
fn can(side: &str, target: &str) -> bool {
    !side.starts_with("nginx") || target != "/continuous"
}

/// Responses on one connection, then connections with a single one. The client is this process, on
/// the clients' core.
fn one(
    lab: &Lab,
    sheet: &mut Sheet,
    server: &BenchServer,
    side: &str,
    (name, target, len): (&str, &str, usize),
) -> Result<(), BenchError> {
    let elsewhere = sys::allowed_cpus().map_err(BenchError::io("the processors"))?;
    sys::run_on_cpus(&lab.cores.client).map_err(BenchError::io("the processors"))?;
    let found = exchanges(lab, sheet, server, target, len);
    sys::run_on_cpus(&elsewhere).map_err(BenchError::io("the processors"))?;
    let Exchanges { counts, packets, options } = found?;
    if let Some(counts) = counts {
        sheet.add(&CALLS, name, side, hundredths(counts.total()));
        let metric = BY_NAME.titled(format!("Call by call: {name}"));
        let calls = counts.calls.iter().map(|(name, it)| (name, hundredths(it.calls)));
        sheet.calls(&metric, side, calls);
    }
    sheet.add(&PACKETS, name, side, hundredths(packets));
    if let Some(options) = options {
        sheet.add(&OPTIONS, name, side, hundredths(options));
    }
    Ok(())
}

struct Exchanges {
    counts: Option<crate::lab::CallFigures>,
    packets: f64,
    options: Option<f64>,
}

fn exchanges(
    lab: &Lab,
    sheet: &mut Sheet,
    server: &BenchServer,
    target: &str,
    len: usize,
) -> Result<Exchanges, BenchError> {
    let requests = lab.options.requests.min(1_000);
    let mut client = server.connect()?;
    (0..WARM_UP).try_for_each(|_| exchange(&mut client, target, len))?;
    let packets = |client: &BenchConnection| client.packets().map_err(BenchError::io("TCP_INFO"));
    let mut before = packets(&client)?;
    let mut work = || (0..requests).try_for_each(|_| exchange(&mut client, target, len));
    let found = count(server.pid, &mut work)?;
    if found.is_err() {
        before = packets(&client)?;
        (0..requests).try_for_each(|_| exchange(&mut client, target, len))?;
    }
    let each = 1.0 / f64::from(requests);
    let packets = (packets(&client)? - before) * each;
    drop(client);
    let single = || exchange(&mut server.connect()?, target, len);
    let connections = count(server.pid, || (0..CONNECTIONS).try_for_each(|_| single()))?;
    let options = connections.ok().map(|found| {
        let calls = found.counts.calls.get("setsockopt").map_or(0.0, |call| call.calls);
        calls / f64::from(CONNECTIONS)
    });
    let counts = super::counted(found, sheet).map(|counts| counts.scaled(each));
    Ok(Exchanges { counts, packets, options })
}

fn exchange(client: &mut BenchConnection, target: &str, len: usize) -> Result<(), BenchError> {
    let response = client.get(target, "").map_err(BenchError::io(format!("GET {target}")))?;
    match (response.status, response.body.len()) == (200, len) {
        true => Ok(()),
        false => Err(BenchError::process(target, "not the expected response")),
    }
}

/// Calls that occur once in a thousand responses belong to none.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

const ABOUT: &[&str] = &[
    "The four scenarios of the document: continuous (ten chunks of one byte, from a handler that \
     always has the next), tiny (128 bytes), modest (64 KB), and a file of 104 KB. nginx serves \
     the modest one from a file, and has no such handler. With tcp_nopush it joins head and file \
     in packets, for two more calls; it is off by default.",
    "One client sends a request, reads the whole response, and repeats.",
];
const SIDES: [&str; 4] = ["libmicrohttpd", "nginx", "nginx, tcp_nopush", FULMAR];
const TARGETS: [(&str, &str, usize); 4] = [
    ("continuous", "/continuous", 10),
    ("tiny", "/tiny", 128),
    ("modest", "/modest", 64 * 1024),
    ("sendfile", "/104k", 104 * 1024),
];
/// setsockopt() of a response on Linux, the same for all four.
const DOCUMENT: &[(&str, f64)] = &[("libmicrohttpd before, 2019", 9.0), ("after", 1.0)];
const CALLS: Metric = lower("System calls of a response", "calls per response").rows("response");
const BY_NAME: Metric = neutral("", "calls per response").rows("call");
const OPTIONS: Metric =
    lower("setsockopt of a connection with one response", "calls per connection").rows("response");
const PACKETS: Metric = lower("Packets with data", "packets per response").rows("response");
const WARM_UP: u32 = 20;
const CONNECTIONS: u32 = 50;
