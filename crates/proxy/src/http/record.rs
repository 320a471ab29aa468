//! Which servers an exchange was tried at, and what came of it: the record that explains an error.

use std::fmt;
use std::io;
use std::time::Duration;

use fulmar_proto::PeerError;

use crate::http::exchange::{Ended, Exchange};
use crate::http::session::Session;
use crate::live::Live;

/// Why a client was answered by an error of the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The frontend.
    pub frontend: String,
    /// The backend, if one was chosen.
    pub backend: Option<String>,
    /// What the client was told: 500 to 599.
    pub status: u16,
    /// How it ended, in the two letters of a line of the log.
    pub ended: [u8; 2],
    /// Attempts at servers, in order.
    pub attempts: Vec<Tried>,
    /// Why there was not another attempt.
    pub given_up: GivenUp,
}

/// An attempt at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its name.
    pub server: String,
    /// What it came to.
    pub attempt: Attempt,
}

/// An attempt at a server that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The server, by its place in the backend.
    pub server: usize,
    /// Exchanges that its connection had had before.
    pub uses: u32,
    /// How old that connection was.
    pub age: Duration,
    /// What happened.
    pub failure: Failure,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The connection could not be made.
    Refused(io::ErrorKind),
    /// There was no descriptor, memory or port for one: that is no fault of the server's.
    Exhausted(io::ErrorKind),
    /// The connection did not stand in time.
    ConnectTimeout,
    /// There is no way there, or what lies below HTTP, such as TLS, could not be agreed on.
    Layer(String),
    /// The connection ended without a byte of a response.
    Empty,
    /// The connection was reset.
    Reset(io::ErrorKind),
    /// The response did not begin in time.
    Silent,
    /// What came was no response.
    Junk(PeerError),
    /// The response had a status that the configuration wants another attempt for.
    Status(u16),
    /// The server's sessions were shut down: because it is down, or by an operator.
    Shut {
        /// It is down.
        is_down: bool,
    },
}

/// Why there was not another attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GivenUp {
    /// There was nobody to send it to: no server is usable.
    #[default]
    NoServer,
    /// No backend was chosen: no rule fits, and there is no `default_backend`.
    NoBackend,
    /// It is what a rule wants, of requests or of responses.
    Rule,
    /// It waited for a place for too long.
    Queue,
    /// Something of the proxy's own failed.
    Internal,
    /// `retry-on` does not name this.
    NotWanted,
    /// The server may have executed it, and its method says that this may be done once only.
    Executed,
    /// Its body was too long to be kept.
    BodyGone,
    /// As often as `retries` says it was tried again.
    NoneLeft,
    /// A rule forbids it (`disable-l7-retry`).
    Forbidden,
    /// Sessions with its server were shut down.
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

/// Why there was not another attempt: what the letters of the log say of the end, or the last
/// attempt.
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
    /// Its last attempt was one that was not followed by another.
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
