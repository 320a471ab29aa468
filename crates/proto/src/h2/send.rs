//! Sending: heads are encoded when they are queued, bodies are framed when the socket is ready.

use crate::body_len::BodyLen;
use crate::error_code::ErrorCode;
use crate::errors::UsageError;
use crate::event::StreamId;
use crate::fields::HeaderBuf;
use crate::head::{Added, Headers, Request, Response, is_caller_hop, is_hop, is_token};
use crate::outgoing;
use crate::side::{Head, Side};
use crate::target::{self, UrlScheme};
use crate::transmit::Segment;

use super::frame::{self, FrameHeader, flag, kind};
use super::hpack::HpackEncoder;
use super::limits::PROGRESS_SIZE_MIN;
use super::stream::{BodyRest, RecvHalf, SendHalf, Stream, StreamPurpose};
use super::table::{StreamSlot, Turn};
use super::{H2, PendingEvent, ROOM_SHARE};

impl<S: Side> H2<S> {
    pub(super) fn queue_head(
        &mut self,
        id: StreamId,
        head: Head<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        let slot = self.slot_for_head(id)?;
        match head {
            Head::Request(request) => self.queue_request(slot, &request, len),
            Head::Response(response) if response.status < 200 => {
                self.queue_interim(slot, &response)
            }
            Head::Response(response) => self.queue_response(slot, &response, len),
        }
    }

    /// The stream, if its head is next.
    pub(super) fn slot_for_head(&self, id: StreamId) -> Result<StreamSlot, UsageError> {
        let slot = self.streams.find(id).ok_or(UsageError::NoSuchStream)?;
        let is_unsent = |stream: &Stream| stream.send == SendHalf::Head;
        if !is_unsent(&self.streams[slot]) {
            return Err(UsageError::HeadAlreadySent);
        }
        // The head of a request closes the streams before its own that have none (§5.1.1).
        if !S::SERVER && self.streams.before(id).is_some_and(is_unsent) {
            return Err(UsageError::HeadOutOfOrder);
        }
        Ok(slot)
    }

    fn queue_request(
        &mut self,
        slot: StreamSlot,
        request: &Request<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        outgoing::check_request(request, len)?;
        let hop = outgoing::survey(request.headers, request.added)?;
        let line = PseudoFields::new(request, self.scheme)?;
        if request.protocol.is_some() && !self.peer.connect_protocol {
            return Err(UsageError::NoExtendedConnect);
        }
        let rest = BodyRest::of(len);
        let stream = &mut self.streams[slot];
        stream.purpose = StreamPurpose::of(request.method);
        let expects_continue =
            (request.expects_continue || hop.expects_continue) && len != BodyLen::Empty;
        stream.expects_continue = expects_continue;
        // A tunnel stays open behind its request.
        let ends = rest == BodyRest::Silent(0) && !stream.is_connect();
        stream.send = match stream.is_connect() {
            true => SendHalf::Body(BodyRest::Unknown),
            false => SendHalf::Body(rest),
        };
        self.queue_block(slot, ends, |encoder, out| {
            line.encode_request(encoder, out, request, len);
            if expects_continue {
                encoder.field(out, b"expect", b"100-continue");
            }
        });
        if hop.close {
            self.queue_close();
        }
        Ok(())
    }

    /// 1xx. 101 does not exist in HTTP/2 (RFC 9113 §8.6).
    fn queue_interim(
        &mut self,
        slot: StreamSlot,
        response: &Response<'_>,
    ) -> Result<(), UsageError> {
        outgoing::survey(response.headers, response.added)?;
        if response.status < 100 || response.status == 101 {
            return Err(UsageError::BadHead);
        }
        self.streams[slot].expects_continue &= response.status != 100;
        self.queue_block(slot, false, |encoder, out| {
            encoder.status(out, response.status);
            encode_fields(encoder, out, response.headers, response.added, None);
        });
        Ok(())
    }

    fn queue_response(
        &mut self,
        slot: StreamSlot,
        response: &Response<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        if response.status > STATUS_MAX {
            return Err(UsageError::BadHead);
        }
        let hop = outgoing::survey(response.headers, response.added)?;
        let stream = &mut self.streams[slot];
        let id = stream.id;
        stream.note_final_status(response.status);
        let (length, rest) = match stream.is_tunnel() {
            true => (None, BodyRest::Unknown),
            false => response_body(stream.is_head(), response.status, len),
        };
        stream.expects_continue = false;
        stream.send = SendHalf::Body(rest);
        if stream.is_tunnel() {
            self.events.push_back(PendingEvent::Upgraded(id));
            self.events.push_back(PendingEvent::Continue(id));
        }
        self.queue_block(slot, matches!(rest, BodyRest::Silent(_)), |encoder, out| {
            encoder.status(out, response.status);
            encode_fields(encoder, out, response.headers, response.added, length);
        });
        if hop.close {
            self.queue_close();
        }
        Ok(())
    }

