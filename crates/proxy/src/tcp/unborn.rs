//! Clients that are gone before what lies below their connection stood: a PROXY header or TLS.

use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::End;
use fulmar_haproxy::Frontend;
use fulmar_rules::Format;
use fulmar_rules::format::Standard;
use fulmar_semantics::proxy_protocol::HeaderError;
use fulmar_tls::TlsError;

use super::Tcp;
use super::admit::count;
use super::session::{Introduction, Session};
use super::subject::View;
use crate::counters::Counter;
use crate::journal::Severity;
use crate::shared::{BindId, Shared};

impl Tcp {
    /// A client is gone while its connection was being opened.
    pub(super) fn handle_unborn(
        &self,
        now: Instant,
        shared: &mut Shared,
        session: &Session,
        end: &End,
    ) {
        let live = Arc::clone(&shared.live);
        let frontend = &live.frontends[session.bind.frontend];
        if matches!(end, End::Layer(error) if error.is::<TlsError>()) {
            count(frontend, session.bind, shared.thread, Counter::TlsFailures);
        }
        let config = &frontend.config;
        let Some(Reason { text, said_nothing }) = reason(session, end) else { return };
        if config.logs.is_empty() || (config.log_options.dont_log_null && said_nothing) {
            return;
        }
        let severity = match config.log_options.separate_errors {
            true => Severity::Error,
            false => Severity::Info,
        };
        let view = View::new(shared, session, now);
        let mut line = Vec::new();
        match &config.error_log_format {
            Some(format) => format.render(&view, &mut line),
            None => {
                Format::from(Standard::Error).render(&view, &mut line);
                line.extend_from_slice(listener(config, session.bind).as_bytes());
                line.extend_from_slice(b": ");
                line.extend_from_slice(text.as_bytes());
            }
        }
        shared.journal.log(&config.logs, config.log_tag.as_deref(), severity, &line);
    }
}

/// The listener's own name, or its number.
fn listener(frontend: &Frontend, bind: BindId) -> String {
    let Some(it) = frontend.binds.get(bind.bind) else { return String::new() };
    let is_unnamed = it.name == format!("sock-{}", bind.bind + 1);
    if is_unnamed { it.id.to_string() } else { it.name.clone() }
}

/// Why, in HAProxy's words.
struct Reason {
    text: &'static str,
    /// It is what `option dontlognull` leaves out.
    said_nothing: bool,
}

/// Nothing is told of those whom we have sent away.
fn reason(session: &Session, end: &End) -> Option<Reason> {
    let awaited = session.introduction == Introduction::Awaited;
    let (text, said_nothing) = match end {
        End::TimedOut(_) if awaited => ("Timeout while waiting for PROXY protocol header", false),
        End::TimedOut(_) => ("Timeout during SSL handshake", false),
        End::Failed(_) if awaited => {
            ("Connection error while waiting for PROXY protocol header", true)
        }
        End::Failed(_) => ("Connection error during SSL handshake", true),
        End::Layer(error) => match (error.downcast_ref(), error.downcast_ref()) {
            (Some(header), _) => of_header(*header),
            (None, Some(TlsError::HandshakeEof)) => {
                ("Connection closed during SSL handshake", true)
            }
            (None, Some(TlsError::UnknownIssuer)) => {
                ("SSL client CA chain cannot be verified", false)
            }
            (None, Some(_)) => ("SSL handshake failure", false),
            (None, None) => return None,
        },
        _ => return None,
    };
    Some(Reason { text, said_nothing })
}

fn of_header(error: HeaderError) -> (&'static str, bool) {
    match error {
        HeaderError::Absent => {
            ("Received something which does not look like a PROXY protocol header", false)
        }
        HeaderError::Nothing => ("Connection closed while waiting for PROXY protocol header", true),
        HeaderError::UnexpectedEof => ("Truncated PROXY protocol header received", false),
        _ => ("Received an invalid PROXY protocol header", false),
    }
}
