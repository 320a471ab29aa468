//! Relays of mode tcp: clients on one side, servers on the other.
//!
//! ```text
//! accept ─▶ Opening ─▶ Inspecting ─▶ Queued ─▶ Connecting ⇄ Pausing     Relaying ─▶ Over
//!           (layers)    (content)    (places)       └────────────────────▲
//! ```
//!
//! Payload is copied only by the kernel: a slice of the received block is queued on the other side.
//! Long streams pass through pipes if neither side has a layer.
//!
//! `forward` moves the bytes. This module and those below decide about sessions. Decisions are
//! queued as work items, and made when neither side is borrowed.

mod forward;
mod session;
mod termination_state;
mod timeout_sets;

mod accept_client;
mod content_rules;
mod server_connection;

mod response_rules;

mod context;
mod log_fields;
mod session_end;
mod timeouts;

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, Connections, Passage, SocketEvent, SocketId, Timeouts};

use crate::balance::Member;
use fulmar_haproxy::Mode;
use fulmar_proto::{Layer, SpliceTarget, Transmit};

use self::forward::{RelayState, SessionWork, SideConnections, SideHandler, SideKind};
use self::timeout_sets::TimeoutSets;
use crate::orders::{PORTION, SessionView, after};
use crate::pipe_use::{Toward, may_pass};
use crate::queues::Queues;
use crate::relay::{Relay, STRIDE, TCP_CLIENTS, TCP_SERVERS};
use crate::shared::{BindId, ThreadContext};

/// Relays of mode tcp.
#[derive(Debug)]
pub(crate) struct TcpRelay {
    clients: SideConnections,
    servers: SideConnections,
    state: RelayState,
    limits: TimeoutSets,
    /// Sessions that wait for a slot.
    queues: Queues<u32>,
    /// By frontend: its log line is complete once the server's connection is established.
    early_lines: Box<[bool]>,
    /// By backend: the handled number of requests to close each server's sessions.
    kills: Vec<Box<[u32]>>,
    /// The sum over all servers, to skip the check without a new request.
    kills_seen: u64,
}

impl TcpRelay {
    pub(crate) fn new(now: Instant, shared: &ThreadContext) -> Self {
        let timeouts = Timeouts::default();
        let mut clients = Connections::new(now, timeouts, TCP_CLIENTS, STRIDE);
        let mut servers = Connections::new(now, timeouts, TCP_SERVERS, STRIDE);
        let limits = TimeoutSets::new(&shared.live, &mut clients, &mut servers);
        let queues = Queues::new(&shared.live, shared.thread, Mode::Tcp);
        let kills = shared.live.backends.iter();
        let kills = kills.map(|it| it.group.members().iter().map(Member::kills).collect());
        let (state, kills) = (RelayState::default(), kills.collect());
        let kills_seen = shared.live.kills();
        let frontends = shared.live.frontends.iter();
        let early_lines = frontends.map(|it| log_fields::is_early(&it.config)).collect();
        Self { clients, servers, state, limits, queues, early_lines, kills, kills_seen }
    }

    /// The side of a socket, and the handler of its events.
    fn side(&mut self, socket: SocketId) -> (&mut SideConnections, SideHandler<'_>) {
        let way = if self.clients.owns(socket) { SideKind::Client } else { SideKind::Server };
        self.side_of(way)
    }

    fn side_of(&mut self, way: SideKind) -> (&mut SideConnections, SideHandler<'_>) {
        let Self { clients, servers, state, .. } = self;
        match way {
            SideKind::Client => (clients, SideHandler { from: way, to: servers, state }),
            SideKind::Server => (servers, SideHandler { from: way, to: clients, state }),
        }
    }

    /// Handles the queued work.
    fn work(&mut self, now: Instant, shared: &mut ThreadContext) {
        while let Some(work) = self.state.work.pop_front() {
            // Both connections may have closed since it was queued.
            if work.session().is_some_and(|session| self.state.sessions.get(session).is_none()) {
                continue;
            }
            match work {
                SessionWork::Opened(session) => self.handle_opened(now, shared, session),
                SessionWork::Received(session) => self.handle_client_bytes(now, shared, session),
                SessionWork::Connected(session) => self.handle_connected(now, shared, session),
                SessionWork::Inspect(session) => self.run_response_rules(now, shared, session),
                SessionWork::Ended(session, way) => self.handle_ended(now, shared, session, way),
                SessionWork::Aborted(session) => self.handle_abort(now, shared, session),
                SessionWork::Timer(session) => self.handle_session_timer(now, shared, session),
                SessionWork::Free(backend) => self.serve_queue(now, shared, backend),
                SessionWork::NoReceiver(session, way) => self.handle_no_receiver(now, session, way),
                SessionWork::Closed(session, way, end) => {
                    self.handle_connection_closed(now, shared, session, way, end)
                }
                SessionWork::Streams(session, way) => self.pass(shared, session, way),
                SessionWork::Room(session, way) => self.handle_room(now, session, way),
            }
        }
    }

