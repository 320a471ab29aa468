//! Clients that are refused on arrival, or lost before the layers below their connection (a PROXY
//! header or TLS) were established.

use fulmar_engine::End;
use fulmar_haproxy::FrontendConfig;
use fulmar_haproxy::rules::eval_context_mut::EvalContextMut;
use fulmar_haproxy::rules::format::Standard;
use fulmar_haproxy::rules::tcp::{TcpRule, TcpVerdict, run_tcp};
use fulmar_haproxy::rules::{EvalContext, FormatString};
use fulmar_semantics::proxy_protocol::HeaderError;
use fulmar_tls::TlsError;

use crate::counters::Stat;
use crate::proxy_log::LogSeverity;
use crate::shared::{BindId, ThreadContext};
use crate::tls_info::TlsInfo;

/// What has to be received before a connection is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A PROXY header.
    Header,
    /// TLS, if the listener uses it.
    Handshake,
}

/// How a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientRefusal {
    Closed,
    /// The client is forgotten without notice.
    Silent,
}

/// Evaluates rules that cannot wait; `Some` if they refuse the client.
pub(crate) fn refuses(rules: &[TcpRule], client: &mut dyn EvalContextMut) -> Option<ClientRefusal> {
    match run_tcp(rules, client) {
        TcpVerdict::Accept | TcpVerdict::Wait => None,
        TcpVerdict::Reject | TcpVerdict::Close => Some(ClientRefusal::Closed),
        TcpVerdict::SilentDrop => Some(ClientRefusal::Silent),
    }
}

/// Counts for the frontend and for the listener.
pub(crate) fn count(shared: &ThreadContext, bind: BindId, counter: Stat) {
    let frontend = &shared.live.frontends[bind.frontend];
    frontend.counters[shared.thread].add(counter, 1);
    frontend.listeners[bind.bind][shared.thread].add(counter, 1);
}

/// Counts a completed TLS handshake of a client.
pub(crate) fn count_handshake(shared: &ThreadContext, bind: BindId, tls: &TlsInfo) {
    count(shared, bind, Stat::TlsHandshakes);
    if tls.resumed {
        count(shared, bind, Stat::TlsResumed);
    }
}

/// A client was lost during `awaited`. Returns the log line, if one is due.
pub(crate) fn log_failed_setup(
    shared: &ThreadContext,
    bind: BindId,
    awaited: Awaited,
    end: &End,
    client: &dyn EvalContext,
) -> Option<(LogSeverity, Vec<u8>)> {
    if matches!(end, End::Layer(error) if error.is::<TlsError>()) {
        count(shared, bind, Stat::TlsFailures);
    }
    let config = &shared.live.frontends[bind.frontend].config;
    let Reason { text, is_null } = reason(awaited, end)?;
    if config.logs.is_empty() || (config.log_options.dont_log_null && is_null) {
        return None;
    }
    let severity = match config.log_options.separate_errors {
        true => LogSeverity::Error,
        false => LogSeverity::Info,
    };
    let mut line = Vec::new();
    match &config.error_log_format {
        Some(format) => format.render(client, &mut line),
        None => {
            FormatString::from(Standard::Error).render(client, &mut line);
            line.extend_from_slice(listener(config, bind).as_bytes());
            line.extend_from_slice(b": ");
            line.extend_from_slice(text.as_bytes());
        }
    }
    Some((severity, line))
}

/// The listener's name, or its number.
fn listener(frontend: &FrontendConfig, bind: BindId) -> String {
    let it = &frontend.binds[bind.bind];
    let is_unnamed = it.name == format!("sock-{}", bind.bind + 1);
    if is_unnamed { it.id.to_string() } else { it.name.clone() }
}

/// The reason in HAProxy's words.
struct Reason {
    text: &'static str,
    /// `option dontlognull` suppresses it.
    is_null: bool,
}

/// The reason of a lost client; `None` if the proxy closed it.
fn reason(awaited: Awaited, end: &End) -> Option<Reason> {
    let header = awaited == Awaited::Header;
    let (text, is_null) = match end {
        End::TimedOut(_) if header => ("Timeout while waiting for PROXY protocol header", false),
        End::TimedOut(_) => ("Timeout during SSL handshake", false),
        End::Failed(_) if header => {
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
    Some(Reason { text, is_null })
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
