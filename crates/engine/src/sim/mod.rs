//! A driver with a seed: two engines, a network between them, virtual time.
//!
//! The network splits and delays what is sent, fills up, refuses and resets, as the seed says;
//! time stands still while anything can happen, then jumps to the next deadline. The same seed
//! gives the same run, so a failure is its seed.

mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fulmar_proto::{FileRange, Input};

use crate::{Accepted, Action, DriverEvent, Engine, ListenerId, Passage, SocketEvent, SocketId};

use self::wire::{Half, Side, Wire};

/// What may go wrong, in parts of a thousand steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A connection is refused.
    pub refuse: u32,
    /// A connection is reset, for both sides.
    pub reset: u32,
    /// A step passes in which nothing moves but the time, by up to 50 ms.
    pub stall: u32,
}

/// Two engines and the network between them: `client` connects, `server` accepts.
#[derive(Debug)]
pub struct Sim<A, B> {
    /// The engine that connects.
    pub client: A,
    /// The engine that accepts.
    pub server: B,
    /// Bytes that a direction of a connection holds.
    pub capacity: usize,
    now: Instant,
    faults: Faults,
    random: fastrand::Rng,
    wires: Vec<Wire>,
}

impl<A: Engine, B: Engine> Sim<A, B> {
    /// Both engines at `now`; everything else follows from `seed`.
    pub fn new(now: Instant, seed: u64, faults: Faults, client: A, server: B) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { client, server, capacity: 16 * 1024, now, faults, random, wires: Vec::new() }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass for the engines.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
        self.client.handle(self.now, DriverEvent::Timeout);
        self.server.handle(self.now, DriverEvent::Timeout);
    }

    /// Runs until `done` or until nothing can happen any more; false after `steps_max` steps,
    /// which is a livelock.
    pub fn run(&mut self, steps_max: usize, mut done: impl FnMut(&Self) -> bool) -> bool {
        for _ in 0..steps_max {
            self.act();
            if done(self) || !self.step() {
                return true;
            }
        }
        false
    }

    /// One thing happens; false if nothing can.
    fn step(&mut self) -> bool {
        if self.random.u32(0..1000) < self.faults.stall {
            let by = Duration::from_millis(self.random.u64(1..50));
            self.advance(by);
            return true;
        }
        let mut possible: Vec<(usize, Side, bool)> = Vec::new();
        for (at, wire) in self.wires.iter().enumerate() {
            for side in [Side::Client, Side::Server] {
                if wire.can_receive(side) {
                    possible.push((at, side, true));
                }
                if wire.can_send(side, self.capacity) {
                    possible.push((at, side, false));
                }
            }
        }
        let Some((at, side, receives)) = self.random.choice(&possible).copied() else {
            return self.wait();
        };
        match self.random.u32(0..1000) < self.faults.reset {
            true => self.reset(at),
            false if receives => self.receive(at, side),
            false => self.send(at, side),
        }
        true
    }

    /// Nothing can move: on to the next deadline, if there is one.
    fn wait(&mut self) -> bool {
        let deadlines = [self.client.poll_timeout(), self.server.poll_timeout()];
        let Some(next) = deadlines.into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        self.client.handle(self.now, DriverEvent::Timeout);
        self.server.handle(self.now, DriverEvent::Timeout);
        true
    }

    fn act(&mut self) {
        loop {
            if let Some(action) = self.client.poll_action() {
                self.perform(Side::Client, action);
            } else if let Some(action) = self.server.poll_action() {
                self.perform(Side::Server, action);
            } else {
                return self.wires.retain(|wire| !wire.is_over());
            }
        }
    }

    fn perform(&mut self, side: Side, action: Action) {
        match action {
            Action::Connect { socket, .. } => self.connect(socket),
            Action::Transmit { socket } => self.half(side, socket, |half| half.sending = true),
            Action::Read { socket, on } => self.half(side, socket, |half| {
                half.reading = on;
                half.resumed = on;
            }),
            Action::Load { socket, range } => self.load(side, socket, &range),
            Action::Shutdown { socket } => self.half(side, socket, |half| half.finished = true),
            Action::Close { socket, .. } => self.half(side, socket, |half| half.closed = true),
            Action::Splice { socket } => self.half(side, socket, |half| half.splicing = true),
            Action::Accept { .. }
            | Action::ReportLocal { .. }
            | Action::Unlisten { .. }
            | Action::Resolve { .. }
            | Action::Abandon { .. } => {}
        }
    }

    fn connect(&mut self, socket: SocketId) {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, self.random.u16(1024..)));
        let refused = self.random.u32(0..1000) < self.faults.refuse;
        let accepted = if refused {
            None
        } else {
            self.server.accept(self.now, Accepted { listener: ListenerId(0), peer, local: None })
        };
        match accepted {
            Some(accepted) => {
                self.wires.push(Wire::new(socket, accepted));
                self.client.handle(self.now, SocketEvent::Connected.of(socket));
            }
            None => {
                let error = io::ErrorKind::ConnectionRefused.into();
                self.client.handle(self.now, SocketEvent::Failed(error).of(socket));
            }
        }
    }

    /// All of the range, or a part of it.
    fn load(&mut self, side: Side, socket: SocketId, range: &FileRange) {
        let mut bytes = wire::read(range);
        bytes.truncate(self.random.usize(1..=bytes.len()));
        self.report(side, socket, SocketEvent::Loaded(&bytes));
    }

    fn report(&mut self, side: Side, socket: SocketId, event: SocketEvent<'_>) {
        match side {
            Side::Client => self.client.handle(self.now, event.of(socket)),
            Side::Server => self.server.handle(self.now, event.of(socket)),
        }
    }

    fn half(&mut self, side: Side, socket: SocketId, change: impl FnOnce(&mut Half)) {
        let of_socket = |wire: &&mut Wire| {
            let half = wire.half(side);
            half.id == socket && !half.closed
        };
        if let Some(wire) = self.wires.iter_mut().find(of_socket) {
            change(wire.half_mut(side));
        }
    }

    /// Some of what is on the way arrives, split anywhere; the end comes alone or with bytes.
    fn receive(&mut self, at: usize, side: Side) {
        if self.splice(at, side) {
            return;
        }
        let wire = &mut self.wires[at];
        let some = self.random.usize(0..=wire.incoming(side).len());
        let (mut bytes, eof) = wire.take(side, some);
        let id = wire.half(side).id;
        self.report(side, id, SocketEvent::Input(Input::all(&mut bytes, eof)));
        self.wires[at].half_mut(side).unread = bytes;
    }

    /// Some of what is on the way goes into a file; false if it is to go the usual way.
    fn splice(&mut self, at: usize, side: Side) -> bool {
        let wire = &mut self.wires[at];
        let half = wire.half(side);
        let incoming = wire.incoming(side).len();
        if !half.splicing || half.resumed || !half.unread.is_empty() || incoming == 0 {
            return false;
        }
        let id = half.id;
        let range = match side {
            Side::Client => self.client.poll_passage(id),
            Side::Server => self.server.poll_passage(id),
        };
        // This network has no pipes.
        let Some(Passage::File(range)) = range else {
            wire.half_mut(side).splicing = false;
            return false;
        };
        let len = usize::try_from(range.len).unwrap_or(usize::MAX);
        let some = self.random.usize(1..=incoming.min(len));
        let bytes = wire.take_away(side, some);
        let result = wire::write(&range, &bytes);
        if result.is_err() {
            let half = wire.half_mut(side);
            (half.splicing, half.reading) = (false, false);
        }
        let event = match result {
            Ok(()) => SocketEvent::Spliced(some as u64),
            Err(error) => SocketEvent::FileFailed(error),
        };
        self.report(side, id, event);
        true
    }

    /// The network takes some of what is queued, perhaps nothing.
    fn send(&mut self, at: usize, side: Side) {
        let wire = &mut self.wires[at];
        let id = wire.half(side).id;
        if wire.half(side.other()).closed {
            let error: io::Error = io::ErrorKind::ConnectionReset.into();
            return self.report(side, id, SocketEvent::Failed(error));
        }
        let transmit = match side {
            Side::Client => self.client.poll_transmit(id),
            Side::Server => self.server.poll_transmit(id),
        };
        let len = transmit.map_or(0, wire::len);
        let room = self.capacity.saturating_sub(wire.outgoing(side).len());
        let some = self.random.usize(0..=len.min(room));
        let bytes = transmit.map_or_else(Vec::new, |transmit| wire::flatten(transmit, some));
        wire.put(side, &bytes);
        wire.half_mut(side).sending = some < len;
        self.report(side, id, SocketEvent::Sent(some as u64));
    }

    fn reset(&mut self, at: usize) {
        let wire = self.wires.remove(at);
        for side in [Side::Client, Side::Server] {
            let half = wire.half(side);
            let error: io::Error = io::ErrorKind::ConnectionReset.into();
            let id = half.id;
            if !half.closed {
                self.report(side, id, SocketEvent::Failed(error));
            }
        }
    }
}
