//! HTTP/1.1 and 1.0 as one machine for both roles (RFC 9112).
//!
//! [`H1`] holds two small machines: what we receive (`recv`) and what we send (`send`), each one
//! enum with its data inside. They meet in `advance` and nowhere else. A server has one
//! exchange at a time; a client may have several outstanding, with responses in order.
//!
//! ```text
//! server:  recv  Head ─▶ Body ─▶ Done ─┐ advance ┌─▶ Head         (the next request)
//!          send  Rest ─▶ Head ─▶ Body ─▶ Done ──┴─▶ Rest
//!
//! client:  recv  Rest ─▶ Head ─▶ Body ─▶ Done ─ advance ─▶ Head or Rest
//!          send  Rest ─▶ Head ─▶ Body ─▶ Rest                    (once for each request)
//!
//! both:    Done, Tunnel ─ advance ─▶ Upgraded ─▶ Tunnel           (101, CONNECT)
//!          any error, `reset`, the last exchange ─▶ Discard, Closed
//! ```
//!
//! A server that has ended its response receives no more events of that exchange. The rest of the
//! request is drained, if it is short, and the next event is that of the next request.
//!
//! Where the RFC leaves a choice, this machine takes the strict one and closes: behind a proxy
//! or in a pool, a repaired message is an attack on the next one. An owner that forwards nothing
//! may choose otherwise, for each connection ([`Leniency`]).

use std::marker::PhantomData;

use crate::body_len::BodyLen;
use crate::connection::{Connection, IoState, Phase, Reset, SpliceTarget};
use crate::errors::{PeerError, UsageError};
use crate::event::{Client, Event, Server, StreamId};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::outbox::{Outbox, Room};
use crate::side::Side;
use crate::transmit::{Segment, Transmit};

mod recv;
mod roles;
mod send;

mod chunked;
mod encode;
mod fault;
mod fields;
mod framing;
mod leniency;
mod libcurl;
mod parse;
mod verbatim;
mod written;

pub use crate::status_aliases::StatusAliases;
pub use encode::{EncodedRequest, LengthField};
pub use fault::fault_position;
pub use leniency::{Leniency, ResponseProfile};
pub use verbatim::VerbatimHead;
pub use written::{AfterResponse, ResponseFraming};

/// The side that receives requests and sends responses.
pub type H1Server = H1<Server>;

/// The side that sends requests and receives responses.
pub type H1Client = H1<Client>;

/// One HTTP/1 connection, of either role. While it is idle it holds no memory but itself.
#[derive(Debug)]
pub struct H1<S: Side> {
    recv: Recv,
    send: Send,
    outbox: Outbox,
    /// Which of the outstanding requests are HEAD, the oldest in the lowest bit.
    heads: u64,
    /// The current exchange: the oldest outstanding one, or the next if there is none.
    stream: StreamId,
    /// Body bytes that the owner has received and not released.
    unreleased: u32,
    /// The limit of these, and of queued bytes.
    queue_max: u32,
    /// Server: with so many bytes of responses in memory, no further request is parsed.
    response_buffer_max: u32,
    /// Bytes sent from here that wait in the layer below.
    below: u32,
    /// Server: bytes of a request that were drained since its response was complete. Client, by the
    /// rules of libcurl: bytes of the current head in lines that were judged sound.
    passed: u32,
    /// Client: requests without a complete response.
    outstanding: u8,
    /// Client: the maximum of outstanding requests.
    depth: u8,
    /// Interim responses to the current request.
    interims: u8,
    /// The owner has paused all events except `Writable`.
    held: bool,
    /// Server: a client that has sent nothing receives a 408 after the timeout.
    responds_to_silence: bool,
    /// Client: of the only outstanding request, not the first, no byte was sent: no response yet.
    unsent_request: bool,
    /// Bytes followed the current message. Client: they follow the last response and belong to no
    /// request. Server: if the request is the last one, they are drained before the close.
    excess: bool,
    /// Client, by the rules of libcurl.
    status_aliases: S::Aliases,
    leniency: Leniency,
    reuse: Reuse,
    room: Room,
    intake: Intake,
    exchange: RequestFacts,
    side: PhantomData<S>,
}

