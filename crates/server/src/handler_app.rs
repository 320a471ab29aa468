//! The application that passes every request to a handler with a [`Responder`].

use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use fulmar_engine::{End, ListenerId, SocketId};
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, PeerError, Request, Server, ServerConnection,
    StreamId,
};

use crate::application::{ExchangeContext, ServerApp};
use crate::desk::Desk;
use crate::exchange::{ExchangeState, HandlerSession, Tunnel};
use crate::handler::{BodyHandler, Handler, HandlerError, HandlerResult};
use crate::mailbox::Mailbox;
use crate::observer::Observer;
use crate::panics::{Panic, catch};
use crate::proxied;
use crate::responder::Responder;
use crate::suspended::{HandlerMessage, MessageKind};

/// An application that passes every request to a [`Handler`], with a [`Responder`].
#[derive(Debug)]
pub struct HandlerApp<H> {
    handler: H,
    desk: Desk,
}

impl<H: Handler> HandlerApp<H> {
    /// `wall_clock` returns the time of day. It is called now, and about once a minute.
    pub fn new(handler: H, now: Instant, wall_clock: fn() -> SystemTime) -> Self {
        Self { handler, desk: Desk::new(now, wall_clock) }
    }

    /// Adds an observer of connections and exchanges.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        self.desk.add_observer(Box::new(observer));
        self
    }

    /// Adds these fields to every response.
    #[must_use]
    pub fn with_fields(mut self, fields: HeaderBuf) -> Self {
        self.desk.fields = fields;
        self
    }

    /// Adds `X-Request-Id` with the request's identifier to every response.
    #[must_use]
    pub fn with_request_ids(mut self) -> Self {
        self.desk.sends_ids = true;
        self
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The handler, mutable.
    pub fn handler_mut(&mut self) -> &mut H {
        &mut self.handler
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.desk.requests()
    }

    fn begin(
        &mut self,
        lent: &mut Lent<'_>,
        stream: StreamId,
        request: &Request<'_>,
        len: BodyLen,
    ) {
        let now = lent.context.now;
        let mut state = self.desk.open(now);
        state.begin(stream, self.desk.number(), now, len);
        state.bodiless = request.method == b"HEAD";
        let mut responder = lent.call(&mut self.desk, &mut state);
        let result = call_handler(&mut self.handler, &mut responder, request);
        self.finish_step(lent, state, result, Some(request));
    }

    /// Calls the handler again with a request that it deferred.
    fn handle_again(
        &mut self,
        lent: &mut Lent<'_>,
        mut state: Box<ExchangeState>,
        note: Box<dyn Any + Send>,
    ) {
        let is_waiting = state.status == 0 && state.body_handler.is_none() && state.error.is_none();
        let Some(replay) = state.replay.as_mut().filter(|_| is_waiting) else {
            lent.session.exchanges.insert(state); // deferred twice, and handled already
            return self.drop_message(lent.context.now, lent.session.peer, note);
        };
        replay.notes.push(note);
        let request = Rc::clone(&replay.request);
        state.claimed = false;
        state.fields.clear();
        let mut responder = lent.call(&mut self.desk, &mut state);
        responder.unpause();
        let result = call_handler(&mut self.handler, &mut responder, &request.as_request());
        self.finish_step(lent, state, result, None);
    }

    /// Drops a message that arrived too late. Its destructor may panic.
    fn drop_message<T>(&mut self, now: Instant, peer: SocketAddr, message: T) {
        if let Err(panic) = catch(|| drop(message)) {
            self.desk.failed(now, Some(peer), None, &HandlerError::Panic(panic));
        }
    }

    /// Calls `act` for the exchange of `stream`.
    fn with_exchange(
        &mut self,
        lent: &mut Lent<'_>,
        stream: StreamId,
        act: impl FnOnce(&mut Responder<'_>) -> Result<(), HandlerError>,
    ) {
        // Without a state the response is complete: the rest of the request is dropped.
        let Some(state) = lent.session.exchanges.take(stream) else { return };
        self.resume(lent, state, act);
    }

    /// Calls `act` for an exchange.
    fn resume(
        &mut self,
        lent: &mut Lent<'_>,
        mut state: Box<ExchangeState>,
        act: impl FnOnce(&mut Responder<'_>) -> Result<(), HandlerError>,
    ) {
        let result = match state.error {
            None => act(&mut lent.call(&mut self.desk, &mut state)),
            // Not called after a failure.
            Some(_) => catch(|| drop(act)).map_err(HandlerError::Panic),
        };
        self.finish_step(lent, state, result, None);
    }

    /// Ends a call of application code: calls a new body handler, then stores or closes the
    /// exchange.
    fn finish_step(
        &mut self,
        lent: &mut Lent<'_>,
        mut state: Box<ExchangeState>,
        mut result: Result<(), HandlerError>,
        request: Option<&Request<'_>>,
    ) {
        while result.is_ok() && state.fresh && !state.over {
            let mut responder = lent.call(&mut self.desk, &mut state);
            responder.state.fresh = false;
            result =
                call_body_handler(&mut responder, |handler, responder| handler.ready(responder));
            if result.is_ok()
                && !responder.state.over
                && std::mem::take(&mut responder.state.pending_end)
            {
                result = call_body_handler(&mut responder, |handler, responder| {
                    handler.end(responder, Headers::EMPTY)
                });
            }
        }
        if let Err(error) = result {
            self.fail(lent, &mut state, error, request);
        }
        if !state.over {
            debug_assert!(!state.fresh, "a new body handler was called above");
            if let Some(request) = request
                && self.desk.observes_requests
            {
                state.keep(request);
            }
            let wake_changed = std::mem::take(&mut state.wake_changed);
            lent.session.exchanges.insert(state);
            if wake_changed {
                lent.context.set_timer(lent.session.exchanges.next_wake());
            }
            return;
        }
        if state.wake.is_some() {
            lent.context.set_timer(lent.session.exchanges.next_wake());
        }
        if state.held {
            lent.reply.set_held(state.stream, false);
        }
        self.desk.close(lent.context.now, lent.session, state, request, true);
    }

    /// The connection has ended before the exchange.
    fn abandon(
        &mut self,
        now: Instant,
        session: &HandlerSession,
        mut state: Box<ExchangeState>,
        end: &End,
    ) {
        if let Some(handler) = &mut state.body_handler
            && let Err(panic) = catch(|| handler.gone(end))
        {
            let error = HandlerError::Panic(panic);
            self.desk.exchange_failed(now, session, &mut state, None, error);
        }
        match end {
            End::Peer(PeerError::UnexpectedEof) => {} // no client is left to respond to
            End::Peer(error) if state.status == 0 => state.status = error.status(),
            _ => {}
        }
        let complete = state.tunnel == Some(Tunnel::Open) && matches!(end, End::Closed);
        self.desk.close(now, session, state, None, complete);
    }

    /// Application code failed: it is not called for this exchange any more. The client receives
    /// 500 if no response has begun. An incomplete response is sent as far as it is queued, and
    /// then the connection is cut off, so that the client does not take it for a complete one.
    #[cold]
    fn fail(
        &mut self,
        lent: &mut Lent<'_>,
        state: &mut ExchangeState,
        error: HandlerError,
        request: Option<&Request<'_>>,
    ) {
        let now = lent.context.now;
        self.desk.exchange_failed(now, lent.session, state, request, error);
        if let Err(panic) = state.drop_handlers() {
            let error = HandlerError::Panic(panic);
            self.desk.exchange_failed(now, lent.session, state, request, error);
        }
        state.fresh = false;
        let mut responder = lent.call(&mut self.desk, state);
        responder.unpause();
        if !responder.state.over
            && (responder.has_response() || responder.text(500, "internal server error\n").is_err())
        {
            responder.reply.cut_off(responder.state.stream);
        }
    }
}

/// Borrows for one event of a connection.
struct Lent<'a> {
    context: &'a mut ExchangeContext,
    reply: &'a mut ServerConnection,
    session: &'a mut HandlerSession,
}

impl Lent<'_> {
    fn call<'a>(&'a mut self, desk: &'a mut Desk, state: &'a mut ExchangeState) -> Responder<'a> {
        Responder {
            context: &mut *self.context,
            reply: &mut *self.reply,
            peer: self.session.peer,
            connection_data: self.session.connection_data.as_deref_mut(),
            state,
            desk,
        }
    }
}

