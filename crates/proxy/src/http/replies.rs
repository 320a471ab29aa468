//! Events of servers: responses are forwarded to clients.

use std::time::Instant;

use fulmar_engine::{
    ConnectionEvent, Connections, End, Exchange as Asked, Handler, SocketId, Timeouts,
};
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::HttpMode;
use fulmar_proto::{
    BodyLen, Client, ClientConnection, Connection, Event, Headers, PeerError, Piped, Response,
    Segment, ServerConnection, UsageError,
};

use crate::checks::Observation;
use crate::counters::Counter;
use crate::http::answer;
use crate::http::credentials;
use crate::http::desk::{Desk, Errand, client_timeouts};
use crate::http::ending;
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::log;
use crate::http::pump;
use crate::http::requests::of;
use crate::http::responses::{self, Fate};
use crate::http::seat::{Seat, Users};
use crate::http::send;
use crate::http::session::Session;
use crate::http::tally;
use crate::malformed::{self, Parties, Way};
use crate::passing::{PASSED_FROM, PIECE_SIZE_MIN, Toward, may_pass};
use crate::shared::Shared;

/// The handler of servers' events, with access to the clients' side.
#[derive(Debug)]
pub(super) struct Replies<'a> {
    pub(super) clients: &'a mut Connections<ServerConnection, Session>,
    pub(super) desk: &'a mut Desk,
    pub(super) shared: &'a mut Shared,
}

