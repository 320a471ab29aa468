//! A selector that tells the application what to wait for: `curl_multi_socket_action`, as data.
//!
//! Changes are fused. Within a turn a descriptor's interest may flip many times; the application
//! hears at most one [`Change`] for it, and none when the net effect is nothing.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
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
        /// What to wait for; hang-up and errors are to be told in any case.
        interest: Interest,
    },
    /// Stop waiting for `fd`. It is closed when the next change is asked for, or at the next
    /// action: the application never sees a number that means something else by now.
    Forget {
        /// The descriptor, still open.
        fd: RawFd,
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
    watched: Vec<Option<Watched>>, // by descriptor
    changed: VecDeque<RawFd>,
    retired: VecDeque<OwnedFd>,
    forgotten: Option<OwnedFd>, // told, and open until the application speaks again
    timer: Option<Option<Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    tag: Tag,
    told: Option<Interest>,
    wanted: Interest,
    changed: bool,
}

impl Changes {
    /// Nothing is watched yet.
    pub fn new() -> Self {
        Self::default()
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
            let told = self.slot(number).take().is_some_and(|watched| watched.told.is_some());
            if told {
                self.forgotten = Some(fd);
                return Some(Change::Forget { fd: number });
            }
            sys::close(fd);
        }
        while let Some(fd) = self.changed.pop_front() {
            let Some(watched) = self.slot(fd) else { continue };
            watched.changed = false;
            if watched.told != Some(watched.wanted) {
                watched.told = Some(watched.wanted);
                return Some(Change::Watch { fd, interest: watched.wanted });
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

    fn slot(&mut self, fd: RawFd) -> &mut Option<Watched> {
        let at = usize::try_from(fd).expect("open descriptors are not negative");
        if self.watched.len() <= at {
            self.watched.resize(at + 1, None);
        }
        &mut self.watched[at]
    }
}

impl Selector for Changes {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        let number = fd.as_raw_fd();
        *self.slot(number) = Some(Watched { tag, told: None, wanted: interest, changed: true });
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

    fn retire(&mut self, fd: OwnedFd) {
        self.retired.push_back(fd);
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.timer = Some(deadline);
    }
}
