//! A reactor in the application's own loop: `curl_multi_socket_action`, with data in place of
//! callbacks.
//!
//! The application waits. It reports ready descriptors ([`Reactor::socket_action`]) and a passed
//! deadline ([`Reactor::timeout_action`]), and polls changes after each of these
//! ([`Reactor::poll_change`]) until there is none. It may act while changes are left: there are no
//! callbacks, so nothing recurses. An event is trusted without a query to the kernel. An empty
//! event (`Ready::default()`) costs one `poll(2)`, which finds the readiness.
//!
//! Requests to the engine, such as a new transfer, are made with [`Reactor::with`]; changes may
//! follow as after an action.
//!
//! **Every way of waiting is supported.** [`Change::Watch`] contains the complete interest; each
//! replaces the one before.
//!
//! - *Level-triggered* (`poll(2)`, epoll without flags, `select`-like loops): wait for exactly this
//!   interest, and for `EPOLLRDHUP` only while `interest.hangup`; otherwise a half-closed
//!   connection would be reported forever. [`ExternalLoop::level_triggered`] saves such a loop one
//!   call per event: a short receive is the last one.
//! - *Edge-triggered* (`EPOLLET`): pass every `Watch` on to `epoll_ctl(2)`, or register once for
//!   `EPOLLIN | EPOLLOUT | EPOLLRDHUP` and pass none on; both are correct. With
//!   [`ExternalLoop::new`] the socket is read to `EAGAIN` after each event, so no edge is missed.
//!   That includes a FIN behind the data, and bytes behind urgent data, where a receive stops
//!   (tcp(7)). `EPOLLRDHUP`, reported as [`hangup`](crate::Ready::hangup), is needed to notice a
//!   peer's end while nothing is read.
//! - *One-shot* (`EPOLLONESHOT`): after every event, and after `socket_action` and its changes, arm
//!   the descriptor again with the latest interest, unless it was forgotten. Arming reports the
//!   current readiness, so [`ExternalLoop::level_triggered`] fits here, too.
//!
//! `EPOLLERR` and `EPOLLHUP` are always reported by the kernel. Pass them as
//! [`hangup`](crate::Ready::hangup) and [`failed`](crate::Ready::failed). `failed` alone is enough:
//! bytes received before the error are read first, then the connection ends. A loop that cannot
//! distinguish errors from readiness (libevent) reports the descriptor as readable and writable.
//!
//! **Numbers.** `Forget` is returned exactly once for each watched descriptor, while it is open; it
//! is closed at the application's next call. (A paused listener is forgotten and stays open; it is
//! watched again later.) Afterwards its number may be a new connection's: if a wait returns several
//! events, skip those whose descriptor was forgotten since. **The timer**: there is one; it fires
//! once, and is replaced by the next. If it fires early, it is set again. **At the end**,
//! [`Reactor::end`] returns what is still watched; dropping a reactor closes its descriptors
//! without a report.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use fulmar_engine::{Engine, SocketId};
use fulmar_sys::{self as sys, PollEntry};

use crate::external_loop::{Change, ExternalLoop};
use crate::reactor::Reactor;
use crate::selector::{Ready, Selector};
use crate::waker::Waker;

impl<E: Engine> Reactor<E, ExternalLoop> {
    /// Attaches a value of the application to a watched descriptor: every later change of it
    /// contains the value, up to and including its `Forget`. False if `fd` is not watched. A later
    /// descriptor with the same number has no value.
    pub fn assign(&mut self, fd: RawFd, user: u64) -> bool {
        self.selector.assign(fd, user)
    }

    /// The value that was attached to `fd`.
    pub fn user(&self, fd: RawFd) -> Option<u64> {
        self.selector.user(fd)
    }

    /// Notes that `fd` is `ready`, as [`Reactor::socket_action`] does, without a turn. So one
    /// [`Reactor::perform`] acts on all descriptors that a wait has returned.
    pub fn ready(&mut self, fd: RawFd, ready: Ready) {
        self.selector.close_forgotten();
        if let Some(tag) = self.selector.tag(fd)
            && !ready.is_empty()
        {
            self.note(tag, ready);
        }
    }

    /// Queries the readiness of the sockets that the engine has excluded from the loop
    /// ([`fulmar_engine::Action::Watch`]) in one system call, and acts on it. If there are none,
    /// it does nothing. Call it before the engine is going to use such a socket, so that it does
    /// not use one that its peer has closed.
    pub fn check_unwatched(&mut self, now: Instant) {
        self.selector.close_forgotten();
        let unwatched = || {
            let known = self.selector.unwatched();
            known.filter_map(|(fd, tag)| Some((self.descriptor(fd)?, tag)))
        };
        let mut entries: Vec<_> = unwatched().map(|(fd, _)| PollEntry::reading(fd)).collect();
        if entries.is_empty() || sys::poll_now(&mut entries).is_err() {
            return; // out of memory: a closed socket is found by its use
        }
        if entries.iter().all(|entry| entry.events().is_empty()) {
            return; // mostly
        }
        let found = unwatched().zip(&entries).map(|((_, tag), entry)| (tag, entry.events()));
        let ready: Vec<_> = found.filter(|(_, events)| !events.is_empty()).collect();
        for (tag, events) in ready {
            self.note(tag, events.into());
        }
        self.perform(now);
    }

    /// Reports the sockets that the engine has excluded from the loop, and that remained in it
    /// ([`ExternalLoop::lingering`]). Call it at the latest when nothing is left to wait for.
    pub fn release_excluded(&mut self) {
        self.selector.release_excluded();
    }

    /// The local address of a socket; `None` if it is closed, or a Unix socket. Costs a system
    /// call.
    pub fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        sys::local_address(self.sockets.get(socket)?.fd.as_fd()).ok()
    }

    /// The descriptor of a socket, if it is open.
    pub fn socket_descriptor(&self, socket: SocketId) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.get(socket)?.fd.as_fd())
    }

    /// Queries the readiness of all watched descriptors in one call, and acts on it: for an
    /// application that has lost events. The cost grows with the number of descriptors.
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

    /// Ends everything. The result iterates over what the application still watches: a `Forget` for
    /// each descriptor, which is open until the next one is polled, and the end of the timer.
    pub fn end(mut self) -> Ending {
        let mut changes = std::mem::take(&mut self.selector);
        self.sockets.drain().for_each(|socket| changes.retire(socket.fd));
        self.listeners.drain(..).flatten().for_each(|listener| changes.retire(listener.fd));
        self.resolver_sockets.take().for_each(|fd| changes.retire(fd));
        changes.forget_all();
        if self.deadline().is_some() {
            changes.set_deadline(None);
        }
        Ending { changes, waker: self.waker.take() }
    }
}

/// The last changes of a reactor. Dropping it closes the remaining descriptors without a report.
#[derive(Debug)]
pub struct Ending {
    changes: ExternalLoop,
    waker: Option<Waker>, // open until its `Forget`
}

impl Ending {
    /// As [`Reactor::descriptor`].
    pub fn descriptor(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        let waker = self.waker.as_ref().map(AsFd::as_fd);
        self.changes.retired(fd).or_else(|| waker.filter(|waker| waker.as_raw_fd() == fd))
    }

    /// As [`Reactor::poll_closed`].
    pub fn poll_closed(&mut self) -> Option<OwnedFd> {
        self.changes.poll_closed()
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