/// The state of the received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)] // a tag of its own: it is matched many times for each message
enum Recv {
    /// Client: no request is outstanding.
    Rest,
    /// A head is next.
    Head(HeadScan),
    Body(BodyReader),
    /// The message is complete.
    Done,
    /// The connection is a tunnel now; `Upgraded` is due.
    Upgraded,
    /// Bytes without messages.
    Tunnel,
    /// Our last message is sent, or nothing more is parsed: up to so many bytes are drained until
    /// the peer closes. At 0 the limit is reached, and the connection closes.
    Discard(u32),
    Closed,
}

/// The state of the search for the end of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HeadScan {
    scan: parse::Scan,
    /// Server: empty lines in front of the request that have been skipped.
    blank_lines: u8,
    /// Client, by the rules of libcurl: bytes of earlier heads of this exchange.
    earlier: u32,
}

/// The rest of a body that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum BodyReader {
    Exact(u64),
    Chunked(chunked::Decoder),
    /// Client: the same, with the framing as data.
    RawChunks(chunked::Decoder),
    UntilEof,
}

/// The state of the sent message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Send {
    /// No exchange has a message to send.
    Rest,
    /// The head is next.
    Head,
    Body(BodyLeft),
    /// Server: the response is complete.
    Done,
    /// Bytes without messages.
    Tunnel,
    /// Our side of the connection has ended.
    Closed,
    /// Our side has ended within a message: the peer must not take it for complete.
    Cut,
}

/// The rest of a body that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyLeft {
    Exact(u64),
    Chunked,
    UntilClose,
    /// Counted and not sent: the response to HEAD, 204, 304. At most this number.
    Silent(u64),
}

/// Whether another exchange may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    Yes,
    /// Outstanding exchanges are finished, no others begin.
    AfterOutstanding,
    /// The current message is the last one.
    No,
}

/// Whether a server parses further requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    /// No new request is parsed, since too many bytes of responses are queued. Opens again when a
    /// quarter of the limit is left.
    Full,
    /// The same, and unparsed input waits: reading stops until `Open`.
    Holding,
}

/// Facts about the current request (client: the one sent last).
#[derive(Clone, Copy, Debug, Default)]
struct RequestFacts {
    handover: Handover,
    /// Server: the peer uses HTTP/1.0.
    http10: bool,
    /// Server: the peer may wait for a 100. Client: a 100 or a response is expected.
    waiting: bool,
    /// Server: the peer has announced that it is its last one.
    last: bool,
}

/// Whether a request requests a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Handover {
    #[default]
    Nothing,
    Upgrade,
    Connect,
}

impl<S: Side> Default for H1<S> {
    fn default() -> Self {
        Self {
            recv: if S::SERVER { NEXT_HEAD } else { Recv::Rest },
            send: Send::Rest,
            outbox: Outbox::default(),
            heads: 0,
            stream: StreamId(0),
            unreleased: 0,
            queue_max: QUEUE_MAX,
            response_buffer_max: RESPONSE_BUFFER_MAX,
            below: 0,
            passed: 0,
            outstanding: 0,
            depth: 1,
            interims: 0,
            held: false,
            responds_to_silence: false,
            unsent_request: false,
            excess: false,
            status_aliases: S::Aliases::default(),
            leniency: Leniency::strict(),
            reuse: Reuse::Yes,
            room: Room::Open,
            intake: Intake::Open,
            exchange: RequestFacts::default(),
            side: PhantomData,
        }
    }
}

impl<S: Side> H1<S> {
    /// Sets the accepted deviations from the grammar; none by default. Call it before the first
    /// input.
    pub fn set_leniency(&mut self, leniency: Leniency) {
        self.leniency = leniency.without(Leniency::LIBCURL);
    }

    /// Received body bytes at which reading stops until some are released, and queued bytes at
    /// which a sender must wait: [`QUEUE_MAX`] by default. A server parses no further request then.
    /// Responses in memory have a lower limit of their own (`set_response_buffer_max`).
    ///
    /// A peer cannot exceed the limit. An owner can: one piece may be longer than the room. Then
    /// the queued bytes are sent before there is room again.
    pub fn set_queue_max(&mut self, bytes: u32) {
        self.queue_max = bytes;
    }

    /// The limit that [`H1::set_queue_max`] has set.
    pub(crate) fn queue_max(&self) -> u32 {
        self.queue_max
    }

    /// Server: true until a byte of the first request is parsed.
    #[inline(always)]
    pub(crate) fn has_received_nothing(&self) -> bool {
        S::SERVER && self.stream == StreamId(0) && self.recv == NEXT_HEAD
    }

