//! The accepting side of a turn.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use fulmar_engine::{Accepted, DriverEvent, Engine, Limit, ListenerId, SocketId};
use fulmar_sys::errno::{
    EAGAIN, ECONNABORTED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, EINTR, EMFILE, ENETDOWN,
    ENETUNREACH, ENFILE, ENOBUFS, ENOMEM, ENOPROTOOPT, EPROTO, ETIMEDOUT,
};
use fulmar_sys::{self as sys, RING_LEN_MAX};

use crate::listener::{Listener, REST};
use crate::reactor::{READ, Reactor, earliest};
use crate::selector::{Interest, Selector, Tag};
use crate::socket::{Birth, Socket};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Accepts from the listeners with somebody waiting, as many as [`Crowd`] says: an accept that
    /// finds nobody costs more than one that does, and a level-triggered listener tells again. One
    /// that does not is due in the next turn.
    pub(crate) fn accept(&mut self, now: Instant) {
        self.wake_listeners(now);
        let told = self.arrivals.len();
        if told == 0 {
            return;
        }
        self.act(now); // a place that the engine has freed is not free before its `Close`
        for at in 0..told {
            self.accept_from(now, self.arrivals[at]);
        }
        self.arrivals.drain(..told);
    }

    /// A list is no longer than the engine has places for whoever comes from there, so that its
    /// limits hold within one, too.
    fn accept_from(&mut self, now: Instant, id: ListenerId) {
        let Some(listener) = self.open_listener(id) else { return }; // it was closed or paused since
        listener.prediction.begin();
        let size = if S::EXTERNAL { 1 } else { listener.expect() };
        let mut arrived = 0;
        while arrived < size && self.open_listener(id).is_some() {
            let places = self.engine.limit(Limit::Accepts(id)).clamp(1, RING_LEN_MAX);
            let (more, end) = self.accept_list(now, id, usize::from(size - arrived).min(places));
            arrived += more;
            if let Some(error) = end {
                return self.deserted(now, id, arrived, &error);
            }
        }
        assert!(arrived <= size, "no more are accepted than tried");
        if arrived == size
            && let Some(listener) = self.open_listener(id)
        {
            listener.crowd.handle_all(arrived);
        }
    }

    /// Accepts so many, and does what the engine wants done then: how many there were, and what was
    /// found instead of others.
    fn accept_list(
        &mut self,
        now: Instant,
        id: ListenerId,
        len: usize,
    ) -> (u16, Option<io::Error>) {
        let mut list = std::mem::take(&mut self.accepts);
        list.resize_with(len, || None);
        if let Some(Some(listener)) = self.listeners.get(id.0 as usize) {
            self.executor.accept(&mut list, listener.fd.as_fd());
        }
        let (mut arrived, mut end) = (0, None);
        for found in list.drain(..).flatten() {
            match found {
                Ok((fd, peer)) => {
                    arrived += 1;
                    self.arrived(now, id, fd, peer);
                    self.act(now);
                }
                Err(error) => end = end.or(Some(error)),
            }
        }
        self.accepts = list;
        (arrived, end)
    }

    fn arrived(&mut self, now: Instant, id: ListenerId, fd: OwnedFd, peer: SocketAddr) {
        let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) else {
            return self.selector.retire(fd); // refused, as those who wait there
        };
        let (likely, reports_local) = (listener.prediction.is_ready(), listener.reports_local);
        if S::EXTERNAL {
            self.arrivals.push(id);
        }
        self.count_accepted();
        let Some(socket) = self.introduce(now, id, &fd, peer, reports_local) else {
            return self.selector.retire(fd);
        };
        let mut admitted = Socket::new(socket, fd, Birth::Accepted(id));
        admitted.readable = likely;
        self.admit(admitted);
        self.list(socket);
    }

    /// Has the engine take in a connection, if it wants it.
    pub(crate) fn introduce(
        &mut self,
        now: Instant,
        listener: ListenerId,
        fd: &OwnedFd,
        peer: SocketAddr,
        reports_local: bool,
    ) -> Option<SocketId> {
        let local = reports_local.then(|| sys::local_address(fd.as_fd()).ok()).flatten();
        self.engine.accept(now, Accepted { listener, peer, local })
    }

    /// After so many, this was found instead of somebody.
    fn deserted(&mut self, now: Instant, id: ListenerId, arrived: u16, error: &io::Error) {
        if self.makes_room(error) {
            return self.arrivals.push(id); // it is asked again in the next turn, which does not wait
        }
        match Absence::of(error) {
            Absence::Nobody => {
                if let Some(listener) = self.open_listener(id) {
                    listener.crowd.handle_end(arrived);
                }
            }
            Absence::Lost if !S::EXTERNAL => {} // those behind are told of again
            Absence::Lost => self.arrivals.push(id),
            Absence::Exhausted => {
                self.rest(now, id);
                self.engine.handle(now, DriverEvent::AcceptFailed(id, error));
            }
            Absence::Refused => {
                self.rest(now, id);
                self.count_refused();
            }
        }
    }

    /// Nobody is looked for at a listener for a while.
    fn rest(&mut self, now: Instant, id: ListenerId) {
        let Some(listener) = self.open_listener(id) else { return }; // the engine has closed it
        let until = Some(now + REST);
        listener.resting = until;
        self.rest_until = earliest(self.rest_until, until);
        self.watch_listener(id);
    }

    /// One that is to be accepted from.
    fn open_listener(&mut self, id: ListenerId) -> Option<&mut Listener> {
        let listener = self.listeners.get_mut(id.0 as usize)?.as_mut();
        listener.filter(|listener| listener.watching)
    }

    pub(crate) fn set_accepting(&mut self, id: ListenerId, on: bool) {
        if let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) {
            listener.wanted = on;
            self.watch_listener(id);
        }
    }

    /// Listeners that have rested enough accept again.
    fn wake_listeners(&mut self, now: Instant) {
        if self.rest_until.is_none_or(|until| until > now) {
            return;
        }
        for number in 0..self.listeners.len() {
            if let Some(listener) = &mut self.listeners[number]
                && listener.resting.is_some_and(|until| until <= now)
            {
                listener.resting = None;
                self.watch_listener(ListenerId(u32::try_from(number).expect("few listeners")));
            }
        }
        self.rest_until = self.listeners.iter().flatten().filter_map(|l| l.resting).min();
    }

    /// Waits for connections exactly while they are wanted and can be had.
    fn watch_listener(&mut self, id: ListenerId) {
        // The engine may have closed it.
        let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) else { return };
        let watching = listener.wanted && listener.resting.is_none();
        if watching != listener.watching {
            listener.watching = watching;
            let interest = if watching { READ } else { Interest::default() };
            if watching && S::EXTERNAL {
                self.arrivals.push(id); // its edge may have passed
            }
            // A descriptor that is watched can be watched for something else.
            let _ = self.selector.set_interest(listener.fd.as_fd(), Tag::Listener(id), interest);
        }
    }
}

