//! fulmar's client with many transfers: the counterpart of `hiper.c`, with the same options, but
//! `--loop` for `--use`.
//!
//! With `--idle`, one active transfer among N without a response; with `--alive`, a byte to each of
//! N active transfers.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fulmar_client::{Application, Client, Config, Context, Request, TransferEvent, TransferId};
use fulmar_sys::{self as sys, Ledger};
use serde_json::{Value, json};

use super::flags::WorkerFlags;
use super::near::NearEnds;
use super::worker_loop::WorkerLoop;
use super::{OPENING_MAX, calls_since, micros};

type AmongDriver = WorkerLoop<BodyBytes>;

/// The options.
struct AmongOptions {
    idle: usize,
    peers: Vec<String>,
    sizes: Vec<usize>,
    interval: Duration,
    events: Option<u64>,
    alive: Vec<usize>,
    laps: u32,
}

impl AmongOptions {
    fn parse(flags: &WorkerFlags) -> Result<Self, Box<dyn Error>> {
        let options = Self {
            idle: flags.get("--idle")?.unwrap_or(0),
            peers: flags.list("--idle-peers")?,
            sizes: flags.list("--sizes")?,
            interval: Duration::try_from_secs_f64(flags.get("--seconds")?.unwrap_or(1.0))?,
            events: flags.get("--events")?,
            alive: flags.list("--alive")?,
            laps: flags.get("--laps")?.unwrap_or(50),
        };
        if options.alive.is_empty() && options.idle > 0 && options.peers.is_empty() {
            return Err("--idle-peers is missing".into());
        }
        Ok(options)
    }
}

/// Counts the bytes of response bodies.
#[derive(Debug, Default)]
struct BodyBytes {
    bytes: usize,
    /// The clock of the last turn that delivered some: when its wait ended.
    delivered_at: Option<Instant>,
    failure: Option<String>,
}

impl Application for BodyBytes {
    fn handle(&mut self, context: &mut Context<'_>, _: TransferId, event: TransferEvent<'_>) {
        match event {
            TransferEvent::Data(bytes) => {
                self.bytes += bytes.len();
                self.delivered_at = Some(context.now);
            }
            TransferEvent::Done(done) => {
                if let Err(error) = done.result {
                    self.failure.get_or_insert_with(|| error.to_string());
                }
            }
            _ => {}
        }
    }
}

/// What deliveries took.
#[derive(Clone, Copy, Debug, Default)]
struct DeliveryCost {
    wait: Duration,
    /// The work after the waits.
    handle: Duration,
    turns: u64,
    /// Waits after which nothing was delivered.
    empty: u64,
    /// The most bytes after a single wait.
    delivered_max: usize,
}

impl DeliveryCost {
    fn total(&self) -> Duration {
        self.wait + self.handle
    }

    fn add(&mut self, other: &Self) {
        self.wait += other.wait;
        self.handle += other.handle;
        self.turns += other.turns;
        self.empty += other.empty;
        self.delivered_max = self.delivered_max.max(other.delivered_max);
    }
}

pub(super) fn run(flags: &WorkerFlags) -> Result<Value, Box<dyn Error>> {
    let options = &AmongOptions::parse(flags)?;
    sys::raise_descriptors()?;
    let config = Config { connections_max: usize::MAX, ..Config::default() };
    let client = Client::new(sys::now(), sys::wall_clock(), BodyBytes::default(), config);
    let mut reactor = WorkerLoop::new(flags, client)?;
    let mut ends = NearEnds::listen()?;
    match options.alive.is_empty() {
        true => among_idle(options, &mut reactor, &mut ends),
        false => by_alive(options, &mut reactor, &mut ends),
    }
}

/// One active transfer among those without a response.
fn among_idle(
    options: &AmongOptions,
    reactor: &mut AmongDriver,
    ends: &mut NearEnds,
) -> Result<Value, Box<dyn Error>> {
    let before = sys::process_cpu()?;
    open_idle(options, reactor)?;
    let open = sys::process_cpu()?.total().saturating_sub(before.total());
    open_near(reactor, ends, 1)?;
    for _ in 0..WARM_UP {
        deliver(reactor, ends, b"x")?;
    }
    let mut phases = Vec::new();
    for size in &options.sizes {
        phases.push(steady(black_box(reactor), ends, *size, options)?);
    }
    Ok(json!({
        "idle": options.idle,
        "open_cpu_us": micros(open),
        "phases": phases,
    }))
}

