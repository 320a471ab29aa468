//! How exchanges and connections end: places are given back, counts and lines of the log are made.

use std::time::Instant;

use fulmar_engine::{End, SocketId};
use fulmar_haproxy::BackendId;
use fulmar_proto::PeerError;

use crate::counters::Counter;
use crate::http::desk::{Desk, Errand};
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::requests::Requests;
use crate::http::session::Session;
use crate::shared::Shared;

/// An exchange is over.
pub(super) fn finish(
    _now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    mut exchange: Box<Exchange>,
) {
    leave(shared, desk, &mut exchange);
    let thread = shared.thread;
    let frontend = &shared.live.frontends[session.bind().frontend];
    let counter = match exchange.status {
        100..=199 => Counter::Responses1xx,
        200..=299 => Counter::Responses2xx,
        300..=399 => Counter::Responses3xx,
        400..=499 => Counter::Responses4xx,
        500..=599 => Counter::Responses5xx,
        _ => Counter::ResponsesOther,
    };
    frontend.counters[thread].add(counter, 1);
    desk.give_back(exchange);
}

/// An exchange is no longer with its server, or no longer waits for one.
pub(super) fn leave(shared: &mut Shared, desk: &mut Desk, exchange: &mut Exchange) {
    let Some(BackendId(backend)) = exchange.backend else { return };
    let live = &shared.live.backends[backend];
    if let Some(ticket) = exchange.ticket.take() {
        desk.queues[backend].cancel(&live.group, ticket);
        live.counters[shared.thread].subtract(Counter::Queued, 1);
        desk.ask(Errand::Serve(backend, None));
    }
    if let Some(server) = exchange.server.filter(|_| std::mem::take(&mut exchange.has_place)) {
        live.group.leave(server);
        if live.group.limit(server) > 0 {
            desk.ask(Errand::Serve(backend, Some(server)));
        }
    }
}

/// A connection of a client is gone.
pub(super) fn client_gone(shared: &Shared, session: &Session) {
    let frontend = &shared.live.frontends[session.bind().frontend];
    frontend.counters[shared.thread].subtract(Counter::Sessions, 1);
}

/// A connection to a server is idle no more.
pub(super) fn idle_less(shared: &Shared, backend: usize, server: usize) {
    let server = &shared.live.backends[backend].servers[server];
    server.counters[shared.thread].subtract(Counter::IdleConnections, 1);
}

impl Requests<'_> {
    pub(super) fn finish(&mut self, now: Instant, session: &mut Session, exchange: Box<Exchange>) {
        finish(now, self.shared, self.desk, session, exchange);
    }

    /// The client has left before its exchange was over.
    pub(super) fn abandon(
        &mut self,
        now: Instant,
        _: SocketId,
        session: &mut Session,
        mut exchange: Box<Exchange>,
        end: &End,
    ) {
        if let Some(up) = exchange.stage.up()
            && let Some((_, seat)) = self.servers.get_mut(up.socket)
        {
            seat.client = None;
            let whole = matches!((exchange.stage, end), (Stage::Tunnel(_), End::Closed));
            if !whole {
                self.desk.ask(Errand::Close(up.socket));
            }
        }
        let who = match end {
            End::TimedOut(_) => b'c',
            End::Peer(PeerError::UnexpectedEof) | End::Failed(_) => b'C',
            End::Peer(_) => b'P',
            End::Closed => b'-',
            _ => b'C',
        };
        let what = match exchange.stage {
            _ if who == b'-' => b'-',
            Stage::Routing => b'R',
            Stage::Queued => b'Q',
            Stage::Resting | Stage::Connecting(_) => b'C',
            Stage::Waiting(_) if !exchange.body.ended => b'D',
            Stage::Waiting(_) => b'H',
            Stage::Answering(_) | Stage::Tunnel(_) => b'D',
        };
        exchange.ended = Ended(who, what);
        self.finish(now, session, exchange);
    }
}
