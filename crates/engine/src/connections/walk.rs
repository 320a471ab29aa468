//! Walks over all connections, for shutdown and reports, not for each turn.

use std::time::{Duration, Instant};

use fulmar_proto::{Connection, Phase};

use crate::SocketId;
use crate::connections::{Connections, Entry, Handler};

impl<C: Connection, T> Connections<C, T> {
    /// All connections.
    pub fn sockets(&self) -> Vec<SocketId> {
        self.slots.keys().collect()
    }

    /// The same from an index of a socket on, in the order of indices. A walk in parts costs the
    /// same as one at once.
    pub fn sockets_from(&self, index: u32) -> impl Iterator<Item = SocketId> {
        self.slots.keys_from(index)
    }

    /// Closes up to `max` connections that have been idle for a second, to make room for others.
    /// Examines a bounded number per call. Clients have to expect this (RFC 9112 §9.5). Returns the
    /// number of closed connections.
    pub fn close_idle(
        &mut self,
        now: Instant,
        max: usize,
        handler: &mut impl Handler<C, T>,
    ) -> usize {
        let (places, tick) = (self.slots.places(), self.outputs.wheel.tick(now));
        let is_idle = |entry: &Entry<C, T>| {
            entry.phase == Some(Phase::Idle) && tick.since(entry.since) >= IDLE_MIN.into()
        };
        let mut closed = 0;
        for _ in 0..places.min(SWEPT_MAX) {
            self.swept = if self.swept < places { self.swept } else { 0 };
            let socket = self.slots.key(self.swept);
            self.swept += 1;
            if self.slots.get(socket).is_some_and(is_idle) {
                self.cut(now, socket, handler);
                closed += 1;
                if closed == max {
                    break;
                }
            }
        }
        closed
    }
}

/// The client of a connection that was used recently may be about to send a request.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Places that are examined for idle connections.
const SWEPT_MAX: u32 = 4_096;
