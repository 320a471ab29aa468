//! Selection of the connection to a server: an idle or a new one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::{Exchange as Asked, SocketId};
use fulmar_haproxy::model::{ReuseMode, ServerProxy};
use fulmar_haproxy::rules::{ResponseHead, Sample, path_and_query_of};
use fulmar_haproxy::{BackendConfig, BackendId};
use fulmar_proto::{ClientConnection, Connection};

use crate::counters::Counter;
use crate::http::answer;
use crate::http::desk::Errand;
use crate::http::exchange::{Ended, Exchange, Stage, Up};
use crate::http::pool::Wanted;
use crate::http::requests::{Client, Requests, of};
use crate::http::seat::{Announced, Seat, Users};
use crate::http::send;
use crate::http::session::Session;
use crate::http::subject::View;
use crate::upstream::{self, Destination};

impl Requests<'_> {
    /// Sends an exchange with a slot to its server, over an idle or a new connection.
    pub(super) fn carry(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let is_first = session.requests <= 1;
        let Some(exchange) = of(session, asked.stream) else { return };
        let (Some(BackendId(backend)), Some(server)) = (exchange.backend, exchange.server) else {
            return;
        };
        let live = &self.shared.live.backends[backend];
        let config = &live.servers[server].config;
        if let Some(prefix) = &config.redirect_prefix
            && matches!(&exchange.request.method[..], b"GET" | b"HEAD")
        {
            let prefix = prefix.clone();
            return self.send_elsewhere(now, asked, (connection, session), &prefix);
        }
        live.servers[server].counters[self.shared.thread].add(Counter::SessionsTotal, 1);
        let wanted = wanted(&live.config, is_first, exchange);
        let named = config.tls.as_ref().is_some_and(|tls| tls.sni.is_some());
        let name = if named { self.server_name(now, session, (backend, server)) } else { None };
        let shelf = match upstream::is_mapped(&config.address) {
            true => None,
            false => self.desk.shelf(backend, server, name.as_deref()),
        };
        let there = Way { backend, server, shelf, name };
        let own = session.kept.as_mut().and_then(|kept| kept.own.take());
        let announced = self.announced(session);
        let found = self.take_own(own, &there, announced).or_else(|| self.find(&there, wanted));
        match found {
            None => self.connect(now, asked, (connection, session), there),
            Some(socket) => self.reuse(now, asked, (connection, session), socket),
        }
    }

    /// An idle connection of the right group.
    fn find(&mut self, there: &Way, wanted: Wanted) -> Option<SocketId> {
        let shelf = there.shelf?;
        let member = &self.shared.live.backends[there.backend].group.members()[there.server];
        loop {
            let link = self.desk.pool.find(shelf, wanted)?;
            let socket = self.servers.key(link);
            let (connection, seat) = self.servers.get(socket)?;
            if seat.moved == member.moved() && connection.vacancy() > 0 {
                return Some(socket);
            }
            // The address of the server has changed: the connection must not be reused.
            self.desk.pool.unpark(shelf, link, seat.is_proven());
            super::ending::idle_less(self.shared, there.backend, there.server);
            self.desk.ask(Errand::Close(socket));
        }
    }

    /// Redirects the client to a server (`redir`).
    fn send_elsewhere(&mut self, now: Instant, asked: Asked, client: Client<'_>, prefix: &str) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == asked.stream) else {
            return;
        };
        let mut place = prefix.as_bytes().to_vec();
        place.extend_from_slice(path_and_query_of(&exchange.request.target).unwrap_or(b"/"));
        let mut head = ResponseHead { status: 302, ..ResponseHead::default() };
        let _ = head.fields.push("Location", &place); // an invalid value is left out
        exchange.ended = Ended(b'L', b'R');
        let client = (&mut *connection, &mut *session);
        answer::give(now, self.shared, client, &mut exchange, (head, Bytes::new()));
        self.answered(now, (connection, session), exchange);
    }

    /// The client's private connection, if it leads to the right server.
    fn take_own(
        &mut self,
        own: Option<SocketId>,
        there: &Way,
        client: Announced,
    ) -> Option<SocketId> {
        let own = own?;
        let member = &self.shared.live.backends[there.backend].group.members()[there.server];
        let fits = self.servers.get(own).is_some_and(|(link, seat)| {
            seat.place() == (there.backend, there.server)
                && (seat.moved, seat.sheds) == (member.moved(), member.sheds())
                && Some(seat.shelf) == there.shelf
                && seat.announced.as_deref().is_none_or(|announced| *announced == client)
                && seat.client.is_none()
                && link.vacancy() > 0
        });
        if !fits {
            self.desk.ask(Errand::Close(own));
        }
        fits.then_some(own)
    }

    /// Begins the exchange on an idle connection.
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
        if let Some(time) = exchange.server_timeout {
            self.desk.ask(Errand::Limit(socket, time));
        }
        let link = (link, seat);
        let to = (socket, &live.servers[server].config.written_address[..]);
        if send::begin(now, asked, connection, exchange, link, to).is_err() {
            self.desk.ask(Errand::Close(socket));
            return self.answer(now, asked, (connection, session), 500, Ended(b'I', b'H'));
        }
        self.desk.ask(Errand::Touch(socket));
    }

    /// Opens a new connection.
    fn connect(&mut self, now: Instant, asked: Asked, client: Client<'_>, there: Way) {
        let (connection, session) = client;
        let Way { backend, server, shelf, name } = there;
        let live = &self.shared.live.backends[backend];
        let member = &live.group.members()[server];
        // Read before the address, which another thread may change: then the connection is not reused.
        let (moved, sheds) = (member.moved(), member.sheds());
        let destination = Destination {
            backend: &live.config,
            server: &live.servers[server],
            address: member.address(),
        };
        live.servers[server].counters[self.shared.thread].add(Counter::ConnectsTried, 1);
        let tls = session.kept.as_ref().and_then(|kept| Some(kept.tls.as_ref()?.told()));
        let about = upstream::Client { tls: tls.as_ref(), ..self.about(session, name.as_deref()) };
        let Ok(opening) = destination.open(about) else {
            return self.answer(now, asked, (connection, session), 503, Ended(b'S', b'C'));
        };
        let exit = self.desk.servers[backend][server];
        let mut seat = Seat::new(now, (backend, server), shelf.unwrap_or(exit.shelf));
        self.desk.pool.join(seat.shelf);
        seat.client = Some(asked);
        (seat.moved, seat.sheds) = (moved, sheds);
        // A PROXY header names one client for all requests on the connection.
        if live.servers[server].config.send_proxy != ServerProxy::None {
            seat.announced = Some(Box::new(self.announced(session)));
        }
        if shelf.is_none() || live.config.reuse == ReuseMode::Never || seat.announced.is_some() {
            seat.users = Users::One;
        }
        let (endpoint, layer) = opening.split();
        let link = ClientConnection::default();
        let socket = self.servers.connect(now, endpoint, layer, link, seat);
        self.servers.set_timeouts(socket, exit.timeouts);
        if let Some(exchange) = of(session, asked.stream) {
            exchange.stage = Stage::Connecting(Up { socket, stream: asked.stream });
        }
    }

    /// The client's properties for the connection to a server.
    fn about<'b>(&self, session: &Session, name: Option<&'b str>) -> upstream::Client<'b> {
        let Announced { source, destination } = self.announced(session);
        upstream::Client { source, destination, server_name: name, tls: None }
    }

    /// The client's address and destination, as far as a rule did not replace them for this
    /// exchange.
    fn announced(&self, session: &Session) -> Announced {
        let kept = session.kept.as_ref().and_then(|kept| kept.destination);
        let exchange = session.exchange.as_ref();
        Announced {
            source: exchange.and_then(|it| it.source).or_else(|| session.source()),
            destination: exchange
                .and_then(|it| it.destination)
                .or(kept)
                .or_else(|| self.shared.address_of(session.bind())),
        }
    }

    /// The server name for TLS (`sni`), evaluated on the request.
    fn server_name(
        &self,
        now: Instant,
        session: &mut Session,
        (backend, server): (usize, usize),
    ) -> Option<String> {
        let config = &self.shared.live.backends[backend].servers[server].config;
        let expression = config.tls.as_ref()?.sni.as_ref()?;
        let mut exchange = session.exchange.take()?;
        let view = View { now, shared: self.shared, session, exchange: &mut exchange };
        let name = match expression.evaluate(&view) {
            Some(Sample::Text(text)) => String::from_utf8(text.into_owned()).ok(),
            _ => None,
        };
        session.exchange = Some(exchange);
        name
    }

    /// Responds in place of a server: with this status and its error page.
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
            let client = (&mut *connection, &mut *session);
            answer::status(now, self.shared, client, &mut exchange, status);
            self.answered(now, (connection, session), exchange);
        }
    }
}

/// The target of an exchange.
#[derive(Debug)]
struct Way {
    backend: usize,
    server: usize,
    /// The group of idle connections to it; `None`: connections are not shared.
    shelf: Option<u32>,
    /// The server name for TLS.
    name: Option<String>,
}

/// Which idle connections a request may use (HAProxy's manual, `http-reuse`).
fn wanted(config: &BackendConfig, is_first: bool, exchange: &Exchange) -> Wanted {
    match (config.reuse, is_first) {
        _ if exchange.was_stale => Wanted::None,
        (ReuseMode::Never, _) | (ReuseMode::Safe, true) => Wanted::None,
        (ReuseMode::Aggressive, true) => Wanted::Proven,
        (ReuseMode::Always, true) => Wanted::ProvenFirst,
        (_, false) => Wanted::FreshFirst,
    }
}

/// The delay before another attempt at the same server.
pub(super) const REST: Duration = Duration::from_secs(1);
