//! Relays of mode tcp between a client and a server that are scripted: every split, stall,
//! half-close and reset, in virtual time. What arrives is what was sent, in order; all of it,
//! unless the network broke the connection.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fulmar_engine::{Accepted, Action, DriverEvent, Engine, SocketEvent, SocketId};
use fulmar_proto::{Input, Segment};
use fulmar_proxy::Proxy;
use fulmar_sys as sys;
use fulmar_tests::loops::LISTENER;
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;

/// The proxy's socket, and whoever is behind it.
struct Wire {
    // What the peer says.
    script: VecDeque<u8>,
    on_the_way: VecDeque<u8>,
    ends: bool,     // after its script
    end_told: bool, // to the proxy
    // What the proxy says.
    heard: Vec<u8>,
    ended: bool,
    // As a driver knows it.
    unread: BytesMut,
    reading: bool,
    resumed: bool,
    sending: bool,
    connecting: bool,
    closed: bool,
}

impl Wire {
    fn new(script: &[u8], ends: bool, connecting: bool) -> Self {
        Self {
            script: script.iter().copied().collect(),
            on_the_way: VecDeque::new(),
            ends,
            end_told: false,
            heard: Vec::new(),
            ended: false,
            unread: BytesMut::new(),
            reading: true,
            resumed: false,
            sending: false,
            connecting,
            closed: false,
        }
    }

    fn has_end(&self) -> bool {
        self.ends && self.script.is_empty() && self.on_the_way.is_empty()
    }

    fn can_receive(&self) -> bool {
        let news = self.resumed || !self.on_the_way.is_empty();
        !self.closed
            && !self.connecting
            && self.reading
            && (news || self.has_end() && !self.end_told)
    }

    fn can_send(&self) -> bool {
        !self.closed && !self.connecting && self.sending
    }
}

struct World {
    proxy: Proxy,
    now: Instant,
    random: fastrand::Rng,
    wires: BTreeMap<u64, (SocketId, Wire)>,
    server: Vec<u8>,
    server_ends: bool,
    broken: bool,
}

impl World {
    fn act(&mut self) {
        while let Some(action) = self.proxy.poll_action() {
            match action {
                Action::Connect { socket, .. } => {
                    let wire = Wire::new(&self.server, self.server_ends, true);
                    self.wires.insert(socket.to_bits(), (socket, wire));
                }
                Action::Transmit { socket } => self.wire(socket, |wire| wire.sending = true),
                Action::Read { socket, on } => self.wire(socket, |wire| {
                    wire.reading = on;
                    wire.resumed = on;
                }),
                Action::Shutdown { socket } => self.wire(socket, |wire| {
                    assert!(!wire.ended, "it ends once");
                    wire.ended = true;
                }),
                Action::Close { socket, .. } => self.wire(socket, |wire| wire.closed = true),
                Action::Splice { .. } => {} // there are no pipes: all comes as input
                action => panic!("nobody expects {action:?}"),
            }
        }
    }

    fn wire(&mut self, socket: SocketId, change: impl FnOnce(&mut Wire)) {
        if let Some((_, wire)) = self.wires.get_mut(&socket.to_bits()) {
            change(wire);
        }
    }

    /// One thing happens; false if nothing can.
    fn step(&mut self, resets: u32) -> bool {
        let mut possible = Vec::new();
        for (socket, wire) in self.wires.values() {
            let things = [
                (Thing::Connect, wire.connecting && !wire.closed),
                (Thing::Say, !wire.connecting && !wire.closed && !wire.script.is_empty()),
                (Thing::Receive, wire.can_receive()),
                (Thing::Send, wire.can_send()),
            ];
            possible.extend(things.iter().filter(|it| it.1).map(|(thing, _)| (*socket, *thing)));
        }
        let Some((socket, thing)) = self.random.choice(&possible).copied() else { return false };
        if self.random.u32(0..1_000) < resets {
            self.broken = true;
            let kind = if thing == Thing::Connect {
                ErrorKind::ConnectionRefused
            } else {
                ErrorKind::ConnectionReset
            };
            self.wire(socket, |wire| wire.connecting = false);
            self.proxy.handle(self.now, SocketEvent::Failed(kind.into()).of(socket));
            return true;
        }
        match thing {
            Thing::Connect => {
                self.wire(socket, |wire| wire.connecting = false);
                self.proxy.handle(self.now, SocketEvent::Connected.of(socket));
            }
            Thing::Say => {
                let n = self.random.usize(1..=5_000);
                self.wire(socket, |wire| {
                    let n = n.min(wire.script.len());
                    let said: Vec<u8> = wire.script.drain(..n).collect();
                    wire.on_the_way.extend(said);
                });
            }
            Thing::Receive => self.receive(socket),
            Thing::Send => self.send(socket),
        }
        true
    }

