//! The attempts of an exchange at servers: the record that explains an error.

use std::fmt;
use std::io;
use std::time::Duration;

use fulmar_proto::PeerError;

use crate::http::exchange::{EndLetters, HttpExchange};
use crate::http::session::HttpSession;
use crate::live::Live;

/// Why the proxy generated an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The frontend.
    pub frontend: String,
    /// The backend, if one was selected.
    pub backend: Option<String>,
    /// The status of the response: 500 to 599.
    pub status: u16,
    /// The end, in the two letters of the log line.
    pub ended: [u8; 2],
    /// Attempts at servers, in order.
    pub attempts: Vec<NamedAttempt>,
    /// Why there was no further attempt.
    pub given_up: GivenUp,
}

/// An attempt at a server, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAttempt {
    /// The server's name.
    pub server: String,
    /// The attempt.
    pub attempt: FailedAttempt,
}

/// A failed attempt at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The server's index in the backend.
    pub server: usize,
    /// Number of earlier exchanges on its connection.
    pub uses: u32,
    /// The age of that connection.
    pub age: Duration,
    /// The failure.
    pub failure: AttemptFailure,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// The connection was refused or failed.
    Refused(io::ErrorKind),
    /// No descriptor, memory or port was available: not the server's fault.
    Exhausted(io::ErrorKind),
    /// The connection timed out.
    ConnectTimeout,
    /// The layer below HTTP failed, such as TLS, or the server has no address.
    Layer(String),
    /// The connection was closed before a response.
    Empty,
    /// The connection was reset.
    Reset(io::ErrorKind),
    /// The response timed out.
    Silent,
    /// The response was malformed.
    Junk(PeerError),
    /// The status of the response is named in `retry-on`.
    Status(u16),
    /// The server's sessions were closed: because it is down, or by an operator.
    Shut {
        /// The server is down.
        is_down: bool,
    },
}

/// Why there was no further attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GivenUp {
    /// No server is usable.
    #[default]
    NoServer,
    /// No backend was selected: no rule matched, and there is no `default_backend`.
    NoBackend,
    /// A rule on requests or responses decided.
    Rule,
    /// The queue timeout was exceeded.
    Queue,
    /// An internal error.
    Internal,
    /// `retry-on` does not name this failure.
    NotWanted,
    /// The server may have executed the request, and its method is not idempotent.
    Executed,
    /// The body exceeded the limit for retries.
    BodyGone,
    /// The number of `retries` was reached.
    NoneLeft,
    /// A rule forbids retries (`disable-l7-retry`).
    Forbidden,
    /// Sessions of its server were closed.
    Shut,
}

impl Explanation {
    pub(super) fn of(live: &Live, session: &HttpSession, exchange: &HttpExchange) -> Self {
        let backend = exchange.backend.map(|it| &live.backends[it.0]);
        let name = |attempt: &FailedAttempt| {
            let server = backend.and_then(|backend| backend.servers.get(attempt.server));
            server.map_or_else(String::new, |server| server.config.name.clone())
        };
        let tried = |attempt: &FailedAttempt| NamedAttempt {
            server: name(attempt),
            attempt: attempt.clone(),
        };
        Self {
            frontend: live.frontends[session.bind().frontend].config.name.clone(),
            backend: backend.map(|backend| backend.config.name.clone()),
            status: exchange.status,
            ended: [exchange.ended.0, exchange.ended.1],
            attempts: exchange.attempts.iter().map(tried).collect(),
            given_up: given_up(exchange),
        }
    }
}

/// Why there was no further attempt: from the letters of the log, or the last attempt.
fn given_up(exchange: &HttpExchange) -> GivenUp {
    let EndLetters(who, when) = exchange.ended;
    match (who, when) {
        (b'I', _) => GivenUp::Internal,
        (b'L', _) | (b'P', b'R' | b'T') => GivenUp::Rule,
        (b'P', b'H') if !exchange.has_failed() => GivenUp::Rule,
        (b's', b'Q') => GivenUp::Queue,
        _ if exchange.attempts.is_empty() && exchange.backend.is_none() => GivenUp::NoBackend,
        _ => exchange.given_up,
    }
}

impl HttpExchange {
    /// True if its last attempt ended with a malformed response.
    fn has_failed(&self) -> bool {
        self.attempts.last().is_some_and(|it| matches!(it.failure, AttemptFailure::Junk(_)))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = self.backend.as_deref().unwrap_or("<NOBACKEND>");
        write!(f, "{} {backend}: {} was generated by the proxy: ", self.frontend, self.status)?;
        for tried in &self.attempts {
            let NamedAttempt { server, attempt } = tried;
            write!(f, "{server}: {}", attempt.failure)?;
            match attempt.uses {
                0 => f.write_str(" (a new connection); ")?,
                uses => {
                    let age = attempt.age.as_millis();
                    write!(f, " (a connection {age} ms old, used {uses} times); ")?;
                }
            }
        }
        f.write_str(match self.given_up {
            GivenUp::NoServer => "no server is usable",
            GivenUp::NoBackend => "no backend was selected",
            GivenUp::Rule => "a rule decided",
            GivenUp::Queue => "timeout in the queue",
            GivenUp::Internal => "internal error",
            GivenUp::NotWanted => "no retry: not enabled by retry-on",
            GivenUp::Executed => "no retry: the request may have been executed",
            GivenUp::BodyGone => "no retry: the request body is too long",
            GivenUp::NoneLeft => "no retry: no retries left",
            GivenUp::Forbidden => "no retry: forbidden by a rule",
            GivenUp::Shut => "no retry: sessions of the server were shut down",
        })
    }
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(kind) | Self::Exhausted(kind) => write!(f, "cannot connect: {kind}"),
            Self::ConnectTimeout => f.write_str("connect timeout"),
            Self::Layer(error) => f.write_str(error),
            Self::Empty => f.write_str("closed without a response"),
            Self::Reset(kind) => write!(f, "{kind}"),
            Self::Silent => f.write_str("response timeout"),
            Self::Junk(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Shut { is_down: true } => f.write_str("sessions shut down: the server is down"),
            Self::Shut { is_down: false } => f.write_str("sessions shut down"),
        }
    }
}
