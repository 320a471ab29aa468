//! Events of clients: requests are forwarded to servers.

use std::any::Any;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{
    ConnectionEvent, Connections, End, Exchange as ExchangeId, Handler, SocketId, Timeouts,
};
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, PeerError, Piped, Request, Server, StreamId,
};
use fulmar_semantics::proxy_protocol::ProxyProtocolHeader;

use crate::counters::Stat;
use crate::early_close::{self, ClientRefusal};
use crate::http::connection_rules::{self, RuleStage};
use crate::http::ending;
use crate::http::exchange::{ExchangeStage, HttpExchange};
use crate::http::exchange_counters;
use crate::http::forward_body;
use crate::http::server_conn::ServerConn;
use crate::http::session::{ClientState, HttpSession};
use crate::http::state::{self, DeferredAction, HttpState};
use crate::malformed::{self, MessageDirection, Parties};
use crate::pipe_use::{PIECE_SIZE_MIN, Toward, may_pass};
use crate::shared::ThreadContext;
use crate::tls_info::TlsInfo;

/// The handler of clients' events, with access to the servers' side.
#[derive(Debug)]
pub(super) struct ClientEvents<'a> {
    pub(super) servers: &'a mut Connections<H1Client, ServerConn>,
    pub(super) state: &'a mut HttpState,
    pub(super) shared: &'a mut ThreadContext,
}

/// A client's connection and its state.
pub(super) type ClientEntry<'a> = (&'a mut H1Server, &'a mut HttpSession);