    /// `Connection: close` of the application: the connection ends after its open streams.
    pub(super) fn queue_close(&mut self) {
        use crate::connection::Connection;
        self.close_after();
    }

    /// Server: responds to a request that the application does not receive.
    pub(super) fn refuse(&mut self, slot: StreamSlot, status: u16, ends: bool) {
        self.queue_block(slot, true, |encoder, out| encoder.status(out, status));
        let stream = &mut self.streams[slot];
        stream.send = SendHalf::Ended;
        match ends {
            true => {
                stream.recv = RecvHalf::Ended;
                self.close_if_done(slot);
            }
            false => self.reset_slot(slot, ErrorCode::NoError),
        }
    }

    /// Queues a header block for a stream. The order of encoding is the order on the wire.
    pub(super) fn queue_block(
        &mut self,
        slot: StreamSlot,
        end_stream: bool,
        encode: impl FnOnce(&mut HpackEncoder, &mut Vec<u8>),
    ) {
        let Self { streams, encoder, outbox, peer, .. } = self;
        let stream = streams[slot].id.0;
        let flags = flag::END_HEADERS | (u8::from(end_stream) * flag::END_STREAM);
        outbox.compose(|out| {
            let start = out.len();
            FrameHeader { len: 0, kind: kind::HEADERS, flags, stream }.write(out);
            encoder.begin(out);
            encode(encoder, out);
            let len = out.len() - start - frame::HEADER_SIZE;
            let len_max = peer.frame_size_max as usize;
            match len <= len_max {
                true => frame::set_len(out, start, len),
                false => frame::split_block(out, start, len_max),
            }
        });
        streams[slot].moved = true;
        self.sends_messages = true;
    }

    pub(super) fn queue_data(&mut self, id: StreamId, data: Segment) -> Result<(), UsageError> {
        let slot = self.streams.find(id).ok_or(UsageError::NoSuchStream)?;
        let share = self.queue_share();
        let stream = &mut self.streams[slot];
        let SendHalf::Body(rest) = &mut stream.send else { return Err(UsageError::NoSuchStream) };
        let is_sent = rest.take(data.len())?;
        if !is_sent || data.is_empty() {
            return Ok(());
        }
        if !S::SERVER {
            stream.expects_continue = false; // the sender has waited long enough
        }
        stream.queue.push(data);
        self.has_shares = true;
        stream.is_full |= stream.queue.size() >= share;
        self.streams.update_ready(slot, Turn::Last);
        if !self.can_fill() {
            self.unshare();
        }
        Ok(())
    }

    /// Copies queued bytes that share a block of inputs, so that no window keeps it in memory.
    pub(super) fn unshare(&mut self) {
        if std::mem::take(&mut self.has_shares) {
            self.streams.iter_mut().for_each(|stream| stream.queue.unshare());
        }
    }

    pub(super) fn queue_end(
        &mut self,
        id: StreamId,
        trailers: Headers<'_>,
    ) -> Result<(), UsageError> {
        let slot = self.streams.find(id).ok_or(UsageError::NoSuchStream)?;
        let stream = &mut self.streams[slot];
        match stream.send {
            SendHalf::Body(BodyRest::Exact(1..)) => Err(UsageError::BodyShorterThanDeclared),
            // The head was the end.
            SendHalf::Body(BodyRest::Silent(_)) => {
                stream.send = SendHalf::Ended;
                self.budget.refill(&self.limits);
                self.close_if_done(slot);
                Ok(())
            }
            SendHalf::Body(BodyRest::Exact(0) | BodyRest::Unknown) => {
                outgoing::check_trailers(trailers)?;
                if !trailers.is_empty() {
                    let mut kept = HeaderBuf::new();
                    kept.extend(trailers)?;
                    stream.trailers = Some(Box::new(kept));
                }
                stream.send = SendHalf::Queued;
                self.streams.update_ready(slot, Turn::Last);
                Ok(())
            }
            SendHalf::Head | SendHalf::Queued | SendHalf::Ended => Err(UsageError::NoSuchStream),
        }
    }

    /// True if something can be framed.
    pub(super) fn can_fill(&self) -> bool {
        self.streams.has_ready(self.send_window.is_open())
    }

    /// Frames queued bytes until enough is in the outbox: framed bytes cannot be overtaken.
    pub(super) fn fill(&mut self) {
        while self.outbox.size() < self.fill_size.into() && self.outbox.memory() < FILL_MEMORY_MAX {
            let Some(slot) = self.streams.next_ready(self.send_window.is_open()) else { return };
            self.frame_turn(slot);
        }
    }

