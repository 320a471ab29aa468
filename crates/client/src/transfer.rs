//! A transfer: its state and its times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::{SocketId, TickSpan};
use fulmar_proto::{BodyLen, FileRange, StreamId};
use fulmar_semantics::auth::AuthAttempt;
use fulmar_semantics::coding::ContentDecoder;
use fulmar_tls::Info;

use crate::deadline::later;
use crate::error::{Error, Waiting};
use crate::request::Request;
use crate::timestamps::{Timestamps, Timings};
use crate::transfer_stage::TransferStage;

/// The name of a transfer. It is unique, and stale after the transfer's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferId(pub(crate) SocketId);

impl TransferId {
    /// A small number that is unique among current transfers: an index for tables.
    pub fn index(self) -> usize {
        self.0.index as usize
    }
}

/// A transfer that has not ended.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) request: Request,
    pub(crate) origin: usize,
    pub(crate) stage: TransferStage,
    /// The connection, from [`TransferStage::Sending`] on.
    pub(crate) socket: SocketId,
    pub(crate) stream: StreamId,
    /// When the stage began, or last made progress.
    pub(crate) since: Instant,
    /// The span of the transfer's timer: it expires at most this long after any time.
    pub(crate) armed: TickSpan,
    pub(crate) timestamps: Timestamps,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// HTTP/2: bytes of the body that had been sent when the transfer's timer was checked.
    pub(crate) taken: u64,
    pub(crate) status: u16,
    pub(crate) len: Option<u64>,
    pub(crate) peer: Option<SocketAddr>,
    /// The application has paused it.
    pub(crate) paused: bool,
    /// The application has sent all of the request's body.
    pub(crate) finished: bool,
    /// It was sent again after a lost connection.
    pub(crate) retried: bool,
    /// The connection had been used before.
    pub(crate) reused: bool,
    /// The connection carries other transfers, too: HTTP/2.
    pub(crate) multiplexed: bool,
    /// HTTP/2: the connection is one of another origin.
    pub(crate) coalesced: bool,
    /// HTTP/2: it was sent before the server had announced its limit of streams.
    pub(crate) is_early: bool,
    /// Bytes followed the response.
    pub(crate) excess: bool,
    /// The response came before the request's body was begun.
    pub(crate) withheld: bool,
    /// The use of the response's body.
    pub(crate) body: BodyUse,
    pub(crate) extra: Option<Box<Extra>>,
}

/// The use of the current response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyUse {
    /// For the application.
    Deliver,
    /// Into a file, as long as the kernel can splice it.
    Splice,
    /// None: the response leads to another request.
    Ignore(FollowUp),
}

/// What follows a response that is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// The next request is in [`Extra::next`].
    Follow,
    /// The same request, after a pause.
    Rest,
}

/// Parts that only some transfers have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) decoder: Option<ContentDecoder>,
    /// Input that the decoder has not consumed, because the application paused.
    pub(crate) undecoded: Bytes,
    /// The length of the decoded body so far.
    pub(crate) decoded: u64,
    /// The response is complete, except for `undecoded`.
    pub(crate) ended: bool,
    pub(crate) file: Option<FileRange>,
    pub(crate) hops: Vec<TransferHop>,
    pub(crate) next: Option<Request>,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) retries: u8,
    /// How often the server has refused to process it: when its limit of streams was known, and
    /// before ([`Transfer::is_early`]).
    pub(crate) refusals: [u8; 2],
    /// The response to a request with this key was 421: it was sent again on a connection of its
    /// own.
    pub(crate) misdirected: Option<OwnConnection>,
    /// The credentials of the current request.
    pub(crate) proof: Option<AuthAttempt>,
    /// The number of requests with credentials after a challenge.
    pub(crate) proofs: u8,
    pub(crate) pace: Option<SpeedLimit>,
    /// Those of the last connection that was opened for the transfer.
    pub(crate) certificates: Option<Arc<[Vec<u8>]>>,
}

/// Whose own connection carries a request after a 421.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnConnection {
    /// One of its origin, as it was on one of another origin.
    OfOrigin,
    /// One that carries no other request.
    OfRequest,
}

/// Speed limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeedLimit {
    /// The begin of the lowest speed's window: its time and `received` then.
    pub(crate) window: (Instant, u64),
    /// When the received bytes would be due at the highest speed.
    pub(crate) due: Instant,
    /// Receiving is paused until then, to keep the highest speed.
    pub(crate) until: Option<Instant>,
}