    /// Ends the exchange in the middle of a message. The queued bytes are sent; then the connection
    /// is closed in a way that the peer does not take the message for complete.
    pub fn cut_off(&mut self, _: StreamId) {
        self.close();
        self.send = Send::Cut;
    }

    /// Bytes of memory that wait to be sent, here and in a layer below.
    fn backlog(&self) -> u64 {
        self.outbox.memory() + u64::from(self.below)
    }

    /// Updates `room` and `intake` after more bytes were queued.
    fn note_room(&mut self) {
        if self.outbox.size() >= u64::from(self.queue_max) {
            self.room = Room::Full;
        }
        if S::SERVER
            && self.intake == Intake::Open
            && (self.room == Room::Full || self.backlog() >= u64::from(self.response_buffer_max))
        {
            self.intake = Intake::Full;
        }
    }

    /// Reopens the intake once enough queued bytes have been sent.
    fn resume_intake(&mut self) {
        if self.intake != Intake::Open
            && self.room != Room::Full
            && self.backlog() <= u64::from(self.response_buffer_max / ROOM_SHARE)
        {
            self.intake = Intake::Open;
        }
    }

    /// The only place where what we receive and what we send meet.
    fn advance(&mut self) {
        if S::SERVER { self.advance_server() } else { self.advance_client() }
    }

    fn advance_server(&mut self) {
        if self.has_responded() && matches!(self.recv, Recv::Body(BodyReader::Exact(0))) {
            self.recv = Recv::Done;
        }
        match (self.recv, self.send) {
            (Recv::Done, Send::Tunnel) => self.recv = Recv::Upgraded,
            (Recv::Done, Send::Done) if self.reuse == Reuse::Yes => {
                self.recv = NEXT_HEAD;
                self.send = Send::Rest;
                self.next_exchange();
            }
            // Closing now would reset the connection before the peer has read the response.
            (Recv::Done, Send::Done) if self.excess => self.linger(),
            (Recv::Done | Recv::Closed, Send::Done) => self.close(),
            // The response is complete, and the request is not: drain a little, or close.
            (Recv::Body(_), Send::Done) if self.reuse == Reuse::Yes => {
                self.unreleased = 0;
                self.passed = 0;
            }
            (Recv::Body(_) | Recv::Discard(_), Send::Done) => self.linger(),
            _ => {}
        }
    }

    fn advance_client(&mut self) {
        if !matches!(self.recv, Recv::Done) {
            return;
        }
        if self.send == Send::Tunnel {
            self.outstanding = 0;
            self.recv = Recv::Upgraded;
            return;
        }
        self.outstanding -= 1;
        let unfinished = self.outstanding == 0 && self.send != Send::Rest;
        self.heads >>= 1;
        self.next_exchange();
        let at_rest = self.outstanding == 0;
        // The response was complete before the request was sent. What the peer does with the rest
        // of the request is unknown.
        let early = at_rest && (unfinished || !self.outbox.is_empty());
        if early || self.reuse == Reuse::No || (at_rest && self.reuse != Reuse::Yes) {
            self.outbox.clear();
            self.close();
        } else if at_rest {
            self.recv = Recv::Rest;
            self.exchange = RequestFacts::default();
            self.unreleased = 0;
        } else {
            self.recv = NEXT_HEAD;
        }
    }

    fn next_exchange(&mut self) {
        self.interims = 0;
        if S::SERVER {
            self.heads = 0;
            self.unreleased = 0;
            self.excess = false;
            self.exchange = RequestFacts::default();
        }
        self.stream.0 += 1;
        if self.stream.0 >= STREAM_MAX && self.reuse == Reuse::Yes {
            self.reuse = Reuse::AfterOutstanding;
        }
    }

    /// Both directions are over; queued bytes are still sent.
    fn close(&mut self) {
        self.recv = Recv::Closed;
        self.send = Send::Closed;
    }

    /// We have queued everything, and the peer may still be sending. A reset must not destroy our
    /// response (RFC 9112 §9.6), so at most [`LINGER_SIZE_MAX`] bytes of input are drained until
    /// the peer closes.
    ///
    /// This is the only way to the drain, for every early response, error and last request. Its
    /// timeout is that of [`Phase::Linger`].
    fn linger(&mut self) {
        self.send = Send::Closed;
        if !matches!(self.recv, Recv::Discard(_)) {
            self.recv = Recv::Discard(LINGER_SIZE_MAX);
        }
    }

