//! Selects the connection of a request to its server: an idle one (`http-reuse`), or a new one.

use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{Exchange as ExchangeId, SocketId};
use fulmar_haproxy::BackendConfig;
use fulmar_haproxy::model::{ReuseMode, ServerProxy};
use fulmar_haproxy::rules::{ResponseHead, path_and_query_of};
use fulmar_proto::Connection;
use fulmar_proto::h1::H1Client;

use crate::counters::Stat;
use crate::http::client_events::{ClientEntry, ClientEvents, of};
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, ExchangeStage, HttpExchange, ServerStream};
use crate::http::generated_response;
use crate::http::idle_pool::WantedConn;
use crate::http::send_request;
use crate::http::server_conn::{Announced, ConnectionUsers, ServerConn};
use crate::http::session::HttpSession;
use crate::http::state::DeferredAction;
use crate::upstream::{self, Destination, tls_server_name};

impl ClientEvents<'_> {
    /// Sends an exchange with a slot to its server, over an idle or a new connection.
    pub(super) fn send_to_server(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>) {
        let (connection, session) = client;
        let is_first = session.requests <= 1;
        let exchange = of(session, id.stream).expect("it was given this server");
        let (backend, server) = exchange.target();
        debug_assert!(exchange.has_place, "an exchange is sent with a slot");
        let live = &self.shared.live.backends[backend];
        let config = &live.servers[server].config;
        if let Some(prefix) = &config.redirect_prefix
            && matches!(&exchange.request.method[..], b"GET" | b"HEAD")
        {
            let prefix = prefix.clone();
            return self.send_elsewhere(now, id, (connection, session), &prefix);
        }
        live.servers[server].counters[self.shared.thread].add(Stat::SessionsTotal, 1);
        let wanted = wanted(&live.config, is_first, exchange);
        let named = config.tls.as_ref().is_some_and(|tls| tls.sni.is_some());
        let name = if named { self.server_name(now, session, (backend, server)) } else { None };
        let idle_group = match upstream::is_mapped(&config.address) {
            true => None,
            false => self.state.idle_group(backend, server, name.as_deref()),
        };
        let there = ConnectTarget { backend, server, idle_group, name };
        let own = session.rare.as_mut().and_then(|rare| rare.own.take());
        let announced = self.announced(session);
        let found = self.take_own(own, &there, announced).or_else(|| self.find(&there, wanted));
        match found {
            None => self.connect(now, id, (connection, session), there),
            Some(socket) => self.reuse(now, id, (connection, session), socket),
        }
    }

    /// An idle connection of the right group.
    fn find(&mut self, there: &ConnectTarget, wanted: WantedConn) -> Option<SocketId> {
        let idle_group = there.idle_group?;
        let member = &self.shared.live.backends[there.backend].group.members()[there.server];
        loop {
            let at = self.state.pool.find(idle_group, wanted)?;
            let socket = self.servers.key(at);
            let (connection, conn) = self.servers.get(socket)?;
            if conn.moved == member.moved() && connection.vacancy() > 0 {
                return Some(socket);
            }
            // The address of the server has changed: the connection must not be reused.
            self.state.pool.remove_idle(idle_group, at, conn.is_proven());
            super::ending::count_idle_end(self.shared, there.backend, there.server);
            self.state.defer(DeferredAction::Close(socket));
        }
    }

    /// Redirects the client to a server (`redir`).
    fn send_elsewhere(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
        prefix: &str,
    ) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == id.stream) else {
            return;
        };
        let mut place = prefix.as_bytes().to_vec();
        place.extend_from_slice(path_and_query_of(&exchange.request.target).unwrap_or(b"/"));
        let mut head = ResponseHead { status: 302, ..ResponseHead::default() };
        let _ = head.fields.push("Location", &place); // an invalid value is left out
        exchange.ended = EndLetters(b'L', b'R');
        let client = (&mut *connection, &mut *session);
        generated_response::send_reply(
            now,
            self.shared,
            client,
            &mut exchange,
            (head, Bytes::new()),
        );
        self.response_complete(now, (connection, session), exchange);
    }

    /// The client's private connection, if it leads to the right server.
    fn take_own(
        &mut self,
        own: Option<SocketId>,
        there: &ConnectTarget,
        client: Announced,
    ) -> Option<SocketId> {
        let own = own?;
        let member = &self.shared.live.backends[there.backend].group.members()[there.server];
        let fits = self.servers.get(own).is_some_and(|(connection, conn)| {
            conn.place() == (there.backend, there.server)
                && (conn.moved, conn.kills) == (member.moved(), member.kills())
                && Some(conn.idle_group) == there.idle_group
                && conn.announced.as_deref().is_none_or(|announced| *announced == client)
                && conn.client.is_none()
                && connection.vacancy() > 0
        });
        if !fits {
            self.state.defer(DeferredAction::Close(own));
        }
        fits.then_some(own)
    }

    /// Begins the exchange on an idle connection.
    fn reuse(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>, socket: SocketId) {
        let (connection, session) = client;
        let at = self.servers.position(socket);
        let (server_connection, conn) = self.servers.get_mut(socket).expect("it was just selected");
        let (backend, server) = conn.place();
        let live = &self.shared.live.backends[backend];
        let counters = &live.servers[server].counters[self.shared.thread];
        if self.state.pool.remove_idle(conn.idle_group, at, conn.is_proven()) {
            counters.subtract(Stat::IdleConnections, 1);
        }
        counters.add(Stat::Reuses, 1);
        let exchange = of(session, id.stream).expect("a connection was selected for it");
        if let Some(time) = exchange.server_timeout {
            self.state.defer(DeferredAction::Limit(socket, time));
        }
        let entry = (server_connection, conn);
        let to = (socket, &live.servers[server].config.written_address[..]);
        if send_request::begin(now, id, connection, exchange, entry, to).is_err() {
            self.state.defer(DeferredAction::Close(socket));
            return self.answer(now, id, (connection, session), 500, EndLetters(b'I', b'H'));
        }
        self.state.defer(DeferredAction::Touch(socket));
    }

    /// Opens a new connection.
    fn connect(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
        there: ConnectTarget,
    ) {
        let (connection, session) = client;
        let ConnectTarget { backend, server, idle_group, name } = there;
        let live = &self.shared.live.backends[backend];
        let member = &live.group.members()[server];
        // Read before the address, which another thread may change: then it is not reused.
        let (moved, kills) = (member.moved(), member.kills());
        let destination = Destination {
            backend: &live.config,
            server: &live.servers[server],
            address: member.address(),
        };
        live.servers[server].counters[self.shared.thread].add(Stat::ConnectsTried, 1);
        let tls = session.rare.as_ref().and_then(|rare| Some(rare.tls.as_ref()?.proxy_tlv()));
        let about =
            upstream::ForwardedClient { tls: tls.as_ref(), ..self.about(session, name.as_deref()) };
        let Ok(opening) = destination.open(about) else {
            return self.answer(now, id, (connection, session), 503, EndLetters(b'S', b'C'));
        };
        let exit = self.state.servers[backend][server];
        let mut conn =
            ServerConn::new(now, (backend, server), idle_group.unwrap_or(exit.idle_group));
        self.state.pool.join(conn.idle_group);
        conn.client = Some(id);
        (conn.moved, conn.kills) = (moved, kills);
        // A PROXY header names one client for all requests on the connection.
        if live.servers[server].config.send_proxy != ServerProxy::None {
            conn.announced = Some(Box::new(self.announced(session)));
        }
        if idle_group.is_none() || live.config.reuse == ReuseMode::Never || conn.announced.is_some()
        {
            conn.users = ConnectionUsers::One;
        }
        let (endpoint, layer) = opening.split();
        let connection = H1Client::default();
        let socket = self.servers.connect(now, endpoint, layer, connection, conn);
        self.servers.set_timeouts(socket, exit.timeouts);
        if let Some(exchange) = of(session, id.stream) {
            exchange.stage = ExchangeStage::Connecting(ServerStream { socket, stream: id.stream });
        }
    }

    /// The client's properties for the connection to a server.
    fn about<'b>(
        &self,
        session: &HttpSession,
        name: Option<&'b str>,
    ) -> upstream::ForwardedClient<'b> {
        let Announced { source, destination } = self.announced(session);
        upstream::ForwardedClient { source, destination, server_name: name, tls: None }
    }

    /// The client's address and destination, as far as a rule did not replace them for this
    /// exchange.
    fn announced(&self, session: &HttpSession) -> Announced {
        let rare = session.rare.as_ref().and_then(|rare| rare.destination);
        let exchange = session.exchange.as_ref();
        Announced {
            source: exchange.and_then(|it| it.source).or_else(|| session.source()),
            destination: exchange
                .and_then(|it| it.destination)
                .or(rare)
                .or_else(|| self.shared.address_of(session.bind())),
        }
    }

    /// The server name for TLS (`sni`), evaluated on the request.
    fn server_name(
        &self,
        now: Instant,
        session: &mut HttpSession,
        (backend, server): (usize, usize),
    ) -> Option<String> {
        let config = &self.shared.live.backends[backend].servers[server].config;
        let tls = config.tls.as_ref()?;
        let mut exchange = session.exchange.take()?;
        let view = ExchangeView { now, shared: self.shared, session, exchange: &mut exchange };
        let name = tls_server_name(tls, &view);
        session.exchange = Some(exchange);
        name
    }

    /// Responds in place of a server: with this status and its error page.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
        status: u16,
        ended: EndLetters,
    ) {
        let (connection, session) = client;
        if let Some(mut exchange) = session.exchange.take_if(|it| it.stream == id.stream) {
            exchange.ended = ended;
            let client = (&mut *connection, &mut *session);
            generated_response::status(now, self.shared, client, &mut exchange, status);
            self.response_complete(now, (connection, session), exchange);
        }
    }
}

/// The target of an exchange.
#[derive(Debug)]
struct ConnectTarget {
    backend: usize,
    server: usize,
    /// The group of idle connections to it; `None`: connections are not shared.
    idle_group: Option<u32>,
    /// The server name for TLS.
    name: Option<String>,
}

/// Which idle connections a request may use (HAProxy's manual, `http-reuse`).
fn wanted(config: &BackendConfig, is_first: bool, exchange: &HttpExchange) -> WantedConn {
    match (config.reuse, is_first) {
        _ if exchange.was_stale => WantedConn::None,
        (ReuseMode::Never, _) | (ReuseMode::Safe, true) => WantedConn::None,
        (ReuseMode::Aggressive, true) => WantedConn::Proven,
        (ReuseMode::Always, true) => WantedConn::ProvenFirst,
        (_, false) => WantedConn::FreshFirst,
    }
}
