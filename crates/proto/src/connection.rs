//! The trait that every HTTP connection implements, and what can go wrong on it.

use std::fmt;

use crate::body_len::BodyLen;
use crate::event::{Event, Role, StreamId};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::transmit::{Segment, Transmit};

/// One HTTP connection as a pure state machine.
///
/// Bytes in, events out; messages in, transmits out. Nothing here touches a socket or a clock.
pub trait Connection {
    /// Which side of the conversation this is.
    type Role: Role;

    /// Consumes input until one event is complete; `None` means more bytes are needed.
    ///
    /// Asked after input, until that is used up and [`Connection::has_event`] is false, and after
    /// `handle_sent` (with an empty input) if that is true: `Writable` comes from either. The event never borrows from `self`, so it may be answered while it is in hand.
    ///
    /// # Errors
    /// The peer broke the protocol. The reply it deserves is queued; no further event follows. What
    /// it has broken it with stands in front of `input` until the next call, which drops it.
    fn poll_event<'a>(
        &mut self,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Event<'a, Self::Role>>, PeerError>;

    /// True if [`Connection::poll_event`] has something to tell without more input.
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

    /// `bytes` of them were moved, without [`Connection::poll_event`], which returns `End` after the
    /// last one. Those in a pipe have to be released, as `Data`; those in a file have not.
    ///
    /// # Panics
    /// If they are more than [`Connection::splice_len`] returned.
    fn handle_spliced(&mut self, bytes: u64, _target: SpliceTarget) {
        assert_eq!(bytes, 0, "no byte may bypass this connection");
    }

    /// Gives back `bytes` of received body. HTTP/2 widens the window; HTTP/1 reads on.
    fn release(&mut self, stream: StreamId, bytes: usize);

    /// Exchanges of our own that may start now: 0 on a server, up to the pipelining depth on a
    /// client.
    fn vacancy(&self) -> u32;

    /// A new exchange of our own, if one may start now. Always `None` on a server.
    fn open(&mut self) -> Option<StreamId>;

    /// Queues the head of our next message; `len` alone decides the framing.
    ///
    /// A 1xx head may be followed by another.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    fn send_head(
        &mut self,
        stream: StreamId,
        head: <Self::Role as Role>::Send<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError>;

    /// Queues body bytes, wherever they live. What belongs to a message without a body (the
    /// answer to HEAD) is counted and not sent, so a handler needs no second path.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    fn send_data(&mut self, stream: StreamId, data: Segment) -> Result<(), UsageError>;

    /// Ends our message. Trailers are sent where the framing has a place for them (chunked).
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    fn send_end(&mut self, stream: StreamId, trailers: Headers<'_>) -> Result<(), UsageError>;

    /// Ends the exchange in both directions, without the rest of its messages. In HTTP/1 this
    /// closes the connection.
    fn reset(&mut self, stream: StreamId, reason: Reset);

    /// While a stream is held, nothing of it is read, and no event but `Writable` is returned for
    /// it. HTTP/1 has one stream at a time: all input is held, and remains with its owner.
    fn set_held(&mut self, stream: StreamId, held: bool);

    /// Queued bytes of the stream that are not sent yet. HTTP/1 sends in order: those of all its
    /// streams.
    fn unsent(&self, stream: StreamId) -> u64;

    /// True if bytes that [`Connection::poll_transmit`] has returned are not sent yet. It may be
    /// false although more is queued: a transmit may contain less than that.
    fn has_unsent(&self) -> bool {
        self.io_state().wants_write
    }

    /// The exchange in hand, if any, is the last one: our next head says so (`Connection: close`).
    /// A connection at rest is closed at once.
    fn close_after(&mut self);

    /// Bytes have arrived while [`IoState::wants_read`] is false, and have not been received. If the
    /// exchange in hand is the last one, closing would reset the connection and could destroy the
    /// response. So the connection drains the input first (RFC 9112 §9.6).
    fn handle_unread(&mut self) {}

    /// The peer took too long over its message. True if it can be told so: the answer is queued,
    /// and no event follows. False: nothing is changed, and whoever owns the connection closes it.
    fn handle_late(&mut self) -> bool {
        false
    }

    /// Bytes of the body or tunnel in hand that may be queued before it is better to wait; after 0
    /// a `Writable` follows. Before its head and after its end there is no room either.
    fn room(&self, stream: StreamId) -> u64;

    /// What may be sent now. Repeating the call without `handle_sent` gives the same answer.
    fn poll_transmit(&mut self) -> Option<Transmit<'_>>;

    /// The first `bytes` of the transmit have left; what remains is kept, and no longer shares
    /// memory with the input.
    fn handle_sent(&mut self, bytes: u64);

    /// The layer between this connection and its socket holds `bytes` for the socket. They count as
    /// queued in memory. Reported before the [`Connection::handle_sent`] that passed them on.
    fn handle_layer_queue(&mut self, _bytes: u64) {}

    /// The most received bytes that may wait unread. The connection does not read beyond them.
    fn unread_max(&self) -> usize {
        usize::MAX
    }

    /// True if the peer has said that it will send no more than the message in hand. Of anybody
    /// else something may be on its way, and a close that meets it takes back what has not left.
    fn expects_no_more_requests(&self) -> bool {
        false
    }

    /// What it wants now of whoever owns its socket and the clock.
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

/// What a connection wants of whoever owns its socket and the clock, as one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoState {
    /// Whose turn it is, for whoever owns the clock.
    pub phase: Phase,
    /// [`Connection::poll_transmit`] has something.
    pub wants_write: bool,
    /// False while the peer must wait for us: the driver stops reading.
    pub wants_read: bool,
    /// True once our side has said everything: a FIN may follow the last byte. Never true of one
    /// that was given up in the middle of a message.
    pub finished: bool,
    /// True once nothing more will be read or written.
    pub closed: bool,
}

/// What a connection waits for. Protocols have no clock: policy puts a deadline on each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// What lies between the socket and the connection is still being set up. No connection says
    /// this of itself; who puts it onto a layer does.
    Handshake,
    /// No exchange is open and nothing has arrived.
    Idle,
    /// The peer has begun a head and owes the rest.
    Head,
    /// The peer has begun a body and owes the rest.
    Body,
    /// The peer owes the answer to our request.
    Response,
    /// The application owes the next bytes, or the release of those it was given.
    Application,
    /// The peer must take what is queued.
    Send,
    /// We have said everything; the peer must close.
    Linger,
    /// After an upgrade: bytes both ways, without messages.
    Tunnel,
}

