//! A simulator: any number of engines and scripted peers, the network between them, virtual time.
//!
//! It does what a driver does with each [`crate::Action`], and reports what a driver reports. It
//! works step by step; a move is one step, such as one receive or one accept. [`Sim::new`] takes
//! the order of the moves and the number of bytes in each from a seed, and injects [`Faults`]. The
//! same seed gives the same run, so a failing run is reproduced by its seed. [`Sim::in_order`]
//! moves everything at once, in the order of a driver's turn: for tests that assert exact times.
//!
//! Time passes only if no move is left: it jumps to the next deadline.

mod accept;
mod actions;
mod connect;
mod files;
mod listener;
mod moves;
mod names;
mod node;
mod peer;
mod receive;
mod route;
mod scripts;
mod send;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use crate::{DriverEvent, Engine, Peer, SocketId};

pub use self::names::NameEntry;
pub use self::node::NodeId;
pub use self::peer::{NextSteps, PeerEnd, PeerScript, PeerStep, ReceivedCheck, ScriptedPeer};
pub use self::route::AddressRoute;
pub use self::wire::PeerId;

use self::listener::ListenSocket;
use self::moves::Move;
use self::names::Lookups;
use self::node::EngineNode;
use self::wire::{SimConnection, WireSide};

/// The faults that a seeded simulator injects, each per thousand opportunities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A connect is refused.
    pub refuse: u32,
    /// A connection is reset at both ends.
    pub reset: u32,
    /// Instead of a move, up to 50 ms pass.
    pub stall: u32,
    /// An accept fails: [`DriverEvent::AcceptFailed`].
    pub accept: u32,
    /// No pipe can be opened: the bytes are received as usual.
    pub pipe: u32,
    /// A file fails: [`crate::SocketEvent::FileFailed`] for one that is written,
    /// [`crate::SocketEvent::Failed`] for one that is loaded.
    pub file: u32,
}

/// Engines, scripted peers, and the network between them.
pub struct Sim {
    /// The bytes that one direction of a connection holds.
    pub capacity: usize,
    /// The most bytes that one receive returns.
    pub receive_max: usize,
    /// The faults that are injected.
    pub faults: Faults,
    /// Lookups and their addresses; all other names do not exist.
    pub names: HashMap<Box<str>, NameEntry>,
    start: Instant,
    now: Instant,
    random: fastrand::Rng,
    is_seeded: bool,
    resets: u64,
    nodes: Vec<EngineNode>,
    listening: Vec<ListenSocket>,
    routes: Vec<(Peer, AddressRoute)>,
    default_route: AddressRoute,
    wires: BTreeMap<u64, SimConnection>,
    wires_made: u64,
    closes: bool, // a connection may be over
    places: HashMap<(usize, SocketId), WireSide>,
    peers: Vec<ScriptedPeer>,
    scripts: Vec<PeerScript>,
    lookups: Lookups,
    loads: Vec<files::Loading>,
    possible: Vec<Move>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, wires, peers, .. } = self;
        let elapsed = self.elapsed();
        write!(f, "Sim at {elapsed:?}, {} nodes, {wires:#?}, {peers:#?}", nodes.len())
    }
}

impl Sim {
    /// A simulator at `now`, with its order and portions from `seed`.
    pub fn new(now: Instant, seed: u64, faults: Faults) -> Self {
        Self {
            capacity: 16 * 1024,
            receive_max: usize::MAX,
            faults,
            names: HashMap::new(),
            start: now,
            now,
            random: fastrand::Rng::with_seed(seed),
            is_seeded: true,
            resets: 0,
            nodes: Vec::new(),
            listening: Vec::new(),
            routes: Vec::new(),
            default_route: AddressRoute::Refused,
            wires: BTreeMap::new(),
            wires_made: 0,
            closes: false,
            places: HashMap::new(),
            peers: Vec::new(),
            scripts: Vec::new(),
            lookups: Lookups::default(),
            loads: Vec::new(),
            possible: Vec::new(),
        }
    }

    /// A simulator at `now` that moves everything at once, in the order of a driver's turn.
    pub fn in_order(now: Instant) -> Self {
        let seeded = Self::new(now, 0, Faults::default());
        Self { is_seeded: false, capacity: usize::MAX, ..seeded }
    }

    /// Adds an engine.
    pub fn add<E: Engine + 'static>(&mut self, engine: E) -> NodeId<E> {
        self.nodes.push(EngineNode::new(Box::new(engine)));
        NodeId::new(self.nodes.len() - 1)
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Connections that [`Faults`] refused or reset.
    pub fn broken(&self) -> u64 {
        self.resets
    }

