//! Frames that carry no message: PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE.

use crate::error_code::ErrorCode;
use crate::errors::PeerError;
use crate::event::StreamId;
use crate::side::Side;

use super::frame::{self, FrameHeader, flag, kind};
use super::limits::{PROGRESS_SIZE_MIN, price};
use super::priority::{self, StreamPriority};
use super::recv::Incoming;
use super::settings::{self, SettingChange};
use super::stream::RecvHalf;
use super::table::Turn;
use super::{ConnectionState, H2, PendingEvent, SHUTDOWN_PING, Shutdown};

impl<S: Side> H2<S> {
    pub(super) fn handle_control(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        let on_connection = header.stream == 0;
        match header.kind {
            kind::PRIORITY if on_connection => Err(ErrorCode::ProtocolError),
            kind::PRIORITY => self.handle_priority(StreamId(header.stream), payload),
            kind::RST_STREAM => self.handle_reset(StreamId(header.stream), payload),
            kind::SETTINGS if on_connection => self.handle_settings(header, payload),
            kind::PING if on_connection => self.handle_ping(header, payload),
            kind::GOAWAY if on_connection => self.handle_goaway(payload),
            kind::WINDOW_UPDATE => self.handle_window_update(StreamId(header.stream), payload),
            kind::PRIORITY_UPDATE if on_connection => self.handle_priority_update(payload),
            kind::SETTINGS
            | kind::PING
            | kind::GOAWAY
            | kind::PRIORITY_UPDATE
            | kind::PUSH_PROMISE => Err(ErrorCode::ProtocolError),
            _ => self.budget.spend(price::SMALL),
        }
    }

    /// PRIORITY is obsolete: only its form is checked (RFC 9113 §5.3.2).
    fn handle_priority(&mut self, id: StreamId, payload: &[u8]) -> Result<(), ErrorCode> {
        self.budget.spend(price::SMALL)?;
        let priority = <&[u8; 5]>::try_from(payload).map_err(|_| ErrorCode::FrameSizeError)?;
        priority::check_dependency(id, priority)
    }

    fn handle_priority_update(&mut self, payload: &[u8]) -> Result<(), ErrorCode> {
        self.budget.spend(price::SMALL)?;
        let (id, value) = payload.split_first_chunk::<4>().ok_or(ErrorCode::FrameSizeError)?;
        let id = StreamId(u32::from_be_bytes(*id) & frame::ID_MAX);
        if !S::SERVER || id == StreamId(0) {
            return Err(ErrorCode::ProtocolError);
        }
        if let Some(slot) = self.streams.find(id) {
            self.streams[slot].priority = StreamPriority::parse(value);
            self.streams.update_ready(slot, Turn::Last);
        }
        Ok(())
    }

    fn handle_reset(&mut self, id: StreamId, payload: &[u8]) -> Result<(), ErrorCode> {
        let code = ErrorCode::from_code(frame::number(payload)?);
        if id == StreamId(0) || self.is_idle(id) {
            return Err(ErrorCode::ProtocolError);
        }
        let Some(slot) = self.streams.find(id) else { return self.budget.spend(price::SMALL) };
        if S::SERVER {
            self.budget.spend_reset()?;
        }
        let stream = &mut self.streams[slot];
        // A complete response is kept until it is delivered (RFC 9113 §8.1). A tunnel has none.
        if !S::SERVER && stream.recv == RecvHalf::Ended && !stream.is_tunnel() {
            debug_assert!(!stream.parked.is_empty(), "a delivered response closes its stream");
            stream.stop_sending();
            self.streams.update_ready(slot, Turn::Last);
            return Ok(());
        }
        let reset = stream.as_reset(code, None);
        self.remove(slot);
        self.events.push_back(PendingEvent::Reset(reset));
        Ok(())
    }

