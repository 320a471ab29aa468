//! The time of a thread, for what it counts: read by nobody else's account.

use std::sync::atomic::{AtomicU64, Ordering};

/// The time of a thread: milliseconds since the proxy began. Its engine sets it when it is told a
/// new moment; no clock is read for it.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// It is so late now.
    #[inline]
    pub fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    /// How late it was when its thread last looked.
    #[inline]
    pub fn millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
