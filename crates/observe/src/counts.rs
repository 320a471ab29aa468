//! Counters of one thread. The thread increments them; other threads read them at any time.
//!
//! There are no locks, and increments need no atomic read-modify-write, because each counter has
//! one writer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fulmar_engine::End;
use fulmar_proto::Phase;
use fulmar_server::{ExchangeSummary, HandlerError};
use fulmar_sys::{Ledger, ThreadLedger};

/// A monotonic counter with one writing thread.
#[derive(Debug, Default)]
struct EventCount(AtomicU64);

impl EventCount {
    fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one thread.
#[derive(Debug)]
pub(crate) struct Counts {
    ledger: ThreadLedger,
    accepted: EventCount,
    ended: [EventCount; REASONS.len()],
    accept_failures: EventCount,
    malformed: EventCount,
    requests: [[EventCount; CODES.len()]; METHODS.len()],
    incomplete: EventCount,
    handler_errors: [EventCount; CAUSES.len()],
    body_bytes: EventCount,
    durations: [EventCount; BUCKETS.len() + 1],
    duration_nanos: EventCount,
}

impl Counts {
    /// For the calling thread, including its ledger of system calls.
    pub(crate) fn of_this_thread() -> Self {
        Self {
            ledger: ThreadLedger::here(),
            accepted: EventCount::default(),
            ended: Default::default(),
            accept_failures: EventCount::default(),
            malformed: EventCount::default(),
            requests: Default::default(),
            incomplete: EventCount::default(),
            handler_errors: Default::default(),
            body_bytes: EventCount::default(),
            durations: Default::default(),
            duration_nanos: EventCount::default(),
        }
    }

    pub(crate) fn accepted(&self) {
        self.accepted.add(1);
    }

    pub(crate) fn exhausted(&self) {
        self.accept_failures.add(1);
    }

    pub(crate) fn malformed(&self) {
        self.malformed.add(1);
    }

    pub(crate) fn handler_failed(&self, error: &HandlerError) {
        self.handler_errors[cause(error)].add(1);
    }

    pub(crate) fn gone(&self, end: &End) {
        self.ended[reason(end)].add(1);
    }

    pub(crate) fn answered(&self, exchange: &ExchangeSummary<'_>) {
        self.requests[method(exchange.request.method)][code(exchange.status)].add(1);
        self.body_bytes.add(exchange.bytes);
        if !exchange.complete {
            self.incomplete.add(1);
        }
        let over = BUCKETS.iter().position(|(limit, _)| exchange.duration <= *limit);
        self.durations[over.unwrap_or(BUCKETS.len())].add(1);
        let nanos = u64::try_from(exchange.duration.as_nanos()).unwrap_or(u64::MAX);
        self.duration_nanos.add(nanos);
    }
}

/// The sums over all threads.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) threads: u64,
    /// Number of event loops by driver and spin setting.
    pub(crate) loops: BTreeMap<(String, String), u64>,
    pub(crate) ledger: Ledger,
    pub(crate) accepted: u64,
    pub(crate) ended: [u64; REASONS.len()],
    pub(crate) accept_failures: u64,
    pub(crate) malformed: u64,
    pub(crate) requests: [[u64; CODES.len()]; METHODS.len()],
    pub(crate) incomplete: u64,
    pub(crate) handler_errors: [u64; CAUSES.len()],
    pub(crate) body_bytes: u64,
    pub(crate) durations: [u64; BUCKETS.len() + 1],
    pub(crate) duration_nanos: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, counts: &Counts) {
        self.threads += 1;
        self.ledger = self.ledger + counts.ledger.read();
        // First, so that a closed connection is always counted as accepted.
        add_each(&mut self.ended, &counts.ended);
        self.accepted += counts.accepted.read();
        self.accept_failures += counts.accept_failures.read();
        self.malformed += counts.malformed.read();
        for (sums, counts) in self.requests.iter_mut().zip(&counts.requests) {
            add_each(sums, counts);
        }
        self.incomplete += counts.incomplete.read();
        add_each(&mut self.handler_errors, &counts.handler_errors);
        self.body_bytes += counts.body_bytes.read();
        add_each(&mut self.durations, &counts.durations);
        self.duration_nanos += counts.duration_nanos.read();
    }

    /// Open connections.
    pub(crate) fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.ended.iter().sum())
    }

    /// Finished exchanges.
    pub(crate) fn answered(&self) -> u64 {
        self.requests.iter().flatten().sum()
    }
}

