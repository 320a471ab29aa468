//! `serve-*`: `fulmar serve` beside nginx. `server-*`: a program with an embedded fulmar server
//! beside one with libmicrohttpd, nginx and h2o; the same responses, files and certificates.

use std::path::Path;

use super::BenchScenario;
use super::under_load::{LoadCase, measure};
use crate::BenchError;
use crate::lab::Lab;
use crate::loads::{BenchLoad, LoadProgram, check_http2};
use crate::report::{BarLimit, FULMAR, Sheet};
use crate::servers::{BenchServer, FILES, NginxServer, Wrapper, make_key};

pub(super) const SERVE: &[BenchScenario] = &[
    BenchScenario::new(
        "serve-tiny-64",
        "serve: 128 B from memory and from a file",
        |lab, sheet| serve_tiny(lab, sheet, 64),
    ),
    BenchScenario::new(
        "serve-tiny-1000",
        "serve: 128 B from memory and from a file",
        |lab, sheet| serve_tiny(lab, sheet, 1000),
    ),
    BenchScenario::new("serve-pipelined", "serve: 16 requests pipelined", |lab, sheet| {
        let load = BenchLoad { depth: DEPTH, ..BenchLoad::kept(64) };
        let cpu = Some(BarLimit::at_most_times(0.25));
        let case = LoadCase::new("16 requests pipelined, 64 connections", "/tiny", load);
        serve(lab, sheet, LoadCase { cpu, calls: Some(0.2), ..memory(case) })
    }),
    BenchScenario::new("serve-file-104k", "serve: a cached file, by sendfile", |lab, sheet| {
        let case = LoadCase::new("104 KB file, 64 connections", "/104k", BenchLoad::kept(64));
        serve(lab, sheet, LoadCase { calls: Some(3.1), ..case })
    }),
    BenchScenario::new("serve-short", "serve: a connection for each request", |lab, sheet| {
        let case = memory(LoadCase::new("128 B, 64 clients", "/tiny", BenchLoad::SHORT));
        serve(lab, sheet, LoadCase { calls: Some(6.0), per: "connection", ..case })
    }),
];

fn serve_tiny(lab: &Lab, sheet: &mut Sheet, connections: u32) -> Result<(), BenchError> {
    let calls = (connections == 64).then_some(2.1);
    let cpu = Some(BarLimit::at_most_times(0.95));
    for (row, is_file) in [("128 B", false), ("128 B file", true)] {
        let row = format!("{row}, {connections} connections");
        let case = LoadCase::new(row, "/128", BenchLoad::kept(connections));
        let case = if is_file { case } else { memory(case) };
        serve(lab, sheet, LoadCase { cpu: cpu.clone(), calls, ..case })?;
    }
    Ok(())
}

/// The case with a response from memory.
fn memory(case: LoadCase) -> LoadCase {
    LoadCase { targets: ["/bytes/128", "/tiny"], ..case }
}

fn serve(lab: &Lab, sheet: &mut Sheet, case: LoadCase) -> Result<(), BenchError> {
    let case = LoadCase { peers: &["nginx"], saturated_under: Wrapper::No, ..case };
    measure(lab, sheet, &case, &|side, wrapper| match side {
        FULMAR => {
            let cpus = &lab.cores.server;
            Ok(BenchServer::serve(lab, &[], &["127.0.0.1"], cpus, wrapper)?.0)
        }
        _ => NginxServer { wrapper, ..NginxServer::default() }.start(lab),
    })
}

