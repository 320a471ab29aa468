//! The state of an exchange, from the request's head to the end of the response.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fulmar_proto::{BodyLen, PeerError, Request, ServerConnection, StreamId};

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
    pub(crate) exchanges: Exchanges,
}

impl Default for HandlerSession {
    fn default() -> Self {
        Self {
            peer: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            connection_data: None,
            exchanges: Exchanges::default(),
        }
    }
}

impl fmt::Debug for HandlerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerSession").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// The exchanges of a connection, by stream: those in progress, of which HTTP/1 has one at a time,
/// and those whose response is complete and still being sent. They are a linked list, so that an
/// idle connection costs a pointer.
#[derive(Default)]
pub(crate) struct Exchanges {
    first: Option<Box<ExchangeState>>,
}

impl Exchanges {
    /// Adds an exchange.
    pub(crate) fn insert(&mut self, mut state: Box<ExchangeState>) {
        debug_assert!(!self.contains(state.stream), "a stream is one exchange");
        state.next = self.first.take();
        self.first = Some(state);
    }

    /// True if there is an exchange of `stream`, in progress or being sent.
    pub(crate) fn contains(&self, stream: StreamId) -> bool {
        self.iter().any(|state| state.stream == stream)
    }

    /// True if the response of `stream` is complete and not sent.
    pub(crate) fn is_kept(&self, stream: StreamId) -> bool {
        self.iter().any(|state| state.stream == stream && state.over)
    }

    /// True if an exchange is in progress.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.iter().any(|state| !state.over)
    }

    /// Removes the exchange of `stream`, if it is in progress.
    pub(crate) fn take(&mut self, stream: StreamId) -> Option<Box<ExchangeState>> {
        self.take_if(|state| state.stream == stream && !state.over)
    }

    /// Removes the exchange of `stream`, also one whose response is complete and not sent.
    pub(crate) fn take_any(&mut self, stream: StreamId) -> Option<Box<ExchangeState>> {
        self.take_if(|state| state.stream == stream)
    }

    /// Keeps an exchange whose response is complete until the response is sent. Returns the oldest
    /// of those that are kept, if they are more than [`KEPT_LEN_MAX`].
    pub(crate) fn keep(&mut self, state: Box<ExchangeState>) -> Option<Box<ExchangeState>> {
        debug_assert!(state.over, "only a complete response is kept");
        self.insert(state);
        // The list begins with the newest one: kept exchanges are not inserted again.
        let (oldest, len) = self
            .iter()
            .filter(|state| state.over)
            .fold((StreamId(0), 0), |(_, len), state| (state.stream, len + 1));
        if len > KEPT_LEN_MAX { self.take_kept(oldest) } else { None }
    }

    /// Removes the exchange of `stream`, if its response is complete.
    pub(crate) fn take_kept(&mut self, stream: StreamId) -> Option<Box<ExchangeState>> {
        self.take_if(|state| state.stream == stream && state.over)
    }

    /// The connection ends: its unsent bytes are not counted as sent.
    pub(crate) fn subtract_unsent(&mut self, reply: &ServerConnection) {
        let mut link = self.first.as_deref_mut();
        while let Some(state) = link {
            state.sent = state.sent.saturating_sub(reply.unsent_message(state.stream));
            link = state.next.as_deref_mut();
        }
    }

    /// Removes any exchange.
    pub(crate) fn pop(&mut self) -> Option<Box<ExchangeState>> {
        self.take_if(|_| true)
    }

    /// Removes the exchanges whose timer has expired at `now`, and clears it.
    pub(crate) fn take_due(&mut self, now: Instant) -> Self {
        let mut due = Self::default();
        while let Some(mut state) = self.take_if(|state| state.wake.is_some_and(|at| at <= now)) {
            state.wake = None;
            due.insert(state);
        }
        due
    }

    /// The time of the first timer.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.iter().filter_map(|state| state.wake).min()
    }

    fn take_if(
        &mut self,
        is_wanted: impl Fn(&ExchangeState) -> bool,
    ) -> Option<Box<ExchangeState>> {
        let mut link = &mut self.first;
        while link.as_ref().is_some_and(|state| !is_wanted(state)) {
            link = &mut link.as_mut().expect("it was compared").next;
        }
        let mut state = link.take()?;
        *link = state.next.take();
        Some(state)
    }

    fn iter(&self) -> impl Iterator<Item = &ExchangeState> {
        std::iter::successors(self.first.as_deref(), |state| state.next.as_deref())
    }
}

