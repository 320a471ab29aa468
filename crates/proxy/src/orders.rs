//! Orders of an operator to a thread.
//!
//! Orders wait in the [`Orders`] of the thread, which is then woken. It replies between two turns.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulmar_engine::SocketId;

use crate::shared::BindId;

/// An order to a thread.
#[derive(Clone, Debug)]
pub enum Order {
    /// Report the sessions after position `from`, at most [`PORTION`].
    ListSessions {
        /// The position of the last reported session, in a walk over all.
        from: Option<u64>,
        /// Receives the reply.
        to: ReplyTo,
    },
    /// Close a session.
    CloseSession {
        /// The socket of its client.
        socket: SocketId,
        /// Receives whether the session existed.
        to: ReplyTo,
    },
    /// Reset maxima; with `all`, also the counts.
    Clear {
        /// Reset the counts, too.
        all: bool,
    },
}

/// The reply to an order.
#[derive(Clone, Debug)]
pub enum OrderReply {
    /// Sessions, in order of position; empty: there are no more.
    Sessions(Vec<SessionView>),
    /// True if the session existed.
    Closed(bool),
}

/// Receives the reply; called on the thread that executes the order.
#[derive(Clone)]
pub struct ReplyTo(pub Arc<dyn Fn(OrderReply) + Send + Sync>);

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyTo")
    }
}

/// A session, for `show sess`.
#[derive(Clone, Copy, Debug)]
pub struct SessionView {
    /// The socket of its client, which identifies the session.
    pub socket: SocketId,
    /// The client's address.
    pub source: Option<SocketAddr>,
    /// The listener that accepted it.
    pub bind: BindId,
    /// The backend, if one was selected.
    pub backend: Option<usize>,
    /// The server, if one was selected.
    pub server: Option<usize>,
    /// Time since it was accepted; in mode http, since the last exchange ended.
    pub age: Duration,
    /// Number of requests; 0 in mode tcp.
    pub requests: u32,
    /// Bytes from the client, in the current exchange.
    pub received: u64,
    /// Bytes to the client, in the current exchange.
    pub sent: u64,
}

impl SessionView {
    /// Its position in a walk over all sessions of its thread.
    pub fn place(&self) -> u64 {
        u64::from(self.socket.index)
    }
}

/// The pending orders of one thread.
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

/// The index at which a walk continues after position `last`; `None` at the end.
pub(crate) fn after(last: Option<u64>) -> Option<u32> {
    last.map_or(Some(0), |last| u32::try_from(last).ok()?.checked_add(1))
}

/// Maximum number of sessions per reply: a few milliseconds of a thread, and little memory.
pub const PORTION: usize = 1_000;
