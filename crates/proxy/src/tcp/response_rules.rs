//! Rules that inspect the first bytes of a server (`tcp-response content`).
//!
//! The bytes of the server are kept until the rules have decided; bytes of the client are forwarded
//! meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_haproxy::rules::tcp::{TcpVerdict, run_tcp};
use fulmar_proto::{Connection, RawConnection, Reset};

use super::TcpRelay;
use super::context::SessionContextMut;
use super::forward::{SessionWork, SideKind, release};
use super::session::Pending;
use super::termination_state::{EndCause, EndPhase, SessionEnd};
use crate::counters::Stat;
use crate::early_close;
use crate::shared::ThreadContext;

/// Bytes of the server before the rules have decided.
#[derive(Debug, Default)]
pub(super) struct InspectedResponse {
    pub(super) pending: Pending,
    /// How long rules may wait for more, in milliseconds after the session began.
    until: Option<u32>,
}

impl TcpRelay {
    /// The server's connection was established: evaluates the rules at once, if there are any.
    pub(super) fn begin_response_rules(
        &mut self,
        now: Instant,
        shared: &ThreadContext,
        number: u32,
    ) {
        let session = self.state.sessions.of_mut(number);
        let age = session.age(now);
        let (Some(backend), Some(answer)) = (session.backend, &mut session.answer) else { return };
        let delay = shared.live.backends[backend.0].config.response_inspect_delay;
        answer.until = delay
            .map(|delay| age.saturating_add(u32::try_from(delay.as_millis()).unwrap_or(u32::MAX)));
        self.run_response_rules(now, shared, number);
    }

    /// Evaluates the rules on the bytes received so far.
    pub(super) fn run_response_rules(&mut self, now: Instant, shared: &ThreadContext, number: u32) {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of_mut(number);
        let (Some(backend), Some(answer)) = (session.backend, &session.answer) else { return };
        if session.times.connected.is_none() {
            return; // evaluated once the connection is established
        }
        let until = answer.until;
        let is_over = until.is_none_or(|until| until <= session.age(now));
        let complete = is_over || answer.pending.is_full() || answer.pending.ended;
        let rules = &live.backends[backend.0].config.response_content_rules;
        match run_tcp(rules, &mut SessionContextMut { shared, session, now, complete }) {
            TcpVerdict::Wait if !complete => {
                let until = until.map(|ms| session.accepted + Duration::from_millis(ms.into()));
                self.set_timer(number, until);
            }
            TcpVerdict::Accept | TcpVerdict::Wait => self.forward_response(now, number),
            TcpVerdict::Close => self.close_server(now, number),
            TcpVerdict::Reject => {
                session.end(SessionEnd { by: EndCause::Proxy, when: EndPhase::Data });
                count_denied(shared, session);
                self.cut_client(now, number);
            }
            TcpVerdict::SilentDrop => {
                session.end(SessionEnd { by: EndCause::Proxy, when: EndPhase::Request });
                count_denied(shared, session);
                self.drop_silently(now, number);
            }
        }
    }

    /// Forwards the kept bytes to the client; later ones are forwarded directly.
    fn forward_response(&mut self, now: Instant, number: u32) {
        self.set_timer(number, None);
        let session = self.state.sessions.of_mut(number);
        let Some(answer) = session.answer.take() else { return };
        let (Some(client), server) = (session.client, session.server) else {
            return self.state.work.push_back(SessionWork::NoReceiver(number, SideKind::Server));
        };
        // It may have closed since.
        let Some((connection, _)) = self.clients.get_mut(client) else { return };
        // Refused only after the end of that side: then the bytes are dropped.
        let _ = connection.send_data(RawConnection::STREAM, answer.pending.share().into());
        let is_full = connection.room(RawConnection::STREAM) == 0;
        let (clients, mut handler) = self.side_of(SideKind::Client);
        clients.touch(now, client, &mut handler);
        if let Some(server) = server.filter(|_| !is_full) {
            let (servers, mut handler) = self.side_of(SideKind::Server);
            release(now, servers, server, &mut handler);
        }
        if answer.pending.ended {
            let (_, mut handler) = self.side_of(SideKind::Server);
            handler.forward_end(now, number);
            self.state.work.push_back(SessionWork::Ended(number, SideKind::Server));
        }
    }

    /// Closes the server's connection, and the client's once all bytes were sent.
    fn close_server(&mut self, now: Instant, number: u32) {
        self.forward_response(now, number);
        let session = self.state.sessions.of_mut(number);
        session.end(SessionEnd::NORMAL);
        let (client, server) = (session.client, session.server);
        for (way, socket) in [(SideKind::Client, client), (SideKind::Server, server)] {
            let (side, mut handler) = self.side_of(way);
            let Some(socket) = socket else { continue };
            // It may have closed since.
            let Some((connection, _)) = side.get_mut(socket) else { continue };
            match way {
                SideKind::Client => connection.finish(),
                SideKind::Server => connection.reset(RawConnection::STREAM, Reset::Cancelled),
            }
            side.touch(now, socket, &mut handler);
        }
    }
}

/// Counts a denied response for frontend, listener, backend and server.
fn count_denied(shared: &ThreadContext, session: &super::session::TcpSession) {
    early_close::count(shared, session.bind, Stat::DeniedResponses);
    let Some(backend) = session.backend.map(|it| &shared.live.backends[it.0]) else { return };
    backend.counters[shared.thread].add(Stat::DeniedResponses, 1);
    if let Some(server) = session.target.and_then(|it| backend.servers.get(it.0)) {
        server.counters[shared.thread].add(Stat::DeniedResponses, 1);
    }
}
