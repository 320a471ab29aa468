//! The state of a client's connection.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::SocketId;
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::eval_context::Variable;

use crate::http::exchange::{ExchangeTimes, HttpExchange};
use crate::shared::{BindId, ThreadContext};
use crate::tls_info::TlsInfo;

/// The state of a client's connection; an idle one needs this much memory.
#[derive(Debug)]
pub(super) struct HttpSession {
    /// The client's address: the connection's peer, or from a PROXY header.
    pub(super) peer: SocketAddr,
    /// The start of the next exchange's times: when the client was accepted, or the last exchange
    /// ended.
    pub(super) since: Instant,
    /// The current exchange.
    pub(super) exchange: Option<Box<HttpExchange>>,
    /// Exchanges with partly unsent responses: the last one, linked to those before it.
    pub(super) leaving: Option<Box<HttpExchange>>,
    /// Properties of few clients.
    pub(super) rare: Option<Box<RareClientState>>,
    frontend: u32,
    bind: u16,
    /// Number of requests.
    pub(super) requests: u32,
    /// Duration of the handshake before the first exchange, in milliseconds.
    pub(super) handshake: u32,
    /// Number of exchanges in `leaving`.
    pub(super) leaving_len: u8,
    pub(super) state: ClientState,
}

/// The state of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// A PROXY header is required.
    AwaitsProxyHeader,
    /// The layer below HTTP is being established.
    Opening,
    /// It is established.
    Open,
    /// Its error was reported; its end is not logged again.
    Reported,
}

/// Properties of few clients.
#[derive(Debug, Default)]
pub(super) struct RareClientState {
    /// The connection to a server that no other client may use, between two exchanges.
    pub(super) own: Option<SocketId>,
    /// The client's destination, from a PROXY header.
    pub(super) destination: Option<SocketAddr>,
    /// The destination of the connection, if the listening address does not determine it.
    pub(super) connected_to: Option<SocketAddr>,
    /// A PROXY header was received.
    pub(super) was_introduced: bool,
    /// The address of the connection's peer, if a PROXY header contains another one.
    pub(super) connected_from: Option<SocketAddr>,
    /// Its TLS session.
    pub(super) tls: Option<TlsInfo>,
    /// Time of the first byte of an incomplete request head.
    pub(super) head_began: Option<Instant>,
    /// Variables with the lifetime of the connection.
    pub(super) variables: Vec<(Variable, Sample<'static>)>,
}

impl HttpSession {
    pub(super) fn new(now: Instant, bind: BindId, peer: SocketAddr) -> Self {
        Self {
            peer,
            since: now,
            exchange: None,
            leaving: None,
            rare: None,
            frontend: u32::try_from(bind.frontend).expect("fewer frontends than 2^32"),
            bind: u16::try_from(bind.bind).expect("fewer addresses than there are ports"),
            requests: 0,
            handshake: 0,
            leaving_len: 0,
            state: ClientState::Opening,
        }
    }

    /// The client's address; a client over a Unix socket has none.
    pub(super) fn source(&self) -> Option<SocketAddr> {
        let is_known = self.peer.port() != 0 || !self.peer.ip().is_unspecified();
        is_known.then_some(self.peer)
    }

    /// The listening address that accepted the client.
    pub(super) fn bind(&self) -> BindId {
        BindId { frontend: self.frontend as usize, bind: self.bind.into() }
    }

    /// A request was received: sets the times of its start.
    pub(super) fn begin(&mut self, now: Instant, times: &mut ExchangeTimes) {
        let began = self.rare.as_mut().and_then(|rare| rare.head_began.take());
        times.since = Some(self.since);
        times.handshake = self.handshake;
        times.first = Some(began.unwrap_or(now));
    }

    /// True if the end of the client's side aborts the request (`abortonclose`): before the
    /// response begins.
    pub(super) fn may_leave(&self, shared: &ThreadContext) -> bool {
        let Some(exchange) = &self.exchange else { return false };
        let frontend = &shared.live.frontends[self.frontend as usize].config.options;
        let backend = exchange.backend.map(|at| &shared.live.backends[at.0].config.options);
        let wanted =
            frontend.abort_on_close || backend.is_some_and(|options| options.abort_on_close);
        wanted && !exchange.stage.is_answering()
    }

    /// True if so many responses are unsent that no further request is read.
    pub(super) fn is_behind(&self) -> bool {
        self.leaving_len >= LEAVING_LEN_MAX
    }

    /// The properties of few clients; created on first use.
    pub(super) fn rare_mut(&mut self) -> &mut RareClientState {
        self.rare.get_or_insert_default()
    }
}

/// An exchange with an unsent response takes about 2 KB. This limits the memory of a client that
/// sends requests but does not read.
const LEAVING_LEN_MAX: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_client_is_small() {
        assert!(size_of::<HttpSession>() <= 88, "{} bytes", size_of::<HttpSession>());
    }
}
