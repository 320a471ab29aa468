//! The attempts of an exchange at servers: the record that explains an error.

use std::fmt;
use std::io;
use std::time::Duration;

use fulmar_proto::PeerError;

use crate::http::exchange::{Ended, Exchange};
use crate::http::session::Session;
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
    pub attempts: Vec<Tried>,
    /// Why there was no further attempt.
    pub given_up: GivenUp,
}

/// An attempt at a server, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The server's name.
    pub server: String,
    /// The attempt.
    pub attempt: Attempt,
}

/// A failed attempt at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The server's index in the backend.
    pub server: usize,
    /// Number of earlier exchanges on its connection.
    pub uses: u32,
    /// The age of that connection.
    pub age: Duration,
    /// The failure.
    pub failure: Failure,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
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
#[non_exhaustive]
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
    pub(super) fn of(live: &Live, session: &Session, exchange: &Exchange) -> Self {
        let backend = exchange.backend.map(|it| &live.backends[it.0]);
        let name = |attempt: &Attempt| {
            let server = backend.and_then(|backend| backend.servers.get(attempt.server));
            server.map_or_else(String::new, |server| server.config.name.clone())
        };
        let tried = |attempt: &Attempt| Tried { server: name(attempt), attempt: attempt.clone() };
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
fn given_up(exchange: &Exchange) -> GivenUp {
    let Ended(who, when) = exchange.ended;
    match (who, when) {
        (b'I', _) => GivenUp::Internal,
        (b'L', _) | (b'P', b'R' | b'T') => GivenUp::Rule,
        (b'P', b'H') if !exchange.has_failed() => GivenUp::Rule,
        (b's', b'Q') => GivenUp::Queue,
        _ if exchange.attempts.is_empty() && exchange.backend.is_none() => GivenUp::NoBackend,
        _ => exchange.given_up,
    }
}

impl Exchange {
    /// True if its last attempt ended with a malformed response.
    fn has_failed(&self) -> bool {
        matches!(self.attempts.last(), Some(last) if matches!(last.failure, Failure::Junk(_)))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = self.backend.as_deref().unwrap_or("<NOBACKEND>");
        write!(f, "{} {backend}: {} is our own answer: ", self.frontend, self.status)?;
        for tried in &self.attempts {
            let Tried { server, attempt } = tried;
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
            GivenUp::NoBackend => "no backend is chosen",
            GivenUp::Rule => "a rule wants it so",
            GivenUp::Queue => "it waited too long for a place",
            GivenUp::Internal => "something failed here",
            GivenUp::NotWanted => "not tried again: retry-on does not name this",
            GivenUp::Executed => "not tried again: it may have been executed",
            GivenUp::BodyGone => "not tried again: its body was too long to be kept",
            GivenUp::NoneLeft => "not tried again: no retries are left",
            GivenUp::Forbidden => "not tried again: a rule forbids it",
            GivenUp::Shut => "not tried again: sessions with its server were to end",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(kind) | Self::Exhausted(kind) => write!(f, "cannot connect: {kind}"),
            Self::ConnectTimeout => f.write_str("no connection in time"),
            Self::Layer(error) => f.write_str(error),
            Self::Empty => f.write_str("closed without an answer"),
            Self::Reset(kind) => write!(f, "{kind}"),
            Self::Silent => f.write_str("no answer in time"),
            Self::Junk(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "answered {status}"),
            Self::Shut { is_down: true } => f.write_str("its sessions end, as it is down"),
            Self::Shut { is_down: false } => f.write_str("its sessions were shut down"),
        }
    }
}
