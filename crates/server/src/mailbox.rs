//! Messages from other threads to the application, each for one exchange.
//!
//! A message costs a lock. The server is woken once for all messages that are posted before it
//! reads them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use fulmar_engine::Exchange;

/// Posts messages to one server's application, from any thread.
pub struct Mailbox<M> {
    shared: Arc<MailboxState<M>>,
}

struct MailboxState<M> {
    messages: Mutex<Vec<(Exchange, M)>>,
    waker: OnceLock<Waker>,
}

impl<M> Mailbox<M> {
    pub(crate) fn new() -> Self {
        let shared = MailboxState { messages: Mutex::new(Vec::new()), waker: OnceLock::new() };
        Self { shared: Arc::new(shared) }
    }

    /// `waker` wakes the driver of the server from now on. The first one stays.
    pub fn set_waker(&self, waker: Waker) {
        let waker = self.shared.waker.get_or_init(|| waker);
        if !self.messages().is_empty() {
            waker.wake_by_ref();
        }
    }

    /// Posts a message about `exchange`. Messages arrive in the order of posting; those for a
    /// closed connection are dropped.
    pub fn post(&self, exchange: Exchange, message: M) {
        let mut messages = self.messages();
        messages.push((exchange, message));
        let first = messages.len() == 1;
        drop(messages);
        if first && let Some(waker) = self.shared.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Swaps the posted messages for an empty list.
    pub(crate) fn swap(&self, empty: &mut Vec<(Exchange, M)>) {
        debug_assert!(empty.is_empty(), "what it holds would be posted again");
        std::mem::swap(&mut *self.messages(), empty);
    }

    /// Code that may panic does not run while the lock is held.
    fn messages(&self) -> MutexGuard<'_, Vec<(Exchange, M)>> {
        self.shared.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &self.messages().len()).finish()
    }
}
