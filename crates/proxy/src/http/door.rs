//! Rules on connections (`tcp-request`), where HTTP is spoken: they come before those on requests.

use std::time::Instant;

use fulmar_haproxy::BackendId;
use fulmar_rules::tcp::{TcpRule, TcpVerdict, run_tcp};

use crate::counters::Counter;
use crate::http::desk::Desk;
use crate::http::exchange::{Ended, Exchange};
use crate::http::requests::Requests;
use crate::http::route::Decision;
use crate::http::session::Session;
use crate::http::subject::View;
use crate::http::tally;
use crate::shared::Shared;

/// Which rules look at a client that has no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// `tcp-request connection`: nothing was read.
    Connection,
    /// `tcp-request session`: what lies below HTTP is open.
    Session,
}

/// True if a client may come in.
pub(super) fn admits(
    now: Instant,
    shared: &Shared,
    desk: &mut Desk,
    session: &mut Session,
    door: Door,
) -> bool {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    let (rules, counter) = match door {
        Door::Connection => (&frontend.connection_rules, Counter::DeniedConnections),
        Door::Session => (&frontend.session_rules, Counter::DeniedSessions),
    };
    if rules.is_empty() {
        return true;
    }
    let mut exchange = desk.open();
    let is_in = accepts(now, shared, rules, session, &mut exchange);
    // What they say of a client holds for all its requests.
    session.peer = exchange.source.unwrap_or(session.peer);
    if exchange.destination.is_some() {
        session.keep().destination = exchange.destination;
    }
    desk.give_back(exchange);
    if !is_in {
        tally::front(shared, session).iter().for_each(|counters| counters.add(counter, 1));
    }
    is_in
}

impl Requests<'_> {
    /// `tcp-request content`, of the frontend or of the backend. `None`: they are not against it.
    pub(super) fn inspect(
        &self,
        now: Instant,
        rules: &[TcpRule],
        session: &mut Session,
        exchange: &mut Exchange,
    ) -> Option<Decision> {
        if rules.is_empty() || accepts(now, self.shared, rules, session, exchange) {
            return None;
        }
        let thread = self.shared.thread;
        match exchange.backend {
            Some(BackendId(at)) => {
                let backend = &self.shared.live.backends[at];
                backend.counters[thread].add(Counter::DeniedRequests, 1);
            }
            None => {
                let doors = tally::front(self.shared, session);
                doors.iter().for_each(|counters| counters.add(Counter::DeniedRequests, 1));
            }
        }
        Some(Decision::End(Ended(b'P', b'R')))
    }
}

fn accepts(
    now: Instant,
    shared: &Shared,
    rules: &[TcpRule],
    session: &mut Session,
    exchange: &mut Exchange,
) -> bool {
    match run_tcp(rules, &mut View { now, shared, session, exchange }) {
        TcpVerdict::Accept | TcpVerdict::Wait => true,
        TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::SilentDrop => false,
    }
}
