//! A limit that an operator may change.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit that an operator may change, shared by all threads.
#[derive(Debug)]
pub struct AdjustableLimit(AtomicUsize); // `usize::MAX`: unlimited

impl Default for AdjustableLimit {
    fn default() -> Self {
        Self::new(None)
    }
}

impl AdjustableLimit {
    /// A limit; `None`: unlimited.
    pub fn new(max: Option<usize>) -> Self {
        Self(AtomicUsize::new(max.unwrap_or(usize::MAX)))
    }

    /// The current limit; `None`: unlimited.
    pub fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|max| *max != usize::MAX)
    }

    /// Sets the limit; `None`: unlimited.
    pub fn set(&self, max: Option<usize>) {
        self.0.store(max.unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
