//! Rules that inspect the first bytes of a server (`tcp-response content`).
//!
//! The bytes of the server are kept until the rules have decided; bytes of the client are forwarded
//! meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_haproxy::rules::tcp::{TcpVerdict, run_tcp};
use fulmar_proto::{Connection, RawConnection};

use super::Tcp;
use super::across::{Way, Work, release};
use super::ending::{By, Ending, When};
use super::session::Pending;
use super::subject::Visit;
use crate::counters::Counter;
use crate::shared::Shared;
use crate::unborn;

/// Bytes of the server before the rules have decided.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) pending: Pending,
    /// How long rules may wait for more, in milliseconds after the session began.
    until: Option<u32>,
}

impl Tcp {
    /// The server's connection was established: evaluates the rules at once, if there are any.
    pub(super) fn begin_to_judge(&mut self, now: Instant, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let age = session.age(now);
        let (Some(backend), Some(answer)) = (session.backend, &mut session.answer) else { return };
        let delay = shared.live.backends[backend.0].config.response_inspect_delay;
        answer.until = delay
            .map(|delay| age.saturating_add(u32::try_from(delay.as_millis()).unwrap_or(u32::MAX)));
        self.judge(now, shared, number);
    }

    /// Evaluates the rules on the bytes received so far.
    pub(super) fn judge(&mut self, now: Instant, shared: &Shared, number: u32) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (Some(backend), Some(answer)) = (session.backend, &session.answer) else { return };
        if session.times.connected.is_none() {
            return; // evaluated once the connection is established
        }
        let until = answer.until;
        let is_over = until.is_none_or(|until| until <= session.age(now));
        let complete = is_over || answer.pending.is_full() || answer.pending.ended;
        let rules = &live.backends[backend.0].config.response_content_rules;
        match run_tcp(rules, &mut Visit { shared, session, now, complete }) {
            TcpVerdict::Wait if !complete => {
                let until = until.map(|ms| session.accepted + Duration::from_millis(ms.into()));
                self.set_timer(number, until);
            }
            TcpVerdict::Accept | TcpVerdict::Wait => self.let_pass(now, number),
            TcpVerdict::Close => self.close_server(now, number),
            TcpVerdict::Reject => {
                session.end(Ending { by: By::Proxy, when: When::Data });
                count_denied(shared, session);
                self.cut_client(now, number);
            }
            TcpVerdict::SilentDrop => {
                session.end(Ending { by: By::Proxy, when: When::Request });
                count_denied(shared, session);
                self.vanish(now, number);
            }
        }
    }

    /// Forwards the kept bytes to the client; later ones are forwarded directly.
    fn let_pass(&mut self, now: Instant, number: u32) {
        self.set_timer(number, None);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let Some(answer) = session.answer.take() else { return };
        let (Some(client), server) = (session.client, session.server) else {
            return self.desk.work.push_back(Work::Unheard(number, Way::Server));
        };
        let Some((connection, _)) = self.clients.get_mut(client) else { return };
        // Refused only after the end of that side: then the bytes are dropped.
        let _ = connection.send_data(RawConnection::STREAM, answer.pending.share().into());
        let is_full = connection.room(RawConnection::STREAM) == 0;
        let (clients, mut across) = self.side_of(Way::Client);
        clients.touch(now, client, &mut across);
        if let Some(server) = server.filter(|_| !is_full) {
            let (servers, mut across) = self.side_of(Way::Server);
            release(now, servers, server, &mut across);
        }
        if answer.pending.ended {
            let (_, mut across) = self.side_of(Way::Server);
            across.tell_end(now, number);
            self.desk.work.push_back(Work::Ended(number, Way::Server));
        }
    }

    /// Closes the server's connection, and the client's once all bytes were sent.
    fn close_server(&mut self, now: Instant, number: u32) {
        self.let_pass(now, number);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.end(Ending::NORMAL);
        let (client, server) = (session.client, session.server);
        for (way, socket) in [(Way::Client, client), (Way::Server, server)] {
            let (side, mut across) = self.side_of(way);
            let Some(socket) = socket else { continue };
            let Some((connection, _)) = side.get_mut(socket) else { continue };
            match way {
                Way::Client => connection.finish(),
                Way::Server => connection.reset(RawConnection::STREAM, 0),
            }
            side.touch(now, socket, &mut across);
        }
    }
}

/// Counts a denied response for frontend, listener, backend and server.
fn count_denied(shared: &Shared, session: &super::session::Session) {
    unborn::count(shared, session.bind, Counter::DeniedResponses);
    let Some(backend) = session.backend.map(|it| &shared.live.backends[it.0]) else { return };
    backend.counters[shared.thread].add(Counter::DeniedResponses, 1);
    if let Some(server) = session.target.and_then(|it| backend.servers.get(it.0)) {
        server.counters[shared.thread].add(Counter::DeniedResponses, 1);
    }
}
