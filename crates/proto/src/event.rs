//! The roles of a connection, and its events.

use std::fmt::Debug;

use bytes::Bytes;

use crate::body_len::BodyLen;
use crate::error_code::ErrorCode;
use crate::errors::PeerError;
use crate::head::{Headers, Request, Response};

/// The side of a connection, which determines the heads that are sent and received.
pub trait Role: Debug + 'static {
    /// The head of sent messages.
    type Send<'a>: Copy + Debug;
    /// The head of received messages.
    type Recv<'a>: Copy + Debug;
}

/// The side that sends requests.
#[derive(Debug)]
pub enum Client {}

/// The side that sends responses.
#[derive(Debug)]
pub enum Server {}

/// Either side of a connection without messages.
#[derive(Debug)]
pub enum Raw {}

impl Role for Client {
    type Send<'a> = Request<'a>;
    type Recv<'a> = Response<'a>;
}

impl Role for Server {
    type Send<'a> = Response<'a>;
    type Recv<'a> = Request<'a>;
}

impl Role for Raw {
    type Send<'a> = ();
    type Recv<'a> = ();
}

/// One exchange on a connection: an HTTP/2 stream, or the nth HTTP/1 request. Never reused in
/// the life of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// A step of a received message. A message is `Head`, then any `Data`, then `End`.
///
/// The messages of HTTP/1 follow each other. In HTTP/2 the events of several streams alternate, and
/// a `Reset` may end each of them.
///
/// Borrows from the scratch or owns a share of the input, never borrows from the connection.
#[derive(Debug)]
pub enum Event<'a, R: Role> {
    /// A message begins. The framing is decided once, here.
    Head {
        /// The exchange it belongs to.
        stream: StreamId,
        /// Its start line and fields.
        head: R::Recv<'a>,
        /// The length of the body that follows.
        len: BodyLen,
    },
    /// An interim response (1xx); the final one is still to come.
    Informational {
        /// The exchange it belongs to.
        stream: StreamId,
        /// Its status and fields.
        head: Response<'a>,
    },
    /// Body bytes, to be released with [`crate::Connection::release`] after use.
    Data {
        /// The exchange they belong to.
        stream: StreamId,
        /// A share of the input. Of a stream of HTTP/2 that was held: a copy.
        bytes: Bytes,
    },
    /// The message is complete.
    End {
        /// The exchange it belongs to.
        stream: StreamId,
        /// Fields behind the body (HTTP/1: behind a chunked one); never merged into the head (RFC
        /// 9110 §6.5).
        trailers: Headers<'a>,
    },
    /// `room` was 0 and no longer is.
    Writable {
        /// The exchange that may continue to send.
        stream: StreamId,
    },
    /// HTTP/2: an exchange was reset: by the peer, because of a fault of the peer, because it
    /// stalled, or by its owner. No other event of it follows, and the connection goes on.
    Reset {
        /// The exchange that was reset.
        stream: StreamId,
        /// The reason. A number that RFC 9113 does not define is INTERNAL_ERROR (§7).
        code: ErrorCode,
        /// Bytes of our message that were queued and never framed. The framed ones are still sent.
        unsent: u64,
        /// Why, if neither peer nor owner reset it: a fault of the peer's message, or GOAWAY.
        cause: Option<PeerError>,
    },
    /// The exchange is a tunnel (101 of HTTP/1, or 2xx to CONNECT): `Data` and `send_data` are its
    /// bytes, `End` and `send_end` the ends of its directions. In HTTP/1 the tunnel is the whole
    /// connection, in HTTP/2 one stream.
    Upgraded {
        /// The exchange that requested it.
        stream: StreamId,
    },
}

impl<R: Role> Event<'_, R> {
    /// The exchange that the event is about.
    pub fn stream(&self) -> StreamId {
        match self {
            Self::Head { stream, .. }
            | Self::Informational { stream, .. }
            | Self::Data { stream, .. }
            | Self::End { stream, .. }
            | Self::Writable { stream }
            | Self::Reset { stream, .. }
            | Self::Upgraded { stream } => *stream,
        }
    }
}
