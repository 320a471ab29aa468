//! The trait that every HTTP connection implements.

use crate::body_len::BodyLen;
use crate::errors::{PeerError, UsageError};
use crate::event::{Event, Role, StreamId};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::transmit::{Segment, Transmit};

/// One HTTP connection as a pure state machine.
///
/// Bytes in, events out; messages in, transmits out. Nothing here touches a socket or a clock.
pub trait Connection {
    /// The side of the connection.
    type Role: Role;

    /// Consumes input until one event is complete; `None` means more bytes are needed.
    ///
    /// Called after input, until the input is used up and [`Connection::has_event`] is false.
    /// Called after `handle_sent` with an empty input if `has_event` is true: `Writable` can follow
    /// from either. An event never borrows from `self`, so the response can be sent while it is
    /// handled.
    ///
    /// # Errors
    /// The peer broke the protocol. The reply is queued; no further event follows. The malformed
    /// bytes remain at the front of `input` until the next call, which drops them.
    fn poll_event<'a>(
        &mut self,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Event<'a, Self::Role>>, PeerError>;

    /// True if [`Connection::poll_event`] returns an event without more input.
    fn has_event(&self) -> bool;

    /// The number of received bytes, next on the wire, that may bypass this connection: bytes of
    /// the current body or tunnel without framing between them. 0 if there are none, or if they
    /// are discarded anyway.
    ///
    /// Into a file only bytes of a known length may go. Into a pipe also those up to the end of the
    /// connection (`u64::MAX`). Always 0 where the bytes on the wire are not those of the body.
    fn splice_len(&self, _target: SpliceTarget) -> u64 {
        0
    }

    /// `bytes` of them were moved, without [`Connection::poll_event`], which returns `End` after
    /// the last one. Those in a pipe have to be released, as `Data`; those in a file have not.
    ///
    /// # Panics
    /// If they are more than [`Connection::splice_len`] returned.
    fn handle_spliced(&mut self, bytes: u64, _target: SpliceTarget) {
        assert_eq!(bytes, 0, "no byte may bypass this connection");
    }

    /// Releases `bytes` of a received body. HTTP/2 widens the window; HTTP/1 continues to read.
    fn release(&mut self, stream: StreamId, bytes: usize);

    /// The number of requests that may start now: 0 on a server, up to the pipelining depth on a
    /// client.
    fn vacancy(&self) -> u32;

    /// Starts an exchange, if one may start now. Always `None` on a server.
    fn open(&mut self) -> Option<StreamId>;

