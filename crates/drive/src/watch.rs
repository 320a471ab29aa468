//! Foreign descriptors in our loop: the sockets of whoever resolves names for the engine.
//!
//! A resolver opens and closes its sockets when it likes, and what it tells of them is heard after
//! the fact. So each is watched by a descriptor of our own for the same socket: that one stays open
//! until the selector has let go of it, and its number means nothing else before.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{DriverEvent, Engine, LookupId, ResolveError};
use fulmar_sys as sys;

use crate::reactor::Reactor;
use crate::selector::{Interest, Ready, Selector, Tag};

/// Who finds the addresses of names, without blocking: a driver of its own protocol.
///
/// [`Resolver::poll_watch`] is asked after every other call that changes it, until there is none,
/// and before its next one; then [`Resolver::poll_answer`], in due course.
pub trait Resolver: fmt::Debug + Send {
    /// Find the addresses of `name`, which is no address itself; one answer follows, unless the
    /// lookup is abandoned. It may be there at once.
    fn resolve(&mut self, now: Instant, lookup: LookupId, name: &str);

    /// Nobody waits for this answer any more: it is not told, even if it is there.
    fn abandon(&mut self, now: Instant, lookup: LookupId);

    /// One of its sockets is ready.
    fn handle_ready(&mut self, now: Instant, socket: RawFd, ready: Ready);

    /// One of its sockets cannot be watched: descriptors or watches are used up.
    fn handle_unwatched(&mut self, now: Instant, socket: RawFd, error: &io::Error);

    /// The moment that [`Resolver::poll_timeout`] told has come.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Resolver::handle_timeout`] is due; `None` while nobody waits.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What has changed about its sockets.
    fn poll_watch(&mut self) -> Option<Watch>;

    /// The next answer.
    fn poll_answer(&mut self) -> Option<Answer>;
}

/// What a resolver wants of the loop, by the numbers of its own descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Wait for this, level-triggered: the first time, or instead of what was told before. The
    /// number is open.
    For {
        /// The descriptor.
        socket: RawFd,
        /// What to wait for.
        interest: Interest,
    },
    /// The socket is closed; the number may mean another by now, which is told after this.
    Closed {
        /// The descriptor that it was.
        socket: RawFd,
    },
}

/// What a lookup came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub lookup: LookupId,
    /// The addresses, best first and at least one; all who asked for a name share them.
    pub addresses: Result<Arc<[std::net::IpAddr]>, ResolveError>,
}

/// The resolver of a reactor, and its sockets.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    resolver: Option<Box<dyn Resolver>>,
    guests: Vec<Guest>, // a resolver has a few: they are searched
    ready: Vec<(u32, Ready)>,
    next: u32, // the number of the next guest
}

/// A socket of the resolver.
#[derive(Debug)]
struct Guest {
    number: u32,
    socket: RawFd, // the resolver's name for it
    fd: OwnedFd,   // ours
}

impl Foreign {
    pub(crate) fn note(&mut self, number: u32, ready: Ready) {
        self.ready.push((number, ready));
    }

    pub(crate) fn fd(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.guests.iter().find(|guest| guest.number == number).map(|guest| guest.fd.as_fd())
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.resolver.as_ref()?.poll_timeout()
    }

    pub(crate) fn poll_answer(&mut self) -> Option<Answer> {
        self.resolver.as_mut()?.poll_answer()
    }

    /// At the reactor's end.
    pub(crate) fn close(&mut self) {
        self.take().for_each(sys::close);
    }

    /// What is watched, given out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = OwnedFd> {
        self.guests.drain(..).map(|guest| guest.fd)
    }

    /// What is ready, for the resolver; late news of a socket that is closed by now is dropped.
    fn hear(&mut self) -> Option<(RawFd, Ready)> {
        while let Some((number, ready)) = self.ready.pop() {
            if let Some(guest) = self.guests.iter().find(|guest| guest.number == number) {
                return Some((guest.socket, ready));
            }
        }
        None
    }
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Who resolves names for the engine. Without one, `Action::Resolve` is answered with
    /// [`ResolveError::NoResolver`].
    ///
    /// # Panics
    /// There is one already: its lookups would never be answered.
    pub fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        let before = self.foreign.resolver.replace(resolver);
        assert!(before.is_none(), "a reactor is given one resolver, once");
    }

    pub(crate) fn resolve(&mut self, now: Instant, lookup: LookupId, name: &str) {
        let Some(resolver) = &mut self.foreign.resolver else {
            return self
                .engine
                .handle(now, DriverEvent::Resolved(lookup, Err(ResolveError::NoResolver)));
        };
        resolver.resolve(now, lookup, name);
        self.watch_foreign(now);
    }

    pub(crate) fn abandon(&mut self, now: Instant, lookup: LookupId) {
        if let Some(resolver) = &mut self.foreign.resolver {
            resolver.abandon(now, lookup);
            self.watch_foreign(now);
        }
    }

    /// Lets the resolver do its share of a turn, and tells the engine what came of it.
    pub(crate) fn consult(&mut self, now: Instant) {
        let mut heard = false;
        while let Some((socket, ready)) = self.foreign.hear() {
            let resolver = self.foreign.resolver.as_mut().expect("only it has guests");
            resolver.handle_ready(now, socket, ready);
            self.watch_foreign(now);
            heard = true;
        }
        if let Some(resolver) = &mut self.foreign.resolver
            && resolver.poll_timeout().is_some_and(|deadline| deadline <= now)
        {
            resolver.handle_timeout(now);
            self.watch_foreign(now);
            heard = true;
        }
        if heard {
            self.act(now);
        }
    }

    /// Brings the selector up to date with the resolver's sockets.
    fn watch_foreign(&mut self, now: Instant) {
        while let Some(change) = self.foreign.resolver.as_mut().and_then(|r| r.poll_watch()) {
            let (Watch::For { socket, .. } | Watch::Closed { socket }) = change;
            let at = self.foreign.guests.iter().position(|guest| guest.socket == socket);
            let result = match (change, at) {
                (Watch::For { interest, .. }, None) => self.watch_guest(socket, interest),
                (Watch::For { interest, .. }, Some(at)) => {
                    let guest = &self.foreign.guests[at];
                    let tag = Tag::Foreign(guest.number);
                    self.selector.set_interest(guest.fd.as_fd(), tag, interest)
                }
                (Watch::Closed { .. }, Some(at)) => {
                    self.selector.retire(self.foreign.guests.swap_remove(at).fd);
                    Ok(())
                }
                (Watch::Closed { .. }, None) => Ok(()), // it could not be watched
            };
            if let Err(error) = result {
                let resolver = self.foreign.resolver.as_mut().expect("it told the change");
                resolver.handle_unwatched(now, socket, &error);
            }
        }
    }

    fn watch_guest(&mut self, socket: RawFd, interest: Interest) -> io::Result<()> {
        let fd = sys::duplicate(socket)?;
        let number = self.foreign.next;
        if let Err(error) = self.selector.watch(fd.as_fd(), Tag::Foreign(number), interest) {
            sys::close(fd);
            return Err(error);
        }
        self.foreign.next = number.wrapping_add(1);
        self.foreign.guests.push(Guest { number, socket, fd });
        Ok(())
    }
}
