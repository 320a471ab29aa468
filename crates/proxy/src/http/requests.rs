//! Events of clients: requests are forwarded to servers.

use std::any::Any;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{
    ConnectionEvent, Connections, End, Exchange as Asked, Handler, SocketId, Timeouts,
};
use fulmar_haproxy::BackendId;
use fulmar_proto::{
    BodyLen, ClientConnection, Connection, Event, Headers, PeerError, Piped, Request, Server,
    ServerConnection, StreamId,
};
use fulmar_semantics::proxy_protocol::ProxyProtocolHeader;

use crate::counters::Counter;
use crate::http::desk::{self, Desk, Errand};
use crate::http::door::{self, Door};
use crate::http::ending;
use crate::http::exchange::{Exchange, Stage};
use crate::http::pump;
use crate::http::seat::Seat;
use crate::http::session::{Session, Standing};
use crate::http::tally;
use crate::malformed::{self, Parties, Way};
use crate::passing::{PIECE_SIZE_MIN, Toward, may_pass};
use crate::secured::Tls;
use crate::shared::Shared;
use crate::unborn::{self, Refusal};

/// The handler of clients' events, with access to the servers' side.
#[derive(Debug)]
pub(super) struct Requests<'a> {
    pub(super) servers: &'a mut Connections<ClientConnection, Seat>,
    pub(super) desk: &'a mut Desk,
    pub(super) shared: &'a mut Shared,
}

/// A client's connection and its state.
pub(super) type Client<'a> = (&'a mut ServerConnection, &'a mut Session);