    /// Queues the head of our next message; `len` alone decides the framing.
    ///
    /// A 1xx head may be followed by another.
    ///
    /// # Errors
    /// Nothing was queued; the variant is the reason.
    fn send_head(
        &mut self,
        stream: StreamId,
        head: <Self::Role as Role>::Send<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError>;

    /// Queues body bytes. Bytes for a message without a body (the response to HEAD) are counted and
    /// not sent, so a handler needs no second path.
    ///
    /// # Errors
    /// Nothing was queued; the variant is the reason.
    fn send_data(&mut self, stream: StreamId, data: Segment) -> Result<(), UsageError>;

    /// Ends our message. Trailers are sent if the framing has a place for them: in HTTP/1 behind a
    /// chunked body, in HTTP/2 behind any body.
    ///
    /// # Errors
    /// Nothing was queued; the variant is the reason.
    fn send_end(&mut self, stream: StreamId, trailers: Headers<'_>) -> Result<(), UsageError>;

    /// Ends the exchange in both directions, without the rest of its messages. In HTTP/1 this
    /// closes the connection. In HTTP/2 an [`Event::Reset`] follows, as after a reset by the peer.
    fn reset(&mut self, stream: StreamId, reason: Reset);

    /// While a stream is held, no event but `Writable` and `Reset` is returned for it. HTTP/1 has
    /// one stream at a time: nothing is read, and all input remains with its owner. HTTP/2 goes on
    /// reading for the other streams. It copies what arrives for the held one, at most its window.
    fn set_held(&mut self, stream: StreamId, held: bool);

    /// Queued bytes of the stream that are not sent yet. HTTP/1 sends in order: those of all its
    /// streams. HTTP/2 adds the framed bytes of all streams. Valid until the connection is dropped,
    /// also behind an error of the peer.
    fn unsent(&self, stream: StreamId) -> u64;

    /// True if bytes that [`Connection::poll_transmit`] has returned are not sent yet. It may be
    /// false although more is queued: a transmit may contain less than that.
    fn has_unsent(&self) -> bool {
        self.io_state().wants_write
    }

    /// Accepts no further exchange; those in progress are completed. HTTP/1: the next head contains
    /// `Connection: close`, and an idle connection is closed at once. HTTP/2: GOAWAY is sent, and a
    /// server still accepts the streams that are on their way.
    fn close_after(&mut self);

    /// Queues a sign of life, if the protocol has one and the last one is more than `span` ago: a
    /// PING of HTTP/2 (RFC 9113 §6.7). Returns whether it was queued: a peer that acknowledges
    /// none receives at most [`crate::h2::PINGS_MAX`]. Times are in a unit of the owner.
    fn ping(&mut self, _now: u64, _span: u64) -> bool {
        false
    }

    /// Bytes have arrived while [`IoState::wants_read`] is false, and have not been received. If
    /// the current exchange is the last one, closing would reset the connection and could destroy
    /// the response. So the connection drains the input first (RFC 9112 §9.6).
    fn handle_unread(&mut self) {}

    /// The peer exceeded the timeout of its message. True: the last bytes of the connection are
    /// queued (HTTP/1: a 408 response; HTTP/2: GOAWAY), and no event follows. False: nothing is
    /// changed, and the owner closes the connection.
    fn handle_late(&mut self) -> bool {
        false
    }

    /// Ends exchanges that wait for the peer while others keep the connection moving: those in
    /// which nothing has moved since the last sweep, if it is `span` ago. `is_late`: the deadline
    /// of the connection has passed, and all that wait for the peer are ended. Each has an event.
    /// `now` and
    /// `span` are in the owner's unit of time.
    ///
    /// Returns the time of the next sweep, `u64::MAX` for none. HTTP/1 has one exchange, whose
    /// deadline is that of the connection.
    fn sweep(&mut self, _now: u64, _span: u64, _is_late: bool) -> u64 {
        u64::MAX
    }

    /// Bytes of the current body or tunnel that may be queued before the sender should wait. After
    /// 0 a `Writable` follows. 0 before the head and after the end.
    fn room(&self, stream: StreamId) -> u64;

    /// The bytes that may be sent now. Without `handle_sent` in between, another call returns the
    /// same.
    fn poll_transmit(&mut self) -> Option<Transmit<'_>>;

    /// The first `bytes` of the transmit were sent. The rest is kept, and no longer shares memory
    /// with the input.
    fn handle_sent(&mut self, bytes: u64);

    /// The layer below was established, and both ends have negotiated this protocol by ALPN.
    fn handle_alpn(&mut self, _protocol: &[u8]) {}

    /// The layer between this connection and its socket holds `bytes` for the socket. They count as
    /// queued in memory. Reported before the [`Connection::handle_sent`] that passed them on.
    fn handle_layer_queue(&mut self, _bytes: u64) {}

    /// The maximum of received bytes that may be unread. The connection does not read beyond them.
    fn unread_max(&self) -> usize {
        usize::MAX
    }

    /// True if the peer has announced that the current message is its last one. From other peers
    /// bytes may be on their way; a close that meets them discards the unsent bytes.
    fn expects_no_more_requests(&self) -> bool {
        false
    }

    /// What the owner of the socket and the clock has to do now.
    fn io_state(&self) -> IoState;
}

/// Why an exchange ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Its messages are not needed any more (RFC 9113 §7: CANCEL).
    Cancelled,
    /// A failure on this side (INTERNAL_ERROR).
    Internal,
    /// The request was not processed; it may be sent again (REFUSED_STREAM).
    Refused,
}

/// Where bytes go that bypass their connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpliceTarget {
    /// A file.
    File,
    /// A pipe, and from there another socket.
    Pipe,
}

/// What the owner of a connection's socket and the clock has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoState {
    /// The phase, which determines the timeout.
    pub phase: Phase,
    /// [`Connection::poll_transmit`] returns bytes.
    pub wants_write: bool,
    /// False while the peer has to wait: the driver pauses reading.
    pub wants_read: bool,
    /// True once our side has ended: a FIN may follow the last byte. Never true after the end
    /// within a message.
    pub finished: bool,
    /// True once nothing more will be read or written.
    pub closed: bool,
}

/// What a connection waits for. Protocols have no clock: engines put a deadline on each phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The layer between the socket and the connection is being established. Reported by the
    /// layer's owner, not by connections.
    Handshake,
    /// No exchange is open and nothing has arrived.
    Idle,
    /// The peer has begun a head and has to send the rest.
    Head,
    /// The peer has begun a body and has to send the rest.
    Body,
    /// The peer has to send the response to our request.
    Response,
    /// The application has to send the next bytes, or to release received ones.
    Application,
    /// The peer has to take the queued bytes.
    Send,
    /// Our side has ended; the peer has to close.
    Linger,
    /// After an upgrade: bytes both ways, without messages.
    Tunnel,
}
