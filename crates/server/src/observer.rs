//! Observers of connections and exchanges: logs and metrics.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::End;
use fulmar_proto::{PeerError, Request, Version};
use fulmar_semantics::clock::Clock;

use crate::handler::HandlerError;

/// Receives every connection and exchange; for logs and metrics.
///
/// A panic in one of its methods affects neither the exchange nor other observers. They receive it
/// with [`Observer::handler_failed`].
///
/// ```
/// use std::time::Instant;
///
/// use fulmar_semantics::clock::Clock;
/// use fulmar_server::{ExchangeSummary, Observer};
///
/// /// Prints every response that took longer than a second.
/// struct Slow;
///
/// impl Observer for Slow {
///     fn exchange_ended(&mut self, _: Instant, _: &Clock, exchange: &ExchangeSummary<'_>) {
///         if exchange.duration.as_secs() >= 1 {
///             let target = String::from_utf8_lossy(exchange.request.target);
///             println!("{} {target} took {:?}", exchange.status, exchange.duration);
///         }
///     }
/// }
/// ```
pub trait Observer: 'static {
    /// A connection was accepted.
    fn accepted(&mut self, _now: Instant, _peer: SocketAddr) {}

    /// True if the observer needs [`Observer::exchange_ended`]; called once. If no observer needs
    /// it, it is not called, no request is kept, and [`HandlerFailure::request`] is empty after the
    /// handler has returned.
    fn observes_requests(&self) -> bool {
        true
    }

    /// An exchange ended. `clock` has the time of day.
    fn exchange_ended(&mut self, _now: Instant, _clock: &Clock, _exchange: &ExchangeSummary<'_>) {}

    /// A connection sent a malformed request, and ends; in HTTP/2 only the stream ends. This is no
    /// exchange: [`Observer::exchange_ended`] is not called.
    fn malformed(&mut self, _now: Instant, _clock: &Clock, _peer: SocketAddr, _error: PeerError) {}

    /// Application code failed: a handler, a body handler, or another observer. Called at once. For
    /// a request [`Observer::exchange_ended`] repeats the cause later.
    fn handler_failed(&mut self, _now: Instant, _clock: &Clock, _failure: &HandlerFailure<'_>) {}

    /// A connection is closed.
    fn gone(&mut self, _now: Instant, _peer: SocketAddr, _end: &End) {}

    /// An accept failed for lack of descriptors or memory.
    fn exhausted(&mut self, _now: Instant) {}

    /// The time of [`Observer::poll_timeout`] has passed.
    fn timeout(&mut self, _now: Instant) {}

    /// When [`Observer::timeout`] is to be called.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The server has ended: buffered output is to be written.
    fn finish(&mut self, _now: Instant) {}
}

/// An exchange that has ended.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeSummary<'a> {
    /// The client's address.
    pub peer: SocketAddr,
    /// The request.
    pub request: RequestSummary<'a>,
    /// The identifier of the request.
    pub id: RequestId,
    /// The status of the response; 0 if there was none.
    pub status: u16,
    /// Body bytes sent to the socket or its TLS; 0 for HEAD. A body of up to 16 KiB counts as sent
    /// when it is complete; so do, over HTTP/2, the frames of a stream that were queued when the
    /// client reset it (at most 512 KB).
    pub bytes: u64,
    /// From the head of the request until the whole response is sent, or queued if its body has up
    /// to 16 KiB.
    pub duration: Duration,
    /// False if the client closed before all of it was sent, or the response was abandoned.
    pub complete: bool,
    /// Why the application failed, if it did: the response was 500 or incomplete.
    pub error: Option<&'a HandlerError>,
    /// What was wrong with the request or its connection, if the exchange ended because of it: a
    /// malformed body, for example. In HTTP/2 the stream is reset, without a status.
    pub fault: Option<PeerError>,
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

/// The parts of a request that observers receive.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestSummary<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The target.
    pub target: &'a [u8],
    /// The peer's version.
    pub version: Version,
    /// The field `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The field `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// The field `X-Request-Id`: the identifier that the client, or a proxy before us, gave the
    /// request. It need not be unique.
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
            field.get_or_insert(value); // of repeated fields the first counts
        }
        summary
    }
}

impl RequestSummary<'_> {
    /// The most bytes of each part that are kept while an exchange outlives the head of its
    /// request, as most do whose response is larger than 16 KiB. Without a limit, the unsent
    /// responses of a connection would hold as many copies of long fields.
    pub const KEPT_SIZE_MAX: usize = 2_560;
}

/// An owned copy, for an exchange that outlives its head.
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
        let kept = |text: &[u8]| -> Box<[u8]> {
            text[..text.len().min(RequestSummary::KEPT_SIZE_MAX)].into()
        };
        Self {
            method: kept(summary.method),
            target: kept(summary.target),
            version: summary.version,
            referer: summary.referer.map(kept),
            user_agent: summary.user_agent.map(kept),
            client_id: summary.client_id.map(kept),
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

/// The identifier of a request, written as 32 hexadecimal digits. It is unique in a process and,
/// very likely, in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The number of the server's thread, which is random.
    pub server: u64,
    /// The number of the request on that thread.
    pub number: u64,
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}{:016x}", self.server, self.number)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_proto::HeaderBuf;

    use super::*;

    /// The 128 responses of one connection kept 4 MB of long fields.
    #[test]
    fn kept_requests_are_truncated() {
        let (long, most) = (vec![b'x'; 10_000], RequestSummary::KEPT_SIZE_MAX);
        let mut headers = HeaderBuf::new();
        for name in ["Referer", "User-Agent", "X-Request-Id"] {
            headers.push(name, &long).expect("a valid field");
        }
        let request = Request::new(b"GET", &long, headers.as_headers());
        let owned = OwnedRequestSummary::of(&request);
        let kept = owned.as_summary();
        let fields = [kept.referer, kept.user_agent, kept.client_id].map(|it| it.map(<[u8]>::len));
        assert_eq!((kept.target.len(), fields), (most, [Some(most); 3]));
        assert_eq!(kept.method, b"GET");
    }
}
