//! What the loop has to know about c-ares's sockets.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use fulmar_drive::{Interest, Watch};

/// Turns the notes that c-ares makes during one call, in their order, into what is news.
///
/// A socket that was opened and closed within the call is none; a number that was closed and
/// opened again is another socket.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    told: Vec<(RawFd, Interest)>, // a few: they are searched
    news: VecDeque<Watch>,
}

impl Sockets {
    /// `interest` in nothing means that the socket is about to be closed.
    pub(crate) fn note(&mut self, socket: RawFd, interest: Interest) {
        let is_same = |news: &Watch| matches!(news, Watch::For { socket: s, .. } if *s == socket);
        self.news.retain(|news| !is_same(news));
        if interest != Interest::default() {
            self.news.push_back(Watch::For { socket, interest });
        } else if let Some(at) = self.told.iter().position(|told| told.0 == socket) {
            self.told.swap_remove(at);
            self.news.push_back(Watch::Closed { socket });
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Watch> {
        loop {
            let news = self.news.pop_front()?;
            let Watch::For { socket, interest } = news else { return Some(news) };
            match self.told.iter_mut().find(|told| told.0 == socket) {
                Some(told) if told.1 == interest => continue,
                Some(told) => told.1 = interest,
                None => self.told.push((socket, interest)),
            }
            return Some(news);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Interest = Interest { read: false, write: false, hangup: false };
    const READ: Interest = Interest { read: true, write: false, hangup: false };
    const BOTH: Interest = Interest { read: true, write: true, hangup: false };

    fn news(sockets: &mut Sockets, notes: &[(RawFd, Interest)]) -> Vec<Watch> {
        notes.iter().for_each(|(socket, interest)| sockets.note(*socket, *interest));
        std::iter::from_fn(|| sockets.poll()).collect()
    }

    #[test]
    fn only_the_net_effect_is_told() {
        let open = |socket, interest| Watch::For { socket, interest };
        let closed = |socket| Watch::Closed { socket };
        let mut sockets = Sockets::default();
        assert_eq!(news(&mut sockets, &[(5, BOTH), (5, READ)]), [open(5, READ)]);
        assert_eq!(news(&mut sockets, &[(5, BOTH), (5, READ)]), []);
        assert_eq!(news(&mut sockets, &[(5, BOTH)]), [open(5, BOTH)]);
        assert_eq!(news(&mut sockets, &[(6, READ), (6, NONE)]), []);
        assert_eq!(news(&mut sockets, &[(5, NONE), (5, BOTH)]), [closed(5), open(5, BOTH)]);
        assert_eq!(news(&mut sockets, &[(5, READ), (5, NONE), (5, READ), (5, NONE)]), [closed(5)]);
        assert_eq!(news(&mut sockets, &[(5, NONE)]), [], "never told, never closed");
    }
}