impl Requests<'_> {
    /// A request was received.
    fn head(
        &mut self,
        now: Instant,
        asked: Asked,
        client: Client<'_>,
        head: &Request<'_>,
        len: BodyLen,
    ) {
        let (connection, session) = client;
        let mut exchange = self.desk.open();
        exchange.begin(now, asked.stream, head, len);
        session.begin(now, &mut exchange.times);
        if session.requests == 0 {
            let kept = self.desk.frontends[session.bind().frontend].kept;
            self.desk.ask(Errand::Deadlines(asked.socket, kept));
        }
        session.requests = session.requests.saturating_add(1);
        let thread = self.shared.thread;
        let frontend = &self.shared.live.frontends[session.bind().frontend];
        frontend.counters[thread].add(Counter::Requests, 1);
        if self.shared.ending {
            connection.close_after();
        }
        session.exchange = Some(exchange);
        self.route(now, asked, (connection, session));
    }

    /// Bytes of a request's body, or of a tunnel.
    fn data(
        &mut self,
        now: Instant,
        asked: Asked,
        (connection, session): Client<'_>,
        bytes: Bytes,
    ) {
        let Some(exchange) = of(session, asked.stream) else {
            return connection.release(asked.stream, bytes.len()); // it has its response
        };
        exchange.bytes_in += bytes.len() as u64;
        if !matches!(exchange.stage, Stage::Tunnel(_)) {
            exchange.body.keep(&bytes);
        }
        let size = bytes.len();
        exchange.body.push(bytes);
        if exchange.stage.is_before_server() && exchange.body.is_full() {
            connection.set_held(true); // until it can be forwarded
        }
        self.grown(now, asked, (connection, session));
        let frontend = session.bind().frontend;
        if let Some(exchange) = of(session, asked.stream)
            && size >= PIECE_SIZE_MIN
        {
            self.ask_pipes(asked, frontend, exchange);
        }
    }

    /// Requests pipes for the next bytes.
    fn ask_pipes(&mut self, asked: Asked, frontend: usize, exchange: &Exchange) {
        let live = &self.shared.live;
        if exchange.passes_request()
            && let Some(up) = exchange.stage.up()
            && self.servers.takes_pipes(up.socket)
            && may_pass(live, frontend, exchange.backend, Toward::Server)
        {
            self.desk.ask(Errand::Pass(asked.socket));
        }
    }

    /// The same in a pipe: it cannot be sent again.
    fn piped(&mut self, socket: SocketId, (connection, session): Client<'_>, piped: Piped) {
        // The exchange exists: it requested the pipes.
        let Some(exchange) = session.exchange.as_deref() else { return };
        tally::piped(self.shared, session, exchange, Counter::PipedIn, piped.len);
        let Some(exchange) = session.exchange.as_deref_mut() else { return };
        exchange.bytes_in += piped.len;
        exchange.body.gone = true;
        exchange.body.waiting.push_back(piped.into());
        let asked = Asked { socket, stream: exchange.stream };
        self.pump(asked, connection, exchange);
    }

    /// More of a request was received: continues the exchange, if it waited for that.
    fn grown(&mut self, now: Instant, asked: Asked, (connection, session): Client<'_>) {
        let Some(exchange) = of(session, asked.stream) else { return };
        match exchange.stage {
            Stage::Collecting(at_least) if exchange.body.has(at_least) => {
                self.desk.ask(Errand::Timer(asked.socket, None));
                exchange.times.began = Some(now); // the wait belongs to the request
                self.route(now, asked, (connection, session));
            }
            _ => self.pump(asked, connection, exchange),
        }
    }

    /// The request is complete, or the client's side of a tunnel has ended.
    fn end(&mut self, now: Instant, asked: Asked, client: Client<'_>, trailers: Headers<'_>) {
        let (connection, session) = client;
        let Some(exchange) = of(session, asked.stream) else { return };
        exchange.body.ended = true;
        if let Stage::Tunnel(up) = exchange.stage {
            self.half_close(exchange, up.socket);
        }
        if !trailers.is_empty() {
            exchange.body.trailers.extend(trailers).expect("a section is not that long");
        }
        self.grown(now, asked, (connection, session));
    }

    /// The client's side of a tunnel has ended, and the end is sent to the server: `timeout
    /// server-fin` limits its silence.
    fn half_close(&mut self, exchange: &Exchange, socket: SocketId) {
        let Some(BackendId(backend)) = exchange.backend else { return };
        let live = &self.shared.live.backends[backend];
        let Some(fin) = live.config.timeouts.server_fin else { return };
        let Some(server) = exchange.server else { return };
        let usual = desk::server_timeouts(&live.config, &live.servers[server].config);
        self.servers.set_own_timeouts(socket, Timeouts { tunnel: Some(fin), ..usual });
    }

    /// Forwards the received body bytes, as far as the server has room.
    fn pump(&mut self, asked: Asked, connection: &mut ServerConnection, exchange: &mut Exchange) {
        let (Stage::Waiting(up) | Stage::Answering(up) | Stage::Tunnel(up)) = exchange.stage else {
            return;
        };
        let Some((server, _)) = self.servers.get_mut(up.socket) else { return };
        pump::up(connection, asked.stream, exchange, server, up.stream);
        self.desk.ask(Errand::Touch(up.socket));
    }

    /// The client has room for more of its response.
    fn writable(&mut self, stream: StreamId, session: &mut Session) {
        let Some(exchange) = of(session, stream) else { return };
        let owed = std::mem::take(&mut exchange.owed);
        if let Some(up) = exchange.stage.up()
            && let Some((server, _)) = self.servers.get_mut(up.socket)
        {
            server.release(up.stream, owed);
            self.desk.ask(Errand::Touch(up.socket));
        }
    }

    /// A client has broken the protocol or timed out, and its error response is queued: releases
    /// the server and writes the log line without waiting for the client to read it.
    pub(super) fn give_up(&mut self, now: Instant, session: &mut Session, end: &End) {
        if session.standing == Standing::Told || session.leaving.is_some() {
            return;
        }
        session.standing = Standing::Told;
        match session.exchange.take() {
            Some(exchange) => self.abandon(now, session, exchange, end),
            None => self.leave_unheard(now, session, end),
        }
    }

    /// Continues the exchange of a connected client.
    pub(super) fn go_on(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let Some(exchange) = of(session, asked.stream) else { return };
        match exchange.stage {
            Stage::Routing => self.dispatch(now, asked, (connection, session)),
            Stage::Tarpit => self.answer_late(now, asked, (connection, session)),
            Stage::Collecting(_) => self.too_slow(now, asked, (connection, session)),
            Stage::Queued => self.overdue(now, asked, (connection, session)),
            Stage::Resting => {
                exchange.stage = Stage::Routing;
                self.dispatch(now, asked, (connection, session));
            }
            _ => {}
        }
    }
}

