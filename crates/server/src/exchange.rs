//! Where an exchange stands, from its head to its end.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fulmar_proto::{BodyLen, Request, StreamId};

use crate::deferred::Replay;
use crate::handler::{BodyHandler, HandlerError, HandlerResult};
use crate::observer::{OwnedRequestSummary, RequestSummary};
use crate::panics::{Panic, catch};
use crate::responder::Responder;

/// What is kept for each connection: as little as can be while it is idle.
pub struct HandlerSession {
    pub(crate) peer: SocketAddr,
    /// The handler's own.
    pub(crate) connection_data: Option<Box<dyn Any>>,
    /// The exchange in hand.
    pub(crate) state: Option<Box<ExchangeState>>,
}

impl Default for HandlerSession {
    fn default() -> Self {
        Self {
            peer: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            connection_data: None,
            state: None,
        }
    }
}

impl fmt::Debug for HandlerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerSession").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// What is to be done with an exchange later.
pub(crate) type Act = dyn FnOnce(&mut Responder<'_>) -> HandlerResult;

/// An exchange in hand. A finished one is used again.
pub(crate) struct ExchangeState {
    pub(crate) stream: StreamId,
    /// Number of the request among all of this server.
    pub(crate) number: u64,
    pub(crate) body_handler: Option<Box<dyn BodyHandler>>,
    /// What is to be done when the timer has run out; without it, the work is told.
    pub(crate) due: Option<Box<Act>>,
    /// Who answers from elsewhere looks whether it is still there. True: its work was told to go
    /// on, and has not heard of it.
    pub(crate) alive: Option<Arc<AtomicBool>>,
    /// The request and its notes, if its handler is to be called with it again.
    pub(crate) replay: Option<Box<Replay>>,
    /// What was asked, for observers, once the head is not in hand any more.
    pub(crate) request: Option<Box<OwnedRequestSummary>>,
    pub(crate) began: Option<Instant>,
    /// 0 before the final head.
    pub(crate) status: u16,
    /// Body bytes queued.
    pub(crate) sent: u64,
    /// The answer has no body, whatever is sent of it: to HEAD, and with some statuses.
    pub(crate) bodiless: bool,
    /// Somebody will go on with it.
    pub(crate) claimed: bool,
    /// Body handlers that has not been told that it may begin.
    pub(crate) fresh: bool,
    /// The request has come in whole.
    pub(crate) received: bool,
    /// It has, and there was no work to be told so.
    pub(crate) pending_end: bool,
    /// How long its body is.
    pub(crate) declared: BodyLen,
    /// It is held up by us: see `H1::set_held`.
    pub(crate) held: bool,
    /// The connection is handed over, or will be when the request is complete.
    pub(crate) tunnel: Option<Tunnel>,
    /// A timer was set for it.
    pub(crate) timed: bool,
    /// We have said everything.
    pub(crate) over: bool,
    /// Fields that the answer will carry besides its own.
    pub(crate) fields: Vec<Field>,
    /// Why the application failed; nothing of it is called any more.
    pub(crate) error: Option<Box<HandlerError>>,
}

/// A field that is kept until there is a head for it.
pub(crate) type Field = (Cow<'static, str>, Cow<'static, [u8]>);

/// How far the handing over of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// The request is still to be complete.
    Granted,
    Open,
}

impl ExchangeState {
    /// A new exchange begins.
    pub(crate) fn begin(&mut self, stream: StreamId, number: u64, now: Instant, len: BodyLen) {
        (self.stream, self.number, self.began) = (stream, number, Some(now));
        (self.declared, self.received) = (len, len == BodyLen::Empty);
    }

    /// The request as observers receive it: from its head, or from the kept copy.
    pub(crate) fn request_summary<'a>(
        &'a self,
        request: Option<&Request<'a>>,
    ) -> RequestSummary<'a> {
        let kept = || self.request.as_ref().map(|kept| kept.as_summary());
        request.map(RequestSummary::of).or_else(kept).unwrap_or_default()
    }

    /// Drops the work, the closure and the request that the exchange still holds.
    ///
    /// # Errors
    /// Its destructor panicked.
    pub(crate) fn drop_handlers(&mut self) -> Result<(), Panic> {
        match (self.body_handler.take(), self.due.take(), self.replay.take()) {
            (None, None, None) => Ok(()),
            left => catch(|| drop(left)),
        }
    }

    /// Keeps what observers will want to know of the request.
    pub(crate) fn keep(&mut self, request: &Request<'_>) {
        self.request = Some(Box::new(OwnedRequestSummary::of(request)));
    }
}

impl Default for ExchangeState {
    fn default() -> Self {
        Self {
            stream: StreamId::default(),
            number: 0,
            body_handler: None,
            due: None,
            alive: None,
            replay: None,
            request: None,
            began: None,
            status: 0,
            sent: 0,
            bodiless: false,
            claimed: false,
            fresh: false,
            received: false,
            pending_end: false,
            declared: BodyLen::Empty,
            held: false,
            tunnel: None,
            timed: false,
            over: false,
            fields: Vec::new(),
            error: None,
        }
    }
}

impl fmt::Debug for ExchangeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeState")
            .field("stream", &self.stream)
            .field("status", &self.status)
            .field("sent", &self.sent)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
