//! One transfer: where it stands, and what it took.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::{SocketId, Span};
use fulmar_proto::{BodyLen, FileRange, StreamId};
use fulmar_semantics::auth::AuthAttempt;
use fulmar_semantics::coding::ContentDecoder;

use crate::deadline::later;
use crate::error::{Error, Waiting};
use crate::request::Request;
use crate::timestamps::{Timestamps, Timings};

/// A transfer's name: never given to another one, and recognised when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferId(pub(crate) SocketId);

impl TransferId {
    /// A small number that no other transfer has while this one lives: fit to index a table.
    pub fn index(self) -> usize {
        self.0.index as usize
    }
}

/// A transfer on its way.
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
    /// The wheel's entry comes due at most so long after any moment.
    pub(crate) armed: Span,
    pub(crate) timestamps: Timestamps,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) status: u16,
    pub(crate) len: Option<u64>,
    pub(crate) peer: Option<IpAddr>,
    /// The application wants nothing for now.
    pub(crate) paused: bool,
    /// The application has sent all of the request's body.
    pub(crate) finished: bool,
    /// It has been sent again after a connection died under it.
    pub(crate) retried: bool,
    /// The connection had been used before.
    pub(crate) reused: bool,
    /// Bytes followed the answer.
    pub(crate) excess: bool,
    /// The answer came before the body of the request was begun.
    pub(crate) withheld: bool,
    /// What the body is for.
    pub(crate) body: BodyUse,
    pub(crate) extra: Option<Box<Extra>>,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferStage {
    /// It waits for a connection.
    Queued,
    /// On no connection and in no queue: a server is to have rest first, or the application has
    /// paused with the answer complete.
    Detached,
    /// The head is queued; the body waits for a 100.
    Expecting,
    /// The request is under way, and the server has said nothing.
    Sending,
    /// The answer has begun.
    Receiving,
}

/// Whom the body of the answer in hand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyUse {
    /// The application.
    Deliver,
    /// A file, as long as the kernel can do it alone.
    Splice,
    /// Nobody: the answer leads to another request.
    Ignore(FollowUp),
}

/// What an answer that is not for the application leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// The next request is in [`Extra::next`].
    Follow,
    /// The same request, after a rest.
    Rest,
}

/// What only some transfers need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) decoder: Option<ContentDecoder>,
    /// What the decoder has not been given, because the application paused.
    pub(crate) undecoded: Bytes,
    /// Bytes that the decoder gave.
    pub(crate) decoded: u64,
    /// The answer is complete, but for what waits here.
    pub(crate) ended: bool,
    pub(crate) file: Option<FileRange>,
    pub(crate) hops: Vec<TransferHop>,
    pub(crate) next: Option<Request>,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) retries: u8,
    /// The proof that the request in hand carries.
    pub(crate) proof: Option<AuthAttempt>,
    /// Challenges answered.
    pub(crate) proofs: u8,
    pub(crate) pace: Option<SpeedLimit>,
}

/// Speed limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeedLimit {
    /// Since when, and from how many bytes on, the lowest speed is reckoned.
    pub(crate) window: (Instant, u64),
    /// When what has been received would be due at the highest.
    pub(crate) due: Instant,
    /// Until when nothing is taken, to keep below the highest.
    pub(crate) until: Option<Instant>,
}

/// An answer that led to another request.
#[derive(Clone, Debug)]
pub struct TransferHop {
    /// What was asked.
    pub url: url::Url,
    /// What the answer was.
    pub status: u16,
    /// How long it took.
    pub timings: Timings,
}

/// How a transfer ended.
#[derive(Debug)]
pub struct Done {
    /// Its request; after redirects, the last one.
    pub request: Request,
    /// `Ok` if the answer is complete, whatever its status.
    pub result: Result<(), Error>,
    /// The answer's status; 0 if there was none.
    pub status: u16,
    /// Bytes of the body as they came, before decoding.
    pub received: u64,
    /// Where the answer came from.
    pub peer: Option<IpAddr>,
    /// The connection had been used before.
    pub reused: bool,
    /// Bytes followed the answer that belong to nobody, as far as they came with its end: the
    /// server may have meant a longer body. The connection is closed.
    pub excess: bool,
    /// The request was sent a second time, because a connection died under the first.
    pub retried: bool,
    timestamps: Timestamps,
    ended: Instant,
    /// Answers that led on, in order.
    pub hops: Vec<TransferHop>,
}

