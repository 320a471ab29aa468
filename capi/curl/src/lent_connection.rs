//! The state of a connection that the application uses itself.

use bytes::Bytes;
use fulmar_client::TransferId;
use fulmar_drive::SocketId;

/// A connection that the application uses.
#[derive(Debug)]
pub(crate) struct LentConnection {
    pub(crate) id: TransferId,
    pub(crate) socket: SocketId,
    pub(crate) has_tls: bool,
    /// Bytes above TLS that were not returned yet.
    pub(crate) received: Bytes,
    /// There is room for bytes above TLS.
    pub(crate) has_room: bool,
    /// The connection has ended: behind `received`.
    pub(crate) ended: Option<Result<(), String>>,
}
