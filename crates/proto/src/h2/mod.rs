//! HTTP/2 as one machine for both roles (RFC 9113).
//!
//! [`H2`] holds the streams of one connection, each with what is received of one message and what
//! is sent of the other. Frames are parsed in `recv`, header blocks are checked in `message`, and
//! `send` queues messages and frames them when the socket is ready: what is not framed yet can be
//! overtaken by a more urgent response.
//!
//! ```text
//! stream:  recv  Head ─▶ Body ─▶ Ended          send  Head ─▶ Body ─▶ Queued ─▶ Ended
//! both ended, or RST_STREAM ─▶ closed
//!
//! connection:  Open ─ GOAWAY, and no stream is open ─▶ Discard ─ end of the input ─▶ Closed
//! ```
//!
//! A stream that is held keeps its data in memory, limited by its window: the frames of the others
//! are behind it. Received bytes are counted until they are released, by their stream and, on a
//! server, by the connection; a stream that is closed returns all of its own. A client's connection
//! counts none: streams that are held would stop the others, and each has a window of its own.

use std::collections::VecDeque;
use std::marker::PhantomData;

use crate::body_len::BodyLen;
use crate::connection::{Connection, IoState, Phase, Reset};
use crate::errors::{PeerError, UsageError};
use crate::event::{Event, Server, StreamId};
use crate::h1::{HEAD_SIZE_MAX, LINGER_SIZE_MAX, QUEUE_MAX};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::outbox::Outbox;
use crate::side::Side;
use crate::target::UrlScheme;
use crate::transmit::{Segment, Transmit};

mod recv;

mod control;
mod encoded;
mod headers;
mod send;
mod settings;

mod message;
mod stream;
mod table;
mod window;

mod frame;
mod hpack;
mod limits;
mod priority;

pub use crate::error_code::ErrorCode;
pub use control::PINGS_MAX;
pub use encoded::RequestBlock;
pub use frame::PREFACE;
pub use limits::{Http2Limits, SharedHttp2Limits};

use frame::{flag, kind};
use limits::PeerBudget;
use recv::Incoming;
use settings::PeerSettings;
use stream::{RecvHalf, SendHalf, Stream};
use table::{ResetStreams, StreamSlot, StreamTable};
use window::{RecvWindow, SendWindow, WINDOW_DEFAULT};

/// One HTTP/2 connection, of either role.
#[derive(Debug)]
pub struct H2<S: Side> {
    state: ConnectionState,
    incoming: Incoming,
    streams: StreamTable,
    reset_streams: ResetStreams,
    /// Server: why requests were refused, since the owner took them the last time.
    refused: Vec<PeerError>,
    /// Events that need no more input.
    events: VecDeque<PendingEvent>,
    outbox: Outbox,
    /// Bytes were queued on a stream since the last copies of shares.
    has_shares: bool,
    /// Some of its bytes belong to messages, not to control frames.
    sends_messages: bool,
    decoder: hpack::HpackDecoder,
    encoder: hpack::HpackEncoder,
    peer: PeerSettings,
    send_window: SendWindow,
    recv_window: RecvWindow,
    limits: Http2Limits,
    budget: PeerBudget,
    /// The largest stream that the peer has opened.
    last_received: StreamId,
    /// Server: the last gap between the ids of streams, `from..to`. Those of them are closed, but
    /// were never open (RFC 9113 §5.1.1).
    skipped: (StreamId, StreamId),
    /// Client: the next stream to open.
    next_opened: StreamId,
    shutdown: Shutdown,
    /// The peer has sent GOAWAY, with this code.
    peer_shutdown: Option<ErrorCode>,
    /// PINGs that the peer has not acknowledged.
    pings: u8,
    /// When the last one was sent.
    pinged: u64,
    /// The peer has ended its side of the connection.
    eof: bool,
    /// Client: the scheme of requests.
    scheme: UrlScheme,
    /// A client opens no more streams, whatever the server accepts.
    streams_allowed: u32,
    queue_max: u32,
    /// Bytes that are framed at a time: framed bytes cannot be overtaken.
    fill_size: u32,
    /// Bytes sent from here that wait in the layer below.
    below: u32,
    /// The time of the last sweep.
    swept: u64,
    /// Bytes of the connection that were sent.
    sent: u64,
    /// The streams with unsent bytes that ended with the connection.
    lost: Vec<LostStream>,
    side: PhantomData<S>,
}

