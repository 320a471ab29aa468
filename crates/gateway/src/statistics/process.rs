//! What is told of the process as a whole.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use fulmar_host::{Driven, Stopper};
use fulmar_proxy::Live;
use fulmar_sys::{Ledger, ThreadLedger};

use crate::logs::Logs;

/// The process: made once at its start, shared by all threads.
#[derive(Debug)]
pub struct Process {
    /// When it began.
    pub began: Instant,
    /// The same as time of day.
    pub began_at: SystemTime,
    /// `node`, or the name of this machine.
    pub node: String,
    /// How many descriptors it may have.
    pub descriptors_max: u64,
    connections_max: usize,
    logs: Option<Logs>,
    stopper: Option<Stopper>,
    ledgers: Mutex<Vec<ThreadLedger>>,
    driven: Mutex<BTreeMap<usize, Driven>>, // by the numbers of threads
}

/// A moment, by both clocks that statistics go by.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now.
    pub now: Instant,
    /// The same as counters tell it.
    pub millis: u64,
    /// When the process began.
    pub began: Instant,
}

impl Moment {
    /// It is `now`.
    pub fn new(now: Instant, live: &Live, process: &Process) -> Self {
        Self { now, millis: live.millis(now), began: process.began }
    }
}

impl Process {
    /// It has just begun.
    pub fn new(node: String, connections_max: usize, descriptors_max: u64) -> Self {
        Self {
            began: fulmar_sys::now(),
            began_at: fulmar_sys::wall_clock(),
            node,
            descriptors_max,
            connections_max,
            logs: None,
            stopper: None,
            ledgers: Mutex::default(),
            driven: Mutex::default(),
        }
    }

    /// The same, which tells of these logs, and of the stop that `stopper` brings about.
    #[must_use]
    pub fn telling_of(self, logs: Logs, stopper: Stopper) -> Self {
        Self { logs: Some(logs), stopper: Some(stopper), ..self }
    }

    /// The calling thread serves: its system calls are told of.
    pub fn add_thread(&self) {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.push(ThreadLedger::here());
    }

    /// What all serving threads have asked of the kernel.
    pub fn ledger(&self) -> Ledger {
        let ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.iter().fold(Ledger::ZERO, |sum, ledger| sum + ledger.read())
    }

    /// The loop of this serving thread runs on that from now on.
    pub(crate) fn set_driven(&self, thread: usize, driven: Driven) {
        self.loops().insert(thread, driven);
    }

    /// What the loop of each serving thread runs on, once they have begun.
    pub fn driven(&self) -> Vec<Driven> {
        self.loops().values().cloned().collect()
    }

    fn loops(&self) -> MutexGuard<'_, BTreeMap<usize, Driven>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once a soft stop has begun.
    pub fn is_stopping(&self) -> bool {
        self.stopper.as_ref().is_some_and(Stopper::is_stopped)
    }

    /// Lines of logs that found no room, or nobody to take them.
    pub fn lines_lost(&self) -> u64 {
        self.logs.as_ref().map_or(0, Logs::lost)
    }

    /// Connections of clients that may be allowed at a time.
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }
}