/// The exchange of a client, if its stream is this one.
pub(super) fn of(session: &mut Session, stream: StreamId) -> Option<&mut Exchange> {
    session.exchange.as_deref_mut().filter(|exchange| exchange.stream == stream)
}

impl Handler<ServerConnection, Session> for Requests<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        client: Client<'_>,
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
            | ConnectionEvent::DeadlinePassed { .. } => {}
        }
    }

    fn handle_closed(&mut self, now: Instant, _: SocketId, mut session: Session, end: End) {
        self.part(now, &mut session, &end);
        match session.exchange.take() {
            Some(exchange) => self.abandon(now, &mut session, exchange, &end),
            None if session.standing == Standing::Told => {}
            None => self.leave_unheard(now, &mut session, &end),
        }
        if let Some(own) = session.kept.as_ref().and_then(|kept| kept.own) {
            self.desk.ask(Errand::Close(own));
        }
        ending::client_gone(self.shared, &session);
    }
}

impl Requests<'_> {
    fn handle_replaced(session: &mut Session, info: &dyn Any) {
        let Some(header) = info.downcast_ref::<ProxyProtocolHeader>() else { return };
        session.standing = Standing::Opening;
        session.keep().was_introduced = true;
        if let Some(source) = header.source() {
            session.keep().connected_from = Some(session.peer);
            session.peer = source;
        }
        if let Some(destination) = header.destination() {
            session.keep().destination = Some(destination);
        }
    }

    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        session: &mut Session,
        info: Option<&dyn Any>,
    ) {
        if session.standing == Standing::Told {
            return; // it was refused before
        }
        session.standing = Standing::Open;
        if let Some(tls) = info.and_then(Tls::of) {
            let took = now.saturating_duration_since(session.since).as_millis();
            session.handshake = u32::try_from(took).unwrap_or(u32::MAX);
            unborn::count_handshake(self.shared, session.bind(), &tls);
            session.keep().tls = Some(tls);
        }
        if let Some(refusal) = door::refuses(now, self.shared, self.desk, session, Door::Session) {
            session.standing = Standing::Told;
            self.desk.ask(match refusal {
                Refusal::Closed => Errand::Close(socket),
                Refusal::Silent => Errand::Vanish(socket),
            });
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        socket: SocketId,
        client: Client<'_>,
        event: Event<'_, Server>,
    ) {
        let stream = event.stream();
        let asked = Asked { socket, stream };
        match event {
            Event::Head { head, len, .. } => self.head(now, asked, client, &head, len),
            Event::Data { bytes, .. } => self.data(now, asked, client, bytes),
            Event::End { trailers, .. } => self.end(now, asked, client, trailers),
            Event::Writable { .. } => self.writable(stream, client.1),
            // The server's side reports the tunnel; no client sends the others.
            Event::Upgraded { .. } | Event::Informational { .. } | Event::Reset { .. } => {}
        }
    }

    fn handle_fault(&mut self, now: Instant, session: &Session, message: &[u8], error: PeerError) {
        let exchange = session.exchange.as_deref();
        let parties = Parties {
            source: session.source(),
            frontend: session.bind().frontend,
            backend: exchange.and_then(|it| it.backend).map(|id| id.0),
            server: exchange.and_then(|it| it.server),
        };
        malformed::keep(now, self.shared, Way::Request, parties, (message, error));
    }

    fn handle_timer(&mut self, now: Instant, socket: SocketId, client: Client<'_>) {
        let Some(stream) = client.1.exchange.as_ref().map(|exchange| exchange.stream) else {
            return;
        };
        self.go_on(now, Asked { socket, stream }, client);
    }
}
