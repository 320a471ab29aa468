//! Why a wait for a counter ends, and how to end it early.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use fulmar_sys as sys;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterEnd {
    /// The command and all processes it left behind have ended; the status of the command.
    Ended(ExitStatus),
    /// The process that the counter attached to has ended. Only its parent gets its status.
    Gone,
    /// [`CounterStopper::stop`] was called.
    Stopped,
}

/// Ends [`Counter::wait`](crate::Counter::wait) from another thread.
#[derive(Clone, Debug)]
pub struct CounterStopper(pub(crate) Arc<sys::Wakeup>);

impl CounterStopper {
    /// Ends the current or the next wait with [`CounterEnd::Stopped`].
    ///
    /// # Errors
    /// Errors of writing to an `eventfd(2)`.
    pub fn stop(&self) -> io::Result<()> {
        self.0.wake()
    }
}
