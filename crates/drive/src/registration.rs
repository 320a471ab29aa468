//! Registers new sockets with the selector, at the end of the turn.
//!
//! Where registration is a system call, a new socket without any interest (its request is complete,
//! and the response is being prepared) is registered later: most are closed before. If the client
//! disconnects meanwhile, the registration reports it, because it reports the current readiness.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fulmar_engine::{Engine, SocketEvent, SocketId};

use crate::reactor::Reactor;
use crate::selector::{Interest, Selector};
use crate::socket::{Registration, SocketOrigin, Sockets};

/// New sockets from which nothing is expected.
#[derive(Debug, Default)]
pub(crate) struct DeferredRegistrations {
    sockets: VecDeque<(Instant, SocketId)>, // and since when, oldest first
    look_at: Option<Instant>,               // none while the list is empty
}

impl DeferredRegistrations {
    fn push(&mut self, now: Instant, id: SocketId) {
        debug_assert!(self.sockets.back().is_none_or(|(since, _)| *since <= now), "oldest first");
        self.sockets.push_back((now, id));
        self.look_at.get_or_insert(now + LOOK_EVERY);
    }

    /// A socket that has been deferred long enough, if the list is due. There is at most one check
    /// per interval, so sockets that have been deferred for half of it are included.
    fn pop(&mut self, now: Instant) -> Option<SocketId> {
        if self.look_at.is_none_or(|at| at > now) {
            return None;
        }
        let oldest = self.sockets.front().filter(|(since, _)| *since + LOOK_EVERY / 2 <= now);
        if oldest.is_none() {
            self.look_at = Some(now + LOOK_EVERY);
        }
        oldest?;
        self.sockets.pop_front().map(|(_, id)| id)
    }

    /// The time of the next check; `None` once no deferred socket is left.
    #[inline]
    pub(crate) fn poll_timeout(&mut self, all: &Sockets) -> Option<Instant> {
        self.look_at?; // in most turns there is none
        let is_deferred =
            |id| all.get(id).is_some_and(|socket| socket.registration == Registration::Deferred);
        while self.sockets.pop_front_if(|(_, id)| !is_deferred(*id)).is_some() {}
        if self.sockets.is_empty() {
            self.look_at = None;
        }
        self.look_at
    }
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Registers the new sockets, unless they were closed in this turn or nothing is expected from
    /// them yet.
    #[inline]
    pub(crate) fn register_new(&mut self, now: Instant) {
        if !self.new_sockets.is_empty() || self.deferred.look_at.is_some() {
            self.watch_some(now); // not in most turns
        }
    }

    fn watch_some(&mut self, now: Instant) {
        let mut failed = false;
        while let Some(id) = self.new_sockets.pop() {
            let Some(socket) = self.sockets.get_mut(id) else { continue }; // closed in this turn
            debug_assert!(
                matches!(socket.registration, Registration::New | Registration::NewUnwatched),
                "it is on the list of new sockets"
            );
            if self.selector.watching_costs() && socket.is_passive() {
                socket.registration = Registration::Deferred;
                self.deferred.push(now, id);
            } else {
                failed |= !self.watch(now, id);
            }
        }
        while let Some(id) = self.deferred.pop(now) {
            if self
                .sockets
                .get(id)
                .is_some_and(|socket| socket.registration == Registration::Deferred)
            {
                failed |= !self.watch(now, id);
            }
        }
        if failed {
            self.act(now);
        }
    }

    /// Something is expected from this socket now: a deferred one is registered in this turn.
    pub(crate) fn register(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id)
            && socket.registration == Registration::Deferred
        {
            socket.registration = Registration::New;
            self.new_sockets.push(id);
        }
    }

    /// False if it cannot be registered, which is reported to the engine.
    fn watch(&mut self, now: Instant, id: SocketId) -> bool {
        let socket = self.sockets.get_mut(id).expect("the caller has looked it up");
        // That it has room may be a guess, which no send has tested.
        let connecting = socket.origin == SocketOrigin::Connecting;
        let wants = socket.wants();
        socket.interest = Interest { write: wants.write || connecting, ..wants };
        let before = std::mem::replace(&mut socket.registration, Registration::Registered);
        match self.selector.watch(socket.fd.as_fd(), socket.tag(), socket.interest) {
            Ok(()) => {
                if before == Registration::NewUnwatched {
                    self.selector.set_watched(socket.fd.as_fd(), false);
                }
                true
            }
            Err(error) => {
                self.report(now, id, SocketEvent::Failed(error));
                false
            }
        }
    }
}

/// Long enough for most responses, and a disconnect during a longer one is noticed soon. A check
/// costs a wait, if nothing else happens at that time.
const LOOK_EVERY: Duration = Duration::from_millis(50);
