//! Walks over all connections: for ends and reports, not for a turn.

use fulmar_proto::Connection;

use crate::SocketId;
use crate::links::Links;

impl<C: Connection, T> Links<C, T> {
    /// All connections.
    pub fn sockets(&self) -> Vec<SocketId> {
        self.slots.keys().collect()
    }

    /// The same from an index of a socket on, in the order of indices: a walk that is done in parts
    /// costs what one in one go does.
    pub fn sockets_from(&self, index: u32) -> impl Iterator<Item = SocketId> {
        self.slots.keys_from(index)
    }
}
