//! fulmar's client with thousands of transfers on one thread: the counterpart of `libcurl.c`, with
//! its options and its report (bench/README.md), but `--loop` for `--use`.

mod application;
mod report;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Client, Config, Protocol, Request};
use fulmar_sys as sys;
use fulmar_tls::{ClientOptions, ClientTls, Roots};
use serde_json::Value;

use self::application::Transfers;
use self::report::{Allocations, CounterState};
use super::OPENING_MAX;
use super::flags::WorkerFlags;
use super::worker_loop::WorkerLoop;

type TransferDriver = WorkerLoop<Transfers>;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferMode {
    /// Transfers, one after the other.
    Requests(RequestsUntil),
    /// Transfers without a response.
    Waiting,
    /// Idle connections in the pool.
    Pooled,
}

/// The end of the measured interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestsUntil {
    Requests(u64),
    Time(Duration),
}

fn mode(flags: &WorkerFlags) -> Result<TransferMode, Box<dyn Error>> {
    let time = Duration::try_from_secs_f64(flags.get("--seconds")?.unwrap_or(5.0))?;
    let until = flags.get("--requests")?.map_or(RequestsUntil::Time(time), RequestsUntil::Requests);
    match flags.need::<String>("--mode")?.as_str() {
        "requests" => Ok(TransferMode::Requests(until)),
        "waiting" => Ok(TransferMode::Waiting),
        "pooled" => Ok(TransferMode::Pooled),
        other => Err(format!("--mode: unknown mode '{other}'").into()),
    }
}

fn protocol(flags: &WorkerFlags) -> Result<Protocol, Box<dyn Error>> {
    match flags.get::<String>("--protocol")?.as_deref() {
        None | Some("http1") => Ok(Protocol::Negotiated),
        Some("http2") => Ok(Protocol::Http2),
        Some(other) => Err(format!("--protocol: unknown protocol '{other}'").into()),
    }
}

/// Runs the client of bench/README.md; `allocations` returns the allocations so far.
pub(super) fn run(flags: &WorkerFlags, allocations: Allocations) -> Result<Value, Box<dyn Error>> {
    let (mode, clients) = (mode(flags)?, flags.need::<usize>("--clients")?);
    let pipelining = flags.get("--pipeline")?.unwrap_or(1);
    sys::raise_descriptors()?;
    let config = Config {
        pipelining,
        per_host_max: connections_of(clients, pipelining),
        connections_max: usize::MAX,
        idle_max: usize::MAX,
        connect_timeout: Some(CONNECT_TIMEOUT),
        ..Config::default()
    };
    let tls = flags.get::<PathBuf>("--cacert")?.map(|path| {
        let roots = Roots::empty().file(path);
        ClientTls::new(ClientOptions { roots, ..ClientOptions::default() })
    });
    let (tls, protocol) = (tls.transpose()?, protocol(flags)?);
    let how = Arc::new(fulmar_client::Options { tls, protocol, ..Default::default() });
    let requests = flags.all("--url").map(|url| Request::get(url).options(how.clone()).build());
    let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
    if requests.is_empty() {
        return Err("--url is missing".into());
    }
    // Over HTTP/2 the transfers share a connection.
    let connections = match protocol {
        Protocol::Http2 if clients > STREAMS_MAX => {
            return Err("--clients is more than the streams of a connection".into());
        }
        Protocol::Http2 => 1,
        _ => connections_of(clients, pipelining),
    };
    let transfers = Transfers::new(requests, mode, clients, connections);
    let client = Client::new(sys::now(), sys::wall_clock(), transfers, config);
    let mut reactor = WorkerLoop::new(flags, client)?;
    let (before, after) = match mode {
        TransferMode::Requests(until) => requests_of(&mut reactor, until, allocations)?,
        TransferMode::Waiting => waiting(&mut reactor, clients, allocations)?,
        TransferMode::Pooled => pooled(&mut reactor, clients, allocations)?,
    };
    let (transfers, open) = (reactor.client().application(), reactor.client().connections());
    match transfers.errors() {
        0 if protocol == Protocol::Http2 && open != connections => {
            Err(format!("{open} connections, not {connections}").into())
        }
        0 => Ok(after.since(&before)),
        count => Err(format!("{count} errors, the first: {}", transfers.failure()).into()),
    }
}

