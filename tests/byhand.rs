//! A client driven by hand, in virtual time, against a network that a test scripts: nothing waits,
//! and every moment is exact.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use fulmar_client::{Client, Config, Context, Done, Request, TransferId};
use fulmar_engine::{Action, DriverEvent, Engine, SocketEvent, SocketId};
use fulmar_proto::{Input, Segment};
use fulmar_sys as sys;

use crate::threads::RequestRecord;
use crate::transfers::TransferRecorder;

/// What a server says: so long after the request, these bytes; `None`: the end.
pub type Says = Vec<(Duration, Option<Vec<u8>>)>;

/// What a server says at once.
pub fn at_once(bytes: Vec<u8>) -> Says {
    vec![(Duration::ZERO, Some(bytes))]
}

/// What a server says so many milliseconds after the request.
pub fn after(ms: u64, bytes: Vec<u8>) -> Says {
    vec![(Duration::from_millis(ms), Some(bytes))]
}

/// The client, its clock and its network.
pub struct ByHand {
    /// The engine.
    pub client: Client<TransferRecorder>,
    /// When each request arrived, from the start, and what it was.
    pub log: Vec<(Duration, RequestRecord)>,
    /// Whether connections stand as soon as they are asked for, or never.
    pub connects: bool,
    /// So many bytes are received at a time.
    pub receive_max: usize,
    /// Connections asked for.
    pub connections: usize,
    /// The wall clock at the start.
    pub wall: SystemTime,
    start: Instant,
    now: Instant,
    wires: Vec<Wire>,
    script: Box<dyn FnMut(&RequestRecord) -> Says>,
}

/// One connection.
struct Wire {
    socket: SocketId,
    number: usize,
    sent: Vec<u8>,
    coming: VecDeque<(Instant, Option<Vec<u8>>)>,
    unread: BytesMut,
    reading: bool,
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHand").field("log", &self.log).finish_non_exhaustive()
    }
}

impl ByHand {
    /// A client, and servers that answer as `script` says.
    pub fn new(config: Config, script: impl FnMut(&RequestRecord) -> Says + 'static) -> Self {
        Self::with(TransferRecorder::default(), config, script)
    }

    /// As [`ByHand::new`], with a recorder that acts.
    pub fn with(
        recorder: TransferRecorder,
        config: Config,
        script: impl FnMut(&RequestRecord) -> Says + 'static,
    ) -> Self {
        let start = sys::now();
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777); // RFC 9110 §5.6.7
        Self {
            client: Client::new(start, wall, recorder, config),
            log: Vec::new(),
            connects: true,
            receive_max: usize::MAX,
            connections: 0,
            wall,
            start,
            now: start,
            wires: Vec::new(),
            script: Box::new(script),
        }
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Starts a transfer.
    pub fn start(&mut self, request: &Request) -> TransferId {
        self.client.start(self.now, request)
    }

