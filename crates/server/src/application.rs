//! The application of a server engine.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{End, Exchange, ListenerId, SocketId};
use fulmar_proto::{Event, PeerError, Server, ServerConnection};

use crate::mailbox::Mailbox;
use crate::panics::Panic;

/// Receives the events of connections, and sends responses on them.
///
/// A method that panics ends the connection that it was called for, and no other. The client
/// receives 500 and the connection closes; if the head of a response was queued before, it is cut
/// off behind it. The other streams of HTTP/2 are reset. The application gets its data of the
/// connection back at once,
/// by [`ServerApp::handle_gone`] with [`End::Panicked`], and is not called for that connection
/// again. It is called for all others as before, so state that connections share must be consistent
/// wherever a method can panic.
///
/// ```
/// use fulmar_proto::{BodyLen, Connection, Event, Headers, Response, Server, ServerConnection};
/// use fulmar_server::{ExchangeContext, ServerApp};
///
/// /// Responds to each complete request with its number on the connection.
/// struct Counting;
///
/// impl ServerApp for Counting {
///     type Data = u64;
///     type Message = std::convert::Infallible;
///     fn handle(
///         &mut self,
///         _: &mut ExchangeContext,
///         reply: &mut ServerConnection,
///         count: &mut u64,
///         event: Event<'_, Server>,
///     ) {
///         if let Event::End { stream, .. } = event {
///             *count += 1;
///             let head = Response::new(200, Headers::EMPTY);
///             let body = bytes::Bytes::from(count.to_string());
///             let len = BodyLen::Exact(body.len() as u64);
///             reply.send_head(stream, head, len).expect("the first response");
///             reply.send_data(stream, body.into()).expect("the declared bytes");
///             reply.send_end(stream, Headers::EMPTY).expect("the body is complete");
///         }
///     }
/// }
/// ```
pub trait ServerApp {
    /// The application's data of a connection. An idle connection costs as much memory as this.
    type Data: Default;

    /// A message of another thread, posted through a [`crate::Mailbox`];
    /// [`Infallible`](std::convert::Infallible) if there are none.
    type Message: Send + 'static;

    /// Called once, before anything else. Other threads post to this `mailbox`.
    fn start(&mut self, _mailbox: Mailbox<Self::Message>) {}

    /// Whether a new connection is admitted: an access policy by address. Called before the layers
    /// of the listener are made. If it returns false, the connection is closed without a byte; it
    /// does not count in [`crate::ServerEngine::refused`].
    fn admits(&mut self, _now: Instant, _: ListenerId, _peer: SocketAddr) -> bool {
        true
    }

    /// A connection was accepted and admitted.
    fn accept(&mut self, _now: Instant, _: ListenerId, _peer: SocketAddr) -> Self::Data {
        Self::Data::default()
    }

    /// A layer below the connection is complete and will be removed, such as the one that reads a
    /// PROXY header. `info` is [`fulmar_proto::Layer::info`] of that layer; not called if it is
    /// `None`.
    fn handle_replaced(
        &mut self,
        _context: &mut ExchangeContext,
        _data: &mut Self::Data,
        _info: &dyn Any,
    ) {
    }

    /// The connection and every layer below it are established. `info` is
    /// [`fulmar_proto::Layer::info`] of the layer, if there is one.
    fn handle_established(
        &mut self,
        _context: &mut ExchangeContext,
        _data: &mut Self::Data,
        _info: Option<&dyn Any>,
    ) {
    }

    /// An event of a request. In HTTP/2 the events of several requests alternate; `Event::stream`
    /// names the exchange. The response may be sent at once, or later: when the timer of
    /// [`ExchangeContext::set_timer`] expires, or after a message of another thread.
    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        data: &mut Self::Data,
        event: Event<'_, Server>,
    );

    /// The time of [`ExchangeContext::set_timer`] has passed.
    fn handle_timer(
        &mut self,
        _context: &mut ExchangeContext,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
    ) {
    }

    /// A message that another thread posted for [`ExchangeContext::exchange`]. That exchange may be
    /// over, and another one may be on the connection.
    fn handle_message(
        &mut self,
        _context: &mut ExchangeContext,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
        _message: Self::Message,
    ) {
    }

    /// HTTP/2: a request was refused, with a status or because it is malformed; its head is not
    /// passed on. In HTTP/1 the connection ends with the error.
    fn handle_refused(&mut self, _now: Instant, _data: &mut Self::Data, _error: PeerError) {}

    /// Responses that the application watches were sent: [`ServerConnection::poll_sent`] returns
    /// their streams. An application that counts or logs responses itself implements it: a queued
    /// response is not sent yet.
    fn handle_sent(
        &mut self,
        _now: Instant,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
    ) {
    }

    /// The connection ends, and `handle_gone` follows: the unsent bytes of its streams are lost
    /// ([`ServerConnection::unsent_message`]). An application that counts sent bytes itself
    /// implements it: `handle_gone` has no connection to read them from.
    fn handle_ending(
        &mut self,
        _now: Instant,
        _reply: &mut ServerConnection,
        _data: &mut Self::Data,
    ) {
    }

    /// The connection is closed.
    fn handle_gone(&mut self, _now: Instant, _socket: SocketId, _data: Self::Data, _end: &End) {}

    /// An accept failed for lack of descriptors or memory. The application can free some.
    fn handle_exhausted(&mut self, _now: Instant) {}

    /// The time of [`ServerApp::poll_timeout`] has passed: for work that belongs to no connection.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`ServerApp::handle_timeout`] is to be called.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// A method of this application panicked, and the server caught the panic. `data` belongs to
    /// the connection that it was called for, before `handle_gone` takes it; `None` for calls
    /// without a connection. A panic of this method is ignored.
    fn handle_panic(&mut self, _now: Instant, _data: Option<&mut Self::Data>, _panic: &Panic) {}

    /// The first panic that the application has caught itself, as [`crate::HandlerApp`] does for
    /// each request. [`crate::ServerEngine::first_panic`] returns it too.
    fn first_panic(&self) -> Option<&Panic> {
        None
    }

    /// The server has ended. Called once, by the code that ran it.
    fn finish(&mut self, _now: Instant) {}
}

/// The time of an event, and its exchange.
#[derive(Debug)]
pub struct ExchangeContext {
    /// This turn's time.
    pub now: Instant,
    /// The exchange. For a timer only its socket is valid.
    pub exchange: Exchange,
    pub(crate) timer: Option<Option<Instant>>,
}

impl ExchangeContext {
    /// The context of an event at `now` in `exchange`: for tests of applications.
    pub fn new(now: Instant, exchange: Exchange) -> Self {
        Self { now, exchange, timer: None }
    }

    /// Calls [`ServerApp::handle_timer`] for this connection at `deadline`, once.
    pub fn set_timer(&mut self, deadline: Option<Instant>) {
        self.timer = Some(deadline);
    }
}
