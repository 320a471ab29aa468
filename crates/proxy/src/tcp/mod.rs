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
//! `across` moves the bytes. This module and those below decide about sessions. Decisions are
//! queued as work items, and made when neither side is borrowed.

mod across;
mod ending;
mod limits;
mod session;

mod admit;
mod inspect;
mod reach;

mod answer;

mod finish;
mod late;
mod record;
mod subject;

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, Connections, Passage, SocketEvent, SocketId, Timeouts};

use crate::balance::Member;
use fulmar_haproxy::Mode;
use fulmar_proto::{Layer, Transmit};

use self::across::{Across, Desk, Side, Way, Work};
use self::limits::Limits;
use crate::orders::{PORTION, SessionView, after};
use crate::passing::{Toward, may_pass};
use crate::queues::Queues;
use crate::relay::{Relay, STRIDE, TCP_CLIENTS, TCP_SERVERS};
use crate::shared::{BindId, Shared};

/// Relays of mode tcp.
#[derive(Debug)]
pub(crate) struct Tcp {
    clients: Side,
    servers: Side,
    desk: Desk,
    limits: Limits,
    /// Sessions that wait for a slot.
    queues: Queues<u32>,
    /// By frontend: its log line is complete once the server's connection is established.
    early_lines: Box<[bool]>,
    /// By backend: the handled number of requests to close each server's sessions.
    sheds: Vec<Box<[u32]>>,
    /// The sum over all servers, to skip the check without a new request.
    sheds_seen: u64,
}

impl Tcp {
    pub(crate) fn new(now: Instant, shared: &Shared) -> Self {
        let timeouts = Timeouts::default();
        let mut clients = Connections::new(now, timeouts, TCP_CLIENTS, STRIDE);
        let mut servers = Connections::new(now, timeouts, TCP_SERVERS, STRIDE);
        let limits = Limits::new(&shared.live, &mut clients, &mut servers);
        let queues = Queues::new(&shared.live, shared.thread, Mode::Tcp);
        let sheds = shared.live.backends.iter();
        let sheds = sheds.map(|it| it.group.members().iter().map(Member::sheds).collect());
        let (desk, sheds) = (Desk::default(), sheds.collect());
        let sheds_seen = shared.live.sheds();
        let frontends = shared.live.frontends.iter();
        let early_lines = frontends.map(|it| record::is_early(&it.config)).collect();
        Self { clients, servers, desk, limits, queues, early_lines, sheds, sheds_seen }
    }

    /// The side of a socket, and the handler of its events.
    fn side(&mut self, socket: SocketId) -> (&mut Side, Across<'_>) {
        let way = if self.clients.owns(socket) { Way::Client } else { Way::Server };
        self.side_of(way)
    }

    fn side_of(&mut self, way: Way) -> (&mut Side, Across<'_>) {
        let Self { clients, servers, desk, .. } = self;
        match way {
            Way::Client => (clients, Across { from: way, to: servers, desk }),
            Way::Server => (servers, Across { from: way, to: clients, desk }),
        }
    }

    /// Handles the queued work.
    fn work(&mut self, now: Instant, shared: &mut Shared) {
        while let Some(work) = self.desk.work.pop_front() {
            match work {
                Work::Opened(session) => self.handle_opened(now, shared, session),
                Work::Heard(session) => self.handle_heard(now, shared, session),
                Work::Reached(session) => self.handle_reached(now, shared, session),
                Work::Answered(session) => self.judge(now, shared, session),
                Work::Ended(session, way) => self.handle_ended(now, shared, session, way),
                Work::Left(session) => self.handle_left(now, shared, session),
                Work::Timer(session) => self.handle_session_timer(now, shared, session),
                Work::Free(backend) => self.serve_queue(now, shared, backend),
                Work::Unheard(session, way) => self.handle_unheard(now, session, way),
                Work::Gone(session, way, end) => self.handle_gone(now, shared, session, way, end),
                Work::Streams(session, way) => self.pass(shared, session, way),
                Work::Room(session, way) => self.handle_room(now, session, way),
            }
        }
    }

    /// Lets the next bytes of this side pass through pipes, if the configuration permits.
    fn pass(&mut self, shared: &Shared, session: u32, way: Way) {
        let Some(it) = self.desk.sessions.get(session) else { return };
        let (from, toward) = match way {
            Way::Client => (it.client, Toward::Server),
            Way::Server => (it.server, Toward::Client),
        };
        if let Some(from) = from
            && may_pass(&shared.live, it.bind.frontend, it.backend, toward)
        {
            self.side_of(way).0.pass(from);
        }
    }

    /// This side has room again: the other one resumes reading.
    fn handle_room(&mut self, now: Instant, session: u32, way: Way) {
        let Some(it) = self.desk.sessions.get(session) else { return };
        let other = if way == Way::Client { it.server } else { it.client };
        if let Some(other) = other {
            let (side, mut across) = self.side_of(way.other());
            across::release(now, side, other, &mut across);
        }
    }
}

impl Relay for Tcp {
    fn accept(
        &mut self,
        now: Instant,
        shared: &mut Shared,
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
        shared: &mut Shared,
        socket: SocketId,
        event: SocketEvent<'_>,
    ) {
        match event {
            SocketEvent::Failed(error) => self.lose(now, socket, error),
            event => {
                let hangs_up = matches!(event, SocketEvent::Hangup);
                let (side, mut across) = self.side(socket);
                side.handle(now, socket, event, &mut across);
                if hangs_up {
                    self.handle_client_hangup(now, shared, socket);
                }
            }
        }
        self.work(now, shared);
    }

    fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        for way in [Way::Client, Way::Server] {
            let (side, mut across) = self.side_of(way);
            side.handle_timeout(now, &mut across);
            self.work(now, shared);
        }
    }

    fn handle_wake(&mut self, now: Instant, shared: &mut Shared) {
        self.shed(now, shared);
        self.serve_all_queues(now, shared);
        self.work(now, shared);
    }

    /// Existing sessions continue until they end.
    fn begin_to_end(&mut self, _: Instant, _: &mut Shared) {}

    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView> {
        let Some(first) = after(from) else { return Vec::new() };
        let sockets = self.clients.sockets_from(first);
        let view = |socket| {
            let (_, seat) = self.clients.get(socket)?;
            let session = self.desk.sessions.get(seat.session)?;
            Some(SessionView {
                socket,
                source: session.source,
                bind: session.bind,
                backend: session.backend.map(|id| id.0),
                server: session.target.map(|id| id.0),
                age: now.saturating_duration_since(session.accepted),
                requests: 0,
                received: session.received,
                sent: session.answered,
            })
        };
        sockets.filter_map(view).take(PORTION).collect()
    }

    fn cut(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) -> bool {
        let is_there = self.clients.get(socket).is_some();
        if is_there {
            let (side, mut across) = self.side_of(Way::Client);
            side.cut(now, socket, &mut across);
            self.work(now, shared);
        }
        is_there
    }

    fn cut_all(&mut self, now: Instant, shared: &mut Shared) {
        for socket in self.clients.sockets() {
            let (side, mut across) = self.side_of(Way::Client);
            side.cut(now, socket, &mut across);
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
        let (side, across) = self.side(socket);
        let (_, seat) = side.get(socket)?;
        across.other(seat.session)?;
        let len = side.passing(socket);
        (len > 0).then_some(Passage::Pipe { len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.clients.poll_timeout(), self.servers.poll_timeout()].into_iter().flatten().min()
    }
}
