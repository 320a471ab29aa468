//! When the selector hears of a socket: at the end of the turn from which on somebody waits for it.
//!
//! Where that costs a system call, a new socket that nothing is wanted from (its request is whole,
//! and is being answered) is watched late: most are answered and closed before. Who leaves
//! meanwhile is noticed when it is watched, as the level is told then.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fulmar_engine::{Engine, SocketEvent, SocketId};

use crate::reactor::Reactor;
use crate::selector::{Interest, Selector};
use crate::socket::{Birth, Known, Sockets};

/// New sockets that nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    sockets: VecDeque<(Instant, SocketId)>, // and since when, longest first
    look_at: Option<Instant>,               // none while there are none
}

impl Quiet {
    fn push(&mut self, now: Instant, id: SocketId) {
        debug_assert!(self.sockets.back().is_none_or(|(since, _)| *since <= now), "oldest first");
        self.sockets.push_back((now, id));
        self.look_at.get_or_insert(now + LOOK_EVERY);
    }

    /// One that has waited long enough, if it is time to look. One look in an interval is all that
    /// they may cost, however they come: so whoever is halfway goes along.
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

    /// When to look again; not at all once those that have waited longest are gone, and all others.
    #[inline]
    pub(crate) fn poll_timeout(&mut self, all: &Sockets) -> Option<Instant> {
        self.look_at?; // most turns have none
        let is_quiet = |id| all.get(id).is_some_and(|socket| socket.known == Known::Quiet);
        while self.sockets.pop_front_if(|(_, id)| !is_quiet(*id)).is_some() {}
        if self.sockets.is_empty() {
            self.look_at = None;
        }
        self.look_at
    }
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Has the selector told what is new, unless its whole life took place in this turn or nobody
    /// waits for it yet.
    #[inline]
    pub(crate) fn watch_fresh(&mut self, now: Instant) {
        if !self.fresh.is_empty() || self.quiet.look_at.is_some() {
            self.watch_some(now); // not in most turns
        }
    }

    fn watch_some(&mut self, now: Instant) {
        let mut failed = false;
        while let Some(id) = self.fresh.pop() {
            let Some(socket) = self.sockets.get_mut(id) else { continue }; // closed in this turn
            debug_assert_eq!(socket.known, Known::Fresh, "it is on the list of new sockets");
            if self.selector.watching_costs() && socket.is_passive() {
                socket.known = Known::Quiet;
                self.quiet.push(now, id);
            } else {
                failed |= !self.watch(now, id);
            }
        }
        while let Some(id) = self.quiet.pop(now) {
            if self.sockets.get(id).is_some_and(|socket| socket.known == Known::Quiet) {
                failed |= !self.watch(now, id);
            }
        }
        if failed {
            self.act(now);
        }
    }

    /// Somebody waits for this socket now: it is new again, if it was quiet.
    pub(crate) fn rouse(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id)
            && socket.known == Known::Quiet
        {
            socket.known = Known::Fresh;
            self.fresh.push(id);
        }
    }

    /// False if it cannot be watched, which the engine hears.
    fn watch(&mut self, now: Instant, id: SocketId) -> bool {
        let socket = self.sockets.get_mut(id).expect("the caller has looked it up");
        // That it can be sent on may be a guess, which nobody has tried.
        let connecting = socket.birth == Birth::Connecting;
        let wants = socket.wants();
        socket.interest = Interest { write: wants.write || connecting, ..wants };
        socket.known = Known::Watched;
        match self.selector.watch(socket.fd.as_fd(), socket.tag(), socket.interest) {
            Ok(()) => true,
            Err(error) => {
                self.report(now, id, SocketEvent::Failed(error));
                false
            }
        }
    }
}

/// Long enough for most answers; and who leaves in the middle of a longer one is noticed soon.
/// A look costs a wait, if nothing else happens then.
const LOOK_EVERY: Duration = Duration::from_millis(50);