    fn receive(&mut self, socket: SocketId) {
        let (_, wire) = self.wires.get_mut(&socket.to_bits()).expect("it is possible");
        let n = self.random.usize(0..=wire.on_the_way.len());
        let mut bytes = std::mem::take(&mut wire.unread);
        bytes.extend(wire.on_the_way.drain(..n));
        wire.resumed = false;
        let eof = wire.has_end();
        wire.end_told |= eof;
        self.proxy.handle(self.now, SocketEvent::Input(Input::all(&mut bytes, eof)).of(socket));
        self.wire(socket, |wire| wire.unread = bytes);
    }

    fn send(&mut self, socket: SocketId) {
        let mut all = Vec::new();
        if let Some(transmit) = self.proxy.poll_transmit(socket) {
            all.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(bytes) = segment else { panic!("no files are relayed") };
                all.extend_from_slice(bytes);
            }
        }
        let n = self.random.usize(0..=all.len());
        let (_, wire) = self.wires.get_mut(&socket.to_bits()).expect("it is possible");
        assert!(!wire.ended || all.is_empty(), "nothing follows an end");
        wire.heard.extend_from_slice(&all[..n]);
        wire.sending = n < all.len();
        self.proxy.handle(self.now, SocketEvent::Sent(n as u64).of(socket));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thing {
    Connect,
    Say,
    Receive,
    Send,
}

/// One session: what both sides have heard, and the world after it.
fn session(seed: u64, resets: u32) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let text = |random: &mut fastrand::Rng| {
        let len = if random.bool() { random.usize(..20) } else { random.usize(..600_000) };
        (0..len).map(|_| random.u8(..)).collect::<Vec<u8>>()
    };
    let (asked, answered) = (text(&mut random), text(&mut random));
    let mut back = backend([server("one", "192.0.2.1:80".parse().expect("an address"))]);
    back.retries = 0;
    let (proxy, live, _) = proxy(config(frontend(), [back]), None);
    let mut world = World {
        proxy,
        now: sys::now(),
        random,
        wires: BTreeMap::new(),
        server: answered.clone(),
        server_ends: true,
        broken: false,
    };
    let peer: SocketAddr = "198.51.100.7:4711".parse().expect("an address");
    let client = world
        .proxy
        .accept(world.now, Accepted { listener: LISTENER, peer, local: None })
        .expect("it is wanted");
    world.wires.insert(client.to_bits(), (client, Wire::new(&asked, true, false)));
    world.act();
    for step in 0.. {
        assert!(step < 1_000_000, "seed {seed}: it never ends");
        let went_on = world.step(resets);
        world.act();
        if !went_on {
            // What is left waits for a deadline.
            let Some(next) = world.proxy.poll_timeout().filter(|_| world.broken) else { break };
            world.now = world.now.max(next) + Duration::from_millis(1);
            world.proxy.handle(world.now, DriverEvent::Timeout);
            world.act();
        }
    }
    let (_, front) = &world.wires[&client.to_bits()];
    let back = world.wires.values().find(|(socket, _)| *socket != client).map(|(_, wire)| wire);
    assert!(answered.starts_with(&front.heard), "seed {seed}: what was said, in order");
    if let Some(back) = back {
        assert!(asked.starts_with(&back.heard), "seed {seed}: what was said, in order");
    }
    if !world.broken {
        let back = back.expect("a server was asked");
        assert!(front.heard == answered && back.heard == asked, "seed {seed}: all of it");
        assert!(front.closed && back.closed, "seed {seed}: both are closed");
    }
    assert!(world.wires.values().all(|(_, wire)| wire.closed), "seed {seed}: nothing is left");
    let left = fulmar_proxy::sum(live.frontends[0].counters.iter(), fulmar_proxy::Stat::Sessions);
    assert_eq!(left, 0, "seed {seed}");
    world
}

#[test]
fn every_byte_arrives_in_order_whatever_the_network_does() {
    for seed in 0..150 {
        session(seed, 0);
    }
}

#[test]
fn a_broken_connection_ends_the_session() {
    let broken = (1_000..1_300).filter(|seed| session(*seed, 10).broken).count();
    assert!(broken > 100, "{broken} of 300 is too little to be a test");
}
