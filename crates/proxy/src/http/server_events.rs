//! Events of servers: responses are forwarded to clients.

use std::time::Instant;

use fulmar_engine::{
    ConnectionEvent, Connections, End, Exchange as ExchangeId, Handler, SocketId, Timeouts,
};
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::HttpMode;
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, Headers, PeerError, Piped, Reset, Response, Segment,
    SpliceTarget, UsageError,
};

use crate::checks::Observation;
use crate::counters::Stat;
use crate::http::client_events::of;
use crate::http::credentials;
use crate::http::ending;
use crate::http::exchange::{EndLetters, ExchangeStage, HttpExchange};
use crate::http::exchange_counters;
use crate::http::forward_body;
use crate::http::generated_response;
use crate::http::log;
use crate::http::response_rules::{self, ResponseDecision};
use crate::http::send_request;
use crate::http::server_conn::{ConnectionUsers, ServerConn};
use crate::http::session::HttpSession;
use crate::http::state::{DeferredAction, HttpState, client_timeouts};
use crate::malformed::{self, MessageDirection, Parties};
use crate::pipe_use::{PASSED_FROM, PIECE_SIZE_MIN, Toward, may_pass};
use crate::shared::ThreadContext;

/// The handler of servers' events, with access to the clients' side. The client may have closed, or
/// its exchange may be over, while bytes of the server were on their way: such events are ignored.
#[derive(Debug)]
pub(super) struct ServerEvents<'a> {
    pub(super) clients: &'a mut Connections<H1Server, HttpSession>,
    pub(super) state: &'a mut HttpState,
    pub(super) shared: &'a mut ThreadContext,
}

