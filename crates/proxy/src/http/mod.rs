//! Relays of mode http: clients on one side, servers on the other.
//!
//! ```text
//!  clients ──▶ Links<ServerConnection, Session> ─event▶ Requests ──begin · pump──▶ server's connection
//!          ◀──                                  ◀──send · release── Replies ◀event─ Links<ClientConnection, Seat>
//! ```
//!
//! Each set of links is at hand while the other is handled; what has to be done on the side that
//! is being handled waits on the [`Desk`] until that is over. So nothing is re-entrant.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, Endpoint, Links, SocketId, Timeouts};
use fulmar_haproxy::Mode;
use fulmar_proto::{
    ClientConnection, Connection, FileRange, Input, Layer, ServerConnection, Transmit,
};

use crate::counters::Counter;
use crate::orders::{SessionView, portion};
use crate::relay::{HTTP_CLIENTS, HTTP_SERVERS, LANES, Relay};
use crate::shared::{BindId, Shared};

mod exchange;
mod record;
mod seat;
mod session;

mod desk;
mod pool;

mod requests;

mod cookie;
mod ready;
mod route;
mod rules;

mod dispatch;
mod place;
mod pump;
mod send;

mod failure;
mod replies;
mod responses;

mod answer;
mod credentials;
mod ending;
mod log;
mod subject;
mod tally;

pub use record::{Attempt, Explanation, Failure, GivenUp, Tried};

use desk::{Desk, Errand};
use exchange::Stage;
use replies::Replies;
use requests::Requests;
use seat::Seat;
use session::Session;

/// Relays of mode http.
#[derive(Debug)]
pub(crate) struct Http {
    clients: Links<ServerConnection, Session>,
    servers: Links<ClientConnection, Seat>,
    desk: Desk,
}

impl Http {
    pub(crate) fn new(now: Instant, shared: &Shared) -> Self {
        let mut clients = Links::new(now, Timeouts::default(), HTTP_CLIENTS, LANES);
        let mut servers = Links::new(now, Timeouts::default(), HTTP_SERVERS, LANES);
        let desk = Desk::new(&shared.live, shared.thread, &mut clients, &mut servers);
        Self { clients, servers, desk }
    }

    /// Does what had to wait.
    fn settle(&mut self, now: Instant, shared: &mut Shared) {
        while let Some(errand) = self.desk.next() {
            self.run(now, shared, errand);
        }
    }

    fn run(&mut self, now: Instant, shared: &mut Shared, errand: Errand) {
        let Self { clients, servers, desk, .. } = self;
        match errand {
            Errand::Touch(socket) if clients.owns(socket) => {
                clients.touch(now, socket, &mut Requests { servers, desk, shared });
            }
            Errand::Touch(socket) => {
                servers.touch(now, socket, &mut Replies { clients, desk, shared });
            }
            Errand::GoOn(asked) => {
                let mut requests = Requests { servers, desk, shared };
                if let Some(client) = clients.get_mut(asked.socket) {
                    requests.go_on(now, asked, client);
                    clients.touch(now, asked.socket, &mut requests);
                }
            }
            Errand::Serve(backend, server) => {
                let mut requests = Requests { servers, desk, shared };
                while let Some((asked, server)) = requests.next(backend, server) {
                    match clients.get_mut(asked.socket) {
                        Some(client) => requests.admit(now, asked, client, server),
                        None => requests.shared.live.backends[backend].group.leave(server),
                    }
                    clients.touch(now, asked.socket, &mut requests);
                }
            }
            Errand::Free(socket) => self.free(now, shared, socket),
            Errand::Close(socket) => {
                servers.cut(now, socket, &mut Replies { clients, desk, shared });
            }
            Errand::Limit(socket, time) => {
                let Some((_, seat)) = servers.get(socket) else { return };
                let (backend, server) = seat.place();
                let live = &shared.live.backends[backend];
                let usual = desk::server_timeouts(&live.config, &live.servers[server].config);
                if servers.timeouts_len() < LIMITS_LEN_MAX {
                    let limit = Some(time);
                    let own = Timeouts { answer: limit, body: limit, send: limit, ..usual };
                    let own = servers.add_timeouts(own);
                    servers.set_timeouts(socket, own);
                }
            }
            Errand::Timer(socket, deadline) => clients.set_timer(socket, deadline),
            Errand::Deadlines(socket, timeouts) => clients.set_timeouts(socket, timeouts),
        }
    }

