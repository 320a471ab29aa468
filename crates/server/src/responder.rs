//! What a handler can do with a request: respond, receive its body, suspend it, upgrade it.

use std::any::Any;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::Exchange;
use fulmar_proto::{
    BodyLen, Connection, Headers, Request, Reset, Response, Segment, ServerConnection, StreamId,
    UsageError,
};
use fulmar_semantics::clock::Clock;
use smallvec::SmallVec;

use crate::address_counts::PeerNetwork;
use crate::application::ExchangeContext;
use crate::body::{OwnedResponse, ResponseBody, TEXT_PLAIN};
use crate::body_handlers::{Collect, Produce, Produced};
use crate::deferred::{Deferred, Replay};
use crate::exchange::{ExchangeState, Tunnel};
use crate::handler::{BodyHandler, HandlerResult};
use crate::observer::RequestId;
use crate::server_state::ServerState;
use crate::suspended::{Resumer, Suspended};

/// Responds to one request. A [`crate::Handler`] receives it, and every body handler and closure
/// that continues the exchange.
///
/// Sent bytes are queued, and leave at the end of the turn: head and body together, in one call
/// where they fit. HTTP/1 has one request at a time on a connection. In HTTP/2 each stream has a
/// responder of its own, and the methods here concern that stream only, but for
/// [`Responder::close`].
pub struct Responder<'a> {
    pub(crate) context: &'a mut ExchangeContext,
    pub(crate) reply: &'a mut ServerConnection,
    pub(crate) state: &'a mut ExchangeState,
    pub(crate) server: &'a mut ServerState,
    pub(crate) peer: SocketAddr,
    pub(crate) connection_data: Option<&'a mut dyn Any>,
}

/// Facts about the request.
impl Responder<'_> {
    /// This turn's time.
    pub fn now(&self) -> Instant {
        self.context.now
    }

    /// The time of day.
    pub fn clock(&mut self) -> &Clock {
        self.server.clock.advance(self.context.now);
        &self.server.clock
    }

    /// The client's address. Behind a trusted proxy it is the one in its header
    /// (`fulmar_semantics::proxy_protocol`). On a Unix socket it is `0.0.0.0:0`.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The name of the connection and of the exchange on it.
    pub fn exchange(&self) -> Exchange {
        Exchange { socket: self.context.exchange.socket, stream: self.stream() }
    }

    /// The identifier of the request.
    pub fn id(&self) -> RequestId {
        self.server.id(self.state)
    }

    /// The length of the request's body according to its head.
    pub fn body_len(&self) -> BodyLen {
        self.state.declared
    }

    /// The value that [`crate::Handler::establish`] returned for the connection.
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

/// Responding at once.
impl Responder<'_> {
    /// Sends a complete response. `Date` is added unless it is present; the server adds framing
    /// and, in HTTP/1, `Connection`. In response to HEAD the body is counted and not sent.
    ///
    /// # Errors
    /// The head has bytes that are not allowed there, or a response has begun already.
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

    /// Sends a complete owned response.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn respond(&mut self, response: OwnedResponse) -> HandlerResult {
        self.reply(Response::new(response.status, response.headers.as_headers()), response.body)
    }

    /// Sends a complete response of plain text in UTF-8.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn text(&mut self, status: u16, text: impl Into<ResponseBody>) -> HandlerResult {
        let head = Response { added: &[TEXT_PLAIN], ..Response::new(status, Headers::EMPTY) };
        self.reply(head, text)
    }

    /// Responds 413 to a body that exceeds its limit.
    pub(crate) fn too_large(&mut self) -> HandlerResult {
        self.text(413, "the body is too long\n")
    }
}

