//! An engine in the simulator, and what its driver keeps for it.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use fulmar_proto::{Pipe, PipeCounts, Transmit};

use super::listener::Acceptor;
use crate::{Accepted, Action, DriverEvent, Engine, Limit, Passage, SocketId};

/// An engine of a [`super::Sim`], which is indexed by it.
pub struct NodeId<E> {
    pub(super) at: usize,
    engine: PhantomData<fn() -> E>,
}

impl<E> NodeId<E> {
    pub(super) fn new(at: usize) -> Self {
        Self { at, engine: PhantomData }
    }
}

impl<E> Clone for NodeId<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for NodeId<E> {}

impl<E> fmt::Debug for NodeId<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.at)
    }
}

/// An engine and what its driver keeps for it.
pub(super) struct EngineNode {
    pub(super) engine: Box<dyn AnyEngine>,
    /// By [`crate::ListenerId`]; `None`: closed.
    pub(super) acceptors: Vec<Option<Acceptor>>,
    pub(super) pipes: Vec<Arc<Pipe>>,
    pub(super) timeouts: u64,
}

impl EngineNode {
    pub(super) fn new(engine: Box<dyn AnyEngine>) -> Self {
        Self { engine, acceptors: Vec::new(), pipes: Vec::new(), timeouts: 0 }
    }

    /// When the first listener that is paused after a failure accepts again.
    pub(super) fn next_accept(&self) -> Option<Instant> {
        self.acceptors.iter().flatten().filter_map(|acceptor| acceptor.paused_until).min()
    }
}

/// [`Engine`] without its constants, so that engines of any type are in one list.
pub(super) trait AnyEngine: Any {
    fn stamps_sends(&self) -> bool;
    fn sends_early(&self) -> bool;
    fn accept(&mut self, now: Instant, from: Accepted) -> Option<SocketId>;
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>);
    fn poll_action(&mut self) -> Option<Action>;
    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>>;
    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage>;
    fn poll_timeout(&self) -> Option<Instant>;
    fn limit(&self, of: Limit) -> usize;
    fn pipe_counts(&self) -> Option<Arc<PipeCounts>>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<E: Engine + 'static> AnyEngine for E {
    fn stamps_sends(&self) -> bool {
        E::STAMPS_SENDS
    }

    fn sends_early(&self) -> bool {
        E::SENDS_EARLY
    }

    fn accept(&mut self, now: Instant, from: Accepted) -> Option<SocketId> {
        Engine::accept(self, now, from)
    }

    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        Engine::handle(self, now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        Engine::poll_action(self)
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        Engine::poll_transmit(self, socket)
    }

    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        Engine::poll_passage(self, socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Engine::poll_timeout(self)
    }

    fn limit(&self, of: Limit) -> usize {
        Engine::limit(self, of)
    }

    fn pipe_counts(&self) -> Option<Arc<PipeCounts>> {
        Engine::pipe_counts(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
