//! Walks over all connections: for ends and reports, not for a turn.

use std::time::{Duration, Instant};

use fulmar_proto::{Connection, Phase};

use crate::SocketId;
use crate::connections::{Connections, Entry, Handler};

impl<C: Connection, T> Connections<C, T> {
    /// All connections.
    pub fn sockets(&self) -> Vec<SocketId> {
        self.slots.keys().collect()
    }

    /// The same from an index of a socket on, in the order of indices: a walk that is done in parts
    /// costs what one in one go does.
    pub fn sockets_from(&self, index: u32) -> impl Iterator<Item = SocketId> {
        self.slots.keys_from(index)
    }

    /// Closes up to `max` connections on which nothing has happened for a while, and looks at no
    /// more than a bounded number: room for others, whenever it is asked for. Their peers have to
    /// expect that (RFC 9112 §9.5). How many there were.
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

/// A connection that was opened or used a moment ago may be about to send a request.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Places that are examined for idle connections.
const SWEPT_MAX: u32 = 4_096;