/// A closure that continues an exchange later.
pub(crate) type Act = dyn FnOnce(&mut Responder<'_>) -> HandlerResult;

/// The state of an exchange. It is recycled afterwards.
pub(crate) struct ExchangeState {
    /// The next exchange of the connection's list.
    next: Option<Box<Self>>,
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
    /// Body bytes queued; at the end of the connection or the stream, those that were sent.
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
    /// The time of the exchange's timer.
    pub(crate) wake: Option<Instant>,
    /// The timer has changed, and the connection's is not set yet.
    pub(crate) wake_changed: bool,
    /// The response is complete, or both directions of the tunnel.
    pub(crate) over: bool,
    /// Fields to add to the response.
    pub(crate) fields: Vec<Field>,
    /// Why the application failed. Its code is not called for this exchange any more.
    pub(crate) error: Option<Box<HandlerError>>,
    /// The fault of the client that ended the exchange.
    pub(crate) fault: Option<PeerError>,
}

/// A field to add to the response's head.
pub(crate) type Field = (Cow<'static, str>, Cow<'static, [u8]>);

/// The progress of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// The head of the upgrade is sent; the request is not complete. `is_ended`: the application
    /// has ended its direction already.
    Granted {
        is_ended: bool,
    },
    Open,
    /// The client has ended its direction.
    ClientEnded,
    /// The application has ended its direction.
    ServerEnded,
    /// Both have. In HTTP/2 the connection goes on.
    Closed,
}

impl Tunnel {
    /// The request is complete.
    pub(crate) fn open(self) -> Self {
        match self {
            Self::Granted { is_ended: true } => Self::ServerEnded,
            Self::Granted { is_ended: false } => Self::Open,
            Self::Open | Self::ClientEnded | Self::ServerEnded | Self::Closed => self,
        }
    }

    /// The end of the client's message: of the request, or of its direction of the tunnel.
    pub(crate) fn end_of_client(self) -> Self {
        match self {
            Self::Granted { .. } => self,
            Self::Open | Self::ClientEnded => Self::ClientEnded,
            Self::ServerEnded | Self::Closed => Self::Closed,
        }
    }

    /// The application has ended its direction.
    pub(crate) fn end_of_server(self) -> Self {
        match self {
            Self::Granted { .. } => Self::Granted { is_ended: true },
            Self::Open | Self::ServerEnded => Self::ServerEnded,
            Self::ClientEnded | Self::Closed => Self::Closed,
        }
    }

    /// True once bytes of the tunnel may pass.
    pub(crate) fn is_open(self) -> bool {
        !matches!(self, Self::Granted { .. })
    }
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
            next: None,
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
            wake: None,
            wake_changed: false,
            over: false,
            fields: Vec::new(),
            error: None,
            fault: None,
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

/// Complete responses of a connection that wait until they are sent. Beyond it the oldest one is
/// reported at once, with its queued bytes.
const KEPT_LEN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn exchange(stream: u32, wake: Option<Instant>) -> Box<ExchangeState> {
        Box::new(ExchangeState { stream: StreamId(stream), wake, ..ExchangeState::default() })
    }

    #[test]
    fn exchanges_are_found_by_their_stream() {
        let mut exchanges = Exchanges::default();
        for stream in [1, 3, 5, 7] {
            exchanges.insert(exchange(stream, None));
        }
        assert!(exchanges.take(StreamId(2)).is_none());
        for stream in [3, 7, 1] {
            assert!(exchanges.contains(StreamId(stream)));
            assert_eq!(exchanges.take(StreamId(stream)).unwrap().stream, StreamId(stream));
            assert!(!exchanges.contains(StreamId(stream)));
        }
        assert_eq!(exchanges.pop().unwrap().stream, StreamId(5));
        assert!(exchanges.pop().is_none());
    }

    #[test]
    fn kept_responses_are_limited() {
        let mut exchanges = Exchanges::default();
        let kept = |stream| {
            let stream = StreamId(stream);
            Box::new(ExchangeState { stream, over: true, ..ExchangeState::default() })
        };
        exchanges.insert(exchange(0, None)); // in progress: it does not count
        for stream in 1..=u32::try_from(KEPT_LEN_MAX).unwrap() {
            assert!(exchanges.keep(kept(stream)).is_none());
        }
        assert_eq!(exchanges.keep(kept(1_000)).unwrap().stream, StreamId(1));
        assert_eq!(exchanges.keep(kept(1_001)).unwrap().stream, StreamId(2));
        assert!(exchanges.take_kept(StreamId(0)).is_none());
        assert!(exchanges.take_kept(StreamId(1_000)).is_some());
        assert!(exchanges.keep(kept(1_002)).is_none());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the times are virtual")]
    fn exchanges_have_timers_of_their_own() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut exchanges = Exchanges::default();
        for (stream, wake) in [(1, Some(at(3))), (3, None), (5, Some(at(1))), (7, Some(at(2)))] {
            exchanges.insert(exchange(stream, wake));
        }
        assert_eq!(exchanges.next_wake(), Some(at(1)));
        let mut due = exchanges.take_due(at(2));
        assert!(due.contains(StreamId(5)) && due.contains(StreamId(7)));
        assert_eq!(due.next_wake(), None);
        assert_eq!(exchanges.next_wake(), Some(at(3)));
        assert!(due.pop().is_some() && due.pop().is_some() && due.pop().is_none());
        assert!(exchanges.contains(StreamId(1)) && exchanges.contains(StreamId(3)));
    }
}
