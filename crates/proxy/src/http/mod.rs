//! Relays of mode http: clients on one side, servers on the other.
//!
//! ```text
//!  clients ─▶ Connections<H1Server, _> ─event─▶ ClientEvents ─begin · pump─▶ server's
//!          ◀─ send · release ─ ServerEvents ◀─event─ Connections<H1Client, _>  connection
//! ```
//!
//! While one side is handled, the other one is accessible. Actions on the side that is being
//! handled are queued in the [`HttpState`], and executed afterwards. So no handler is re-entered.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, CloseKind, Connections, Passage, SocketEvent, SocketId, Timeouts};
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{Connection, Layer, Phase, SpliceTarget, Transmit};
use fulmar_semantics::proxy_protocol::ProxyProtocol;

use crate::admission;
use crate::counters::Stat;
use crate::early_close::ClientRefusal;
use crate::orders::{PORTION, SessionView, after};
use crate::relay::{HTTP_CLIENTS, HTTP_SERVERS, Relay, STRIDE};
use crate::shared::{BindId, ThreadContext};

mod attempts;
mod exchange;
mod server_conn;
mod session;

mod deferred;
mod idle_pool;
mod server_names;
mod state;

mod client_events;
mod connection_rules;

mod cacheable;
mod cookie_pairs;
mod persistence_cookie;
mod prepare_request;
mod request_rules;
mod route;

mod assign_server;
mod forward_body;
mod select_connection;
mod send_request;

mod response_rules;
mod server_events;
mod server_failure;

mod context;
mod credentials;
mod ending;
mod exchange_counters;
mod generated_response;
mod log;

pub use attempts::{AttemptFailure, Explanation, FailedAttempt, GivenUp, NamedAttempt};

use client_events::ClientEvents;
use connection_rules::RuleStage;
use exchange::ExchangeStage;
use server_conn::ServerConn;
use server_events::ServerEvents;
use session::{ClientState, HttpSession};
use state::{DeferredAction, HttpState};

/// Relays of mode http.
#[derive(Debug)]
pub(crate) struct HttpRelay {
    clients: Connections<H1Server, HttpSession>,
    servers: Connections<H1Client, ServerConn>,
    state: HttpState,
}

impl HttpRelay {
    pub(crate) fn new(now: Instant, shared: &ThreadContext) -> Self {
        let mut clients = Connections::new(now, Timeouts::default(), HTTP_CLIENTS, STRIDE);
        let mut servers = Connections::new(now, Timeouts::default(), HTTP_SERVERS, STRIDE);
        let state = HttpState::new(&shared.live, shared.thread, &mut clients, &mut servers);
        Self { clients, servers, state }
    }

    /// The maximum number of received bytes of a client that may wait unread.
    pub(crate) fn unread_max(&self, socket: SocketId) -> usize {
        self.clients.unread_max(socket)
    }

    /// If the body of a response may pass through pipes, only a head's worth of bytes is read
    /// first.
    pub(crate) fn receive_max(&self, socket: SocketId) -> usize {
        let Some((_, conn)) = self.servers.get(socket) else { return usize::MAX };
        let (backend, server) = conn.place();
        let waits = self.state.servers[backend][server].passes && conn.client.is_some();
        match waits && self.servers.splice_len(socket, SpliceTarget::Pipe) == 0 {
            true => HEAD_SIZE,
            false => usize::MAX,
        }
    }

    /// A client has sent bytes: part of a head, or something malformed. It may have closed
    /// meanwhile.
    fn look(&mut self, now: Instant, shared: &mut ThreadContext, socket: SocketId) {
        let Self { clients, servers, state } = self;
        let fault = clients.fault(socket);
        let Some((connection, session)) = clients.get_mut(socket) else { return };
        if let Some(end) = fault {
            ClientEvents { servers, state, shared }.report_error(now, session, &end);
        } else if session.exchange.is_none() && connection.io_state().phase == Phase::Head {
            session.rare_mut().head_began.get_or_insert(now);
        }
    }

    /// A client has received bytes: completes exchanges with completely sent responses. It
    /// may have closed meanwhile.
    fn complete_sent(&mut self, now: Instant, shared: &mut ThreadContext, socket: SocketId) {
        let Self { clients, servers, state } = self;
        let sends = clients.is_sending(socket);
        let Some((connection, session)) = clients.get_mut(socket) else { return };
        let stream = session.leaving.as_ref().map(|exchange| exchange.stream);
        // A layer may hold the last bytes.
        let queued = connection.unsent(stream.unwrap_or_default()).max(u64::from(sends));
        ClientEvents { servers, state, shared }.note_sent(
            now,
            socket,
            (connection, session),
            queued,
        );
    }
}

