//! The open sockets of a multi handle, by the client's name and by descriptor.

use std::collections::HashMap;
use std::ffi::c_void;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicPtr;

use fulmar_drive::SocketId;

use crate::values::CPointer;

/// The open sockets.
#[derive(Debug, Default)]
pub(crate) struct OpenSockets {
    /// By descriptor.
    sockets: HashMap<RawFd, OpenSocket>,
    /// Descriptors by the index of the name. A name of one that is not closed yet may belong to
    /// another one.
    descriptors: Vec<Option<RawFd>>,
    /// A server has responded with HTTP/1.0.
    has_http10: bool,
}

/// A socket for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSocket {
    pub(crate) id: SocketId,
    pub(crate) fd: RawFd,
    pub(crate) local: Option<SocketAddr>,
    /// The last response was of HTTP/1.0.
    pub(crate) is_http10: bool,
    /// `CURLOPT_CLOSESOCKETFUNCTION` and its argument when it was opened.
    pub(crate) close: (CPointer, CPointer),
}

impl OpenSockets {
    pub(crate) fn insert(&mut self, socket: OpenSocket) {
        let index = socket.id.index as usize;
        if self.descriptors.len() <= index {
            self.descriptors.resize(index + 1, None);
        }
        self.descriptors[index] = Some(socket.fd);
        self.sockets.insert(socket.fd, socket);
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&OpenSocket> {
        let fd = (*self.descriptors.get(id.index as usize)?)?;
        self.sockets.get(&fd).filter(|socket| socket.id == id)
    }

    pub(crate) fn set_local(&mut self, id: SocketId, local: Option<SocketAddr>) {
        if let Some(socket) = self.find_mut(id) {
            socket.local = local;
        }
    }

    /// The server of a connection has responded with HTTP/1.0, or with a later version.
    pub(crate) fn note_version(&mut self, id: SocketId, is_http10: bool) {
        self.has_http10 |= is_http10;
        if self.has_http10
            && let Some(socket) = self.find_mut(id)
        {
            socket.is_http10 = is_http10;
        }
    }

    /// True if any server has responded with HTTP/1.0.
    pub(crate) fn has_http10(&self) -> bool {
        self.has_http10
    }

    fn find_mut(&mut self, id: SocketId) -> Option<&mut OpenSocket> {
        let fd = (*self.descriptors.get(id.index as usize)?)?;
        self.sockets.get_mut(&fd).filter(|socket| socket.id == id)
    }

    /// Removes the socket of a descriptor that is closed, and returns its close function with the
    /// argument.
    pub(crate) fn remove(&mut self, fd: RawFd) -> Option<OpenSocket> {
        let socket = self.sockets.remove(&fd)?;
        self.descriptors[socket.id.index as usize].take_if(|known| *known == fd);
        Some(socket)
    }
}

/// The open sockets of a client that may go to another thread.
#[derive(Debug, Default)]
pub(crate) struct SharedSockets {
    sockets: Vec<SharedSocket>,
    has_http10: bool,
}

#[derive(Debug)]
struct SharedSocket {
    id: SocketId,
    fd: RawFd,
    local: Option<SocketAddr>,
    is_http10: bool,
    close: [AtomicPtr<c_void>; 2],
}

impl From<OpenSockets> for SharedSockets {
    fn from(open: OpenSockets) -> Self {
        let shared = |socket: OpenSocket| {
            let OpenSocket { id, fd, local, is_http10, close: (function, user) } = socket;
            let close = [function, user].map(|pointer| AtomicPtr::new(pointer.0));
            SharedSocket { id, fd, local, is_http10, close }
        };
        let OpenSockets { sockets, has_http10, .. } = open;
        Self { sockets: sockets.into_values().map(shared).collect(), has_http10 }
    }
}

impl From<SharedSockets> for OpenSockets {
    fn from(shared: SharedSockets) -> Self {
        let SharedSockets { sockets, has_http10 } = shared;
        let mut open = Self { has_http10, ..Self::default() };
        for SharedSocket { id, fd, local, is_http10, close } in sockets {
            let [function, user] = close.map(|pointer| CPointer(pointer.into_inner()));
            open.insert(OpenSocket { id, fd, local, is_http10, close: (function, user) });
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_name_and_removed_by_descriptor() {
        let id = |index, generation| SocketId { index, generation };
        let socket = |id, fd| OpenSocket {
            id,
            fd,
            local: None,
            is_http10: false,
            close: (CPointer::NULL, CPointer::NULL),
        };
        let mut sockets = OpenSockets::default();
        sockets.insert(socket(id(2, 0), 7));
        sockets.insert(socket(id(0, 0), 9));
        assert_eq!(sockets.get(id(2, 0)).map(|it| it.fd), Some(7));
        assert!(sockets.get(id(2, 1)).is_none(), "a later name of the slot");
        assert_eq!(sockets.remove(7).map(|it| it.id), Some(id(2, 0)));
        assert!(sockets.remove(7).is_none() && sockets.get(id(2, 0)).is_none());
        assert!(sockets.remove(100).is_none());
        assert_eq!(sockets.get(id(0, 0)).map(|it| it.fd), Some(9));
        sockets.insert(socket(id(0, 1), 8));
        assert_eq!(sockets.remove(9).map(|it| it.id), Some(id(0, 0)), "its name has another one");
        assert_eq!(sockets.get(id(0, 1)).map(|it| it.fd), Some(8));
    }
}
