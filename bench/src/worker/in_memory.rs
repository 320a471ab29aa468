//! The engines of `fulmar load` and of the server, fed in memory: no socket, no clock. For counting
//! the instructions of a request.

use std::error::Error;
use std::time::{Duration, Instant};

use fulmar_engine::{Accepted, Action, DriverEvent, Engine, ListenerId, SocketEvent, SocketId};
use fulmar_proto::{Block, Request};
use fulmar_server::{HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_sys as sys;
use serde_json::{Value, json};

use super::flags::WorkerFlags;

/// `--engine load|server`, `--depth N` requests at a time, `--requests N`.
pub(super) fn run(flags: &WorkerFlags) -> Result<Value, Box<dyn Error>> {
    let (depth, requests) = (flags.need("--depth")?, flags.need("--requests")?);
    let now = sys::now();
    let done = match flags.need::<String>("--engine")?.as_str() {
        "load" => {
            let engine = fulmar_load::memory::engine(CONNECTIONS, depth, now)?;
            let mut world = MemoryLoop::new(engine, now, RESPONSE, depth);
            world.connect();
            steady(&mut world, requests);
            world.done
        }
        "server" => {
            let app = HandlerApp::new(hello, now, sys::wall_clock);
            let engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
            let mut world = MemoryLoop::new(engine, now, REQUEST, depth);
            world.accept();
            steady(&mut world, requests);
            world.done
        }
        other => return Err(format!("unknown engine '{other}'").into()),
    };
    Ok(json!({ "requests": done }))
}

fn hello(responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
    responder.text(200, "hello\n")
}

/// A driver of the smallest kind: all that is sent succeeds at once, and each send is followed by
/// the same input.
struct MemoryLoop<E> {
    engine: E,
    now: Instant,
    block: Block,
    input: Vec<u8>,
    transmits: Vec<SocketId>,
    receives: Vec<SocketId>,
    connects: Vec<SocketId>,
    depth: u64,
    done: u64,
}

impl<E: Engine> MemoryLoop<E> {
    fn new(engine: E, now: Instant, input: &[u8], depth: u8) -> Self {
        Self {
            engine,
            now,
            block: Block::new(240 * 1024),
            input: input.repeat(depth.into()),
            transmits: Vec::new(),
            receives: Vec::new(),
            connects: Vec::new(),
            depth: depth.into(),
            done: 0,
        }
    }

    /// Connects as often as the engine wishes.
    fn connect(&mut self) {
        for _ in 0..WARM_UP {
            self.poll_actions();
            for socket in std::mem::take(&mut self.connects) {
                self.engine.handle(self.now, SocketEvent::Connected.of(socket));
            }
            self.turn();
        }
    }

    fn accept(&mut self) {
        for port in 0..CONNECTIONS {
            let port = 1_000 + u16::try_from(port).unwrap_or_default();
            let peer = ([127, 0, 0, 1], port).into();
            let from = Accepted { listener: ListenerId(0), peer, local: None };
            self.receives.extend(self.engine.accept(self.now, from));
        }
        (0..WARM_UP).for_each(|_| self.turn());
    }

    #[inline(always)]
    fn turn(&mut self) {
        self.now += Duration::from_micros(100);
        while let Some(socket) = self.receives.pop() {
            self.block.clear();
            self.block.reserve(16 * 1024).extend_from_slice(&self.input);
            let input = SocketEvent::Input(self.block.input(self.input.len(), false));
            self.engine.handle(self.now, input.of(socket));
            self.done += self.depth;
        }
        self.poll_actions();
        self.engine.handle(self.now, DriverEvent::Flush);
        while let Some(socket) = self.transmits.pop() {
            let Some(transmit) = self.engine.poll_transmit(socket) else { continue };
            let len = transmit.len();
            self.engine.handle(self.now, SocketEvent::Sent(len).of(socket));
            self.receives.push(socket);
        }
        self.poll_actions();
        if self.engine.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
            self.engine.handle(self.now, DriverEvent::Timeout);
        }
    }

    #[inline(always)]
    fn poll_actions(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Transmit { socket } => self.transmits.push(socket),
                Action::Connect { socket, .. } => self.connects.push(socket),
                _ => {}
            }
        }
    }
}

/// What is counted.
#[inline(never)]
fn steady<E: Engine>(world: &mut MemoryLoop<E>, requests: u64) {
    let end = world.done + requests;
    while world.done < end {
        world.turn();
    }
}

const CONNECTIONS: u32 = 4;
/// Turns until tables and buffers have their final size.
const WARM_UP: u32 = 200;
const REQUEST: &[u8] =
    b"GET /hello HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\
    Date: Sun, 22 Nov 2026 21:45:00 GMT\r\n\r\nok";
