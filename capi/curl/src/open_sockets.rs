//! The open sockets of a multi handle, by the client's name and by descriptor.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicPtr;
use std::time::Instant;

use fulmar_drive::SocketId;

use crate::values::CPointer;

/// The open sockets.
#[derive(Debug, Default)]
pub(crate) struct OpenSockets {
    /// By the index of the name.
    sockets: Vec<Option<OpenSocket>>,
    /// Indices of names, by descriptor.
    indices: HashMap<RawFd, u32>,
    /// Sockets that are not closed yet, and whose name belongs to another one.
    renamed: Vec<OpenSocket>,
    /// A server has responded with HTTP/1.0.
    has_http10: bool,
    /// Connections so far: the number of the next one.
    numbered: u32,
    rare: Option<Box<RareSockets>>,
}

/// What few handles need of their sockets.
#[derive(Debug, Default)]
struct RareSockets {
    /// Those whose last response was of HTTP/1.0.
    http10: Vec<SocketId>,
    /// Those whose transfers have verbose output.
    labels: Vec<(SocketId, SocketLabel)>,
    /// Closed connections whose end was not printed.
    closed: VecDeque<SocketLabel>,
}

/// A socket for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSocket {
    pub(crate) id: SocketId,
    pub(crate) fd: RawFd,
    pub(crate) local: Option<SocketAddr>,
    /// `CURLOPT_CLOSESOCKETFUNCTION` and its argument when it was opened.
    pub(crate) close: (CPointer, CPointer),
    /// The number of its connection in verbose output.
    pub(crate) number: u32,
}

/// What verbose output needs of a connection.
#[derive(Debug)]
pub(crate) struct SocketLabel {
    pub(crate) number: u32,
    /// Its host and port.
    pub(crate) bundle: String,
    pub(crate) opened: Instant,
    pub(crate) is_http2: bool,
    /// It has served a request, and its end is to be printed.
    pub(crate) is_used: bool,
}

