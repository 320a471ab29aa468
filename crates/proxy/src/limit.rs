//! A limit that an operator may change.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit that an operator may change, seen by all threads.
#[derive(Debug)]
pub struct Limit(AtomicUsize); // `usize::MAX`: there is none

impl Default for Limit {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Limit {
    /// This one, or none.
    pub fn new(max: Option<usize>) -> Self {
        Self(AtomicUsize::new(max.unwrap_or(usize::MAX)))
    }

    /// What it is now; `None`: there is none.
    pub fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|max| *max != usize::MAX)
    }

    /// Another one, or none.
    pub fn set(&self, max: Option<usize>) {
        self.0.store(max.unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
