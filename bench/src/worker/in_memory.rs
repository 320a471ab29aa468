//! The engines of `fulmar load` and of the server, fed in memory: no socket, no clock. For counting
//! the instructions of a request.
//!
//! The server's requests of HTTP/2 have blocks as nghttp2 and curl encode them: all fields but the
//! path are in the dynamic table.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, DriverEvent, Engine, ListenerId, SocketEvent, SocketId};
use fulmar_proto::{Block, Request};
use fulmar_server::{HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_sys as sys;
use serde_json::{Value, json};

use super::flags::WorkerFlags;

/// `--engine load|server|http2`, `--depth N` requests at a time, `--requests N`.
pub(super) fn run(flags: &WorkerFlags) -> Result<Value, Box<dyn Error>> {
    let (depth, requests) = (flags.need("--depth")?, flags.need("--requests")?);
    let now = sys::now();
    let done = match flags.need::<String>("--engine")?.as_str() {
        "load" => {
            let engine = fulmar_load::memory::engine(CONNECTIONS, depth, now)?;
            let mut world = MemoryLoop::new(engine, now, MessageSource::same(RESPONSE, depth));
            world.connect();
            steady(&mut world, requests);
            world.done
        }
        name @ ("server" | "http2") => {
            let app = HandlerApp::new(hello, now, sys::wall_clock);
            let engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
            let source = match name {
                "http2" => MessageSource::streams(depth),
                _ => MessageSource::same(REQUEST, depth),
            };
            let mut world = MemoryLoop::new(engine, now, source);
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

/// What each send is followed by.
struct MessageSource {
    bytes: Vec<u8>,
    depth: u64,
    /// HTTP/2: the bytes of a request, whose stream is patched.
    frame_size: Option<usize>,
    /// The next stream by the index of the socket.
    streams: Vec<u32>,
}

impl MessageSource {
    fn same(message: &[u8], depth: u8) -> Self {
        let bytes = message.repeat(depth.into());
        Self { bytes, depth: depth.into(), frame_size: None, streams: Vec::new() }
    }

    fn streams(depth: u8) -> Self {
        let frame_size = Some(WARM_HEADERS.len());
        Self { frame_size, ..Self::same(WARM_HEADERS, depth) }
    }

    /// The next input of a socket, behind `out`.
    #[inline(always)]
    fn write(&mut self, socket: SocketId, out: &mut BytesMut) {
        if let Some(size) = self.frame_size {
            let index = socket.index as usize;
            if index >= self.streams.len() {
                self.streams.resize(index + 1, 1);
            }
            let stream = &mut self.streams[index];
            if *stream == 1 {
                out.extend_from_slice(FIRST_FRAMES);
                *stream = 3;
                return;
            }
            for frame in self.bytes.chunks_exact_mut(size) {
                frame[STREAM_AT..][..4].copy_from_slice(&stream.to_be_bytes());
                *stream += 2;
            }
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// A driver of the smallest kind: all that is sent succeeds at once, and each send is followed by
/// the next input.
struct MemoryLoop<E> {
    engine: E,
    now: Instant,
    block: Block,
    source: MessageSource,
    transmits: Vec<SocketId>,
    receives: Vec<SocketId>,
    connects: Vec<SocketId>,
    done: u64,
}

impl<E: Engine> MemoryLoop<E> {
    fn new(engine: E, now: Instant, source: MessageSource) -> Self {
        Self {
            engine,
            now,
            block: Block::new(240 * 1024),
            source,
            transmits: Vec::new(),
            receives: Vec::new(),
            connects: Vec::new(),
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
            let memory = self.block.reserve(16 * 1024);
            self.source.write(socket, memory);
            let len = memory.len();
            let input = SocketEvent::Input(self.block.input(len, false));
            self.engine.handle(self.now, input.of(socket));
            self.done += self.source.depth;
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

/// The beginning of a client of HTTP/2: its preface, SETTINGS, a window of the connection for all
/// responses, an acknowledgement, and the request that fills the dynamic table.
const FIRST_FRAMES: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\x00\x00\
    \x00\x00\x00\x04\x01\x00\x00\x00\x00\
    \x00\x00\x26\x01\x05\x00\x00\x00\x01\
    \x82\x86\x41\x0e127.0.0.1:8080\x04\x85\x62\x72\xd1\x41\xff\x7a\x06curl/8\x53\x03*/*";
/// HEADERS of the same request afterwards.
const WARM_HEADERS: &[u8] = b"\x00\x00\x0c\x01\x05\x00\x00\x00\x00\
    \x82\x86\xc0\x04\x85\x62\x72\xd1\x41\xff\xbf\xbe";
/// Where the stream of a frame is.
const STREAM_AT: usize = 5;
