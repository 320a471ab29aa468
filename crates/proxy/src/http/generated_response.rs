//! Responses that the proxy generates.

use std::time::Instant;

use bytes::Bytes;
use fulmar_haproxy::rules::http::{HttpRule, RulesProgress, run};
use fulmar_haproxy::rules::reply::ErrorPages;
use fulmar_haproxy::rules::{ReplyTemplate, ResponseHead};
use fulmar_proto::{BodyLen, Connection, Headers, Reset, Response, Segment};
use smallvec::SmallVec;

use crate::http::client_events::ClientEntry;
use crate::http::context::ExchangeView;
use crate::http::exchange::HttpExchange;
use crate::http::session::HttpSession;
use crate::services::GeneratedPage;
use crate::shared::ThreadContext;

/// Responds with a status and its error page.
pub(super) fn status(
    now: Instant,
    shared: &ThreadContext,
    (connection, session): ClientEntry<'_>,
    exchange: &mut HttpExchange,
    status: u16,
) {
    exchange.is_generated = true; // even if nothing can be sent
    exchange.status = status;
    match render(now, shared, session, exchange, &ReplyTemplate::error_page(status)) {
        Some(reply) => send_reply(now, shared, (connection, session), exchange, reply),
        None => connection.reset(exchange.stream, Reset::Cancelled),
    }
}

/// Renders a response; `None`: the connection is closed instead.
pub(super) fn render(
    now: Instant,
    shared: &ThreadContext,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
    reply: &ReplyTemplate,
) -> Option<(ResponseHead, Bytes)> {
    let pages = pages(shared, session, exchange);
    reply.render(&ExchangeView { now, shared, session, exchange }, &pages)
}

/// The error pages, in order of precedence.
pub(super) fn pages<'a>(
    shared: &'a ThreadContext,
    session: &HttpSession,
    exchange: &HttpExchange,
) -> SmallVec<[&'a ErrorPages; 2]> {
    let backend = exchange.backend.map(|at| &*shared.live.backends[at.0].config.errors);
    let frontend = &*shared.live.frontends[session.bind().frontend].config.errors;
    backend.into_iter().chain([frontend]).collect()
}

/// Responds with a generated page.
pub(super) fn page(
    now: Instant,
    shared: &ThreadContext,
    client: ClientEntry<'_>,
    exchange: &mut HttpExchange,
    page: GeneratedPage,
) {
    let head = ResponseHead { status: page.status, fields: page.fields, ..ResponseHead::default() };
    exchange.ended = super::exchange::EndLetters(b'L', b'R');
    send_reply(now, shared, client, exchange, (head, page.body.into()));
}

/// Sends a complete response, after the rules for it. Nothing was sent before.
pub(super) fn send_reply(
    now: Instant,
    shared: &ThreadContext,
    (connection, session): ClientEntry<'_>,
    exchange: &mut HttpExchange,
    (head, body): (ResponseHead, Bytes),
) {
    exchange.is_generated = true;
    exchange.response = head;
    exchange.has_response = true;
    exchange.status = exchange.response.status;
    after_rules(now, shared, session, exchange);
    let stream = exchange.stream;
    let len = match body.len() as u64 {
        0 => BodyLen::Empty,
        len => BodyLen::Exact(len),
    };
    let before = connection.unsent(stream);
    let fields = exchange.response.fields.as_headers();
    let sent = connection
        .send_head(stream, Response::new(exchange.response.status, fields), len)
        .and_then(|()| connection.send_data(stream, Segment::Bytes(body)))
        .and_then(|()| connection.send_end(stream, Headers::EMPTY));
    exchange.bytes_out += connection.unsent(stream).saturating_sub(before);
    if sent.is_err() {
        connection.reset(stream, Reset::Internal); // rules made the response invalid
    }
}

/// `http-after-response`: the backend's, then the frontend's. Their verdicts are ignored.
pub(super) fn after_rules(
    now: Instant,
    shared: &ThreadContext,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
) {
    let backend = exchange.backend.map(|at| &shared.live.backends[at.0].config);
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    let of_backend: &[HttpRule] = backend.map_or(&[], |backend| &backend.after_response_rules);
    for rules in [of_backend, &frontend.after_response_rules] {
        if !rules.is_empty() {
            let mut view = ExchangeView { now, shared, session, exchange };
            run(rules, &mut RulesProgress::default(), &mut view);
        }
    }
    exchange.status = exchange.response.status;
}
