//! One active stream among many idle ones: the cost of an event of the core.
//!
//! Opens N connections that get no response, then one with a response that arrives in small
//! pieces, and handles exactly E events of that one. Instructions are counted from outside, in
//! [`steady`] only.

mod client;

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;

use fulmar_drive::{Epoll, Reactor};
use fulmar_sys as sys;
use serde_json::{Value, json};

use self::client::IdleClient;
use super::flags::WorkerFlags;
use super::micros;

/// `--idle N --events E --idle-peers ADDR,ADDR --active ADDR`.
pub(super) fn run(flags: &WorkerFlags) -> Result<Value, Box<dyn Error>> {
    let (idle, events) = (flags.need("--idle")?, flags.need("--events")?);
    sys::raise_descriptors()?;
    let client = IdleClient::new(sys::now(), idle, flags.list("--idle-peers")?)?;
    let mut reactor = Reactor::new(client, Epoll::new()?);
    let (cpu, rss) = (sys::thread_cpu()?, sys::resident_bytes()?);
    open_idle(&mut reactor)?;
    let cpu = sys::thread_cpu()?.total().saturating_sub(cpu.total());
    let rss = sys::resident_bytes()?.saturating_sub(rss);
    activate(&mut reactor, flags.need("--active")?)?;
    steady(black_box(&mut reactor), black_box(events))?;
    if let Some(end) = reactor.engine.ended() {
        return Err(format!("a connection ended: {end}").into());
    }
    Ok(json!({
        "idle": idle,
        "open_cpu_us": micros(cpu),
        "open_rss_bytes": rss,
        "events": reactor.engine.events(),
        "uneven": reactor.engine.uneven(),
    }))
}

/// Until every idle connection is open and its request is sent.
fn open_idle(reactor: &mut Reactor<IdleClient, Epoll>) -> io::Result<()> {
    reactor.engine.open_idle(sys::now());
    reactor.try_turn()?; // the first connects
    while !reactor.engine.is_open() {
        reactor.turn()?;
    }
    Ok(())
}

/// Until the active stream delivers.
fn activate(reactor: &mut Reactor<IdleClient, Epoll>, peer: SocketAddr) -> io::Result<()> {
    reactor.engine.open_active(sys::now(), peer);
    reactor.try_turn()?;
    steady(reactor, WARM_UP)?;
    reactor.engine.reset_counts();
    Ok(())
}

/// Turns until the active stream has had this many events.
#[inline(never)]
fn steady(reactor: &mut Reactor<IdleClient, Epoll>, events: u64) -> io::Result<()> {
    while reactor.engine.events() < events && reactor.engine.ended().is_none() {
        reactor.turn()?;
    }
    Ok(())
}

/// Events until tables and buffers have their final size.
const WARM_UP: u64 = 64;