    /// `sent` bytes left. More is framed for a socket that takes all, and less for a slow one.
    pub(super) fn adapt_fill(&mut self, sent: u64) {
        let took_all = self.outbox.is_empty();
        if took_all && sent >= self.fill_size.into() {
            self.fill_size = (2 * self.fill_size).min(FILL_SIZE_MAX);
        } else if !took_all && sent > 0 {
            self.fill_size = (self.fill_size / 2).max(FILL_SIZE_MIN);
        }
    }

    /// Frames one turn of a stream: up to [`QUANTUM`] bytes, so that the parts of a file are long.
    fn frame_turn(&mut self, slot: StreamSlot) {
        let mut quantum = QUANTUM;
        loop {
            let stream = &mut self.streams[slot];
            let windows = stream.send_window.available().min(self.send_window.available());
            let max = windows.min(self.peer.frame_size_max.into()).min(quantum);
            let len = stream.queue.size().min(max);
            let is_last = stream.send == SendHalf::Queued && len == stream.queue.size();
            if is_last || len > 0 {
                self.frame_data(slot, len, is_last);
            }
            if is_last {
                return self.end_sent(slot);
            }
            quantum -= len;
            if len == 0 || quantum == 0 {
                break;
            }
        }
        let enough = self.queue_share() / ROOM_SHARE;
        let stream = &mut self.streams[slot];
        if stream.is_full && stream.queue.size() <= enough {
            stream.is_full = false;
            self.events.push_back(PendingEvent::Writable(stream.id));
        }
        let turn = if self.streams[slot].priority.incremental { Turn::Last } else { Turn::Next };
        self.streams.update_ready(slot, turn);
    }

    /// Moves `len` queued bytes of a stream into a DATA frame. The last one ends the stream, unless
    /// trailers follow.
    fn frame_data(&mut self, slot: StreamSlot, len: u64, is_last: bool) {
        let Self { streams, outbox, send_window, sent, .. } = self;
        let stream = &mut streams[slot];
        let ends = is_last && stream.trailers.is_none();
        if len == 0 && !ends {
            return;
        }
        let header = FrameHeader {
            len: usize::try_from(len).expect("a frame is limited"),
            kind: kind::DATA,
            flags: u8::from(ends) * flag::END_STREAM,
            stream: stream.id.0,
        };
        outbox.compose(|out| header.write(out));
        let mut left = len;
        while left > 0 {
            let piece = stream.queue.take(left).expect("the size counts every segment");
            left -= piece.len();
            outbox.push(piece);
        }
        stream.framed = *sent + outbox.size();
        // A piece that only a small window has cut off is no progress.
        let is_progress = len >= PROGRESS_SIZE_MIN || stream.queue.is_empty();
        stream.moved |= is_progress;
        stream.send_window.take(len);
        send_window.take(len);
        self.sends_messages = true;
        self.budget.note_progress(&self.limits, is_progress);
    }

    /// The last byte of a message is framed.
    fn end_sent(&mut self, slot: StreamSlot) {
        if let Some(trailers) = self.streams[slot].trailers.take() {
            self.queue_block(slot, true, |encoder, out| {
                let fields = trailers.as_headers();
                fields.end_to_end().for_each(|(name, value)| encoder.field(out, name, value));
            });
        }
        let stream = &mut self.streams[slot];
        stream.send = SendHalf::Ended;
        if stream.watched {
            self.outbox.mark(stream.id, self.outbox.size());
        }
        self.budget.refill(&self.limits);
        self.close_if_done(slot);
    }
}

impl BodyRest {
    /// The body of a request.
    fn of(len: BodyLen) -> Self {
        match len {
            BodyLen::Empty | BodyLen::Exact(0) => Self::Silent(0),
            BodyLen::Exact(n) => Self::Exact(n),
            BodyLen::Unknown => Self::Unknown,
        }
    }
}

/// The length that a final response declares, and what is sent of its body (RFC 9110 §6.4.1).
fn response_body(to_head: bool, status: u16, len: BodyLen) -> (Option<u64>, BodyRest) {
    let silent = BodyRest::Silent(match len {
        BodyLen::Empty => 0,
        BodyLen::Exact(n) => n,
        BodyLen::Unknown => u64::MAX,
    });
    match len {
        _ if status == 204 => (None, silent),
        BodyLen::Exact(n) if status == 304 || to_head => (Some(n), silent),
        _ if status == 304 => (None, silent),
        BodyLen::Empty => (Some(0), silent),
        BodyLen::Unknown if to_head => (None, silent),
        BodyLen::Exact(n) => (Some(n), BodyRest::of(len)),
        BodyLen::Unknown => (None, BodyRest::Unknown),
    }
}

/// The pseudo-header fields of a request (RFC 9113 §8.3.1, §8.5, RFC 8441 §4).
#[derive(Clone, Copy, Debug)]
pub(super) struct PseudoFields<'a> {
    method: &'a [u8],
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    protocol: Option<&'a [u8]>,
}