/// The peer broke the protocol. The reply it deserves is already queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// The start line and fields are longer than [`crate::h1::HEAD_SIZE_MAX`].
    HeadTooLarge,
    /// More fields than [`crate::h1::FIELDS_LEN_MAX`].
    TooManyFields,
    /// The request target is longer than [`crate::h1::TARGET_SIZE_MAX`] (RFC 9112 §3).
    TargetTooLong,
    /// The method is longer than [`crate::h1::METHOD_SIZE_MAX`] (RFC 9112 §3).
    MethodTooLong,
    /// The start line is not one of HTTP/1 (RFC 9112 §3, §4).
    BadStartLine,
    /// The request target is not one of the four forms (RFC 9112 §3.2).
    BadTarget,
    /// A version that this connection does not speak (RFC 9110 §15.6.6).
    BadVersion,
    /// A field name, value or line end that the grammar does not allow (RFC 9112 §5, §2.2).
    BadField,
    /// `Host` is missing, repeated, malformed, or differs from the target (RFC 9112 §3.2).
    BadHost,
    /// `Content-Length` is malformed, repeated, or stands beside `Transfer-Encoding` (§6.3).
    BadLength,
    /// `Transfer-Encoding` does not end the message, or came with HTTP/1.0 (§6.1, §6.3).
    BadTransferEncoding,
    /// A transfer coding that we do not implement (§6.1).
    UnknownTransferCoding,
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    UnknownExpectation,
    /// The chunked framing is broken, or its extensions are too long (§7.1).
    BadChunk,
    /// A trailer field that the grammar or our limits do not allow (§7.1.2).
    BadTrailer,
    /// The connection ended inside a message (§8).
    UnexpectedEof,
    /// Bytes arrived that belong to no exchange.
    Unsolicited,
    /// 101 without having been asked for, or to something that cannot be upgraded (§15.2.2).
    UnexpectedUpgrade,
    /// More interim responses than [`crate::h1::INTERIM_LEN_MAX`].
    TooManyInterim,
}

impl PeerError {
    /// The status with which a server answers it, if there is somebody to answer.
    pub fn status(self) -> u16 {
        match self {
            Self::HeadTooLarge | Self::TooManyFields => 431,
            Self::TargetTooLong => 414,
            Self::MethodTooLong | Self::UnknownTransferCoding => 501,
            Self::BadVersion => 505,
            Self::UnknownExpectation => 417,
            _ => 400,
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeadTooLarge => "the head is too large",
            Self::TooManyFields => "the head has too many fields",
            Self::TargetTooLong => "the request target is too long",
            Self::MethodTooLong => "the method is too long",
            Self::BadStartLine => "the start line is malformed",
            Self::BadTarget => "the request target is malformed",
            Self::BadVersion => "the HTTP version is not supported",
            Self::BadField => "a header field is malformed",
            Self::BadHost => "the Host field is missing or malformed",
            Self::BadLength => "the Content-Length is malformed or ambiguous",
            Self::BadTransferEncoding => "the Transfer-Encoding is malformed or misplaced",
            Self::UnknownTransferCoding => "the transfer coding is not implemented",
            Self::UnknownExpectation => "the expectation is not supported",
            Self::BadChunk => "the chunked framing is malformed",
            Self::BadTrailer => "a trailer field is malformed",
            Self::UnexpectedEof => "the connection ended inside a message",
            Self::Unsolicited => "bytes arrived that belong to no exchange",
            Self::UnexpectedUpgrade => "an upgrade that was not asked for",
            Self::TooManyInterim => "too many interim responses",
        })
    }
}

impl std::error::Error for PeerError {}

/// The caller broke the contract. Nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageError {
    /// The head of this message has been sent.
    HeadAlreadySent,
    /// No such exchange is open, or its head has not been sent.
    NoSuchStream,
    /// More body than the head declared, or a body where none is allowed.
    BodyLongerThanDeclared,
    /// The body ended before the length that the head declared.
    BodyShorterThanDeclared,
    /// A method, target, field or trailer that would break the message (RFC 9110 §5.5).
    BadHead,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeadAlreadySent => "the head of this message has been sent already",
            Self::NoSuchStream => "no such exchange is open for sending",
            Self::BodyLongerThanDeclared => "the body is longer than the head declared",
            Self::BodyShorterThanDeclared => "the body is shorter than the head declared",
            Self::BadHead => "the head has a byte that is not allowed there",
        })
    }
}

impl std::error::Error for UsageError {}
