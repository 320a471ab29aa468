//! The state that all exchanges of a thread share, and the queue of deferred actions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fulmar_engine::{Connections, Exchange as ExchangeId, SocketId, Timeouts, TimeoutsId};
use fulmar_haproxy::{BackendConfig, Config, FrontendConfig, Mode, ServerConfig};
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;

use crate::http::exchange::HttpExchange;
use crate::http::idle_pool::IdlePool;
use crate::http::server_conn::ServerConn;
use crate::http::server_names::ServerNameGroups;
use crate::http::session::HttpSession;
use crate::live::{Live, LiveBackend, LiveServer};
use crate::needs::needs_request_line;
use crate::queues::Queues;

/// The state that all exchanges of a thread share.
#[derive(Debug)]
pub(super) struct HttpState {
    pub(super) pool: IdlePool,
    pub(super) frontends: Vec<ClientTimeoutSets>,
    /// By backend, then by server.
    pub(super) servers: Vec<Vec<ServerConns>>,
    /// The groups of connections by server name.
    names: ServerNameGroups,
    /// Exchanges that wait for a slot.
    pub(super) queues: Queues<ExchangeId>,
    /// Handled number of requests to close sessions of servers.
    pub(super) kills: u64,
    /// Buffer for log lines.
    pub(super) line: Vec<u8>,
    /// Bytes of responses in memory at which no further request of a client is parsed.
    pub(super) response_buffer_max: u32,
    deferred: VecDeque<DeferredAction>,
    #[expect(clippy::vec_box, reason = "a client holds the box: an idle one costs a pointer")]
    spare: Vec<Box<HttpExchange>>,
}

/// The timeouts of a frontend's clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientTimeoutSets {
    /// Before the first request.
    pub(super) fresh: TimeoutsId,
    /// From the first request on.
    pub(super) usual: TimeoutsId,
    /// The same during a soft stop: an idle client is not expected to send a request.
    pub(super) parting: TimeoutsId,
    /// The request line is kept, since the configuration uses it.
    pub(super) keeps_line: bool,
}

/// The connections of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerConns {
    pub(super) timeouts: TimeoutsId,
    /// The group of its idle connections.
    pub(super) idle_group: u32,
    /// The body of its last response could pass through pipes; the next one probably can, too.
    pub(super) passes: bool,
}

/// An action on a connection that is not accessible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeferredAction {
    /// A connection was changed: its driver has to be notified.
    Touch(SocketId),
    /// An exchange continues, depending on its stage.
    Continue(ExchangeId),
    /// Slots have become free in a backend, at one server or at any.
    Serve(usize, Option<usize>),
    /// The next bytes of a connection may pass through pipes, if they are many.
    Pass(SocketId),
    /// A server's connection has completed its exchange.
    Free(SocketId),
    /// A server's connection is unusable, or a client's is refused.
    Close(SocketId),
    /// Drops a client silently.
    DropSilently(SocketId),
    /// The timeout of one exchange on a server's connection.
    Limit(SocketId, Duration),
    /// The timeout of a tunnel, on the connection of a client or of a server.
    Tunnel(SocketId, Duration),
    /// The timer of a client.
    Timer(SocketId, Option<Instant>),
    /// The timeouts of a client.
    Deadlines(SocketId, TimeoutsId),
}

impl HttpState {
    pub(super) fn new(
        live: &Live,
        thread: usize,
        clients: &mut Connections<H1Server, HttpSession>,
        servers: &mut Connections<H1Client, ServerConn>,
    ) -> Self {
        let mut pool = IdlePool::default();
        let frontends = live.frontends.iter();
        let frontends =
            frontends.map(|it| frontend_timeouts(&live.config, &it.config, clients)).collect();
        let mut exit = |backend: &LiveBackend, server: &LiveServer| ServerConns {
            timeouts: servers.add_timeouts(server_timeouts(&backend.config, &server.config)),
            idle_group: pool.add(),
            passes: false,
        };
        let exits = |backend: &LiveBackend| -> Vec<_> {
            backend.servers.iter().map(|it| exit(backend, it)).collect()
        };
        let servers = live.backends.iter().map(exits).collect();
        let queues = Queues::new(live, thread, Mode::Http);
        let (deferred, spare) = (VecDeque::new(), Vec::new());
        let (names, line) = (ServerNameGroups::default(), Vec::new());
        let buffer = live.config.global.tune.response_buffer_max;
        Self {
            pool,
            frontends,
            servers,
            names,
            queues,
            kills: live.kills(),
            line,
            response_buffer_max: buffer.unwrap_or(RESPONSE_BUFFER_MAX),
            deferred,
            spare,
        }
    }

