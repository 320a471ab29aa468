//! A request of another thread to end gracefully.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests a graceful end of an engine, from any thread: set it, then wake its reactor.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// For an engine that is not to end yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The engine is to end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once the engine is to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
