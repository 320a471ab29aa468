//! The accepting side of a turn.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use fulmar_engine::{Engine, ListenerId};
use fulmar_sys as sys;
use fulmar_sys::errno::{EMFILE, ENFILE, ENOBUFS, ENOMEM};

use crate::listener::REST;
use crate::reactor::{READ, Reactor, earliest};
use crate::selector::{Interest, Selector, Tag};
use crate::socket::{Birth, Socket};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Accepts from the listeners with somebody waiting, as many as [`Crowd`] says: an `accept4`
    /// that finds nobody costs more than one that does, and a level-triggered listener tells
    /// again. One that does not is due in the next turn.
    pub(crate) fn accept(&mut self, now: Instant) {
        self.wake_listeners(now);
        if self.arrivals.is_empty() {
            return;
        }
        let told = self.arrivals.len();
        for at in 0..told {
            let id = self.arrivals[at];
            let wanted = match &self.listeners[id.0 as usize] {
                Some(listener) if S::REPEATS => listener.crowd.size(),
                _ => 1,
            };
            let mut accepted = 0;
            let found = loop {
                match self.accept_one(now, id) {
                    Found::Somebody if accepted + 1 < wanted => accepted += 1,
                    found => break found,
                }
            };
            if let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) {
                match found {
                    Found::Somebody => listener.crowd.handle_more(wanted),
                    Found::Nobody => listener.crowd.handle_end(accepted),
                    Found::Closed => {}
                }
            }
        }
        self.arrivals.drain(..told);
    }

    fn accept_one(&mut self, now: Instant, id: ListenerId) -> Found {
        self.act(now); // a place that the engine has freed is not free before its `Close`
        let listener = self.listeners.get_mut(id.0 as usize).and_then(Option::as_mut);
        let Some(listener) = listener.filter(|listener| listener.watching) else {
            return Found::Closed; // an event from before
        };
        match sys::accept(listener.fd.as_fd()) {
            Ok((fd, peer)) => {
                let likely = listener.prediction.is_ready();
                if !S::REPEATS {
                    self.arrivals.push(id);
                }
                self.count_accepted();
                if self.engine.asks_local(id)
                    && let Ok(local) = sys::local_address(fd.as_fd())
                {
                    self.engine.handle_local(local);
                }
                let Some(socket) = self.engine.handle_accepted(now, id, peer) else {
                    self.selector.retire(fd);
                    return Found::Somebody;
                };
                let mut admitted = Socket::new(socket, fd, Birth::Accepted(id));
                admitted.readable = likely;
                self.admit(admitted);
                self.list(socket);
                Found::Somebody
            }
            Err(error) if is_exhaustion(&error) => {
                listener.resting = Some(now + REST);
                self.rest_until = earliest(self.rest_until, listener.resting);
                self.engine.handle_accept_failed(now, id, &error);
                self.watch_listener(id);
                Found::Closed
            }
            // The peer gave up while it waited; others may wait behind it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                if !S::REPEATS {
                    self.arrivals.push(id);
                }
                Found::Closed
            }
            Err(_) => Found::Nobody,
        }
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
        let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) else { return };
        let watching = listener.wanted && listener.resting.is_none();
        if watching != listener.watching {
            listener.watching = watching;
            let interest = if watching { READ } else { Interest::default() };
            if watching && !S::REPEATS {
                self.arrivals.push(id); // its edge may have passed
            }
            // A descriptor that is watched can be watched for something else.
            let _ = self.selector.set_interest(listener.fd.as_fd(), Tag::Listener(id), interest);
        }
    }
}

/// Who waited at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Somebody,
    /// Not any more.
    Nobody,
    /// Nobody is to be accepted now.
    Closed,
}

/// Descriptors or memory are used up: the connection stays in the queue, and so would the event.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS | ENOMEM))
}
