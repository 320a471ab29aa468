//! The time of a thread, for its counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// The time of a thread: milliseconds since the start of the proxy. The thread's engine sets it
/// from the time of each event; this reads no clock.
#[derive(Debug, Default)]
pub struct ThreadClock(AtomicU64);

impl ThreadClock {
    /// Sets the current time.
    #[inline]
    pub fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    /// The time of the thread's last event.
    #[inline]
    pub fn millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
