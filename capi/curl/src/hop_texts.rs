//! What verbose output needs of the current request of a transfer.

use bytes::Bytes;
use fulmar_drive::{Peer, SocketId};

/// Verbose output of the current request.
#[derive(Debug, Default)]
pub(crate) struct HopTexts {
    /// The request, which is printed once its connection is known.
    pub(crate) request: Option<PendingRequest>,
    /// The request is sent in a tunnel that was opened for it.
    pub(crate) in_tunnel: bool,
    /// The number of the connection.
    pub(crate) number: Option<u32>,
    /// The name of the peer was resolved before.
    pub(crate) was_resolved: bool,
    /// The last address that was tried.
    pub(crate) tried: Option<Peer>,
    /// The connection, once it is known.
    pub(crate) connection: Option<SocketId>,
    /// Its end was printed.
    pub(crate) is_over: bool,
}

/// What is printed of a request.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    /// What is printed before it.
    pub(crate) texts: Vec<String>,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
}
