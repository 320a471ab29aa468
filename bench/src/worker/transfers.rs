//! fulmar's client with thousands of transfers on one thread: the counterpart of `libcurl.c`, with its
//! options and its report (`bench/README.md`).

mod application;
mod options;
mod report;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Client, Config, Request};
use fulmar_drive::{Epoll, Reactor};
use fulmar_sys as sys;
use fulmar_tls::{ClientOptions, ClientTls, Roots};
use serde_json::Value;

use self::application::Transfers;
use self::options::{Mode, Options, Until};
use self::report::{Allocations, Snapshot};
use super::OPENING_MAX;

type Driver = Reactor<Client<Transfers>, Epoll>;

/// Does what `words` say. Where somebody counts what the allocator is asked for, that is reported, too.
pub(super) fn run(words: &[String], allocations: Allocations) -> Result<Value, Box<dyn Error>> {
    let options = Options::parse(words.iter().cloned())?;
    sys::raise_descriptors()?;
    let config = Config {
        connections_max: usize::MAX,
        idle_max: usize::MAX,
        connect_timeout: Some(CONNECT_TIMEOUT),
        ..Config::default()
    };
    let tls = options.cacert.as_ref().map(|path| {
        let roots = Roots::empty().file(path);
        ClientTls::new(ClientOptions { roots, ..ClientOptions::default() })
    });
    let how = Arc::new(fulmar_client::Options { tls: tls.transpose()?, ..Default::default() });
    let requests = options.urls.iter().map(|url| Request::get(url).options(how.clone()).build());
    let transfers = Transfers::new(requests.collect::<Result<_, _>>()?, &options);
    let client = Client::new(sys::now(), sys::wall_clock(), transfers, config);
    let mut reactor = Reactor::new(client, Epoll::new()?);
    let (before, after) = match options.mode {
        Mode::Requests(until) => requests_of(&mut reactor, until, allocations)?,
        Mode::Waiting => waiting(&mut reactor, options.clients, allocations)?,
        Mode::Pooled => pooled(&mut reactor, options.clients, allocations)?,
    };
    let transfers = reactor.engine.application();
    match transfers.errors() {
        0 => Ok(after.since(&before)),
        count => Err(format!("{count} errors, the first: {}", transfers.complaint()).into()),
    }
}

/// N transfers at a time, from the first answer of the last of them.
fn requests_of(
    reactor: &mut Driver,
    until: Until,
    allocations: Allocations,
) -> Result<(Snapshot, Snapshot), Box<dyn Error>> {
    open(reactor, |transfers| transfers.all_answered())?;
    // As many again, and all tables have their size.
    more(reactor, reactor.engine.running() as u64)?;
    let begin = sys::now();
    let before = Snapshot::before(reactor, allocations)?;
    match until {
        Until::Requests(requests) => more(reactor, requests)?,
        Until::Time(time) => {
            steady(reactor, |reactor| reactor.engine.application().last() >= Some(begin + time))?;
        }
    }
    Ok((before, Snapshot::after(reactor, allocations)?))
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
fn waiting(
    reactor: &mut Driver,
    clients: usize,
    allocations: Allocations,
) -> Result<(Snapshot, Snapshot), Box<dyn Error>> {
    let before = Snapshot::before(reactor, allocations)?;
    open(reactor, |_| false)?;
    let asked = |reactor: &Driver| reactor.engine.unanswered() == clients;
    while !asked(reactor) && reactor.engine.application().errors() == 0 {
        reactor.turn()?;
    }
    Ok((before, Snapshot::after(reactor, allocations)?))
}

/// N transfers, each once; their connections stay.
fn pooled(
    reactor: &mut Driver,
    clients: usize,
    allocations: Allocations,
) -> Result<(Snapshot, Snapshot), Box<dyn Error>> {
    let before = Snapshot::before(reactor, allocations)?;
    open(reactor, |transfers| transfers.all_answered())?;
    let idle = reactor.engine.idle_connections();
    if idle != clients {
        return Err(format!("{idle} connections are idle, not {clients}").into());
    }
    Ok((before, Snapshot::after(reactor, allocations)?))
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

/// As long as libcurl waits for a connection: a server may be busy with 8,000 others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(300);