impl OpenSockets {
    /// The number of a connection that is opened.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.numbered = self.numbered.wrapping_add(1);
        self.numbered.wrapping_sub(1)
    }

    /// A connection has a name in verbose output.
    pub(crate) fn label(&mut self, id: SocketId, label: SocketLabel) {
        self.rare().labels.push((id, label));
    }

    fn rare(&mut self) -> &mut RareSockets {
        self.rare.get_or_insert_default()
    }

    /// Whether there are connections with this name, and any is one of HTTP/2.
    pub(crate) fn bundle(&self, name: &str) -> Option<bool> {
        let rare = self.rare.as_ref()?;
        let labels = rare.labels.iter().map(|(_, label)| label).chain(&rare.closed);
        let named = labels.filter(|label| label.is_used && label.bundle == name);
        named.map(|label| label.is_http2).reduce(|one, other| one | other)
    }

    /// A request begins on a connection, which is of HTTP/2 or not.
    pub(crate) fn note_use(&mut self, id: SocketId, is_http2: bool) {
        let labels = self.rare.iter_mut().flat_map(|rare| &mut rare.labels);
        for (_, label) in labels.filter(|(known, _)| *known == id) {
            (label.is_used, label.is_http2) = (true, is_http2);
        }
    }

    /// True for one of HTTP/2 with verbose output.
    pub(crate) fn is_http2(&self, id: SocketId) -> bool {
        let labels = self.rare.iter().flat_map(|rare| &rare.labels);
        labels.filter(|(known, _)| *known == id).any(|(_, label)| label.is_http2)
    }

    /// The end of a connection was printed.
    pub(crate) fn end_number(&mut self, number: u32) {
        let Some(rare) = &mut self.rare else { return };
        rare.closed.retain(|label| label.number != number);
        for (_, label) in rare.labels.iter_mut().filter(|(_, label)| label.number == number) {
            label.is_used = false;
        }
    }

    /// No end of a connection so far is printed.
    pub(crate) fn forget_closed(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.closed.clear();
        }
    }

    /// The connections whose end is to be printed, and when they were opened, in the order of their
    /// numbers.
    pub(crate) fn take_closed(
        &mut self,
        is_open: impl Fn(SocketId) -> bool,
    ) -> Vec<(u32, Instant)> {
        let Some(rare) = &mut self.rare else { return Vec::new() };
        let closed = std::mem::take(&mut rare.closed).into_iter();
        let mut closed: Vec<_> = closed.map(|label| (label.number, label.opened)).collect();
        for (id, label) in &mut rare.labels {
            if label.is_used && !is_open(*id) {
                label.is_used = false;
                closed.push((label.number, label.opened));
            }
        }
        closed.sort_unstable();
        closed
    }

    pub(crate) fn insert(&mut self, socket: OpenSocket) {
        let index = socket.id.index as usize;
        if self.sockets.len() <= index {
            if self.sockets.capacity() == 0 {
                self.sockets.reserve_exact(index + 1); // multi handles of one connection are many
            }
            self.sockets.resize(index + 1, None);
        }
        // Forgets the earlier socket of the descriptor, if its end was not reported.
        self.take(socket.fd);
        if let Some(before) = self.sockets[index].replace(socket) {
            self.indices.remove(&before.fd);
            self.renamed.push(before);
        }
        self.indices.insert(socket.fd, socket.id.index);
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&OpenSocket> {
        let socket = self.sockets.get(id.index as usize)?.as_ref();
        socket.filter(|socket| socket.id == id)
    }

    pub(crate) fn set_local(&mut self, id: SocketId, local: Option<SocketAddr>) {
        if let Some(socket) = self.find_mut(id) {
            socket.local = local;
        }
    }

    /// The server of a connection has responded with HTTP/1.0, or with a later version.
    pub(crate) fn note_version(&mut self, id: SocketId, is_http10: bool) {
        self.has_http10 |= is_http10;
        if self.has_http10 {
            let http10 = &mut self.rare().http10;
            http10.retain(|known| *known != id);
            if is_http10 {
                http10.push(id);
            }
        }
    }

    /// True if the last response on a connection was of HTTP/1.0.
    pub(crate) fn is_http10(&self, id: SocketId) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.http10.contains(&id))
    }

    /// True if any server has responded with HTTP/1.0.
    pub(crate) fn has_http10(&self) -> bool {
        self.has_http10
    }

    fn find_mut(&mut self, id: SocketId) -> Option<&mut OpenSocket> {
        let socket = self.sockets.get_mut(id.index as usize)?.as_mut();
        socket.filter(|socket| socket.id == id)
    }

    /// Removes the socket of a descriptor that is closed, and returns its close function with the
    /// argument.
    pub(crate) fn remove(&mut self, fd: RawFd) -> Option<OpenSocket> {
        let socket = self.take(fd)?;
        if let Some(rare) = &mut self.rare {
            rare.http10.retain(|id| *id != socket.id);
            let (gone, open) =
                std::mem::take(&mut rare.labels).into_iter().partition(|(id, _)| *id == socket.id);
            rare.labels = open;
            let gone: Vec<_> = gone;
            for (_, label) in gone.into_iter().filter(|(_, label)| label.is_used) {
                if rare.closed.len() == CLOSED_MAX {
                    rare.closed.pop_front();
                }
                rare.closed.push_back(label);
            }
        }
        Some(socket)
    }

    fn take(&mut self, fd: RawFd) -> Option<OpenSocket> {
        match self.indices.remove(&fd) {
            Some(index) => self.sockets[index as usize].take(),
            None => {
                let at = self.renamed.iter().position(|socket| socket.fd == fd)?;
                Some(self.renamed.swap_remove(at))
            }
        }
    }
}

/// The open sockets of a client that may go to another thread.
#[derive(Debug, Default)]
pub(crate) struct SharedSockets {
    sockets: Vec<SharedSocket>,
    has_http10: bool,
    numbered: u32,
    rare: Option<Box<RareSockets>>,
}

#[derive(Debug)]
struct SharedSocket {
    id: SocketId,
    fd: RawFd,
    local: Option<SocketAddr>,
    close: [AtomicPtr<c_void>; 2],
    number: u32,
}

impl From<OpenSockets> for SharedSockets {
    fn from(open: OpenSockets) -> Self {
        let shared = |socket: OpenSocket| {
            let OpenSocket { id, fd, local, close: (function, user), number } = socket;
            let close = [function, user].map(|pointer| AtomicPtr::new(pointer.0));
            SharedSocket { id, fd, local, close, number }
        };
        let OpenSockets { sockets, renamed, has_http10, numbered, rare, .. } = open;
        let sockets = renamed.into_iter().chain(sockets.into_iter().flatten());
        Self { sockets: sockets.map(shared).collect(), has_http10, numbered, rare }
    }
}

