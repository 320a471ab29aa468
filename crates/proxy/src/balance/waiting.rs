//! Waiting sessions, as published to other threads: the oldest of each queue of each thread.
//!
//! A waiting session registers, then looks for a slot. A leaving session releases its slot, then
//! looks for waiting sessions. All operations are sequentially consistent, so at least one of them
//! sees the other: no wake-up is lost. If the oldest session belongs to another thread, this thread
//! sets its alarm and wakes it; that thread then handles the slot. A free slot that a session waits
//! for always has a responsible thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Waiting sessions of all threads.
#[derive(Debug)]
pub(crate) struct WaitingSessions {
    threads: Box<[PublishedQueues]>,
    all: AtomicU32,
    any: AtomicU32, // sessions of all threads that wait for any server
    tickets: AtomicU64,
}

/// Published state of one thread: the first ticket in each queue, or `NO_TICKET`.
#[derive(Debug)]
struct PublishedQueues {
    any: AtomicU64,
    bound: Box<[AtomicU64]>, // one for each server
    count: AtomicU32,
    alarm: AtomicBool,
    taken: AtomicBool, // the thread has a queue
}

/// A queue of a thread: for any server, or for one.
pub(crate) type QueueId = Option<usize>;

/// The first session of a queue; earlier ones are less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OldestWaiting {
    ticket: u64,
    pub(crate) thread: usize,
    pub(crate) line: QueueId,
}

impl WaitingSessions {
    pub(crate) fn new(threads: usize, servers: usize) -> Self {
        let no_ticket = || AtomicU64::new(NO_TICKET);
        let lines = |_| PublishedQueues {
            any: no_ticket(),
            bound: (0..servers).map(|_| no_ticket()).collect(),
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

    /// Registers the queue of a thread; false if it has one already.
    pub(crate) fn take(&self, thread: usize) -> bool {
        !self.threads[thread].taken.swap(true, Ordering::Relaxed)
    }

    /// Number of sessions that wait for any server.
    pub(crate) fn any(&self) -> u32 {
        self.any.load(Ordering::SeqCst)
    }

    /// True if a session of this thread waits.
    pub(crate) fn waits(&self, thread: usize) -> bool {
        self.threads[thread].count.load(Ordering::SeqCst) > 0
    }

    /// A new ticket; earlier tickets are lower.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::SeqCst)
    }

    /// Publishes the first ticket of a thread's queue.
    pub(crate) fn publish_first(&self, thread: usize, line: QueueId, first: Option<u64>) {
        self.cell(thread, line).store(first.unwrap_or(NO_TICKET), Ordering::SeqCst);
    }

    /// Increments or decrements the counts.
    pub(crate) fn count(&self, thread: usize, line: QueueId, more: bool) {
        let any = line.is_none().then_some(&self.any);
        for count in any.into_iter().chain([&self.all, &self.threads[thread].count]) {
            let before = match more {
                true => count.fetch_add(1, Ordering::SeqCst),
                false => count.fetch_sub(1, Ordering::SeqCst),
            };
            debug_assert!(more || before > 0, "a waiting session is counted once");
        }
    }

    /// True if any session waits.
    pub(crate) fn is_any_waiting(&self) -> bool {
        self.all.load(Ordering::SeqCst) > 0
    }

    /// The oldest session in a queue, of all threads.
    pub(crate) fn first(&self, line: QueueId) -> Option<OldestWaiting> {
        if !self.is_any_waiting() {
            return None;
        }
        let first = |thread| {
            let ticket = self.cell(thread, line).load(Ordering::SeqCst);
            (ticket != NO_TICKET).then_some(OldestWaiting { ticket, thread, line })
        };
        (0..self.threads.len()).filter_map(first).min()
    }

    /// Sets a thread's alarm; false if it was already set.
    pub(crate) fn alarm(&self, thread: usize) -> bool {
        !self.threads[thread].alarm.swap(true, Ordering::SeqCst)
    }

    /// Clears the alarm; true if it was set.
    pub(crate) fn take_alarm(&self, thread: usize) -> bool {
        let alarm = &self.threads[thread].alarm;
        alarm.load(Ordering::SeqCst) && alarm.swap(false, Ordering::SeqCst)
    }

    fn cell(&self, thread: usize, line: QueueId) -> &AtomicU64 {
        let lines = &self.threads[thread];
        line.map_or(&lines.any, |server| &lines.bound[server])
    }
}

/// No ticket.
const NO_TICKET: u64 = u64::MAX;