/// Active transfers, fewer from level to level.
fn by_alive(
    options: &AmongOptions,
    reactor: &mut AmongDriver,
    ends: &mut NearEnds,
) -> Result<Value, Box<dyn Error>> {
    open_near(reactor, ends, options.alive[0])?;
    let mut levels = Vec::new();
    for alive in &options.alive {
        ends.shrink(*alive);
        while reactor.client().running() > *alive {
            turn_within(reactor, STEP)?;
        }
        deliver(reactor, ends, b"x")?;
        let (mut sum, mut max) = (DeliveryCost::default(), Duration::ZERO);
        let actions = reactor.actions();
        for _ in 0..options.laps {
            let lap = deliver(reactor, ends, b"x")?;
            max = max.max(lap.total());
            sum.add(&lap);
        }
        levels.push(json!({
            "alive": alive,
            "laps": options.laps,
            "turns": sum.turns,
            "empty": sum.empty,
            "actions": reactor.actions() - actions,
            "wait_us": micros(sum.wait),
            "handle_us": micros(sum.handle),
            "max_us": micros(max),
            "delivered_max": sum.delivered_max,
        }));
    }
    Ok(json!({ "levels": levels }))
}

fn open_idle(options: &AmongOptions, reactor: &mut AmongDriver) -> Result<(), Box<dyn Error>> {
    let request = |peer: &String| Request::get(&format!("http://{peer}/idle")).build();
    let requests = options.peers.iter().map(request).collect::<Result<Vec<_>, _>>()?;
    let mut started = 0;
    while started < options.idle || reactor.client().connecting() > 0 {
        reactor.with(|client, now| {
            let room = OPENING_MAX.saturating_sub(client.connecting());
            for _ in 0..room.min(options.idle - started) {
                client.start(now, &requests[started * requests.len() / options.idle]);
                started += 1;
            }
        });
        turn_within(reactor, STEP)?;
    }
    while reactor.client().awaiting_response() < options.idle {
        turn_within(reactor, STEP)?;
    }
    Ok(())
}

/// Opens transfers with their other ends in this process, until each has received a byte.
fn open_near(
    reactor: &mut AmongDriver,
    ends: &mut NearEnds,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let request = Request::get(&format!("http://{}/", ends.address()?)).build()?;
    let mut started = 0;
    while ends.len() < count {
        reactor.with(|client, now| {
            while started < count && started - ends.len() < OPENING_MAX {
                client.start(now, &request);
                started += 1;
            }
        });
        turn_within(reactor, Duration::from_millis(1))?;
        ends.respond_all()?;
    }
    ends.send(b"x")?;
    while reactor.client().application().bytes < count {
        turn_within(reactor, STEP)?;
    }
    Ok(())
}

/// Sends the bytes to each transfer; the cost until all have arrived.
fn deliver(
    reactor: &mut AmongDriver,
    ends: &mut NearEnds,
    bytes: &[u8],
) -> Result<DeliveryCost, Box<dyn Error>> {
    let until = reactor.client().application().bytes + bytes.len() * ends.len();
    ends.send(bytes)?;
    let mut cost = DeliveryCost::default();
    let mut begin = sys::now();
    while reactor.client().application().bytes < until {
        let before = reactor.client().application().bytes;
        reactor.turn()?;
        check(reactor)?;
        let (end, application) = (sys::now(), reactor.client().application());
        let delivered = application.bytes - before;
        let ready = application.delivered_at.filter(|_| delivered > 0).unwrap_or(end);
        cost.add(&DeliveryCost {
            wait: ready - begin,
            handle: end - ready,
            turns: 1,
            empty: u64::from(delivered == 0),
            delivered_max: delivered,
        });
        begin = end;
    }
    Ok(cost)
}

/// Events of this size. Instructions are counted in this function (`callgrind(1)`).
#[inline(never)]
fn steady(
    reactor: &mut AmongDriver,
    ends: &mut NearEnds,
    size: usize,
    options: &AmongOptions,
) -> Result<Value, Box<dyn Error>> {
    let block = vec![b'x'; size];
    let packets = ends.packets_in()?;
    let before = Ledger::here();
    let (end, mut events, mut cost) = (sys::now() + options.interval, 0, DeliveryCost::default());
    while options.events.map_or_else(|| sys::now() < end, |most| events < most) {
        cost.add(&deliver(reactor, ends, &block)?);
        events += 1;
    }
    let after = Ledger::here();
    let (calls, eagain) = calls_since(&before, &after);
    // The measurement itself reads the clock for each turn, and once or twice for each event.
    let ours = cost.turns + events * if options.events.is_some() { 1 } else { 2 };
    let packets = ends.packets_in()? - packets;
    Ok(json!({
        "size": size,
        "events": events,
        "turns": cost.turns,
        "wait_us": micros(cost.wait),
        "handle_us": micros(cost.handle),
        "eagain": eagain,
        "packets": packets,
        "clock_reads": (after.clock_reads() - before.clock_reads()).saturating_sub(ours),
        "calls": calls,
    }))
}

fn turn_within(reactor: &mut AmongDriver, most: Duration) -> Result<(), Box<dyn Error>> {
    reactor.turn_within(most)?;
    check(reactor)
}

fn check(reactor: &AmongDriver) -> Result<(), Box<dyn Error>> {
    match &reactor.client().application().failure {
        Some(failure) => Err(failure.clone().into()),
        None => Ok(()),
    }
}

/// Events until tables and buffers have their final size.
const WARM_UP: u32 = 64;
/// The longest turn while connections open.
const STEP: Duration = Duration::from_millis(100);
