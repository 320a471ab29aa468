//! Who watches what is asked and answered: logs and metrics.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::End;
use fulmar_proto::{PeerError, Request, Version};
use fulmar_semantics::clock::Clock;

use crate::handler::HandlerError;

/// Hears of every connection and exchange; for logs and metrics.
///
/// A panic in one of its methods affects neither the exchange nor other observers. They receive it
/// with [`Observer::handler_failed`].
pub trait Observer: 'static {
    /// Somebody connected.
    fn accepted(&mut self, _now: Instant, _peer: SocketAddr) {}

    /// True if the observer needs [`Observer::exchange_ended`]; called once. If no observer needs it, it
    /// is not called, no request is kept, and [`HandlerFailure::request`] is empty after the
    /// handler has returned.
    fn observes_requests(&self) -> bool {
        true
    }

    /// An exchange is over. `clock` says the time of day.
    fn exchange_ended(&mut self, _now: Instant, _clock: &Clock, _exchange: &ExchangeSummary<'_>) {}

    /// What should have been a request could not be understood; the connection ends. It is no
    /// exchange: [`Observer::exchange_ended`] does not hear of it.
    fn malformed(&mut self, _now: Instant, _clock: &Clock, _peer: SocketAddr, _error: PeerError) {}

    /// Application code failed: a handler, its work, or another observer. Called at once; for a
    /// request [`Observer::exchange_ended`] repeats the cause later.
    fn handler_failed(&mut self, _now: Instant, _clock: &Clock, _failure: &HandlerFailure<'_>) {}

    /// A connection is gone.
    fn gone(&mut self, _now: Instant, _peer: SocketAddr, _end: &End) {}

    /// Descriptors or memory ran out when somebody wanted to connect.
    fn exhausted(&mut self, _now: Instant) {}

    /// The moment that [`Observer::poll_timeout`] told has come.
    fn timeout(&mut self, _now: Instant) {}

    /// When [`Observer::timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Nothing more will come: what is held back is written.
    fn finish(&mut self, _now: Instant) {}
}

/// An exchange that is over.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeSummary<'a> {
    /// Who summary.
    pub peer: SocketAddr,
    /// What was summary.
    pub request: RequestSummary<'a>,
    /// The identifier of the request.
    pub id: RequestId,
    /// Of the answer; 0 if there was none.
    pub status: u16,
    /// Bytes of its body, as far as they were queued; none to HEAD.
    pub bytes: u64,
    /// From the head of the request to the end of the answer's queueing.
    pub duration: Duration,
    /// False if the client went away before, or the answer was given up.
    pub complete: bool,
    /// Why the application failed, if it did: the response was 500 or incomplete.
    pub error: Option<&'a HandlerError>,
}

/// A failure of the application's code.
#[derive(Clone, Copy, Debug)]
pub struct HandlerFailure<'a> {
    /// The cause.
    pub error: &'a HandlerError,
    /// The client; `None` if the code was called for no connection.
    pub peer: Option<SocketAddr>,
    /// The request, with its identifier; `None` if the code was called for none.
    pub request: Option<(RequestId, RequestSummary<'a>)>,
}

/// What observers are told of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestSummary<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The target.
    pub target: &'a [u8],
    /// What the peer speaks.
    pub version: Version,
    /// The field `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The field `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// The field `X-Request-Id`: what the client, or a proxy before us, calls the request. It is
    /// what they say, and no more: two requests may have the same.
    pub client_id: Option<&'a [u8]>,
}

impl<'a> RequestSummary<'a> {
    pub(crate) fn of(request: &Request<'a>) -> Self {
        let (method, target, version) = (request.method, request.target, request.version);
        let mut summary = Self { method, target, version, ..Self::default() };
        for (name, value) in request.headers.iter() {
            let field = match name.len() {
                7 if name.eq_ignore_ascii_case(b"Referer") => &mut summary.referer,
                10 if name.eq_ignore_ascii_case(b"User-Agent") => &mut summary.user_agent,
                12 if name.eq_ignore_ascii_case(b"X-Request-Id") => &mut summary.client_id,
                _ => continue,
            };
            field.get_or_insert(value); // repeated, the first counts
        }
        summary
    }
}

/// The same, kept for an exchange that is not over while its head is in hand.
#[derive(Debug)]
pub(crate) struct OwnedRequestSummary {
    method: Box<[u8]>,
    target: Box<[u8]>,
    version: Version,
    referer: Option<Box<[u8]>>,
    user_agent: Option<Box<[u8]>>,
    client_id: Option<Box<[u8]>>,
}

impl OwnedRequestSummary {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let summary = RequestSummary::of(request);
        Self {
            method: summary.method.into(),
            target: summary.target.into(),
            version: summary.version,
            referer: summary.referer.map(Into::into),
            user_agent: summary.user_agent.map(Into::into),
            client_id: summary.client_id.map(Into::into),
        }
    }

    pub(crate) fn as_summary(&self) -> RequestSummary<'_> {
        RequestSummary {
            method: &self.method,
            target: &self.target,
            version: self.version,
            referer: self.referer.as_deref(),
            user_agent: self.user_agent.as_deref(),
            client_id: self.client_id.as_deref(),
        }
    }
}

/// The identifier of a request: unique in the life of a process and, very likely, in the world.
/// Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Of the server's thread.
    pub server: u64,
    /// Of the request there.
    pub number: u64,
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}{:016x}", self.server, self.number)
    }
}
