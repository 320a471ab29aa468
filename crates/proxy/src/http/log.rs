//! Log lines: one for each exchange, and one that explains each generated error.

use std::sync::Arc;
use std::time::Instant;

use fulmar_proto::Version;

use crate::http::attempts::Explanation;
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, HttpExchange};
use crate::http::session::HttpSession;
use crate::http::state::HttpState;
use crate::proxy_log::LogSeverity;
use crate::shared::ThreadContext;

/// Logs an exchange that is over.
pub(super) fn write(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
) {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    if frontend.logs.is_empty() || severity(frontend.log_options, exchange).is_none() {
        return;
    }
    if !exchange.is_logged {
        write_line(now, shared, state, session, exchange);
    }
    if exchange.is_generated && exchange.status >= 500 {
        explain(shared, state, session, exchange);
    }
}

/// Logs the exchange once the response's head was received, if configured (`logasap`).
pub(super) fn write_early(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
) {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    if frontend.log_options.as_soon_as_possible && !frontend.logs.is_empty() {
        write_line(now, shared, state, session, exchange);
        exchange.is_logged = true;
    }
}

/// Writes the line of an exchange.
fn write_line(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
    exchange: &mut HttpExchange,
) {
    let frontend = Arc::clone(&shared.live.frontends[session.bind().frontend].config);
    let Some(severity) = severity(frontend.log_options, exchange) else { return };
    let EndLetters(who, what) = exchange.ended;
    let EndLetters(id, told) = exchange.cookie_marks;
    exchange.letters = [who, what, id, told];
    let format = match &frontend.error_log_format {
        Some(format) if exchange.request.method.is_empty() => format, // there is no request
        _ => &frontend.log_format,
    };
    state.line.clear();
    format.render(&ExchangeView { now, shared, session, exchange }, &mut state.line);
    shared.proxy_log.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &state.line);
}

/// Logs why the proxy generated an error response.
fn explain(
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &HttpSession,
    exchange: &HttpExchange,
) {
    let frontend = Arc::clone(&shared.live.frontends[session.bind().frontend].config);
    let explanation = Explanation::of(&shared.live, session, exchange);
    state.line.clear();
    state.line.extend_from_slice(explanation.to_string().as_bytes());
    let none = exchange.attempts.is_empty();
    let severity = if none { LogSeverity::Notice } else { LogSeverity::Error };
    shared.proxy_log.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &state.line);
    shared.proxy_log.explain(&explanation);
}

/// The severity of the line; `None`: no line.
fn severity(
    options: fulmar_haproxy::model::LogOptions,
    exchange: &HttpExchange,
) -> Option<LogSeverity> {
    let failed = exchange.ended.is_error()
        || exchange.tried > 0
        || exchange.redispatched
        || exchange.status >= 500;
    if options.dont_log_normal && !failed {
        return None;
    }
    match exchange.log_level {
        LogLevelOverride::Silent => None,
        LogLevelOverride::Set(severity) => Some(severity),
        LogLevelOverride::Usual if options.separate_errors && failed => Some(LogSeverity::Error),
        LogLevelOverride::Usual => Some(LogSeverity::Info),
    }
}

/// The log level set by a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LogLevelOverride {
    #[default]
    Usual,
    Set(LogSeverity),
    Silent,
}

impl HttpExchange {
    /// Keeps the request line as received.
    pub(super) fn keep_line(&mut self) {
        let line = &mut self.start_line;
        line.extend_from_slice(&self.request.method);
        line.push(b' ');
        line.extend_from_slice(&self.request.target);
        line.extend_from_slice(match self.request.version {
            Version::Http09 => b" HTTP/0.9",
            Version::Http10 => b" HTTP/1.0",
            Version::Http11 => b" HTTP/1.1",
            Version::Http2 => b" HTTP/2.0",
        });
    }
}

impl EndLetters {
    /// True if it did not end regularly.
    pub(super) fn is_error(self) -> bool {
        !matches!(self.0, b'-' | b'L')
    }
}
