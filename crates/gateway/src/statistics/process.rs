//! Process-wide values.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use fulmar_host::{DriverInfo, Stopper};
use fulmar_proxy::Live;
use fulmar_sys::{Ledger, ThreadLedger};

use crate::logs::Logs;

/// The process: created at the start, shared by all threads.
#[derive(Debug)]
pub struct Process {
    /// Start time.
    pub began: Instant,
    /// Start time as wall-clock time.
    pub began_at: SystemTime,
    /// `node`, or the host name.
    pub node: String,
    /// The limit on descriptors.
    pub descriptors_max: u64,
    connections_max: usize,
    logs: Option<Logs>,
    stopper: Option<Stopper>,
    ledgers: Mutex<Vec<ThreadLedger>>,
    drivers: Mutex<BTreeMap<usize, DriverInfo>>, // by thread number
}

/// A time, on both clocks that statistics use.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The monotonic time.
    pub now: Instant,
    /// The same in the milliseconds of the counters.
    pub millis: u64,
    /// Start time of the process.
    pub began: Instant,
}

impl Moment {
    /// The moment at `now`.
    pub fn new(now: Instant, live: &Live, process: &Process) -> Self {
        Self { now, millis: live.millis(now), began: process.began }
    }
}

impl Process {
    /// A process that starts now.
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
            drivers: Mutex::default(),
        }
    }

    /// Sets the logs, for the count of dropped lines, and the stopper, which reports a soft stop.
    #[must_use]
    pub fn with_logs(self, logs: Logs, stopper: Stopper) -> Self {
        Self { logs: Some(logs), stopper: Some(stopper), ..self }
    }

    /// Counts the system calls of the calling thread as a proxy thread's.
    pub fn add_thread(&self) {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.push(ThreadLedger::here());
    }

    /// System calls of all proxy threads.
    pub fn ledger(&self) -> Ledger {
        let ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.iter().fold(Ledger::ZERO, |sum, ledger| sum + ledger.read())
    }

    /// Sets the driver of a thread's event loop.
    pub(crate) fn set_driver(&self, thread: usize, driver: DriverInfo) {
        self.loops().insert(thread, driver);
    }

    /// The driver of each thread's event loop, once the thread runs.
    pub fn drivers(&self) -> Vec<DriverInfo> {
        self.loops().values().cloned().collect()
    }

    fn loops(&self) -> MutexGuard<'_, BTreeMap<usize, DriverInfo>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once a soft stop has begun.
    pub fn is_stopping(&self) -> bool {
        self.stopper.as_ref().is_some_and(Stopper::is_stopped)
    }

    /// Number of log lines dropped because of a full buffer or a missing receiver.
    pub fn lines_lost(&self) -> u64 {
        self.logs.as_ref().map_or(0, Logs::lost)
    }

    /// Maximum number of concurrent client connections.
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }
}
