//! What a thread is asked to do by another one: an operator's.
//!
//! Orders wait in the [`Orders`] of the thread, which is then roused; it answers on its own time,
//! between two turns.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulmar_engine::SocketId;

use crate::shared::BindId;

/// What a thread is asked to do.
#[derive(Clone, Debug)]
pub enum Order {
    /// Tell of sessions: of those behind place `from`, at most [`PORTION`].
    Tell {
        /// The place of the last one that was told, in a walk over all.
        from: Option<u64>,
        /// Who hears it.
        to: Hearer,
    },
    /// Cut a session off.
    Cut {
        /// Its client's socket.
        socket: SocketId,
        /// Who hears whether it was there.
        to: Hearer,
    },
    /// Forget maxima; with `all`, every count.
    Clear {
        /// See above.
        all: bool,
    },
}

/// The answer to an order.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Sessions, in the order of their places; none: there are no more.
    Sessions(Vec<SessionView>),
    /// True if the session was there.
    Cut(bool),
}

/// Who hears the answer; called on the thread that gives it.
#[derive(Clone)]
pub struct Hearer(pub Arc<dyn Fn(Answer) + Send + Sync>);

impl fmt::Debug for Hearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hearer")
    }
}

/// A session, as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct SessionView {
    /// The socket of its client: its name.
    pub socket: SocketId,
    /// Where its client comes from.
    pub source: Option<SocketAddr>,
    /// The listener that it came by.
    pub bind: BindId,
    /// Its backend, once there is one.
    pub backend: Option<usize>,
    /// Its server, once one is chosen.
    pub server: Option<usize>,
    /// Since it was accepted, or of HTTP since its last exchange ended.
    pub age: Duration,
    /// Requests so far; 0 in mode tcp.
    pub requests: u32,
    /// Bytes from the client, of what is going on now.
    pub received: u64,
    /// Bytes to the client, likewise.
    pub sent: u64,
}

impl SessionView {
    /// Its place in a walk over all sessions of its thread.
    pub fn place(&self) -> u64 {
        u64::from(self.socket.index)
    }
}

/// What waits for one thread.
#[derive(Debug, Default)]
pub struct Orders(Mutex<Vec<Order>>);

impl Orders {
    pub(crate) fn push(&self, order: Order) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The index that a walk goes on from, when place `last` was the last one of a portion; `None`: it
/// was the last of all.
pub(crate) fn after(last: Option<u64>) -> Option<u32> {
    last.map_or(Some(0), |last| u32::try_from(last).ok()?.checked_add(1))
}

/// Sessions that are told at a time: a few milliseconds of a thread, and little memory.
pub const PORTION: usize = 1_000;