    /// Lets the next bytes of this side pass through pipes, if the configuration permits.
    fn pass(&mut self, shared: &ThreadContext, session: u32, way: SideKind) {
        let it = self.state.sessions.of(session);
        let (from, toward) = match way {
            SideKind::Client => (it.client, Toward::Server),
            SideKind::Server => (it.server, Toward::Client),
        };
        if let Some(from) = from
            && may_pass(&shared.live, it.bind.frontend, it.backend, toward)
        {
            self.side_of(way).0.splice(from, SpliceTarget::Pipe);
        }
    }

    /// This side has room again: the other one resumes reading.
    fn handle_room(&mut self, now: Instant, session: u32, way: SideKind) {
        let it = self.state.sessions.of(session);
        let other = if way == SideKind::Client { it.server } else { it.client };
        if let Some(other) = other {
            let (side, mut handler) = self.side_of(way.other());
            forward::release(now, side, other, &mut handler);
        }
    }
}

impl Relay for TcpRelay {
    fn accept(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId> {
        let socket = self.admit(now, shared, bind, peer, layer);
        self.work(now, shared);
        socket
    }

    fn handle(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        socket: SocketId,
        event: SocketEvent<'_>,
    ) {
        match event {
            SocketEvent::Failed(error) => self.handle_failure(now, socket, error),
            event => {
                let hangs_up = matches!(event, SocketEvent::Hangup);
                let (side, mut handler) = self.side(socket);
                side.handle(now, socket, event, &mut handler);
                if hangs_up {
                    self.handle_client_hangup(now, shared, socket);
                }
            }
        }
        self.work(now, shared);
    }

    fn handle_timeout(&mut self, now: Instant, shared: &mut ThreadContext) {
        for way in [SideKind::Client, SideKind::Server] {
            let (side, mut handler) = self.side_of(way);
            side.handle_timeout(now, &mut handler);
            self.work(now, shared);
        }
    }

    fn handle_wake(&mut self, now: Instant, shared: &mut ThreadContext) {
        self.kill_sessions(now, shared);
        self.serve_all_queues(now, shared);
        self.work(now, shared);
    }

    /// Existing sessions continue until they end.
    fn begin_soft_stop(&mut self, _: Instant, _: &mut ThreadContext) {}

    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView> {
        let Some(first) = after(from) else { return Vec::new() };
        let sockets = self.clients.sockets_from(first);
        let view = |socket| {
            let (_, conn) = self.clients.get(socket)?;
            let session = self.state.sessions.get(conn.session)?;
            Some(SessionView {
                socket,
                source: session.source,
                bind: session.bind,
                backend: session.backend.map(|id| id.0),
                server: session.target.map(|id| id.0),
                age: now.saturating_duration_since(session.accepted),
                requests: 0,
                received: session.received,
                sent: session.sent,
            })
        };
        sockets.filter_map(view).take(PORTION).collect()
    }

    fn close_client(&mut self, now: Instant, shared: &mut ThreadContext, socket: SocketId) -> bool {
        let is_there = self.clients.get(socket).is_some();
        if is_there {
            let (side, mut handler) = self.side_of(SideKind::Client);
            side.cut(now, socket, &mut handler);
            self.work(now, shared);
        }
        is_there
    }

    fn close_all(&mut self, now: Instant, shared: &mut ThreadContext) {
        for socket in self.clients.sockets() {
            let (side, mut handler) = self.side_of(SideKind::Client);
            side.cut(now, socket, &mut handler);
            self.work(now, shared);
        }
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.clients.poll_action().or_else(|| self.servers.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.side(socket).0.poll_transmit(socket)
    }

    /// Only while the other connection exists.
    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        let (side, handler) = self.side(socket);
        let (_, conn) = side.get(socket)?;
        handler.other(conn.session)?;
        let len = side.splice_len(socket, SpliceTarget::Pipe);
        (len > 0).then_some(Passage::Pipe { len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.clients.poll_timeout(), self.servers.poll_timeout()].into_iter().flatten().min()
    }
}
