//! `forward`: forwarded connections, call by call (HAProxy, November 2013).
//!
//! Each connection of a client carries one request, which a proxy forwards over a connection of its
//! own; all of them are closed. The document counts the system calls of 10,000.

use std::process::Command;

use super::sizes;
use crate::BenchError;
use crate::lab::{Lab, count, json};
use crate::report::{FULMAR, Metric, Sheet, grouped, lower, neutral};
use crate::servers::{BenchServer, ProxyFrontend, ProxyProcess, TCP_IS_MISSING, Wrapper};

pub(super) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    sheet.report.about = ABOUT.iter().map(|&text| text.to_owned()).collect();
    let clients = sizes(lab, &[1, 64], 2, sheet)?;
    let modes = [("TCP", ProxyFrontend::Tcp, TCP), ("HTTP", ProxyFrontend::Close, HTTP)];
    let cases = modes.into_iter().flat_map(|mode| clients.iter().map(move |it| (mode, *it)));
    let cases: Vec<_> = cases.collect();
    for ((mode, _, document), clients) in &cases {
        add_document(sheet, &case_name(mode, *clients), document, *clients);
    }
    let cpus = &lab.cores.client;
    let origin = BenchServer::serve(lab, &[], &["127.0.0.1"], cpus, Wrapper::No)?.0;
    let mut proxies: [Option<ProxyProcess>; 3] = [None, None, None];
    let result = lab.interleave(lab.options.rounds, SIDES.len(), cases.len(), |at, case| {
        let ((name, program), ((mode, frontend, _), clients)) = (SIDES[at], cases[case]);
        let proxy = match &mut proxies[at] {
            Some(proxy) => proxy,
            place => place.insert(ProxyProcess::start(lab, program, origin.port, Wrapper::No)?),
        };
        if !proxy.can(frontend) {
            return Err(BenchError::Missing(TCP_IS_MISSING.to_owned()));
        }
        lab.progress(&format!("forward: {mode}, {clients} clients, {name}"));
        sheet.report.command(&proxy.server.line);
        one(lab, sheet, proxy, name, &case_name(mode, clients), proxy.port(frontend), clients)
    });
    proxies.into_iter().flatten().try_for_each(|proxy| proxy.server.stop())?;
    origin.stop()?;
    result
}

/// The document's calls with one client; its waits had one event each.
fn add_document(sheet: &mut Sheet, case: &str, document: &Published, clients: u32) {
    if clients != 1 {
        return;
    }
    let by_name = by_name(case);
    for (column, calls) in document {
        for (name, count, _) in *calls {
            sheet.document(&by_name, name, column, *count);
        }
        let sum = |of: fn(&(&str, f64, f64)) -> f64| calls.iter().map(of).sum();
        sheet.document(&ALL, case, column, sum(|it| it.1));
        // connect() always returns EINPROGRESS.
        sheet.document(&EAGAIN, case, column, sum(|it| if it.0 == "connect" { 0.0 } else { it.2 }));
    }
}

/// A proxy in one case: warmed up, timed, then counted in the kernel.
fn one(
    lab: &Lab,
    sheet: &mut Sheet,
    proxy: &ProxyProcess,
    side: &str,
    case: &str,
    port: u16,
    clients: u32,
) -> Result<(), BenchError> {
    let requests = lab.options.requests;
    let load = |requests| send(lab, port, clients, requests);
    load((requests / 10).clamp(1, WARM_UP))?;
    let (us, line) = proxy.server.cpu_of(|| load(requests))?;
    sheet.report.command(&line);
    let found = count(proxy.server.pid, || load(requests).map(drop))?;
    if let Some(counts) = super::counted(found, sheet) {
        let counts = counts.scaled(10_000.0 / f64::from(requests));
        sheet.add(&ALL, case, side, counts.total());
        let rounded = counts.calls.iter().map(|(name, it)| (name, it.calls.round()));
        sheet.calls(&by_name(case), side, rounded);
        sheet.add(&EAGAIN, case, side, counts.eagain());
        if side == FULMAR {
            let both = counts.total() + counts.operations();
            sheet.beside(&ALL, case, "fulmar, calls and operations", both);
        }
        for (name, it) in counts.ring.iter().filter(|(_, it)| it.calls > 0.0) {
            sheet.beside(&OPERATIONS, name, &format!("{side}: {case}"), it.calls.round());
        }
    }
    sheet.add(&CPU, case, side, us / f64::from(requests));
    Ok(())
}