/// What was unsent of a stream that ended with its connection.
#[derive(Clone, Copy, Debug)]
struct LostStream {
    id: StreamId,
    /// Bytes that were not framed.
    queued: u64,
    /// As [`Stream::framed`].
    framed: u64,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Open,
    /// Nothing more is parsed. So many bytes are drained until the peer closes.
    Discard(u32),
    Closed,
}

/// How far the end of the connection is (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    None,
    /// GOAWAY was sent with the largest id, and a PING behind it: streams that the peer opened
    /// before it received GOAWAY are still accepted. So many, as a peer may never acknowledge PING.
    Announced(u32),
    /// GOAWAY was sent with the id of the last accepted stream.
    Final,
}

/// The fields of [`Event::Reset`].
#[derive(Clone, Copy, Debug)]
struct StreamReset {
    stream: StreamId,
    code: ErrorCode,
    unsent: u64,
    cause: Option<PeerError>,
}

/// An event that needs no more input.
#[derive(Clone, Copy, Debug)]
enum PendingEvent {
    End(StreamId),
    Writable(StreamId),
    Reset(StreamReset),
    Upgraded(StreamId),
    /// The stream is held no longer: its parked data are delivered.
    Continue(StreamId),
}

impl<S: Side> Default for H2<S> {
    fn default() -> Self {
        Self::new(Http2Limits::of_side::<S>())
    }
}

impl<S: Side> H2<S> {
    pub(crate) fn new(limits: Http2Limits) -> Self {
        let mut connection = Self {
            state: ConnectionState::Open,
            incoming: if S::SERVER { Incoming::Preface } else { Incoming::Settings },
            streams: StreamTable::default(),
            reset_streams: ResetStreams::default(),
            refused: Vec::new(),
            events: VecDeque::new(),
            outbox: Outbox::default(),
            has_shares: false,
            sends_messages: false,
            decoder: hpack::HpackDecoder::new(settings::TABLE_SIZE),
            encoder: hpack::HpackEncoder::new(),
            peer: PeerSettings::default(),
            send_window: SendWindow::new(WINDOW_DEFAULT),
            recv_window: RecvWindow::new(limits.window),
            limits,
            budget: PeerBudget::new(&limits),
            last_received: StreamId(0),
            skipped: (StreamId(0), StreamId(0)),
            next_opened: StreamId(1),
            shutdown: Shutdown::None,
            peer_shutdown: None,
            pings: 0,
            pinged: 0,
            eof: false,
            scheme: UrlScheme::Http,
            streams_allowed: STREAMS_OPENED_MAX,
            queue_max: QUEUE_MAX,
            fill_size: send::FILL_SIZE_FIRST,
            below: 0,
            swept: 0,
            sent: 0,
            lost: Vec::new(),
            side: PhantomData,
        };
        settings::queue_preface::<S>(&mut connection.outbox, &limits);
        connection
    }

    /// Body bytes that may be queued in all; each of many streams has a share of it. By default
    /// [`QUEUE_MAX`].
    pub fn set_queue_max(&mut self, bytes: u32) {
        self.queue_max = bytes;
    }

    /// Resets a stream in the middle of a message: the peer does not take it for complete.
    pub fn cut_off(&mut self, stream: StreamId) {
        self.reset(stream, Reset::Internal);
    }

    /// Streams that are not closed.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Resets streams that wait for the peer; unless `all`, only those that have not moved since
    /// the last call.
    fn reset_stalled(&mut self, all: bool) {
        // Other streams have deadlines of their own, or their application has. With tunnels only,
        // the span is the timeout of tunnels.
        let with_tunnels = self.has_tunnels_only();
        let mut at = 0;
        while let Some(slot) = self.streams.nth(at) {
            let stream = &mut self.streams[slot];
            let is_stalled = stream.awaits_input(self.recv_window)
                || stream.awaits_window(self.send_window)
                || (with_tunnels && stream.is_tunnel());
            // A stream that does not wait for the peer counts as moved: the time of the peer begins
            // later.
            let has_moved = std::mem::replace(&mut stream.moved, !is_stalled);
            match is_stalled && (all || !has_moved) {
                true => self.fail_stream(slot, ErrorCode::Cancel, None),
                false => at += 1,
            }
        }
    }