impl ServerEvents<'_> {
    /// The head of a response.
    fn head(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, conn): (&mut H1Client, &mut ServerConn),
        id: ExchangeId,
        head: &Response<'_>,
        len: BodyLen,
    ) {
        if self.refuse(now, id, conn, head.status) {
            conn.client = None;
            return self.state.defer(DeferredAction::Close(socket));
        }
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(ExchangeStage::Waiting(up)) = of(session, id.stream).map(|it| it.stage) else {
            return;
        };
        let Some(mut exchange) = session.exchange.take() else { return };
        exchange.times.answered = Some(now);
        exchange.status = head.status;
        if credentials::requests_connection_auth(head) {
            conn.users = ConnectionUsers::Authenticated;
        }
        let (backend, at) = conn.place();
        self.shared.live.observe(BackendId(backend), at, Observation::Responded(head.status));
        exchange_counters::count_server_response(self.shared, &exchange, head.status);
        if self.shared.ending || exchange.mode == Some(HttpMode::Close) {
            client.close_after();
        }
        let fate = match exchange.has_response_rules {
            true => response_rules::revise(now, self.shared, session, &mut exchange, head),
            false => ResponseDecision::Forward,
        };
        self.state.defer(DeferredAction::Touch(id.socket));
        if !matches!(fate, ResponseDecision::Forward) {
            self.intercept(now, id, exchange, fate);
            conn.client = None;
            return self.state.defer(DeferredAction::Close(socket));
        }
        exchange.stage = ExchangeStage::Responding(up);
        let before = client.unsent(id.stream);
        if pass_on(client, &exchange, head, len).is_err() {
            client.reset(id.stream, Reset::Internal);
            server.reset(up.stream, Reset::Cancelled);
        }
        exchange.bytes_out += client.unsent(id.stream).saturating_sub(before);
        let backend = exchange.backend;
        let frontend = session.bind().frontend;
        log::write_early(now, self.shared, self.state, session, &mut exchange);
        session.exchange = Some(exchange);
        let is_long = server.splice_len(SpliceTarget::Pipe) >= PASSED_FROM
            && matches!(len, BodyLen::Exact(_));
        let (at, server) = conn.place();
        let asks = is_long && self.request_pipes(socket, id, frontend, backend);
        self.state.servers[at][server].passes = asks;
    }

    /// The server's response is not forwarded.
    fn intercept(
        &mut self,
        now: Instant,
        id: ExchangeId,
        mut exchange: Box<HttpExchange>,
        fate: ResponseDecision,
    ) {
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        exchange.is_generated = true;
        match fate {
            ResponseDecision::Forward => {}
            ResponseDecision::Instead(head, body, ended) => {
                exchange.ended = ended;
                let reply = (head, body);
                generated_response::send_reply(
                    now,
                    self.shared,
                    (client, session),
                    &mut exchange,
                    reply,
                );
            }
            ResponseDecision::Close(ended) => {
                exchange.ended = ended;
                client.reset(id.stream, Reset::Cancelled);
            }
            ResponseDecision::DropSilently => {
                exchange.ended = EndLetters(b'P', b'R');
                self.state.defer(DeferredAction::DropSilently(id.socket));
            }
        }
        ending::response_complete(now, self.shared, self.state, (client, session), exchange);
    }

    /// Requests pipes for the next bytes; false: the configuration or a layer forbids them.
    fn request_pipes(
        &mut self,
        socket: SocketId,
        id: ExchangeId,
        frontend: usize,
        backend: Option<BackendId>,
    ) -> bool {
        let may = self.clients.takes_pipes(id.socket)
            && may_pass(&self.shared.live, frontend, backend, Toward::Client);
        if may {
            self.state.defer(DeferredAction::Pass(socket));
        }
        may
    }

    fn interim(&mut self, id: ExchangeId, head: &Response<'_>) {
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        let before = client.unsent(id.stream);
        if matches!(exchange.stage, ExchangeStage::Waiting(_))
            && client.send_head(id.stream, *head, BodyLen::Empty).is_ok()
        {
            exchange.bytes_out += client.unsent(id.stream) - before;
            self.state.defer(DeferredAction::Touch(id.socket));
        }
    }

    /// A piece of a response, or of a tunnel.
    fn data(&mut self, socket: SocketId, id: ExchangeId, server: &mut H1Client, piece: Segment) {
        let is_seen = matches!(piece, Segment::Bytes(_));
        let size = forward_body::size_of(&piece);
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        let Some(up) = exchange.stage.up() else { return };
        let before = client.unsent(id.stream);
        let wants_more = forward_body::down(client, id.stream, piece);
        exchange.bytes_out += client.unsent(id.stream).saturating_sub(before);
        match wants_more {
            true => server.release(up.stream, size),
            false => exchange.owed += size,
        }
        let backend = exchange.backend;
        let frontend = session.bind().frontend;
        self.state.defer(DeferredAction::Touch(id.socket));
        if is_seen && size >= PIECE_SIZE_MIN {
            self.request_pipes(socket, id, frontend, backend);
        }
    }

    /// The response is complete, or the server's side of a tunnel has ended.
    fn end(
        &mut self,
        now: Instant,
        socket: SocketId,
        conn: &mut ServerConn,
        id: ExchangeId,
        trailers: Headers<'_>,
    ) {
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        let before = client.unsent(id.stream);
        if client.send_end(id.stream, trailers).is_err() {
            // Shorter than declared: the response to a HEAD request of the proxy.
            client.cut_off(id.stream);
        }
        exchange.bytes_out += client.unsent(id.stream).saturating_sub(before);
        self.state.defer(DeferredAction::Touch(id.socket));
        if matches!(exchange.stage, ExchangeStage::Tunnel(_)) {
            // `timeout client-fin` limits the client's silence.
            let frontend = &self.shared.live.frontends[session.bind().frontend].config;
            if let Some(fin) = frontend.timeouts.client_fin {
                let usual = client_timeouts(frontend);
                let own = Timeouts { tunnel: Some(fin), ..usual };
                self.clients.set_own_timeouts(id.socket, own);
            }
            return;
        }
        conn.client = None;
        if conn.is_private()
            && let Some(before) = session.rare_mut().own.replace(socket)
            && before != socket
        {
            self.state.defer(DeferredAction::Close(before));
        }
        // Before a waiting exchange selects a connection.
        self.state.defer(DeferredAction::Free(socket));
        if let Some(exchange) = session.exchange.take() {
            ending::response_complete(now, self.shared, self.state, (client, session), exchange);
        }
    }

    /// The exchange becomes a tunnel.
    fn upgraded(&mut self, id: ExchangeId, (server, conn): (&mut H1Client, &mut ServerConn)) {
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        let ExchangeStage::Responding(up) = exchange.stage else { return };
        exchange.stage = ExchangeStage::Tunnel(up);
        let own = exchange.tunnel_timeout;
        exchange.body.ended = false;
        exchange.handed_over = false;
        forward_body::up(client, id.stream, exchange, server, up.stream);
        self.state.defer(DeferredAction::Touch(id.socket));
        let of_backend = self.shared.live.backends[conn.place().0].config.timeouts.tunnel;
        if let Some(time) = own.or(of_backend) {
            self.state.defer(DeferredAction::Tunnel(id.socket, time));
        }
        if let Some(time) = own {
            // Otherwise the configured timeout applies.
            self.state.defer(DeferredAction::Tunnel(up.socket, time));
        }
    }

    /// The server has room for more of the request.
    fn writable(&mut self, id: ExchangeId, server: &mut H1Client) {
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        let Some(up) = exchange.stage.up() else { return };
        client.release(id.stream, std::mem::take(&mut exchange.body.owed));
        forward_body::up(client, id.stream, exchange, server, up.stream);
        self.state.defer(DeferredAction::Touch(id.socket));
    }
}

