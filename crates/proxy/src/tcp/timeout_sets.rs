//! Timeouts of both sides, from the settings of frontends and backends.
//!
//! A side times out without activity in either direction; with `option independent-streams`,
//! without received bytes. Once the server's connection is established, `timeout tunnel` replaces
//! `client` and `server`. After the end was sent to a side, `client-fin` and `server-fin` apply.

use std::time::Duration;

use fulmar_engine::{Timeouts, TimeoutsId};
use fulmar_haproxy::{BackendConfig, FrontendConfig};

use super::forward::SideConnections;
use crate::live::Live;

/// The sets of timeouts of sessions.
#[derive(Debug)]
pub(super) struct TimeoutSets {
    /// By frontend: without a backend, or if the backend does not change them.
    clients: Vec<TimeoutsId>,
    /// By backend.
    servers: Vec<TimeoutsId>,
}

impl TimeoutSets {
    pub(super) fn new(
        live: &Live,
        clients: &mut SideConnections,
        servers: &mut SideConnections,
    ) -> Self {
        let client =
            |it: &crate::live::LiveFrontend| clients.add_timeouts(client(&it.config, None));
        let server = |it: &crate::live::LiveBackend| servers.add_timeouts(server(&it.config));
        Self {
            clients: live.frontends.iter().map(client).collect(),
            servers: live.backends.iter().map(server).collect(),
        }
    }

    /// Timeouts of a new client.
    pub(super) fn of_client(&self, frontend: usize) -> TimeoutsId {
        self.clients[frontend]
    }

    /// Timeouts of a connection to a server.
    pub(super) fn of_server(&self, backend: usize) -> TimeoutsId {
        self.servers[backend]
    }
}

/// Timeouts of a client; the backend may change them.
pub(super) fn client(frontend: &FrontendConfig, backend: Option<&BackendConfig>) -> Timeouts {
    let silence = frontend.timeouts.client;
    let relays = backend.and_then(|backend| backend.timeouts.tunnel).or(silence);
    Timeouts {
        handshake: silence,
        body: relays,
        tunnel: relays,
        receive_only: frontend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// Timeouts of a server.
pub(super) fn server(backend: &BackendConfig) -> Timeouts {
    let timeouts = &backend.timeouts;
    let relays = timeouts.tunnel.or(timeouts.server);
    Timeouts {
        connect: timeouts.connect,
        handshake: timeouts.connect,
        body: relays,
        tunnel: relays,
        receive_only: backend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// Timeouts of a side after its end was sent; `None` if they are unchanged.
pub(super) fn half_closed(before: Timeouts, fin: Option<Duration>) -> Option<Timeouts> {
    fin?;
    Some(Timeouts { body: fin, tunnel: fin, ..before })
}
