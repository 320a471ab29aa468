//! One request, as the one who answers it sees it.

use std::any::Any;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::Exchange;
use fulmar_proto::{
    BodyLen, Connection, Headers, Request, Response, Segment, ServerConnection, StreamId,
    UsageError,
};
use fulmar_semantics::clock::Clock;
use smallvec::SmallVec;

use crate::addresses::PeerNetwork;
use crate::application::ExchangeContext;
use crate::body::{OwnedResponse, ResponseBody, TEXT_PLAIN};
use crate::body_handlers::{Collect, Produce, Produced};
use crate::deferred::{Deferred, Replay};
use crate::desk::Desk;
use crate::exchange::{ExchangeState, Tunnel};
use crate::handler::{BodyHandler, HandlerResult};
use crate::observer::RequestId;
use crate::suspended::{Resumer, Suspended};

/// One request, to be answered: lent to a [`crate::Handler`], and to whatever goes on with it.
///
/// What is sent is queued, and leaves at the end of the turn: head and body together, in one call
/// where they fit.
pub struct Responder<'a> {
    pub(crate) context: &'a mut ExchangeContext,
    pub(crate) reply: &'a mut ServerConnection,
    pub(crate) state: &'a mut ExchangeState,
    pub(crate) desk: &'a mut Desk,
    pub(crate) peer: SocketAddr,
    pub(crate) connection_data: Option<&'a mut dyn Any>,
}

/// What is known.
impl Responder<'_> {
    /// This turn's time.
    pub fn now(&self) -> Instant {
        self.context.now
    }

    /// The time of day.
    pub fn clock(&mut self) -> &Clock {
        self.desk.clock.advance(self.context.now);
        &self.desk.clock
    }

    /// Who asks: behind a proxy that is believed (`fulmar_semantics::proxy_protocol`), who the
    /// proxy asks for. On a Unix socket `0.0.0.0:0`.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Which connection and which exchange on it: a name to know it by.
    pub fn exchange(&self) -> Exchange {
        Exchange { socket: self.context.exchange.socket, stream: self.stream() }
    }

    /// The identifier of the request.
    pub fn id(&self) -> RequestId {
        self.desk.id(self.state)
    }

    /// How long the request's body is, as far as its head says.
    pub fn body_len(&self) -> BodyLen {
        self.state.declared
    }

    /// What [`crate::Handler::establish`] has attached to the connection.
    pub fn connection_data<T: 'static>(&mut self) -> Option<&mut T> {
        self.connection_data.as_mut()?.downcast_mut()
    }

    /// True once the final head is queued.
    pub fn has_response(&self) -> bool {
        self.state.status != 0
    }

    fn stream(&self) -> StreamId {
        self.state.stream
    }
}

/// Answering at once.
impl Responder<'_> {
    /// A whole answer. `Date` is added unless it is there; framing and `Connection` are the
    /// server's. To a HEAD the body is counted and not sent.
    ///
    /// # Errors
    /// The head has bytes that are not allowed there, or an answer was begun already.
    pub fn reply(&mut self, head: Response<'_>, body: impl Into<ResponseBody>) -> HandlerResult {
        let body = body.into();
        self.send_head(head, body.declared())?;
        match body {
            ResponseBody::Empty => {}
            ResponseBody::One(segment) => self.send(segment)?,
            ResponseBody::Several(segments) => {
                segments.into_iter().try_for_each(|segment| self.send(segment))?;
            }
        }
        self.end()
    }

    /// A whole answer that borrows nothing.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn respond(&mut self, response: OwnedResponse) -> HandlerResult {
        self.reply(Response::new(response.status, response.headers.as_headers()), response.body)
    }

    /// A whole answer of plain text in UTF-8.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn text(&mut self, status: u16, text: impl Into<ResponseBody>) -> HandlerResult {
        let head = Response { added: &[TEXT_PLAIN], ..Response::new(status, Headers::EMPTY) };
        self.reply(head, text)
    }

    /// A body that is longer than we want.
    pub(crate) fn too_large(&mut self) -> HandlerResult {
        self.text(413, "the body is too long\n")
    }
}