impl ClientEvents<'_> {
    /// A request was received.
    fn head(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
        head: &Request<'_>,
        len: BodyLen,
    ) {
        let (connection, session) = client;
        let mut exchange = self.state.new_exchange();
        exchange.begin(now, id.stream, head, len);
        session.begin(now, &mut exchange.times);
        if session.requests == 0 {
            let usual = self.state.frontends[session.bind().frontend].usual;
            self.state.defer(DeferredAction::Deadlines(id.socket, usual));
        }
        session.requests = session.requests.saturating_add(1);
        let thread = self.shared.thread;
        let frontend = &self.shared.live.frontends[session.bind().frontend];
        frontend.counters[thread].add(Stat::Requests, 1);
        if self.shared.ending {
            connection.close_after();
        }
        session.exchange = Some(exchange);
        self.route(now, id, (connection, session));
    }

    /// Bytes of a request's body, or of a tunnel.
    fn data(
        &mut self,
        now: Instant,
        id: ExchangeId,
        (connection, session): ClientEntry<'_>,
        bytes: Bytes,
    ) {
        let Some(exchange) = of(session, id.stream) else {
            return connection.release(id.stream, bytes.len()); // it has its response
        };
        exchange.bytes_in += bytes.len() as u64;
        if !matches!(exchange.stage, ExchangeStage::Tunnel(_)) {
            exchange.body.keep(&bytes);
        }
        let size = bytes.len();
        exchange.body.push(bytes);
        if exchange.stage.is_before_server() && exchange.body.is_full() {
            connection.set_held(id.stream, true); // until it can be forwarded
        }
        self.body_received(now, id, (connection, session));
        let frontend = session.bind().frontend;
        if let Some(exchange) = of(session, id.stream)
            && size >= PIECE_SIZE_MIN
        {
            self.request_pipes(id, frontend, exchange);
        }
    }

    /// Requests pipes for the next bytes.
    fn request_pipes(&mut self, id: ExchangeId, frontend: usize, exchange: &HttpExchange) {
        let live = &self.shared.live;
        if exchange.passes_request()
            && let Some(up) = exchange.stage.up()
            && self.servers.takes_pipes(up.socket)
            && may_pass(live, frontend, exchange.backend, Toward::Server)
        {
            self.state.defer(DeferredAction::Pass(id.socket));
        }
    }

    /// The same in a pipe: it cannot be sent again.
    fn piped(&mut self, socket: SocketId, (connection, session): ClientEntry<'_>, piped: Piped) {
        let exchange = session.exchange.as_deref().expect("it requested the pipes");
        exchange_counters::piped(self.shared, session, exchange, Stat::PipedIn, piped.len);
        let exchange = session.exchange.as_deref_mut().expect("it was just seen");
        exchange.bytes_in += piped.len;
        exchange.body.gone = true;
        exchange.body.waiting.push_back(piped.into());
        let id = ExchangeId { socket, stream: exchange.stream };
        self.pump(id, connection, exchange);
    }

    /// More of a request was received: continues the exchange, if it waited for that.
    fn body_received(
        &mut self,
        now: Instant,
        id: ExchangeId,
        (connection, session): ClientEntry<'_>,
    ) {
        let Some(exchange) = of(session, id.stream) else { return };
        if let ExchangeStage::Collecting(at_least) = exchange.stage
            && exchange.body.has(at_least)
        {
            self.state.defer(DeferredAction::Timer(id.socket, None));
            exchange.times.began = Some(now); // the wait belongs to the request
            return self.route(now, id, (connection, session));
        }
        self.pump(id, connection, exchange);
    }

    /// The request is complete, or the client's side of a tunnel has ended.
    fn end(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
        trailers: Headers<'_>,
    ) {
        let (connection, session) = client;
        let Some(exchange) = of(session, id.stream) else { return };
        exchange.body.ended = true;
        if let ExchangeStage::Tunnel(up) = exchange.stage {
            self.half_close(exchange, up.socket);
        }
        if !trailers.is_empty() {
            exchange.body.trailers.extend(trailers).expect("a section is not that long");
        }
        self.body_received(now, id, (connection, session));
    }

    /// The client's side of a tunnel has ended, and the end is sent to the server: `timeout
    /// server-fin` limits its silence.
    fn half_close(&mut self, exchange: &HttpExchange, socket: SocketId) {
        let (backend, server) = exchange.target();
        let live = &self.shared.live.backends[backend];
        let Some(fin) = live.config.timeouts.server_fin else { return };
        let usual = state::server_timeouts(&live.config, &live.servers[server].config);
        self.servers.set_own_timeouts(socket, Timeouts { tunnel: Some(fin), ..usual });
    }

    /// Forwards the received body bytes, as far as the server has room.
    fn pump(&mut self, id: ExchangeId, connection: &mut H1Server, exchange: &mut HttpExchange) {
        let (ExchangeStage::Waiting(up)
        | ExchangeStage::Responding(up)
        | ExchangeStage::Tunnel(up)) = exchange.stage
        else {
            return;
        };
        let Some((server, _)) = self.servers.get_mut(up.socket) else { return };
        forward_body::up(connection, id.stream, exchange, server, up.stream);
        self.state.defer(DeferredAction::Touch(up.socket));
    }

    /// The client has room for more of its response.
    fn writable(&mut self, stream: StreamId, session: &mut HttpSession) {
        let Some(exchange) = of(session, stream) else { return };
        let owed = std::mem::take(&mut exchange.owed);
        if let Some(up) = exchange.stage.up()
            && let Some((server, _)) = self.servers.get_mut(up.socket)
        {
            server.release(up.stream, owed);
            self.state.defer(DeferredAction::Touch(up.socket));
        }
    }

    /// A client has broken the protocol or timed out, and its error response is queued: releases
    /// the server and writes the log line without waiting for the client to read it.
    pub(super) fn report_error(&mut self, now: Instant, session: &mut HttpSession, end: &End) {
        if session.state == ClientState::Reported || session.leaving.is_some() {
            return;
        }
        session.state = ClientState::Reported;
        match session.exchange.take() {
            Some(exchange) => self.abandon(now, session, exchange, end),
            None => self.log_early_end(now, session, end),
        }
    }

    /// Continues the exchange of a connected client.
    pub(super) fn go_on(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>) {
        let (connection, session) = client;
        let Some(exchange) = of(session, id.stream) else { return };
        match exchange.stage {
            ExchangeStage::Routing => self.assign_server(now, id, (connection, session)),
            ExchangeStage::Tarpit => self.respond_delayed(now, id, (connection, session)),
            ExchangeStage::Collecting(_) => self.body_timeout(now, id, (connection, session)),
            ExchangeStage::Queued => self.queue_timeout(now, id, (connection, session)),
            ExchangeStage::Delayed => {
                exchange.stage = ExchangeStage::Routing;
                self.assign_server(now, id, (connection, session));
            }
            ExchangeStage::Connecting(_)
            | ExchangeStage::Waiting(_)
            | ExchangeStage::Responding(_)
            | ExchangeStage::Tunnel(_) => {} // the timer was for an earlier stage
        }
    }
}