/// Sends the head of a response to the client, as received or as changed by rules.
fn pass_on(
    client: &mut H1Server,
    exchange: &HttpExchange,
    head: &Response<'_>,
    len: BodyLen,
) -> Result<(), UsageError> {
    let upgrade = head.headers.get("upgrade").filter(|_| head.status == 101);
    let added = upgrade.map(|protocol| [("Upgrade", protocol)]);
    let added = added.as_ref().map_or(&[][..], |added| &added[..]);
    let head = match exchange.has_response {
        true => {
            let fields = exchange.response.fields.as_headers();
            Response::new(exchange.response.status, fields)
        }
        false => Response { added, ..*head },
    };
    client.send_head(exchange.stream, head, len)
}

impl Handler<H1Client, ServerConn> for ServerEvents<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut H1Client, &mut ServerConn),
        event: ConnectionEvent<'_, Client>,
    ) {
        match event {
            ConnectionEvent::Established { .. } => self.handle_established(now, socket, entry),
            ConnectionEvent::Received => entry.1.response_begun = true,
            ConnectionEvent::Event(event) => self.handle_event(now, socket, entry, event),
            ConnectionEvent::Piped(piped) => self.handle_piped(socket, entry, piped),
            ConnectionEvent::Fault { message, error } => {
                self.handle_fault(now, entry.1, message, error);
            }
            ConnectionEvent::Replaced { .. }
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::Timer
            | ConnectionEvent::DeadlinePassed { .. } => {}
        }
    }

    fn handle_closed(&mut self, now: Instant, socket: SocketId, conn: ServerConn, end: End) {
        let at = socket.index / crate::relay::STRIDE;
        if self.state.pool.remove_idle(conn.idle_group, at, conn.is_proven()) {
            let (backend, server) = conn.place();
            ending::count_idle_end(self.shared, backend, server);
        }
        self.state.pool.leave(conn.idle_group);
        if let Some(id) = conn.client {
            self.connection_lost(now, id, &conn, end);
        }
    }
}

impl ServerEvents<'_> {
    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, conn): (&mut H1Client, &mut ServerConn),
    ) {
        conn.established = true;
        let (backend, at) = conn.place();
        let live = &self.shared.live;
        live.observe(BackendId(backend), at, Observation::Connected);
        live.backends[backend].servers[at].counters[self.shared.thread].add(Stat::Connections, 1);
        let Some(id) = conn.client else { return };
        let Some((client, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        if let Some(time) = exchange.server_timeout {
            self.state.defer(DeferredAction::Limit(socket, time));
        }
        let to = (socket, &live.backends[backend].servers[at].config.written_address[..]);
        let begun = send_request::begin(now, id, client, exchange, (server, conn), to);
        if begun.is_err() {
            if let Some(mut exchange) = session.exchange.take() {
                generated_response::status(now, self.shared, (client, session), &mut exchange, 500);
                exchange.ended = EndLetters(b'I', b'H');
                ending::response_complete(
                    now,
                    self.shared,
                    self.state,
                    (client, session),
                    exchange,
                );
            }
            conn.client = None;
            self.state.defer(DeferredAction::Close(socket));
        }
        self.state.defer(DeferredAction::Touch(id.socket));
    }

    fn handle_event(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, conn): (&mut H1Client, &mut ServerConn),
        event: Event<'_, Client>,
    ) {
        let Some(id) = conn.client else { return };
        match event {
            Event::Head { head, len, .. } => {
                self.head(now, socket, (server, conn), id, &head, len);
            }
            Event::Informational { head, .. } => self.interim(id, &head),
            Event::Data { bytes, .. } => {
                self.data(socket, id, server, bytes.into());
            }
            Event::End { trailers, .. } => self.end(now, socket, conn, id, trailers),
            Event::Writable { .. } => self.writable(id, server),
            Event::Upgraded { .. } => self.upgraded(id, (server, conn)),
            Event::Reset { .. } => {} // not in HTTP/1
        }
    }

    fn handle_fault(&self, now: Instant, conn: &ServerConn, message: &[u8], error: PeerError) {
        let Some(id) = conn.client else { return };
        let Some((_, session)) = self.clients.get(id.socket) else { return };
        let (backend, server) = conn.place();
        let parties = Parties {
            source: session.source(),
            frontend: session.bind().frontend,
            backend: Some(backend),
            server: Some(server),
        };
        malformed::keep(now, self.shared, MessageDirection::Response, parties, (message, error));
    }

    fn handle_piped(
        &mut self,
        socket: SocketId,
        (server, conn): (&mut H1Client, &mut ServerConn),
        piped: Piped,
    ) {
        let Some(id) = conn.client else { return };
        if let Some((_, session)) = self.clients.get_mut(id.socket)
            && let Some(exchange) = session.exchange.as_deref()
        {
            exchange_counters::piped(self.shared, session, exchange, Stat::PipedOut, piped.len);
        }
        self.data(socket, id, server, piped.into());
    }
}