impl From<SharedSockets> for OpenSockets {
    fn from(shared: SharedSockets) -> Self {
        let SharedSockets { sockets, has_http10, numbered, rare } = shared;
        let mut open = Self { has_http10, numbered, rare, ..Self::default() };
        for SharedSocket { id, fd, local, close, number } in sockets {
            let [function, user] = close.map(|pointer| CPointer(pointer.into_inner()));
            open.insert(OpenSocket { id, fd, local, close: (function, user), number });
        }
        open
    }
}

/// Connections whose end may still be printed.
const CLOSED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use fulmar_sys as sys;

    use super::*;

    fn id(index: u32, generation: u32) -> SocketId {
        SocketId { index, generation }
    }

    fn socket(id: SocketId, fd: RawFd) -> OpenSocket {
        OpenSocket { id, fd, local: None, close: (CPointer::NULL, CPointer::NULL), number: 0 }
    }

    #[test]
    fn sockets_are_found_by_name_and_removed_by_descriptor() {
        let mut sockets = OpenSockets::default();
        sockets.insert(socket(id(2, 0), 7));
        sockets.insert(socket(id(0, 0), 9));
        sockets.note_version(id(0, 0), true);
        assert_eq!(sockets.get(id(2, 0)).map(|it| it.fd), Some(7));
        assert!(sockets.get(id(2, 1)).is_none(), "a later name of the slot");
        assert_eq!(sockets.remove(7).map(|it| it.id), Some(id(2, 0)));
        assert!(sockets.remove(7).is_none() && sockets.get(id(2, 0)).is_none());
        assert!(sockets.remove(100).is_none());
        assert_eq!(sockets.get(id(0, 0)).map(|it| it.fd), Some(9));
        sockets.insert(socket(id(0, 1), 8));
        assert!(sockets.is_http10(id(0, 0)) && !sockets.is_http10(id(0, 1)));
        assert_eq!(sockets.remove(9).map(|it| it.id), Some(id(0, 0)), "its name has another one");
        assert!(!sockets.is_http10(id(0, 0)) && sockets.has_http10());
        assert_eq!(sockets.get(id(0, 1)).map(|it| it.fd), Some(8));
    }

    /// Opens a connection, and begins a request on it.
    fn open(sockets: &mut OpenSockets) {
        let number = sockets.next_number();
        let fd = RawFd::try_from(number).expect("few");
        sockets.insert(OpenSocket { number, ..socket(id(number, 0), fd) });
        let bundle = "host:80".to_owned();
        let label =
            SocketLabel { number, bundle, opened: sys::now(), is_http2: false, is_used: false };
        sockets.label(id(number, 0), label);
        sockets.note_use(id(number, 0), number == 1);
    }

    fn closed(sockets: &mut OpenSockets, open: &[u32]) -> Vec<u32> {
        let closed = sockets.take_closed(|id| open.contains(&id.index));
        closed.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn ends_of_connections_are_printed_once() {
        let mut sockets = OpenSockets::default();
        (0..4).for_each(|_| open(&mut sockets));
        assert_eq!((sockets.bundle("host:80"), sockets.bundle("other:80")), (Some(true), None));
        sockets.remove(2);
        sockets.end_number(3);
        assert_eq!(closed(&mut sockets, &[0]), [1, 2]);
        assert!(closed(&mut sockets, &[0]).is_empty());
        assert_eq!(sockets.bundle("host:80"), Some(false), "of the open one");
        (0..=CLOSED_MAX).for_each(|_| open(&mut sockets));
        for fd in 4..=4 + RawFd::try_from(CLOSED_MAX).expect("few") {
            sockets.remove(fd);
        }
        let ended = closed(&mut sockets, &[0]);
        assert_eq!((ended.len(), ended[0]), (CLOSED_MAX, 5), "the first one was dropped");
        sockets.remove(0);
        sockets.forget_closed();
        assert!(closed(&mut sockets, &[]).is_empty());
    }
}
