//! What the engine asks of a kind of relay: two sets of links, lent to each other.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, Passage, SocketEvent, SocketId};
use fulmar_proto::{Layer, Transmit};

use crate::orders::SessionView;
use crate::shared::{BindId, Shared};

/// Clients on one side, servers on the other. The names of the methods are those of
/// [`fulmar_engine::Engine`], and mean the same.
pub(crate) trait Relay {
    /// A client has connected, and may stay: what is below its connection is there already.
    fn accept(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId>;

    fn handle(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        socket: SocketId,
        event: SocketEvent<'_>,
    );
    fn handle_timeout(&mut self, now: Instant, shared: &mut Shared);
    /// Another thread has roused this one: who waits for a place may have one.
    fn handle_wake(&mut self, now: Instant, shared: &mut Shared);

    /// The next sessions behind place `from`: at most [`crate::PORTION`].
    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView>;
    /// This client is cut off; false: it is not there.
    fn cut(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) -> bool;

    /// Clients are asked to leave, as far as the protocol has a way to.
    fn begin_to_end(&mut self, now: Instant, shared: &mut Shared);
    /// Whoever is left is cut off.
    fn cut_all(&mut self, now: Instant, shared: &mut Shared);
    /// Connections of clients.
    fn clients(&self) -> usize;

    fn poll_action(&mut self) -> Option<Action>;
    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>>;
    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage>;
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Which lane of socket names belongs to whom: the owner of a socket is `index % LANES`.
pub(crate) const LANES: u32 = 4;
/// Clients that speak HTTP.
pub(crate) const HTTP_CLIENTS: u32 = 0;
/// Servers that speak HTTP.
pub(crate) const HTTP_SERVERS: u32 = 1;
/// Clients whose bytes nobody looks into.
pub(crate) const TCP_CLIENTS: u32 = 2;
/// Servers whose bytes nobody looks into.
pub(crate) const TCP_SERVERS: u32 = 3;
