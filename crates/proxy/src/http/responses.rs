//! Rules on responses, and other changes of their heads.

use std::time::Instant;

use bytes::Bytes;
use fulmar_haproxy::rules::http::{HttpRule, HttpVerdict, RulesProgress, run};
use fulmar_haproxy::rules::tcp::{TcpVerdict, run_tcp};
use fulmar_haproxy::rules::{ReplyTemplate, ResponseHead};
use fulmar_haproxy::{BackendConfig, FrontendConfig};
use fulmar_proto::Response;

use crate::counters::Counter;
use crate::http::answer;
use crate::http::cookie;
use crate::http::exchange::{Ended, Exchange, keep_upgrade};
use crate::http::session::Session;
use crate::http::subject::View;
use crate::http::tally;
use crate::shared::Shared;

/// The result of the rules on a response.
#[derive(Debug)]
pub(super) enum Fate {
    /// Forward it, as changed in the exchange.
    On,
    /// Send this instead.
    Instead(ResponseHead, Bytes, Ended),
    /// Close the client's connection.
    Nothing(Ended),
    /// Drop the client silently.
    Vanish,
}

/// Applies everything that reads or changes the head of a response.
pub(super) fn revise(
    now: Instant,
    shared: &Shared,
    session: &mut Session,
    exchange: &mut Exchange,
    head: &Response<'_>,
) -> Fate {
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
        cookie::write(exchange, known, backend, shared.since_epoch(now).as_secs());
    }
    let of_backend: &[HttpRule] = backend.map_or(&[], |it| &it.config.response_rules);
    for rules in [of_backend, &frontend.response_rules] {
        match judge(now, shared, rules, session, exchange) {
            Fate::On => {}
            other => return other,
        }
    }
    answer::after_rules(now, shared, session, exchange);
    Fate::On
}

/// `tcp-response content`. `None`: the response is accepted.
fn inspect(
    now: Instant,
    shared: &Shared,
    backend: &BackendConfig,
    session: &mut Session,
    exchange: &mut Exchange,
) -> Option<Fate> {
    let rules = &backend.response_content_rules;
    if rules.is_empty() {
        return None;
    }
    match run_tcp(rules, &mut View { now, shared, session, exchange }) {
        TcpVerdict::Accept | TcpVerdict::Wait => None, // no more bytes can be waited for
        TcpVerdict::Close => {
            exchange.has_response = false;
            let reply = ReplyTemplate::error_page(502);
            let ended = Ended(b'S', b'H');
            Some(match answer::render(now, shared, session, exchange, &reply) {
                Some((head, body)) => Fate::Instead(head, body, ended),
                None => Fate::Nothing(ended),
            })
        }
        verdict @ (TcpVerdict::Reject | TcpVerdict::SilentDrop) => {
            let everybody = tally::all(shared, session, exchange);
            everybody.for_each(|counters| counters.add(Counter::DeniedResponses, 1));
            exchange.status = 0; // it does not count as a response
            Some(match verdict {
                TcpVerdict::SilentDrop => Fate::Vanish,
                _ => Fate::Nothing(Ended(b'P', b'D')),
            })
        }
    }
}

fn judge(
    now: Instant,
    shared: &Shared,
    rules: &[HttpRule],
    session: &mut Session,
    exchange: &mut Exchange,
) -> Fate {
    if rules.is_empty() {
        return Fate::On;
    }
    let mut view = View { now, shared, session, exchange };
    let verdict = run(rules, &mut RulesProgress::default(), &mut view);
    let denied = Ended(b'P', b'H');
    let (reply, ended) = match verdict {
        HttpVerdict::Continue | HttpVerdict::Allow => return Fate::On,
        HttpVerdict::Deny(reply) | HttpVerdict::Tarpit(reply) => (reply.clone(), denied),
        HttpVerdict::Return(reply) => (reply.clone(), Ended(b'L', b'H')),
        HttpVerdict::Redirect(head) => {
            return Fate::Instead(*head, Bytes::new(), Ended(b'L', b'H'));
        }
        HttpVerdict::Reject => return Fate::Nothing(denied),
        HttpVerdict::SilentDrop => return Fate::Vanish,
        // These verdicts have no meaning for responses.
        HttpVerdict::Auth(_) | HttpVerdict::Service(_) | HttpVerdict::WaitForBody { .. } => {
            return Fate::On;
        }
        _ => (ReplyTemplate::error_page(500), denied),
    };
    let counter = match verdict {
        HttpVerdict::Failed(_) => Some(Counter::RewriteErrors),
        _ => (ended == denied).then_some(Counter::DeniedResponses),
    };
    if let Some(counter) = counter {
        tally::all(shared, session, exchange).for_each(|counters| counters.add(counter, 1));
    }
    exchange.has_response = false;
    match answer::render(now, shared, session, exchange, &reply) {
        Some((head, body)) => Fate::Instead(head, body, ended),
        None => Fate::Nothing(ended),
    }
}

impl Exchange {
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