    fn has_tunnels_only(&self) -> bool {
        self.streams.iter().all(|stream| stream.is_tunnel())
    }

    /// Resets all streams but one, as far as they are open.
    pub(crate) fn reset_others(&mut self, kept: StreamId) {
        let mut at = 0;
        while let Some(slot) = self.streams.nth(at) {
            match self.streams[slot].id == kept {
                true => at += 1,
                false => self.fail_stream(slot, ErrorCode::InternalError, None),
            }
        }
    }

    /// The share of one stream in the queued bytes.
    fn queue_share(&self) -> u64 {
        let streams = u32::try_from(self.streams.len()).unwrap_or(u32::MAX).max(1);
        (self.queue_max / streams).max(QUEUE_SHARE_MIN).into()
    }

    /// Frees what an idle connection can do without.
    fn release_memory(&mut self) {
        self.encoder.release_memory(ENCODER_KEPT_MAX);
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// Returns received bytes to the connection's window.
    fn consume(&mut self, bytes: u32) {
        if let Some(increment) = self.recv_window.consume(bytes) {
            frame::queue_number(&mut self.outbox, kind::WINDOW_UPDATE, 0, increment);
        }
    }

    /// Returns released bytes to the windows of the stream and, on a server, of the connection.
    fn consume_of(&mut self, slot: StreamSlot, bytes: u32) {
        if S::SERVER {
            self.consume(bytes);
        }
        let stream = &mut self.streams[slot];
        // No byte follows the end of a message.
        if stream.recv == RecvHalf::Ended || !stream.may_continue::<S>(bytes) {
            return;
        }
        if let Some(increment) = stream.recv_window.consume(bytes) {
            let id = stream.id.0;
            frame::queue_number(&mut self.outbox, kind::WINDOW_UPDATE, id, increment);
        }
    }

    /// Server: more is queued for the socket than bodies could be, so the peer sends requests or
    /// control frames and does not read. Nothing is parsed until it does.
    fn is_backlogged(&self) -> bool {
        S::SERVER && self.state == ConnectionState::Open && self.unsent_memory() >= BACKLOG_SIZE_MAX
    }

    /// Bytes of memory that wait to be sent, here and in a layer below.
    fn unsent_memory(&self) -> u64 {
        self.outbox.memory() + u64::from(self.below)
    }

    /// Queues the acknowledgement of a frame. A client reads in any case: if both sides waited
    /// for the other to read, they would wait for ever.
    fn queue_ack(&mut self, kind: u8, payload: &[u8]) -> Result<(), ErrorCode> {
        if self.unsent_memory() >= ACK_BACKLOG_MAX {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        frame::queue(&mut self.outbox, kind, flag::ACK, 0, payload);
        Ok(())
    }

    /// Closes a stream if both of its messages are complete, or nothing more of them is wanted.
    fn close_if_done(&mut self, slot: StreamSlot) {
        let stream = &self.streams[slot];
        match (stream.recv, stream.send) {
            (RecvHalf::Ended, SendHalf::Ended) if S::SERVER || stream.parked.is_empty() => {
                self.remove(slot);
            }
            // The response came before the end of the request, whose rest has no use.
            (RecvHalf::Ended, SendHalf::Body(_) | SendHalf::Queued)
                if !S::SERVER && !stream.is_tunnel() && stream.parked.is_empty() =>
            {
                self.reset_slot(slot, ErrorCode::Cancel);
            }
            // Some of the request is drained, so that a client that sends it receives the response
            // before the reset (RFC 9113 §8.1): curl reports a reset instead.
            (RecvHalf::Body(_), SendHalf::Ended)
                if S::SERVER && !stream.is_tunnel() && stream.recv_window.available() == 0 =>
            {
                self.reset_slot(slot, ErrorCode::NoError);
            }
            _ => {}
        }
    }

    /// Resets a stream without an event: its owner needs none.
    fn reset_slot(&mut self, slot: StreamSlot, code: ErrorCode) {
        let Stream { id, send, .. } = self.streams[slot];
        // The server does not know of a stream whose request has not begun.
        if S::SERVER || send != SendHalf::Head {
            frame::queue_number(&mut self.outbox, kind::RST_STREAM, id.0, code.code());
            self.reset_streams.note(id);
        }
        self.remove(slot);
    }

    /// Resets a stream; its owner receives an event.
    fn fail_stream(&mut self, slot: StreamSlot, code: ErrorCode, cause: Option<PeerError>) {
        let recv = self.streams[slot].recv;
        let reset = self.streams[slot].as_reset(code, cause);
        self.reset_slot(slot, code);
        // A server's owner has not received anything of a stream without a head.
        if !S::SERVER || recv != RecvHalf::Head {
            self.events.push_back(PendingEvent::Reset(reset));
        }
    }

    /// Removes a closed stream, and returns its bytes to the connection's window.
    fn remove(&mut self, slot: StreamSlot) {
        let stream = self.streams.remove(slot);
        if stream.watched && stream.send != SendHalf::Ended && stream.queue.is_empty() {
            let unsent = stream.framed.saturating_sub(self.sent);
            self.outbox.mark(stream.id, unsent.min(self.outbox.size()));
        }
        if S::SERVER {
            self.consume(stream.unreleased);
        }
        self.finish_if_idle();
    }

    /// Ends the connection once its last stream is closed and no other may be opened.
    fn finish_if_idle(&mut self) {
        let is_exhausted = !S::SERVER && self.next_opened.0 >= frame::ID_MAX;
        let is_ending = self.shutdown == Shutdown::Final || self.peer_shutdown.is_some();
        let is_over = is_ending || self.eof || is_exhausted;
        if self.state == ConnectionState::Open && self.streams.is_empty() && is_over {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.queue_goaway(Shutdown::Final, ErrorCode::NoError);
        self.state = match S::SERVER && !self.eof {
            true => ConnectionState::Discard(LINGER_SIZE_MAX),
            false => ConnectionState::Closed,
        };
    }

    /// Queues GOAWAY, unless the same was sent.
    fn queue_goaway(&mut self, shutdown: Shutdown, code: ErrorCode) {
        if self.shutdown == shutdown && code == ErrorCode::NoError {
            return;
        }
        self.shutdown = shutdown;
        let last = match shutdown {
            Shutdown::Announced(_) => frame::ID_MAX,
            Shutdown::None | Shutdown::Final => self.last_received.0,
        };
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&code.code().to_be_bytes());
        frame::queue(&mut self.outbox, kind::GOAWAY, 0, 0, &payload);
    }

    /// The peer broke the protocol: the connection ends without its streams (RFC 9113 §5.4.1).
    fn fail(&mut self, code: ErrorCode) -> PeerError {
        self.drop_streams();
        self.queue_goaway(Shutdown::Final, code);
        self.state = match S::SERVER {
            true => ConnectionState::Discard(LINGER_SIZE_MAX),
            false => ConnectionState::Closed,
        };
        PeerError::Http2(code)
    }

    /// Ends all streams with the connection. Their unsent bytes remain known.
    fn drop_streams(&mut self) {
        let streams = std::mem::take(&mut self.streams);
        let lost = streams.iter().map(|stream| LostStream {
            id: stream.id,
            queued: stream.queue.size(),
            framed: stream.framed,
        });
        let sent = self.sent;
        self.lost = lost.filter(|lost| lost.queued > 0 || lost.framed > sent).collect();
        self.events = VecDeque::new();
    }

    fn find_lost(&self, stream: StreamId) -> Option<LostStream> {
        self.lost.iter().copied().find(|lost| lost.id == stream)
    }

    fn phase(&self, wants_write: bool) -> Phase {
        let any = |is: &dyn Fn(&Stream) -> bool| self.streams.iter().any(is);
        let awaits_window = |stream: &Stream| stream.awaits_window(self.send_window);
        let awaits_input = |stream: &Stream| stream.awaits_input(self.recv_window);
        match self.state {
            ConnectionState::Discard(_) | ConnectionState::Closed if wants_write => Phase::Send,
            ConnectionState::Discard(_) | ConnectionState::Closed => Phase::Linger,
            ConnectionState::Open if self.sends_messages || self.can_fill() => Phase::Send,
            ConnectionState::Open if S::SERVER && self.incoming.is_head() => Phase::Head,
            ConnectionState::Open if self.streams.is_empty() && self.shutdown != Shutdown::None => {
                Phase::Linger
            }
            ConnectionState::Open if self.streams.is_empty() => Phase::Idle,
            ConnectionState::Open if any(&awaits_input) => match S::SERVER {
                true => Phase::Body,
                false => Phase::Response,
            },
            ConnectionState::Open if any(&awaits_window) => Phase::Send,
            ConnectionState::Open if self.has_tunnels_only() => Phase::Tunnel,
            ConnectionState::Open => Phase::Application,
        }
    }
}

impl H2<Server> {
    /// A connection with other limits than the default.
    ///
    /// # Panics
    /// A limit is out of its range.
    pub fn with_limits(limits: Http2Limits) -> Self {
        limits.assert_valid();
        Self::new(limits)
    }

    /// True until the head of the first request is complete.
    pub fn is_new(&self) -> bool {
        self.last_received == StreamId(0)
    }

    /// As [`crate::ServerConnection::watch_sent`].
    pub(crate) fn watch_sent(&mut self, stream: StreamId) {
        match self.streams.get_mut(stream) {
            Some(it) if it.send != SendHalf::Ended => it.watched = true,
            _ => self.outbox.mark(stream, self.outbox.size()),
        }
    }

    /// As [`crate::ServerConnection::has_sent`].
    pub(crate) fn has_sent(&self) -> bool {
        self.outbox.has_passed_mark()
    }

    /// As [`crate::ServerConnection::poll_sent`].
    pub(crate) fn poll_sent(&mut self) -> Option<StreamId> {
        self.outbox.poll_marked()
    }

    /// As [`crate::ServerConnection::unsent_message`].
    pub(crate) fn unsent_message(&self, stream: StreamId) -> u64 {
        if let Some(unsent) = self.outbox.unsent_before_mark(stream) {
            return unsent;
        }
        let (queued, framed) = match (self.streams.find(stream), self.find_lost(stream)) {
            (Some(slot), _) => (self.streams[slot].queue.size(), self.streams[slot].framed),
            (None, Some(lost)) => (lost.queued, lost.framed),
            (None, None) => (0, 0),
        };
        queued + framed.saturating_sub(self.sent)
    }

    /// Why requests were refused that the owner has not received, since the last call. The budget
    /// of the peer limits their number.
    pub fn take_refused(&mut self) -> Vec<PeerError> {
        std::mem::take(&mut self.refused)
    }

    /// True if a response with this status makes a tunnel of the stream (RFC 9113 §8.5).
    pub fn makes_tunnel(&self, stream: StreamId, status: u16) -> bool {
        let found = self.streams.find(stream);
        found.is_some_and(|slot| self.streams[slot].is_connect()) && (200..300).contains(&status)
    }

    /// True if the peer may be waiting for a 100 before it sends the body of this request.
    pub fn expects_continue(&self, stream: StreamId) -> bool {
        let found = self.streams.find(stream);
        found.is_some_and(|slot| self.streams[slot].expects_continue)
    }
}

impl H2<crate::event::Client> {
    /// A connection whose receive windows, and those of its streams, have this size: 64 KB to
    /// 2 GB less a byte. For an owner that does not keep what it receives.
    ///
    /// # Panics
    /// It is another size.
    pub fn with_window(size: u32) -> Self {
        assert!((WINDOW_SIZE_MIN..=frame::ID_MAX).contains(&size), "a window of 64 KB to 2 GB");
        Self::new(Http2Limits { stream_window: size, window: size, ..Http2Limits::default() })
    }

    /// The number of streams that the server accepts at a time; `None` before its SETTINGS. Without
    /// a limit it is `u32::MAX`.
    pub fn peer_streams_max(&self) -> Option<u32> {
        (self.incoming != Incoming::Settings).then_some(self.peer.streams_max)
    }

    /// Set once the server has ended its side while a whole response was held: an [`Event::Reset`]
    /// of another stream comes from this end of the connection, and has this reason.
    pub fn eof_error(&self) -> Option<PeerError> {
        self.eof.then(|| self.lost_error())
    }

    /// The limit of streams until the server's SETTINGS arrive, as another connection has learned
    /// it. By default 100.
    pub fn set_streams_expected(&mut self, max: u32) {
        if self.incoming == Incoming::Settings {
            self.peer.streams_max = max;
        }
    }

    /// How many streams are open at a time, at most, whatever the server accepts: 1 to 65,535.
    pub fn set_streams_allowed(&mut self, max: u32) {
        self.streams_allowed = max.clamp(1, STREAMS_OPENED_MAX);
    }

    /// The `:scheme` of requests; by default `http`.
    pub fn set_scheme(&mut self, scheme: UrlScheme) {
        self.scheme = scheme;
    }
}

impl<S: Side> Connection for H2<S> {
    type Role = S;

    fn poll_event<'a>(
        &mut self,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Event<'a, S>>, PeerError> {
        let step = self.poll_step(input, scratch)?;
        Ok(step.map(|step| step.into_event(scratch)))
    }

    fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    fn release(&mut self, stream: StreamId, bytes: usize) {
        // A closed stream has returned its bytes.
        let Some(slot) = self.streams.find(stream) else { return };
        let unreleased = &mut self.streams[slot].unreleased;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(*unreleased);
        *unreleased -= bytes;
        self.consume_of(slot, bytes);
    }

    fn vacancy(&self) -> u32 {
        let open = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        let left = (frame::ID_MAX - self.next_opened.0.min(frame::ID_MAX)) / 2;
        match self.state {
            ConnectionState::Open
                if !S::SERVER
                    && self.shutdown == Shutdown::None
                    && self.peer_shutdown.is_none()
                    && !self.eof =>
            {
                self.peer.streams_max.min(self.streams_allowed).saturating_sub(open).min(left)
            }
            ConnectionState::Open | ConnectionState::Discard(_) | ConnectionState::Closed => 0,
        }
    }

    fn open(&mut self) -> Option<StreamId> {
        if self.vacancy() == 0 {
            return None;
        }
        let id = self.next_opened;
        self.next_opened = StreamId(id.0 + 2);
        self.streams.insert(self.new_stream(id));
        Some(id)
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

    fn reset(&mut self, stream: StreamId, reason: Reset) {
        let code = match reason {
            Reset::Cancelled => ErrorCode::Cancel,
            Reset::Internal => ErrorCode::InternalError,
            Reset::Refused => ErrorCode::RefusedStream,
        };
        if let Some(slot) = self.streams.find(stream) {
            self.fail_stream(slot, code, None);
        }
    }

    fn set_held(&mut self, stream: StreamId, held: bool) {
        let Some(it) = self.streams.get_mut(stream) else { return };
        it.held = held;
        if !held && !it.awaits_tunnel() && !it.parked.is_empty() {
            self.events.push_back(PendingEvent::Continue(stream));
        }
    }

    fn unsent(&self, stream: StreamId) -> u64 {
        let queued = match self.streams.find(stream) {
            Some(slot) => self.streams[slot].queue.size(),
            None => self.find_lost(stream).map_or(0, |lost| lost.queued),
        };
        queued + self.outbox.size()
    }

    fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// A server's connection ends after a round trip, in which requests that are on their way
    /// arrive. Later ones are not processed, and can be repeated.
    fn close_after(&mut self) {
        if self.state != ConnectionState::Open || self.shutdown != Shutdown::None {
            return;
        }
        if S::SERVER && self.incoming != Incoming::Preface {
            self.queue_goaway(Shutdown::Announced(self.limits.streams_max), ErrorCode::NoError);
            frame::queue(&mut self.outbox, kind::PING, 0, 0, &SHUTDOWN_PING);
            return;
        }
        self.queue_goaway(Shutdown::Final, ErrorCode::NoError);
        self.finish_if_idle();
    }

    fn ping(&mut self, now: u64, span: u64) -> bool {
        now.saturating_sub(self.pinged) > span && self.queue_ping(now)
    }

    fn handle_late(&mut self) -> bool {
        let is_ended = S::SERVER && self.state == ConnectionState::Open;
        if is_ended {
            self.drop_streams();
            self.finish();
        }
        is_ended
    }

    /// A stream that stalls is reset after one to two spans.
    fn sweep(&mut self, now: u64, span: u64, is_late: bool) -> u64 {
        if self.streams.is_empty() {
            return u64::MAX;
        }
        if is_late || now >= self.swept.saturating_add(span) {
            self.swept = now;
            self.budget.note_sweep(&self.limits);
            self.reset_stalled(is_late);
        }
        self.swept.saturating_add(span)
    }

    fn room(&self, stream: StreamId) -> u64 {
        let Some(slot) = self.streams.find(stream) else { return 0 };
        let stream = &self.streams[slot];
        match stream.send {
            // More streams may have made the share smaller: no `Writable` would follow.
            SendHalf::Body(_) if !stream.is_full => {
                self.queue_share().saturating_sub(stream.queue.size()).max(ROOM_MIN)
            }
            SendHalf::Body(_) | SendHalf::Head | SendHalf::Queued | SendHalf::Ended => 0,
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.fill();
        self.outbox.transmit().map(|transmit| Transmit { is_framed: true, ..transmit })
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
        self.sent += bytes;
        self.adapt_fill(bytes);
        self.unshare();
        self.sends_messages &= !self.outbox.is_empty();
        if self.streams.is_empty() && self.outbox.is_empty() {
            self.release_memory();
        }
    }

    fn handle_layer_queue(&mut self, bytes: u64) {
        self.below = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    fn expects_no_more_requests(&self) -> bool {
        S::SERVER && self.peer_shutdown.is_some()
    }

    fn io_state(&self) -> IoState {
        let wants_write = !self.outbox.is_empty() || self.can_fill();
        let over = self.state != ConnectionState::Open;
        let is_drained =
            matches!(self.state, ConnectionState::Closed | ConnectionState::Discard(0));
        IoState {
            phase: self.phase(wants_write),
            wants_write,
            wants_read: !is_drained && !self.eof && !self.is_backlogged(),
            finished: over,
            closed: is_drained && !wants_write,
        }
    }
}

/// The least window that [`H2::with_window`] accepts: more than the one that needs no announcement.
const WINDOW_SIZE_MIN: u32 = 64 * 1024;
/// Streams of a client, unless its owner allows fewer.
const STREAMS_OPENED_MAX: u32 = u16::MAX as u32;
/// The memory that the table of an idle connection's encoder may keep: that of some short fields,
/// such as each response has. A larger one is filled again by the next responses.
const ENCODER_KEPT_MAX: usize = 256;
/// Unsent bytes in memory with which a server stops to parse, and with which acknowledgements end
/// the connection of a client.
const BACKLOG_SIZE_MAX: u64 = 256 * 1024;
const ACK_BACKLOG_MAX: u64 = 1024 * 1024;
/// The least that each stream may queue, however many there are.
const QUEUE_SHARE_MIN: u32 = 8 * 1024;
/// The least that is offered to a sender that may continue.
const ROOM_MIN: u64 = 1024;
/// A PING behind GOAWAY, whose acknowledgement shows that the peer has received both.
const SHUTDOWN_PING: [u8; 8] = *b"shutdown";
/// Part of its share at which a stream has room again.
const ROOM_SHARE: u64 = 4;
/// The size of heads that we accept: SETTINGS_MAX_HEADER_LIST_SIZE.
const HEADER_LIST_SIZE_MAX: usize = HEAD_SIZE_MAX;
