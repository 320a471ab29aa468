//! The state of an exchange, from the request's head to the end of the response.

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

/// The data of a connection: as little as possible while it is idle.
pub struct HandlerSession {
    pub(crate) peer: SocketAddr,
    /// What [`crate::Handler::establish`] returned.
    pub(crate) connection_data: Option<Box<dyn Any>>,
    /// The exchange in progress.
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

/// A closure that continues an exchange later.
pub(crate) type Act = dyn FnOnce(&mut Responder<'_>) -> HandlerResult;

/// The state of an exchange. It is recycled afterwards.
pub(crate) struct ExchangeState {
    pub(crate) stream: StreamId,
    /// The number of the request on this server.
    pub(crate) number: u64,
    pub(crate) body_handler: Option<Box<dyn BodyHandler>>,
    /// Called when the timer expires; without it, the body handler is.
    pub(crate) due: Option<Box<Act>>,
    /// Other threads hold weak references, which show whether the exchange is alive. True: a
    /// wake-up of the body handler is posted and not delivered yet.
    pub(crate) alive: Option<Arc<AtomicBool>>,
    /// The request and its notes, if its handler is to be called with it again.
    pub(crate) replay: Option<Box<Replay>>,
    /// The request for observers, kept if the exchange outlives its head.
    pub(crate) request: Option<Box<OwnedRequestSummary>>,
    pub(crate) began: Option<Instant>,
    /// 0 before the final head is queued.
    pub(crate) status: u16,
    /// Body bytes queued.
    pub(crate) sent: u64,
    /// The response has no body, even if bytes are sent: to HEAD, and with some statuses.
    pub(crate) bodiless: bool,
    /// The handler has arranged a later response.
    pub(crate) claimed: bool,
    /// The body handler is new, and its first call is due.
    pub(crate) fresh: bool,
    /// The request is complete.
    pub(crate) received: bool,
    /// The request is complete, and no body handler has received its end.
    pub(crate) pending_end: bool,
    /// The length of the request's body.
    pub(crate) declared: BodyLen,
    /// The handler has paused reading: see `Connection::set_held`.
    pub(crate) held: bool,
    /// The connection becomes a tunnel, now or when the request is complete.
    pub(crate) tunnel: Option<Tunnel>,
    /// A timer is set.
    pub(crate) timed: bool,
    /// The response is complete.
    pub(crate) over: bool,
    /// Fields to add to the response.
    pub(crate) fields: Vec<Field>,
    /// Why the application failed. Its code is not called for this exchange any more.
    pub(crate) error: Option<Box<HandlerError>>,
}

/// A field to add to the response's head.
pub(crate) type Field = (Cow<'static, str>, Cow<'static, [u8]>);

/// The progress of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// The head of the upgrade is sent; the request is not complete.
    Granted,
    Open,
}

impl ExchangeState {
    /// Begins an exchange with the request of this number.
    pub(crate) fn begin(&mut self, stream: StreamId, number: u64, now: Instant, len: BodyLen) {
        debug_assert!(self.began.is_none(), "a state serves one exchange at a time");
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

    /// Drops the body handler, the closure and the request that the exchange holds.
    ///
    /// # Errors
    /// Its destructor panicked.
    pub(crate) fn drop_handlers(&mut self) -> Result<(), Panic> {
        match (self.body_handler.take(), self.due.take(), self.replay.take()) {
            (None, None, None) => Ok(()),
            left => catch(|| drop(left)),
        }
    }

    /// Keeps the parts of the request that observers receive.
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
