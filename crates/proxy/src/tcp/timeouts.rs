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

use super::forward::{DeferringHandler, RelayConn, SessionWork, SideHandler, SideKind};
use super::session::TcpStage;
use super::termination_state::{EndCause, EndPhase, SessionEnd};
use super::{TcpRelay, timeout_sets};
use crate::shared::ThreadContext;

impl SideHandler<'_> {
    /// A connection timed out. Returns true if it stays open.
    pub(super) fn survives_timeout(
        &mut self,
        now: Instant,
        (connection, conn): (&mut RawConnection, &mut RelayConn),
    ) -> bool {
        let Some(session) = self.state.sessions.get_mut(conn.session) else { return false };
        if session.stage != TcpStage::Relaying {
            return false;
        }
        let takes = connection.unsent(RawConnection::STREAM) > 0;
        if !connection.is_receiving() {
            return !takes;
        }
        let by = match self.from {
            SideKind::Client => EndCause::ClientTimeout,
            SideKind::Server => EndCause::ServerTimeout,
        };
        session.end(SessionEnd { by, when: EndPhase::Data });
        if takes {
            return false;
        }
        connection.stop_receiving();
        self.forward_end(now, conn.session);
        self.state.work.push_back(SessionWork::Ended(conn.session, self.from));
        true
    }

    /// Sends the end to the other side, if it exists.
    pub(super) fn forward_end(&mut self, now: Instant, session: u32) {
        let Some(other) = self.other(session) else { return };
        if let Some((to, _)) = self.to.get_mut(other) {
            // Refused only if it was sent before.
            let _ = to.send_end(RawConnection::STREAM, Headers::EMPTY);
            self.to.touch(
                now,
                other,
                &mut DeferringHandler { way: self.from.other(), state: self.state },
            );
        }
    }
}

impl TcpRelay {
    /// Both connections are established: `timeout tunnel` applies to the client, as to the server.
    pub(super) fn set_tunnel_timeout(&mut self, shared: &ThreadContext, number: u32) {
        let session = self.state.sessions.of(number);
        let backend = session.backend.expect("a backend is selected before a server");
        // The client may have closed meanwhile.
        let Some(client) = session.client else { return };
        let backend = &shared.live.backends[backend.0].config;
        if backend.timeouts.tunnel.is_some() {
            let frontend = &shared.live.frontends[session.bind.frontend].config;
            let limits = self.clients.add_timeouts(timeout_sets::client(frontend, Some(backend)));
            self.clients.set_timeouts(client, limits);
        }
    }

    /// One side has ended, and the end was sent to the other one: `timeout client-fin` or
    /// `server-fin` limits its silence.
    pub(super) fn handle_ended(
        &mut self,
        now: Instant,
        shared: &ThreadContext,
        number: u32,
        way: SideKind,
    ) {
        let session = self.state.sessions.of(number);
        let backend = session.backend.expect("a side ends after a backend was selected");
        let frontend = &shared.live.frontends[session.bind.frontend].config;
        let backend = &shared.live.backends[backend.0].config;
        let (told, before, fin) = match way {
            SideKind::Server => {
                let before = timeout_sets::client(frontend, Some(backend));
                (session.client, before, frontend.timeouts.client_fin)
            }
            SideKind::Client => {
                (session.server, timeout_sets::server(backend), backend.timeouts.server_fin)
            }
        };
        let (Some(told), Some(limits)) = (told, timeout_sets::half_closed(before, fin)) else {
            return;
        };
        let (side, _) = self.side_of(way.other());
        let limits = side.add_timeouts(limits);
        side.restart_timeouts(now, told, limits);
    }
}
