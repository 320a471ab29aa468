//! A selector for the application's own loop: it reports what to wait for, as
//! `curl_multi_socket_action` does, but as data.
//!
//! Changes are merged. Within a turn a descriptor's interest may change many times; the application
//! receives at most one [`Change`] for it, and none if the net effect is nothing.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use fulmar_sys as sys;

use crate::selector::{Interest, Selector, Tag};

/// A change of what the application's loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Wait for this on `fd` from now on. It replaces earlier interests of `fd`.
    Watch {
        /// The descriptor.
        fd: RawFd,
        /// What to wait for; errors are to be reported in any case.
        interest: Interest,
        /// What it belongs to.
        tag: Tag,
        /// What [`crate::Reactor::assign`] attached to it.
        user: Option<u64>,
    },
    /// Stop waiting for `fd`, also for errors. It is closed when the next change is polled, or at
    /// the next action, so a number never means another descriptor already. Only a paused listener
    /// and a socket that the engine excludes ([`fulmar_engine::Action::Watch`]) stay open, and are
    /// reported by a [`Change::Watch`] again.
    Forget {
        /// The descriptor, still open.
        fd: RawFd,
        /// What [`crate::Reactor::assign`] attached to it; the application may free it.
        user: Option<u64>,
    },
    /// Call `timeout_action` at this time. It replaces the earlier timer. `None`: no deadline.
    Timer {
        /// When.
        deadline: Option<Instant>,
    },
}

/// Collects changes until the application polls them.
///
/// ```
/// use fulmar_drive::{Change, ExternalLoop, ListenOptions, Reactor, listen};
/// # use fulmar_engine::{Action, DriverEvent, Engine, SocketId};
/// # use fulmar_proto::Transmit;
/// # struct Refuse;
/// # impl Engine for Refuse {
/// #     fn handle(&mut self, _: std::time::Instant, _: DriverEvent<'_>) {}
/// #     fn poll_action(&mut self) -> Option<Action> { None }
/// #     fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> { None }
/// #     fn poll_timeout(&self) -> Option<std::time::Instant> { None }
/// # }
/// # let engine = Refuse;
///
/// let mut reactor = Reactor::new(engine, ExternalLoop::level_triggered());
/// let (listener, _) = listen("127.0.0.1:0".parse().unwrap(), ListenOptions::default())?;
/// reactor.listen(listener)?;
/// let change = reactor.poll_change();
/// assert!(matches!(change, Some(Change::Watch { interest, .. }) if interest.read));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ExternalLoop {
    trusts_short_reads: bool,      // the loop is level-triggered or one-shot
    watched: Vec<Option<Watched>>, // by descriptor
    changed: VecDeque<RawFd>,
    excluded: BTreeSet<RawFd>,
    retired: VecDeque<OwnedFd>,
    borrowed: VecDeque<RawFd>,  // to be forgotten, and closed elsewhere
    forgotten: Option<OwnedFd>, // reported, and open until the next call
    timer: Option<Option<Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    tag: Tag,
    user: Option<u64>,
    reported: Option<Interest>,
    wanted: Interest,
    changed: bool,
    again: bool,    // to be reported even if it is the same
    excluded: bool, // by the engine: not waited for at all
}

impl Watched {
    /// True if it is not waited for at all. A paused listener is not: if it has failed, its error
    /// event would repeat forever.
    fn is_paused(&self) -> bool {
        let is_listener = matches!(self.tag, Tag::Listener(_));
        self.excluded || (is_listener && self.wanted == Interest::default())
    }
}

impl ExternalLoop {
    /// For any loop, also an edge-triggered one: a socket is read to `EAGAIN` after each event,
    /// which is one more call per event, as in libcurl.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a level-triggered loop: `poll(2)`, epoll without `EPOLLET`, libevent's and libuv's
    /// defaults, and one-shot loops, which look again when they are armed. A short receive ends the
    /// reading there.
    pub fn level_triggered() -> Self {
        Self { trusts_short_reads: true, ..Self::default() }
    }

    pub(crate) fn tag(&self, fd: RawFd) -> Option<Tag> {
        let at = usize::try_from(fd).ok()?;
        self.watched.get(at)?.map(|watched| watched.tag)
    }

    /// Descriptors are forgotten first, so that a number is never reported for two descriptors.
    pub(crate) fn poll(&mut self) -> Option<Change> {
        self.close_forgotten();
        while let Some(fd) = self.retired.pop_front() {
            let number = fd.as_raw_fd();
            if let Some(change) = self.forget(number) {
                self.forgotten = Some(fd);
                return Some(change);
            }
            sys::close(fd);
        }
        while let Some(fd) = self.borrowed.pop_front() {
            if let Some(change) = self.forget(fd) {
                return Some(change);
            }
        }
        while let Some(fd) = self.changed.pop_front() {
            let Some(watched) = self.slot(fd) else { continue }; // retired since
            watched.changed = false;
            if watched.is_paused() {
                let (reported, user) = (watched.reported.take(), watched.user.take());
                match reported {
                    Some(_) => return Some(Change::Forget { fd, user }),
                    None => continue,
                }
            }
            if std::mem::take(&mut watched.again) || watched.reported != Some(watched.wanted) {
                watched.reported = Some(watched.wanted);
                let Watched { wanted: interest, tag, user, .. } = *watched;
                return Some(Change::Watch { fd, interest, tag, user });
            }
        }
        self.timer.take().map(|deadline| Change::Timer { deadline })
    }