/// The connections of so many transfers, each with `depth` of them.
fn connections_of(clients: usize, depth: u32) -> usize {
    clients.div_ceil(usize::try_from(depth).unwrap_or(usize::MAX).max(1))
}

/// N transfers at a time, from the first response of the last of them.
fn requests_of(
    reactor: &mut TransferDriver,
    until: RequestsUntil,
    allocations: Allocations,
) -> Result<(CounterState, CounterState), Box<dyn Error>> {
    open(reactor, |transfers| transfers.all_responded())?;
    // After as many again all tables have their final size.
    more(reactor, reactor.client().running() as u64)?;
    let begin = sys::now();
    let before = CounterState::before(reactor, allocations)?;
    match until {
        RequestsUntil::Requests(requests) => more(reactor, requests)?,
        RequestsUntil::Time(time) => {
            steady(reactor, |reactor| reactor.client().application().last() >= Some(begin + time))?;
        }
    }
    Ok((before, CounterState::after(reactor, allocations)?))
}

/// Turns until this many more requests are done.
fn more(reactor: &mut TransferDriver, requests: u64) -> Result<(), Box<dyn Error>> {
    reactor.client_mut().application_mut().limit(requests);
    steady(reactor, |reactor| reactor.client().application().is_at_its_limit())
}

/// Turns until `done`; only this is measured.
#[inline(never)]
fn steady(
    reactor: &mut TransferDriver,
    done: impl Fn(&TransferDriver) -> bool,
) -> Result<(), Box<dyn Error>> {
    while !done(reactor) {
        reactor.turn()?;
    }
    Ok(())
}

/// N transfers without a response.
fn waiting(
    reactor: &mut TransferDriver,
    clients: usize,
    allocations: Allocations,
) -> Result<(CounterState, CounterState), Box<dyn Error>> {
    let before = CounterState::before(reactor, allocations)?;
    open(reactor, |_| false)?;
    let waits = |reactor: &TransferDriver| reactor.client().awaiting_response() == clients;
    while !waits(reactor) && reactor.client().application().errors() == 0 {
        reactor.turn()?;
    }
    Ok((before, CounterState::after(reactor, allocations)?))
}

/// N transfers, each once; their connections stay open.
fn pooled(
    reactor: &mut TransferDriver,
    clients: usize,
    allocations: Allocations,
) -> Result<(CounterState, CounterState), Box<dyn Error>> {
    let before = CounterState::before(reactor, allocations)?;
    open(reactor, |transfers| transfers.all_responded())?;
    let idle = reactor.client().idle_connections();
    if idle != clients {
        return Err(format!("{idle} connections are idle, not {clients}").into());
    }
    Ok((before, CounterState::after(reactor, allocations)?))
}

/// Starts all transfers, a limited number of them connecting at a time, then turns until `done`, or
/// until all are started and no response is expected.
fn open(
    reactor: &mut TransferDriver,
    done: impl Fn(&Transfers) -> bool,
) -> Result<(), Box<dyn Error>> {
    loop {
        let more = reactor.with(|client, now| {
            let room = OPENING_MAX.saturating_sub(client.connecting());
            client.with(now, |transfers, context| transfers.start(context, room))
        });
        let transfers = reactor.client().application();
        if done(transfers) {
            return Ok(());
        }
        if transfers.errors() > 0 {
            return Err(transfers.failure().into());
        }
        if !more && reactor.client().connecting() == 0 && !transfers.wants_responses() {
            return Ok(());
        }
        reactor.turn()?;
    }
}

/// Streams of the connection, as in `libcurl.c`.
const STREAMS_MAX: usize = 100;
/// As libcurl: a server may be busy with 8,000 others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(300);
