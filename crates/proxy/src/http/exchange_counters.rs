//! The counters of an exchange, as in HAProxy.

use crate::counters::{Counters, Stat};
use crate::http::exchange::HttpExchange;
use crate::http::session::HttpSession;
use crate::shared::ThreadContext;

/// The frontend and the listener.
pub(super) fn front<'a>(shared: &'a ThreadContext, session: &HttpSession) -> [&'a Counters; 2] {
    let bind = session.bind();
    let frontend = &shared.live.frontends[bind.frontend];
    [&frontend.counters[shared.thread], &frontend.listeners[bind.bind][shared.thread]]
}

/// Those, and the backend and the server as far as they are selected.
pub(super) fn all<'a>(
    shared: &'a ThreadContext,
    session: &HttpSession,
    exchange: &HttpExchange,
) -> impl Iterator<Item = &'a Counters> {
    front(shared, session).into_iter().chain(back(shared, exchange))
}

/// The backend and the server, as far as they are selected.
pub(super) fn back<'a>(
    shared: &'a ThreadContext,
    exchange: &HttpExchange,
) -> impl Iterator<Item = &'a Counters> {
    let backend = exchange.backend.map(|at| &shared.live.backends[at.0]);
    let server = exchange.server.and_then(|at| backend?.servers.get(at));
    let backend = backend.map(|backend| &backend.counters[shared.thread]);
    backend.into_iter().chain(server.map(|server| &server.counters[shared.thread]))
}

/// Counts bytes that passed through a pipe.
pub(super) fn piped(
    shared: &ThreadContext,
    session: &HttpSession,
    exchange: &HttpExchange,
    counter: Stat,
    bytes: u64,
) {
    all(shared, session, exchange).for_each(|counters| counters.add(counter, bytes));
}

/// The counter of a response with this status; without a response, `ResponsesOther`.
pub(super) fn response(status: u16) -> Stat {
    match status {
        100..=199 => Stat::Responses1xx,
        200..=299 => Stat::Responses2xx,
        300..=399 => Stat::Responses3xx,
        400..=499 => Stat::Responses4xx,
        500..=599 => Stat::Responses5xx,
        _ => Stat::ResponsesOther,
    }
}

/// Counts a response of a server, even if it is not forwarded.
pub(super) fn count_server_response(shared: &ThreadContext, exchange: &HttpExchange, status: u16) {
    if let Some(counters) = back(shared, exchange).nth(1) {
        counters.add(Stat::Requests, 1);
        counters.add(response(status), 1);
    }
}

/// Counts a response of a frontend itself; those of a backend are not counted.
pub(super) fn intercepted(shared: &ThreadContext, session: &HttpSession, exchange: &HttpExchange) {
    let frontend = &shared.live.frontends[session.bind().frontend];
    let is_own = |at: fulmar_haproxy::BackendId| {
        shared.live.backends[at.0].config.name == frontend.config.name
    };
    if exchange.backend.is_none_or(is_own) {
        frontend.counters[shared.thread].add(Stat::Intercepted, 1);
    }
}