    /// The application has processed the last change.
    pub(crate) fn close_forgotten(&mut self) {
        if let Some(fd) = self.forgotten.take() {
            sys::close(fd);
        }
    }

    /// Attaches the application's value to a descriptor that was reported to it.
    pub(crate) fn assign(&mut self, fd: RawFd, user: u64) -> bool {
        let at = usize::try_from(fd).unwrap_or(usize::MAX);
        match self.watched.get_mut(at) {
            Some(Some(watched)) if watched.reported.is_some() => {
                watched.user = Some(user);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn user(&self, fd: RawFd) -> Option<u64> {
        self.watched.get(usize::try_from(fd).ok()?)?.as_ref()?.user
    }

    /// The descriptors that the application waits for.
    pub(crate) fn watched(&self) -> Vec<(RawFd, Tag)> {
        let reported = |(watched, fd): (&Option<Watched>, RawFd)| {
            watched.filter(|watched| watched.reported.is_some()).map(|watched| (fd, watched.tag))
        };
        self.watched.iter().zip(0..).filter_map(reported).collect()
    }

    /// The descriptors that are excluded from the application's loop.
    pub(crate) fn unwatched(&self) -> Vec<(RawFd, Tag)> {
        self.excluded.iter().filter_map(|fd| Some((*fd, self.tag(*fd)?))).collect()
    }

    /// A retired descriptor, as long as it is open.
    pub(crate) fn retired(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        let mut open = self.forgotten.iter().chain(&self.retired);
        open.find(|retired| retired.as_raw_fd() == fd).map(AsFd::as_fd)
    }

    /// Retires all descriptors, also those that others own.
    pub(crate) fn forget_all(&mut self) {
        self.changed.clear();
        self.borrowed = self.watched().into_iter().map(|(fd, _)| fd).collect();
    }

    /// A `Forget` for `fd`, if it was reported.
    fn forget(&mut self, fd: RawFd) -> Option<Change> {
        let watched = self.slot(fd).take()?;
        watched.reported.map(|_| Change::Forget { fd, user: watched.user })
    }

    fn slot(&mut self, fd: RawFd) -> &mut Option<Watched> {
        let at = usize::try_from(fd).expect("open descriptors are not negative");
        if self.watched.len() <= at {
            self.watched.resize(at + 1, None);
        }
        &mut self.watched[at]
    }
}

impl Selector for ExternalLoop {
    const EXTERNAL: bool = true;

    fn name(&self) -> &'static str {
        "external"
    }

    fn watches_all(&self) -> bool {
        false
    }

    fn watching_costs(&self) -> bool {
        false // deferred registration would need the application's timer
    }

    fn trusts_short_reads(&self) -> bool {
        self.trusts_short_reads
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        let number = fd.as_raw_fd();
        let (user, reported) = (None, None);
        debug_assert!(self.slot(number).is_none(), "a number is registered once while it is open");
        *self.slot(number) = Some(Watched {
            tag,
            user,
            reported,
            wanted: interest,
            changed: true,
            again: false,
            excluded: false,
        });
        self.changed.push_back(number);
        Ok(())
    }

    fn set_interest(&mut self, fd: BorrowedFd<'_>, _: Tag, interest: Interest) -> io::Result<()> {
        let number = fd.as_raw_fd();
        if let Some(watched) = self.slot(number) {
            watched.wanted = interest;
            if !std::mem::replace(&mut watched.changed, true) {
                self.changed.push_back(number);
            }
        }
        Ok(())
    }

    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        self.set_interest(fd, tag, interest)?;
        if let Some(watched) = self.slot(fd.as_raw_fd()) {
            watched.again = true;
        }
        Ok(())
    }

    fn set_watched(&mut self, fd: BorrowedFd<'_>, on: bool) {
        let number = fd.as_raw_fd();
        let Some(watched) = self.slot(number) else { return }; // it could not be registered
        watched.excluded = !on;
        if !std::mem::replace(&mut watched.changed, true) {
            self.changed.push_back(number);
        }
        match on {
            true => self.excluded.remove(&number),
            false => self.excluded.insert(number),
        };
    }

    fn retire(&mut self, fd: OwnedFd) {
        self.excluded.remove(&fd.as_raw_fd());
        self.retired.push_back(fd);
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.timer = Some(deadline);
    }
}
