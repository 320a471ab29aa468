//! A multi handle that uses the connections of a share for a while.

use std::os::fd::AsRawFd;
use std::rc::Weak;

use fulmar_sys as sys;

use crate::border::CBorder;
use crate::handles::{Multi, WatchedSocket};
use crate::multi::new_reactor;
use crate::open_sockets::{OpenSockets, SharedSockets};
use crate::shared_clients::SharedClient;
use crate::tls_configurations::TlsConfigurations;
use crate::values::CPointer;

impl SharedClient {
    pub(crate) fn new() -> Self {
        Self {
            reactor: new_reactor(),
            tls: TlsConfigurations::default(),
            watched: Vec::new(),
            open: SharedSockets::default(),
        }
    }

    /// Closes its connections, each in the way that its transfer had chosen.
    pub(crate) fn close(self, border: &dyn CBorder) {
        let mut open = OpenSockets::from(self.open);
        let mut ending = self.reactor.end();
        while ending.by_ref().next().is_some() {}
        while let Some(fd) = ending.poll_closed() {
            match open.remove(fd.as_raw_fd()).map(|socket| socket.close) {
                Some((function, user)) if !function.is_null() => {
                    border.close_socket(function, user, fd);
                }
                _ => sys::close(fd),
            }
        }
    }
}

impl Multi {
    /// Uses another client, and returns the one before. No transfer is under way.
    pub(crate) fn exchange_client(&self, other: SharedClient) -> SharedClient {
        let SharedClient { reactor, tls, watched, open } = other;
        let open = SharedSockets::from(self.open.replace(OpenSockets::from(open)));
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
        SharedClient { reactor, tls, watched, open }
    }
}