/// Calls a handler with a request. It has to respond, or to arrange a later response.
fn call_handler(
    handler: &mut impl Handler,
    responder: &mut Responder<'_>,
    request: &Request<'_>,
) -> Result<(), HandlerError> {
    attempt(|| handler.handle(responder, request))?;
    match responder.state.claimed || responder.state.over {
        true => Ok(()),
        false => Err(HandlerError::NoResponse),
    }
}

/// Calls application code for an exchange. State that a panic may have left inconsistent is reached
/// through the responder, and `fail` drops it.
fn attempt(act: impl FnOnce() -> HandlerResult) -> Result<(), HandlerError> {
    match catch(act) {
        Ok(outcome) => outcome.map_err(HandlerError::Usage),
        Err(panic) => Err(HandlerError::Panic(panic)),
    }
}

/// Calls the body handler of an exchange. It stays attached unless the call has replaced it.
fn call_body_handler(
    responder: &mut Responder<'_>,
    event: impl FnOnce(&mut dyn BodyHandler, &mut Responder<'_>) -> HandlerResult,
) -> Result<(), HandlerError> {
    // Without one, the rest of the request is ignored.
    let Some(mut handler) = responder.state.body_handler.take() else { return Ok(()) };
    let result = attempt(|| event(&mut *handler, responder));
    if responder.state.body_handler.is_none() {
        responder.state.body_handler = Some(handler);
        return result;
    }
    let dropped = catch(|| drop(handler)).map_err(HandlerError::Panic);
    result.and(dropped)
}

impl<H: Handler> ServerApp for HandlerApp<H> {
    type Data = HandlerSession;
    type Message = HandlerMessage;

    fn start(&mut self, mailbox: Mailbox<HandlerMessage>) {
        self.desk.mailbox = mailbox;
    }

    fn accept(&mut self, now: Instant, _: ListenerId, peer: SocketAddr) -> HandlerSession {
        self.desk.observe(now, |observer, _| observer.accepted(now, peer));
        HandlerSession { peer, ..HandlerSession::default() }
    }

    /// The client's address is from now on the one in the PROXY header. A listener's layers decide
    /// which proxies are trusted.
    fn handle_replaced(
        &mut self,
        _: &mut ExchangeContext,
        session: &mut HandlerSession,
        info: &dyn Any,
    ) {
        if let Some(source) = proxied::source(info) {
            session.peer = source;
        }
    }

    fn handle_established(
        &mut self,
        _: &mut ExchangeContext,
        session: &mut HandlerSession,
        info: Option<&dyn Any>,
    ) {
        session.connection_data = self.handler.establish(session.peer, info);
    }

    fn handle(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        session: &mut HandlerSession,
        event: Event<'_, Server>,
    ) {
        let stream = event.stream();
        let lent = &mut Lent { context, reply, session };
        match event {
            Event::Head { head, len, .. } => self.begin(lent, stream, &head, len),
            Event::Data { bytes, .. } => {
                let len = bytes.len();
                self.with_exchange(lent, stream, |responder| {
                    call_body_handler(responder, |handler, responder| {
                        handler.data(responder, bytes)
                    })
                });
                lent.reply.release(stream, len);
            }
            Event::End { trailers, .. } => self.with_exchange(lent, stream, |responder| {
                responder.state.received = true;
                // Without a body handler, the request had no body.
                responder.state.pending_end = responder.state.body_handler.is_none();
                match responder.state.tunnel {
                    Some(Tunnel::Granted) => Ok(()), // the end of the request, not of the tunnel
                    Some(Tunnel::Open) | None => {
                        call_body_handler(responder, |handler, responder| {
                            handler.end(responder, trailers)
                        })
                    }
                }
            }),
            Event::Upgraded { .. } => self.with_exchange(lent, stream, |responder| {
                responder.state.tunnel = Some(Tunnel::Open);
                call_body_handler(responder, |handler, responder| handler.ready(responder))
            }),
            Event::Writable { .. } => {
                self.with_exchange(lent, stream, |responder| {
                    call_body_handler(responder, |handler, responder| handler.ready(responder))
                });
            }
            Event::Informational { .. } | Event::Reset { .. } => {} // no client sends these
        }
    }

    fn handle_timer(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        session: &mut HandlerSession,
    ) {
        let mut due = session.exchanges.take_due(context.now);
        if let Some(wake) = session.exchanges.next_wake() {
            context.set_timer(Some(wake));
        }
        let lent = &mut Lent { context, reply, session };
        while let Some(state) = due.pop() {
            self.resume(lent, state, |responder| match responder.state.due.take() {
                Some(act) => {
                    responder.unpause();
                    attempt(|| act(responder))
                }
                None => call_body_handler(responder, |handler, responder| handler.ready(responder)),
            });
        }
    }

    fn handle_message(
        &mut self,
        context: &mut ExchangeContext,
        reply: &mut ServerConnection,
        session: &mut HandlerSession,
        HandlerMessage(doing): HandlerMessage,
    ) {
        let Some(state) = session.exchanges.take(context.exchange.stream) else {
            return self.drop_message(context.now, session.peer, doing); // the exchange is over
        };
        let lent = &mut Lent { context, reply, session };
        match doing {
            MessageKind::Again(note) => self.handle_again(lent, state, note),
            MessageKind::Run(act) => self.resume(lent, state, |responder| {
                responder.unpause();
                attempt(|| act(responder))
            }),
            MessageKind::Dropped => {
                self.resume(lent, state, |_| Err(HandlerError::SuspendedDropped));
            }
            MessageKind::Ready => self.resume(lent, state, |responder| {
                if let Some(notified) = &responder.state.alive {
                    notified.store(false, Ordering::Release);
                }
                call_body_handler(responder, |handler, responder| handler.ready(responder))
            }),
        }
    }

    fn handle_gone(&mut self, now: Instant, _: SocketId, mut session: HandlerSession, end: &End) {
        let mut next = session.exchanges.pop();
        if let (None, End::Peer(error)) = (&next, end) {
            self.desk.malformed(now, &session, *error);
        }
        while let Some(state) = next {
            self.abandon(now, &session, state, end);
            next = session.exchanges.pop();
        }
        self.desk.gone(now, &session, end);
    }

    fn handle_exhausted(&mut self, now: Instant) {
        self.desk.observe(now, |observer, _| observer.exhausted(now));
        self.handler.exhausted();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.desk.observe(now, |observer, _| {
            if observer.poll_timeout().is_some_and(|due| due <= now) {
                observer.timeout(now);
            }
        });
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.desk.poll_timeout()
    }

    /// Reports a panic outside of exchanges, as in [`Handler::establish`].
    fn handle_panic(&mut self, now: Instant, session: Option<&mut HandlerSession>, panic: &Panic) {
        let peer = session.map(|session| session.peer);
        self.desk.failed(now, peer, None, &HandlerError::Panic(panic.clone()));
    }

    fn first_panic(&self) -> Option<&Panic> {
        self.desk.first_panic.as_ref()
    }

    fn finish(&mut self, now: Instant) {
        self.desk.observe(now, |observer, _| observer.finish(now));
    }
}
