//! Waking a reactor from another thread; many wake-ups cost one write.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use fulmar_sys::Wakeup;

/// Wakes one reactor: its engine handles [`fulmar_engine::DriverEvent::Wake`] in the next turn.
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

    /// From any thread. Several wake-ups before the next turn are one.
    pub fn wake(&self) {
        self.shared.wake_by_ref();
    }

    /// Consumes a wake-up: a later one is a new event.
    pub(crate) fn acknowledge(&self) {
        let _ = self.shared.wakeup.drain(); // EAGAIN: it was consumed already
        // Data stored before a wake-up that was merged into this one is visible from here on.
        self.shared.woken.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // There is one write until it is read: there is room, so the write cannot fail.
            let _ = self.wakeup.wake();
        }
    }
}

/// For code that takes a standard waker: a mailbox, a future.
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
