//! Rules on connections (`tcp-request`) in mode http: evaluated before those on requests.

use std::time::Instant;

use fulmar_haproxy::BackendId;
use fulmar_haproxy::rules::tcp::TcpRule;

use crate::counters::Counter;
use crate::http::desk::Desk;
use crate::http::exchange::{Ended, Exchange};
use crate::http::requests::Requests;
use crate::http::route::Decision;
use crate::http::session::Session;
use crate::http::subject::View;
use crate::shared::Shared;
use crate::unborn::{self, Refusal};

/// Rules on a client without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// `tcp-request connection`: before the first byte.
    Connection,
    /// `tcp-request session`: after the layer below HTTP was established.
    Session,
}

/// Evaluates rules on a client; `Some` if they refuse it.
pub(super) fn refuses(
    now: Instant,
    shared: &Shared,
    desk: &mut Desk,
    session: &mut Session,
    door: Door,
) -> Option<Refusal> {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    let (rules, counter) = match door {
        Door::Connection => (&frontend.connection_rules, Counter::DeniedConnections),
        Door::Session => (&frontend.session_rules, Counter::DeniedSessions),
    };
    if rules.is_empty() {
        return None;
    }
    let mut exchange = desk.open();
    let mut view = View { now, shared, session, exchange: &mut exchange };
    let refusal = unborn::refuses(rules, &mut view);
    // An address set by these rules applies to all requests of the client.
    session.peer = exchange.source.unwrap_or(session.peer);
    if exchange.destination.is_some() {
        session.keep().destination = exchange.destination;
    }
    desk.give_back(exchange);
    if refusal.is_some() {
        unborn::count(shared, session.bind(), counter);
    }
    refusal
}

impl Requests<'_> {
    /// `tcp-request content`, of the frontend or of the backend. `None`: the request is accepted.
    pub(super) fn inspect(
        &self,
        now: Instant,
        rules: &[TcpRule],
        session: &mut Session,
        exchange: &mut Exchange,
    ) -> Option<Decision> {
        if rules.is_empty() {
            return None;
        }
        let shared = &*self.shared;
        let refusal = unborn::refuses(rules, &mut View { now, shared, session, exchange })?;
        match exchange.backend {
            Some(BackendId(at)) => {
                let backend = &shared.live.backends[at];
                backend.counters[shared.thread].add(Counter::DeniedRequests, 1);
            }
            None => unborn::count(shared, session.bind(), Counter::DeniedRequests),
        }
        Some(match refusal {
            Refusal::Closed => Decision::End(Ended(b'P', b'R')),
            Refusal::Silent => Decision::Vanish,
        })
    }
}