impl Done {
    /// How long it took; of redirected transfers, everything but the total is of the last
    /// exchange.
    pub fn timings(&self) -> Timings {
        self.timestamps.timings(self.ended)
    }
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the answer's body so far, before decoding.
    pub received: u64,
    /// How many there will be, if the server said.
    pub len: Option<u64>,
    /// Bytes of the request's body handed over so far.
    pub sent: u64,
    /// Since the start.
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
            armed: Span::ENDLESS,
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
            excess: false,
            withheld: false,
            body: BodyUse::Deliver,
            extra: None,
        }
    }

    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// True if it stands on a connection.
    pub(crate) fn is_active(&self) -> bool {
        matches!(
            self.stage,
            TransferStage::Sending | TransferStage::Expecting | TransferStage::Receiving
        )
    }

    /// True if its answer is of no interest, and too long with so many bytes more to be swallowed.
    pub(crate) fn exceeds_drain_limit(&self, bytes: usize) -> bool {
        let ignored = matches!(self.body, BodyUse::Ignore(_));
        ignored && self.received + bytes as u64 > IGNORED_SIZE_MAX
    }

    /// True if nothing may be delivered now.
    pub(crate) fn is_held(&self) -> bool {
        let paced = self.extra.as_ref().and_then(|extra| extra.pace);
        self.paused || paced.is_some_and(|pace| pace.until.is_some())
    }

    /// It is held no longer: what was not received meanwhile is nobody's fault.
    pub(crate) fn release(&mut self, now: Instant) {
        self.since = now;
        let received = self.received;
        if let Some(pace) = self.extra.as_mut().and_then(|extra| extra.pace.as_mut()) {
            pace.window = (now, received);
        }
    }

    /// When it must be looked at, and what it has failed to do then.
    pub(crate) fn deadline(&self) -> Option<(Instant, Waiting)> {
        let options = self.request.options();
        let total = options
            .total_timeout
            .map(|span| (later(self.timestamps.started, span), Waiting::Total));
        let exchange = options.exchange_timeout.filter(|_| self.is_active());
        let assigned = self.timestamps.assigned.unwrap_or(self.since);
        let exchange = exchange.map(|span| (later(assigned, span), Waiting::Total));
        let stage = match self.stage {
            TransferStage::Queued | TransferStage::Detached | TransferStage::Expecting => None,
            _ if self.is_held() => None,
            TransferStage::Sending => {
                options.first_byte_timeout.map(|span| (span, Waiting::FirstByte))
            }
            TransferStage::Receiving => options.idle_timeout.map(|span| (span, Waiting::Idle)),
        };
        let stage = stage.map(|(span, waiting)| (later(self.since, span), waiting));
        total.into_iter().chain(exchange).chain(stage).min_by_key(|(due, _)| *due)
    }

    /// When something else is due: a rest or a pause of ours ends, a speed is to be reckoned.
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

    /// The answer in hand is not the last: what was counted belongs to a hop.
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

    pub(crate) fn done(self, now: Instant, result: Result<(), Error>) -> Done {
        Done {
            request: self.request,
            result,
            status: self.status,
            received: self.received,
            peer: self.peer,
            reused: self.reused,
            excess: self.excess,
            retried: self.retried,
            timestamps: self.timestamps,
            ended: now,
            hops: self.extra.map(|extra| extra.hops).unwrap_or_default(),
        }
    }
}

/// So much of an answer that nobody wants is swallowed to keep its connection.
pub(crate) const IGNORED_SIZE_MAX: u64 = 64 * 1024;

/// A length as the application hears of it.
pub(crate) fn known(len: BodyLen) -> Option<u64> {
    match len {
        BodyLen::Empty => Some(0),
        BodyLen::Exact(len) => Some(len),
        BodyLen::Unknown => None,
    }
}
