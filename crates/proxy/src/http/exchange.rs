//! A request and its response, while they are in progress.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::balance::{WaitTicket, Wants};
use bytes::{Bytes, BytesMut};
use fulmar_engine::SocketId;
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::HttpMode;
use fulmar_haproxy::rules::eval_context::{Variable, VariableScope};
use fulmar_haproxy::rules::{RequestHead, ResponseHead, Sample};
use fulmar_proto::{BodyLen, HeaderBuf, Headers, Request, Segment, StreamId, Version};
use smallvec::SmallVec;

use crate::http::attempts::{FailedAttempt, GivenUp};
use crate::http::context::hops;
use crate::http::log::LogLevelOverride;
use crate::http::persistence_cookie::Persistence;
use crate::http::route::RouteStep;

/// A request and its response, while they are in progress.
#[derive(Debug, Default)]
pub(super) struct HttpExchange {
    /// Its stream on the client's connection.
    pub(super) stream: StreamId,
    pub(super) stage: ExchangeStage,
    pub(super) request: RequestHead,
    /// Length of the request's body.
    pub(super) len: BodyLen,
    /// The client waits for a 100 response.
    pub(super) expects_continue: bool,
    /// The client accepts trailers (`TE`).
    pub(super) takes_trailers: bool,
    pub(super) body: RequestBody,
    pub(super) backend: Option<BackendId>,
    /// The selected server, and whether the exchange has a slot there.
    pub(super) server: Option<usize>,
    pub(super) has_place: bool,
    /// The server selected by a cookie or a rule.
    pub(super) bound: Option<usize>,
    /// Its position in a queue.
    pub(super) ticket: Option<WaitTicket>,
    /// The last queue, and how many sessions it had served when this one was added.
    pub(super) line: Option<(Wants, u64)>,
    /// The response's head, if rules read it.
    pub(super) response: ResponseHead,
    pub(super) status: u16,
    /// Bytes received from the server and not released: the client has no room.
    pub(super) owed: usize,
    pub(super) retries: u32,
    pub(super) redispatched: bool,
    /// It has failed on a stale connection.
    pub(super) was_stale: bool,
    /// Failed attempts.
    pub(super) attempts: Vec<FailedAttempt>,
    /// The current step of its processing before a server is selected.
    pub(super) step: RouteStep,
    /// A delayed response.
    pub(super) delayed: Option<Box<(ResponseHead, Bytes)>>,
    /// What happens to the connections afterwards.
    pub(super) mode: Option<HttpMode>,
    /// The response's head has to be kept for rules.
    pub(super) has_response_rules: bool,
    /// The result of its persistence cookie.
    pub(super) persistence: Persistence,
    /// A rule forbids retries.
    pub(super) no_retry: bool,
    /// Fields of a 103 response before the final one.
    pub(super) hints: Option<HeaderBuf>,
    /// Timeouts of this exchange alone.
    pub(super) server_timeout: Option<Duration>,
    pub(super) tunnel_timeout: Option<Duration>,
    /// Number of retries.
    pub(super) tried: u32,
    pub(super) given_up: GivenUp,
    pub(super) times: ExchangeTimes,
    pub(super) ended: EndLetters,
    /// The result for cookies, in the letters of HAProxy's logs.
    pub(super) cookie_marks: EndLetters,
    /// Both, as in the log line.
    pub(super) letters: [u8; 4],
    /// The proxy generated the response.
    pub(super) is_generated: bool,
    /// The service that responded in place of a server, as logged.
    pub(super) service: Option<&'static str>,
    /// Hop-by-hop fields of the request.
    pub(super) hops: HeaderBuf,
    /// `response` is set.
    pub(super) has_response: bool,
    /// The client's address and destination, if a rule set them.
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
    /// The request line, if the log contains it.
    pub(super) start_line: Vec<u8>,
    pub(super) unique_id: Vec<u8>,
    pub(super) variables: Vec<(Variable, Sample<'static>)>,
    pub(super) request_captures: Vec<Vec<u8>>,
    pub(super) response_captures: Vec<Vec<u8>>,
    /// The captured cookie: of the request, and of the response.
    pub(super) cookie_captures: Vec<Vec<u8>>,
    pub(super) log_level: LogLevelOverride,
    /// Its position in the queues of the backend and of the server.
    pub(super) turns: (u64, u64),
    /// The end of the request, or of the client's side of a tunnel, was sent to the server.
    pub(super) handed_over: bool,
    pub(super) bytes_in: u64,
    /// Bytes of the response queued for the client.
    pub(super) bytes_out: u64,
    /// Of these, the unsent ones.
    pub(super) unsent: u64,
    /// Its log line was written before its end.
    pub(super) is_logged: bool,
    /// The exchange before it, if its response was not sent completely either.
    pub(super) before: Option<Box<Self>>,
}

/// The state of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExchangeStage {
    /// No server is assigned.
    #[default]
    Routing,
    /// The same, delayed until the client's timer expires.
    Delayed,
    /// The same; its response is delayed until then.
    Tarpit,
    /// The same, until this number of body bytes (0: all) was received, or the timer expires.
    Collecting(u64),
    /// It waits for a slot.
    Queued,
    /// The connection is being established.
    Connecting(ServerStream),
    /// The server has the request; no response was forwarded.
    Waiting(ServerStream),
    /// The response's head was forwarded.
    Responding(ServerStream),
    /// A tunnel.
    Tunnel(ServerStream),
}

