//! A selector for the application's own loop: it reports what to wait for, as
//! `curl_multi_socket_action` does, but as data.
//!
//! Changes are merged. Within a turn a descriptor's interest may change many times; the application
//! receives at most one [`Change`] for it, and none if the net effect is nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    trusts_short_reads: bool, // the loop is level-triggered or one-shot
    lingers: bool,            // excluded descriptors are reported when they are released
    watched: BTreeMap<RawFd, Watched>,
    users: BTreeMap<RawFd, u64>, // what the application attached to some of them
    changed: VecDeque<RawFd>,
    excluded: BTreeSet<RawFd>,
    lingering: Vec<RawFd>, // excluded, and not reported yet
    retired: VecDeque<OwnedFd>,
    borrowed: VecDeque<RawFd>,  // to be forgotten, and closed elsewhere
    forgotten: Option<OwnedFd>, // reported, and open until the next call
    closed: Option<VecDeque<OwnedFd>>, // for the application to close, if it does
    timer: Option<Option<Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    tag: Tag,
    reported: Option<Interest>,
    wanted: Interest,
    changed: bool,
    again: bool,    // to be reported even if it is the same
    excluded: bool, // by the engine: not waited for at all
    lingers: bool,  // excluded, but still in the application's loop
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

    /// As [`ExternalLoop::level_triggered`], but a socket that the engine excludes remains in the
    /// application's loop until [`crate::Reactor::release_excluded`]. If it is used again before
    /// that, there is nothing to report: a loop over epoll saves two calls per request.
    pub fn lingering() -> Self {
        Self { lingers: true, ..Self::level_triggered() }
    }

    pub(crate) fn tag(&self, fd: RawFd) -> Option<Tag> {
        self.watched.get(&fd).map(|watched| watched.tag)
    }

    /// Excluded sockets that remained in the application's loop are reported.
    pub(crate) fn release_excluded(&mut self) {
        for fd in self.lingering.drain(..) {
            if let Some(watched) = self.watched.get_mut(&fd) {
                watched.lingers = false;
                queue(&mut self.changed, fd, watched);
            }
        }
    }

    /// True if there is no change, and nothing to close.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.forgotten.is_none()
            && self.retired.is_empty()
            && self.borrowed.is_empty()
            && self.changed.is_empty()
            && self.timer.is_none()
    }

    /// The next change.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Change> {
        if self.is_quiet() { None } else { self.poll_some() }
    }

    /// Descriptors are forgotten first, so that a number is never reported for two descriptors.
    fn poll_some(&mut self) -> Option<Change> {
        self.close_forgotten();
        while let Some(fd) = self.retired.pop_front() {
            let number = fd.as_raw_fd();
            if let Some(change) = self.forget(number) {
                self.forgotten = Some(fd);
                return Some(change);
            }
            self.close(fd);
        }
        while let Some(fd) = self.borrowed.pop_front() {
            if let Some(change) = self.forget(fd) {
                return Some(change);
            }
        }
        while let Some(fd) = self.changed.pop_front() {
            let Some(watched) = self.watched.get_mut(&fd) else { continue }; // retired since
            watched.changed = false;
            if watched.lingers {
                self.lingering.push(fd);
                continue;
            }
            if watched.is_paused() {
                match watched.reported.take() {
                    Some(_) => return Some(Change::Forget { fd, user: self.users.remove(&fd) }),
                    None => continue,
                }
            }
            if std::mem::take(&mut watched.again) || watched.reported != Some(watched.wanted) {
                watched.reported = Some(watched.wanted);
                let Watched { wanted: interest, tag, .. } = *watched;
                return Some(Change::Watch { fd, interest, tag, user: self.user(fd) });
            }
        }
        self.timer.take().map(|deadline| Change::Timer { deadline })
    }

    /// The application has processed the last change.
    pub(crate) fn close_forgotten(&mut self) {
        if let Some(fd) = self.forgotten.take() {
            self.close(fd);
        }
    }

    fn close(&mut self, fd: OwnedFd) {
        match &mut self.closed {
            Some(closed) => closed.push_back(fd),
            None => sys::close(fd),
        }
    }

    /// Leaves the closing of descriptors to the application.
    pub(crate) fn keep_closed(&mut self) {
        self.closed.get_or_insert_default();
    }

    /// A descriptor that the application closes.
    pub(crate) fn poll_closed(&mut self) -> Option<OwnedFd> {
        self.closed.as_mut()?.pop_front()
    }

    /// Closes a descriptor that was never watched.
    pub(crate) fn retire_unwatched(&mut self, fd: OwnedFd) {
        self.close(fd);
    }

    /// Attaches the application's value to a descriptor that was reported to it.
    pub(crate) fn assign(&mut self, fd: RawFd, user: u64) -> bool {
        let is_reported = self.watched.get(&fd).is_some_and(|it| it.reported.is_some());
        if is_reported {
            self.users.insert(fd, user);
        }
        is_reported
    }

    pub(crate) fn user(&self, fd: RawFd) -> Option<u64> {
        self.users.get(&fd).copied()
    }

    /// The descriptors that the application waits for.
    pub(crate) fn watched(&self) -> Vec<(RawFd, Tag)> {
        let reported = self.watched.iter().filter(|(_, watched)| watched.reported.is_some());
        reported.map(|(fd, watched)| (*fd, watched.tag)).collect()
    }

    /// The descriptors that are excluded from the application's loop, and not in it any more.
    pub(crate) fn unwatched(&self) -> impl Iterator<Item = (RawFd, Tag)> {
        let known = self.excluded.iter().filter_map(|fd| Some((*fd, self.watched.get(fd)?)));
        known.filter(|(_, it)| !it.lingers).map(|(fd, it)| (fd, it.tag))
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
        let watched = self.watched.remove(&fd)?;
        let user = self.users.remove(&fd);
        watched.reported.map(|_| Change::Forget { fd, user })
    }
}

