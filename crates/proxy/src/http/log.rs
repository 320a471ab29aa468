//! Lines of the log: one for each exchange, and one that explains each error of our own.

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

/// Writes what there is to be said of an exchange that is over.
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

/// Writes the line as soon as the head of the response is there, if that is wanted (`logasap`).
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

/// The line of an exchange.
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

/// Why the client was answered by an error of our own.
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

/// How severe the line is; `None`: there is none.
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

/// How severe a rule wants the line to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Level {
    #[default]
    Usual,
    Set(Severity),
    Silent,
}

impl Exchange {
    /// Keeps the request's first line, as it arrived.
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
    /// Somebody ended it before it was over.
    pub(super) fn is_error(self) -> bool {
        !matches!(self.0, b'-' | b'L')
    }
}