    /// Sockets of an engine that are open or connecting.
    pub fn sockets<E>(&self, node: NodeId<E>) -> usize {
        self.places.keys().filter(|(at, _)| *at == node.at).count()
    }

    /// How often an engine's deadline has been reported.
    pub fn timeouts<E>(&self, node: NodeId<E>) -> u64 {
        self.nodes[node.at].timeouts
    }

    /// Reports that another thread woke the driver, with all that follows from it.
    pub fn wake<E>(&mut self, node: NodeId<E>) {
        self.report(node.at, DriverEvent::Wake);
        self.settle();
    }

    /// Runs until `done` or until no move and no deadline is left. Returns false after `steps_max`
    /// steps: a livelock.
    pub fn run(&mut self, steps_max: usize, mut done: impl FnMut(&Self) -> bool) -> bool {
        for _ in 0..steps_max {
            self.act();
            if done(self) || !self.step() {
                return true;
            }
        }
        false
    }

    /// Does everything that needs no time.
    ///
    /// # Panics
    /// It does not end: a livelock.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            self.act();
            if !self.move_on() {
                return;
            }
        }
        panic!("a livelock at {:?}: {self:?}", self.elapsed());
    }

    /// Lets time pass, from deadline to deadline.
    ///
    /// # Panics
    /// The deadlines do not end: a livelock.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..STEPS_MAX {
            self.settle();
            let Some(due) = self.next_deadline().filter(|due| *due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            self.expire();
        }
        panic!("one deadline after the other at {:?}: {self:?}", self.elapsed());
    }

    /// Lets time pass at once, as when a machine sleeps: missed deadlines are reported afterwards.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
        self.expire();
    }

    /// One move, or the time until the next deadline; false if there is neither.
    fn step(&mut self) -> bool {
        if self.chance(self.faults.stall) {
            let by = Duration::from_millis(self.random.u64(1..50));
            self.advance(by);
            return true;
        }
        if self.move_on() {
            return true;
        }
        let Some(next) = self.next_deadline() else { return false };
        self.now = self.now.max(next);
        self.expire();
        true
    }

    /// Reports the deadlines of engines that have passed.
    fn expire(&mut self) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].engine.poll_timeout().is_some_and(|due| due <= self.now) {
                self.nodes[at].timeouts += 1;
                self.report(at, DriverEvent::Timeout);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let engines = self.nodes.iter().filter_map(|node| node.engine.poll_timeout());
        let paused = self.nodes.iter().filter_map(EngineNode::next_accept);
        let corked = self.wires.values().filter_map(SimConnection::next_uncork);
        let scripts = self.peers.iter().filter_map(ScriptedPeer::next_step);
        // What is due already has been done, except for engines, which repeat a late deadline.
        let network = paused.chain(corked).chain(scripts).chain(self.lookups.next_due());
        engines.chain(network.filter(|due| *due > self.now)).min()
    }

    fn report(&mut self, node: usize, event: DriverEvent<'_>) {
        self.nodes[node].engine.handle(self.now, event);
    }

    /// True in `per_mille` of a thousand calls of a seeded simulator.
    fn chance(&mut self, per_mille: u32) -> bool {
        self.is_seeded && per_mille > 0 && self.random.u32(0..1000) < per_mille
    }

    /// Some of `most`, at least `least`: all of it, unless a seed decides.
    fn portion(&mut self, least: usize, most: usize) -> usize {
        match self.is_seeded && least < most {
            true => self.random.usize(least..=most),
            false => most,
        }
    }
}

impl<E: Engine + 'static> Index<NodeId<E>> for Sim {
    type Output = E;

    fn index(&self, node: NodeId<E>) -> &E {
        self.nodes[node.at].engine.as_any().downcast_ref().expect("a node has its engine's type")
    }
}

impl<E: Engine + 'static> IndexMut<NodeId<E>> for Sim {
    fn index_mut(&mut self, node: NodeId<E>) -> &mut E {
        let engine = self.nodes[node.at].engine.as_any_mut();
        engine.downcast_mut().expect("a node has its engine's type")
    }
}

impl Index<PeerId> for Sim {
    type Output = ScriptedPeer;

    fn index(&self, peer: PeerId) -> &ScriptedPeer {
        &self.peers[peer.0]
    }
}

impl IndexMut<PeerId> for Sim {
    fn index_mut(&mut self, peer: PeerId) -> &mut ScriptedPeer {
        &mut self.peers[peer.0]
    }
}

/// More steps than any test has at one time.
const STEPS_MAX: usize = 1_000_000;