    /// The connection of a server has ended an exchange: it is kept, if it may be.
    fn free(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) {
        let at = self.servers.position(socket);
        let Some((connection, seat)) = self.servers.get_mut(socket) else { return };
        if seat.client.is_some() {
            return;
        }
        let (backend, server) = seat.place();
        let live = &shared.live.backends[backend];
        let (config, member) = (&live.servers[server].config, &live.group.members()[server]);
        let counters = &live.servers[server].counters[shared.thread];
        let used_up = config.reuse_max.is_some_and(|max| seat.uses > max);
        let full = config.idle_max.is_some_and(|max| self.desk.pool.idle(seat.shelf) >= max);
        let shed = seat.sheds != member.sheds() || seat.moved != member.moved();
        let ends = used_up || shed || shared.ending || (full && !seat.private);
        if ends {
            connection.close_after();
        } else if connection.vacancy() > 0 && !seat.private {
            self.desk.pool.park(seat.shelf, at, seat.is_proven());
            counters.add(Counter::IdleConnections, 1);
        }
        let usual = self.desk.servers[backend][server].timeouts;
        self.servers.set_timeouts(socket, usual);
        let Self { clients, servers, desk, .. } = self;
        servers.touch(now, socket, &mut Replies { clients, desk, shared });
    }

    /// Ends exchanges with servers whose sessions were to be shut down.
    fn shed(&mut self, now: Instant, shared: &mut Shared) {
        for socket in self.servers.sockets() {
            let Some((_, seat)) = self.servers.get(socket) else { continue };
            let (backend, server) = seat.place();
            if shared.live.backends[backend].group.members()[server].sheds() != seat.sheds {
                let Self { clients, servers, desk, .. } = self;
                servers.cut(now, socket, &mut Replies { clients, desk, shared });
            }
        }
    }
}

impl Relay for Http {
    fn accept(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId> {
        let frontend = &shared.live.frontends[bind.frontend];
        let thread = shared.thread;
        for counters in [&frontend.counters[thread], &frontend.listeners[bind.bind][thread]] {
            counters.add(Counter::Connections, 1);
            counters.add(Counter::SessionsTotal, 1);
            counters.add(Counter::Sessions, 1);
        }
        let session = Session::new(now, bind, peer);
        let connection = ServerConnection::default();
        let Self { clients, servers, desk, .. } = self;
        let timeouts = desk.frontends[bind.frontend].fresh;
        let mut requests = Requests { servers, desk, shared };
        let socket = clients.insert(now, layer, connection, session, &mut requests);
        clients.set_timeouts(socket, timeouts);
        Some(socket)
    }

    fn handle_connected(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) {
        let Self { clients, servers, desk, .. } = self;
        servers.handle_connected(now, socket, &mut Replies { clients, desk, shared });
        self.settle(now, shared);
    }

    fn handle_input(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        socket: SocketId,
        input: &mut Input<'_>,
    ) {
        let Self { clients, servers, desk, .. } = self;
        if clients.owns(socket) {
            let mut requests = Requests { servers, desk, shared };
            clients.handle_input(now, socket, input, &mut requests);
            if let Some(client) = clients.get_mut(socket) {
                requests.give_up(now, client);
            }
        } else {
            if let Some((_, seat)) = servers.get_mut(socket) {
                seat.heard |= !input.is_empty();
            }
            servers.handle_input(now, socket, input, &mut Replies { clients, desk, shared });
        }
        self.settle(now, shared);
    }

    fn handle_sent(&mut self, now: Instant, shared: &mut Shared, socket: SocketId, bytes: u64) {
        let Self { clients, servers, desk, .. } = self;
        if clients.owns(socket) {
            clients.handle_sent(now, socket, bytes, &mut Requests { servers, desk, shared });
        } else {
            if let Some((_, seat)) = servers.get_mut(socket) {
                seat.sent |= bytes > 0 && seat.stands;
            }
            servers.handle_sent(now, socket, bytes, &mut Replies { clients, desk, shared });
        }
        self.settle(now, shared);
    }

    fn handle_loaded(&mut self, now: Instant, shared: &mut Shared, socket: SocketId, bytes: &[u8]) {
        let Self { clients, servers, desk, .. } = self;
        if clients.owns(socket) {
            clients.handle_loaded(now, socket, bytes, &mut Requests { servers, desk, shared });
        } else {
            servers.handle_loaded(now, socket, bytes, &mut Replies { clients, desk, shared });
        }
        self.settle(now, shared);
    }

    fn handle_hangup(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) {
        let Self { clients, servers, desk, .. } = self;
        if !clients.owns(socket) {
            return servers.handle_hangup(now, socket);
        }
        // Who has ended its side may still wait for the answer (RFC 9112 §9.6), unless the
        // configuration says that nobody does.
        let leaves = clients.get(socket).is_some_and(|(_, session)| session.may_leave(shared));
        if leaves {
            let error = io::ErrorKind::ConnectionAborted.into();
            clients.handle_failed(now, socket, error, &mut Requests { servers, desk, shared });
        }
        self.settle(now, shared);
    }

    fn handle_failed(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        socket: SocketId,
        error: io::Error,
    ) {
        let Self { clients, servers, desk, .. } = self;
        if clients.owns(socket) {
            clients.handle_failed(now, socket, error, &mut Requests { servers, desk, shared });
        } else {
            servers.handle_failed(now, socket, error, &mut Replies { clients, desk, shared });
        }
        self.settle(now, shared);
    }

    fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let Self { clients, servers, desk, .. } = self;
        clients.handle_timeout(now, &mut Requests { servers, desk, shared });
        servers.handle_timeout(now, &mut Replies { clients, desk, shared });
        self.settle(now, shared);
    }

