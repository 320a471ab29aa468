//! The application that passes every request to a handler with a [`Responder`], and decides how an
//! exchange continues after each call.

use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use fulmar_engine::{End, ListenerId, SocketId};
use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, PeerError, Request, Server, ServerConnection,
    StreamId,
};

use crate::application::{ExchangeContext, ServerApp};
use crate::exchange::{ExchangeState, HandlerSession, Tunnel};
use crate::handler::{BodyHandler, Handler, HandlerError, HandlerResult};
use crate::mailbox::Mailbox;
use crate::observer::Observer;
use crate::panics::{Panic, catch};
use crate::proxied;
use crate::responder::Responder;
use crate::server_state::ServerState;
use crate::suspended::{HandlerMessage, MessageKind};

/// An application that passes every request to a [`Handler`], with a [`Responder`].
#[derive(Debug)]
pub struct HandlerApp<H> {
    handler: H,
    server: ServerState,
}

impl<H: Handler> HandlerApp<H> {
    /// `wall_clock` returns the time of day. It is called now, and about once a minute.
    pub fn new(handler: H, now: Instant, wall_clock: fn() -> SystemTime) -> Self {
        Self { handler, server: ServerState::new(now, wall_clock) }
    }

    /// Adds an observer of connections and exchanges.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        self.server.add_observer(Box::new(observer));
        self
    }

    /// Adds these fields to every response.
    #[must_use]
    pub fn with_fields(mut self, fields: HeaderBuf) -> Self {
        self.server.fields = fields;
        self
    }

    /// Adds `X-Request-Id` with the request's identifier to every response.
    #[must_use]
    pub fn with_request_ids(mut self) -> Self {
        self.server.sends_ids = true;
        self
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.server.requests()
    }

    fn begin(
        &mut self,
        call: &mut CallContext<'_>,
        stream: StreamId,
        request: &Request<'_>,
        len: BodyLen,
    ) {
        let now = call.context.now;
        let mut state = self.server.open(now);
        state.begin(stream, self.server.number(), now, len);
        state.bodiless = request.method == b"HEAD";
        let mut responder = call.responder(&mut self.server, &mut state);
        let result = call_handler(&mut self.handler, &mut responder, request);
        self.finish_step(call, state, result, Some(request));
    }

    /// Calls the handler again with a request that it deferred.
    fn handle_again(
        &mut self,
        call: &mut CallContext<'_>,
        mut state: Box<ExchangeState>,
        note: Box<dyn Any + Send>,
    ) {
        let is_waiting = state.status == 0 && state.body_handler.is_none() && state.error.is_none();
        let Some(replay) = state.replay.as_mut().filter(|_| is_waiting) else {
            call.session.exchanges.insert(state); // deferred twice, and handled already
            return self.drop_message(call.context.now, call.session.peer, note);
        };
        replay.notes.push(note);
        let request = Rc::clone(&replay.request);
        state.claimed = false;
        state.fields.clear();
        let mut responder = call.responder(&mut self.server, &mut state);
        responder.unpause();
        let result = call_handler(&mut self.handler, &mut responder, &request.as_request());
        self.finish_step(call, state, result, None);
    }

    /// Drops a message that arrived too late. Its destructor may panic.
    fn drop_message<T>(&mut self, now: Instant, peer: SocketAddr, message: T) {
        if let Err(panic) = catch(|| drop(message)) {
            self.server.failed(now, Some(peer), None, &HandlerError::Panic(panic));
        }
    }

    /// Calls `act` for the exchange of `stream`.
    fn with_exchange(
        &mut self,
        call: &mut CallContext<'_>,
        stream: StreamId,
        act: impl FnOnce(&mut Responder<'_>) -> Result<(), HandlerError>,
    ) {
        // Without a state the response is complete: the rest of the request is dropped.
        let Some(state) = call.session.exchanges.take(stream) else { return };
        self.resume(call, state, act);
    }

    /// Calls `act` for an exchange.
    fn resume(
        &mut self,
        call: &mut CallContext<'_>,
        mut state: Box<ExchangeState>,
        act: impl FnOnce(&mut Responder<'_>) -> Result<(), HandlerError>,
    ) {
        let result = match state.error {
            None => act(&mut call.responder(&mut self.server, &mut state)),
            // Not called after a failure.
            Some(_) => catch(|| drop(act)).map_err(HandlerError::Panic),
        };
        self.finish_step(call, state, result, None);
    }

    /// Ends a call of application code: calls a new body handler, then stores or closes the
    /// exchange.
    fn finish_step(
        &mut self,
        call: &mut CallContext<'_>,
        mut state: Box<ExchangeState>,
        mut result: Result<(), HandlerError>,
        request: Option<&Request<'_>>,
    ) {
        while result.is_ok() && state.fresh && !state.over {
            let mut responder = call.responder(&mut self.server, &mut state);
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
            self.fail(call, &mut state, error, request);
        }
        if !state.over {
            debug_assert!(!state.fresh, "a new body handler was called above");
            if let Some(request) = request
                && self.server.observes_requests
            {
                state.keep(request);
            }
            let wake_changed = std::mem::take(&mut state.wake_changed);
            call.session.exchanges.insert(state);
            if wake_changed {
                call.context.set_timer(call.session.exchanges.next_wake());
            }
            return;
        }
        if state.wake.is_some() {
            call.context.set_timer(call.session.exchanges.next_wake());
        }
        if state.held {
            call.reply.set_held(state.stream, false);
        }
        if state.tunnel.is_some() {
            return self.abandon(call.context.now, call.session, state, &End::Closed);
        }
        if self.server.observes_requests
            && state.sent > SENT_AT_ONCE_MAX
            && call.reply.unsent_message(state.stream) > 0
        {
            return self.keep_until_sent(call, state, request);
        }
        self.server.close(call.context.now, call.session, state, request, true);
    }

    /// The response is complete and not sent: observers receive it later.
    fn keep_until_sent(
        &mut self,
        call: &mut CallContext<'_>,
        mut state: Box<ExchangeState>,
        request: Option<&Request<'_>>,
    ) {
        if let Err(panic) = state.drop_handlers() {
            let (now, error) = (call.context.now, HandlerError::Panic(panic));
            self.server.exchange_failed(now, call.session, &mut state, request, error);
        }
        if let Some(request) = request {
            state.keep(request);
        }
        (state.alive, state.wake) = (None, None);
        call.reply.watch_sent(state.stream);
        if let Some(oldest) = call.session.exchanges.keep(state) {
            self.server.close(call.context.now, call.session, oldest, None, true);
        }
    }

    /// The exchange was reset, and the connection goes on.
    fn handle_reset(
        &mut self,
        call: &mut CallContext<'_>,
        stream: StreamId,
        (code, cause): (ErrorCode, Option<PeerError>),
        unsent: u64,
    ) {
        let is_framed = unsent == 0 && call.session.exchanges.is_kept(stream);
        // Framed bytes are sent despite the reset.
        if is_framed && call.reply.unsent_message(stream) > 0 {
            return;
        }
        // Without a state the response was complete.
        let Some(mut state) = call.session.exchanges.take_any(stream) else { return };
        if is_framed {
            return self.server.close(call.context.now, call.session, state, None, true);
        }
        state.sent = state.sent.saturating_sub(unsent);
        state.fault = cause;
        if state.wake.is_some() {
            call.context.set_timer(call.session.exchanges.next_wake());
        }
        self.abandon(call.context.now, call.session, state, &End::Reset(code));
    }

    /// The connection or the stream has ended before the exchange.
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
            self.server.exchange_failed(now, session, &mut state, None, error);
        }
        // Behind the end of the input no client is left to respond to.
        if let End::Peer(error) = end
            && *error != PeerError::UnexpectedEof
        {
            if !state.over {
                state.fault = Some(*error);
            }
            // GOAWAY has no status.
            if state.status == 0 && !matches!(error, PeerError::Http2(_)) {
                state.status = error.status();
            }
        }
        let complete = state.tunnel.is_some_and(Tunnel::is_open) && matches!(end, End::Closed);
        self.server.close(now, session, state, None, complete);
    }

    /// Application code failed: it is not called for this exchange any more. The client receives
    /// 500 if no response has begun. An incomplete response is cut off, so that the client does not
    /// take it for a complete one. HTTP/1: the queued bytes are sent, and the connection closes.
    /// HTTP/2: the stream is reset, and the connection goes on.
    #[cold]
    fn fail(
        &mut self,
        call: &mut CallContext<'_>,
        state: &mut ExchangeState,
        error: HandlerError,
        request: Option<&Request<'_>>,
    ) {
        let now = call.context.now;
        self.server.exchange_failed(now, call.session, state, request, error);
        if let Err(panic) = state.drop_handlers() {
            let error = HandlerError::Panic(panic);
            self.server.exchange_failed(now, call.session, state, request, error);
        }
        state.fresh = false;
        let mut responder = call.responder(&mut self.server, state);
        responder.unpause();
        if !responder.state.over
            && (responder.has_response() || responder.text(500, "internal server error\n").is_err())
        {
            responder.reply.cut_off(responder.state.stream);
        }
    }
}