pub(super) const EMBEDDED: &[BenchScenario] = &[
    BenchScenario::new("server-tiny-64", "server library: 128 B from memory", |lab, sheet| {
        embedded(lab, sheet, "", false, tiny(64))
    }),
    BenchScenario::new("server-tiny-1000", "server library: 128 B from memory", |lab, sheet| {
        embedded(lab, sheet, "", false, tiny(1000))
    }),
    BenchScenario::new(
        "server-pipelined",
        "server library: 16 requests pipelined",
        |lab, sheet| {
            let load = BenchLoad { depth: DEPTH, ..BenchLoad::kept(64) };
            let cpu = Some(BarLimit::at_most_times(0.125));
            let case = LoadCase::new("16 requests pipelined", "/tiny", load);
            embedded(lab, sheet, "", false, LoadCase { cpu, calls: Some(0.2), ..case })
        },
    ),
    BenchScenario::new(
        "server-continuous",
        "server library: 10 chunks of one byte",
        |lab, sheet| {
            let case = LoadCase::new("10 chunks of one byte", "/continuous", BenchLoad::kept(64));
            let case = LoadCase { calls: Some(3.0), peers: &["libmicrohttpd"], ..case };
            embedded(lab, sheet, "", false, case)
        },
    ),
    BenchScenario::new("server-modest", "server library: 64 KB from memory", |lab, sheet| {
        let case = LoadCase::new("64 KB", "/modest", BenchLoad::kept(64));
        embedded(lab, sheet, "", false, LoadCase { calls: Some(2.1), ..case })
    }),
    BenchScenario::new("server-file-104k", "server library: a file", |lab, sheet| {
        let case = LoadCase::new("104 KB file", "/104k", BenchLoad::kept(64));
        embedded(lab, sheet, "", false, LoadCase { calls: Some(3.1), ..case })
    }),
    BenchScenario::new(
        "server-short",
        "server library: a connection for each request",
        |lab, sheet| {
            let case = |row: &str| LoadCase {
                cpu: Some(BarLimit::at_most_times(0.85)),
                per: "connection",
                ..LoadCase::new(row, "/tiny", BenchLoad::SHORT)
            };
            // h2o always sets TCP_DEFER_ACCEPT.
            let peers = &["libmicrohttpd", "nginx"];
            let plain = LoadCase { peers, calls: Some(6.0), ..case("short connections") };
            embedded(lab, sheet, "", false, plain)?;
            embedded(lab, sheet, "", true, case("short connections, TCP_DEFER_ACCEPT"))
        },
    ),
    BenchScenario::new("server-tls-tiny", "server library: 128 B over TLS", |lab, sheet| {
        let cpu = Some(BarLimit::at_most_times(0.85).to("nginx"));
        let case = LoadCase::new("TLS, 128 B", "/tiny", BenchLoad::kept(64));
        embedded(lab, sheet, "P-256", false, LoadCase { cpu, calls: Some(2.1), ..case })
    }),
    BenchScenario::new("server-tls-104k", "server library: a file over TLS", |lab, sheet| {
        let cpu = Some(BarLimit::at_most_times(1.0).to("h2o"));
        let case = LoadCase::new("TLS, 104 KB file", "/104k", BenchLoad::kept(64));
        let case = LoadCase { cpu, calls: Some(8.0), instructed: Some([100, 400]), ..case };
        embedded(lab, sheet, "P-256", false, case)
    }),
    BenchScenario::new("server-tls-1m", "server library: a long file over TLS", |lab, sheet| {
        let cpu = Some(BarLimit::at_most_times(0.5).to("nginx"));
        let case = LoadCase::new("TLS, 1 MB file", "/1m", BenchLoad::kept(16));
        let case = LoadCase { cpu, instructed: Some([20, 80]), ..case };
        embedded(lab, sheet, "P-256", false, case)
    }),
    BenchScenario::new(
        "server-http2-1",
        "server library: 128 B over HTTP/2, one connection",
        |lab, sheet| http2_tiny(lab, sheet, 1),
    ),
    BenchScenario::new(
        "server-http2-32",
        "server library: 128 B over HTTP/2, 32 connections",
        |lab, sheet| http2_tiny(lab, sheet, 32),
    ),
    BenchScenario::new(
        "server-http2-file-1m",
        "server library: a long file over HTTP/2",
        |lab, sheet| {
            let case = |row: &str, calls| LoadCase {
                calls: Some(calls),
                ..LoadCase::new(row, "/1m", BenchLoad::http2(1, 1))
            };
            let clear = http2(lab, sheet, "", case("HTTP/2, 1 MB file", 10.0));
            let secured = http2(lab, sheet, "P-256", case("HTTP/2 over TLS, 1 MB file", 20.0));
            BenchError::all([clear, secured].into_iter().filter_map(Result::err))
        },
    ),
    BenchScenario::new("server-handshake-p256", "server library: TLS handshakes", |lab, sheet| {
        handshakes(lab, sheet, "P-256", 0.65)
    }),
    BenchScenario::new("server-handshake-rsa", "server library: TLS handshakes", |lab, sheet| {
        handshakes(lab, sheet, "RSA-2048", 0.85)
    }),
];

fn tiny(connections: u32) -> LoadCase {
    let row = format!("128 B, {connections} connections");
    let case = LoadCase::new(row, "/tiny", BenchLoad::kept(connections));
    LoadCase { cpu: Some(BarLimit::at_most_times(0.93)), calls: Some(2.1), ..case }
}

fn handshakes(lab: &Lab, sheet: &mut Sheet, kind: &str, cpu: f64) -> Result<(), BenchError> {
    let load = BenchLoad { program: LoadProgram::Handshakes, ..BenchLoad::kept(64) };
    let row = format!("TLS handshake with {kind}");
    let case = LoadCase { per: "connection", ..LoadCase::new(row, "/tiny", load) };
    let cpu = Some(BarLimit::at_most_times(cpu).to("nginx"));
    embedded(lab, sheet, kind, false, LoadCase { cpu, ..case })
}