/// The stream of an exchange on a server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerStream {
    pub(super) socket: SocketId,
    pub(super) stream: StreamId,
}

impl ExchangeStage {
    /// True once the head of a server's response was forwarded.
    pub(super) fn is_answering(self) -> bool {
        matches!(self, Self::Responding(_) | Self::Tunnel(_))
    }

    /// True if the body cannot be forwarded yet.
    pub(super) fn is_before_server(self) -> bool {
        matches!(self, Self::Connecting(_)) || self.up().is_none()
    }

    /// The stream on the server's connection, if there is one.
    pub(super) fn up(self) -> Option<ServerStream> {
        match self {
            Self::Routing | Self::Delayed | Self::Tarpit | Self::Collecting(_) | Self::Queued => {
                None
            }
            Self::Connecting(up) | Self::Waiting(up) | Self::Responding(up) | Self::Tunnel(up) => {
                Some(up)
            }
        }
    }
}

/// The body of a request, between client and server.
#[derive(Debug, Default)]
pub(super) struct RequestBody {
    /// Received and not forwarded yet.
    pub(super) waiting: VecDeque<Segment>,
    /// Forwarded and not released to the client: the server has no room.
    pub(super) owed: usize,
    /// A copy of all of it so far, for retries.
    pub(super) replay: Vec<u8>,
    /// It exceeds the limit of the copy: after forwarding some of it, it cannot be sent again.
    pub(super) gone: bool,
    /// Some of it was forwarded.
    pub(super) passed: bool,
    /// All of it was received.
    pub(super) ended: bool,
    pub(super) trailers: HeaderBuf,
}

impl RequestBody {
    /// Queues bytes. Short pieces are joined, so that a body of tiny pieces does not need memory
    /// for each.
    pub(super) fn push(&mut self, bytes: Bytes) {
        match self.waiting.back_mut() {
            Some(Segment::Bytes(last)) if last.len() + bytes.len() <= PIECE_SIZE_JOINED => {
                let joined = std::mem::take(last).try_into_mut();
                let mut joined = joined.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                joined.extend_from_slice(&bytes);
                *last = joined.freeze();
            }
            _ => self.waiting.push_back(bytes.into()),
        }
    }

    /// True if so many bytes wait that the client has to wait, too.
    pub(super) fn is_full(&self) -> bool {
        self.gone && self.waiting.iter().map(Segment::len).sum::<u64>() >= REPLAY_SIZE_MAX as u64
    }

    /// Keeps a copy, up to a limit.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        if self.replay.len() + bytes.len() <= REPLAY_SIZE_MAX && !self.gone {
            self.replay.extend_from_slice(bytes);
        } else {
            self.gone = true;
        }
    }

    /// True if this number of bytes (0: all) was received, or as many as are kept.
    pub(super) fn has(&self, at_least: u64) -> bool {
        let some = at_least > 0 && self.replay.len() as u64 >= at_least;
        some || self.ended || self.gone
    }

    /// All of it, if it was received and kept.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (self.ended && !self.gone).then_some(&self.replay)
    }

    /// Queues all of it again. False if that is impossible.
    pub(super) fn rewind(&mut self) -> bool {
        if !std::mem::take(&mut self.passed) {
            return true; // all of it is still queued
        }
        if self.gone {
            return false;
        }
        self.waiting.clear();
        if !self.replay.is_empty() {
            self.waiting.push_back(Bytes::copy_from_slice(&self.replay).into());
        }
        true
    }
}

