//! The counters of an exchange, as in HAProxy.

use crate::counters::{Counter, Counters};
use crate::http::exchange::Exchange;
use crate::http::session::Session;
use crate::shared::Shared;

/// The frontend and the listener.
pub(super) fn front<'a>(shared: &'a Shared, session: &Session) -> [&'a Counters; 2] {
    let bind = session.bind();
    let frontend = &shared.live.frontends[bind.frontend];
    [&frontend.counters[shared.thread], &frontend.listeners[bind.bind][shared.thread]]
}

/// Those, and the backend and the server as far as they are selected.
pub(super) fn all<'a>(
    shared: &'a Shared,
    session: &Session,
    exchange: &Exchange,
) -> impl Iterator<Item = &'a Counters> {
    front(shared, session).into_iter().chain(back(shared, exchange))
}

/// The backend and the server, as far as they are selected.
pub(super) fn back<'a>(
    shared: &'a Shared,
    exchange: &Exchange,
) -> impl Iterator<Item = &'a Counters> {
    let backend = exchange.backend.map(|at| &shared.live.backends[at.0]);
    let server = exchange.server.and_then(|at| backend?.servers.get(at));
    let backend = backend.map(|backend| &backend.counters[shared.thread]);
    backend.into_iter().chain(server.map(|server| &server.counters[shared.thread]))
}

/// Counts bytes that passed through a pipe.
pub(super) fn piped(
    shared: &Shared,
    session: &Session,
    exchange: &Exchange,
    counter: Counter,
    bytes: u64,
) {
    all(shared, session, exchange).for_each(|counters| counters.add(counter, bytes));
}

/// The counter of a response with this status; without a response, `ResponsesOther`.
pub(super) fn response(status: u16) -> Counter {
    match status {
        100..=199 => Counter::Responses1xx,
        200..=299 => Counter::Responses2xx,
        300..=399 => Counter::Responses3xx,
        400..=499 => Counter::Responses4xx,
        500..=599 => Counter::Responses5xx,
        _ => Counter::ResponsesOther,
    }
}

/// Counts a response of a server, even if it is not forwarded.
pub(super) fn answered(shared: &Shared, exchange: &Exchange, status: u16) {
    if let Some(counters) = back(shared, exchange).nth(1) {
        counters.add(Counter::Requests, 1);
        counters.add(response(status), 1);
    }
}

/// Counts a response of a frontend itself; those of a backend are not counted.
pub(super) fn intercepted(shared: &Shared, session: &Session, exchange: &Exchange) {
    let frontend = &shared.live.frontends[session.bind().frontend];
    let is_own = |at: fulmar_haproxy::BackendId| {
        shared.live.backends[at.0].config.name == frontend.config.name
    };
    if exchange.backend.is_none_or(is_own) {
        frontend.counters[shared.thread].add(Counter::Intercepted, 1);
    }
}
