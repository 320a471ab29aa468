//! `poll(2)` over all descriptors: for systems without epoll.
//!
//! Each wait visits all of them, in the kernel and here: it is for some hundred connections.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use fulmar_sys::{self as sys, PollSet};

use crate::selector::{Interest, Ready, Selector, Tag, Until, Waiter};

/// Level-triggered `poll(2)`.
#[derive(Debug, Default)]
pub struct Poll {
    set: PollSet,
    tags: Vec<Tag>,           // of the set's places
    places: Vec<Option<u32>>, // in the set, by descriptor
    ready: Vec<u32>,          // places that the last wait reported
    next: u32,                // the place that is reported first, so that none is always last
    deadline: Option<Instant>,
}

impl Poll {
    /// Nothing is watched yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The registered descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        (0..self.set.len()).map(|at| self.set.descriptor(at))
    }

    fn place(&self, fd: BorrowedFd<'_>) -> Option<usize> {
        let place = self.places.get(index(fd.as_raw_fd()))?;
        place.map(|at| at as usize)
    }
}

impl Selector for Poll {
    const EXTERNAL: bool = false;

    fn name(&self) -> &'static str {
        "poll"
    }

    fn watches_all(&self) -> bool {
        false
    }

    fn watching_costs(&self) -> bool {
        false
    }

    fn trusts_short_reads(&self) -> bool {
        true // level-triggered
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        let (at, index) = (self.set.len(), index(fd.as_raw_fd()));
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        assert!(self.places[index].is_none(), "a descriptor is registered once while it is open");
        self.places[index] = Some(u32::try_from(at).map_err(io::Error::other)?);
        self.set.push(fd, interest.events());
        self.tags.push(tag);
        Ok(())
    }

    fn set_interest(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        match (self.place(fd), tag) {
            // A paused listener. If it has failed, its error would be reported forever.
            (Some(at), Tag::Listener(_)) if interest == Interest::default() => self.set.mute(at),
            (Some(at), _) => self.set.set(at, interest.events()),
            (None, _) => {}
        }
        Ok(())
    }

    fn rearm(&mut self, fd: BorrowedFd<'_>, tag: Tag, interest: Interest) -> io::Result<()> {
        self.set_interest(fd, tag, interest) // level-triggered: readiness is reported again anyway
    }

    fn retire(&mut self, fd: OwnedFd) {
        let number = index(fd.as_raw_fd());
        if let Some(at) = self.places.get_mut(number).and_then(Option::take) {
            assert_eq!(self.set.descriptor(at as usize), fd.as_raw_fd(), "places follow the set");
            self.set.swap_remove(at as usize);
            self.tags.swap_remove(at as usize);
            if (at as usize) < self.set.len() {
                let moved = index(self.set.descriptor(at as usize));
                self.places[moved] = Some(at);
            }
        }
        sys::close(fd);
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}

impl Waiter for Poll {
    fn wait(&mut self, now: Instant, until: Until) -> io::Result<usize> {
        self.ready.clear();
        let mut left = match self.set.wait(until.timeout(now, self.deadline)) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(0),
            result => result?.min(EVENTS_LEN),
        };
        let len = u32::try_from(self.set.len()).map_err(io::Error::other)?;
        let from = self.next.min(len);
        for at in (from..len).chain(0..from) {
            if left == 0 {
                break;
            }
            if !self.set.events(at as usize).is_empty() {
                self.ready.push(at);
                self.next = at + 1;
                left -= 1;
            }
        }
        Ok(self.ready.len())
    }

    fn event(&self, at: usize) -> (Tag, Ready) {
        let place = self.ready[at] as usize;
        (self.tags[place], self.set.events(place).into())
    }
}

/// The index of a descriptor in a table.
fn index(fd: RawFd) -> usize {
    usize::try_from(fd).expect("open descriptors are not negative")
}

/// Events of one turn: no response waits for a thousand reads.
const EVENTS_LEN: usize = 64;
