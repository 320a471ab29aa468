//! Deadlines that pass: of a connection, and of exchanges that stall while others go on (HTTP/2).

use std::time::Instant;

use fulmar_proto::{Connection, Phase};

use super::{CloseKind, ConnectionEvent, Connections, End, Entry, Fault, Handler};
use crate::SocketId;
use crate::timeouts::{TimeoutTicks, restarts_with_bytes};
use crate::timers::{Tick, TickSpan};

impl<C: Connection, T> Connections<C, T> {
    pub(super) fn come_due(
        &mut self,
        now: Instant,
        tick: Tick,
        at: u32,
        handler: &mut impl Handler<C, T>,
    ) {
        let socket = self.slots.key(at);
        let Some(entry) = self.slots.get_mut(socket) else { return };
        entry.armed = TickSpan::ENDLESS;
        let ticks = self.outputs.timeouts.of(entry.timeouts, at);
        let is_late = entry.is_late(tick, ticks);
        let waits_for_bytes = entry.phase.is_some_and(restarts_with_bytes);
        let sweep = entry.sweep(tick, ticks, is_late && waits_for_bytes);
        if sweep < Tick::NEVER && entry.connection.has_event() {
            // The other exchanges have the time again. A late head has not: it is due at once.
            if waits_for_bytes {
                entry.since = tick;
            }
            self.note_moved(now, socket, 0, handler);
        } else if is_late {
            self.give_up(now, socket, handler);
        } else if entry.timer <= tick {
            entry.timer = Tick::NEVER;
            let pair = (&mut entry.connection, &mut entry.data);
            handler.handle(now, socket, pair, ConnectionEvent::Timer);
            self.note_moved(now, socket, 0, handler);
        }
        let Some(entry) = self.slots.get_mut(socket) else { return };
        let ticks = self.outputs.timeouts.of(entry.timeouts, at);
        entry.armed = entry.until_look(ticks);
        self.outputs.wheel.arm(at, entry.deadline(ticks).min(entry.timer).min(sweep));
    }

    /// The deadline has passed. The connection ends, if possible after a response.
    fn give_up(&mut self, now: Instant, socket: SocketId, handler: &mut impl Handler<C, T>) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        if entry.phase.is_some() {
            let mut extend = false;
            let event = ConnectionEvent::DeadlinePassed { extend: &mut extend };
            handler.handle(now, socket, (&mut entry.connection, &mut entry.data), event);
            if extend {
                entry.since = self.outputs.wheel.tick(now);
                return self.note_moved(now, socket, 0, handler);
            }
        }
        let fault = match entry.phase {
            Some(Phase::Idle | Phase::Head) => Some(Fault::LateHead),
            Some(Phase::Body) => Some(Fault::LateBody),
            Some(
                Phase::Handshake
                | Phase::Response
                | Phase::Application
                | Phase::Send
                | Phase::Linger
                | Phase::Tunnel,
            )
            | None => None,
        };
        if fault.is_some() && entry.connection.handle_late() {
            entry.fault = fault;
            return self.note_moved(now, socket, 0, handler);
        }
        let end = End::TimedOut(entry.phase);
        self.end(now, socket, end, CloseKind::Normal, handler);
    }
}

impl<C: Connection, T> Entry<C, T> {
    /// Ends exchanges that stall, each with an event. Returns the time of the next sweep.
    fn sweep(&mut self, now: Tick, ticks: &TimeoutTicks, is_late: bool) -> Tick {
        let span = match self.phase {
            Some(Phase::Body | Phase::Send | Phase::Tunnel) => self.span(ticks),
            // The connection does not wait for bytes, but some of its exchanges may.
            Some(Phase::Idle | Phase::Head | Phase::Application | Phase::Linger) => {
                ticks.of(Phase::Send)
            }
            // A client's exchanges have deadlines of their owner.
            Some(Phase::Handshake | Phase::Response) | None => return Tick::NEVER,
        };
        Tick::from_number(self.connection.sweep(now.number(), span.number(), is_late))
    }
}
