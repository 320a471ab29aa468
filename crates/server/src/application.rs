//! What answers requests.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{End, Exchange, SocketId};
use fulmar_proto::{Event, Server, ServerConnection};

/// What answers requests: it hears what arrived, and answers on the connection it arrived on.
pub trait Application {
    /// What it keeps for each connection; an idle connection costs as much as this.
    type Data: Default;

    /// Somebody connected.
    fn accept(&mut self, _now: Instant, _peer: SocketAddr) -> Self::Data {
        Self::Data::default()
    }

    /// The connection stands: nothing has been read from it so far. `layer` is what the layer
    /// below it tells of itself, if there is one: of TLS, who the client is, and which name it
    /// asked for.
    fn handle_established(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _data: &mut Self::Data,
        _layer: Option<&dyn Any>,
    ) {
    }

    /// Something arrived. It may be answered at once, or later: from a timer that
    /// [`Context::set_timer`] starts.
    fn handle(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        data: &mut Self::Data,
        event: Event<'_, Server>,
    );

    /// The moment that [`Context::set_timer`] named has come.
    fn handle_timer(
        &mut self,
        _context: &mut Context,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
    ) {
    }

    /// The connection is gone.
    fn handle_gone(&mut self, _now: Instant, _socket: SocketId, _data: Self::Data, _end: &End) {}

    /// Descriptors or memory ran out when somebody wanted to connect: what can be given back
    /// makes room.
    fn handle_exhausted(&mut self, _now: Instant) {}

    /// The moment that [`Application::poll_timeout`] told has come: for work that belongs to no
    /// connection.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`Application::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// When and on which exchange something happened.
#[derive(Debug)]
pub struct Context {
    /// This turn's time.
    pub now: Instant,
    /// The exchange; of a timer, only its socket means something.
    pub exchange: Exchange,
    pub(crate) timer: Option<Option<Instant>>,
}

impl Context {
    /// Something happened now, in this exchange: for tests of applications.
    pub fn new(now: Instant, exchange: Exchange) -> Self {
        Self { now, exchange, timer: None }
    }

    /// [`Application::handle_timer`] is due on this connection at `deadline`, once.
    pub fn set_timer(&mut self, deadline: Option<Instant>) {
        self.timer = Some(deadline);
    }
}
