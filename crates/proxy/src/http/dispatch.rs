//! Which server an exchange goes to, and over which connection.

use std::time::{Duration, Instant};

use fulmar_engine::{Endpoint, Exchange as Asked, Peer};
use fulmar_haproxy::model::{Reuse, ServerAddress};
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

    /// An exchange whose backend is known goes to a server.
    pub(super) fn dispatch(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let Some(exchange) = of(session, asked.stream) else { return };
        let Some(BackendId(backend)) = exchange.backend else { return };
        let Some(server) = self.choose(now, backend, exchange) else {
            return self.answer(now, asked, (connection, session), 503, Ended(b'S', b'C'));
        };
        exchange.times.assigned = Some(now);
        self.carry(now, asked, (connection, session), backend, server);
    }

    /// A server with a place for the exchange; it has that place now.
    fn choose(&mut self, _now: Instant, backend: usize, exchange: &mut Exchange) -> Option<usize> {
        let live = &self.shared.live.backends[backend];
        if let Some(server) = exchange.server.filter(|_| exchange.has_place) {
            return Some(server);
        }
        let avoid = exchange.avoided();
        let server = self.shared.pickers[backend].pick(&live.group, None, &avoid)?;
        if !live.group.members()[server].enter() {
            return None;
        }
        live.servers[server].counters[self.shared.thread].add(Counter::Balanced, 1);
        exchange.server = Some(server);
        exchange.has_place = true;
        Some(server)
    }

    /// Takes the exchange to its server: over a connection that is there, or a new one.
    fn carry(
        &mut self,
        now: Instant,
        asked: Asked,
        client: Client<'_>,
        backend: usize,
        server: usize,
    ) {
        let (connection, session) = client;
        let config = &self.shared.live.backends[backend].config;
        let first = session.requests <= 1;
        let own = session.kept.as_mut().and_then(|kept| kept.own.take());
        let exit = self.desk.servers[backend][server];
        let Some(exchange) = of(session, asked.stream) else { return };
        let wanted = wanted(config, first, exchange);
        let found = own.filter(|own| {
            self.servers.get(*own).is_some_and(|(link, seat)| {
                seat.place() == (backend, server) && seat.client.is_none() && link.vacancy() > 0
            })
        });
        if let (Some(own), None) = (own, found) {
            self.desk.ask(Errand::Close(own));
        }
        let found = found.or_else(|| {
            let link = self.desk.pool.find(exit.shelf, wanted)?;
            Some(self.servers.key(link))
        });
        let counters = &self.shared.live.backends[backend].servers[server].counters;
        let counters = &counters[self.shared.thread];
        if let Some(socket) = found
            && let Some((link, seat)) = self.servers.get_mut(socket)
        {
            let at = socket.index / crate::relay::LANES;
            if self.desk.pool.unpark(exit.shelf, at, seat.is_proven()) {
                counters.subtract(Counter::IdleConnections, 1);
            }
            counters.add(Counter::Reuses, 1);
            seat.client = Some(asked);
            exchange.times.connected = Some(now);
            exchange.stage = Stage::Connecting(Up { socket, stream: asked.stream });
            if send::begin(now, asked, connection, exchange, (link, seat), config, socket).is_err()
            {
                return self.answer(now, asked, (connection, session), 500, Ended(b'I', b'H'));
            }
            return self.desk.ask(Errand::Touch(socket));
        }
        let Some(endpoint) = self.endpoint(backend, server) else {
            return self.answer(now, asked, (connection, session), 503, Ended(b'S', b'C'));
        };
        counters.add(Counter::ConnectsTried, 1);
        let mut seat = Seat::new(now, (backend, server), exit.shelf);
        seat.client = Some(asked);
        seat.private = config.reuse == Reuse::Never;
        let link = ClientConnection::default();
        let socket = self.servers.connect(now, endpoint, None, link, seat);
        self.servers.set_timeouts(socket, exit.timeouts);
        exchange.stage = Stage::Connecting(Up { socket, stream: asked.stream });
    }

    fn endpoint(&self, backend: usize, server: usize) -> Option<Endpoint> {
        let server = &self.shared.live.backends[backend].servers[server].config;
        match &server.address {
            ServerAddress::Tcp(address) => Some(Endpoint::to(*address)),
            ServerAddress::Unix(path) => Some(Peer::Unix(path.clone()).into()),
            _ => None,
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

/// Which connections may be used again for a request (HAProxy's manual, `http-reuse`).
fn wanted(config: &Backend, first: bool, exchange: &Exchange) -> Wanted {
    match (config.reuse, first) {
        _ if exchange.was_stale => Wanted::None,
        (Reuse::Never, _) | (Reuse::Safe, true) => Wanted::None,
        (Reuse::Aggressive, true) => Wanted::Proven,
        (Reuse::Always, true) => Wanted::ProvenFirst,
        (_, false) => Wanted::FreshFirst,
    }
}

/// Before the next attempt at the same server, lest it be overrun.
pub(super) const REST: Duration = Duration::from_secs(1);