    /// The group of connections that use this server name; `None`: there are too many names.
    pub(super) fn idle_group(
        &mut self,
        backend: usize,
        server: usize,
        name: Option<&str>,
    ) -> Option<u32> {
        let Some(name) = name else { return Some(self.servers[backend][server].idle_group) };
        let Self { names, pool, .. } = self;
        names.idle_group(pool, (backend, server, name.into()))
    }

    /// Returns an empty exchange.
    pub(super) fn new_exchange(&mut self) -> Box<HttpExchange> {
        self.spare.pop().unwrap_or_default()
    }

    /// Recycles a finished exchange.
    pub(super) fn recycle(&mut self, mut exchange: Box<HttpExchange>) {
        debug_assert!(exchange.before.is_none(), "earlier exchanges end first");
        debug_assert!(exchange.ticket.is_none() && !exchange.has_place, "it has left its server");
        if self.spare.len() < SPARE_LEN_MAX && !exchange.is_large() {
            exchange.clear();
            self.spare.push(exchange);
        }
    }

    /// Queues an action, unless the last one is equal.
    pub(super) fn defer(&mut self, action: DeferredAction) {
        if self.deferred.back() != Some(&action) {
            self.deferred.push_back(action);
        }
    }

    /// The next action.
    pub(super) fn next_deferred(&mut self) -> Option<DeferredAction> {
        self.deferred.pop_front()
    }
}

fn frontend_timeouts(
    config: &Config,
    frontend: &FrontendConfig,
    clients: &mut Connections<H1Server, HttpSession>,
) -> ClientTimeoutSets {
    let usual = client_timeouts(frontend);
    let times = &frontend.timeouts;
    let fresh = Timeouts { idle: times.http_request.or(times.client), ..usual };
    let idle = usual.idle.map_or(PARTING, |idle| idle.min(PARTING));
    let parting = Timeouts { idle: Some(idle), ..usual };
    ClientTimeoutSets {
        fresh: clients.add_timeouts(fresh),
        usual: clients.add_timeouts(usual),
        parting: clients.add_timeouts(parting),
        keeps_line: needs_request_line(config, frontend),
    }
}

/// The timeouts of a frontend's clients, from their first request on.
pub(super) fn client_timeouts(frontend: &FrontendConfig) -> Timeouts {
    let times = &frontend.timeouts;
    let head = times.http_request.or(times.client);
    Timeouts {
        handshake: times.client,
        idle: times.http_keep_alive.or(head),
        head,
        body: times.client,
        send: times.client,
        linger: Some(times.client_fin.or(times.client).map_or(LINGER, |it| it.min(LINGER))),
        tunnel: times.client,
        receive_only: frontend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// The timeouts of a server's connections.
pub(super) fn server_timeouts(backend: &BackendConfig, server: &ServerConfig) -> Timeouts {
    let times = &backend.timeouts;
    Timeouts {
        connect: times.connect,
        handshake: times.connect,
        idle: Some(server.idle_timeout),
        head: times.server,
        body: times.server,
        response: times.server,
        send: times.server,
        linger: Some(LINGER),
        tunnel: times.tunnel.or(times.server),
        receive_only: backend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// A client that received a response may have sent the next request already: closing would lose it.
/// A request within this time gets a response, with `Connection: close`.
const PARTING: Duration = Duration::from_secs(1);
/// HAProxy's default buffer (`tune.bufsize`).
const RESPONSE_BUFFER_MAX: u32 = 16 * 1024;
/// A turn usually ends with more exchanges in progress.
const SPARE_LEN_MAX: usize = 256;
/// From the end of our side to the peer's.
const LINGER: Duration = Duration::from_secs(2);
