//! The open sockets of a multi handle, by the client's name and by descriptor.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use fulmar_drive::SocketId;

use crate::values::CPointer;

/// What is known of each socket that is open.
#[derive(Debug, Default)]
pub(crate) struct OpenSockets {
    /// By the index of the name.
    sockets: Vec<Option<OpenSocket>>,
    /// Names by descriptor.
    names: Vec<Option<SocketId>>,
}

/// A socket for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSocket {
    pub(crate) id: SocketId,
    pub(crate) fd: RawFd,
    pub(crate) local: Option<SocketAddr>,
    /// `CURLOPT_CLOSESOCKETFUNCTION` and its argument when it was opened.
    pub(crate) close: (CPointer, CPointer),
}

impl OpenSockets {
    pub(crate) fn insert(&mut self, socket: OpenSocket) {
        let index = socket.id.index as usize;
        if self.sockets.len() <= index {
            self.sockets.resize(index + 1, None);
        }
        let at = position(socket.fd);
        if self.names.len() <= at {
            self.names.resize(at + 1, None);
        }
        self.names[at] = Some(socket.id);
        self.sockets[index] = Some(socket);
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&OpenSocket> {
        self.sockets.get(id.index as usize)?.as_ref().filter(|socket| socket.id == id)
    }

    pub(crate) fn set_local(&mut self, id: SocketId, local: Option<SocketAddr>) {
        if let Some(Some(socket)) = self.sockets.get_mut(id.index as usize) {
            socket.local = local;
        }
    }

    /// Removes the socket of a descriptor that is closed, and returns its close function with the
    /// argument. The name may belong to another socket by now.
    pub(crate) fn remove(&mut self, fd: RawFd) -> Option<OpenSocket> {
        let id = self.names.get_mut(position(fd))?.take()?;
        self.sockets.get_mut(id.index as usize)?.take_if(|socket| socket.fd == fd)
    }
}

fn position(fd: RawFd) -> usize {
    usize::try_from(fd).expect("open descriptors are not negative")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_name_and_removed_by_descriptor() {
        let id = |index, generation| SocketId { index, generation };
        let socket =
            |id, fd| OpenSocket { id, fd, local: None, close: (CPointer::NULL, CPointer::NULL) };
        let mut sockets = OpenSockets::default();
        sockets.insert(socket(id(2, 0), 7));
        sockets.insert(socket(id(0, 0), 9));
        assert_eq!(sockets.get(id(2, 0)).map(|it| it.fd), Some(7));
        assert!(sockets.get(id(2, 1)).is_none(), "a later name of the slot");
        assert_eq!(sockets.remove(7).map(|it| it.id), Some(id(2, 0)));
        assert!(sockets.remove(7).is_none() && sockets.get(id(2, 0)).is_none());
        assert!(sockets.remove(100).is_none());
        assert_eq!(sockets.get(id(0, 0)).map(|it| it.fd), Some(9));
    }
}
