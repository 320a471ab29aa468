//! Log lines: one for each exchange, and one that explains each generated error.

use std::sync::Arc;
use std::time::Instant;

use fulmar_proto::Version;

use crate::http::desk::Desk;
use crate::http::exchange::{Ended, Exchange};
use crate::http::record::Explanation;
use crate::http::session::Session;
use crate::http::subject::View;
use crate::journal::Severity;
use crate::shared::Shared;

/// Logs an exchange that is over.
pub(super) fn write(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    exchange: &mut Exchange,
) {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    if frontend.logs.is_empty() || severity(frontend.log_options, exchange).is_none() {
        return;
    }
    if !exchange.is_logged {
        tell(now, shared, desk, session, exchange);
    }
    if exchange.is_ours && exchange.status >= 500 {
        explain(shared, desk, session, exchange);
    }
}

/// Logs the exchange once the response's head was received, if configured (`logasap`).
pub(super) fn write_early(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    exchange: &mut Exchange,
) {
    let frontend = &shared.live.frontends[session.bind().frontend].config;
    if frontend.log_options.as_soon_as_possible && !frontend.logs.is_empty() {
        tell(now, shared, desk, session, exchange);
        exchange.is_logged = true;
    }
}

/// Writes the line of an exchange.
fn tell(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    exchange: &mut Exchange,
) {
    let frontend = Arc::clone(&shared.live.frontends[session.bind().frontend].config);
    let Some(severity) = severity(frontend.log_options, exchange) else { return };
    let Ended(who, what) = exchange.ended;
    let Ended(asked, told) = exchange.cookie_marks;
    exchange.letters = [who, what, asked, told];
    let format = match &frontend.error_log_format {
        Some(format) if exchange.request.method.is_empty() => format, // there is no request
        _ => &frontend.log_format,
    };
    desk.line.clear();
    format.render(&View { now, shared, session, exchange }, &mut desk.line);
    shared.journal.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &desk.line);
}

/// Logs why the proxy generated an error response.
fn explain(shared: &mut Shared, desk: &mut Desk, session: &Session, exchange: &Exchange) {
    let frontend = Arc::clone(&shared.live.frontends[session.bind().frontend].config);
    let explanation = Explanation::of(&shared.live, session, exchange);
    desk.line.clear();
    desk.line.extend_from_slice(explanation.to_string().as_bytes());
    let none = exchange.attempts.is_empty();
    let severity = if none { Severity::Notice } else { Severity::Error };
    shared.journal.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &desk.line);
    shared.journal.explain(&explanation);
}

/// The severity of the line; `None`: no line.
fn severity(options: fulmar_haproxy::model::LogOptions, exchange: &Exchange) -> Option<Severity> {
    let failed = exchange.ended.is_error()
        || exchange.tried > 0
        || exchange.redispatched
        || exchange.status >= 500;
    if options.dont_log_normal && !failed {
        return None;
    }
    match exchange.log_level {
        Level::Silent => None,
        Level::Set(severity) => Some(severity),
        Level::Usual if options.separate_errors && failed => Some(Severity::Error),
        Level::Usual => Some(Severity::Info),
    }
}

/// The log level set by a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Level {
    #[default]
    Usual,
    Set(Severity),
    Silent,
}

impl Exchange {
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
        });
    }
}

impl Ended {
    /// True if it did not end regularly.
    pub(super) fn is_error(self) -> bool {
        !matches!(self.0, b'-' | b'L')
    }
}
