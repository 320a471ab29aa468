//! Deadlines of both sides, as frontends and backends say.
//!
//! A side is late when nothing has moved on it for so long, whichever way; with `option
//! independent-streams`, when it has said nothing. Once the server's
//! connection stands `timeout tunnel` counts in place of `client` and `server`, and once a side has
//! been told the end `client-fin` and `server-fin` do.

use std::time::Duration;

use fulmar_engine::{Timeouts, TimeoutsId};
use fulmar_haproxy::{BackendConfig, FrontendConfig};

use super::across::Side;
use crate::live::Live;

/// The sets of deadlines that sessions need, by what they belong to.
#[derive(Debug)]
pub(super) struct Limits {
    /// By frontend: before there is a backend, or where that has nothing to say.
    clients: Vec<TimeoutsId>,
    /// By backend.
    servers: Vec<TimeoutsId>,
}

impl Limits {
    pub(super) fn new(live: &Live, clients: &mut Side, servers: &mut Side) -> Self {
        let client =
            |it: &crate::live::LiveFrontend| clients.add_timeouts(client(&it.config, None));
        let server = |it: &crate::live::LiveBackend| servers.add_timeouts(server(&it.config));
        Self {
            clients: live.frontends.iter().map(client).collect(),
            servers: live.backends.iter().map(server).collect(),
        }
    }

    /// Of a client that has just come.
    pub(super) fn of_client(&self, frontend: usize) -> TimeoutsId {
        self.clients[frontend]
    }

    /// Of a connection to a server.
    pub(super) fn of_server(&self, backend: usize) -> TimeoutsId {
        self.servers[backend]
    }
}

/// What holds for a client, of whom a backend may have something to say.
pub(super) fn client(frontend: &FrontendConfig, backend: Option<&BackendConfig>) -> Timeouts {
    let silence = frontend.timeouts.client;
    let relays = backend.and_then(|backend| backend.timeouts.tunnel).or(silence);
    Timeouts {
        handshake: silence,
        body: relays,
        tunnel: relays,
        hears_only: frontend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// What holds for a server.
pub(super) fn server(backend: &BackendConfig) -> Timeouts {
    let timeouts = &backend.timeouts;
    let relays = timeouts.tunnel.or(timeouts.server);
    Timeouts {
        connect: timeouts.connect,
        handshake: timeouts.connect,
        body: relays,
        tunnel: relays,
        hears_only: backend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// What holds for who has been told the end: `None`, if that changes nothing.
pub(super) fn half_closed(before: Timeouts, fin: Option<Duration>) -> Option<Timeouts> {
    fin?;
    Some(Timeouts { body: fin, tunnel: fin, ..before })
}
