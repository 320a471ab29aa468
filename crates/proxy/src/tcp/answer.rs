//! Rules that look at the first bytes of a server's answer (`tcp-response content`).
//!
//! What the server says is kept until they have decided; what the client says goes on meanwhile.

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

/// What a server has said before rules let it pass.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) pending: Pending,
    /// How long rules may wait for more, in milliseconds after the session began.
    until: Option<u32>,
}

impl Tcp {
    /// The server's connection stands: rules are asked at once, if there are any.
    pub(super) fn begin_to_judge(&mut self, now: Instant, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let age = session.age(now);
        let (Some(backend), Some(answer)) = (session.backend, &mut session.answer) else { return };
        let delay = shared.live.backends[backend.0].config.response_inspect_delay;
        answer.until = delay
            .map(|delay| age.saturating_add(u32::try_from(delay.as_millis()).unwrap_or(u32::MAX)));
        self.judge(now, shared, number);
    }

    /// Asks the rules about what the server has said so far.
    pub(super) fn judge(&mut self, now: Instant, shared: &Shared, number: u32) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (Some(backend), Some(answer)) = (session.backend, &session.answer) else { return };
        if session.times.connected.is_none() {
            return; // it begins when the connection stands
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

    /// What the server has said goes to the client, and so does what follows.
    fn let_pass(&mut self, now: Instant, number: u32) {
        self.set_timer(number, None);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let Some(answer) = session.answer.take() else { return };
        let (Some(client), server) = (session.client, session.server) else {
            return self.desk.work.push_back(Work::Unheard(number, Way::Server));
        };
        let Some((connection, _)) = self.clients.get_mut(client) else { return };
        // Refused only if nothing more may be said: then it has nowhere to go.
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

    /// The server's connection ends, and the client's when it has what there is.
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

/// For everybody whom the answer came past.
fn count_denied(shared: &Shared, session: &super::session::Session) {
    unborn::count(shared, session.bind, Counter::DeniedResponses);
    let Some(backend) = session.backend.map(|it| &shared.live.backends[it.0]) else { return };
    backend.counters[shared.thread].add(Counter::DeniedResponses, 1);
    if let Some(server) = session.target.and_then(|it| backend.servers.get(it.0)) {
        server.counters[shared.thread].add(Counter::DeniedResponses, 1);
    }
}