/// A response that led to another request.
#[derive(Clone, Debug)]
pub struct TransferHop {
    /// The URL of the request.
    pub url: url::Url,
    /// The status of the response.
    pub status: u16,
    /// The durations of its phases.
    pub timings: Timings,
}

/// The end of a transfer.
#[derive(Debug)]
pub struct Done {
    /// Its request; after redirects, the last one.
    pub request: Request,
    /// `Ok` if the response is complete, with any status.
    pub result: Result<(), Error>,
    /// The response's status; 0 without a response.
    pub status: u16,
    /// Bytes of the body before decoding.
    pub received: u64,
    /// The address of the peer: of the server, or of its proxy.
    pub peer: Option<SocketAddr>,
    /// The connection of the last exchange: a name for its driver, which may be stale by now.
    pub connection: Option<SocketId>,
    /// The connection had been used before.
    pub reused: bool,
    /// Bytes followed the response and arrived together with its end: the server may have meant a
    /// longer body. The connection is closed.
    pub excess: bool,
    /// The request was sent a second time after its first connection was lost.
    pub retried: bool,
    timestamps: Timestamps,
    ended: Instant,
    /// With [`crate::Options::reports_certificates`]: the certificates in DER that the peer has
    /// sent, its own first, on the last connection that was opened for the transfer. A resumed
    /// session has those of the first handshake.
    pub certificates: Option<Arc<[Vec<u8>]>>,
    /// The responses that led to further requests, in order.
    pub hops: Vec<TransferHop>,
}

impl Done {
    /// The durations of its phases. For redirected transfers they are of the last exchange, except
    /// the total.
    pub fn timings(&self) -> Timings {
        self.timestamps.timings(self.ended)
    }
}

/// What is known of an exchange before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeFacts {
    /// The connection: a name for its driver.
    pub connection: Option<SocketId>,
    /// The address of the peer: of the server, or of its proxy.
    pub peer: Option<SocketAddr>,
    /// The connection had been used before.
    pub reused: bool,
    /// The durations of its phases so far.
    pub timings: Timings,
}

/// A request has begun on a connection.
#[derive(Debug)]
pub struct ConnectedFacts {
    /// The connection, and how it was opened.
    pub exchange: ExchangeFacts,
    /// It is one of HTTP/2.
    pub multiplexed: bool,
    /// The stream, or the number of the request.
    pub stream: StreamId,
    /// The result of the TLS handshake, if it was opened for this request.
    pub tls: Option<Box<NegotiatedTls>>,
}

/// What a TLS handshake has negotiated.
#[derive(Clone, Debug)]
pub struct NegotiatedTls {
    /// The TLS version.
    pub version: fulmar_tls::Version,
    /// The name of the cipher suite in the IANA registry.
    pub cipher: &'static str,
    /// The application protocol, if one was negotiated (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The certificate of the peer in DER.
    pub certificate: Option<Vec<u8>>,
    /// An earlier session was resumed.
    pub resumed: bool,
}

impl NegotiatedTls {
    pub(crate) fn of(info: &Info<'_>) -> Self {
        Self {
            version: info.version,
            cipher: info.cipher,
            alpn: info.alpn.map(<[u8]>::to_vec),
            certificate: info.certificates().next().map(<[u8]>::to_vec),
            resumed: info.resumed,
        }
    }
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the response's body so far, before decoding.
    pub received: u64,
    /// The length of the body, if the server declared it.
    pub len: Option<u64>,
    /// Bytes of the request's body that were queued so far.
    pub sent: u64,
    /// The time since the start.
    pub elapsed: Duration,
}

impl Transfer {
    pub(crate) fn new(now: Instant, request: Request, origin: usize) -> Self {
        Self {
            request,
            origin,
            stage: TransferStage::Queued,
            socket: SocketId { index: 0, generation: 0 },
            stream: StreamId(0),
            since: now,
            armed: TickSpan::ENDLESS,
            timestamps: Timestamps::new(now),
            received: 0,
            sent: 0,
            status: 0,
            len: None,
            peer: None,
            paused: false,
            finished: false,
            retried: false,
            reused: false,
            multiplexed: false,
            coalesced: false,
            is_early: false,
            taken: 0,
            excess: false,
            withheld: false,
            body: BodyUse::Deliver,
            extra: None,
        }
    }

    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// True if it is on a connection.
    pub(crate) fn is_active(&self) -> bool {
        matches!(
            self.stage,
            TransferStage::Sending | TransferStage::Expecting | TransferStage::Receiving
        )
    }