/// Times of events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExchangeTimes {
    /// The client was accepted, or its last exchange ended.
    pub(super) since: Option<Instant>,
    /// Duration of the handshake before the first exchange, in milliseconds.
    pub(super) handshake: u32,
    /// The first byte of the request was received.
    pub(super) first: Option<Instant>,
    /// The request's head was complete.
    pub(super) began: Option<Instant>,
    /// The selection of a server began.
    pub(super) routed: Option<Instant>,
    /// It got a slot at a server.
    pub(super) assigned: Option<Instant>,
    /// The connection to the server was established.
    pub(super) connected: Option<Instant>,
    /// The response's head was received.
    pub(super) answered: Option<Instant>,
}

/// How an exchange ended, in the letters of HAProxy's logs (its manual, §8.5): the cause and the
/// phase. A dash: regularly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndLetters(pub(super) u8, pub(super) u8);

impl Default for EndLetters {
    fn default() -> Self {
        Self(b'-', b'-')
    }
}

impl HttpExchange {
    /// A request was received: keeps the parts that are forwarded.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &Request<'_>,
        len: BodyLen,
    ) {
        self.stream = stream;
        self.len = len;
        self.expects_continue = head.expects_continue;
        self.request.method.extend_from_slice(head.method);
        self.request.target.extend_from_slice(head.target);
        self.request.version = head.version;
        self.request.fields.extend(head.headers).expect("a head is not that long");
        hops(head.headers, &mut self.hops);
        self.bytes_in += head.headers.size() as u64;
        self.note_hops(head);
        self.times.began = Some(now);
    }

    /// Reads the hop-by-hop options that the proxy offers to the server in turn (RFC 9110 §7.6.1,
    /// §7.8). `Upgrade` becomes a regular field, which rules may change or remove. An upgrade to
    /// HTTP/2 is not forwarded: it is not supported (RFC 9113 §3.2).
    fn note_hops(&mut self, head: &Request<'_>) {
        if !head.headers.has("Connection") || head.version == Version::Http10 {
            return;
        }
        let options = |name: &'static str| {
            let values = head.headers.get_all(name);
            values.flat_map(|value| value.split(|b| *b == b',')).map(<[u8]>::trim_ascii)
        };
        let named = |option: &str| {
            options("Connection").any(|it| it.eq_ignore_ascii_case(option.as_bytes()))
        };
        if named("Upgrade") && !options("Upgrade").any(|it| it.eq_ignore_ascii_case(b"h2c")) {
            self.hops.remove("Upgrade");
            keep_upgrade(head.headers, &mut self.request.fields);
        }
        self.takes_trailers =
            named("TE") && options("TE").any(|it| it.eq_ignore_ascii_case(b"trailers"));
    }

    /// Sets the unsent bytes, from the bytes `queued` for the client. Returns the queued bytes
    /// before this exchange's.
    pub(super) fn note_unsent(&mut self, queued: u64) -> u64 {
        self.unsent = queued.min(self.bytes_out);
        queued - self.unsent
    }

    /// Its backend, from the selection on.
    pub(super) fn selected_backend(&self) -> usize {
        self.backend.expect("the backend is selected before its rules and servers").0
    }

    /// Its backend and its server, from the assignment of a slot on.
    pub(super) fn target(&self) -> (usize, usize) {
        (self.selected_backend(), self.server.expect("a server is assigned with its slot"))
    }

    /// True if variables of this scope exist: those of the request until the response's head, then
    /// those of the response (HAProxy's manual, §2.8).
    pub(super) fn lives(&self, scope: VariableScope) -> bool {
        match scope {
            VariableScope::Req => self.times.answered.is_none(),
            VariableScope::Res => self.times.answered.is_some(),
            VariableScope::Proc | VariableScope::Sess | VariableScope::Txn => true,
        }
    }

    /// Bytes of the response that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.bytes_out - self.unsent
    }

    /// Servers that are tried again only if there is no other.
    pub(super) fn avoided(&self) -> SmallVec<[usize; 4]> {
        match self.redispatched {
            true => self.attempts.iter().map(|attempt| attempt.server).collect(),
            false => SmallVec::new(),
        }
    }

    /// Resets it, but keeps its memory.
    pub(super) fn clear(&mut self) {
        use std::mem::take;
        let (mut request, mut response) = (take(&mut self.request), take(&mut self.response));
        let (mut start_line, mut unique_id) =
            (take(&mut self.start_line), take(&mut self.unique_id));
        let (mut hops, mut attempts) = (take(&mut self.hops), take(&mut self.attempts));
        let RequestBody { mut waiting, mut replay, mut trailers, .. } = take(&mut self.body);
        request.method.clear();
        request.target.clear();
        request.fields.clear();
        response.fields.clear();
        hops.clear();
        start_line.clear();
        unique_id.clear();
        attempts.clear();
        waiting.clear();
        replay.clear();
        trailers.clear();
        let body = RequestBody { waiting, replay, trailers, ..RequestBody::default() };
        *self = Self {
            request,
            response,
            hops,
            start_line,
            unique_id,
            attempts,
            body,
            ..Self::default()
        };
    }

    /// True if the next bytes of the request can be forwarded at once, and are not needed for a
    /// retry.
    pub(super) fn passes_request(&self) -> bool {
        match self.stage {
            ExchangeStage::Waiting(_) | ExchangeStage::Responding(_) => self.body.gone,
            ExchangeStage::Tunnel(_) => true,
            ExchangeStage::Routing
            | ExchangeStage::Delayed
            | ExchangeStage::Tarpit
            | ExchangeStage::Collecting(_)
            | ExchangeStage::Queued
            | ExchangeStage::Connecting(_) => false,
        }
    }

    /// True if its memory is not worth keeping.
    pub(super) fn is_large(&self) -> bool {
        self.request.target.capacity() > KEPT_SIZE_MAX
            || self.start_line.capacity() > KEPT_SIZE_MAX
            || self.request.fields.capacity() > KEPT_FIELDS_SIZE_MAX
            || self.response.fields.capacity() > KEPT_FIELDS_SIZE_MAX
            || self.body.replay.capacity() > KEPT_SIZE_MAX
            || self.body.waiting.capacity() > KEPT_LEN_MAX
    }

    /// True if its method may be executed twice (RFC 9110 §9.2.2).
    pub(super) fn is_idempotent(&self) -> bool {
        let known: [&[u8]; 6] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"];
        known.contains(&&self.request.method[..])
    }
}

