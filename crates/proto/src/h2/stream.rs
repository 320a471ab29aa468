//! One stream (RFC 9113 §5.1): what was received of one message, and what is sent of the other.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::block;
use crate::body_len::BodyLen;
use crate::error_code::ErrorCode;
use crate::errors::{PeerError, UsageError};
use crate::event::StreamId;
use crate::fields::HeaderBuf;
use crate::head::Scratch;
use crate::side::Side;
use crate::transmit::{FileRange, Segment};

use super::StreamReset;
use super::message::FieldSection;
use super::priority::StreamPriority;
use super::window::{RecvWindow, SendWindow};

/// A stream that is not closed.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) recv: RecvHalf,
    pub(super) send: SendHalf,
    pub(super) recv_window: RecvWindow,
    pub(super) send_window: SendWindow,
    /// Bytes that the owner has received, or that are in `parked`, and that were not released.
    pub(super) unreleased: u32,
    /// Events wait in `parked` until the owner continues.
    pub(super) held: bool,
    pub(super) parked: Parked,
    pub(super) purpose: StreamPurpose,
    /// The peer may wait for a 100 (server), or a 100 is expected (client).
    pub(super) expects_continue: bool,
    /// The owner has no room, and receives `Writable` once there is some.
    pub(super) is_full: bool,
    /// Server: bytes of the request that were dropped, as the response was complete.
    pub(super) drained: u32,
    /// A byte has moved since the last [`super::H2::sweep`].
    pub(super) moved: bool,
    /// Interim responses that were received.
    pub(super) interims: u8,
    pub(super) priority: StreamPriority,
    /// Body bytes that are not framed yet.
    pub(super) queue: SendQueue,
    /// The bytes of the connection up to the end of its last DATA frame.
    pub(super) framed: u64,
    /// The owner receives its id once the message is sent.
    pub(super) watched: bool,
    /// Sent behind the body, in place of END_STREAM in its last frame.
    pub(super) trailers: Option<Box<HeaderBuf>>,
}

/// What a stream is for, by the method of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPurpose {
    /// A request and its response.
    Messages,
    /// The request is HEAD: its response has no body.
    Head,
    /// The request is CONNECT: a 2xx response makes a tunnel of the stream.
    Connect,
    /// CONNECT was accepted: bytes both ways, without messages.
    Tunnel,
}

impl StreamPurpose {
    pub(super) fn of(method: &[u8]) -> Self {
        match method {
            b"HEAD" => Self::Head,
            b"CONNECT" => Self::Connect,
            _ => Self::Messages,
        }
    }
}

/// What was received of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvHalf {
    /// The head is next.
    Head,
    /// Body bytes; how many, if that was declared.
    Body(Option<u64>),
    /// END_STREAM has arrived, or nothing more is accepted.
    Ended,
}

/// The send state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendHalf {
    /// The head is next.
    Head,
    Body(BodyRest),
    /// The message is queued as a whole.
    Queued,
    /// END_STREAM was framed.
    Ended,
}

/// The rest of a body that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRest {
    Exact(u64),
    Unknown,
    /// Counted and not sent: the response to HEAD, 204, 304. At most this number.
    Silent(u64),
}

impl BodyRest {
    /// Subtracts bytes; true if they are sent.
    pub(super) fn take(&mut self, bytes: u64) -> Result<bool, UsageError> {
        match self {
            Self::Exact(left) | Self::Silent(left) => {
                *left = left.checked_sub(bytes).ok_or(UsageError::BodyLongerThanDeclared)?;
            }
            Self::Unknown => {}
        }
        Ok(!matches!(self, Self::Silent(_)))
    }
}

/// Received parts of a message whose stream is held.
#[derive(Debug, Default)]
pub(super) struct Parked {
    parts: VecDeque<ParkedPart<BytesMut>>,
    /// The message has ended, perhaps with trailers.
    pub(super) end: Option<Option<Box<HeaderBuf>>>,
}

/// A part before the end.
#[derive(Debug)]
pub(super) enum ParkedPart<B> {
    /// Client: the head of a response, or an interim one.
    Head(Box<ParkedHead>),
    /// Bytes of the body.
    Data(B),
}

