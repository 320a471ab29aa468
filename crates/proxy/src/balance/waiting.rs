//! Who waits, as far as other threads have to know: the oldest of each line of each thread.
//!
//! A waiter tells of itself, then looks for a place; who leaves a place gives it back, then looks
//! for waiters. All of it is sequentially consistent, so that at least one sees the other. Whoever
//! finds that the oldest waiter is another thread's sets the other's alarm and wakes it; from then
//! on the other sees to the place. So a free place that somebody wants is always somebody's duty.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Who waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    threads: Box<[Lines]>,
    all: AtomicU32,
    any: AtomicU32, // of all, those who take any server
    tickets: AtomicU64,
}

/// What one thread tells of its lines: the ticket of the first in each, or `NOBODY`.
#[derive(Debug)]
struct Lines {
    any: AtomicU64,
    bound: Box<[AtomicU64]>, // one for each server
    count: AtomicU32,
    alarm: AtomicBool,
    taken: AtomicBool, // a queue tells of its lines here
}

/// A line of a thread's queue: for any server, or for one.
pub(crate) type Line = Option<usize>;

/// The first of a line; who came earlier is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter {
    ticket: u64,
    pub(crate) thread: usize,
    pub(crate) line: Line,
}

impl Waiting {
    pub(crate) fn new(threads: usize, servers: usize) -> Self {
        let nobody = || AtomicU64::new(NOBODY);
        let lines = |_| Lines {
            any: nobody(),
            bound: (0..servers).map(|_| nobody()).collect(),
            count: AtomicU32::new(0),
            alarm: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        };
        Self {
            threads: (0..threads).map(lines).collect(),
            all: AtomicU32::new(0),
            any: AtomicU32::new(0),
            tickets: AtomicU64::new(0),
        }
    }

    /// A queue is going to tell of its lines as this thread's; false: another one does.
    pub(crate) fn take(&self, thread: usize) -> bool {
        !self.threads[thread].taken.swap(true, Ordering::Relaxed)
    }

    /// How many wait for any server.
    pub(crate) fn any(&self) -> u32 {
        self.any.load(Ordering::SeqCst)
    }

    /// True if somebody of this thread waits.
    pub(crate) fn waits(&self, thread: usize) -> bool {
        self.threads[thread].count.load(Ordering::SeqCst) > 0
    }

    /// A ticket: who has a lower one came earlier.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::SeqCst)
    }

    /// The first of a thread's line has this ticket now.
    pub(crate) fn tell_first(&self, thread: usize, line: Line, first: Option<u64>) {
        self.cell(thread, line).store(first.unwrap_or(NOBODY), Ordering::SeqCst);
    }

    /// One more waits, or one less.
    pub(crate) fn count(&self, thread: usize, line: Line, more: bool) {
        let any = line.is_none().then_some(&self.any);
        for count in any.into_iter().chain([&self.all, &self.threads[thread].count]) {
            match more {
                true => count.fetch_add(1, Ordering::SeqCst),
                false => count.fetch_sub(1, Ordering::SeqCst),
            };
        }
    }

    /// True if anybody waits.
    pub(crate) fn is_anybody(&self) -> bool {
        self.all.load(Ordering::SeqCst) > 0
    }

    /// Who has waited longest in a line, of all threads.
    pub(crate) fn first(&self, line: Line) -> Option<Waiter> {
        if !self.is_anybody() {
            return None;
        }
        let first = |thread| {
            let ticket = self.cell(thread, line).load(Ordering::SeqCst);
            (ticket != NOBODY).then_some(Waiter { ticket, thread, line })
        };
        (0..self.threads.len()).filter_map(first).min()
    }

    /// Sets a thread's alarm; false: it was set, and the thread is on its way.
    pub(crate) fn alarm(&self, thread: usize) -> bool {
        !self.threads[thread].alarm.swap(true, Ordering::SeqCst)
    }

    /// Takes the alarm back, if it was set.
    pub(crate) fn take_alarm(&self, thread: usize) -> bool {
        let alarm = &self.threads[thread].alarm;
        alarm.load(Ordering::SeqCst) && alarm.swap(false, Ordering::SeqCst)
    }

    fn cell(&self, thread: usize, line: Line) -> &AtomicU64 {
        let lines = &self.threads[thread];
        line.map_or(&lines.any, |server| &lines.bound[server])
    }
}

/// No ticket.
const NOBODY: u64 = u64::MAX;