impl Replies<'_> {
    /// The head of a response.
    fn head(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, seat): (&mut ClientConnection, &mut Seat),
        asked: Asked,
        head: &Response<'_>,
        len: BodyLen,
    ) {
        if self.refuse(now, asked, seat, head.status) {
            seat.client = None;
            return self.desk.ask(Errand::Close(socket));
        }
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(Stage::Waiting(up)) = of(session, asked.stream).map(|it| it.stage) else { return };
        let Some(mut exchange) = session.exchange.take() else { return };
        exchange.times.answered = Some(now);
        exchange.status = head.status;
        if credentials::challenges_connection(head) {
            seat.users = Users::Proven;
        }
        let (backend, at) = seat.place();
        self.shared.live.observe(BackendId(backend), at, Observation::Responded(head.status));
        tally::answered(self.shared, &exchange, head.status);
        if self.shared.ending || exchange.mode == Some(HttpMode::Close) {
            client.close_after();
        }
        let fate = match exchange.looks_back {
            true => responses::revise(now, self.shared, session, &mut exchange, head),
            false => Fate::On,
        };
        self.desk.ask(Errand::Touch(asked.socket));
        if !matches!(fate, Fate::On) {
            self.intercept(now, asked, exchange, fate);
            seat.client = None;
            return self.desk.ask(Errand::Close(socket));
        }
        exchange.stage = Stage::Answering(up);
        let before = client.queued();
        if pass_on(client, &exchange, head, len).is_err() {
            client.reset(asked.stream, 0);
            server.reset(up.stream, 0);
        }
        exchange.bytes_out += client.queued().saturating_sub(before);
        let backend = exchange.backend;
        let frontend = session.bind().frontend;
        log::write_early(now, self.shared, self.desk, session, &mut exchange);
        session.exchange = Some(exchange);
        let is_long = server.passing() >= PASSED_FROM && matches!(len, BodyLen::Exact(_));
        let (at, server) = seat.place();
        let asks = is_long && self.ask_pipes(socket, asked, frontend, backend);
        self.desk.servers[at][server].passes = asks;
    }

    /// The server's response is not forwarded.
    fn intercept(&mut self, now: Instant, asked: Asked, mut exchange: Box<Exchange>, fate: Fate) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        exchange.is_ours = true;
        match fate {
            Fate::On => {}
            Fate::Instead(head, body, ended) => {
                exchange.ended = ended;
                let reply = (head, body);
                answer::give(now, self.shared, (client, session), &mut exchange, reply);
            }
            Fate::Nothing(ended) => {
                exchange.ended = ended;
                client.reset(asked.stream, 0);
            }
            Fate::Vanish => {
                exchange.ended = Ended(b'P', b'R');
                self.desk.ask(Errand::Vanish(asked.socket));
            }
        }
        ending::answered(now, self.shared, self.desk, (client, session), exchange);
    }

    /// Requests pipes for the next bytes; false: the configuration or a layer forbids them.
    fn ask_pipes(
        &mut self,
        socket: SocketId,
        asked: Asked,
        frontend: usize,
        backend: Option<BackendId>,
    ) -> bool {
        let may = self.clients.takes_pipes(asked.socket)
            && may_pass(&self.shared.live, frontend, backend, Toward::Client);
        if may {
            self.desk.ask(Errand::Pass(socket));
        }
        may
    }

    fn interim(&mut self, asked: Asked, head: &Response<'_>) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let before = client.queued();
        if matches!(exchange.stage, Stage::Waiting(_))
            && client.send_head(asked.stream, *head, BodyLen::Empty).is_ok()
        {
            exchange.bytes_out += client.queued() - before;
            self.desk.ask(Errand::Touch(asked.socket));
        }
    }

    /// A piece of a response, or of a tunnel.
    fn data(
        &mut self,
        socket: SocketId,
        asked: Asked,
        server: &mut ClientConnection,
        piece: Segment,
    ) {
        let is_seen = matches!(piece, Segment::Bytes(_));
        let size = pump::size_of(&piece);
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let Some(up) = exchange.stage.up() else { return };
        let before = client.queued();
        let wants_more = pump::down(client, asked.stream, piece);
        exchange.bytes_out += client.queued().saturating_sub(before);
        match wants_more {
            true => server.release(up.stream, size),
            false => exchange.owed += size,
        }
        let backend = exchange.backend;
        let frontend = session.bind().frontend;
        self.desk.ask(Errand::Touch(asked.socket));
        if is_seen && size >= PIECE_SIZE_MIN {
            self.ask_pipes(socket, asked, frontend, backend);
        }
    }

    /// The response is complete, or the server's side of a tunnel has ended.
    fn end(
        &mut self,
        now: Instant,
        socket: SocketId,
        seat: &mut Seat,
        asked: Asked,
        trailers: Headers<'_>,
    ) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let before = client.queued();
        if client.send_end(asked.stream, trailers).is_err() {
            client.cut_off(); // shorter than declared: the response to a HEAD request of the proxy
        }
        exchange.bytes_out += client.queued().saturating_sub(before);
        self.desk.ask(Errand::Touch(asked.socket));
        if matches!(exchange.stage, Stage::Tunnel(_)) {
            // `timeout client-fin` limits the client's silence.
            let frontend = &self.shared.live.frontends[session.bind().frontend].config;
            if let Some(fin) = frontend.timeouts.client_fin {
                let usual = client_timeouts(frontend);
                let own = Timeouts { tunnel: Some(fin), ..usual };
                self.clients.set_own_timeouts(asked.socket, own);
            }
            return;
        }
        seat.client = None;
        if seat.is_private()
            && let Some(before) = session.keep().own.replace(socket)
            && before != socket
        {
            self.desk.ask(Errand::Close(before));
        }
        self.desk.ask(Errand::Free(socket)); // before a waiting exchange selects a connection
        if let Some(exchange) = session.exchange.take() {
            ending::answered(now, self.shared, self.desk, (client, session), exchange);
        }
    }

    /// The exchange becomes a tunnel.
    fn upgraded(&mut self, asked: Asked, (server, seat): (&mut ClientConnection, &mut Seat)) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let Stage::Answering(up) = exchange.stage else { return };
        exchange.stage = Stage::Tunnel(up);
        let own = exchange.tunnel_timeout;
        exchange.body.ended = false;
        exchange.handed_over = false;
        pump::up(client, asked.stream, exchange, server, up.stream);
        self.desk.ask(Errand::Touch(asked.socket));
        let of_backend = self.shared.live.backends[seat.place().0].config.timeouts.tunnel;
        if let Some(time) = own.or(of_backend) {
            self.desk.ask(Errand::Tunnel(asked.socket, time));
        }
        if let Some(time) = own {
            self.desk.ask(Errand::Tunnel(up.socket, time)); // otherwise the configured one applies
        }
    }

    /// The server has room for more of the request.
    fn writable(&mut self, asked: Asked, server: &mut ClientConnection) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let Some(up) = exchange.stage.up() else { return };
        client.release(asked.stream, std::mem::take(&mut exchange.body.owed));
        pump::up(client, asked.stream, exchange, server, up.stream);
        self.desk.ask(Errand::Touch(asked.socket));
    }
}