    /// The exchange of the next bytes to send.
    fn sending(&self) -> StreamId {
        let later = u32::from(self.outstanding.saturating_sub(1));
        StreamId(self.stream.0 + later)
    }

    /// Server: the last response on this connection, to a request that cannot be served.
    fn refuse(&mut self, refusal: encode::Refusal) {
        let with_body = self.heads == 0;
        self.outbox.compose(|out| encode::refusal(out, refusal, with_body));
        self.send = Send::Closed;
    }

    fn is_before_head(&self) -> bool {
        matches!(self.send, Send::Rest | Send::Head)
    }

    fn has_responded(&self) -> bool {
        S::SERVER && self.send == Send::Done
    }

    /// Whether to read, and the phase; `queued`: bytes are queued.
    #[inline(always)]
    fn read_state(&self, queued: bool) -> (bool, Phase) {
        let has_room = !self.held && self.unreleased < self.queue_max;
        let ours = if queued { Phase::Send } else { Phase::Application };
        let (reads, phase) = match self.recv {
            Recv::Upgraded => (!self.held, Phase::Tunnel),
            Recv::Tunnel => (has_room, Phase::Tunnel),
            Recv::Discard(left) => (left > 0 && !self.held, ours),
            Recv::Closed | Recv::Done => (false, ours),
            Recv::Body(_) if self.held && self.has_responded() => (false, ours),
            Recv::Body(_) => {
                let reads = has_room || (self.has_responded() && !self.held);
                (reads, self.body_phase(reads))
            }
            Recv::Head(head) => {
                let reads = match S::SERVER {
                    true => !self.held && self.intake != Intake::Holding,
                    false => has_room,
                };
                (reads, if head.scan.is_fresh() { self.head_phase(queued) } else { Phase::Head })
            }
            Recv::Rest => (has_room, self.head_phase(queued)),
        };
        match self.send {
            Send::Tunnel => (reads, Phase::Tunnel),
            Send::Closed | Send::Cut if !queued && phase != Phase::Tunnel => (reads, Phase::Linger),
            _ => (reads, phase),
        }
    }

    fn body_phase(&self, reads: bool) -> Phase {
        match self.room {
            Room::Full => Phase::Send,
            _ if !reads || self.exchange.waiting => Phase::Application,
            _ => Phase::Body,
        }
    }

    /// Nothing of the next head has arrived.
    fn head_phase(&self, queued: bool) -> Phase {
        match self.send {
            _ if queued => Phase::Send,
            Send::Body(_) if self.exchange.waiting => Phase::Response,
            Send::Head | Send::Body(_) => Phase::Application,
            _ if self.outstanding > 0 => Phase::Response,
            _ => Phase::Idle,
        }
    }
}

impl<S: Side> Connection for H1<S> {
    type Role = S;

