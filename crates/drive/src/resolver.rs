//! The sockets of the resolver that resolves names for the engine, in our loop.
//!
//! A resolver opens and closes its sockets at any time, and reports that afterwards. So each socket
//! is registered by a second descriptor of our own: it stays open until the selector has removed
//! it, and its number is not reused before.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{DriverEvent, Engine, LookupId, ResolveError};
use fulmar_sys as sys;

use crate::reactor::Reactor;
use crate::selector::{Interest, Ready, Selector, Tag};

/// Finds the addresses of names, without blocking.
///
/// After every call that changes it, [`Resolver::poll_watch`] is called until it returns `None`,
/// and before any other call; later [`Resolver::poll_resolution`].
///
/// ```
/// use std::collections::VecDeque;
/// use std::net::{IpAddr, Ipv4Addr};
/// use std::os::fd::RawFd;
/// use std::time::Instant;
///
/// use fulmar_drive::{Ready, Resolution, Resolver, Watch};
/// use fulmar_engine::LookupId;
///
/// /// Every name is this machine.
/// #[derive(Debug, Default)]
/// struct Local(VecDeque<Resolution>);
///
/// impl Resolver for Local {
///     fn resolve(&mut self, _: Instant, lookup: LookupId, _: &str) {
///         let addresses = Ok([IpAddr::V4(Ipv4Addr::LOCALHOST)].into());
///         self.0.push_back(Resolution { lookup, addresses });
///     }
///
///     fn abandon(&mut self, _: Instant, lookup: LookupId) {
///         self.0.retain(|result| result.lookup != lookup);
///     }
///
///     fn handle_ready(&mut self, _: Instant, _: RawFd, _: Ready) {}
///     fn handle_unwatched(&mut self, _: Instant, _: RawFd, _: &std::io::Error) {}
///     fn handle_timeout(&mut self, _: Instant) {}
///     fn poll_timeout(&self) -> Option<Instant> {
///         None
///     }
///     fn poll_watch(&mut self) -> Option<Watch> {
///         None
///     }
///     fn poll_resolution(&mut self) -> Option<Resolution> {
///         self.0.pop_front()
///     }
/// }
/// ```
pub trait Resolver: fmt::Debug + Send {
    /// Finds the addresses of `name`, which is not an address itself. One result follows, possibly
    /// at once, unless the lookup is abandoned.
    fn resolve(&mut self, now: Instant, lookup: LookupId, name: &str);

    /// The result is not needed any more: it is not returned, even if it is known.
    fn abandon(&mut self, now: Instant, lookup: LookupId);

    /// One of its sockets is ready.
    fn handle_ready(&mut self, now: Instant, socket: RawFd, ready: Ready);

    /// One of its sockets cannot be watched: descriptors or watches are used up.
    fn handle_unwatched(&mut self, now: Instant, socket: RawFd, error: &io::Error);

    /// The time of [`Resolver::poll_timeout`] has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Resolver::handle_timeout`] is due; `None` without lookups.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What has changed about its sockets.
    fn poll_watch(&mut self) -> Option<Watch>;

    /// The next result.
    fn poll_resolution(&mut self) -> Option<Resolution>;
}

/// What a resolver wants of the loop, by the numbers of its own descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Wait for this, level-triggered; it replaces an earlier interest. The descriptor is open.
    For {
        /// The descriptor.
        socket: RawFd,
        /// What to wait for.
        interest: Interest,
    },
    /// The socket is closed. The number may be another socket's already, which is reported next.
    Closed {
        /// The descriptor that it was.
        socket: RawFd,
    },
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The lookup.
    pub lookup: LookupId,
    /// The addresses, best first and at least one; all lookups of a name share them.
    pub addresses: Result<Arc<[std::net::IpAddr]>, ResolveError>,
}

/// The resolver of a reactor, and its sockets.
#[derive(Debug, Default)]
pub(crate) struct ResolverSockets {
    resolver: Option<Box<dyn Resolver>>,
    make: Option<fn() -> Box<dyn Resolver>>, // the resolver, when the first name needs it
    sockets: Vec<ResolverSocket>,            // a resolver has a few: they are searched
    ready: Vec<(u32, Ready)>,
    next: u32, // the number of the next guest
}

/// A socket of the resolver.
#[derive(Debug)]
struct ResolverSocket {
    number: u32,
    socket: RawFd, // the resolver's name for it
    fd: OwnedFd,   // ours
}

impl ResolverSockets {
    pub(crate) fn note(&mut self, number: u32, ready: Ready) {
        self.ready.push((number, ready));
    }

    pub(crate) fn fd(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.sockets.iter().find(|entry| entry.number == number).map(|entry| entry.fd.as_fd())
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.resolver.as_ref()?.poll_timeout()
    }

