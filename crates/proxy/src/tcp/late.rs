//! Timeouts of a relay: a timeout ends one direction, not the session.
//!
//! ```text
//! no bytes received ──▶ reading stops, and the other side receives the end
//! no bytes taken ─────▶ the session is closed
//! ```
//!
//! A side that has ended and has nothing to receive does not time out. A side does not time out
//! either while reading is paused because the other side is slow.

use std::time::Instant;

use fulmar_proto::{Connection, Headers, RawConnection};

use super::across::{Across, Aside, Seat, Way, Work};
use super::ending::{By, Ending, When};
use super::session::Stage;
use super::{Tcp, limits};
use crate::shared::Shared;

impl Across<'_> {
    /// A connection timed out. Returns true if it stays open.
    pub(super) fn outlasts(
        &mut self,
        now: Instant,
        (connection, seat): (&mut RawConnection, &mut Seat),
    ) -> bool {
        let Some(session) = self.desk.sessions.get_mut(seat.session) else { return false };
        if session.stage != Stage::Relaying {
            return false;
        }
        let takes = connection.queued() > 0;
        if !connection.is_heard() {
            return !takes;
        }
        let by = match self.from {
            Way::Client => By::ClientTimeout,
            Way::Server => By::ServerTimeout,
        };
        session.end(Ending { by, when: When::Data });
        if takes {
            return false;
        }
        connection.stop_hearing();
        self.tell_end(now, seat.session);
        self.desk.work.push_back(Work::Ended(seat.session, self.from));
        true
    }

    /// Sends the end to the other side.
    pub(super) fn tell_end(&mut self, now: Instant, session: u32) {
        let Some(other) = self.other(session) else { return };
        if let Some((to, _)) = self.to.get_mut(other) {
            // Refused only if it was sent before.
            let _ = to.send_end(RawConnection::STREAM, Headers::EMPTY);
            self.to.touch(now, other, &mut Aside { way: self.from.other(), desk: self.desk });
        }
    }
}

impl Tcp {
    /// Both connections are established: `timeout tunnel` applies to the client, as to the server.
    pub(super) fn begin_to_relay(&mut self, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get(number) else { return };
        let (Some(client), Some(backend)) = (session.client, session.backend) else { return };
        let backend = &shared.live.backends[backend.0].config;
        if backend.timeouts.tunnel.is_some() {
            let frontend = &shared.live.frontends[session.bind.frontend].config;
            let limits = self.clients.add_timeouts(limits::client(frontend, Some(backend)));
            self.clients.set_timeouts(client, limits);
        }
    }

    /// One side has ended, and the end was sent to the other one: `timeout client-fin` or
    /// `server-fin` limits its silence.
    pub(super) fn handle_ended(&mut self, now: Instant, shared: &Shared, number: u32, way: Way) {
        let Some(session) = self.desk.sessions.get(number) else { return };
        let Some(backend) = session.backend else { return };
        let frontend = &shared.live.frontends[session.bind.frontend].config;
        let backend = &shared.live.backends[backend.0].config;
        let (told, before, fin) = match way {
            Way::Server => {
                let before = limits::client(frontend, Some(backend));
                (session.client, before, frontend.timeouts.client_fin)
            }
            Way::Client => (session.server, limits::server(backend), backend.timeouts.server_fin),
        };
        let (Some(told), Some(limits)) = (told, limits::half_closed(before, fin)) else { return };
        let (side, _) = self.side_of(way.other());
        let limits = side.add_timeouts(limits);
        side.restart_timeouts(now, told, limits);
    }
}
