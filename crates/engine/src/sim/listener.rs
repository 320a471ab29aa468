//! Listening sockets of the simulator: their addresses, their queues, and the engines that accept.

use std::collections::VecDeque;
use std::time::Instant;

use crate::Peer;

/// A listening socket. Several engines may hold it, as after a hand-over.
#[derive(Debug)]
pub(super) struct ListenSocket {
    pub(super) address: Peer,
    /// Connections that may wait to be accepted (the backlog of listen(2)).
    pub(super) queue_max: usize,
    /// Those that wait.
    pub(super) queue: VecDeque<u64>,
    /// Engines that hold it; with none, it is closed.
    pub(super) holders: usize,
}

/// An engine's hold of a listening socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acceptor {
    /// Its place among all listening sockets.
    pub(super) at: usize,
    /// The engine wants connections: [`crate::Action::Accept`].
    pub(super) wanted: bool,
    /// An accept failed; it is tried again at this time.
    pub(super) paused_until: Option<Instant>,
    pub(super) reports_local: bool,
}

impl Acceptor {
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.wanted && self.paused_until.is_none_or(|until| until <= now)
    }
}
