//! The state of a server's connection.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::Exchange as ExchangeId;

/// The state of a server's connection; an idle one needs this much memory.
#[derive(Debug)]
pub(super) struct ServerConn {
    /// The backend's index in the configuration.
    pub(super) backend: u32,
    /// The server's index in the backend.
    pub(super) server: u32,
    /// The group of its idle connections.
    pub(super) idle_group: u32,
    /// Number of exchanges.
    pub(super) uses: u32,
    /// When it was opened.
    pub(super) since: Instant,
    /// The current exchange.
    pub(super) client: Option<ExchangeId>,
    /// It is established, with every layer.
    pub(super) established: bool,
    /// Bytes of the current request were sent.
    pub(super) sent: bool,
    /// Bytes were received since the current exchange began.
    pub(super) response_begun: bool,
    /// The clients that may use it.
    pub(super) users: ConnectionUsers,
    /// The number of changes of the server's address when it was opened; with another number it
    /// must not be reused.
    pub(super) moved: u32,
    /// The number of requests to close the server's sessions when it was opened.
    pub(super) kills: u32,
    /// The client named in its PROXY header, for all requests on this connection.
    pub(super) announced: Option<Box<Announced>>,
}

/// The address of a client and its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
}

/// The clients that may use a server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionUsers {
    Any,
    /// One client only.
    One,
    /// One client only, which has authenticated the connection (NTLM, Negotiate).
    Authenticated,
}

impl ServerConn {
    /// For a new connection.
    pub(super) fn new(now: Instant, (backend, server): (usize, usize), idle_group: u32) -> Self {
        let narrow = |at: usize| u32::try_from(at).expect("fewer servers than 2^32");
        Self {
            backend: narrow(backend),
            server: narrow(server),
            idle_group,
            uses: 0,
            since: now,
            client: None,
            established: false,
            sent: false,
            response_begun: false,
            users: ConnectionUsers::Any,
            moved: 0,
            kills: 0,
            announced: None,
        }
    }

    /// Only one client may use it.
    pub(super) fn is_private(&self) -> bool {
        self.users != ConnectionUsers::Any
    }

    /// It has been used more than once.
    pub(super) fn is_proven(&self) -> bool {
        self.uses > 1
    }

    /// Its server: backend and server.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.backend as usize, self.server as usize)
    }
}
