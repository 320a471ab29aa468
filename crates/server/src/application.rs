//! What answers requests.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{End, Exchange, ListenerId, SocketId};
use fulmar_proto::{Event, Server, ServerConnection};

use crate::mailbox::Mailbox;
use crate::panics::Panic;

/// What answers requests: it hears what arrived, and answers on the connection it arrived on.
///
/// A method that panics ends the connection that it was called for, and no other. The client
/// receives 500 and the connection closes; if the head of a response was queued before, the
/// connection is cut off behind it. The application gets its data of the connection back at
/// once, by [`ServerApp::handle_gone`] with [`End::Panicked`], and is not called for that
/// connection again. It is called for all others as before, so state that connections share must be
/// consistent wherever a method can panic.
pub trait ServerApp {
    /// What it keeps for each connection; an idle connection costs as much as this.
    type Data: Default;

    /// What other threads tell it, by a [`crate::Mailbox`];
    /// [`Infallible`](std::convert::Infallible) if they tell it nothing.
    type Message: Send + 'static;

    /// Told once, before anything else: other threads post to this `mailbox`.
    fn start(&mut self, _mailbox: Mailbox<Self::Message>) {}

    /// Somebody connected.
    fn accept(&mut self, _now: Instant, _: ListenerId, _peer: SocketAddr) -> Self::Data {
        Self::Data::default()
    }

    /// A layer below the connection has done its work, as one that reads a PROXY header, and is
    /// about to go. `info` is what [`fulmar_proto::Layer::info`] tells of it; one that tells
    /// nothing goes unheard.
    fn handle_replaced(
        &mut self,
        _context: &mut ExchangeContext,
        _data: &mut Self::Data,
        _info: &dyn Any,
    ) {
    }

    /// The connection stands, and so does every layer below it. `info` is what
    /// [`fulmar_proto::Layer::info`] tells of the layer, if there is one.
    fn handle_established(
        &mut self,
        _context: &mut ExchangeContext,
        _data: &mut Self::Data,
        _info: Option<&dyn Any>,
    ) {
    }

    /// Something arrived. It may be answered at once, or later: when a timer that
    /// [`ExchangeContext::set_timer`] starts has run out, or another thread has posted a message.
    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        data: &mut Self::Data,
        event: Event<'_, Server>,
    );

    /// The moment that [`ExchangeContext::set_timer`] named has come.
    fn handle_timer(
        &mut self,
        _context: &mut ExchangeContext,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
    ) {
    }

    /// Another thread has posted a message. Its exchange may be over, and another one be on the
    /// connection: [`ExchangeContext::exchange`] is the one that was meant.
    fn handle_message(
        &mut self,
        _context: &mut ExchangeContext,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
        _message: Self::Message,
    ) {
    }

    /// The connection is gone.
    fn handle_gone(&mut self, _now: Instant, _socket: SocketId, _data: Self::Data, _end: &End) {}

    /// Descriptors or memory ran out when somebody wanted to connect: what can be given back
    /// makes room.
    fn handle_exhausted(&mut self, _now: Instant) {}

    /// The moment that [`ServerApp::poll_timeout`] told has come: for work that belongs to no
    /// connection.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`ServerApp::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// A method of this application panicked, and the server caught the panic. `data` belongs to
    /// the connection that it was called for, before `handle_gone` takes it; `None` for calls
    /// without a connection. A panic in here is ignored.
    fn handle_panic(&mut self, _now: Instant, _data: Option<&mut Self::Data>, _panic: &Panic) {}

    /// The first panic that the application has caught itself, as [`crate::HandlerApp`] does for each
    /// request: [`crate::ServerEngine::first_panic`] returns it too.
    fn first_panic(&self) -> Option<&Panic> {
        None
    }

    /// The server has ended: told once, by whoever ran it.
    fn finish(&mut self, _now: Instant) {}
}

/// When and on which exchange something happened.
#[derive(Debug)]
pub struct ExchangeContext {
    /// This turn's time.
    pub now: Instant,
    /// The exchange; of a timer, only its socket means something.
    pub exchange: Exchange,
    pub(crate) timer: Option<Option<Instant>>,
}

impl ExchangeContext {
    /// Something happened now, in this exchange: for tests of applications.
    pub fn new(now: Instant, exchange: Exchange) -> Self {
        Self { now, exchange, timer: None }
    }

    /// [`ServerApp::handle_timer`] is due on this connection at `deadline`, once.
    pub fn set_timer(&mut self, deadline: Option<Instant>) {
        self.timer = Some(deadline);
    }
}