/// Forwards the protocol of an upgrade.
pub(super) fn keep_upgrade(from: Headers<'_>, into: &mut HeaderBuf) {
    for value in from.get_all("Upgrade") {
        into.push("Upgrade", value).expect("what was received can be sent");
    }
}

/// Maximum size of a body that is kept for a retry: HAProxy's default buffer.
const REPLAY_SIZE_MAX: usize = 16 * 1024;
/// Copying fewer bytes costs less than a separate piece.
const PIECE_SIZE_JOINED: usize = 4 * 1024;
/// Most targets and bodies of requests are shorter.
const KEPT_SIZE_MAX: usize = 2 * 1024;
/// Most sections of fields are shorter; browsers may send long cookies.
const KEPT_FIELDS_SIZE_MAX: usize = 8 * 1024;
/// Pieces of waiting bodies.
const KEPT_LEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread kept 256 of them after a burst of long heads: 8 MB.
    #[test]
    fn large_fields_are_not_recycled() {
        let (short, long) = ([b'x'; 2_000], [b'x'; 30_000]);
        let fill: [fn(&mut HttpExchange, &[u8]); 3] = [
            |it, text| it.request.fields.push("a", text).unwrap(),
            |it, text| it.response.fields.push("a", text).unwrap(),
            |it, text| it.start_line.extend_from_slice(text),
        ];
        for fill in fill {
            let mut exchange = HttpExchange::default();
            fill(&mut exchange, &short);
            exchange.clear();
            assert!(!exchange.is_large());
            fill(&mut exchange, &long);
            exchange.clear();
            assert!(exchange.is_large());
        }
    }

    /// A thread kept a thousand of them after a burst of forms: 16 MB.
    #[test]
    fn large_bodies_are_not_recycled() {
        let mut exchange = HttpExchange::default();
        exchange.body.keep(&[b'x'; 1000]);
        assert!(!exchange.is_large());
        exchange.body.keep(&[b'x'; 11_000]);
        assert!(exchange.is_large());
    }
}