/// The head of a response, with a copy of its fields.
#[derive(Debug)]
pub(super) struct ParkedHead {
    pub(super) section: FieldSection,
    /// The length of the body; `None` if the response is an interim one.
    pub(super) len: Option<BodyLen>,
    pub(super) scratch: Scratch,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.end.is_none()
    }

    pub(super) fn push_head(
        &mut self,
        section: FieldSection,
        len: Option<BodyLen>,
        from: &Scratch,
    ) {
        let scratch = from.clone();
        self.parts.push_back(ParkedPart::Head(Box::new(ParkedHead { section, len, scratch })));
    }

    /// Adds a copy of body bytes: they may wait long, and must not keep the memory of the input.
    /// Small ones are joined, as each piece has a cost of its own.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.parts.back_mut() {
            Some(ParkedPart::Data(last)) if last.len() + bytes.len() <= PIECE_SIZE_MAX => {
                last.extend_from_slice(bytes);
            }
            _ => self.parts.push_back(ParkedPart::Data(bytes.into())),
        }
    }

    /// Removes the first part.
    pub(super) fn pop(&mut self) -> Option<ParkedPart<Bytes>> {
        Some(match self.parts.pop_front()? {
            ParkedPart::Head(head) => ParkedPart::Head(head),
            ParkedPart::Data(bytes) => ParkedPart::Data(bytes.freeze()),
        })
    }
}

impl Stream {
    pub(super) fn new(id: StreamId, recv_window: u32, send_window: u32) -> Self {
        Self {
            id,
            recv: RecvHalf::Head,
            send: SendHalf::Head,
            recv_window: RecvWindow::new(recv_window),
            send_window: SendWindow::new(send_window),
            unreleased: 0,
            held: false,
            parked: Parked::default(),
            purpose: StreamPurpose::Messages,
            expects_continue: false,
            is_full: false,
            drained: 0,
            moved: true,
            interims: 0,
            priority: StreamPriority::default(),
            queue: SendQueue::default(),
            framed: 0,
            watched: false,
            trailers: None,
        }
    }

    /// The event of its reset.
    pub(super) fn as_reset(&self, code: ErrorCode, cause: Option<PeerError>) -> StreamReset {
        StreamReset { stream: self.id, code, unsent: self.queue.size(), cause }
    }

    /// True if the request is HEAD.
    pub(super) fn is_head(&self) -> bool {
        self.purpose == StreamPurpose::Head
    }

    /// True if the request is CONNECT, accepted or not.
    pub(super) fn is_connect(&self) -> bool {
        matches!(self.purpose, StreamPurpose::Connect | StreamPurpose::Tunnel)
    }

    /// True once CONNECT is accepted.
    pub(super) fn is_tunnel(&self) -> bool {
        self.purpose == StreamPurpose::Tunnel
    }

    /// The response has this status: it decides whether CONNECT makes a tunnel.
    pub(super) fn note_final_status(&mut self, status: u16) {
        if self.purpose == StreamPurpose::Connect && status < 300 {
            self.purpose = StreamPurpose::Tunnel;
        }
    }

    /// What can be framed next.
    pub(super) fn readiness(&self) -> Readiness {
        match self.send {
            SendHalf::Body(_) | SendHalf::Queued if !self.queue.is_empty() => {
                match self.send_window.is_open() {
                    true => Readiness::Data,
                    false => Readiness::Nothing,
                }
            }
            SendHalf::Queued => Readiness::End,
            SendHalf::Head | SendHalf::Body(_) | SendHalf::Ended => Readiness::Nothing,
        }
    }

    /// True if received parts wait for the owner: it holds the stream, or has not accepted the
    /// tunnel yet.
    pub(super) fn parks(&self) -> bool {
        self.held || self.awaits_tunnel() || !self.parked.is_empty()
    }

    /// Server: the response is complete, and the rest of the request has no use, held or not.
    pub(super) fn drains_request(&self) -> bool {
        !self.is_tunnel() && matches!(self.send, SendHalf::Queued | SendHalf::Ended)
    }

    /// True if more of the message may follow these bytes. A server receives a limited number of
    /// them behind a complete response.
    pub(super) fn may_continue<S: Side>(&mut self, bytes: u32) -> bool {
        if S::SERVER && self.drains_request() {
            self.drained = self.drained.saturating_add(bytes);
        }
        self.drained <= DRAIN_SIZE_MAX
    }

