//! Rules on connections (`tcp-request`) in mode http: evaluated before those on requests.

use std::time::Instant;

use fulmar_haproxy::BackendId;
use fulmar_haproxy::rules::tcp::TcpRule;

use crate::counters::Stat;
use crate::early_close::{self, ClientRefusal};
use crate::http::client_events::ClientEvents;
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, HttpExchange};
use crate::http::route::RouteDecision;
use crate::http::session::HttpSession;
use crate::http::state::HttpState;
use crate::shared::ThreadContext;

/// Rules on a client without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleStage {
    /// `tcp-request connection`: before the first byte.
    Connection,
    /// `tcp-request session`: after the layer below HTTP was established.
    Session,
}

/// Evaluates rules on a client; `Some` if they refuse it.
pub(super) fn refuses(
    now: Instant,
    shared: &ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
    door: RuleStage,
) -> Option<ClientRefusal> {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    let (rules, counter) = match door {
        RuleStage::Connection => (&frontend.connection_rules, Stat::DeniedConnections),
        RuleStage::Session => (&frontend.session_rules, Stat::DeniedSessions),
    };
    if rules.is_empty() {
        return None;
    }
    let mut exchange = state.new_exchange();
    let mut view = ExchangeView { now, shared, session, exchange: &mut exchange };
    let refusal = early_close::refuses(rules, &mut view);
    // An address set by these rules applies to all requests of the client.
    session.peer = exchange.source.unwrap_or(session.peer);
    if exchange.destination.is_some() {
        session.rare_mut().destination = exchange.destination;
    }
    state.recycle(exchange);
    if refusal.is_some() {
        early_close::count(shared, session.bind(), counter);
    }
    refusal
}

impl ClientEvents<'_> {
    /// `tcp-request content`, of the frontend or of the backend. `None`: the request is accepted.
    pub(super) fn inspect(
        &self,
        now: Instant,
        rules: &[TcpRule],
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> Option<RouteDecision> {
        if rules.is_empty() {
            return None;
        }
        let shared = &*self.shared;
        let refusal =
            early_close::refuses(rules, &mut ExchangeView { now, shared, session, exchange })?;
        match exchange.backend {
            Some(BackendId(at)) => {
                let backend = &shared.live.backends[at];
                backend.counters[shared.thread].add(Stat::DeniedRequests, 1);
            }
            None => early_close::count(shared, session.bind(), Stat::DeniedRequests),
        }
        Some(match refusal {
            ClientRefusal::Closed => RouteDecision::Close(EndLetters(b'P', b'R')),
            ClientRefusal::Silent => RouteDecision::DropSilently,
        })
    }
}
