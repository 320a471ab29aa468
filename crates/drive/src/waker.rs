//! Waking a reactor from another thread; many wake-ups cost one write.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use fulmar_sys::Wakeup;

/// Wakes one reactor: its engine hears `handle_wake` in its next turn.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wakeup: Wakeup,
    woken: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Shared { wakeup: Wakeup::new()?, woken: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// From any thread. Wake-ups that the reactor has not answered yet are one.
    pub fn wake(&self) {
        self.shared.wake_by_ref();
    }

    /// Answers a wake-up: later ones are news again.
    pub(crate) fn answer(&self) {
        let _ = self.shared.wakeup.drain(); // EAGAIN: it was answered already
        // What was left before a wake-up that comes too early to be one is seen from here on.
        self.shared.woken.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // Nobody writes twice before it is answered: there is room, the write cannot fail.
            let _ = self.wakeup.wake();
        }
    }
}

/// For those who do not know us: a mailbox, a future.
impl From<Waker> for std::task::Waker {
    fn from(waker: Waker) -> Self {
        waker.shared.into()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wakeup.as_fd()
    }
}