/// What the application is called with for one event of a connection. HTTP/2 has several exchanges
/// at a time on it.
struct CallContext<'a> {
    context: &'a mut ExchangeContext,
    reply: &'a mut ServerConnection,
    session: &'a mut HandlerSession,
}

impl CallContext<'_> {
    fn responder<'a>(
        &'a mut self,
        server: &'a mut ServerState,
        state: &'a mut ExchangeState,
    ) -> Responder<'a> {
        Responder {
            context: &mut *self.context,
            reply: &mut *self.reply,
            peer: self.session.peer,
            connection_data: self.session.connection_data.as_deref_mut(),
            state,
            server,
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
        self.server.mailbox = mailbox;
    }

    fn accept(&mut self, now: Instant, _: ListenerId, peer: SocketAddr) -> HandlerSession {
        self.server.observe(now, |observer, _| observer.accepted(now, peer));
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
        let call = &mut CallContext { context, reply, session };
        match event {
            Event::Head { head, len, .. } => self.begin(call, stream, &head, len),
            Event::Data { bytes, .. } => {
                let len = bytes.len();
                self.with_exchange(call, stream, |responder| {
                    call_body_handler(responder, |handler, responder| {
                        handler.data(responder, bytes)
                    })
                });
                call.reply.release(stream, len);
            }
            Event::End { trailers, .. } => self.with_exchange(call, stream, |responder| {
                responder.state.received = true;
                // Without a body handler, the request had no body.
                responder.state.pending_end = responder.state.body_handler.is_none();
                let tunnel = responder.state.tunnel.map(Tunnel::end_of_client);
                responder.state.tunnel = tunnel;
                if tunnel.is_some_and(|tunnel| !tunnel.is_open()) {
                    return Ok(()); // the end of the request, not of the tunnel
                }
                let result = call_body_handler(responder, |handler, responder| {
                    handler.end(responder, trailers)
                });
                responder.state.over |= tunnel == Some(Tunnel::Closed);
                result
            }),
            Event::Upgraded { .. } => self.with_exchange(call, stream, |responder| {
                responder.state.tunnel = responder.state.tunnel.map(Tunnel::open);
                call_body_handler(responder, |handler, responder| handler.ready(responder))
            }),
            Event::Writable { .. } => {
                self.with_exchange(call, stream, |responder| {
                    call_body_handler(responder, |handler, responder| handler.ready(responder))
                });
            }
            Event::Reset { code, unsent, cause, .. } => {
                self.handle_reset(call, stream, (code, cause), unsent);
            }
            Event::Informational { .. } => unreachable!("a server receives no responses"),
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
        let call = &mut CallContext { context, reply, session };
        while let Some(state) = due.pop() {
            self.resume(call, state, |responder| match responder.state.due.take() {
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
        let call = &mut CallContext { context, reply, session };
        match doing {
            MessageKind::Again(note) => self.handle_again(call, state, note),
            MessageKind::Run(act) => self.resume(call, state, |responder| {
                responder.unpause();
                attempt(|| act(responder))
            }),
            MessageKind::Dropped => {
                self.resume(call, state, |_| Err(HandlerError::SuspendedDropped));
            }
            MessageKind::Ready => self.resume(call, state, |responder| {
                if let Some(notified) = &responder.state.alive {
                    notified.store(false, Ordering::Release);
                }
                call_body_handler(responder, |handler, responder| handler.ready(responder))
            }),
        }
    }

    fn handle_refused(&mut self, now: Instant, session: &mut HandlerSession, error: PeerError) {
        self.server.malformed(now, session, error);
    }

    fn handle_sent(
        &mut self,
        now: Instant,
        reply: &mut ServerConnection,
        session: &mut HandlerSession,
    ) {
        while let Some(stream) = reply.poll_sent() {
            // Without a state it was reported early, or the stream was reset.
            let Some(state) = session.exchanges.take_kept(stream) else { continue };
            self.server.close(now, session, state, None, true);
        }
    }

    fn handle_ending(
        &mut self,
        now: Instant,
        reply: &mut ServerConnection,
        session: &mut HandlerSession,
    ) {
        self.handle_sent(now, reply, session);
        session.exchanges.subtract_unsent(reply);
    }

    fn handle_gone(&mut self, now: Instant, _: SocketId, mut session: HandlerSession, end: &End) {
        if let End::Peer(error) = end
            && !session.exchanges.has_unfinished()
        {
            self.server.malformed(now, &session, *error);
        }
        let mut next = session.exchanges.pop();
        while let Some(state) = next {
            self.abandon(now, &session, state, end);
            next = session.exchanges.pop();
        }
        self.server.gone(now, &session, end);
    }

    fn handle_exhausted(&mut self, now: Instant) {
        self.server.observe(now, |observer, _| observer.exhausted(now));
        self.handler.exhausted();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.server.observe(now, |observer, _| {
            if observer.poll_timeout().is_some_and(|due| due <= now) {
                observer.timeout(now);
            }
        });
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.server.poll_timeout()
    }

    /// Reports a panic outside of exchanges, as in [`Handler::establish`].
    fn handle_panic(&mut self, now: Instant, session: Option<&mut HandlerSession>, panic: &Panic) {
        let peer = session.map(|session| session.peer);
        self.server.failed(now, peer, None, &HandlerError::Panic(panic.clone()));
    }

    fn first_panic(&self) -> Option<&Panic> {
        self.server.first_panic.as_ref()
    }

    fn finish(&mut self, now: Instant) {
        self.server.observe(now, |observer, _| observer.finish(now));
    }
}

/// A body up to this size counts as sent once it is complete: it leaves in the same turn, unless
/// the client does not read.
const SENT_AT_ONCE_MAX: u64 = 16 * 1024;
