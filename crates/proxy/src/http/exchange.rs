//! A request and its response on their way: what is only there while they are.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::balance::{WaitTicket, Wants};
use bytes::{Bytes, BytesMut};
use fulmar_engine::SocketId;
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::HttpMode;
use fulmar_haproxy::rules::subject::{Variable, VariableScope};
use fulmar_haproxy::rules::{RequestHead, ResponseHead, Sample};
use fulmar_proto::{BodyLen, HeaderBuf, Headers, Request, Segment, StreamId, Version};
use smallvec::SmallVec;

use crate::http::cookie::Return;
use crate::http::log::Level;
use crate::http::record::{Attempt, GivenUp};
use crate::http::route::Step;
use crate::http::subject::hops;

/// A request and its response on their way.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Which one of its client's connection.
    pub(super) stream: StreamId,
    pub(super) stage: Stage,
    pub(super) request: RequestHead,
    /// How long the request's body is.
    pub(super) len: BodyLen,
    /// It waits for a 100.
    pub(super) expects_continue: bool,
    /// The client takes trailers (`TE`).
    pub(super) takes_trailers: bool,
    pub(super) body: Body,
    pub(super) backend: Option<BackendId>,
    /// The server that it goes to, and whether it has a place there.
    pub(super) server: Option<usize>,
    pub(super) has_place: bool,
    /// Where a cookie or a rule wants it to go.
    pub(super) bound: Option<usize>,
    /// Where it waits.
    pub(super) ticket: Option<WaitTicket>,
    /// Where it waited last, and how many had been served there when it came.
    pub(super) line: Option<(Wants, u64)>,
    /// Of the response, if rules look at it.
    pub(super) response: ResponseHead,
    pub(super) status: u16,
    /// Received from the server, and not given back: the client is full.
    pub(super) owed: usize,
    pub(super) retries: u32,
    pub(super) redispatched: bool,
    /// It has gone over a connection that was stale.
    pub(super) was_stale: bool,
    /// Servers that were tried, and what came of it.
    pub(super) attempts: Vec<Attempt>,
    /// How far it is on its way to a server.
    pub(super) step: Step,
    /// An answer that is held back.
    pub(super) delayed: Option<Box<(ResponseHead, Bytes)>>,
    /// What becomes of connections afterwards.
    pub(super) mode: Option<HttpMode>,
    /// The head of the response is looked at, not only passed on.
    pub(super) looks_back: bool,
    /// What is known of the client's coming back to its server.
    pub(super) comes_back: Return,
    /// A rule says that it is not to be sent again.
    pub(super) no_retry: bool,
    /// Fields of a 103 that goes out before the response.
    pub(super) hints: Option<HeaderBuf>,
    /// Deadlines of this exchange alone.
    pub(super) server_timeout: Option<Duration>,
    pub(super) tunnel_timeout: Option<Duration>,
    /// How often it was tried again.
    pub(super) tried: u32,
    pub(super) given_up: GivenUp,
    pub(super) times: Times,
    pub(super) ended: Ended,
    /// What became of cookies, in the letters of HAProxy's logs.
    pub(super) cookie_marks: Ended,
    /// Both, as a line of the log tells them.
    pub(super) letters: [u8; 4],
    /// The answer is our own.
    pub(super) is_ours: bool,
    /// What answered in place of a server, as the log names it.
    pub(super) service: Option<&'static str>,
    /// Fields of the request that concerned the client's connection only.
    pub(super) hops: HeaderBuf,
    /// `response` is there.
    pub(super) has_response: bool,
    /// Where the client comes from, and what it connected to, if a rule says so.
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
    /// The request's first line, if the log tells it.
    pub(super) start_line: Vec<u8>,
    pub(super) unique_id: Vec<u8>,
    pub(super) variables: Vec<(Variable, Sample<'static>)>,
    pub(super) request_captures: Vec<Vec<u8>>,
    pub(super) response_captures: Vec<Vec<u8>>,
    /// The cookie that is captured: of the request, and of the response.
    pub(super) cookie_captures: Vec<Vec<u8>>,
    pub(super) log_level: Level,
    /// Its turn among those who waited: in the backend's queue, and in the server's.
    pub(super) turns: (u64, u64),
    /// The server has been handed the end of the request, or of the client's side of a tunnel.
    pub(super) handed_over: bool,
    pub(super) bytes_in: u64,
    /// Of the answer, queued for the client so far.
    pub(super) bytes_out: u64,
    /// Of these, what has not left.
    pub(super) unsent: u64,
    /// Its line of the log has been written before its end.
    pub(super) is_logged: bool,
    /// The exchange before it, if the client has not taken all of that answer either.
    pub(super) before: Option<Box<Self>>,
}

