//! Over which connection an exchange goes to its server.

use std::time::{Duration, Instant};

use fulmar_engine::{Exchange as Asked, SocketId};
use fulmar_haproxy::model::{Reuse, ServerProxy};
use fulmar_haproxy::{Backend, BackendId};
use fulmar_proto::{ClientConnection, Connection};

use crate::counters::Counter;
use crate::http::answer;
use crate::http::desk::Errand;
use crate::http::exchange::{Ended, Exchange, Stage, Up};
use crate::http::pool::Wanted;
use crate::http::requests::{Client, Requests, of};
use crate::http::seat::Seat;
use crate::http::send;
use crate::http::session::Session;
use crate::upstream::{self, Destination};

impl Requests<'_> {
    /// A request has come: finds the backend that deals with it, if it is not for ourselves.
    pub(super) fn route(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let frontend = &self.shared.live.frontends[session.bind().frontend].config;
        let backend = frontend.default_backend;
        let Some(exchange) = of(session, asked.stream) else { return };
        exchange.backend = backend;
        let Some(BackendId(at)) = backend else {
            return self.answer(now, asked, (connection, session), 503, Ended(b'S', b'C'));
        };
        let backend = &self.shared.live.backends[at];
        exchange.retries = backend.config.retries;
        backend.counters[self.shared.thread].add(Counter::Requests, 1);
        self.dispatch(now, asked, (connection, session));
    }

    /// Takes an exchange that has a place to its server: over a connection that is there, or a new
    /// one.
    pub(super) fn carry(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let own = session.kept.as_mut().and_then(|kept| kept.own.take());
        let is_first = session.requests <= 1;
        let Some(exchange) = of(session, asked.stream) else { return };
        let (Some(BackendId(backend)), Some(server)) = (exchange.backend, exchange.server) else {
            return;
        };
        let shelf = self.desk.servers[backend][server].shelf;
        let config = &self.shared.live.backends[backend].config;
        let wanted = wanted(config, is_first, exchange);
        let found = self.take_own(own, shelf).or_else(|| {
            let link = self.desk.pool.find(shelf, wanted)?;
            Some(self.servers.key(link))
        });
        match found {
            None => self.connect(now, asked, (connection, session), (backend, server)),
            Some(socket) => self.reuse(now, asked, (connection, session), socket),
        }
    }

    /// The connection that a client alone may use, if it leads to the right place.
    fn take_own(&mut self, own: Option<SocketId>, shelf: u32) -> Option<SocketId> {
        let own = own?;
        let fits = self.servers.get(own).is_some_and(|(link, seat)| {
            seat.shelf == shelf && seat.client.is_none() && link.vacancy() > 0
        });
        if !fits {
            self.desk.ask(Errand::Close(own));
        }
        fits.then_some(own)
    }

    /// Begins the exchange on a connection that is idle.
    fn reuse(&mut self, now: Instant, asked: Asked, client: Client<'_>, socket: SocketId) {
        let (connection, session) = client;
        let at = self.servers.position(socket);
        let Some((link, seat)) = self.servers.get_mut(socket) else { return };
        let (backend, server) = seat.place();
        let live = &self.shared.live.backends[backend];
        let counters = &live.servers[server].counters[self.shared.thread];
        if self.desk.pool.unpark(seat.shelf, at, seat.is_proven()) {
            counters.subtract(Counter::IdleConnections, 1);
        }
        counters.add(Counter::Reuses, 1);
        let Some(exchange) = of(session, asked.stream) else { return };
        let link = (link, seat);
        if send::begin(now, asked, connection, exchange, link, &live.config, socket).is_err() {
            self.desk.ask(Errand::Close(socket));
            return self.answer(now, asked, (connection, session), 500, Ended(b'I', b'H'));
        }
        self.desk.ask(Errand::Touch(socket));
    }

    /// Asks for a new connection.
    fn connect(
        &mut self,
        now: Instant,
        asked: Asked,
        client: Client<'_>,
        (backend, server): (usize, usize),
    ) {
        let (connection, session) = client;
        let live = &self.shared.live.backends[backend];
        let address = live.group.members()[server].address();
        let destination =
            Destination { backend: &live.config, server: &live.servers[server], address };
        live.servers[server].counters[self.shared.thread].add(Counter::ConnectsTried, 1);
        let Ok(opening) = destination.open(about(session)) else {
            return self.answer(now, asked, (connection, session), 503, Ended(b'S', b'C'));
        };
        let exit = self.desk.servers[backend][server];
        let mut seat = Seat::new(now, (backend, server), exit.shelf);
        seat.client = Some(asked);
        // Whoever is announced to the server by a PROXY header is the only one there.
        seat.private = live.config.reuse == Reuse::Never
            || live.servers[server].config.send_proxy != ServerProxy::None;
        let (endpoint, layer) = opening.split();
        let link = ClientConnection::default();
        let socket = self.servers.connect(now, endpoint, layer, link, seat);
        self.servers.set_timeouts(socket, exit.timeouts);
        if let Some(exchange) = of(session, asked.stream) {
            exchange.stage = Stage::Connecting(Up { socket, stream: asked.stream });
        }
    }

    /// Answers in place of a server: with a status of our own, and its page.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        asked: Asked,
        client: Client<'_>,
        status: u16,
        ended: Ended,
    ) {
        let (connection, session) = client;
        if let Some(mut exchange) = session.exchange.take_if(|it| it.stream == asked.stream) {
            exchange.ended = ended;
            answer::status(connection, &mut exchange, status);
            self.finish(now, session, exchange);
        }
    }
}

/// What a server may be told of a client.
fn about(session: &Session) -> upstream::Client<'_> {
    upstream::Client {
        source: Some(session.peer),
        destination: session.kept.as_ref().and_then(|kept| kept.destination),
        server_name: None,
        tls: None,
    }
}

/// Which connections may be used again for a request (HAProxy's manual, `http-reuse`).
fn wanted(config: &Backend, is_first: bool, exchange: &Exchange) -> Wanted {
    match (config.reuse, is_first) {
        _ if exchange.was_stale => Wanted::None,
        (Reuse::Never, _) | (Reuse::Safe, true) => Wanted::None,
        (Reuse::Aggressive, true) => Wanted::Proven,
        (Reuse::Always, true) => Wanted::ProvenFirst,
        (_, false) => Wanted::FreshFirst,
    }
}

/// Before the next attempt at the same server, lest it be overrun.
pub(super) const REST: Duration = Duration::from_secs(1);
