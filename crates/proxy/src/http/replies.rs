//! What servers say: responses come down.

use std::any::Any;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{End, Exchange as Asked, Handler, Links, SocketId};
use fulmar_proto::{
    BodyLen, Client, ClientConnection, Connection, Event, Headers, Response, ServerConnection,
};

use crate::http::desk::{Desk, Errand};
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::pump;
use crate::http::requests::of;
use crate::http::seat::Seat;
use crate::http::send;
use crate::http::session::Session;
use crate::shared::Shared;

/// Hears what servers say; the clients' side is at hand.
#[derive(Debug)]
pub(super) struct Replies<'a> {
    pub(super) clients: &'a mut Links<ServerConnection, Session>,
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
        let ending = self.shared.ending;
        let Some(exchange) = of(session, asked.stream) else { return };
        let Stage::Waiting(up) = exchange.stage else { return };
        exchange.times.answered = Some(now);
        exchange.status = head.status;
        let upgrade = head.headers.get("upgrade").filter(|_| head.status == 101);
        let added: &[(&str, &[u8])] = match &upgrade {
            Some(protocol) => &[("Upgrade", *protocol)],
            None => &[],
        };
        if ending {
            client.close_after();
        }
        let sent = client.send_head(asked.stream, Response { added, ..*head }, len);
        exchange.stage = Stage::Answering(up);
        if sent.is_err() {
            client.reset(asked.stream, 0);
            server.reset(up.stream, 0);
        }
        self.desk.ask(Errand::Touch(asked.socket));
    }

    fn interim(&mut self, asked: Asked, head: &Response<'_>) {
        if let Some((client, session)) = self.clients.get_mut(asked.socket)
            && of(session, asked.stream).is_some_and(|it| matches!(it.stage, Stage::Waiting(_)))
            && client.send_head(asked.stream, *head, BodyLen::Empty).is_ok()
        {
            self.desk.ask(Errand::Touch(asked.socket));
        }
    }

    fn data(&mut self, asked: Asked, server: &mut ClientConnection, bytes: Bytes) {
        let size = bytes.len();
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let Some(up) = exchange.stage.up() else { return };
        exchange.bytes_out += size as u64;
        match pump::down(client, asked.stream, bytes) {
            true => server.release(up.stream, size),
            false => exchange.owed += size,
        }
        self.desk.ask(Errand::Touch(asked.socket));
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
        if client.send_end(asked.stream, trailers).is_err() {
            client.reset(asked.stream, 0); // shorter than was declared: never so
        }
        self.desk.ask(Errand::Touch(asked.socket));
        if matches!(exchange.stage, Stage::Tunnel(_)) {
            return;
        }
        seat.client = None;
        if seat.private {
            session.keep().own = Some(socket);
        }
        if let Some(exchange) = session.exchange.take() {
            super::ending::finish(now, self.shared, self.desk, session, exchange);
        }
        self.desk.ask(Errand::Free(socket));
    }

    /// From now on there are only bytes.
    fn upgraded(&mut self, asked: Asked, (server, _): (&mut ClientConnection, &mut Seat)) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let Stage::Answering(up) = exchange.stage else { return };
        exchange.stage = Stage::Tunnel(up);
        exchange.body.ended = false;
        exchange.handed_over = false;
        pump::up(client, asked.stream, exchange, server, up.stream);
        self.desk.ask(Errand::Touch(asked.socket));
    }

    /// The server takes more of the request.
    fn writable(&mut self, asked: Asked, server: &mut ClientConnection) {
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let Some(up) = exchange.stage.up() else { return };
        client.release(asked.stream, std::mem::take(&mut exchange.body.owed));
        pump::up(client, asked.stream, exchange, server, up.stream);
        self.desk.ask(Errand::Touch(asked.socket));
    }
}

impl Handler<ClientConnection, Seat> for Replies<'_> {
    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        (server, seat): (&mut ClientConnection, &mut Seat),
        _: Option<&dyn Any>,
    ) {
        seat.stands = true;
        let Some(asked) = seat.client else { return };
        let place = seat.place();
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let backend = &self.shared.live.backends[place.0].config;
        let begun = send::begin(now, asked, client, exchange, (server, seat), backend, socket);
        if begun.is_err() {
            super::answer::status(client, exchange, 500);
            if let Some(mut exchange) = session.exchange.take() {
                exchange.ended = Ended(b'I', b'H');
                super::ending::finish(now, self.shared, self.desk, session, exchange);
            }
            seat.client = None;
            self.desk.ask(Errand::Close(socket));
        }
        self.desk.ask(Errand::Touch(asked.socket));
    }

    fn handle(
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
            Event::Data { bytes, .. } => self.data(asked, server, bytes),
            Event::End { trailers, .. } => self.end(now, socket, seat, asked, trailers),
            Event::Writable { .. } => self.writable(asked, server),
            Event::Upgraded { .. } => self.upgraded(asked, (server, seat)),
            Event::Reset { .. } => {} // HTTP/1 has none
        }
    }

    fn handle_gone(&mut self, now: Instant, socket: SocketId, seat: Seat, end: End) {
        let at = socket.index / crate::relay::LANES;
        if self.desk.pool.unpark(seat.shelf, at, seat.is_proven()) {
            let (backend, server) = seat.place();
            super::ending::idle_less(self.shared, backend, server);
        }
        if let Some(asked) = seat.client {
            self.lose(now, asked, &seat, end);
        }
    }
}