    fn poll_event<'a>(
        &mut self,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Event<'a, S>>, PeerError> {
        if self.room == Room::Reopened {
            self.room = Room::Open;
            if matches!(self.send, Send::Body(_) | Send::Tunnel) {
                return Ok(Some(Event::Writable { stream: self.sending() }));
            }
        }
        if self.held {
            return Ok(None);
        }
        self.poll_recv(input, scratch)
    }

    fn has_event(&self) -> bool {
        let needs_no_bytes = matches!(self.recv, Recv::Body(BodyReader::Exact(0)) | Recv::Upgraded);
        self.room == Room::Reopened || (needs_no_bytes && !self.held)
    }

    fn splice_len(&self, target: SpliceTarget) -> u64 {
        match self.recv {
            Recv::Body(BodyReader::Exact(left)) if !self.has_responded() => left,
            Recv::Body(BodyReader::UntilEof) if !self.has_responded() => unknown_len(target),
            Recv::Tunnel => unknown_len(target),
            _ => 0,
        }
    }

    fn handle_spliced(&mut self, bytes: u64, target: SpliceTarget) {
        match &mut self.recv {
            Recv::Body(BodyReader::Exact(left)) if bytes <= *left => {
                *left -= bytes;
                self.exchange.waiting &= bytes == 0;
            }
            Recv::Tunnel | Recv::Body(BodyReader::UntilEof) if target == SpliceTarget::Pipe => {}
            _ => assert_eq!(bytes, 0, "only bytes of the current body may bypass the connection"),
        }
        if target == SpliceTarget::Pipe {
            self.hold(bytes);
        }
    }

    fn release(&mut self, stream: StreamId, bytes: usize) {
        // Bytes of an earlier request were released when its response was complete.
        if !S::SERVER || stream == self.stream {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.unreleased = self.unreleased.saturating_sub(bytes);
        }
    }

    fn vacancy(&self) -> u32 {
        let may_follow = self.exchange.handover == Handover::Nothing;
        let open = matches!(self.recv, Recv::Rest | Recv::Head(_) | Recv::Body(_));
        if !S::SERVER
            && open
            && may_follow
            && !self.excess
            && self.send == Send::Rest
            && self.reuse == Reuse::Yes
        {
            u32::from(self.depth - self.outstanding)
        } else {
            0
        }
    }

    fn open(&mut self) -> Option<StreamId> {
        if self.vacancy() == 0 {
            return None;
        }
        if matches!(self.recv, Recv::Rest) {
            self.recv = NEXT_HEAD;
        }
        self.outstanding += 1;
        self.send = Send::Head;
        Some(self.sending())
    }

    fn send_head(
        &mut self,
        stream: StreamId,
        head: S::Send<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        self.queue_head(stream, S::sent(head), len)
    }

    fn send_data(&mut self, stream: StreamId, data: Segment) -> Result<(), UsageError> {
        self.queue_data(stream, data)
    }

    fn send_end(&mut self, stream: StreamId, trailers: Headers<'_>) -> Result<(), UsageError> {
        self.queue_end(stream, trailers)
    }

    fn reset(&mut self, _: StreamId, _: Reset) {
        let midway = matches!(self.send, Send::Body(_)) || !self.outbox.is_empty();
        self.outbox.clear();
        self.close();
        if midway {
            self.send = Send::Cut;
        }
    }

    fn set_held(&mut self, _: StreamId, held: bool) {
        self.held = held;
    }

    fn unsent(&self, _: StreamId) -> u64 {
        self.outbox.size()
    }

    fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    fn close_after(&mut self) {
        if self.reuse == Reuse::Yes {
            self.reuse = Reuse::AfterOutstanding;
        }
        match self.recv {
            Recv::Rest => self.close(),
            Recv::Head(head) if S::SERVER && head.scan.is_fresh() => match self.excess {
                true => self.linger(),
                false => self.close(),
            },
            _ => {}
        }
    }

    fn handle_unread(&mut self) {
        if !S::SERVER {
            return; // a client sends no response that could be lost
        }
        if matches!(self.recv, Recv::Done | Recv::Head(_)) {
            self.excess = true;
        } else if (self.recv, self.send) == (Recv::Closed, Send::Closed) {
            self.linger(); // the last response is on its way
        }
    }

    /// 408, if no response has begun (RFC 9110 §15.5.9). Between two requests no timeout of a
    /// message applies.
    fn handle_late(&mut self) -> bool {
        let silent = self.responds_to_silence && self.stream == StreamId(0);
        let owes = match self.recv {
            Recv::Head(head) => silent || !head.scan.is_fresh(),
            Recv::Body(_) => true,
            _ => false,
        };
        let responds = S::SERVER && owes && self.is_before_head();
        if responds {
            self.refuse(encode::LATE);
            self.linger();
        }
        responds
    }

    fn room(&self, _: StreamId) -> u64 {
        match (self.room, self.send) {
            (Room::Open, Send::Body(_) | Send::Tunnel) => {
                u64::from(self.queue_max).saturating_sub(self.outbox.size())
            }
            _ => 0,
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.outbox.transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
        self.unsent_request &= bytes == 0;
        if self.room == Room::Full && self.outbox.size() <= u64::from(self.queue_max / ROOM_SHARE) {
            self.room = Room::Reopened;
        }
        self.resume_intake();
    }

    fn handle_layer_queue(&mut self, bytes: u64) {
        self.below = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.resume_intake();
    }

    /// A server limits the bytes behind the current message: the next requests may wait long.
    fn unread_max(&self) -> usize {
        let rest = match self.recv {
            _ if !S::SERVER => return usize::MAX,
            // It grows as the head does: requests may follow a head that has only begun.
            Recv::Head(head) => u64::from(head.scan.seen()),
            Recv::Done => 0,
            Recv::Body(BodyReader::Exact(left)) => left,
            Recv::Body(BodyReader::Chunked(_)) => CHUNKED_UNREAD_MAX,
            Recv::Body(BodyReader::RawChunks(_) | BodyReader::UntilEof)
            | Recv::Rest
            | Recv::Upgraded
            | Recv::Tunnel
            | Recv::Discard(_)
            | Recv::Closed => return usize::MAX,
        };
        usize::try_from(rest).unwrap_or(usize::MAX).saturating_add(UNREAD_MAX)
    }

    #[inline(always)]
    fn expects_no_more_requests(&self) -> bool {
        S::SERVER && self.exchange.last
    }

    fn io_state(&self) -> IoState {
        let wants_write = !self.outbox.is_empty();
        let finished = self.send == Send::Closed;
        let said = finished || self.send == Send::Cut;
        let heard = matches!(self.recv, Recv::Closed | Recv::Discard(0));
        let closed = said && !wants_write && heard;
        let (wants_read, phase) = self.read_state(wants_write);
        IoState { phase, wants_write, wants_read, finished, closed }
    }
}

