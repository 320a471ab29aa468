//! Wakes other threads.

use std::fmt;
use std::sync::OnceLock;

/// Ends the wait of one thread's reactor, which then handles [`fulmar_engine::DriverEvent::Wake`].
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// The wakers of all threads; set once, by the program that starts the threads.
#[derive(Default)]
pub struct Wakers(OnceLock<Box<[Wake]>>);

impl Wakers {
    /// Sets one waker for each thread, in order. Later calls change nothing.
    pub fn set(&self, wakers: impl IntoIterator<Item = Wake>) {
        self.0.get_or_init(|| wakers.into_iter().collect());
    }

    /// Wakes one thread, if its waker is set.
    pub fn wake(&self, thread: usize) {
        if let Some(wake) = self.0.get().and_then(|wakers| wakers.get(thread)) {
            wake();
        }
    }

    /// Wakes all threads.
    pub(crate) fn wake_all(&self) {
        self.0.get().into_iter().flatten().for_each(|wake| wake());
    }
}

impl fmt::Debug for Wakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wakers").field(&self.0.get().map(|wakers| wakers.len())).finish()
    }
}
