//! How threads rouse each other.

use std::fmt;
use std::sync::OnceLock;

/// Ends the wait of one thread's reactor; `Proxy::handle_wake` follows there.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// How threads rouse each other: set once, by whoever starts them.
#[derive(Default)]
pub struct Wakers(OnceLock<Box<[Wake]>>);

impl Wakers {
    /// One for each thread, in order. Those that were set before stay.
    pub fn set(&self, wakers: impl IntoIterator<Item = Wake>) {
        self.0.get_or_init(|| wakers.into_iter().collect());
    }

    /// Wakes one thread, if there is a way to.
    pub fn wake(&self, thread: usize) {
        if let Some(wake) = self.0.get().and_then(|wakers| wakers.get(thread)) {
            wake();
        }
    }

    /// Wakes all.
    pub fn wake_all(&self) {
        self.0.get().into_iter().flatten().for_each(|wake| wake());
    }
}

impl fmt::Debug for Wakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wakers").field(&self.0.get().map(|wakers| wakers.len())).finish()
    }
}