impl<'a> PseudoFields<'a> {
    pub(super) fn new(request: &Request<'a>, scheme: UrlScheme) -> Result<Self, UsageError> {
        let Request { method, target, protocol, .. } = *request;
        if protocol.is_some_and(|protocol| method != b"CONNECT" || !is_token(protocol)) {
            return Err(UsageError::BadHead);
        }
        // Extended CONNECT has the target of any request.
        let of = if protocol.is_some() { &b"GET"[..] } else { method };
        if !target::is_request_target(of, target) {
            return Err(UsageError::BadHead);
        }
        if method == b"CONNECT" && protocol.is_none() {
            return Ok(Self {
                method,
                scheme: None,
                authority: Some(target),
                path: None,
                protocol,
            });
        }
        let own = Self {
            method,
            scheme: Some(scheme.as_bytes()),
            authority: host(request),
            path: Some(target),
            protocol,
        };
        match target {
            [b'/', ..] | b"*" => Ok(own),
            _ => own.with_absolute(target).ok_or(UsageError::BadHead),
        }
    }

    /// The parts of a target in absolute form, for a proxy. OPTIONS without a path has `*`
    /// (RFC 9113 §8.3.1).
    fn with_absolute(self, target: &'a [u8]) -> Option<Self> {
        let colon = memchr::memchr(b':', target)?;
        let rest = target[colon..].strip_prefix(b"://")?;
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
        let path = match &rest[end..] {
            [] if self.method == b"OPTIONS" => &b"*"[..],
            [] => b"/",
            path @ [b'/', ..] => path,
            _ => return None,
        };
        let (scheme, authority) = (Some(&target[..colon]), Some(&rest[..end]));
        Some(Self { scheme, authority, path: Some(path), ..self })
    }

    /// Encodes all fields of a request.
    pub(super) fn encode_request(
        self,
        encoder: &mut HpackEncoder,
        out: &mut Vec<u8>,
        request: &Request<'_>,
        len: BodyLen,
    ) {
        let length = match len {
            _ if request.method == b"CONNECT" => None,
            BodyLen::Exact(n) => Some(n),
            BodyLen::Empty if matches!(request.method, b"POST" | b"PUT" | b"PATCH") => Some(0),
            BodyLen::Empty | BodyLen::Unknown => None,
        };
        self.encode(encoder, out);
        encode_fields(encoder, out, request.headers, request.added, length);
    }

    fn encode(self, encoder: &mut HpackEncoder, out: &mut Vec<u8>) {
        let fields = [
            (&b":method"[..], Some(self.method)),
            (b":scheme", self.scheme),
            (b":authority", self.authority),
            (b":path", self.path),
            (b":protocol", self.protocol),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                encoder.field(out, name, value);
            }
        }
    }
}

/// The value of `Host`, which becomes `:authority`.
fn host<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let added = request.added.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    added.map(|(_, value)| *value).or_else(|| request.headers.get("host"))
}

/// Encodes the fields of the caller, and the length. A request has its `Host` in `:authority`.
fn encode_fields(
    encoder: &mut HpackEncoder,
    out: &mut Vec<u8>,
    headers: Headers<'_>,
    added: Added<'_>,
    length: Option<u64>,
) {
    let added = added.iter().map(|(name, value)| (name.as_bytes(), *value));
    let added = added.filter(|(name, _)| !is_hop(name) || is_caller_hop(name));
    for (name, value) in headers.to_send().chain(added) {
        if is_sent(name, value) {
            encoder.field(out, name, value);
        }
    }
    if let Some(length) = length {
        let mut digits = [0; 20];
        encoder.field(out, b"content-length", decimal(&mut digits, length));
    }
}

/// Fields that concern one connection do not exist here, but for `TE: trailers` (RFC 9113 §8.2.2).
fn is_sent(name: &[u8], value: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 => !is(b"te") || value.eq_ignore_ascii_case(b"trailers"),
        4 => !is(b"host"),
        7 => !is(b"upgrade"),
        _ => true,
    }
}

/// The digits of a number.
fn decimal(digits: &mut [u8; 20], number: u64) -> &[u8] {
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
        if rest == 0 {
            return &digits[at..];
        }
    }
}

/// Bytes that one stream may have framed before others of its urgency.
const QUANTUM: u64 = 64 * 1024;
/// Bytes that are framed at a time, and of them those in memory: with a slow peer they wait, and
/// the application queues more behind them.
pub(super) const FILL_SIZE_FIRST: u32 = 256 * 1024;
const FILL_SIZE_MIN: u32 = 128 * 1024;
const FILL_SIZE_MAX: u32 = 512 * 1024;
const FILL_MEMORY_MAX: u64 = 128 * 1024;
const STATUS_MAX: u16 = 999;
