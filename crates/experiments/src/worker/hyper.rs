//! fulmar's client with transfers that begin again when they are done: the counterpart of
//! `libcurl.c`, with its options and its report.

use std::error::Error;
use std::time::{Duration, Instant};

use fulmar_client::{Application, Client, Config, Context, Event, Request, TransferId};
use fulmar_drive::{Epoll, Reactor};
use fulmar_sys::{self as sys, Ledger};
use serde_json::{Value, json};

use super::{OPENING_MAX, calls_since, micros};

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    clients: usize,
    interval: Duration,
    url: String,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut options = Self { clients: 1, interval: Duration::from_secs(1), url: String::new() };
        for pair in words.chunks(2) {
            let [flag, value] = pair else {
                return Err(format!("{} needs a value", pair[0]).into());
            };
            match flag.as_str() {
                "--mode" if value == "requests" => {}
                "--clients" => options.clients = value.parse()?,
                "--seconds" => options.interval = Duration::try_from_secs_f64(value.parse()?)?,
                "--url" => options.url.clone_from(value),
                _ => return Err(format!("unknown option {flag} {value}").into()),
            }
        }
        if options.url.is_empty() {
            return Err("--url is missing".into());
        }
        Ok(options)
    }
}

/// Transfers that begin again.
#[derive(Debug, Default)]
struct Clients {
    done: u64,
    bytes: u64,
    errors: u64,
    complaint: Option<String>,
    last: Option<Instant>,
}

impl Application for Clients {
    fn handle(&mut self, context: &mut Context<'_>, _: TransferId, event: Event<'_>) {
        match event {
            Event::Data(bytes) => self.bytes += bytes.len() as u64,
            Event::Done(done) => {
                self.done += 1;
                self.last = Some(context.now);
                if done.status != 200 || done.result.is_err() {
                    self.errors += 1;
                    let text = || format!("status {}: {:?}", done.status, done.result);
                    self.complaint.get_or_insert_with(text);
                }
                context.start(&done.request);
            }
            _ => {}
        }
    }
}

/// Everything that is measured, at one moment.
struct Snapshot {
    ledger: Ledger,
    cpu: sys::CpuTimes,
    turns: u64,
    done: u64,
    bytes: u64,
    time: Instant,
}

type Driver = Reactor<Client<Clients>, Epoll>;

impl Snapshot {
    /// At the beginning of an interval: what it takes itself is before the ledger is looked at.
    fn before(reactor: &Driver) -> std::io::Result<Self> {
        let this = Self::after(reactor)?;
        Ok(Self { ledger: Ledger::here(), ..this })
    }

    /// At its end, likewise after.
    fn after(reactor: &Driver) -> std::io::Result<Self> {
        let clients = reactor.engine.application();
        Ok(Self {
            ledger: Ledger::here(),
            cpu: sys::process_cpu()?,
            turns: reactor.stats().turns,
            done: clients.done,
            bytes: clients.bytes,
            time: sys::now(),
        })
    }
}

pub(crate) fn run(options: &Options) -> Result<Value, Box<dyn Error>> {
    sys::raise_descriptors()?;
    let config = Config {
        connections_max: usize::MAX,
        idle_max: usize::MAX,
        connect_timeout: Some(CONNECT_TIMEOUT),
        ..Config::default()
    };
    let client = Client::new(sys::now(), sys::wall_clock(), Clients::default(), config);
    let mut reactor = Reactor::new(client, Epoll::new()?);
    open(&mut reactor, options)?;
    let before = Snapshot::before(&reactor)?;
    let end = before.time + options.interval;
    while reactor.engine.application().last < Some(end) {
        turn(&mut reactor)?;
    }
    let after = Snapshot::after(&reactor)?;
    let (syscalls, eagain) = calls_since(&before.ledger, &after.ledger);
    Ok(json!({
        "requests": after.done - before.done,
        "errors": reactor.engine.application().errors,
        "bytes": after.bytes - before.bytes,
        "seconds": (after.time - before.time).as_secs_f64(),
        "cpu_user_us": micros(after.cpu.user - before.cpu.user),
        "cpu_system_us": micros(after.cpu.system - before.cpu.system),
        "clock_reads": after.ledger.clock_reads() - before.ledger.clock_reads(),
        "turns": after.turns - before.turns,
        "eagain": eagain,
        "syscalls": syscalls,
    }))
}

/// N transfers at a time, until as many answers have come twice: tables have their size then.
fn open(reactor: &mut Driver, options: &Options) -> Result<(), Box<dyn Error>> {
    let request = Request::get(&options.url).build()?;
    let (mut started, answers) = (0, 2 * options.clients as u64);
    while started < options.clients || reactor.engine.application().done < answers {
        reactor.with(|client, now| {
            let room = OPENING_MAX.saturating_sub(client.connecting());
            for _ in 0..room.min(options.clients - started) {
                client.start(now, &request);
                started += 1;
            }
        });
        turn(reactor)?;
    }
    Ok(())
}

fn turn(reactor: &mut Driver) -> Result<(), Box<dyn Error>> {
    reactor.turn()?;
    match &reactor.engine.application().complaint {
        Some(complaint) => Err(complaint.clone().into()),
        None => Ok(()),
    }
}

/// As long as libcurl waits for a connection: a server may be busy with 8,000 others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(300);
