//! The interface between the engine and a relay: two sets of connections, clients and servers.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, Passage, SocketEvent, SocketId};
use fulmar_proto::{Layer, Transmit};

use crate::orders::SessionView;
use crate::shared::{BindId, ThreadContext};

/// Clients on one side, servers on the other. Methods have the names and meanings of
/// [`fulmar_engine::Engine`].
pub(crate) trait Relay {
    /// Adds an accepted client. The layer below its connection exists already.
    fn accept(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId>;

    fn handle(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        socket: SocketId,
        event: SocketEvent<'_>,
    );
    fn handle_timeout(&mut self, now: Instant, shared: &mut ThreadContext);
    /// Handles a wake-up by another thread: slots may be free for waiting sessions.
    fn handle_wake(&mut self, now: Instant, shared: &mut ThreadContext);

    /// The next sessions after position `from`, at most [`crate::PORTION`].
    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView>;
    /// Closes the connection of this client; false if it does not exist.
    fn close_client(&mut self, now: Instant, shared: &mut ThreadContext, socket: SocketId) -> bool;

    /// Begins a soft stop: announces it to clients, if the protocol permits.
    fn begin_soft_stop(&mut self, now: Instant, shared: &mut ThreadContext);
    /// Closes all connections.
    fn close_all(&mut self, now: Instant, shared: &mut ThreadContext);
    /// Number of client connections.
    fn clients(&self) -> usize;

    fn poll_action(&mut self) -> Option<Action>;
    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>>;
    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage>;
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Number of ranges of socket indexes: `index % STRIDE` identifies the owner of a socket.
pub(crate) const STRIDE: u32 = 4;
/// Clients that speak HTTP.
pub(crate) const HTTP_CLIENTS: u32 = 0;
/// Servers that speak HTTP.
pub(crate) const HTTP_SERVERS: u32 = 1;
/// Clients of mode tcp.
pub(crate) const TCP_CLIENTS: u32 = 2;
/// Servers of mode tcp.
pub(crate) const TCP_SERVERS: u32 = 3;
