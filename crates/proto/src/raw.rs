//! A connection without messages: bytes both ways, and each way ends with a FIN.
//!
//! For relays, and for tunnels after an upgrade. There is one exchange and no head: bytes of the
//! peer are `Data`, its FIN is `End`; `send_data` and `send_end` are the opposite direction. One
//! direction may end long before the other (RFC 9293 §3.6, "half-closed").
//!
//! ```text
//! receive: Open ── FIN ─▶ Over          send: Open ── send_end ─▶ Over
//!            └─────── reset ─────────────────┴────────▶ closed, and nothing is sent any more
//! ```

use crate::body_len::BodyLen;
use crate::connection::{Connection, IoState, Phase, Reset, SpliceTarget};
use crate::errors::{PeerError, UsageError};
use crate::event::{Event, Raw, StreamId};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::outbox::{Outbox, Room};
use crate::transmit::{Segment, Transmit};

/// Bytes both ways. The same for both ends; without queued bytes it holds no memory.
///
/// Its phase is [`Phase::Body`] until bytes have come both ways, and [`Phase::Tunnel`] from then
/// on; in both, the timeout restarts with every byte.
#[derive(Debug, Default)]
pub struct RawConnection {
    outbox: Outbox,
    /// Bytes that the owner has received and not released. While there are any, nothing is read.
    unreleased: u32,
    receive: HalfState,
    send: HalfState,
    room: Room,
    /// The owner has paused all events except `Writable`.
    held: bool,
    received: bool, // at least one byte
    sent: bool,     // at least one byte
}

/// The state of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HalfState {
    #[default]
    Open,
    /// The FIN was received, or will follow the last byte.
    Over,
    /// Ended early: nothing more is read or sent.
    Cut,
}

impl RawConnection {
    /// The only exchange.
    pub const STREAM: StreamId = StreamId(0);

    /// True once the peer has ended its side.
    pub fn has_received_end(&self) -> bool {
        self.receive == HalfState::Over
    }

    /// True if the peer may send: the owner has released all received bytes and does not hold.
    pub fn is_receiving(&self) -> bool {
        self.receive == HalfState::Open && !self.held && self.unreleased == 0
    }

    /// Drops all further input, as if the peer had ended its side. Sending continues.
    pub fn stop_receiving(&mut self) {
        if self.receive == HalfState::Open {
            self.receive = HalfState::Over;
        }
    }

    /// Drops all further input. The connection is over once all queued bytes and the end are sent.
    pub fn finish(&mut self) {
        self.receive = HalfState::Cut;
        if self.send == HalfState::Open {
            self.send = HalfState::Over;
        }
    }

    /// The owner has received `bytes`.
    fn hold(&mut self, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unreleased = self.unreleased.saturating_add(bytes);
    }
}

impl Connection for RawConnection {
    type Role = Raw;

    #[inline]
    fn poll_event<'a>(
        &mut self,
        input: &mut Input<'_>,
        _: &'a mut Scratch,
    ) -> Result<Option<Event<'a, Raw>>, PeerError> {
        let stream = Self::STREAM;
        if self.room == Room::Reopened {
            self.room = Room::Open;
            return Ok(Some(Event::Writable { stream }));
        }
        if self.receive != HalfState::Open {
            input.clear(); // the receiving side has ended
            return Ok(None);
        }
        if self.held {
            return Ok(None);
        }
        if !input.is_empty() {
            let bytes = input.take(input.len());
            self.received = true;
            self.hold(bytes.len() as u64);
            return Ok(Some(Event::Data { stream, bytes }));
        }
        if input.at_eof() {
            self.receive = HalfState::Over;
            return Ok(Some(Event::End { stream, trailers: Headers::EMPTY }));
        }
        Ok(None)
    }

    fn has_event(&self) -> bool {
        self.room == Room::Reopened
    }

    fn splice_len(&self, target: SpliceTarget) -> u64 {
        let may = self.receive == HalfState::Open && !self.held && target == SpliceTarget::Pipe;
        if may { u64::MAX } else { 0 }
    }

    fn handle_spliced(&mut self, bytes: u64, target: SpliceTarget) {
        assert!(bytes == 0 || target == SpliceTarget::Pipe, "the length is not known");
        self.received |= bytes > 0;
        self.hold(bytes);
    }

    fn release(&mut self, _: StreamId, bytes: usize) {
        self.unreleased = self.unreleased.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// None: the one exchange is there from the beginning.
    fn vacancy(&self) -> u32 {
        0
    }

    fn open(&mut self) -> Option<StreamId> {
        None
    }

    fn send_head(&mut self, _: StreamId, (): (), _: BodyLen) -> Result<(), UsageError> {
        Err(UsageError::HeadAlreadySent)
    }

    fn send_data(&mut self, _: StreamId, data: Segment) -> Result<(), UsageError> {
        if self.send != HalfState::Open {
            return Err(UsageError::NoSuchStream);
        }
        self.outbox.push(data);
        if self.outbox.size() >= ROOM {
            self.room = Room::Full;
        }
        Ok(())
    }

    fn send_end(&mut self, _: StreamId, _: Headers<'_>) -> Result<(), UsageError> {
        if self.send != HalfState::Open {
            return Err(UsageError::NoSuchStream);
        }
        self.send = HalfState::Over;
        Ok(())
    }

    /// Drops the queued bytes; the connection is over.
    fn reset(&mut self, _: StreamId, _: Reset) {
        (self.receive, self.send) = (HalfState::Cut, HalfState::Cut);
        self.outbox.clear();
    }

    fn set_held(&mut self, _: StreamId, held: bool) {
        self.held = held;
    }

    fn unsent(&self, _: StreamId) -> u64 {
        self.outbox.size()
    }

    /// Only the owner ends it.
    fn close_after(&mut self) {}

    fn room(&self, _: StreamId) -> u64 {
        match (self.room, self.send) {
            (Room::Open, HalfState::Open) => ROOM.saturating_sub(self.outbox.size()),
            _ => 0,
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.outbox.transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
        self.sent |= bytes > 0;
        if self.room == Room::Full && self.outbox.size() <= ROOM / ROOM_SHARE {
            self.room = Room::Reopened;
        }
    }

    /// A FIN of this side leaves the peer's direction open, and the connection is closed only after
    /// the peer's end. So no close meets bytes on their way.
    fn expects_no_more_requests(&self) -> bool {
        true
    }

    #[inline]
    fn io_state(&self) -> IoState {
        let wants_write = !self.outbox.is_empty();
        let over = self.receive != HalfState::Open && self.send == HalfState::Over && !wants_write;
        IoState {
            phase: if self.received && self.sent { Phase::Tunnel } else { Phase::Body },
            wants_write,
            wants_read: self.is_receiving(),
            finished: self.send == HalfState::Over,
            closed: over || self.send == HalfState::Cut,
        }
    }
}

/// The queued bytes at which a sender should wait: as many as arrive at once.
const ROOM: u64 = 240 * 1024;
/// There is room again when no more than this part of it is queued.
const ROOM_SHARE: u64 = 4;