    /// Does something with transfers.
    pub fn act<O>(&mut self, act: impl FnOnce(&mut Context<'_>) -> O) -> O {
        self.client.with(self.now, |_, context| act(context))
    }

    /// Lets time pass until `elapsed`, with all that happens meanwhile.
    pub fn run_until(&mut self, elapsed: Duration) {
        while self.step(self.start + elapsed) {}
        self.now = self.start + elapsed;
    }

    /// Runs until no transfer is left.
    ///
    /// # Panics
    /// Nothing can happen any more, or always something does.
    pub fn run(&mut self) {
        let end = self.now + Duration::from_secs(24 * 3600);
        for _ in 0..100_000 {
            if self.client.running() == 0 {
                return;
            }
            assert!(self.step(end), "nothing can happen any more");
        }
        panic!("always something happens");
    }

    /// How a transfer ended.
    pub fn ended(&self, id: TransferId) -> &Done {
        self.client.application().ended(id)
    }

    /// When requests for this target arrived, in milliseconds.
    pub fn arrivals(&self, target: &str) -> Vec<u128> {
        let log = self.log.iter().filter(|(_, asked)| asked.target == target);
        log.map(|(at, _)| at.as_millis()).collect()
    }

    /// The next thing happens, if it does before `end`.
    fn step(&mut self, end: Instant) -> bool {
        if self.perform() || self.receive() {
            return true;
        }
        let coming = self.wires.iter().filter(|wire| wire.reading);
        let coming = coming.filter_map(|wire| wire.coming.front()).map(|(at, _)| *at);
        let Some(next) = coming.chain(self.client.poll_timeout()).min() else { return false };
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        self.client.handle(self.now, DriverEvent::Timeout);
        true
    }

    /// Does what the client asks for next; false if that is nothing.
    fn perform(&mut self) -> bool {
        let Some(action) = self.client.poll_action() else { return false };
        match action {
            Action::Connect { socket, .. } => self.connect(socket),
            Action::Transmit { socket } => self.transmit(socket),
            Action::Read { socket, on } => {
                if let Some(wire) = self.wire(socket) {
                    wire.reading = on;
                }
                if on {
                    self.input(socket, false);
                }
            }
            Action::Close { socket, .. } => self.wires.retain(|wire| wire.socket != socket),
            _ => {}
        }
        true
    }

    fn wire(&mut self, socket: SocketId) -> Option<&mut Wire> {
        self.wires.iter_mut().find(|wire| wire.socket == socket)
    }

    fn connect(&mut self, socket: SocketId) {
        let number = self.connections;
        self.connections += 1;
        self.wires.push(Wire {
            socket,
            number,
            sent: Vec::new(),
            coming: VecDeque::new(),
            unread: BytesMut::new(),
            reading: true,
        });
        if self.connects {
            self.client.handle(self.now, SocketEvent::Connected.of(socket));
        }
    }

    fn transmit(&mut self, socket: SocketId) {
        let mut bytes = Vec::new();
        if let Some(transmit) = self.client.poll_transmit(socket) {
            bytes.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(run) = segment else { panic!("no files here") };
                bytes.extend_from_slice(run);
            }
        }
        self.client.handle(self.now, SocketEvent::Sent(bytes.len() as u64).of(socket));
        let (now, elapsed) = (self.now, self.elapsed());
        let Some(wire) = self.wires.iter_mut().find(|wire| wire.socket == socket) else { return };
        wire.sent.extend_from_slice(&bytes);
        while !wire.sent.is_empty() {
            let mut from = &wire.sent[..];
            let Ok(Some(mut asked)) = RequestRecord::read_head(&mut from) else { return };
            if asked.read_body(&mut from).is_err() {
                return; // there is more to come
            }
            asked.connection = wire.number;
            let read = wire.sent.len() - from.len();
            wire.sent.drain(..read);
            let says = (self.script)(&asked).into_iter();
            wire.coming.extend(says.map(|(after, bytes)| (now + after, bytes)));
            self.log.push((elapsed, asked));
        }
    }

    /// What is due arrives where it is read; false if nothing is.
    fn receive(&mut self) -> bool {
        let (now, max) = (self.now, self.receive_max);
        let is_due = |wire: &&mut Wire| {
            wire.reading && wire.coming.front().is_some_and(|(at, _)| *at <= now)
        };
        let Some(wire) = self.wires.iter_mut().find(is_due) else { return false };
        let socket = wire.socket;
        let (at, bytes) = wire.coming.pop_front().expect("it is due");
        let eof = bytes.is_none();
        let mut bytes = bytes.unwrap_or_default();
        if bytes.len() > max {
            wire.coming.push_front((at, Some(bytes.split_off(max))));
        }
        wire.unread.extend_from_slice(&bytes);
        self.input(socket, eof);
        true
    }

    fn input(&mut self, socket: SocketId, eof: bool) {
        let now = self.now;
        let Some(wire) = self.wire(socket) else { return };
        let mut unread = std::mem::take(&mut wire.unread);
        self.client.handle(now, SocketEvent::Input(Input::all(&mut unread, eof)).of(socket));
        if let Some(wire) = self.wire(socket) {
            wire.unread = unread;
        }
    }
}
