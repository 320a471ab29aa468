//! What is attached to the connection of a client.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::SocketId;
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::subject::Variable;

use crate::http::exchange::{Exchange, Times};
use crate::secured::Tls;
use crate::shared::{BindId, Shared};

/// What is attached to the connection of a client; an idle one costs as much as this.
#[derive(Debug)]
pub(super) struct Session {
    /// Who the client is: who has connected, or whom a PROXY header names.
    pub(super) peer: SocketAddr,
    /// What times of the next exchange are reckoned from: when it was accepted, or when the last
    /// exchange ended.
    pub(super) since: Instant,
    /// What the client waits for.
    pub(super) exchange: Option<Box<Exchange>>,
    /// What is answered, and the client has not taken all of the answer: the latest one, and
    /// behind it those before it.
    pub(super) leaving: Option<Box<Exchange>>,
    /// What few clients have.
    pub(super) kept: Option<Box<Kept>>,
    frontend: u32,
    bind: u16,
    /// Requests so far.
    pub(super) requests: u32,
    /// Of what lies below the first exchange, in milliseconds.
    pub(super) handshake: u32,
    /// How many they are.
    pub(super) leaving_len: u8,
    pub(super) standing: Standing,
}

/// How far the connection of a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A PROXY header has to come.
    Unintroduced,
    /// What lies below HTTP is being opened.
    Opening,
    /// It is open.
    Open,
    /// What is wrong with it has been told: its end is no news.
    Told,
}

/// What few clients have.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The connection to a server that nobody else may use, between two exchanges.
    pub(super) own: Option<SocketId>,
    /// What the client connected to, as a PROXY header tells it.
    pub(super) destination: Option<SocketAddr>,
    /// What the client's connection itself goes to, if the listening address does not tell.
    pub(super) connected_to: Option<SocketAddr>,
    /// A PROXY header has come.
    pub(super) was_introduced: bool,
    /// Who has connected, if a PROXY header names somebody else.
    pub(super) connected_from: Option<SocketAddr>,
    /// What is known of its TLS.
    pub(super) tls: Option<Tls>,
    /// When the first byte of a request came whose head is not complete.
    pub(super) head_began: Option<Instant>,
    /// Variables that live as long as the connection.
    pub(super) variables: Vec<(Variable, Sample<'static>)>,
}

impl Session {
    pub(super) fn new(now: Instant, bind: BindId, peer: SocketAddr) -> Self {
        Self {
            peer,
            since: now,
            exchange: None,
            leaving: None,
            kept: None,
            frontend: u32::try_from(bind.frontend).expect("fewer frontends than 2^32"),
            bind: u16::try_from(bind.bind).expect("fewer addresses than there are ports"),
            requests: 0,
            handshake: 0,
            leaving_len: 0,
            standing: Standing::Opening,
        }
    }

    /// The client's address; who came over a Unix socket has none.
    pub(super) fn source(&self) -> Option<SocketAddr> {
        let is_known = self.peer.port() != 0 || !self.peer.ip().is_unspecified();
        is_known.then_some(self.peer)
    }

    /// The listening address that the client came by.
    pub(super) fn bind(&self) -> BindId {
        BindId { frontend: self.frontend as usize, bind: self.bind.into() }
    }

    /// A request has come: when that began.
    pub(super) fn begin(&mut self, now: Instant, times: &mut Times) {
        let began = self.kept.as_mut().and_then(|kept| kept.head_began.take());
        times.since = Some(self.since);
        times.handshake = self.handshake;
        times.first = Some(began.unwrap_or(now));
    }

    /// True if a client that has ended its side takes back what it asked for (`abortonclose`): as
    /// long as nothing has been answered.
    pub(super) fn may_leave(&self, shared: &Shared) -> bool {
        let Some(exchange) = &self.exchange else { return false };
        let frontend = &shared.live.frontends[self.frontend as usize].config.options;
        let backend = exchange.backend.map(|at| &shared.live.backends[at.0].config.options);
        let wanted =
            frontend.abort_on_close || backend.is_some_and(|options| options.abort_on_close);
        wanted && !exchange.stage.is_answering()
    }

    /// True if so many answers wait for the client that it is asked for no more requests.
    pub(super) fn is_behind(&self) -> bool {
        self.leaving_len >= LEAVING_LEN_MAX
    }

    /// What few clients have, made if it is not there.
    pub(super) fn keep(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }
}

/// An exchange whose answer has not left takes some 2 KB, whatever it weighs: a client that asks,
/// and does not read, has no more of them.
const LEAVING_LEN_MAX: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_client_is_small() {
        assert!(size_of::<Session>() <= 88, "{} bytes", size_of::<Session>());
    }
}
