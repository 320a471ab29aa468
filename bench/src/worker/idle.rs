//! One active stream among many idle ones: what an event costs when thousands sleep.
//!
//! Opens N connections whose requests are never answered, then one whose answer arrives in small
//! chunks, and handles exactly E events of that one. Prints one JSON object. Instructions are
//! counted from outside, in [`steady`] only.

mod client;
mod options;

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_drive::{Epoll, Reactor};
use fulmar_sys as sys;
use serde_json::{Value, json};

use self::client::Client;
use self::options::Options;
use super::micros;

/// Does what `words` say; the report is one JSON object.
pub(super) fn run(words: &[String]) -> Result<Value, Box<dyn Error>> {
    let options = Options::parse(words.iter().cloned())?;
    measure(&options)
}

fn measure(options: &Options) -> Result<Value, Box<dyn Error>> {
    sys::raise_descriptors()?;
    let client = Client::new(sys::now(), options)?;
    let mut reactor = Reactor::new(client, Epoll::new()?);
    let opening = open_idle(&mut reactor)?;
    let active = activate(&mut reactor, options.active)?;
    steady(black_box(&mut reactor), black_box(options.events))?;
    let client = &reactor.engine;
    if let Some(end) = client.ended() {
        return Err(format!("a connection ended: {end}").into());
    }
    let counts = client.counts();
    Ok(json!({
        "idle": options.idle,
        "open_cpu_us": micros(opening.cpu),
        "open_rss_bytes": opening.rss_bytes,
        "events": counts.events,
        "bytes": counts.bytes,
        "uneven": counts.uneven,
        "turns": reactor.stats().turns,
        "warm_up_turns": active,
    }))
}

/// What opening the idle connections cost.
struct Opening {
    cpu: Duration,
    rss_bytes: u64,
}

/// Until every idle connection stands and its request has left.
fn open_idle(reactor: &mut Reactor<Client, Epoll>) -> io::Result<Opening> {
    let (cpu, rss) = (sys::thread_cpu()?, sys::resident_bytes()?);
    reactor.engine.open_idle(sys::now());
    reactor.try_turn()?; // the first connects
    while !reactor.engine.is_open() {
        reactor.turn()?;
    }
    Ok(Opening {
        cpu: sys::thread_cpu()?.total().saturating_sub(cpu.total()),
        rss_bytes: sys::resident_bytes()?.saturating_sub(rss),
    })
}

/// Until the active stream flows; the turns that it took.
fn activate(reactor: &mut Reactor<Client, Epoll>, peer: SocketAddr) -> io::Result<u64> {
    let before = reactor.stats().turns;
    reactor.engine.open_active(sys::now(), peer);
    reactor.try_turn()?;
    while reactor.engine.counts().events < WARM_UP && reactor.engine.ended().is_none() {
        reactor.turn()?;
    }
    reactor.engine.reset_counts();
    Ok(reactor.stats().turns - before)
}

/// Exactly `events` turns in which the active stream had data.
#[inline(never)]
fn steady(reactor: &mut Reactor<Client, Epoll>, events: u64) -> io::Result<()> {
    while reactor.engine.counts().events < events && reactor.engine.ended().is_none() {
        reactor.turn()?;
    }
    Ok(())
}

/// Events after which tables and buffers have their size.
const WARM_UP: u64 = 64;
