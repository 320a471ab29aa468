//! Rules on responses, and other changes of their heads.

use std::time::Instant;

use bytes::Bytes;
use fulmar_haproxy::rules::http::{HttpRule, HttpVerdict, RulesProgress, run};
use fulmar_haproxy::rules::tcp::{TcpVerdict, run_tcp};
use fulmar_haproxy::rules::{ReplyTemplate, ResponseHead};
use fulmar_haproxy::{BackendConfig, FrontendConfig};
use fulmar_proto::Response;

use crate::counters::Stat;
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, HttpExchange, keep_upgrade};
use crate::http::exchange_counters;
use crate::http::generated_response;
use crate::http::persistence_cookie;
use crate::http::session::HttpSession;
use crate::shared::ThreadContext;

/// The result of the rules on a response.
#[derive(Debug)]
pub(super) enum ResponseDecision {
    /// Forward it, as changed in the exchange.
    Forward,
    /// Send this instead.
    Instead(ResponseHead, Bytes, EndLetters),
    /// Close the client's connection.
    Close(EndLetters),
    /// Drop the client silently.
    DropSilently,
}

/// Applies everything that reads or changes the head of a response.
pub(super) fn revise(
    now: Instant,
    shared: &ThreadContext,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
    head: &Response<'_>,
) -> ResponseDecision {
    let live = &shared.live;
    let frontend = &live.frontends[session.bind().frontend].config;
    exchange.response.status = head.status;
    exchange.response.version = head.version;
    exchange.response.fields.clear();
    exchange.response.fields.extend(head.headers).expect("a head is not that long");
    if head.status == 101 {
        keep_upgrade(head.headers, &mut exchange.response.fields);
    }
    exchange.has_response = true;
    let backend = exchange.backend.map(|at| &live.backends[at.0]);
    if let Some(backend) = backend
        && let Some(fate) = inspect(now, shared, &backend.config, session, exchange)
    {
        return fate;
    }
    exchange.capture_response(frontend);
    if let Some(backend) = backend
        && let Some(known) = &backend.config.cookie
    {
        persistence_cookie::write(exchange, known, backend, shared.since_epoch(now).as_secs());
    }
    let of_backend: &[HttpRule] = backend.map_or(&[], |it| &it.config.response_rules);
    for rules in [of_backend, &frontend.response_rules] {
        match judge(now, shared, rules, session, exchange) {
            ResponseDecision::Forward => {}
            other => return other,
        }
    }
    generated_response::after_rules(now, shared, session, exchange);
    ResponseDecision::Forward
}

/// `tcp-response content`. `None`: the response is accepted.
fn inspect(
    now: Instant,
    shared: &ThreadContext,
    backend: &BackendConfig,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
) -> Option<ResponseDecision> {
    let rules = &backend.response_content_rules;
    if rules.is_empty() {
        return None;
    }
    match run_tcp(rules, &mut ExchangeView { now, shared, session, exchange }) {
        TcpVerdict::Accept | TcpVerdict::Wait => None, // no more bytes can be waited for
        TcpVerdict::Close => {
            exchange.has_response = false;
            let reply = ReplyTemplate::error_page(502);
            let ended = EndLetters(b'S', b'H');
            Some(match generated_response::render(now, shared, session, exchange, &reply) {
                Some((head, body)) => ResponseDecision::Instead(head, body, ended),
                None => ResponseDecision::Close(ended),
            })
        }
        verdict @ (TcpVerdict::Reject | TcpVerdict::SilentDrop) => {
            let all = exchange_counters::all(shared, session, exchange);
            all.for_each(|counters| counters.add(Stat::DeniedResponses, 1));
            exchange.status = 0; // it does not count as a response
            Some(if matches!(verdict, TcpVerdict::SilentDrop) {
                ResponseDecision::DropSilently
            } else {
                ResponseDecision::Close(EndLetters(b'P', b'D'))
            })
        }
    }
}

fn judge(
    now: Instant,
    shared: &ThreadContext,
    rules: &[HttpRule],
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
) -> ResponseDecision {
    if rules.is_empty() {
        return ResponseDecision::Forward;
    }
    let mut view = ExchangeView { now, shared, session, exchange };
    let verdict = run(rules, &mut RulesProgress::default(), &mut view);
    let denied = EndLetters(b'P', b'H');
    let (reply, ended) = match verdict {
        HttpVerdict::Continue | HttpVerdict::Allow => return ResponseDecision::Forward,
        HttpVerdict::Deny(reply) | HttpVerdict::Tarpit(reply) => (reply.clone(), denied),
        HttpVerdict::Return(reply) => (reply.clone(), EndLetters(b'L', b'H')),
        HttpVerdict::Redirect(head) => {
            return ResponseDecision::Instead(*head, Bytes::new(), EndLetters(b'L', b'H'));
        }
        HttpVerdict::Reject => return ResponseDecision::Close(denied),
        HttpVerdict::SilentDrop => return ResponseDecision::DropSilently,
        // These verdicts have no meaning for responses.
        HttpVerdict::Auth(_) | HttpVerdict::Service(_) | HttpVerdict::WaitForBody { .. } => {
            return ResponseDecision::Forward;
        }
        HttpVerdict::Failed(_) => (ReplyTemplate::error_page(500), denied),
    };
    let counter = if matches!(verdict, HttpVerdict::Failed(_)) {
        Some(Stat::RewriteErrors)
    } else {
        (ended == denied).then_some(Stat::DeniedResponses)
    };
    if let Some(counter) = counter {
        exchange_counters::all(shared, session, exchange)
            .for_each(|counters| counters.add(counter, 1));
    }
    exchange.has_response = false;
    match generated_response::render(now, shared, session, exchange, &reply) {
        Some((head, body)) => ResponseDecision::Instead(head, body, ended),
        None => ResponseDecision::Close(ended),
    }
}

impl HttpExchange {
    /// Captures the configured fields of a request.
    pub(super) fn capture_request(&mut self, frontend: &FrontendConfig) {
        let fields = self.request.fields.as_headers();
        for capture in &frontend.request_captures {
            let value = fields.get_all(&capture.field).last().unwrap_or_default();
            self.request_captures.push(value[..value.len().min(capture.len)].to_vec());
        }
        if let Some((name, len)) = &frontend.cookie_capture {
            let pairs = fields.get_all("cookie").flat_map(|it| it.split(|byte| *byte == b';'));
            let found = pairs.map(<[u8]>::trim_ascii).find(|it| it.starts_with(name.as_bytes()));
            let found = found.unwrap_or_default();
            self.cookie_captures.push(found[..found.len().min(*len)].to_vec());
        }
    }

    /// Captures the configured fields of a response.
    fn capture_response(&mut self, frontend: &FrontendConfig) {
        let fields = self.response.fields.as_headers();
        for capture in &frontend.response_captures {
            let value = fields.get_all(&capture.field).last().unwrap_or_default();
            self.response_captures.push(value[..value.len().min(capture.len)].to_vec());
        }
        if let Some((name, len)) = &frontend.cookie_capture {
            let mut all = fields.get_all("set-cookie");
            let found = all.find(|it| it.starts_with(name.as_bytes())).unwrap_or_default();
            let end = found.iter().position(|byte| *byte == b';').unwrap_or(found.len());
            self.cookie_captures.push(found[..end.min(*len)].to_vec());
        }
    }
}