/// Where an exchange stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// No server has it.
    #[default]
    Routing,
    /// The same, and nothing is done before the timer of its client comes.
    Resting,
    /// The same, and its answer is held back until then.
    Tarpit,
    /// The same, and so much of its body (0: all of it) has to come first, or that timer.
    Collecting(u64),
    /// It waits for a place.
    Queued,
    /// Its connection does not stand yet.
    Connecting(Up),
    /// It is with a server, from which nothing has been passed on.
    Waiting(Up),
    /// The response's head has been passed on.
    Answering(Up),
    /// Bytes both ways.
    Tunnel(Up),
}

/// An exchange on a server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Up {
    pub(super) socket: SocketId,
    pub(super) stream: StreamId,
}

impl Stage {
    /// True once the client has the head of a server's response.
    pub(super) fn is_answering(self) -> bool {
        matches!(self, Self::Answering(_) | Self::Tunnel(_))
    }

    /// True if there is nobody yet to pass the body to.
    pub(super) fn is_before_server(self) -> bool {
        matches!(self, Self::Connecting(_)) || self.up().is_none()
    }

    /// The connection to a server, if there is one.
    pub(super) fn up(self) -> Option<Up> {
        match self {
            Self::Routing | Self::Resting | Self::Tarpit | Self::Collecting(_) | Self::Queued => {
                None
            }
            Self::Connecting(up) | Self::Waiting(up) | Self::Answering(up) | Self::Tunnel(up) => {
                Some(up)
            }
        }
    }
}

/// The body of a request, between client and server.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Received, and not passed on: there is nobody to pass it to yet.
    pub(super) waiting: VecDeque<Segment>,
    /// Passed on, and not given back to the client: the server is full.
    pub(super) owed: usize,
    /// All of it so far, to be sent again.
    pub(super) replay: Vec<u8>,
    /// It has grown beyond what is kept: once some of it was passed on, it cannot be sent again.
    pub(super) gone: bool,
    /// Some of it was passed on.
    pub(super) passed: bool,
    /// All of it has been received.
    pub(super) ended: bool,
    pub(super) trailers: HeaderBuf,
}

impl Body {
    /// More of it is to be passed on. Little is joined with the little before it, lest a body of
    /// tiny pieces cost memory for each.
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

    /// True if so much of it waits that its client has to wait too.
    pub(super) fn is_full(&self) -> bool {
        self.gone && self.waiting.iter().map(Segment::len).sum::<u64>() >= REPLAY_SIZE_MAX as u64
    }