fn add_each(sums: &mut [u64], counts: &[EventCount]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count.read();
    }
}

/// The index of a method. Clients can invent methods, so all unknown ones share an index.
fn method(method: &[u8]) -> usize {
    let known = METHODS.iter().position(|known| known.as_bytes() == method);
    known.unwrap_or(METHODS.len() - 1)
}

fn code(status: u16) -> usize {
    usize::from(status / 100).min(CODES.len() - 1)
}

fn reason(end: &End) -> usize {
    let name = match end {
        End::Closed => "closed",
        End::Peer(_) => "malformed",
        End::Layer(_) => "layer",
        End::Failed(_) => "socket",
        End::File(_) => "file",
        End::TimedOut(None | Some(Phase::Handshake)) => "handshake_timeout",
        End::TimedOut(Some(Phase::Idle)) => "idle_timeout",
        End::TimedOut(Some(Phase::Head)) => "head_timeout",
        End::TimedOut(Some(Phase::Body)) => "body_timeout",
        End::TimedOut(Some(Phase::Response | Phase::Application)) => "abandoned",
        End::TimedOut(Some(Phase::Send)) => "send_timeout",
        End::TimedOut(Some(Phase::Linger)) => "linger_timeout",
        End::TimedOut(Some(Phase::Tunnel)) => "tunnel_timeout",
        End::Panicked => "panic",
        _ => "other",
    };
    REASONS.iter().position(|reason| *reason == name).expect("all reasons are in REASONS")
}

fn cause(error: &HandlerError) -> usize {
    let name = match error {
        HandlerError::Usage(_) => "misuse",
        HandlerError::NoResponse => "no_response",
        HandlerError::SuspendedDropped => "suspended_dropped",
        HandlerError::Panic(_) => "panic",
        _ => "other",
    };
    CAUSES.iter().position(|cause| *cause == name).expect("all causes are in CAUSES")
}

/// Causes of handler failures.
pub(crate) const CAUSES: [&str; 5] =
    ["misuse", "no_response", "suspended_dropped", "panic", "other"];

/// Reasons for the end of a connection.
pub(crate) const REASONS: [&str; 15] = [
    "closed",
    "malformed",
    "layer",
    "socket",
    "file",
    "handshake_timeout",
    "idle_timeout",
    "head_timeout",
    "body_timeout",
    "abandoned",
    "send_timeout",
    "linger_timeout",
    "tunnel_timeout",
    "panic",
    "other",
];

/// Request methods (RFC 9110 §9.3, RFC 5789).
pub(crate) const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "other"];

/// Status classes (RFC 9110 §15); `none`: no response was sent. The class 1xx contains the final
/// status 101.
pub(crate) const CODES: [&str; 7] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"];

/// Upper bounds (inclusive) of the duration buckets; as text in seconds.
pub(crate) const BUCKETS: [(Duration, &str); 12] = [
    (Duration::from_micros(100), "0.0001"),
    (Duration::from_millis(1), "0.001"),
    (Duration::from_micros(2_500), "0.0025"),
    (Duration::from_millis(5), "0.005"),
    (Duration::from_millis(10), "0.01"),
    (Duration::from_millis(25), "0.025"),
    (Duration::from_millis(50), "0.05"),
    (Duration::from_millis(100), "0.1"),
    (Duration::from_millis(500), "0.5"),
    (Duration::from_secs(1), "1"),
    (Duration::from_secs(5), "5"),
    (Duration::from_secs(30), "30"),
];
