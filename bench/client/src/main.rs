//! Thousands of transfers on one thread: what each costs.
//!
//! Takes and reports what `bench/README.md` says of every client. Instructions are counted from
//! outside.
#![forbid(unsafe_code)]

mod options;
mod report;
mod transfers;

use std::alloc::System;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use fulmar_client::{Client, Config, Request};
use fulmar_drive::{Epoll, Reactor};
use fulmar_sys as sys;
use fulmar_tls::{ClientOptions, ClientTls, Roots};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::options::{Mode, Options, Until};
use crate::report::Snapshot;
use crate::transfers::Transfers;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Driver = Reactor<Client<Transfers>, Epoll>;

fn main() -> ExitCode {
    let result = Options::parse(std::env::args().skip(1)).and_then(|options| run(&options));
    match result {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fulmar-bench-client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    sys::raise_descriptors()?;
    let config = Config { connections_max: usize::MAX, idle_max: usize::MAX, ..Config::default() };
    let tls = options.cacert.as_ref().map(|path| {
        let roots = Roots::Files(vec![path.clone()]);
        ClientTls::new(ClientOptions { roots, ..ClientOptions::default() })
    });
    let how = Arc::new(fulmar_client::Options { tls: tls.transpose()?, ..Default::default() });
    let requests = options.urls.iter().map(|url| Request::get(url).options(how.clone()).build());
    let transfers = Transfers::new(requests.collect::<Result<_, _>>()?, options);
    let client = Client::new(sys::now(), sys::wall_clock(), transfers, config);
    let mut reactor = Reactor::new(client, Epoll::new()?);
    let (before, after) = match options.mode {
        Mode::Requests(until) => requests_of(&mut reactor, until)?,
        Mode::Waiting => waiting(&mut reactor, options.clients)?,
        Mode::Pooled => pooled(&mut reactor, options.clients)?,
    };
    Ok(after.since(&before).to_string())
}

/// N transfers at a time, from the first answer of the last of them.
fn requests_of(reactor: &mut Driver, until: Until) -> Result<(Snapshot, Snapshot), Box<dyn Error>> {
    open(reactor, |transfers| transfers.all_answered())?;
    // As many again, and all tables have their size.
    more(reactor, reactor.engine.running() as u64)?;
    let begin = sys::now();
    let before = Snapshot::before(reactor)?;
    match until {
        Until::Requests(requests) => more(reactor, requests)?,
        Until::Time(time) => {
            steady(reactor, |reactor| reactor.engine.application().last() >= Some(begin + time))?;
        }
    }
    Ok((before, Snapshot::after(reactor)?))
}

/// So many requests more.
fn more(reactor: &mut Driver, requests: u64) -> Result<(), Box<dyn Error>> {
    reactor.engine.application_mut().limit(requests);
    steady(reactor, |reactor| reactor.engine.application().is_at_its_limit())
}

/// Turns until `done`: what is measured, and nothing else.
#[inline(never)]
fn steady(reactor: &mut Driver, done: impl Fn(&Driver) -> bool) -> Result<(), Box<dyn Error>> {
    while !done(reactor) {
        reactor.turn()?;
    }
    Ok(())
}

/// N transfers without an answer.
fn waiting(reactor: &mut Driver, clients: usize) -> Result<(Snapshot, Snapshot), Box<dyn Error>> {
    let before = Snapshot::before(reactor)?;
    open(reactor, |_| false)?;
    let asked = |reactor: &Driver| reactor.engine.unanswered() == clients;
    while !asked(reactor) && reactor.engine.application().errors() == 0 {
        reactor.turn()?;
    }
    Ok((before, Snapshot::after(reactor)?))
}

/// N transfers, each once; their connections stay.
fn pooled(reactor: &mut Driver, clients: usize) -> Result<(Snapshot, Snapshot), Box<dyn Error>> {
    let before = Snapshot::before(reactor)?;
    open(reactor, |transfers| transfers.all_answered())?;
    let idle = reactor.engine.idle_connections();
    if idle != clients {
        return Err(format!("{idle} connections are idle, not {clients}").into());
    }
    Ok((before, Snapshot::after(reactor)?))
}

/// Starts all transfers, so many of them on their way to a connection at a time, then turns until
/// `done`, or until all are started and nothing more is to be waited for.
fn open(reactor: &mut Driver, done: impl Fn(&Transfers) -> bool) -> Result<(), Box<dyn Error>> {
    loop {
        let more = reactor.with(|client, now| {
            let room = OPENING_MAX.saturating_sub(client.connecting());
            client.with(now, |transfers, context| transfers.start(context, room))
        });
        let transfers = reactor.engine.application();
        if done(transfers) {
            return Ok(());
        }
        if transfers.errors() > 0 {
            return Err(transfers.complaint().into());
        }
        if !more && reactor.engine.connecting() == 0 && !transfers.wants_answers() {
            return Ok(());
        }
        reactor.turn()?;
    }
}

/// On their way to a connection: less than any listen queue.
const OPENING_MAX: usize = 256;