/// Connections with one request each, all of which have to succeed.
fn send(lab: &Lab, port: u16, clients: u32, requests: u32) -> Result<String, BenchError> {
    let mut command: Command = lab.fulmar(&["load", "--json", "--reconnect"]);
    command.args(["-H", "Connection: close", "-c", &clients.min(requests).to_string()]);
    command.args(["-n", &requests.to_string()]);
    command.arg(format!("http://127.0.0.1:{port}/bytes/128"));
    let (text, line) = lab.run(command)?;
    let done = json(&text, &line)?["status"]["200"].as_u64().unwrap_or(0);
    match done == u64::from(requests) {
        true => Ok(line),
        false => {
            Err(BenchError::process(&line, format!("{done} of {requests} responses with 200")))
        }
    }
}

fn case_name(mode: &str, clients: u32) -> String {
    match clients {
        1 => format!("{mode}, one client"),
        clients => format!("{mode}, {} clients", grouped(clients)),
    }
}

fn by_name(case: &str) -> Metric {
    BY_NAME.titled(format!("Call by call: {case}"))
}

const ABOUT: &[&str] = &[
    "A client opens a connection, requests 128 bytes, and the connection ends with the response. \
     A proxy between it and the server opens a connection of its own for each. In 2013 a change \
     to HAProxy's poller was justified by the system calls of 10,000 such connections, in TCP \
     and in HTTP mode, before and after it. With fulmar, io_uring submits many operations in one \
     call; these are shown beside the calls.",
    "fulmar and HAProxy read the same configuration file; nginx has its own. Each has one thread \
     on a core of its own; clients and server share the other. The kernel counts the calls of \
     all of them. fulmar reads new connections before they are reported readable: where that \
     succeeds it saves a wait, and where it fails, one connection in 256 is read early.",
];
const SIDES: [(&str, &str); 3] = [("HAProxy", "haproxy"), ("nginx", "nginx"), (FULMAR, "fulmar")];
const UNIT: &str = "calls for 10,000 connections";
const ALL: Metric = lower("All system calls", UNIT);
const EAGAIN: Metric = lower("Calls and operations that returned EAGAIN", UNIT);
const BY_NAME: Metric = neutral("", UNIT).rows("call");
const OPERATIONS: Metric =
    neutral("Operations of io_uring", "operations for 10,000 connections").rows("operation");
const CPU: Metric = lower("CPU of the proxy", "us per connection");
const WARM_UP: u32 = 500;

/// Columns, and the calls of each: name, count, count of errors.
type Published = [(&'static str, &'static [(&'static str, f64, f64)]); 2];

/// `strace -c` of HAProxy 1.5-dev, before and after the change, TCP mode.
const TCP: &Published = &[
    (
        "HAProxy 2013, before",
        &[
            ("epoll_wait", 60_000.0, 1.0),
            ("shutdown", 20_000.0, 0.0),
            ("connect", 10_000.0, 10_000.0),
            ("sendto", 29_998.0, 9_998.0),
            ("epoll_ctl", 49_993.0, 0.0),
            ("recvfrom", 50_004.0, 20_002.0),
            ("close", 20_005.0, 0.0),
            ("accept4", 20_001.0, 10_001.0),
            ("setsockopt", 20_002.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
    (
        "HAProxy 2013, after",
        &[
            ("epoll_wait", 50_012.0, 1.0),
            ("shutdown", 20_000.0, 0.0),
            ("connect", 10_005.0, 10_003.0),
            ("sendto", 29_996.0, 9_996.0),
            ("epoll_ctl", 40_000.0, 0.0),
            ("recvfrom", 40_013.0, 10_013.0),
            ("close", 20_005.0, 0.0),
            ("accept4", 20_001.0, 10_001.0),
            ("setsockopt", 20_002.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
];

/// The same in HTTP mode.
const HTTP: &Published = &[
    (
        "HAProxy 2013, before",
        &[
            ("epoll_wait", 60_006.0, 1.0),
            ("sendto", 30_000.0, 10_000.0),
            ("accept4", 20_001.0, 10_001.0),
            ("connect", 10_000.0, 10_000.0),
            ("close", 20_005.0, 0.0),
            ("recvfrom", 30_002.0, 10_002.0),
            ("epoll_ctl", 30_005.0, 0.0),
            ("shutdown", 10_000.0, 0.0),
            ("setsockopt", 20_003.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
    (
        "HAProxy 2013, after",
        &[
            ("epoll_wait", 50_008.0, 1.0),
            ("sendto", 30_000.0, 10_000.0),
            ("accept4", 20_001.0, 10_001.0),
            ("connect", 10_000.0, 10_000.0),
            ("close", 20_005.0, 0.0),
            ("recvfrom", 20_001.0, 1.0),
            ("epoll_ctl", 20_003.0, 0.0),
            ("shutdown", 10_000.0, 0.0),
            ("setsockopt", 20_003.0, 0.0),
            ("socket", 10_001.0, 0.0),
            ("fcntl", 10_001.0, 0.0),
        ],
    ),
];