    /// True if its response is ignored and, with `bytes` more, too long to be discarded.
    pub(crate) fn exceeds_drain_limit(&self, bytes: usize) -> bool {
        let ignored = matches!(self.body, BodyUse::Ignore(_));
        ignored && self.received + bytes as u64 > IGNORED_SIZE_MAX
    }

    /// True if the transfer receives nothing now.
    pub(crate) fn is_held(&self) -> bool {
        let paced = self.extra.as_ref().and_then(|extra| extra.pace);
        self.paused || paced.is_some_and(|pace| pace.until.is_some())
    }

    /// Ends a pause. The time of the pause does not count as the server's silence.
    pub(crate) fn release(&mut self, now: Instant) {
        self.since = now;
        let received = self.received;
        if let Some(pace) = self.extra.as_mut().and_then(|extra| extra.pace.as_mut()) {
            pace.window = (now, received);
        }
    }

    /// Its next deadline, and what has timed out then.
    pub(crate) fn deadline(&self) -> Option<(Instant, Waiting)> {
        let options = self.request.options();
        let total = options
            .total_timeout
            .map(|span| (later(self.timestamps.started, span), Waiting::Total));
        let exchange = options.exchange_timeout.filter(|_| self.is_active());
        let assigned = self.timestamps.assigned.unwrap_or(self.since);
        let exchange = exchange.map(|span| (later(assigned, span), Waiting::Total));
        let stage = match self.stage {
            TransferStage::Queued => options.queue_timeout.map(|span| (span, Waiting::Queue)),
            TransferStage::Detached | TransferStage::Expecting => None,
            _ if self.is_held() => None,
            TransferStage::Sending => {
                options.first_byte_timeout.map(|span| (span, Waiting::FirstByte))
            }
            TransferStage::Receiving => options.idle_timeout.map(|span| (span, Waiting::Idle)),
        };
        let stage = stage.map(|(span, waiting)| (later(self.since, span), waiting));
        total.into_iter().chain(exchange).chain(stage).min_by_key(|(due, _)| *due)
    }

    /// When the next check is due: the end of a pause, or a speed measurement.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        let options = self.request.options();
        let extra = self.extra.as_deref();
        let expecting = (self.stage == TransferStage::Expecting)
            .then(|| later(self.since, options.continue_timeout));
        let pace = extra.and_then(|extra| extra.pace);
        let watched = pace.filter(|_| !self.is_held()).zip(options.lowest_speed());
        let window = watched.map(|(pace, (_, span))| later(pace.window.0, span));
        let resumed = pace.and_then(|pace| pace.until);
        let rested = extra.and_then(|extra| extra.retry_at);
        [expecting, window, resumed, rested].into_iter().flatten().min()
    }

    /// Records the current response as a hop to another request.
    pub(crate) fn hop(&mut self, now: Instant) {
        let timings = self.timestamps.timings(now);
        let hop = TransferHop { url: self.request.url().clone(), status: self.status, timings };
        self.extra().hops.push(hop);
    }

    pub(crate) fn progress(&self, now: Instant) -> Progress {
        Progress {
            received: self.received,
            len: self.len,
            sent: self.sent,
            elapsed: now - self.timestamps.started,
        }
    }

    pub(crate) fn exchange(&self, now: Instant) -> Option<ExchangeFacts> {
        self.is_active().then(|| ExchangeFacts {
            connection: Some(self.socket),
            peer: self.peer,
            reused: self.reused,
            timings: self.timestamps.timings(now),
        })
    }

    #[inline(always)] // so that its fields are moved once
    pub(crate) fn done(self, now: Instant, result: Result<(), Error>) -> Done {
        let (certificates, hops) =
            self.extra.map(|extra| (extra.certificates, extra.hops)).unwrap_or_default();
        Done {
            request: self.request,
            result,
            status: self.status,
            received: self.received,
            peer: self.peer,
            connection: self.timestamps.assigned.map(|_| self.socket),
            reused: self.reused,
            excess: self.excess,
            retried: self.retried,
            timestamps: self.timestamps,
            ended: now,
            certificates,
            hops,
        }
    }
}

/// The bytes of an ignored response that are discarded to keep its connection.
pub(crate) const IGNORED_SIZE_MAX: u64 = 64 * 1024;

/// A length, as the application receives it.
pub(crate) fn known(len: BodyLen) -> Option<u64> {
    match len {
        BodyLen::Empty => Some(0),
        BodyLen::Exact(len) => Some(len),
        BodyLen::Unknown => None,
    }
}
