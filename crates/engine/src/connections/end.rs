//! The reasons for the end of a connection.

use std::io;

use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{LayerError, PeerError, Phase, StreamId};

use crate::SocketId;

/// Why a connection is gone.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// Both sides have ended, and everything was sent.
    Closed,
    /// The peer broke the protocol.
    Peer(PeerError),
    /// The layer between socket and connection failed: the error of its crate.
    Layer(LayerError),
    /// The socket failed.
    Failed(io::Error),
    /// The file failed into which a body was spliced.
    File(io::Error),
    /// A deadline passed in this phase, or too few bytes had moved in it; `None`: while connecting.
    TimedOut(Option<Phase>),
    /// HTTP/2: one stream was reset, with this error code (RFC 9113 §7). The
    /// connection goes on.
    Reset(ErrorCode),
    /// Its owner closed it with [`crate::Connections::cut`].
    Cut,
    /// The application panicked while it handled the connection.
    Panicked,
}

/// One exchange on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// The connection.
    pub socket: SocketId,
    /// The exchange on it.
    pub stream: StreamId,
}

/// A fault of the peer, which receives a response before the connection ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Broke(PeerError),
    LateHead,
    LateBody,
}

impl Fault {
    pub(super) fn end(self) -> End {
        match self {
            Self::Broke(error) => End::Peer(error),
            Self::LateHead => End::TimedOut(Some(Phase::Head)),
            Self::LateBody => End::TimedOut(Some(Phase::Body)),
        }
    }
}
