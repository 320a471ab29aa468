//! Header blocks: heads, interim responses and trailers (RFC 9113 §4.3, §8.1).

use crate::body_len::BodyLen;
use crate::error_code::ErrorCode;
use crate::errors::PeerError;
use crate::event::StreamId;
use crate::fields::HeaderBuf;
use crate::h1::INTERIM_LEN_MAX;
use crate::head::{Scratch, slice};
use crate::side::Side;

use super::frame::{self, FrameHeader, flag, kind};
use super::limits::price;
use super::message::{FieldSection, RequestRefusal};
use super::priority::{self, StreamPriority};
use super::recv::{HeaderBlock, Incoming, Parsed, ScratchEvent};
use super::stream::{RecvHalf, StreamPurpose};
use super::table::StreamSlot;
use super::{H2, HEADER_LIST_SIZE_MAX, PendingEvent, Shutdown};

impl<S: Side> H2<S> {
    pub(super) fn handle_headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        scratch: &mut Scratch,
    ) -> Parsed {
        let id = StreamId(header.stream);
        if id == StreamId(0) || (!S::SERVER && self.is_idle(id)) {
            return Err(ErrorCode::ProtocolError);
        }
        let mut block = frame::unpadded(header, payload)?;
        if header.has(flag::PRIORITY) {
            let (priority, rest) =
                block.split_first_chunk::<5>().ok_or(ErrorCode::FrameSizeError)?;
            priority::check_dependency(id, priority)?;
            block = rest;
        }
        if header.has(flag::END_HEADERS) {
            return self.handle_block(header, block, scratch);
        }
        let bytes = block.to_vec();
        self.incoming = Incoming::Block(Box::new(HeaderBlock { header, frames: 1, bytes }));
        Ok(None)
    }

    pub(super) fn handle_continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        scratch: &mut Scratch,
    ) -> Parsed {
        let incoming = std::mem::replace(&mut self.incoming, Incoming::Frame);
        let Incoming::Block(mut block) = incoming else { return Err(ErrorCode::ProtocolError) };
        block.frames += 1;
        if block.frames > self.limits.block_frames_max
            || block.bytes.len() + payload.len() > HEADER_LIST_SIZE_MAX
        {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        block.bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.incoming = Incoming::Block(block);
            return Ok(None);
        }
        self.handle_block(block.header, &block.bytes, scratch)
    }

    /// A whole header block: a head, an interim response, or trailers.
    fn handle_block(&mut self, header: FrameHeader, block: &[u8], scratch: &mut Scratch) -> Parsed {
        let id = StreamId(header.stream);
        // Decoded in any case: later blocks depend on it.
        let section = FieldSection::decode(&mut self.decoder, block, scratch)?;
        if section.is_too_large() {
            self.budget.spend(price::OVERSIZED)?;
        }
        let Some(slot) = self.streams.find(id) else {
            return match S::SERVER && self.is_idle(id) {
                true => self.open_received(id, header, section, scratch),
                false => self.note_closed_head(id).map(|()| None),
            };
        };
        let ends = header.has(flag::END_STREAM);
        match self.streams[slot].recv {
            RecvHalf::Ended => self.break_stream(slot, ErrorCode::StreamClosed).map(|()| None),
            RecvHalf::Head => self.handle_response(slot, section, ends, scratch),
            RecvHalf::Body(left) => {
                // A tunnel has no trailers (RFC 9113 §8.5). A response that refuses one may.
                let stream = &self.streams[slot];
                let is_tunnel = if S::SERVER { stream.is_connect() } else { stream.is_tunnel() };
                let is_short = ends && left.is_some_and(|left| left > 0);
                if is_short || !ends || is_tunnel || section.check_trailers(scratch).is_err() {
                    let cause =
                        if is_short { PeerError::BodyTooShort } else { PeerError::BadTrailer };
                    return self.break_message(slot, cause);
                }
                Ok(self.handle_trailers(slot, scratch))
            }
        }
    }

    /// A malformed message is a stream error (RFC 9113 §8.1.1).
    fn break_message(&mut self, slot: StreamSlot, cause: PeerError) -> Parsed {
        self.fail_message(slot, ErrorCode::ProtocolError, cause).map(|()| None)
    }

    /// HEADERS of a closed stream.
    fn note_closed_head(&mut self, id: StreamId) -> Result<(), ErrorCode> {
        let (from, to) = self.skipped;
        if id >= from && id < to {
            return Err(ErrorCode::ProtocolError);
        }
        // A server responds to each of many requests that a client has cancelled.
        self.budget.spend(if S::SERVER { price::HEADERS } else { price::SMALL })?;
        match self.reset_streams.contains(id) || self.is_ignored(id) {
            true => Ok(()),
            false => Err(ErrorCode::StreamClosed),
        }
    }

    /// Server: a request opens a stream.
    fn open_received(
        &mut self,
        id: StreamId,
        header: FrameHeader,
        section: FieldSection,
        scratch: &mut Scratch,
    ) -> Parsed {
        if id.0.is_multiple_of(2) {
            return Err(ErrorCode::ProtocolError);
        }
        let next = match self.last_received {
            StreamId(0) => StreamId(1),
            last => StreamId(last.0 + 2),
        };
        if id > next {
            self.skipped = (next, id);
        }
        self.last_received = id;
        match &mut self.shutdown {
            Shutdown::Announced(0) => self.queue_goaway(Shutdown::Final, ErrorCode::NoError),
            Shutdown::Announced(left) => *left -= 1,
            Shutdown::None | Shutdown::Final => {}
        }
        if self.streams.len() >= self.limits.streams_max as usize {
            self.budget.spend(price::HEADERS)?;
            let code = ErrorCode::RefusedStream.code();
            frame::queue_number(&mut self.outbox, kind::RST_STREAM, id.0, code);
            self.reset_streams.note(id);
            return Ok(None);
        }
        let checked = section.check_request(scratch);
        let ends = header.has(flag::END_STREAM);
        let has_wrong_len = ends && section.content_length.is_some_and(|len| len > 0);
        let slot = self.streams.insert(self.new_stream(id));
        match checked {
            Ok(()) if !has_wrong_len => {}
            Err(refusal @ RequestRefusal::Status(status)) => {
                self.refused.push(refusal.error());
                self.budget.spend(price::HEADERS)?;
                self.refuse(slot, status, ends);
                return Ok(None);
            }
            Ok(()) | Err(RequestRefusal::Malformed) => {
                self.refused.push(match has_wrong_len {
                    true => PeerError::BadLength,
                    false => RequestRefusal::Malformed.error(),
                });
                let code = ErrorCode::ProtocolError;
                return self.break_stream(slot, code).map(|()| None);
            }
        }
        let stream = &mut self.streams[slot];
        let method = section.method.as_ref().map(|it| slice(&scratch.head, it));
        stream.purpose = StreamPurpose::of(method.unwrap_or_default());
        stream.expects_continue = section.expects_continue && !ends;
        if let Some(priority) = &section.priority {
            stream.priority = StreamPriority::parse(slice(&scratch.head, priority));
        }
        let waits = stream.expects_continue;
        let len = match stream.is_connect() {
            true => BodyLen::Empty, // what follows belongs to the tunnel
            false => section.body_len(ends),
        };
        stream.recv = RecvHalf::Body(section.content_length.filter(|_| !stream.is_connect()));
        if ends {
            stream.recv = RecvHalf::Ended;
        }
        if ends && stream.is_connect() {
            stream.parked.end = Some(None); // of the tunnel
        }
        if ends || stream.is_connect() {
            self.events.push_back(PendingEvent::End(id));
        }
        Ok(Some(ScratchEvent::Request { stream: id, section, len, waits }))
    }

    /// Client: the head of a response, or an interim one.
    fn handle_response(
        &mut self,
        slot: StreamSlot,
        section: FieldSection,
        ends: bool,
        scratch: &Scratch,
    ) -> Parsed {
        let stream = &mut self.streams[slot];
        let id = stream.id;
        stream.moved = true;
        let status = match section.check_response() {
            // 101 has no meaning here (RFC 9113 §8.6), and an interim response does not end.
            Ok(status) if status != 101 && (status >= 200 || !ends) => status,
            Ok(101) => return self.break_message(slot, PeerError::UnexpectedUpgrade),
            _ if section.is_too_large() => {
                return self.break_message(slot, PeerError::HeadTooLarge);
            }
            _ => return self.break_message(slot, PeerError::BadField),
        };
        stream.expects_continue &= status > 100 && status < 200;
        if status < 200 {
            stream.interims += 1;
            if u32::from(stream.interims) > INTERIM_LEN_MAX {
                let (code, cause) = (ErrorCode::EnhanceYourCalm, PeerError::TooManyInterim);
                return self.fail_message(slot, code, cause).map(|()| None);
            }
            return Ok(self.deliver_response(slot, section, None, scratch));
        }
        stream.note_final_status(status);
        let is_bodiless = stream.is_head() || matches!(status, 204 | 304);
        let expected = section.content_length.filter(|_| !is_bodiless && !stream.is_tunnel());
        if ends && expected.is_some_and(|len| len > 0) {
            return self.break_message(slot, PeerError::BodyTooShort);
        }
        let len = match is_bodiless || stream.is_tunnel() {
            true => BodyLen::Empty,
            false => section.body_len(ends),
        };
        stream.recv = RecvHalf::Body(if is_bodiless { Some(0) } else { expected });
        if stream.is_tunnel() && !stream.parks() {
            self.events.push_back(PendingEvent::Upgraded(id));
        }
        let event = self.deliver_response(slot, section, Some(len), scratch);
        if ends {
            self.end_received(slot);
        }
        Ok(event)
    }

    /// Client: returns the event of a response, unless it has to wait because its stream is held.
    fn deliver_response(
        &mut self,
        slot: StreamSlot,
        section: FieldSection,
        len: Option<BodyLen>,
        scratch: &Scratch,
    ) -> Option<ScratchEvent> {
        let stream = &mut self.streams[slot];
        if stream.parks() {
            stream.parked.push_head(section, len, scratch);
            return None;
        }
        Some(ScratchEvent::of_response(stream.id, section, len))
    }

    /// The end of a message with fields, which are in the scratch.
    fn handle_trailers(&mut self, slot: StreamSlot, scratch: &Scratch) -> Option<ScratchEvent> {
        let stream = &mut self.streams[slot];
        let id = stream.id;
        stream.recv = RecvHalf::Ended;
        let is_dropped = S::SERVER && stream.drains_request();
        let is_parked = stream.parks() && !is_dropped;
        if is_parked {
            let mut trailers = HeaderBuf::new();
            let copied = trailers.extend(scratch.headers());
            copied.expect("a header block is shorter than 4 GB");
            stream.parked.end = Some(Some(Box::new(trailers)));
        }
        self.close_if_done(slot);
        (!is_parked && !is_dropped).then_some(ScratchEvent::Trailers { stream: id })
    }
}