fn http2_tiny(lab: &Lab, sheet: &mut Sheet, connections: u32) -> Result<(), BenchError> {
    let row = format!("128 B, {connections} x {STREAMS} streams");
    let case = LoadCase::new(row, "/tiny", BenchLoad::http2(connections, STREAMS));
    let (cpu, calls) = (Some(BarLimit::at_most_times(0.8)), Some(0.045));
    http2(lab, sheet, "", LoadCase { cpu, calls, instructed: Some([8_000, 32_000]), ..case })
}

/// A case over HTTP/2, with a certificate of this kind or without TLS.
fn http2(lab: &Lab, sheet: &mut Sheet, kind: &str, case: LoadCase) -> Result<(), BenchError> {
    let key = if kind.is_empty() { None } else { Some(make_key(lab, kind)?) };
    let start =
        |side: &str, wrapper: Wrapper<'_>| BenchServer::http2(lab, side, key.as_deref(), wrapper);
    let (target, peers) = (case.targets[0], HTTP2_PEERS);
    for side in peers.iter().copied().chain([FULMAR]) {
        let server = match start(side, Wrapper::No) {
            Err(BenchError::Missing(_)) => continue,
            server => server?,
        };
        check_http2(lab, &server, target, served_len(target))?;
        server.stop()?;
    }
    measure(lab, sheet, &LoadCase { peers, ..case }, &start)
}

/// A case of the embedded servers, with a certificate of this kind or without TLS.
fn embedded(
    lab: &Lab,
    sheet: &mut Sheet,
    kind: &str,
    deferred: bool,
    case: LoadCase,
) -> Result<(), BenchError> {
    let key = if kind.is_empty() { None } else { Some(make_key(lab, kind)?) };
    let peers = if case.peers.is_empty() { PEERS } else { case.peers };
    // Handshakes are the work of the cryptographic library.
    let counts = case.load.program != LoadProgram::Handshakes;
    let instructed = counts.then_some(case.instructed.unwrap_or([2_000, 8_000]));
    let (eagain, saturated_under) = (Some(EAGAIN_MAX), Wrapper::Nice);
    let case = LoadCase { peers, eagain, instructed, saturated_under, ..case };
    let start = |side: &str, wrapper: Wrapper<'_>| {
        BenchServer::embedded(lab, side, key.as_deref(), deferred, wrapper)
    };
    let (target, len) = (case.targets[0], served_len(case.targets[0]));
    check(lab, peers, target, len, key.as_deref(), &start)?;
    measure(lab, sheet, &case, &start)
}

/// The bytes of a target: of a file, or of `/continuous`.
fn served_len(target: &str) -> usize {
    let file = FILES.iter().find(|(name, _)| *name == target);
    file.map_or(10, |(_, len)| *len)
}

/// Checks that all servers have the same response, and agree on the same version, cipher and key
/// exchange of TLS. A server that is not installed is left out.
pub(super) fn check(
    lab: &Lab,
    peers: &[&str],
    target: &str,
    len: usize,
    key: Option<&Path>,
    start: &super::under_load::StartSide<'_>,
) -> Result<(), BenchError> {
    let mut facts = Vec::new();
    for side in peers.iter().copied().chain([FULMAR]) {
        let server = match start(side, Wrapper::No) {
            Err(BenchError::Missing(_)) => continue,
            server => server?,
        };
        server.check(target, len)?;
        if key.is_some() {
            facts.push((tls_facts(lab, &server)?, server.line.clone()));
        }
        server.stop()?;
    }
    let differs = facts.windows(2).find(|pair| pair[0].0 != pair[1].0);
    match differs {
        None => Ok(()),
        Some(pair) => {
            let why = format!("TLS differs: {:?} and {:?}", pair[0].0, pair[1].0);
            Err(BenchError::process(&pair[1].1, why))
        }
    }
}

fn tls_facts(lab: &Lab, server: &BenchServer) -> Result<Vec<String>, BenchError> {
    let mut command = lab.installed("openssl")?;
    command.args(["s_client", "-brief", "-connect", &server.address().to_string()]);
    let text = lab.client(command)?.messages()?;
    let names = ["Protocol version: ", "Ciphersuite: ", "Server Temp Key: "];
    let facts = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    Ok(facts.map(str::to_owned).collect())
}

pub(super) const PEERS: &[&str] = &["libmicrohttpd", "nginx", "h2o"];
const HTTP2_PEERS: &[&str] = &["nghttpd", "nginx", "h2o"];
/// At a time, on each connection of HTTP/2.
const STREAMS: u32 = 100;
const DEPTH: u32 = 16;
const EAGAIN_MAX: f64 = 0.01;
