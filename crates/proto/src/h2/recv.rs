//! Receiving: frames, header blocks, data.

use bytes::Bytes;

use crate::body_len::BodyLen;
use crate::error_code::ErrorCode;
use crate::errors::PeerError;
use crate::event::{Event, StreamId};
use crate::fields::HeaderBuf;
use crate::head::{FieldOrigin, Header, Headers, Scratch};
use crate::input::Input;
use crate::side::{Head, Side};

use super::frame::{self, FrameHeader, PREFACE, flag, kind};
use super::limits::{PROGRESS_SIZE_MIN, price};
use super::message::FieldSection;
use super::settings;
use super::stream::{ParkedPart, RecvHalf, SendHalf, Stream};
use super::table::StreamSlot;
use super::{ConnectionState, H2, PendingEvent, Shutdown, StreamReset};

/// What arrives next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// Server: the preface of the client.
    Preface,
    /// The first SETTINGS.
    Settings,
    Frame,
    /// The rest of a DATA frame.
    Data(DataFrame),
    /// The rest of a header block.
    Block(Box<HeaderBlock>),
}

impl Incoming {
    /// True if the peer has begun a head or its side of the connection.
    pub(super) fn is_head(&self) -> bool {
        matches!(self, Self::Preface | Self::Settings | Self::Block(_))
    }
}

/// The rest of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataFrame {
    stream: StreamId,
    data: usize,
    padding: usize,
    end_stream: bool,
}

/// The first parts of a header block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeaderBlock {
    pub(super) header: FrameHeader,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

/// An event whose head is still in the scratch.
#[derive(Debug)]
pub(super) enum ScratchEvent {
    Request {
        stream: StreamId,
        section: FieldSection,
        len: BodyLen,
        waits: bool,
    },
    Response {
        stream: StreamId,
        section: FieldSection,
        len: BodyLen,
    },
    Informational {
        stream: StreamId,
        section: FieldSection,
    },
    Data {
        stream: StreamId,
        bytes: Bytes,
    },
    /// The end of a message; trailers are in the scratch.
    Trailers {
        stream: StreamId,
    },
    End {
        stream: StreamId,
    },
    Writable {
        stream: StreamId,
    },
    Reset(StreamReset),
    Upgraded {
        stream: StreamId,
    },
}

impl ScratchEvent {
    /// The head of a response; an interim one has no length.
    pub(super) fn of_response(
        stream: StreamId,
        section: FieldSection,
        len: Option<BodyLen>,
    ) -> Self {
        match len {
            Some(len) => Self::Response { stream, section, len },
            None => Self::Informational { stream, section },
        }
    }

    pub(super) fn into_event<S: Side>(self, scratch: &Scratch) -> Event<'_, S> {
        match self {
            Self::Request { stream, section, len, waits } => {
                let head = Head::Request(section.request(scratch, waits));
                Event::Head { stream, head: S::received(head), len }
            }
            Self::Response { stream, section, len } => {
                let head = Head::Response(section.response(scratch));
                Event::Head { stream, head: S::received(head), len }
            }
            Self::Informational { stream, section } => {
                Event::Informational { stream, head: section.response(scratch) }
            }
            Self::Data { stream, bytes } => Event::Data { stream, bytes },
            Self::Trailers { stream } => Event::End { stream, trailers: scratch.headers() },
            Self::End { stream } => Event::End { stream, trailers: Headers::EMPTY },
            Self::Writable { stream } => Event::Writable { stream },
            Self::Reset(StreamReset { stream, code, unsent, cause }) => {
                Event::Reset { stream, code, unsent, cause }
            }
            Self::Upgraded { stream } => Event::Upgraded { stream },
        }
    }
}

/// The result of a parsed frame: the code of a connection error, or an event, if it makes one.
pub(super) type Parsed = Result<Option<ScratchEvent>, ErrorCode>;