    /// Drops the rest of the message: the peer has no use for it.
    pub(super) fn stop_sending(&mut self) {
        self.send = SendHalf::Ended;
        self.queue = SendQueue::default();
        self.trailers = None;
    }

    /// True if the peer has to send the next bytes of its message: the rest of a body, or the
    /// response to a whole request. Those of a tunnel have no turn. `connection`: its window, which
    /// other streams may have used up that are held.
    pub(super) fn awaits_input(&self, connection: RecvWindow) -> bool {
        let is_due = match self.recv {
            RecvHalf::Head => matches!(self.send, SendHalf::Queued | SendHalf::Ended),
            RecvHalf::Body(_) if self.is_tunnel() || self.awaits_tunnel() => false,
            RecvHalf::Body(_) => self.recv_window.available().min(connection.available()) > 0,
            RecvHalf::Ended => false,
        };
        is_due && !self.expects_continue && (!self.held || self.drains_request())
    }

    /// True if bytes are queued that the peer's window excludes, or that of the connection.
    pub(super) fn awaits_window(&self, connection: SendWindow) -> bool {
        let is_open = self.send_window.is_open() && connection.is_open();
        !is_open && !self.queue.is_empty()
    }

    /// Server: the request is CONNECT, and has no response.
    pub(super) fn awaits_tunnel(&self) -> bool {
        self.is_connect() && self.send == SendHalf::Head
    }
}

/// What a stream can have framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Nothing,
    /// Bytes, within the windows.
    Data,
    /// The end of the message, which no window limits.
    End,
}

/// Body bytes in order.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    segments: VecDeque<Segment>,
    size: u64,
    /// The first segments, which share no block of inputs.
    unshared: usize,
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.size == 0
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn push(&mut self, segment: Segment) {
        if !segment.is_empty() {
            self.size += segment.len();
            self.segments.push_back(segment);
        }
    }

    /// Copies the segments that share a block of inputs.
    pub(super) fn unshare(&mut self) {
        for segment in self.segments.iter_mut().skip(self.unshared) {
            if let Segment::Bytes(bytes) = segment
                && block::is_share(bytes)
            {
                *bytes = Bytes::copy_from_slice(bytes);
            }
        }
        self.unshared = self.segments.len();
    }

    /// Removes the first bytes, at most `max` and at most a segment.
    pub(super) fn take(&mut self, max: u64) -> Option<Segment> {
        let front = self.segments.front_mut()?;
        let piece = match front.len() <= max {
            true => {
                self.unshared = self.unshared.saturating_sub(1);
                self.segments.pop_front()?
            }
            false => split(front, max),
        };
        self.size -= piece.len();
        Some(piece)
    }
}

/// Removes the first `n` bytes of a longer segment.
fn split(segment: &mut Segment, n: u64) -> Segment {
    let first = match segment {
        Segment::Bytes(bytes) => {
            let n = usize::try_from(n).expect("less than its length");
            return Segment::Bytes(bytes.split_to(n));
        }
        Segment::File(range) => Segment::File(FileRange { len: n, ..range.clone() }),
        Segment::Pipe(piped) => Segment::Pipe(crate::Piped { len: n, ..piped.clone() }),
    };
    segment.advance(n);
    first
}

/// Parked pieces are joined up to this size.
const PIECE_SIZE_MAX: usize = 16 * 1024;
/// Bytes of a request that a server drops behind its complete response, besides one window.
const DRAIN_SIZE_MAX: u32 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_and_files_are_split() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let file = std::sync::Arc::new(std::os::fd::OwnedFd::from(file));
        let mut queue = SendQueue::default();
        queue.push(Segment::from(&b"abc"[..]));
        queue.push(Segment::from(&b""[..]));
        queue.push(FileRange { file, offset: 10, len: 5 }.into());
        assert_eq!(queue.size(), 8);
        let bytes = |segment| match segment {
            Some(Segment::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes(queue.take(2)), "ab");
        assert_eq!(bytes(queue.take(2)), "c");
        let range = |segment| match segment {
            Some(Segment::File(range)) => (range.offset, range.len),
            other => panic!("{other:?}"),
        };
        assert_eq!(range(queue.take(3)), (10, 3));
        assert_eq!(range(queue.take(3)), (13, 2));
        assert!(queue.is_empty() && queue.take(1).is_none());
    }
}