/// Responding in pieces.
impl Responder<'_> {
    /// Adds a field to the response that is sent later, also by other code. A field that is not
    /// allowed there makes the response fail.
    pub fn add_field(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, [u8]>>,
    ) {
        self.state.fields.push((name.into(), value.into()));
    }

    /// Queues the head of the response, or an interim one (1xx). `len` decides the framing: a body
    /// of unknown length is chunked in HTTP/1.1.
    ///
    /// # Errors
    /// As for [`Responder::reply`].
    pub fn send_head(&mut self, head: Response<'_>, len: BodyLen) -> HandlerResult {
        let stream = self.stream();
        if head.status < 200 {
            return self.reply.send_head(stream, head, len);
        }
        let id = self.server.sends_ids.then(|| self.id().to_string());
        self.server.clock.advance(self.context.now);
        let mut added: SmallVec<[(&str, &[u8]); ADDED_LEN]> = SmallVec::new();
        if !has(head.added, "Date") && !head.headers.has("Date") {
            added.push(("Date", self.server.clock.http()));
        }
        added.extend(head.added.iter().copied());
        if let Some(id) = &id {
            added.push(("X-Request-Id", id.as_bytes()));
        }
        for (name, value) in self.server.fields.as_headers().iter() {
            added.push((str::from_utf8(name).expect("a name is a token"), value));
        }
        added.extend(self.state.fields.iter().map(|(name, value)| (&**name, &**value)));
        self.reply.send_head(stream, Response { added: &added, ..head }, len)?;
        self.state.status = head.status;
        self.state.bodiless |= matches!(head.status, 204 | 304);
        Ok(())
    }

    /// Queues bytes of the body, in memory or in a file. More than [`Responder::room`] is accepted,
    /// but should be avoided.
    ///
    /// # Errors
    /// The bytes exceed the declared length, or there is no head yet.
    pub fn send(&mut self, data: impl Into<Segment>) -> HandlerResult {
        let data = data.into();
        let len = data.len();
        self.reply.send_data(self.stream(), data)?;
        debug_assert!(self.has_response(), "a body follows a head");
        self.state.sent += if self.state.bodiless { 0 } else { len };
        Ok(())
    }

    /// Completes the response. In a tunnel, closes our direction.
    ///
    /// # Errors
    /// The body is shorter than the head declared.
    pub fn end(&mut self) -> HandlerResult {
        self.end_with(Headers::EMPTY)
    }

    /// The same with trailers (RFC 9110 §6.5). They are sent if the framing has a place for them:
    /// in HTTP/1.1 if the length was unknown, in HTTP/2 always.
    ///
    /// # Errors
    /// As for [`Responder::end`], or a trailer that is not allowed there.
    pub fn end_with(&mut self, trailers: Headers<'_>) -> HandlerResult {
        self.reply.send_end(self.stream(), trailers)?;
        debug_assert!(self.has_response(), "an end follows a head");
        self.state.tunnel = self.state.tunnel.map(Tunnel::end_of_server);
        self.state.over = matches!(self.state.tunnel, None | Some(Tunnel::Closed));
        Ok(())
    }

    /// Bytes that may be queued before the sender should wait for [`BodyHandler::ready`].
    pub fn room(&self) -> u64 {
        self.reply.room(self.stream())
    }

    /// Sends a response. `produce` makes its body whenever there is room for it.
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