/// The exchange of a client, if its stream is this one. `None`: it is over, and the event, timer or
/// deferred action is late.
pub(super) fn of(session: &mut HttpSession, stream: StreamId) -> Option<&mut HttpExchange> {
    session.exchange.as_deref_mut().filter(|exchange| exchange.stream == stream)
}

impl Handler<H1Server, HttpSession> for ClientEvents<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        client: ClientEntry<'_>,
        event: ConnectionEvent<'_, Server>,
    ) {
        match event {
            ConnectionEvent::Established { info } => {
                self.handle_established(now, socket, client.1, info);
            }
            ConnectionEvent::Replaced { info } => Self::handle_replaced(client.1, info),
            ConnectionEvent::Event(event) => self.handle_event(now, socket, client, event),
            ConnectionEvent::Piped(piped) => self.piped(socket, client, piped),
            ConnectionEvent::Timer => self.handle_timer(now, socket, client),
            ConnectionEvent::Fault { message, error } => {
                self.handle_fault(now, client.1, message, error);
            }
            ConnectionEvent::Received
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::DeadlinePassed { .. } => {}
        }
    }

    fn handle_closed(&mut self, now: Instant, _: SocketId, mut session: HttpSession, end: End) {
        self.client_closed(now, &mut session, &end);
        match session.exchange.take() {
            Some(exchange) => self.abandon(now, &mut session, exchange, &end),
            None if session.state == ClientState::Reported => {}
            None => self.log_early_end(now, &mut session, &end),
        }
        if let Some(own) = session.rare.as_ref().and_then(|rare| rare.own) {
            self.state.defer(DeferredAction::Close(own));
        }
        ending::client_left(self.shared, &session);
    }
}

impl ClientEvents<'_> {
    fn handle_replaced(session: &mut HttpSession, info: &dyn Any) {
        let Some(header) = info.downcast_ref::<ProxyProtocolHeader>() else { return };
        session.state = ClientState::Opening;
        session.rare_mut().was_introduced = true;
        if let Some(source) = header.source() {
            session.rare_mut().connected_from = Some(session.peer);
            session.peer = source;
        }
        if let Some(destination) = header.destination() {
            session.rare_mut().destination = Some(destination);
        }
    }

    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        session: &mut HttpSession,
        info: Option<&dyn Any>,
    ) {
        if session.state == ClientState::Reported {
            return; // it was refused before
        }
        session.state = ClientState::Open;
        if let Some(tls) = info.and_then(TlsInfo::of) {
            let took = now.saturating_duration_since(session.since).as_millis();
            session.handshake = u32::try_from(took).unwrap_or(u32::MAX);
            early_close::count_handshake(self.shared, session.bind(), &tls);
            session.rare_mut().tls = Some(tls);
        }
        if let Some(refusal) =
            connection_rules::refuses(now, self.shared, self.state, session, RuleStage::Session)
        {
            session.state = ClientState::Reported;
            self.state.defer(match refusal {
                ClientRefusal::Closed => DeferredAction::Close(socket),
                ClientRefusal::Silent => DeferredAction::DropSilently(socket),
            });
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        socket: SocketId,
        client: ClientEntry<'_>,
        event: Event<'_, Server>,
    ) {
        let stream = event.stream();
        let id = ExchangeId { socket, stream };
        match event {
            Event::Head { head, len, .. } => self.head(now, id, client, &head, len),
            Event::Data { bytes, .. } => self.data(now, id, client, bytes),
            Event::End { trailers, .. } => self.end(now, id, client, trailers),
            Event::Writable { .. } => self.writable(stream, client.1),
            // The server's side reports the tunnel; no client sends the others.
            Event::Upgraded { .. } | Event::Informational { .. } | Event::Reset { .. } => {}
        }
    }

    fn handle_fault(&self, now: Instant, session: &HttpSession, message: &[u8], error: PeerError) {
        let exchange = session.exchange.as_deref();
        let parties = Parties {
            source: session.source(),
            frontend: session.bind().frontend,
            backend: exchange.and_then(|it| it.backend).map(|id| id.0),
            server: exchange.and_then(|it| it.server),
        };
        malformed::keep(now, self.shared, MessageDirection::Request, parties, (message, error));
    }

    fn handle_timer(&mut self, now: Instant, socket: SocketId, client: ClientEntry<'_>) {
        let Some(stream) = client.1.exchange.as_ref().map(|exchange| exchange.stream) else {
            return;
        };
        self.go_on(now, ExchangeId { socket, stream }, client);
    }
}