    /// Keeps a copy, if it is little in all.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        if self.replay.len() + bytes.len() <= REPLAY_SIZE_MAX && !self.gone {
            self.replay.extend_from_slice(bytes);
        } else {
            self.gone = true;
        }
    }

    /// True if so many bytes are there (0: all of it), or as many as are kept.
    pub(super) fn has(&self, at_least: u64) -> bool {
        let some = at_least > 0 && self.replay.len() as u64 >= at_least;
        some || self.ended || self.gone
    }

    /// All of it, if it has been received and kept.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (self.ended && !self.gone).then_some(&self.replay)
    }

    /// All of it is to be passed on again. False if it cannot be.
    pub(super) fn rewind(&mut self) -> bool {
        if !std::mem::take(&mut self.passed) {
            return true; // all of it still waits
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

/// When things happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// The client was accepted, or its last exchange ended.
    pub(super) since: Option<Instant>,
    /// What lies below the first exchange took so long, in milliseconds.
    pub(super) handshake: u32,
    /// The first byte of the request was there.
    pub(super) first: Option<Instant>,
    /// The request's head was complete.
    pub(super) began: Option<Instant>,
    /// A place at a server was looked for.
    pub(super) routed: Option<Instant>,
    /// A server was chosen, and has a place for it.
    pub(super) assigned: Option<Instant>,
    /// A connection to it stood.
    pub(super) connected: Option<Instant>,
    /// The response's head was there.
    pub(super) answered: Option<Instant>,
}

/// How an exchange ended, in the letters of HAProxy's logs (its manual, §8.5): who ended it, and
/// what it was about then. A dash: in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended(pub(super) u8, pub(super) u8);

impl Default for Ended {
    fn default() -> Self {
        Self(b'-', b'-')
    }
}

impl Exchange {
    /// A request has come: what goes on of it is kept.
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

    /// What the client asks of the next hop, and we ask of the next one in its place (RFC 9110
    /// §7.6.1, §7.8). The protocol that it wants is a field as any other from now on, which rules
    /// may change, or take away. HTTP/2 is never asked for: nobody here speaks it (RFC 9113 §3.2).
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

    /// Of what is queued for the client, so much has not left: what comes after this exchange's
    /// bytes is what remains.
    pub(super) fn note_unsent(&mut self, queued: u64) -> u64 {
        self.unsent = queued.min(self.bytes_out);
        queued - self.unsent
    }

    /// True if variables of this scope are there: those of the request until a server answers,
    /// and from then on those of the response (HAProxy's manual, §2.8).
    pub(super) fn lives(&self, scope: VariableScope) -> bool {
        match scope {
            VariableScope::Req => self.times.answered.is_none(),
            VariableScope::Res => self.times.answered.is_some(),
            VariableScope::Proc | VariableScope::Sess | VariableScope::Txn => true,
        }
    }

    /// How much of the answer the client has.
    pub(super) fn sent(&self) -> u64 {
        self.bytes_out - self.unsent
    }

    /// Servers that are not to be tried again, as long as there are others.
    pub(super) fn avoided(&self) -> SmallVec<[usize; 4]> {
        match self.redispatched {
            true => self.attempts.iter().map(|attempt| attempt.server).collect(),
            false => SmallVec::new(),
        }
    }

    /// As new, with the memory that it has.
    pub(super) fn clear(&mut self) {
        use std::mem::take;
        let (mut request, mut response) = (take(&mut self.request), take(&mut self.response));
        let (mut start_line, mut unique_id) =
            (take(&mut self.start_line), take(&mut self.unique_id));
        let (mut hops, mut attempts) = (take(&mut self.hops), take(&mut self.attempts));
        let Body { mut waiting, mut replay, mut trailers, .. } = take(&mut self.body);
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
        let body = Body { waiting, replay, trailers, ..Body::default() };
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

    /// True if what comes next of the request can be passed on at once, and will not be needed
    /// again.
    pub(super) fn passes_request(&self) -> bool {
        match self.stage {
            Stage::Waiting(_) | Stage::Answering(_) => self.body.gone,
            Stage::Tunnel(_) => true,
            _ => false,
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

/// The protocol that a message asks for, or grants, goes on with it.
pub(super) fn keep_upgrade(from: Headers<'_>, into: &mut HeaderBuf) {
    for value in from.get_all("Upgrade") {
        into.push("Upgrade", value).expect("what was received can be sent");
    }
}

/// Of a body, what is kept to be sent again: as much as a buffer of HAProxy has by default.
const REPLAY_SIZE_MAX: usize = 16 * 1024;
/// Copying this much costs less than keeping it apart.
const PIECE_SIZE_JOINED: usize = 4 * 1024;
/// Most targets and bodies of requests are shorter than this.
const KEPT_SIZE_MAX: usize = 2 * 1024;
/// Fields of most messages are shorter, though browsers have long cookies.
const KEPT_FIELDS_SIZE_MAX: usize = 8 * 1024;
/// Pieces of bodies that wait.
const KEPT_LEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread kept 256 of them after a burst of long heads: 8 MB.
    #[test]
    fn long_fields_are_not_kept_for_exchanges_to_come() {
        let (short, long) = ([b'x'; 2_000], [b'x'; 30_000]);
        let fill: [fn(&mut Exchange, &[u8]); 3] = [
            |it, text| it.request.fields.push("a", text).unwrap(),
            |it, text| it.response.fields.push("a", text).unwrap(),
            |it, text| it.start_line.extend_from_slice(text),
        ];
        for fill in fill {
            let mut exchange = Exchange::default();
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
    fn a_body_is_not_kept_for_exchanges_to_come() {
        let mut exchange = Exchange::default();
        exchange.body.keep(&[b'x'; 1000]);
        assert!(!exchange.is_large());
        exchange.body.keep(&[b'x'; 11_000]);
        assert!(exchange.is_large());
    }
}