fn queue(changed: &mut VecDeque<RawFd>, fd: RawFd, watched: &mut Watched) {
    if !std::mem::replace(&mut watched.changed, true) {
        changed.push_back(fd);
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
        let watched = Watched {
            tag,
            reported: None,
            wanted: interest,
            changed: true,
            again: false,
            excluded: false,
            lingers: false,
        };
        let before = self.watched.insert(number, watched);
        debug_assert!(before.is_none(), "a number is registered once while it is open");
        self.changed.push_back(number);
        Ok(())
    }

    fn set_interest(&mut self, fd: BorrowedFd<'_>, _: Tag, interest: Interest) -> io::Result<()> {
        let number = fd.as_raw_fd();
        if let Some(watched) = self.watched.get_mut(&number) {
            watched.wanted = interest;
            queue(&mut self.changed, number, watched);
        }
        Ok(())
    }

    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        self.set_interest(fd, tag, interest)?;
        if let Some(watched) = self.watched.get_mut(&fd.as_raw_fd()) {
            watched.again = true;
        }
        Ok(())
    }

    fn set_watched(&mut self, fd: BorrowedFd<'_>, on: bool) {
        let number = fd.as_raw_fd();
        // It is missing if it could not be registered.
        let Some(watched) = self.watched.get_mut(&number) else { return };
        watched.excluded = !on;
        watched.lingers = self.lingers && !on && watched.reported.is_some();
        queue(&mut self.changed, number, watched);
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::reactor::READ;

    /// Excluded and used again within a turn of the application: it has nothing to do. Otherwise it
    /// is reported when it is released, or closed.
    #[test]
    fn excluded_descriptors_linger_until_they_are_released() {
        let mut changes = ExternalLoop::lingering();
        let (socket, _peer) = UnixStream::pair().expect("a pair");
        let fd = socket.as_raw_fd();
        changes.watch(socket.as_fd(), Tag::Waker, READ).expect("registered");
        assert!(matches!(changes.poll(), Some(Change::Watch { .. })));
        changes.set_watched(socket.as_fd(), false);
        assert_eq!((changes.poll(), changes.unwatched().count()), (None, 0));
        changes.set_watched(socket.as_fd(), true);
        changes.release_excluded();
        assert_eq!(changes.poll(), None);
        changes.set_watched(socket.as_fd(), false);
        assert_eq!(changes.poll(), None);
        changes.release_excluded();
        let forget = Some(Change::Forget { fd, user: None });
        assert_eq!((changes.poll(), changes.poll()), (forget, None));
        assert_eq!(changes.unwatched().collect::<Vec<_>>(), [(fd, Tag::Waker)]);
        changes.set_watched(socket.as_fd(), true);
        assert!(matches!(changes.poll(), Some(Change::Watch { .. })));
        changes.set_watched(socket.as_fd(), false);
        assert_eq!(changes.poll(), None);
        changes.retire(socket.into());
        changes.release_excluded();
        assert_eq!((changes.poll(), changes.poll()), (forget, None));
    }
}
