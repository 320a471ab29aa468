//! A server in the simulator, with scripted clients: all times are virtual and exact.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::sim::{NodeId, PeerId, PeerStep, ScriptedPeer, Sim};
use fulmar_server::{ServerApp, ServerEngine};
use fulmar_sys as sys;

/// The server, its clock, and its clients.
#[derive(Debug)]
pub struct ServerHand<A: ServerApp> {
    /// The network and the clock.
    pub sim: Sim,
    /// The engine, of which [`crate::loops::LISTENER`] is open.
    pub node: NodeId<ServerEngine<A>>,
}

impl<A: ServerApp + 'static> ServerHand<A> {
    /// A server without clients; `make` receives the time.
    pub fn new(make: impl FnOnce(Instant) -> ServerEngine<A>) -> Self {
        let start = sys::now();
        let mut sim = Sim::in_order(start);
        let node = sim.add(make(start));
        sim.listen(node, address(), usize::MAX);
        Self { sim, node }
    }

    /// The engine.
    pub fn server(&mut self) -> &mut ServerEngine<A> {
        &mut self.sim[self.node]
    }

    /// How often a deadline had passed.
    pub fn wake_ups(&self) -> u64 {
        self.sim.timeouts(self.node)
    }

    /// A client, as it sees its connection.
    pub fn peer(&mut self, peer: PeerId) -> &mut ScriptedPeer {
        &mut self.sim[peer]
    }

    /// A client connects from loopback.
    ///
    /// # Panics
    /// The server closes the connection.
    pub fn connect(&mut self) -> PeerId {
        self.connect_from("127.0.0.1:1").expect("a place")
    }

    /// A client connects; `None`: the server closes the connection.
    ///
    /// # Panics
    /// That is not an address.
    pub fn connect_from(&mut self, peer: &str) -> Option<PeerId> {
        let from = peer.parse().expect("an address");
        let peer = self.sim.connect(from, address());
        self.sim.settle();
        self.sim[peer].closed.is_none().then_some(peer)
    }

    /// A client sends bytes.
    pub fn send(&mut self, peer: PeerId, bytes: impl AsRef<[u8]>) {
        self.sim.play(peer, PeerStep::Send(bytes.as_ref().to_vec()));
    }

    /// A client reads so many more bytes.
    pub fn take(&mut self, peer: PeerId, bytes: usize) {
        let window = &mut self.sim[peer].window;
        *window = window.saturating_add(bytes);
        self.sim.settle();
    }

    /// A client sends its FIN.
    pub fn finish(&mut self, peer: PeerId) {
        self.sim.play(peer, PeerStep::Fin);
    }

    /// A client resets its connection.
    pub fn fail(&mut self, peer: PeerId) {
        self.sim.play(peer, PeerStep::Reset);
    }

    /// Another thread wakes the server.
    pub fn wake(&mut self) {
        self.sim.wake(self.node);
    }

    /// Time passes as while a machine sleeps: missed deadlines are reported afterwards.
    pub fn jump(&mut self, time: Duration) {
        self.sim.advance(time);
        self.sim.settle();
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 80))
}