    fn handle_settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if header.has(flag::ACK) {
            let is_first = self.incoming == Incoming::Settings;
            return match payload {
                [] if !is_first => self.budget.spend(price::SMALL),
                [] => Err(ErrorCode::ProtocolError),
                _ => Err(ErrorCode::FrameSizeError),
            };
        }
        match self.incoming {
            Incoming::Settings => {
                self.incoming = Incoming::Frame;
                self.peer.streams_max = u32::MAX; // no limit, unless there is one in the frame
            }
            Incoming::Preface | Incoming::Frame | Incoming::Data(_) | Incoming::Block(_) => {
                self.budget.spend(price::SETTINGS)?;
            }
        }
        let mut windows = 0;
        for (id, value) in settings::parse(payload)? {
            match self.peer.apply::<S>(id, value)? {
                Some(SettingChange::TableSize(size)) => self.encoder.set_table_max(size),
                Some(SettingChange::Windows(change)) => windows += change,
                None => {}
            }
        }
        if windows != 0 {
            self.change_windows(windows)?; // once, however often the frame has the setting
        }
        self.queue_ack(kind::SETTINGS, &[])
    }

    fn change_windows(&mut self, change: i64) -> Result<(), ErrorCode> {
        for at in 0..self.streams.len() {
            if let Some(slot) = self.streams.nth(at) {
                self.streams[slot].send_window.widen(change)?;
                self.streams.update_ready(slot, Turn::Last);
            }
        }
        Ok(())
    }

    fn handle_ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if payload.len() != SHUTDOWN_PING.len() {
            return Err(ErrorCode::FrameSizeError);
        }
        if header.has(flag::ACK) && payload == ALIVE_PING && self.pings > 0 {
            self.pings -= 1;
            return Ok(());
        }
        // Servers PING on quiet streams for hours, and a client has no sweep that refills its
        // budget: unread acknowledgements limit them.
        if S::SERVER || header.has(flag::ACK) {
            self.budget.spend(price::SMALL)?;
        }
        match header.has(flag::ACK) {
            false => self.queue_ack(kind::PING, payload)?,
            true if payload == SHUTDOWN_PING => self.end_announced(),
            true => {}
        }
        Ok(())
    }

    /// A PING whose acknowledgement costs the peer nothing.
    pub(super) fn queue_ping(&mut self, now: u64) -> bool {
        let is_queued = self.state == ConnectionState::Open && self.pings < PINGS_MAX;
        if is_queued {
            self.pings += 1;
            self.pinged = now;
            frame::queue(&mut self.outbox, kind::PING, 0, 0, &ALIVE_PING);
        }
        is_queued
    }

    /// The peer has received our GOAWAY: it opens no more streams.
    pub(super) fn end_announced(&mut self) {
        if matches!(self.shutdown, Shutdown::Announced(_)) {
            self.queue_goaway(Shutdown::Final, ErrorCode::NoError);
            self.finish_if_idle();
        }
    }

    /// The peer accepts no more streams, and did not process those after the last one.
    fn handle_goaway(&mut self, payload: &[u8]) -> Result<(), ErrorCode> {
        let (last, rest) = payload.split_first_chunk::<4>().ok_or(ErrorCode::FrameSizeError)?;
        let code = rest.first_chunk::<4>().ok_or(ErrorCode::FrameSizeError)?;
        self.budget.spend(price::SMALL)?;
        self.peer_shutdown = Some(ErrorCode::from_code(u32::from_be_bytes(*code)));
        let last = StreamId(u32::from_be_bytes(*last) & frame::ID_MAX);
        while !S::SERVER
            && let Some(slot) = self.streams.last()
            && self.streams[slot].id > last
        {
            let refused = ErrorCode::RefusedStream;
            let cause = self.peer_shutdown.map(PeerError::Goaway);
            let reset = self.streams[slot].as_reset(refused, cause);
            self.events.push_back(PendingEvent::Reset(reset));
            self.remove(slot);
        }
        self.finish_if_idle();
        Ok(())
    }

    fn handle_window_update(&mut self, id: StreamId, payload: &[u8]) -> Result<(), ErrorCode> {
        let increment = frame::number(payload)? & frame::ID_MAX;
        if id == StreamId(0) {
            let is_blocked = !self.send_window.is_open() && self.streams.has_ready(true);
            self.spend_on_update(increment, is_blocked)?;
            return match increment {
                0 => Err(ErrorCode::ProtocolError),
                _ => self.send_window.widen(increment.into()),
            };
        }
        let Some(slot) = self.streams.find(id) else {
            return match self.is_idle(id) {
                true => Err(ErrorCode::ProtocolError),
                // The last bytes are on their way: the peer has to read them.
                false => self.spend_on_update(increment, true),
            };
        };
        if increment == 0 {
            return self.break_stream(slot, ErrorCode::ProtocolError);
        }
        let stream = &self.streams[slot];
        let is_blocked = !stream.queue.is_empty() && !stream.send_window.is_open();
        self.spend_on_update(increment, is_blocked)?;
        match self.streams[slot].send_window.widen(increment.into()) {
            Ok(()) => {
                self.streams.update_ready(slot, Turn::Last);
                Ok(())
            }
            Err(code) => self.break_stream(slot, code),
        }
    }

    /// A window that is opened byte by byte costs a frame and a system call for each.
    pub(super) fn spend_on_update(
        &mut self,
        increment: u32,
        is_blocked: bool,
    ) -> Result<(), ErrorCode> {
        match is_blocked && u64::from(increment) < PROGRESS_SIZE_MIN {
            true => self.budget.spend(price::SMALL),
            false => Ok(()),
        }
    }
}

/// PINGs of [`crate::Connection::ping`] that may be unacknowledged.
pub const PINGS_MAX: u8 = 16;
/// Its bytes, as those of nghttp2.
const ALIVE_PING: [u8; 8] = [0; 8];