    pub(crate) fn poll_resolution(&mut self) -> Option<Resolution> {
        self.resolver.as_mut()?.poll_resolution()
    }

    /// At the reactor's end.
    pub(crate) fn close(&mut self) {
        self.take().for_each(sys::close);
    }

    /// What is watched, given out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = OwnedFd> {
        self.sockets.drain(..).map(|entry| entry.fd)
    }

    /// The next ready socket of the resolver; events of closed sockets are dropped.
    fn poll_ready(&mut self) -> Option<(RawFd, Ready)> {
        while let Some((number, ready)) = self.ready.pop() {
            if let Some(entry) = self.sockets.iter().find(|entry| entry.number == number) {
                return Some((entry.socket, ready));
            }
        }
        None
    }
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Sets the resolver for the engine. Without one, the result of `Action::Resolve` is
    /// [`ResolveError::NoResolver`].
    ///
    /// # Panics
    /// There is one already: its lookups would never end.
    pub fn set_resolver(&mut self, resolver: Box<dyn Resolver>) {
        let before = self.resolver_sockets.resolver.replace(resolver);
        assert!(before.is_none(), "a reactor is given one resolver, once");
    }

    /// As [`Reactor::set_resolver`], with the result of a function that is called when a name is to
    /// be resolved: most connections to addresses need none.
    pub fn make_resolver(&mut self, make: fn() -> Box<dyn Resolver>) {
        self.resolver_sockets.make = Some(make);
    }

    pub(crate) fn resolve(&mut self, now: Instant, lookup: LookupId, name: &str) {
        if let Some(make) = self.resolver_sockets.make.take() {
            self.set_resolver(make());
        }
        let Some(resolver) = &mut self.resolver_sockets.resolver else {
            return self
                .engine
                .handle(now, DriverEvent::Resolved(lookup, Err(ResolveError::NoResolver)));
        };
        resolver.resolve(now, lookup, name);
        self.update_resolver_sockets(now);
    }

    pub(crate) fn abandon(&mut self, now: Instant, lookup: LookupId) {
        if let Some(resolver) = &mut self.resolver_sockets.resolver {
            resolver.abandon(now, lookup);
            self.update_resolver_sockets(now);
        }
    }

    /// Passes ready sockets and a passed deadline to the resolver, and its results to the engine.
    pub(crate) fn poll_resolver(&mut self, now: Instant) {
        let mut was_called = false;
        while let Some((socket, ready)) = self.resolver_sockets.poll_ready() {
            let resolver = self.resolver_sockets.resolver.as_mut().expect("only it has sockets");
            resolver.handle_ready(now, socket, ready);
            self.update_resolver_sockets(now);
            was_called = true;
        }
        if let Some(resolver) = &mut self.resolver_sockets.resolver
            && resolver.poll_timeout().is_some_and(|deadline| deadline <= now)
        {
            resolver.handle_timeout(now);
            self.update_resolver_sockets(now);
            was_called = true;
        }
        if was_called {
            self.act(now);
        }
    }

    /// Brings the selector up to date with the resolver's sockets.
    fn update_resolver_sockets(&mut self, now: Instant) {
        while let Some(change) =
            self.resolver_sockets.resolver.as_mut().and_then(|r| r.poll_watch())
        {
            let (Watch::For { socket, .. } | Watch::Closed { socket }) = change;
            let at = self.resolver_sockets.sockets.iter().position(|entry| entry.socket == socket);
            let result = match (change, at) {
                (Watch::For { interest, .. }, None) => self.watch_resolver_socket(socket, interest),
                (Watch::For { interest, .. }, Some(at)) => {
                    let entry = &self.resolver_sockets.sockets[at];
                    let tag = Tag::Resolver(entry.number);
                    self.selector.set_interest(entry.fd.as_fd(), tag, interest)
                }
                (Watch::Closed { .. }, Some(at)) => {
                    self.selector.retire(self.resolver_sockets.sockets.swap_remove(at).fd);
                    Ok(())
                }
                (Watch::Closed { .. }, None) => Ok(()), // it could not be watched
            };
            if let Err(error) = result {
                let resolver = self.resolver_sockets.resolver.as_mut().expect("it told the change");
                resolver.handle_unwatched(now, socket, &error);
            }
        }
    }

    fn watch_resolver_socket(&mut self, socket: RawFd, interest: Interest) -> io::Result<()> {
        let fd = sys::duplicate(socket)?;
        let number = self.resolver_sockets.next;
        if let Err(error) = self.selector.watch(fd.as_fd(), Tag::Resolver(number), interest) {
            sys::close(fd);
            return Err(error);
        }
        self.resolver_sockets.next = number.wrapping_add(1);
        self.resolver_sockets.sockets.push(ResolverSocket { number, socket, fd });
        Ok(())
    }
}