    fn handle_wake(&mut self, now: Instant, shared: &mut Shared) {
        let Desk { queues, .. } = &self.desk;
        let mut woken = Vec::new();
        for (at, queue) in queues.iter().enumerate() {
            // Taken even if nobody waits here any more: then it is passed on.
            let there = &shared.live.backends[at];
            if there.config.mode == Mode::Http && queue.take_wake(&there.group) {
                woken.push(at);
            }
        }
        for at in woken {
            let group = &shared.live.backends[at].group;
            while let Some(asked) = self.desk.queues[at].take_unreachable(group) {
                shared.live.backends[at].counters[shared.thread].subtract(Counter::Queued, 1);
                if let Some((_, session)) = self.clients.get_mut(asked.socket)
                    && let Some(exchange) = requests::of(session, asked.stream)
                {
                    (exchange.ticket, exchange.stage) = (None, Stage::Routing);
                    self.desk.ask(Errand::Timer(asked.socket, None));
                    self.desk.ask(Errand::GoOn(asked));
                }
            }
            self.desk.ask(Errand::Serve(at, None));
        }
        let sheds = shared.live.backends.iter().flat_map(|it| it.group.members());
        let sheds = sheds.map(|member| u64::from(member.sheds())).sum();
        if std::mem::replace(&mut self.desk.sheds, sheds) != sheds {
            self.shed(now, shared);
        }
        self.settle(now, shared);
    }

    /// Who has no exchange in hand may have a request on its way: it has a moment for it.
    fn begin_to_end(&mut self, now: Instant, shared: &mut Shared) {
        let Self { clients, servers, desk } = self;
        for socket in clients.sockets() {
            let Some((connection, session)) = clients.get_mut(socket) else { continue };
            if session.exchange.is_none() {
                let parting = desk.frontends[session.bind().frontend].parting;
                clients.set_timeouts(socket, parting);
                continue;
            }
            connection.close_after();
            clients.touch(now, socket, &mut Requests { servers, desk, shared });
        }
        for socket in servers.sockets() {
            if servers.get(socket).is_some_and(|(_, seat)| seat.client.is_none()) {
                servers.cut(now, socket, &mut Replies { clients, desk, shared });
            }
        }
        self.settle(now, shared);
    }

    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView> {
        let sockets = portion(self.clients.sockets(), from).into_iter();
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
        sockets.filter_map(view).collect()
    }

    fn cut(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) -> bool {
        let Self { clients, servers, desk } = self;
        let is_there = clients.get(socket).is_some();
        if is_there {
            clients.cut(now, socket, &mut Requests { servers, desk, shared });
            self.settle(now, shared);
        }
        is_there
    }

    fn cut_all(&mut self, now: Instant, shared: &mut Shared) {
        let Self { clients, servers, desk, .. } = self;
        for socket in clients.sockets() {
            clients.cut(now, socket, &mut Requests { servers, desk, shared });
        }
        self.settle(now, shared);
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

    fn is_last(&self, socket: SocketId) -> bool {
        self.clients.owns(socket) && self.clients.is_last(socket)
    }

    fn poll_endpoint(&mut self, socket: SocketId) -> Option<Endpoint> {
        self.servers.poll_endpoint(socket)
    }

    fn poll_load(&mut self, socket: SocketId) -> Option<FileRange> {
        match self.clients.owns(socket) {
            true => self.clients.poll_load(socket),
            false => self.servers.poll_load(socket),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.clients.poll_timeout(), self.servers.poll_timeout()].into_iter().flatten().min()
    }
}

/// Sets of deadlines that rules may make: theirs are few, unless they take them from requests.
const LIMITS_LEN_MAX: usize = 4096;