impl HttpRelay {
    /// Drops a client silently, before its first byte.
    fn drop_at_once(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        mut session: HttpSession,
    ) -> SocketId {
        let Self { clients, servers, state } = self;
        session.state = ClientState::Reported;
        admission::count_accepted(shared, session.bind()); // its removal counts it as left
        let mut requests = ClientEvents { servers, state, shared };
        let connection = H1Server::default();
        let socket = clients.insert(now, None, connection, session, &mut requests);
        clients.cut_as(now, socket, CloseKind::Silent, &mut requests);
        socket
    }
}

impl HttpRelay {
    #[inline]
    fn handle_client(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        socket: SocketId,
        event: SocketEvent<'_>,
    ) {
        let Self { clients, servers, state } = self;
        let mut requests = ClientEvents { servers, state, shared };
        match event {
            SocketEvent::Input(_) => {
                clients.handle(now, socket, event, &mut requests);
                self.look(now, shared, socket);
            }
            SocketEvent::Sent(_) => {
                clients.handle(now, socket, event, &mut requests);
                self.complete_sent(now, shared, socket);
                self.look(now, shared, socket);
            }
            // A client that has ended its side may still wait for the response (RFC 9112 §9.6),
            // unless the configuration specifies otherwise.
            SocketEvent::Hangup => {
                if let Some((_, session)) = clients.get(socket)
                    && session.may_leave(requests.shared)
                {
                    let error = io::ErrorKind::ConnectionAborted.into();
                    clients.handle(now, socket, SocketEvent::Failed(error), &mut requests);
                }
            }
            event => clients.handle(now, socket, event, &mut requests),
        }
    }

    #[inline]
    fn handle_server(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        socket: SocketId,
        event: SocketEvent<'_>,
    ) {
        let Self { clients, servers, state } = self;
        if let SocketEvent::Sent(bytes) = event
            && let Some((_, conn)) = servers.get_mut(socket)
        {
            conn.sent |= bytes > 0 && conn.established;
        }
        servers.handle(now, socket, event, &mut ServerEvents { clients, state, shared });
    }
}

