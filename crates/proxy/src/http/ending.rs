//! How exchanges and connections end: places are given back, counts and lines of the log are made.

use std::time::Instant;

use fulmar_engine::End;
use fulmar_haproxy::BackendId;
use fulmar_proto::{PeerError, Phase};

use crate::counters::Counter;
use crate::gate;
use crate::http::desk::{Desk, Errand};
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::log;
use crate::http::requests::Requests;
use crate::http::session::Session;
use crate::http::tally;
use crate::shared::Shared;

/// An exchange is over.
pub(super) fn finish(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    mut exchange: Box<Exchange>,
) {
    count(now, shared, session, &exchange);
    leave(shared, desk, &mut exchange);
    log::write(now, shared, desk, session, &mut exchange); // with the load that it leaves behind
    session.since = now;
    session.handshake = 0;
    desk.give_back(exchange);
}

/// What an exchange leaves in the statistics of all that it came past.
fn count(now: Instant, shared: &Shared, session: &Session, exchange: &Exchange) {
    let thread = shared.thread;
    let of_backend = exchange.backend.map(|at| &shared.live.backends[at.0].counters[thread]);
    let aborted = match exchange.ended {
        Ended(b'C' | b'c', _) => Some(Counter::ClientAborts),
        Ended(b'S' | b's', b'D') => Some(Counter::ServerAborts),
        _ => None,
    };
    for counters in tally::all(shared, session, exchange) {
        counters.add(Counter::BytesIn, exchange.bytes_in);
        counters.add(Counter::BytesOut, exchange.bytes_out);
        if let Some(aborted) = aborted {
            counters.add(aborted, 1);
        }
    }
    // For the server counts what it has answered itself, as it comes.
    let told = tally::front(shared, session).into_iter().chain(of_backend);
    told.for_each(|counters| counters.add(tally::response(exchange.status), 1));
    if let Some(counters) = of_backend {
        counters.subtract(Counter::Sessions, 1);
    }
    let times = &exchange.times;
    let Some(answered) = times.answered else { return };
    let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
        (Some(from), Some(to)) => to.saturating_duration_since(from).as_millis(),
        _ => 0,
    };
    let spans = [
        (Counter::QueueTime, between(times.began, times.assigned)),
        (Counter::ConnectTime, between(times.assigned, times.connected)),
        (Counter::ResponseTime, between(times.connected, Some(answered))),
        (Counter::TotalTime, between(times.began, Some(now))),
    ];
    for counters in tally::back(shared, exchange) {
        for (counter, span) in spans {
            counters.add(counter, u64::try_from(span).unwrap_or(u64::MAX));
        }
        counters.add(Counter::Timed, 1);
    }
}

/// An exchange is no longer with its server, or no longer waits for one.
pub(super) fn leave(shared: &Shared, desk: &mut Desk, exchange: &mut Exchange) {
    let Some(BackendId(backend)) = exchange.backend else { return };
    let live = &shared.live.backends[backend];
    if let Some(ticket) = exchange.ticket.take() {
        desk.queues[backend].cancel(&live.group, ticket);
        live.counters[shared.thread].subtract(Counter::Queued, 1);
        desk.ask(Errand::Serve(backend, None));
    }
    if let Some(server) = exchange.server.filter(|_| std::mem::take(&mut exchange.has_place)) {
        live.group.leave(server);
        live.servers[server].counters[shared.thread].subtract(Counter::Sessions, 1);
        if live.group.limit(server) > 0 {
            desk.ask(Errand::Serve(backend, Some(server)));
        }
    }
}

/// A connection of a client is gone.
pub(super) fn client_gone(shared: &Shared, session: &Session) {
    gate::leave(shared, session.bind());
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
        let is_answered = matches!(exchange.stage, Stage::Answering(_) | Stage::Tunnel(_));
        if !is_answered {
            exchange.status = told(end).unwrap_or(exchange.status);
        }
        let who = who(end);
        let what = match exchange.stage {
            _ if who == b'-' => b'-',
            Stage::Routing | Stage::Collecting(_) => b'R',
            Stage::Tarpit => b'T',
            Stage::Queued => b'Q',
            Stage::Resting | Stage::Connecting(_) => b'C',
            Stage::Waiting(_) if exchange.body.ended => b'H',
            Stage::Waiting(_) | Stage::Answering(_) | Stage::Tunnel(_) => b'D',
        };
        exchange.ended = Ended(who, what);
        self.finish(now, session, exchange);
    }

    /// A connection has ended without a request in hand: it is told of, unless it ended well.
    pub(super) fn leave_unheard(&mut self, now: Instant, session: &mut Session, end: &End) {
        let options = self.shared.live.frontends[session.bind().frontend].config.log_options;
        let is_null = !matches!(end, End::Peer(_) | End::TimedOut(Some(Phase::Head)));
        let was_probe = is_null && (session.requests > 0 || options.dont_log_null);
        if self.shared.ending || was_probe || (session.requests > 0 && matches!(end, End::Closed)) {
            return;
        }
        let told = told(end);
        let mut exchange = self.desk.open();
        exchange.status = told.unwrap_or(400);
        exchange.ended = Ended(who(end).max(b'C'), b'R');
        let is_error = !is_null || (told.is_some() && session.requests == 0);
        let [frontend, listener] = tally::front(self.shared, session);
        if is_error {
            frontend.add(Counter::Requests, 1); // or what was to be one
            [frontend, listener].iter().for_each(|it| it.add(Counter::RequestErrors, 1));
        }
        self.finish(now, session, exchange);
    }
}

/// The status that a client was told when its connection ended, if it was told one.
fn told(end: &End) -> Option<u16> {
    match end {
        End::Peer(PeerError::UnexpectedEof) => None,
        End::Peer(error) => Some(error.status()),
        End::TimedOut(Some(Phase::Idle | Phase::Head | Phase::Body)) => Some(408),
        _ => None,
    }
}

/// Who has ended a client's connection, as a letter of the log.
fn who(end: &End) -> u8 {
    match end {
        End::Closed => b'-',
        End::TimedOut(_) => b'c',
        End::Peer(PeerError::UnexpectedEof) => b'C',
        End::Peer(_) => b'P',
        End::Cut => b'K',
        _ => b'C',
    }
}
