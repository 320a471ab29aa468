//! A reactor in the application's own loop: `curl_multi_socket_action`, with data in place of
//! callbacks.
//!
//! The application waits, tells what is ready ([`Reactor::socket_action`]) and when the deadline
//! has come ([`Reactor::timeout_action`]), and asks after each of these for what has changed
//! ([`Reactor::poll_change`]) until nothing has. It may act while changes are left: nothing calls
//! back, so nothing recurses. An event is trusted, and no call asks the kernel again. An empty
//! event (`Ready::default()`) costs one `poll(2)`, which finds the readiness.
//!
//! The engine is asked for something (a new transfer, say) with [`Reactor::with`], and changes may
//! follow as after an action.
//!
//! **Any way of waiting will do.** [`Change::Watch`] says all that is waited for; each replaces
//! the one before.
//!
//! - *Level-triggered* (`poll(2)`, epoll without flags, `select`-like loops): waiting for just
//!   that is enough. `EPOLLRDHUP` is waited for exactly while `interest.hangup`, otherwise a
//!   half-closed connection would never be quiet. [`Changes::level_triggered`] saves such a loop a
//!   call for each event: a short receive is the last one.
//! - *Edge-triggered* (`EPOLLET`): pass every `Watch` on to `epoll_ctl(2)` as it comes, or register
//!   once for `EPOLLIN | EPOLLOUT | EPOLLRDHUP` and pass none on; both are correct. With
//!   [`Changes::new`] the socket is read to `EAGAIN` after each event, so no edge is missed. That
//!   includes a FIN behind the data, and bytes behind urgent data, where a receive stops (tcp(7)).
//!   `EPOLLRDHUP`, reported as [`hangup`](crate::Ready::hangup), is needed to notice a peer's end
//!   while nothing is read.
//! - *One-shot* (`EPOLLONESHOT`): after every event, arm the descriptor again with the interest
//!   told last, unless it was told to be forgotten: after `socket_action` and its changes. Arming
//!   looks at the level, so [`Changes::level_triggered`] is for these, too.
//!
//! `EPOLLERR` and `EPOLLHUP` come unasked everywhere, and are told as
//! [`hangup`](crate::Ready::hangup) and [`failed`](crate::Ready::failed). `failed` alone is enough:
//! what was received before the error is read first, then the connection ends. A loop that cannot
//! distinguish errors from readiness (libevent) reports the descriptor as readable and writable.
//!
//! **Numbers.** `Forget` comes exactly once for each descriptor that was watched, while it is
//! open; it is closed when the application speaks again. (A listener that rests is forgotten and
//! stays open; it is watched anew later.) From then on its number may be a new
//! connection's: who handles several events of one wait leaves out those whose descriptor was
//! forgotten since. **The timer** is one, fires once, and is replaced by the next; if it fires
//! early, it is told again. **At the end**, [`Reactor::end`] tells what is still watched;
//! dropping a reactor closes its descriptors without a word.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

use fulmar_engine::Engine;
use fulmar_sys::{self as sys, PollEntry};

use crate::changes::{Change, Changes};
use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::waker::Waker;

impl<E: Engine> Reactor<E, Changes> {
    /// Attaches a word of the application's to a descriptor that it was told to watch: every
    /// later change for it brings the word back, up to and with its `Forget`. False if `fd` is
    /// not watched; its successor of the same number begins without a word.
    pub fn assign(&mut self, fd: RawFd, user: u64) -> bool {
        self.selector.assign(fd, user)
    }

    /// The word that was attached to `fd`.
    pub fn user(&self, fd: RawFd) -> Option<u64> {
        self.selector.user(fd)
    }

    /// Asks the kernel about everything that is watched, in one call, and acts on it: for an
    /// application that has lost track of events. Walks all descriptors.
    ///
    /// # Errors
    /// The call failed, and nothing was done.
    pub fn socket_all(&mut self, now: Instant) -> io::Result<()> {
        self.selector.close_forgotten();
        let watched = self.selector.watched();
        let known = watched.iter().filter_map(|(fd, tag)| Some((*tag, self.descriptor(*fd)?)));
        let (tags, mut entries): (Vec<_>, Vec<_>) =
            known.map(|(tag, fd)| (tag, PollEntry::new(fd))).unzip();
        sys::poll_now(&mut entries)?;
        let events: Vec<_> = entries.iter().map(PollEntry::events).collect();
        for (tag, events) in tags.into_iter().zip(events) {
            if !events.is_empty() {
                self.note(tag, events.into());
            }
        }
        self.perform(now);
        Ok(())
    }

    /// Ends everything. What is returned tells the application what it still watches: a `Forget`
    /// for each descriptor, open until the next one is asked for, and the end of the timer.
    pub fn end(mut self) -> Ending {
        let mut changes = std::mem::take(&mut self.selector);
        self.sockets.drain().for_each(|socket| changes.retire(socket.fd));
        self.listeners.drain(..).flatten().for_each(|listener| changes.retire(listener.fd));
        self.foreign.take().for_each(|fd| changes.retire(fd));
        changes.forget_all();
        if self.deadline().is_some() {
            changes.set_deadline(None);
        }
        Ending { changes, waker: self.waker.take() }
    }
}

/// The last changes of a reactor. Dropping it closes what is left without a word.
#[derive(Debug)]
pub struct Ending {
    changes: Changes,
    waker: Option<Waker>, // open until it has been forgotten
}

impl Ending {
    /// As [`Reactor::descriptor`].
    pub fn descriptor(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        let waker = self.waker.as_ref().map(AsFd::as_fd);
        self.changes.retired(fd).or_else(|| waker.filter(|waker| waker.as_raw_fd() == fd))
    }
}

impl Iterator for Ending {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        self.changes.poll()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