/// Answering piece by piece.
impl Responder<'_> {
    /// The answer will carry this field too, whoever makes it: for those who look at a request and
    /// leave the answer to others. A field that is not allowed there fails the answer.
    pub fn add_field(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, [u8]>>,
    ) {
        self.state.fields.push((name.into(), value.into()));
    }

    /// Queues the head of the answer, or an interim one (1xx); `len` decides the framing.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn send_head(&mut self, head: Response<'_>, len: BodyLen) -> HandlerResult {
        let stream = self.stream();
        if head.status < 200 {
            return self.reply.send_head(stream, head, len);
        }
        let id = self.desk.sends_ids.then(|| self.id().to_string());
        self.desk.clock.advance(self.context.now);
        let mut added: SmallVec<[(&str, &[u8]); ADDED_LEN]> = SmallVec::new();
        if !has(head.added, "Date") && !head.headers.has("Date") {
            added.push(("Date", self.desk.clock.http()));
        }
        added.extend(head.added.iter().copied());
        if let Some(id) = &id {
            added.push(("X-Request-Id", id.as_bytes()));
        }
        for (name, value) in self.desk.fields.as_headers().iter() {
            added.push((str::from_utf8(name).expect("a name is a token"), value));
        }
        added.extend(self.state.fields.iter().map(|(name, value)| (&**name, &**value)));
        self.reply.send_head(stream, Response { added: &added, ..head }, len)?;
        self.state.status = head.status;
        self.state.bodiless |= matches!(head.status, 204 | 304);
        Ok(())
    }

    /// Queues bytes of the body, wherever they live: in memory, or in a file. More than there is
    /// [`Responder::room`] for is taken too, but should not be offered.
    ///
    /// # Errors
    /// More than the head declared, or no head yet.
    pub fn send(&mut self, data: impl Into<Segment>) -> HandlerResult {
        let data = data.into();
        let len = data.len();
        self.reply.send_data(self.stream(), data)?;
        self.state.sent += if self.state.bodiless { 0 } else { len };
        Ok(())
    }

    /// The answer is complete; of a tunnel, we have said everything.
    ///
    /// # Errors
    /// The body is shorter than the head declared.
    pub fn end(&mut self) -> HandlerResult {
        self.end_with(Headers::EMPTY)
    }

    /// The same with trailers (RFC 9110 §6.5): sent if the framing has a place for them, which it
    /// has if the length was unknown.
    ///
    /// # Errors
    /// As for [`Responder::end`], or a trailer that is not allowed there.
    pub fn end_with(&mut self, trailers: Headers<'_>) -> HandlerResult {
        self.reply.send_end(self.stream(), trailers)?;
        self.state.over = self.state.tunnel.is_none();
        Ok(())
    }

    /// Bytes that may be queued before it is better to wait for [`BodyHandler::ready`].
    pub fn room(&self) -> u64 {
        self.reply.room(self.stream())
    }

    /// An answer whose body `produce` makes when there is room for it.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn produce(
        &mut self,
        head: Response<'_>,
        len: BodyLen,
        produce: impl FnMut(&mut Responder<'_>) -> Result<Produced, UsageError> + 'static,
    ) -> HandlerResult {
        self.send_head(head, len)?;
        self.attach(Produce(produce))
    }
}

