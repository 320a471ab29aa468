//! A multi handle that uses the connections of a share for a while.

use std::rc::Weak;

use crate::handles::{Multi, WatchedSocket};
use crate::multi::new_reactor;
use crate::shared_clients::SharedClient;
use crate::values::CPointer;

impl SharedClient {
    pub(crate) fn new() -> Self {
        Self { reactor: new_reactor(), tls: Vec::new(), watched: Vec::new() }
    }
}

impl Multi {
    /// Uses another client, and returns the one before. No transfer is under way.
    pub(crate) fn exchange_client(&self, other: SharedClient) -> SharedClient {
        let SharedClient { reactor, tls, watched } = other;
        let mut reactor = self.reactor.replace(reactor);
        // Events of requests that were removed: their numbers mean nothing to others.
        while reactor.engine.application_mut().pop().is_some() {}
        let tls = self.tls.replace(tls);
        let unassigned =
            |(fd, what)| (fd, WatchedSocket { what, assigned: CPointer::NULL, easy: Weak::new() });
        let mut sockets = self.sockets.borrow_mut();
        let watched = watched.into_iter().map(unassigned).collect();
        let before = std::mem::replace(&mut sockets.watched, watched);
        sockets.timer = None;
        let watched = before.into_iter().map(|(fd, socket)| (fd, socket.what)).collect();
        SharedClient { reactor, tls, watched }
    }
}
