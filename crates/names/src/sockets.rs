//! Changes of c-ares's sockets for the event loop.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use fulmar_drive::{Interest, Watch};

/// Reduces the socket notes of one c-ares call to their net effect.
///
/// A socket that was opened and closed within the call is omitted. A number that was closed and
/// opened again is a new socket.
#[derive(Debug, Default)]
pub(crate) struct SocketChanges {
    reported: Vec<(RawFd, Interest)>, // few entries: linear search
    changes: VecDeque<Watch>,
}

impl SocketChanges {
    /// No interest means that the socket is about to be closed.
    pub(crate) fn note(&mut self, socket: RawFd, interest: Interest) {
        let is_same =
            |changes: &Watch| matches!(changes, Watch::For { socket: s, .. } if *s == socket);
        self.changes.retain(|changes| !is_same(changes));
        if interest != Interest::default() {
            self.changes.push_back(Watch::For { socket, interest });
        } else if let Some(at) = self.reported.iter().position(|reported| reported.0 == socket) {
            self.reported.swap_remove(at);
            self.changes.push_back(Watch::Closed { socket });
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Watch> {
        loop {
            let changes = self.changes.pop_front()?;
            let Watch::For { socket, interest } = changes else { return Some(changes) };
            match self.reported.iter_mut().find(|reported| reported.0 == socket) {
                Some(reported) if reported.1 == interest => continue,
                Some(reported) => reported.1 = interest,
                None => self.reported.push((socket, interest)),
            }
            return Some(changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Interest = Interest { read: false, write: false, hangup: false };
    const READ: Interest = Interest { read: true, write: false, hangup: false };
    const BOTH: Interest = Interest { read: true, write: true, hangup: false };

    fn changes(sockets: &mut SocketChanges, notes: &[(RawFd, Interest)]) -> Vec<Watch> {
        notes.iter().for_each(|(socket, interest)| sockets.note(*socket, *interest));
        std::iter::from_fn(|| sockets.poll()).collect()
    }

    #[test]
    fn only_the_net_effect_is_reported() {
        let open = |socket, interest| Watch::For { socket, interest };
        let closed = |socket| Watch::Closed { socket };
        let mut sockets = SocketChanges::default();
        assert_eq!(changes(&mut sockets, &[(5, BOTH), (5, READ)]), [open(5, READ)]);
        assert_eq!(changes(&mut sockets, &[(5, BOTH), (5, READ)]), []);
        assert_eq!(changes(&mut sockets, &[(5, BOTH)]), [open(5, BOTH)]);
        assert_eq!(changes(&mut sockets, &[(6, READ), (6, NONE)]), []);
        assert_eq!(changes(&mut sockets, &[(5, NONE), (5, BOTH)]), [closed(5), open(5, BOTH)]);
        assert_eq!(
            changes(&mut sockets, &[(5, READ), (5, NONE), (5, READ), (5, NONE)]),
            [closed(5)]
        );
        assert_eq!(changes(&mut sockets, &[(5, NONE)]), [], "not reported, so not closed");
    }
}