/// Responding later.
impl Responder<'_> {
    /// Continues the exchange with `handler`: it receives the request's body, sends the response,
    /// or both. If no response has begun and the client waits for it, 100 Continue is sent.
    ///
    /// # Errors
    /// None today.
    pub fn attach(&mut self, handler: impl BodyHandler) -> HandlerResult {
        if self.reply.expects_continue(self.stream()) && !self.has_response() {
            let interim = Response::new(100, Headers::EMPTY);
            self.reply.send_head(self.stream(), interim, BodyLen::Empty)?;
        }
        self.state.body_handler = Some(Box::new(handler));
        (self.state.claimed, self.state.fresh) = (true, true);
        Ok(())
    }

    /// Collects the request's body and passes it to `then`. A body longer than `size_max` bytes is
    /// refused with 413.
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

    /// Suspends the exchange until any thread responds. It costs nothing meanwhile. The request's
    /// body, if it has one, is not read; in HTTP/2 at most the window of the stream.
    pub fn suspend(&mut self) -> Suspended {
        self.hold();
        self.state.claimed = true;
        Suspended {
            mailbox: self.server.mailbox.clone(),
            exchange: self.exchange(),
            alive: Arc::downgrade(self.alive()),
            done: false,
        }
    }

    /// Suspends the exchange until another thread calls [`Deferred::handle_again`]. Then the
    /// handler is called with the same request again, and [`Responder::notes`] returns the result.
    /// So a slow check, such as a password hash, leaves the event loop free. Fields that the
    /// handler has added ([`Responder::add_field`]) are dropped. The request's body is not read
    /// meanwhile.
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
    /// this /64 of IPv6, and for all clients of Unix sockets.
    pub fn peer_network(&self) -> u64 {
        PeerNetwork::of(self.peer.ip()).key()
    }

    /// Suspends the exchange until `deadline`; then calls `act`.
    pub fn suspend_until(
        &mut self,
        deadline: Instant,
        act: impl FnOnce(&mut Responder<'_>) -> HandlerResult + 'static,
    ) {
        self.hold();
        self.state.due = Some(Box::new(act));
        self.wake_at(deadline);
    }

    /// Calls [`BodyHandler::ready`] at `deadline`, once. A later call replaces an earlier one.
    pub fn wake_at(&mut self, deadline: Instant) {
        (self.state.claimed, self.state.wake_changed) = (true, true);
        self.state.wake = Some(deadline);
    }

    /// A handle with which any thread can have [`BodyHandler::ready`] called.
    pub fn resumer(&mut self) -> Resumer {
        self.state.claimed = true;
        let alive = Arc::downgrade(self.alive());
        Resumer { mailbox: self.server.mailbox.clone(), exchange: self.exchange(), alive }
    }

    /// Stops the request's body, or the tunnel, until [`Responder::unpause`]. HTTP/1 stops reading
    /// the connection. HTTP/2 keeps what arrives meanwhile, at most the window of the stream.
    pub fn pause(&mut self) {
        self.state.held = true;
        self.reply.set_held(self.state.stream, true);
    }

    /// Reverts [`Responder::pause`].
    pub fn unpause(&mut self) {
        self.state.held = false;
        self.reply.set_held(self.state.stream, false);
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

/// Ending and upgrading.
impl Responder<'_> {
    /// Makes a tunnel of the connection (HTTP/1) or of the stream (HTTP/2). `head` is 101 with the
    /// `Upgrade` field that the client requested (RFC 9110 §7.8), or 2xx to CONNECT. HTTP/2 has
    /// only the latter, also for websockets ([`Request::protocol`], RFC 8441). Further bytes of the
    /// client go to `handler`; [`Responder::send`] and [`Responder::end`] go to the client.
    ///
    /// # Errors
    /// The client did not request it, or it is 101 in HTTP/2.
    pub fn upgrade(&mut self, head: Response<'_>, handler: impl BodyHandler) -> HandlerResult {
        if !self.reply.makes_tunnel(self.stream(), head.status) {
            return Err(UsageError::BadHead);
        }
        self.reply.send_head(self.stream(), head, BodyLen::Unknown)?;
        self.state.status = head.status;
        self.state.tunnel = Some(Tunnel::Granted { is_ended: false });
        self.attach(handler)
    }

    /// Closes the connection after this exchange. HTTP/1: with `Connection: close`, if the head is
    /// not sent yet. HTTP/2: with GOAWAY; the other open streams are completed, too.
    pub fn close(&mut self) {
        self.reply.close_after();
    }

    /// Abandons the exchange: the connection is closed (HTTP/1) or the stream is reset (HTTP/2), so
    /// that the client does not take the sent part for a complete response.
    pub fn reset(&mut self) {
        self.state.claimed = true;
        self.reply.reset(self.stream(), Reset::Internal);
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

/// Most responses have fewer fields of their own.
const ADDED_LEN: usize = 4;