/// What an accept that brought nobody says about those who wait (accept(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// There is none: the next event tells.
    Nobody,
    /// One who waited has failed meanwhile and waits no more; others may stand behind it, of whom no
    /// other edge tells.
    Lost,
    /// Descriptors or memory are used up: whoever waits goes on waiting, and so would the event.
    Exhausted,
    /// The same, for a reason that only others can end: a filter forbids it, or somebody who has the
    /// same socket does not listen on it any more.
    Refused,
}

impl Absence {
    /// What is not known here is a refusal, which a rest is right for in any case.
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(EAGAIN) => Self::Nobody,
            Some(EMFILE | ENFILE | ENOBUFS | ENOMEM) => Self::Exhausted,
            Some(
                EINTR | ECONNABORTED | ECONNRESET | EHOSTDOWN | EHOSTUNREACH | ENETDOWN
                | ENETUNREACH | ENOPROTOOPT | EPROTO | ETIMEDOUT,
            ) => Self::Lost,
            _ => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_sys::errno::{EIO, ENOSYS, EPERM};

    use super::*;

    #[test]
    fn only_that_nobody_waits_leaves_a_listener_alone() {
        for (absence, numbers) in [
            (Absence::Nobody, &[EAGAIN][..]),
            (Absence::Lost, &[ECONNABORTED, EPROTO, ENETDOWN, EHOSTUNREACH, EINTR]),
            (Absence::Exhausted, &[EMFILE, ENFILE, ENOBUFS, ENOMEM]),
            (Absence::Refused, &[EPERM, ENOSYS, EIO, i32::MAX]),
        ] {
            for number in numbers {
                let error = io::Error::from_raw_os_error(*number);
                assert_eq!(Absence::of(&error), absence, "{error}");
            }
        }
    }
}