/// Going on later.
impl Responder<'_> {
    /// `work` goes on with the exchange: with the request's body, with the answer, or with both.
    /// If nothing has been answered yet, this asks for the body (100 Continue, if the client waits
    /// for that).
    ///
    /// # Errors
    /// None today.
    pub fn attach(&mut self, handler: impl BodyHandler) -> HandlerResult {
        if self.reply.owes_continue() && !self.has_response() {
            let interim = Response::new(100, Headers::EMPTY);
            self.reply.send_head(self.stream(), interim, BodyLen::Empty)?;
        }
        self.state.body_handler = Some(Box::new(handler));
        (self.state.claimed, self.state.fresh) = (true, true);
        Ok(())
    }

    /// Collects the request's body, and has `then` go on with it. A longer body than `size_max`
    /// bytes is answered 413.
    ///
    /// # Errors
    /// As for [`Responder::attach`].
    pub fn collect(
        &mut self,
        size_max: usize,
        then: impl FnOnce(&mut Responder<'_>, Bytes) -> HandlerResult + 'static,
    ) -> HandlerResult {
        if matches!(self.state.declared, BodyLen::Exact(len) if len > size_max as u64) {
            return self.too_large();
        }
        self.attach(Collect::new(size_max, then))
    }

    /// The exchange waits for something elsewhere, and is answered from any thread. It costs
    /// nothing meanwhile; the request's body, if it has one, waits with the client.
    pub fn suspend(&mut self) -> Suspended {
        self.hold();
        self.state.claimed = true;
        Suspended {
            mailbox: self.desk.mailbox.clone(),
            exchange: self.exchange(),
            alive: Arc::downgrade(self.alive()),
            done: false,
        }
    }

    /// Suspends the exchange until another thread calls [`Deferred::handle_again`]. Then the
    /// handler is called with the same request again, and [`Responder::notes`] returns the result. So a
    /// slow check, such as a password hash, leaves the event loop free. Fields that the handler has
    /// added ([`Responder::add_field`]) are dropped. The request's body is not read meanwhile.
    ///
    /// # Errors
    /// The head has a field that cannot be kept, which no received head has.
    pub fn defer(&mut self, request: &Request<'_>) -> Result<Deferred, UsageError> {
        if self.state.replay.is_none() {
            self.state.replay = Some(Box::new(Replay::of(request)?));
        }
        Ok(Deferred { suspended: self.suspend() })
    }

    /// The notes that [`Deferred::handle_again`] was called with for this request.
    pub fn notes<T: 'static>(&self) -> impl Iterator<Item = &T> {
        let replay = self.state.replay.iter();
        replay.flat_map(|replay| &replay.notes).filter_map(|note| note.downcast_ref())
    }

    /// The network of the client, for limits: equal for all clients with this IPv4 address or in
    /// this /64 of IPv6; the same number for all clients of Unix sockets.
    pub fn peer_network(&self) -> u64 {
        PeerNetwork::of(self.peer.ip()).key()
    }

    /// The exchange waits until `deadline`; then `act` goes on with it.
    pub fn suspend_until(
        &mut self,
        deadline: Instant,
        act: impl FnOnce(&mut Responder<'_>) -> HandlerResult + 'static,
    ) {
        self.hold();
        self.state.due = Some(Box::new(act));
        self.wake_at(deadline);
    }

    /// [`BodyHandler::ready`] is told at `deadline`, once; a later call replaces an earlier one.
    pub fn wake_at(&mut self, deadline: Instant) {
        (self.state.claimed, self.state.timed) = (true, true);
        self.context.set_timer(Some(deadline));
    }

    /// With this, any thread has [`BodyHandler::ready`] told.
    pub fn resumer(&mut self) -> Resumer {
        self.state.claimed = true;
        let alive = Arc::downgrade(self.alive());
        Resumer { mailbox: self.desk.mailbox.clone(), exchange: self.exchange(), alive }
    }

    /// No more of the request's body, or of the tunnel, until [`Responder::unpause`]: the client has to
    /// wait.
    pub fn pause(&mut self) {
        self.state.held = true;
        self.reply.set_held(true);
    }

    /// The opposite of [`Responder::pause`].
    pub fn unpause(&mut self) {
        self.state.held = false;
        self.reply.set_held(false);
    }

    fn hold(&mut self) {
        if !self.state.received {
            self.pause();
        }
    }

    fn alive(&mut self) -> &Arc<AtomicBool> {
        self.state.alive.get_or_insert_default()
    }
}

/// Ending, and handing over.
impl Responder<'_> {
    /// Hands the connection over: `head` is 101 with the `Upgrade` field that the client asked for
    /// (RFC 9110 §7.8), or 2xx to CONNECT. What the client sends from now on goes to `work`;
    /// [`Responder::send`] and [`Responder::end`] go to the client.
    ///
    /// # Errors
    /// The client did not ask for it.
    pub fn upgrade(&mut self, head: Response<'_>, handler: impl BodyHandler) -> HandlerResult {
        self.reply.send_head(self.stream(), head, BodyLen::Unknown)?;
        self.state.status = head.status;
        self.state.tunnel = Some(Tunnel::Granted);
        self.attach(handler)
    }

    /// The connection ends with this exchange (`Connection: close`, if the head is still to be
    /// sent).
    pub fn close(&mut self) {
        self.reply.close_after();
    }

    /// Gives the exchange up: the connection is closed, and nobody takes what was sent for a whole
    /// answer.
    pub fn reset(&mut self) {
        self.state.claimed = true;
        self.reply.reset(self.stream(), 0);
    }
}

impl std::fmt::Debug for Responder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responder").field("state", &self.state).finish_non_exhaustive()
    }
}

fn has(added: &[(&str, &[u8])], name: &str) -> bool {
    added.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Most answers have fewer fields of their own.
const ADDED_LEN: usize = 4;
