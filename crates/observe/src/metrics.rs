//! Metrics of a server, for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fulmar_engine::End;
use fulmar_proto::PeerError;
use fulmar_semantics::clock::Clock;
use fulmar_server::{ExchangeSummary, HandlerFailure, Observer};

use crate::counts::{Counts, Totals};
use crate::exposition;

/// The counters of all threads of a server. Cheap to clone: clones share the counters.
///
/// `Display` writes the text format of Prometheus: see [`Metrics::page`].
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<MetricsShared>);

#[derive(Debug, Default)]
struct MetricsShared {
    threads: Mutex<Vec<Arc<Counts>>>,
    loops: Mutex<BTreeMap<usize, (String, String)>>,
}

impl Metrics {
    /// Without counters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an observer that counts the events and system calls of the calling thread. Call it
    /// once in each thread of a server.
    pub fn observer(&self) -> Recorder {
        let counts = Arc::new(Counts::of_this_thread());
        lock(&self.0.threads).push(Arc::clone(&counts));
        Recorder(counts)
    }

    /// Sets the driver and the spin setting of a thread's event loop.
    pub fn set_loop(&self, thread: usize, driver: String, spin: String) {
        lock(&self.0.loops).insert(thread, (driver, spin));
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        lock(&self.0.threads).iter().for_each(|counts| totals.add(counts));
        for driven in lock(&self.0.loops).values() {
            *totals.loops.entry(driven.clone()).or_default() += 1;
        }
        totals
    }
}

/// Code that holds the lock does not panic.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text format of Prometheus, version 0.0.4.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        exposition::write(f, &self.totals())
    }
}

/// Counts the events of one thread, without locks and allocations.
#[derive(Debug)]
pub struct Recorder(Arc<Counts>);

impl Observer for Recorder {
    fn accepted(&mut self, _: Instant, _: SocketAddr) {
        self.0.accepted();
    }

    fn exchange_ended(&mut self, _: Instant, _: &Clock, exchange: &ExchangeSummary<'_>) {
        self.0.answered(exchange);
    }

    fn malformed(&mut self, _: Instant, _: &Clock, _: SocketAddr, _: PeerError) {
        self.0.malformed();
    }

    fn handler_failed(&mut self, _: Instant, _: &Clock, failure: &HandlerFailure<'_>) {
        self.0.handler_failed(failure.error);
    }

    fn gone(&mut self, _: Instant, _: SocketAddr, end: &End) {
        self.0.gone(end);
    }

    fn exhausted(&mut self, _: Instant) {
        self.0.exhausted();
    }
}
