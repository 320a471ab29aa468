//! State that the threads of a run share: counters, and a flag to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::outage::Outages;
use crate::tally::RunTally;

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadProgress {
    /// Since the run began.
    pub elapsed: Duration,
    /// Complete responses.
    pub requests: u64,
    /// Errors of every kind.
    pub errors: u64,
    /// Established connections.
    pub connections: u64,
    /// Bytes received.
    pub bytes: u64,
}

/// Each thread writes it at most ten times a second; a progress line reads it.
#[derive(Debug)]
pub(crate) struct RunShared {
    pub(crate) stop: AtomicBool,
    pub(crate) outages: Outages,
    threads: Box<[Cell]>,
}

/// A thread's counters: in a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell {
    requests: AtomicU64,
    errors: AtomicU64,
    connections: AtomicU64,
    bytes: AtomicU64,
}

impl RunShared {
    pub(crate) fn new(threads: u32) -> Self {
        let cells = (0..threads).map(|_| Cell::default()).collect();
        let outages = Outages::new(threads);
        Self { stop: AtomicBool::new(false), outages, threads: cells }
    }

    pub(crate) fn publish(&self, thread: u32, tally: &RunTally) {
        let cell = &self.threads[thread as usize];
        cell.requests.store(tally.answered, Ordering::Relaxed);
        cell.errors.store(tally.errors(), Ordering::Relaxed);
        cell.connections.store(tally.established.into(), Ordering::Relaxed);
        cell.bytes.store(tally.bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, elapsed: Duration) -> LoadProgress {
        let sum = |of: fn(&Cell) -> &AtomicU64| {
            self.threads.iter().map(|cell| of(cell).load(Ordering::Relaxed)).sum()
        };
        LoadProgress {
            elapsed,
            requests: sum(|cell| &cell.requests),
            errors: sum(|cell| &cell.errors),
            connections: sum(|cell| &cell.connections),
            bytes: sum(|cell| &cell.bytes),
        }
    }
}