impl Relay for HttpRelay {
    fn accept(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId> {
        let Self { clients, servers, state, .. } = self;
        let mut session = HttpSession::new(now, bind, peer);
        let binds = &shared.live.frontends[bind.frontend].config.binds;
        if binds.get(bind.bind).is_some_and(|it| it.accepts_proxy) {
            session.state = ClientState::AwaitsProxyHeader;
        }
        let before = session.state;
        if let Some(local) = shared.local {
            let rare = session.rare_mut();
            (rare.destination, rare.connected_to) = (Some(local), Some(local));
        }
        admission::counters(shared, bind).iter().for_each(|it| it.add(Stat::Connections, 1));
        match connection_rules::refuses(now, shared, state, &mut session, RuleStage::Connection) {
            Some(ClientRefusal::Closed) => return None,
            Some(ClientRefusal::Silent) => return Some(self.drop_at_once(now, shared, session)),
            None => {}
        }
        let layer = match session.state == before {
            true => layer,
            false => Some(Box::new(ProxyProtocol::new(layer)) as Box<dyn Layer>),
        };
        admission::counters(shared, bind).iter().for_each(|it| it.add(Stat::SessionsTotal, 1));
        admission::count_accepted(shared, bind);
        let mut connection = H1Server::default();
        let frontend = &shared.live.frontends[bind.frontend].config;
        connection.set_responds_to_silence(!frontend.options.ignore_probes);
        connection.set_response_buffer_max(state.response_buffer_max);
        let timeouts = state.frontends[bind.frontend].fresh;
        let mut requests = ClientEvents { servers, state, shared };
        let socket = clients.insert(now, layer, connection, session, &mut requests);
        clients.set_timeouts(socket, timeouts);
        self.run_deferred(now, shared);
        Some(socket)
    }

    fn handle(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        socket: SocketId,
        event: SocketEvent<'_>,
    ) {
        match self.clients.owns(socket) {
            true => self.handle_client(now, shared, socket, event),
            false => self.handle_server(now, shared, socket, event),
        }
        self.run_deferred(now, shared);
    }

    fn handle_timeout(&mut self, now: Instant, shared: &mut ThreadContext) {
        let Self { clients, servers, state, .. } = self;
        clients.handle_timeout(now, &mut ClientEvents { servers, state, shared });
        servers.handle_timeout(now, &mut ServerEvents { clients, state, shared });
        self.run_deferred(now, shared);
    }

    fn handle_wake(&mut self, now: Instant, shared: &mut ThreadContext) {
        for at in self.state.queues.woken(shared) {
            let group = &shared.live.backends[at].group;
            let unreachable = |state: &mut HttpState| state.queues.of(at)?.take_unreachable(group);
            while let Some(id) = unreachable(&mut self.state) {
                if let Some((_, session)) = self.clients.get_mut(id.socket)
                    && let Some(exchange) = client_events::of(session, id.stream)
                {
                    exchange.leave_queue(shared);
                    (exchange.ticket, exchange.stage) = (None, ExchangeStage::Routing);
                    self.state.defer(DeferredAction::Timer(id.socket, None));
                    self.state.defer(DeferredAction::Continue(id));
                }
            }
            self.state.defer(DeferredAction::Serve(at, None));
        }
        let kills = shared.live.kills();
        if std::mem::replace(&mut self.state.kills, kills) != kills {
            self.kill_sessions(now, shared);
        }
        self.run_deferred(now, shared);
    }

    /// Clients without an exchange may have sent a request already: they get a short time for it.
    fn begin_soft_stop(&mut self, now: Instant, shared: &mut ThreadContext) {
        let Self { clients, servers, state } = self;
        for socket in clients.sockets() {
            let Some((connection, session)) = clients.get_mut(socket) else { continue };
            if session.exchange.is_none() {
                // The timeout is then the proxy's decision, not an error of the client.
                connection.set_responds_to_silence(false);
                let parting = state.frontends[session.bind().frontend].parting;
                clients.set_timeouts(socket, parting);
                continue;
            }
            connection.close_after();
            clients.touch(now, socket, &mut ClientEvents { servers, state, shared });
        }
        for socket in servers.sockets() {
            if servers.get(socket).is_some_and(|(_, conn)| conn.client.is_none()) {
                servers.cut(now, socket, &mut ServerEvents { clients, state, shared });
            }
        }
        self.run_deferred(now, shared);
    }

    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView> {
        let Some(first) = after(from) else { return Vec::new() };
        let sockets = self.clients.sockets_from(first);
        let view = |socket| {
            let (_, session) = self.clients.get(socket)?;
            let exchange = session.exchange.as_deref();
            Some(SessionView {
                socket,
                source: Some(session.peer),
                bind: session.bind(),
                backend: exchange.and_then(|it| it.backend).map(|id| id.0),
                server: exchange.and_then(|it| it.server),
                age: now.saturating_duration_since(session.since),
                requests: session.requests,
                received: exchange.map_or(0, |it| it.bytes_in),
                sent: exchange.map_or(0, |it| it.bytes_out),
            })
        };
        sockets.filter_map(view).take(PORTION).collect()
    }

    fn close_client(&mut self, now: Instant, shared: &mut ThreadContext, socket: SocketId) -> bool {
        let Self { clients, servers, state } = self;
        let is_there = clients.get(socket).is_some();
        if is_there {
            clients.cut(now, socket, &mut ClientEvents { servers, state, shared });
            self.run_deferred(now, shared);
        }
        is_there
    }

    fn close_all(&mut self, now: Instant, shared: &mut ThreadContext) {
        let Self { clients, servers, state, .. } = self;
        for socket in clients.sockets() {
            clients.cut(now, socket, &mut ClientEvents { servers, state, shared });
        }
        self.run_deferred(now, shared);
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.clients.poll_action().or_else(|| self.servers.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        match self.clients.owns(socket) {
            true => self.clients.poll_transmit(socket),
            false => self.servers.poll_transmit(socket),
        }
    }

    /// Only while the other connection exists.
    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        let len = if self.clients.owns(socket) {
            let (_, session) = self.clients.get(socket)?;
            session
                .exchange
                .as_ref()?
                .passes_request()
                .then(|| self.clients.splice_len(socket, SpliceTarget::Pipe))?
        } else {
            let (_, conn) = self.servers.get(socket)?;
            // The last byte is received with any bytes after it: excess bytes of the server must be
            // detected before the connection is reused.
            match conn.client.map(|_| self.servers.splice_len(socket, SpliceTarget::Pipe))? {
                u64::MAX => u64::MAX,
                len => len.saturating_sub(1),
            }
        };
        (len > 0).then_some(Passage::Pipe { len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.clients.poll_timeout(), self.servers.poll_timeout()].into_iter().flatten().min()
    }
}

/// Most heads are shorter; body bytes that are read with them are copied.
const HEAD_SIZE: usize = 8 * 1024;