impl<S: Side> H2<S> {
    pub(super) fn poll_step(
        &mut self,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<ScratchEvent>, PeerError> {
        loop {
            if let Some(step) = self.poll_pending(scratch) {
                return Ok(Some(step));
            }
            if self.state != ConnectionState::Open || self.eof {
                self.drain(input);
                return Ok(None);
            }
            if self.is_backlogged() {
                return Ok(None);
            }
            let before = input.len();
            match self.parse_next(input, scratch) {
                Ok(Some(step)) => return Ok(Some(step)),
                Ok(None) if input.len() < before || self.has_pending() => {}
                Ok(None) if input.has_eof() => self.end_input(input)?,
                Ok(None) => return Ok(None),
                Err(_) if self.awaits_settings() && input.bytes().starts_with(b"HTTP/1.") => {
                    self.fail(ErrorCode::Http11Required);
                    return Err(PeerError::NotHttp2);
                }
                Err(code) => return Err(self.fail(code)),
            }
        }
    }

    fn has_pending(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event that needs no input.
    fn poll_pending(&mut self, scratch: &mut Scratch) -> Option<ScratchEvent> {
        while let Some(pending) = self.events.pop_front() {
            let step = match pending {
                PendingEvent::End(stream) => self.poll_end(stream),
                PendingEvent::Reset(reset) => Some(ScratchEvent::Reset(reset)),
                PendingEvent::Upgraded(stream) => Some(ScratchEvent::Upgraded { stream }),
                PendingEvent::Writable(stream) => {
                    self.streams.find(stream).map(|_| ScratchEvent::Writable { stream })
                }
                PendingEvent::Continue(stream) => self.poll_parked(stream, scratch),
            };
            if step.is_some() {
                return step;
            }
        }
        None
    }

    /// The end of a message, which waits if the application holds the stream since its last bytes.
    fn poll_end(&mut self, id: StreamId) -> Option<ScratchEvent> {
        match self.streams.get_mut(id) {
            Some(stream) if stream.held && !stream.is_connect() => {
                stream.parked.end = Some(None);
                None
            }
            _ => Some(ScratchEvent::End { stream: id }),
        }
    }

    /// The next part of a message that arrived while its stream was held.
    fn poll_parked(&mut self, id: StreamId, scratch: &mut Scratch) -> Option<ScratchEvent> {
        let slot = self.streams.find(id)?;
        let stream = &mut self.streams[slot];
        if stream.held || stream.awaits_tunnel() {
            return None;
        }
        if let Some(part) = stream.parked.pop() {
            if !stream.parked.is_empty() {
                self.events.push_front(PendingEvent::Continue(id));
            }
            return Some(match part {
                ParkedPart::Data(bytes) => ScratchEvent::Data { stream: id, bytes },
                ParkedPart::Head(head) => {
                    if stream.is_tunnel() && head.len.is_some() {
                        self.events.push_front(PendingEvent::Upgraded(id));
                    }
                    *scratch = head.scratch;
                    ScratchEvent::of_response(id, head.section, head.len)
                }
            });
        }
        let trailers = stream.parked.end.take()?;
        self.close_if_done(slot);
        Some(match trailers {
            Some(trailers) => {
                copy_fields(&trailers, scratch);
                ScratchEvent::Trailers { stream: id }
            }
            None => ScratchEvent::End { stream: id },
        })
    }

    /// Client: nothing of the server has been parsed.
    fn awaits_settings(&self) -> bool {
        !S::SERVER && self.incoming == Incoming::Settings
    }

    /// Drops input that is not parsed any more.
    fn drain(&mut self, input: &mut Input<'_>) {
        if let ConnectionState::Discard(left) = &mut self.state {
            *left = left.saturating_sub(u32::try_from(input.len()).unwrap_or(u32::MAX));
        }
        input.clear();
        if input.has_eof() && self.state != ConnectionState::Open {
            self.state = ConnectionState::Closed;
        }
    }

    /// The peer has ended its side. A server completes the responses to whole requests, a client
    /// delivers whole responses that are held; the owner learns from [`H2::eof_error`] that its
    /// other streams were lost with the connection.
    fn end_input(&mut self, input: &mut Input<'_>) -> Result<(), PeerError> {
        input.clear();
        self.eof = true;
        let has_whole = self.streams.iter().any(|stream| stream.recv == RecvHalf::Ended);
        if !S::SERVER && !self.streams.is_empty() && !has_whole {
            let error = self.lost_error();
            self.fail(ErrorCode::NoError);
            return Err(error);
        }
        let mut at = 0;
        while let Some(slot) = self.streams.nth(at) {
            let stream = &self.streams[slot];
            match stream.recv {
                RecvHalf::Ended => at += 1,
                RecvHalf::Head | RecvHalf::Body(_) => {
                    let reset = stream.as_reset(ErrorCode::Cancel, None);
                    self.events.push_back(PendingEvent::Reset(reset));
                    self.remove(slot);
                }
            }
        }
        self.finish_if_idle();
        Ok(())
    }

    /// Why streams end without a response at the end of the input.
    pub(super) fn lost_error(&self) -> PeerError {
        match self.peer_shutdown {
            Some(code) => PeerError::Goaway(code),
            None => PeerError::UnexpectedEof,
        }
    }

    /// Parses the next frame, or the next part of one.
    fn parse_next(&mut self, input: &mut Input<'_>, scratch: &mut Scratch) -> Parsed {
        match &mut self.incoming {
            Incoming::Preface => self.parse_preface(input).map(|()| None),
            Incoming::Data(data) => {
                let data = *data;
                Ok(self.parse_data(data, input))
            }
            Incoming::Settings | Incoming::Frame | Incoming::Block(_) => {
                self.parse_frame(input, scratch)
            }
        }
    }

    fn parse_preface(&mut self, input: &mut Input<'_>) -> Result<(), ErrorCode> {
        let len = input.len().min(PREFACE.len());
        if input.bytes()[..len] != PREFACE[..len] {
            return Err(ErrorCode::ProtocolError);
        }
        if len == PREFACE.len() {
            input.skip(len);
            self.incoming = Incoming::Settings;
        }
        Ok(())
    }

    pub(super) fn parse_frame(&mut self, input: &mut Input<'_>, scratch: &mut Scratch) -> Parsed {
        let Some(header) = FrameHeader::parse(input.bytes()) else { return Ok(None) };
        if header.len > settings::FRAME_SIZE_MIN as usize {
            return Err(ErrorCode::FrameSizeError);
        }
        match &self.incoming {
            Incoming::Settings if header.kind != kind::SETTINGS => {
                return Err(ErrorCode::ProtocolError);
            }
            // Nothing may come between the frames of a header block (RFC 9113 §4.3).
            Incoming::Block(block)
                if header.kind != kind::CONTINUATION || header.stream != block.header.stream =>
            {
                return Err(ErrorCode::ProtocolError);
            }
            Incoming::Preface
            | Incoming::Settings
            | Incoming::Frame
            | Incoming::Data(_)
            | Incoming::Block(_) => {}
        }
        if header.kind == kind::DATA {
            return match self.parse_data_header(header, input)? {
                Some(data) => Ok(self.parse_data(data, input)),
                None => Ok(None),
            };
        }
        if input.len() < frame::HEADER_SIZE + header.len {
            return Ok(None);
        }
        let bytes = input.take(frame::HEADER_SIZE + header.len);
        let payload = frame::payload(&bytes);
        match header.kind {
            kind::HEADERS => self.handle_headers(header, payload, scratch),
            kind::CONTINUATION => self.handle_continuation(header, payload, scratch),
            _ => self.handle_control(header, payload).map(|()| None),
        }
    }

    /// The header of a DATA frame, with the length of its padding.
    fn parse_data_header(
        &mut self,
        header: FrameHeader,
        input: &mut Input<'_>,
    ) -> Result<Option<DataFrame>, ErrorCode> {
        let prefix = usize::from(header.has(flag::PADDED));
        if header.len < prefix {
            return Err(ErrorCode::FrameSizeError);
        }
        if input.len() < frame::HEADER_SIZE + prefix {
            return Ok(None);
        }
        let padding = match prefix {
            0 => 0,
            _ => usize::from(input.bytes()[frame::HEADER_SIZE]),
        };
        let id = StreamId(header.stream);
        if id == StreamId(0) || self.is_idle(id) || prefix + padding > header.len {
            return Err(ErrorCode::ProtocolError);
        }
        input.skip(frame::HEADER_SIZE + prefix);
        let len = u32::try_from(header.len).expect("24 bits");
        self.recv_window.receive(len)?;
        let end_stream = header.has(flag::END_STREAM);
        let data = header.len - prefix - padding;
        if data == 0 && !end_stream {
            self.budget.spend(price::EMPTY_DATA)?;
        }
        self.note_data(id, len, data, end_stream)?;
        let overhead = u32::try_from(prefix + padding).expect("at most 256");
        let slot = self.streams.find(id);
        if let Some(slot) = slot {
            self.consume_of(slot, overhead);
        }
        if !S::SERVER || slot.is_none() {
            self.consume(overhead);
        }
        Ok(Some(DataFrame { stream: id, data, padding, end_stream }))
    }

    /// Checks a DATA frame against the state, the window and the declared length of its stream.
    fn note_data(
        &mut self,
        id: StreamId,
        len: u32,
        data: usize,
        end_stream: bool,
    ) -> Result<(), ErrorCode> {
        let Some(slot) = self.streams.find(id) else { return self.note_closed(id, data) };
        let stream = &mut self.streams[slot];
        stream.moved |= data > 0;
        let in_window = stream.recv_window.receive(len);
        let fault = match &mut stream.recv {
            RecvHalf::Ended => return self.break_stream(slot, ErrorCode::StreamClosed),
            RecvHalf::Head => return self.break_stream(slot, ErrorCode::ProtocolError),
            RecvHalf::Body(_) if let Err(code) = in_window => return self.break_stream(slot, code),
            RecvHalf::Body(None) => None,
            RecvHalf::Body(Some(left)) => match left.checked_sub(data as u64) {
                Some(rest) if rest == 0 || !end_stream => {
                    *left = rest;
                    None
                }
                Some(_) => Some(PeerError::BodyTooShort),
                None => Some(PeerError::BodyTooLong),
            },
        };
        match fault {
            Some(cause) => self.fail_message(slot, ErrorCode::ProtocolError, cause),
            None => {
                stream.expects_continue &= data == 0;
                self.budget.note_progress(&self.limits, data > 0);
                Ok(())
            }
        }
    }

    /// A frame of a closed stream. One that this side has reset is expected; of others the peer
    /// knows that they are closed (RFC 9113 §5.1).
    pub(super) fn note_closed(&mut self, id: StreamId, data: usize) -> Result<(), ErrorCode> {
        if self.reset_streams.contains(id) || self.is_ignored(id) {
            // Whole windows of data may be on their way.
            let is_small = (data as u64) < PROGRESS_SIZE_MIN;
            return self.budget.spend(u32::from(is_small) * price::SMALL);
        }
        self.budget.spend(price::HEADERS)?;
        let code = ErrorCode::StreamClosed.code();
        frame::queue_number(&mut self.outbox, kind::RST_STREAM, id.0, code);
        self.reset_streams.note(id);
        Ok(())
    }

    /// True if the stream was opened behind our last GOAWAY.
    pub(super) fn is_ignored(&self, id: StreamId) -> bool {
        S::SERVER && self.shutdown == Shutdown::Final && id > self.last_received
    }

    /// The next bytes of a DATA frame.
    fn parse_data(&mut self, mut data: DataFrame, input: &mut Input<'_>) -> Option<ScratchEvent> {
        let len = data.data.min(input.len());
        let slot = self.streams.find(data.stream);
        let step = match slot {
            _ if len == 0 => None,
            Some(slot) => self.take_data(slot, len, input),
            None => {
                input.skip(len);
                self.consume(len_of(len));
                None
            }
        };
        data.data -= len;
        if data.data == 0 {
            let padding = data.padding.min(input.len());
            input.skip(padding);
            data.padding -= padding;
        }
        let is_whole = data.data == 0 && data.padding == 0;
        self.incoming = if is_whole { Incoming::Frame } else { Incoming::Data(data) };
        if is_whole && let Some(slot) = self.streams.find(data.stream) {
            match data.end_stream {
                true => self.end_received(slot),
                false => self.close_if_done(slot),
            }
        }
        step
    }

    /// Takes body bytes of an open stream from the input.
    fn take_data(
        &mut self,
        slot: StreamSlot,
        len: usize,
        input: &mut Input<'_>,
    ) -> Option<ScratchEvent> {
        let stream = &mut self.streams[slot];
        if S::SERVER && stream.drains_request() {
            input.skip(len);
            self.consume_of(slot, len_of(len));
            return None;
        }
        stream.unreleased += len_of(len);
        let bytes = input.take(len);
        let step = match stream.parks() {
            true => {
                stream.parked.push(&bytes);
                None
            }
            false => Some(ScratchEvent::Data { stream: stream.id, bytes }),
        };
        if !S::SERVER {
            self.consume(len_of(len));
        }
        step
    }

    /// END_STREAM has arrived.
    pub(super) fn end_received(&mut self, slot: StreamSlot) {
        let stream = &mut self.streams[slot];
        stream.recv = RecvHalf::Ended;
        if S::SERVER && stream.drains_request() {
            // No event: bytes of the message were dropped.
            return self.close_if_done(slot);
        }
        let id = stream.id;
        if !S::SERVER || stream.parks() {
            // A client keeps the stream until the event is delivered: it may be held before.
            let was_empty = stream.parked.is_empty();
            stream.parked.end = Some(None);
            if was_empty && !stream.held && !stream.awaits_tunnel() {
                self.events.push_back(PendingEvent::Continue(id));
            }
        } else {
            self.events.push_back(PendingEvent::End(id));
        }
        self.close_if_done(slot);
    }

    /// The peer broke the rules of a stream.
    pub(super) fn break_stream(
        &mut self,
        slot: StreamSlot,
        code: ErrorCode,
    ) -> Result<(), ErrorCode> {
        self.fail_message(slot, code, PeerError::Http2Stream(code))
    }

    /// A stream error because of the peer's message. It costs as much as a reset by the peer itself
    /// (CVE-2025-8671).
    pub(super) fn fail_message(
        &mut self,
        slot: StreamSlot,
        code: ErrorCode,
        cause: PeerError,
    ) -> Result<(), ErrorCode> {
        if S::SERVER {
            self.budget.spend_reset()?;
        }
        self.fail_stream(slot, code, Some(cause));
        Ok(())
    }

    /// True if the stream was never opened (RFC 9113 §5.1).
    pub(super) fn is_idle(&self, id: StreamId) -> bool {
        match S::SERVER {
            _ if id.0.is_multiple_of(2) => true,
            true => id > self.last_received && !self.is_ignored(id),
            false => id >= self.next_opened || self.is_unsent(id),
        }
    }

    /// Client: true if the stream is open here only, without the head of its request.
    pub(super) fn is_unsent(&self, id: StreamId) -> bool {
        let found = self.streams.find(id);
        found.is_some_and(|slot| self.streams[slot].send == SendHalf::Head)
    }

    pub(super) fn new_stream(&self, id: StreamId) -> Stream {
        Stream::new(id, self.limits.stream_window, self.peer.window)
    }
}

/// Copies kept trailers to where received ones are.
fn copy_fields(fields: &HeaderBuf, scratch: &mut Scratch) {
    let Scratch { head, index, origin } = scratch;
    *origin = FieldOrigin::Decoded;
    head.clear();
    index.clear();
    let end = |head: &[u8]| u32::try_from(head.len()).expect("it was short when it arrived");
    for (name, value) in fields.iter() {
        let start = end(head);
        head.extend_from_slice(name);
        let name_end = end(head);
        head.extend_from_slice(value);
        index.push(Header { name: start..name_end, value: name_end..end(head), hop: false });
    }
}

/// The length of a part of a frame.
fn len_of(len: usize) -> u32 {
    u32::try_from(len).expect("a frame is limited")
}
