//! A connection without messages: bytes both ways, and each way ends with a FIN.
//!
//! For relays, and for what is left after an upgrade. There is one exchange and no head: what the
//! peer sends is `Data`, its FIN is `End`, and `send_data` and `send_end` say the same to it. One
//! way may end long before the other (RFC 9293 §3.6, "half-closed").
//!
//! ```text
//! receive: Open ── FIN ─▶ Over          send: Open ── send_end ─▶ Over
//!            └─────── reset ─────────────────┴────────▶ closed, and nothing is sent any more
//! ```

use crate::body_len::BodyLen;
use crate::connection::{Connection, IoState, PeerError, Phase, Reset, SpliceTarget, UsageError};
use crate::event::{Event, Raw, StreamId};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::outbox::Outbox;
use crate::transmit::{Segment, Transmit};

/// Bytes both ways. The same for both ends; what it owns while nothing is queued is itself.
///
/// Its phase is [`Phase::Body`] until bytes have come both ways, and [`Phase::Tunnel`] from then
/// on; in both, a deadline begins again with every byte.
#[derive(Debug, Default)]
pub struct RawConnection {
    outbox: Outbox,
    /// Bytes that the owner has been given and has not released: while there are any, it has no
    /// room for more.
    unreleased: u32,
    receive: Way,
    send: Way,
    room: Room,
    /// The owner wants to hear of nothing for now.
    held: bool,
    received: bool, // a byte has come
    sent: bool,     // a byte has left
}

/// How far one direction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Open,
    /// Its FIN was seen, or is to follow the last byte.
    Over,
    /// Given up: nothing is wanted or sent any more.
    Cut,
}

/// Whether more may be queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Room {
    #[default]
    Open,
    Full,
    /// It was full, and its owner has not been told that it is not any more.
    Reopened,
}

impl RawConnection {
    /// The only exchange.
    pub const STREAM: StreamId = StreamId(0);

    /// True once the peer has said that it sends nothing more.
    pub fn has_received_end(&self) -> bool {
        self.receive == Way::Over
    }

    /// True if the owner has all the room that it needs, and the peer may go on.
    pub fn is_receiving(&self) -> bool {
        self.receive == Way::Open && !self.held && self.unreleased == 0
    }

    /// Nothing that the peer still says is wanted, as if it had said its end; what is said to it
    /// goes on.
    pub fn stop_receiving(&mut self) {
        if self.receive == Way::Open {
            self.receive = Way::Over;
        }
    }

    /// Nothing that the peer still says is wanted: once it has been told everything that is queued,
    /// and the end of it, the connection is over.
    pub fn finish(&mut self) {
        self.receive = Way::Cut;
        if self.send == Way::Open {
            self.send = Way::Over;
        }
    }

    /// The owner has been given so many bytes.
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
        if self.receive != Way::Open {
            input.clear(); // nobody hears it
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
            self.receive = Way::Over;
            return Ok(Some(Event::End { stream, trailers: Headers::EMPTY }));
        }
        Ok(None)
    }

    fn has_event(&self) -> bool {
        self.room == Room::Reopened
    }

    fn splice_len(&self, target: SpliceTarget) -> u64 {
        let may = self.receive == Way::Open && !self.held && target == SpliceTarget::Pipe;
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
        if self.send != Way::Open {
            return Err(UsageError::NoSuchStream);
        }
        self.outbox.push(data);
        if self.outbox.size() >= ROOM {
            self.room = Room::Full;
        }
        Ok(())
    }

    fn send_end(&mut self, _: StreamId, _: Headers<'_>) -> Result<(), UsageError> {
        if self.send != Way::Open {
            return Err(UsageError::NoSuchStream);
        }
        self.send = Way::Over;
        Ok(())
    }

    /// What is queued is forgotten, and so is the connection.
    fn reset(&mut self, _: StreamId, _: Reset) {
        (self.receive, self.send) = (Way::Cut, Way::Cut);
        self.outbox.clear();
    }

    fn set_held(&mut self, _: StreamId, held: bool) {
        self.held = held;
    }

    fn unsent(&self, _: StreamId) -> u64 {
        self.outbox.size()
    }

    /// There is no end but the owner's.
    fn close_after(&mut self) {}

    fn room(&self, _: StreamId) -> u64 {
        match (self.room, self.send) {
            (Room::Open, Way::Open) => ROOM.saturating_sub(self.outbox.size()),
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

    /// Its own end is a FIN, which leaves the peer's way open; closed it is only after the peer's.
    /// So nothing that is on its way is met by a close, whatever the peer does.
    fn expects_no_more_requests(&self) -> bool {
        true
    }

    #[inline]
    fn io_state(&self) -> IoState {
        let wants_write = !self.outbox.is_empty();
        let over = self.receive != Way::Open && self.send == Way::Over && !wants_write;
        IoState {
            phase: if self.received && self.sent { Phase::Tunnel } else { Phase::Body },
            wants_write,
            wants_read: self.is_receiving(),
            finished: self.send == Way::Over,
            closed: over || self.send == Way::Cut,
        }
    }
}

/// Bytes that are queued before it is better to wait: as many as arrive at once.
const ROOM: u64 = 240 * 1024;
/// There is room again when no more than this part of it is queued.
const ROOM_SHARE: u64 = 4;
