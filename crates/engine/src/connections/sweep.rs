//! Exchanges that stall while others of their connection go on (HTTP/2).

use fulmar_proto::Connection;

use super::Entry;
use crate::timeouts::restarts_with_bytes;
use crate::timers::{Tick, TickSpan};

impl<C: Connection, T> Entry<C, T> {
    /// Ends exchanges that stall, each with an event. Returns the time of the next sweep.
    pub(super) fn sweep(&mut self, now: Tick, span: TickSpan, is_late: bool) -> Tick {
        match self.phase {
            Some(phase) if restarts_with_bytes(phase) => {
                Tick::from_number(self.connection.sweep(now.number(), span.number(), is_late))
            }
            _ => Tick::NEVER,
        }
    }
}