/// Sends the head of a response to the client, as received or as changed by rules.
fn pass_on(
    client: &mut ServerConnection,
    exchange: &Exchange,
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

impl Handler<ClientConnection, Seat> for Replies<'_> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut ClientConnection, &mut Seat),
        event: ConnectionEvent<'_, Client>,
    ) {
        match event {
            ConnectionEvent::Established { .. } => self.handle_established(now, socket, entry),
            ConnectionEvent::Received => entry.1.heard = true,
            ConnectionEvent::Event(event) => self.handle_event(now, socket, entry, event),
            ConnectionEvent::Piped(piped) => self.handle_piped(socket, entry, piped),
            ConnectionEvent::Fault { message, error } => {
                self.handle_fault(now, entry.1, message, error);
            }
            ConnectionEvent::Replaced { .. }
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Timer
            | ConnectionEvent::DeadlinePassed { .. } => {}
        }
    }

    fn handle_closed(&mut self, now: Instant, socket: SocketId, seat: Seat, end: End) {
        let at = socket.index / crate::relay::STRIDE;
        if self.desk.pool.unpark(seat.shelf, at, seat.is_proven()) {
            let (backend, server) = seat.place();
            ending::idle_less(self.shared, backend, server);
        }
        self.desk.pool.leave(seat.shelf);
        if let Some(asked) = seat.client {
            self.lose(now, asked, &seat, end);
        }
    }
}

impl Replies<'_> {
    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, seat): (&mut ClientConnection, &mut Seat),
    ) {
        seat.stands = true;
        let (backend, at) = seat.place();
        let live = &self.shared.live;
        live.observe(BackendId(backend), at, Observation::Connected);
        live.backends[backend].servers[at].counters[self.shared.thread]
            .add(Counter::Connections, 1);
        let Some(asked) = seat.client else { return };
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        if let Some(time) = exchange.server_timeout {
            self.desk.ask(Errand::Limit(socket, time));
        }
        let to = (socket, &live.backends[backend].servers[at].config.written_address[..]);
        let begun = send::begin(now, asked, client, exchange, (server, seat), to);
        if begun.is_err() {
            if let Some(mut exchange) = session.exchange.take() {
                answer::status(now, self.shared, (client, session), &mut exchange, 500);
                exchange.ended = Ended(b'I', b'H');
                ending::answered(now, self.shared, self.desk, (client, session), exchange);
            }
            seat.client = None;
            self.desk.ask(Errand::Close(socket));
        }
        self.desk.ask(Errand::Touch(asked.socket));
    }

    fn handle_event(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, seat): (&mut ClientConnection, &mut Seat),
        event: Event<'_, Client>,
    ) {
        let Some(asked) = seat.client else { return };
        match event {
            Event::Head { head, len, .. } => {
                self.head(now, socket, (server, seat), asked, &head, len);
            }
            Event::Informational { head, .. } => self.interim(asked, &head),
            Event::Data { bytes, .. } => {
                self.data(socket, asked, server, bytes.into());
            }
            Event::End { trailers, .. } => self.end(now, socket, seat, asked, trailers),
            Event::Writable { .. } => self.writable(asked, server),
            Event::Upgraded { .. } => self.upgraded(asked, (server, seat)),
            Event::Reset { .. } => {} // not in HTTP/1
        }
    }

    fn handle_fault(&mut self, now: Instant, seat: &Seat, message: &[u8], error: PeerError) {
        let Some(asked) = seat.client else { return };
        let Some((_, session)) = self.clients.get(asked.socket) else { return };
        let (backend, server) = seat.place();
        let parties = Parties {
            source: session.source(),
            frontend: session.bind().frontend,
            backend: Some(backend),
            server: Some(server),
        };
        malformed::keep(now, self.shared, Way::Response, parties, (message, error));
    }

    fn handle_piped(
        &mut self,
        socket: SocketId,
        (server, seat): (&mut ClientConnection, &mut Seat),
        piped: Piped,
    ) {
        let Some(asked) = seat.client else { return };
        if let Some((_, session)) = self.clients.get_mut(asked.socket)
            && let Some(exchange) = session.exchange.as_deref()
        {
            tally::piped(self.shared, session, exchange, Counter::PipedOut, piped.len);
        }
        self.data(socket, asked, server, piped.into());
    }
}
