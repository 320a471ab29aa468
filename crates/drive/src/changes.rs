//! A selector that tells the application what to wait for: `curl_multi_socket_action`, as data.
//!
//! Changes are fused. Within a turn a descriptor's interest may flip many times; the application
//! hears at most one [`Change`] for it, and none when the net effect is nothing.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use fulmar_sys as sys;

use crate::selector::{Interest, Selector, Tag};

/// A note to an application that owns the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Wait for this on `fd` from now on: the first time, or instead of what was told before.
    Watch {
        /// The descriptor.
        fd: RawFd,
        /// What to wait for; errors are to be told in any case.
        interest: Interest,
        /// What [`crate::Reactor::assign`] attached to it.
        user: Option<u64>,
    },
    /// Stop waiting for `fd`, also for errors. It is closed when the next change is asked for, or at
    /// the next action: the application never sees a number that means something else by now. Only a
    /// listener that rests for a while stays open, and is told by a [`Change::Watch`] again.
    Forget {
        /// The descriptor, still open.
        fd: RawFd,
        /// What [`crate::Reactor::assign`] attached to it: to be freed, perhaps.
        user: Option<u64>,
    },
    /// Call `timeout_action` then; replaces what was told before. `None`: there is no deadline.
    Timer {
        /// When.
        deadline: Option<Instant>,
    },
}

/// Collects what has changed until the application asks.
#[derive(Debug, Default)]
pub struct Changes {
    trigger: Trigger,
    watched: Vec<Option<Watched>>, // by descriptor
    changed: VecDeque<RawFd>,
    retired: VecDeque<OwnedFd>,
    lent: VecDeque<RawFd>,      // to be forgotten, and closed by others
    forgotten: Option<OwnedFd>, // told, and open until the application speaks again
    timer: Option<Option<Instant>>,
}

/// The kind of the application's loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trigger {
    /// It may be edge-triggered.
    #[default]
    Any,
    /// It is level-triggered or one-shot: it reports readiness again while it lasts.
    Level,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    tag: Tag,
    user: Option<u64>,
    told: Option<Interest>,
    wanted: Interest,
    changed: bool,
    again: bool, // to be told even if it is the same
}

impl Watched {
    /// A listener that nobody is to be accepted from for now. It is not waited for at all: if it has
    /// ended, an event that is told in any case would be told for ever.
    fn rests(&self) -> bool {
        matches!(self.tag, Tag::Listener(_)) && self.wanted == Interest::default()
    }
}

impl Changes {
    /// For any loop. It may be edge-triggered, so the socket is read to `EAGAIN` after each event:
    /// one call more for each event, as in libcurl.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a level-triggered loop: `poll(2)`, epoll without `EPOLLET`, libevent's and libuv's
    /// defaults, and one-shot loops, which look again when they are armed. A short receive ends the
    /// reading there.
    pub fn level_triggered() -> Self {
        Self { trigger: Trigger::Level, ..Self::default() }
    }

    pub(crate) fn tag(&self, fd: RawFd) -> Option<Tag> {
        let at = usize::try_from(fd).ok()?;
        self.watched.get(at)?.map(|watched| watched.tag)
    }

    /// Descriptors are forgotten first: a number that is free again is never told twice.
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
        while let Some(fd) = self.lent.pop_front() {
            if let Some(change) = self.forget(fd) {
                return Some(change);
            }
        }
        while let Some(fd) = self.changed.pop_front() {
            let Some(watched) = self.slot(fd) else { continue }; // retired since
            watched.changed = false;
            if watched.rests() {
                let (told, user) = (watched.told.take(), watched.user.take());
                match told {
                    Some(_) => return Some(Change::Forget { fd, user }),
                    None => continue,
                }
            }
            if std::mem::take(&mut watched.again) || watched.told != Some(watched.wanted) {
                watched.told = Some(watched.wanted);
                let (interest, user) = (watched.wanted, watched.user);
                return Some(Change::Watch { fd, interest, user });
            }
        }
        self.timer.take().map(|deadline| Change::Timer { deadline })
    }

    /// The application has taken note of what it was told last.
    pub(crate) fn close_forgotten(&mut self) {
        if let Some(fd) = self.forgotten.take() {
            sys::close(fd);
        }
    }

    /// Attaches the application's word to a descriptor that it knows.
    pub(crate) fn assign(&mut self, fd: RawFd, user: u64) -> bool {
        let at = usize::try_from(fd).unwrap_or(usize::MAX);
        match self.watched.get_mut(at) {
            Some(Some(watched)) if watched.told.is_some() => {
                watched.user = Some(user);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn user(&self, fd: RawFd) -> Option<u64> {
        self.watched.get(usize::try_from(fd).ok()?)?.as_ref()?.user
    }

    /// What the application waits for.
    pub(crate) fn watched(&self) -> Vec<(RawFd, Tag)> {
        let told = |(watched, fd): (&Option<Watched>, RawFd)| {
            watched.filter(|watched| watched.told.is_some()).map(|watched| (fd, watched.tag))
        };
        self.watched.iter().zip(0..).filter_map(told).collect()
    }

    /// A descriptor whose end has come, as long as it is open.
    pub(crate) fn retired(&self, fd: RawFd) -> Option<BorrowedFd<'_>> {
        let mut open = self.forgotten.iter().chain(&self.retired);
        open.find(|retired| retired.as_raw_fd() == fd).map(AsFd::as_fd)
    }

    /// Everything comes to its end, also what others own.
    pub(crate) fn forget_all(&mut self) {
        self.changed.clear();
        self.lent = self.watched().into_iter().map(|(fd, _)| fd).collect();
    }

    /// The end of what was told about `fd`, if anything was.
    fn forget(&mut self, fd: RawFd) -> Option<Change> {
        let watched = self.slot(fd).take()?;
        watched.told.map(|_| Change::Forget { fd, user: watched.user })
    }

    fn slot(&mut self, fd: RawFd) -> &mut Option<Watched> {
        let at = usize::try_from(fd).expect("open descriptors are not negative");
        if self.watched.len() <= at {
            self.watched.resize(at + 1, None);
        }
        &mut self.watched[at]
    }
}

impl Selector for Changes {
    const EXTERNAL: bool = true;

    fn name(&self) -> &'static str {
        "changes"
    }

    fn watches_all(&self) -> bool {
        false
    }

    fn watching_costs(&self) -> bool {
        false // deferred registration would need the application's timer
    }

    fn trusts_short_reads(&self) -> bool {
        self.trigger == Trigger::Level
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        let number = fd.as_raw_fd();
        let (user, told) = (None, None);
        debug_assert!(self.slot(number).is_none(), "a number is registered once while it is open");
        *self.slot(number) =
            Some(Watched { tag, user, told, wanted: interest, changed: true, again: false });
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

    fn retire(&mut self, fd: OwnedFd) {
        self.retired.push_back(fd);
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.timer = Some(deadline);
    }
}