/// Bytes up to the end of the connection may go into a pipe only.
fn unknown_len(target: SpliceTarget) -> u64 {
    match target {
        SpliceTarget::File => 0,
        SpliceTarget::Pipe => u64::MAX,
    }
}

/// Start line, fields and blank line of a head.
pub const HEAD_SIZE_MAX: usize = 32 * 1024;
/// A request target.
pub const TARGET_SIZE_MAX: usize = 8 * 1024;
/// A method.
pub const METHOD_SIZE_MAX: usize = 32;
/// Fields in a head, and in a trailer section.
pub const FIELDS_LEN_MAX: usize = 100;
/// By the rules of libcurl, a line of a head: it and the NUL behind it fit into 100 KB.
pub const LIBCURL_LINE_SIZE_MAX: usize = 100 * 1024 - 1;
/// By the rules of libcurl, all heads of an exchange.
pub const LIBCURL_HEADS_SIZE_MAX: u32 = 300 * 1024;
/// Interim responses before a final one.
pub const INTERIM_LEN_MAX: u32 = 16;
/// Empty lines in front of a request, which are skipped.
pub const BLANK_LINES_MAX: u8 = 32;
/// Blanks behind the size of one chunk, where they are allowed ([`Leniency::CHUNK_BLANKS`]).
pub const CHUNK_BLANKS_MAX: u8 = 64;
/// Chunk extensions, in all chunks of a message.
pub const CHUNK_EXT_SIZE_MAX: usize = 4 * 1024;
/// Fields and blank line of a trailer section.
pub const TRAILERS_SIZE_MAX: usize = 8 * 1024;
/// By the rules of libcurl, the same; of at most 255 fields.
pub const LIBCURL_TRAILERS_SIZE_MAX: usize = 64 * 1024 - 1;
/// Bytes drained of a request after an early response, so that the connection can be kept.
pub const DRAIN_SIZE_MAX: u32 = 64 * 1024;
/// Bytes drained before a connection is closed: behind its last request, or of a request with an
/// early response. A client that reads only after it has sent everything receives the response (RFC
/// 9112 §9.6).
pub const LINGER_SIZE_MAX: u32 = 4 * 1024 * 1024;
/// The default limit of received body bytes, and of queued bytes ([`H1::set_queue_max`]).
pub const QUEUE_MAX: u32 = 240 * 1024;
/// Bytes of responses in memory at which a server parses no further request: the default of
/// [`H1Server::set_response_buffer_max`].
pub const RESPONSE_BUFFER_MAX: u32 = 32 * 1024;
/// Bytes that a server receives beyond the current message: more than browsers pipeline, and little
/// enough to be kept while no further request is parsed.
pub const UNREAD_MAX: usize = 12 * 1024;
/// A sender may continue when the queue is down to this part of the limit.
pub const ROOM_SHARE: u32 = 4;
/// Requests outstanding on one connection.
pub const DEPTH_MAX: u32 = 64;

/// The same while a chunked body of unknown length is received: chunks come in large pieces.
const CHUNKED_UNREAD_MAX: u64 = 48 * 1024;
/// Exchanges of one connection: far enough from the end that ids never wrap.
const STREAM_MAX: u32 = u32::MAX - 2 * DEPTH_MAX;
const NEXT_HEAD: Recv =
    Recv::Head(HeadScan { scan: parse::Scan::FRESH, blank_lines: 0, earlier: 0 });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<H1Server>() <= 120, "{}", size_of::<H1Server>());
    }
}
