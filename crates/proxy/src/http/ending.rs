//! The end of exchanges and connections.
//!
//! An exchange ends in two steps. It is answered when the response was queued: its server is free,
//! and the client may send the next request. It is over when the client has received the response,
//! or is closed: then it is counted and logged. Between the two it waits in [`Session::leaving`].

use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{End, SocketId};
use fulmar_haproxy::BackendId;
use fulmar_proto::{PeerError, Phase};

use crate::counters::{Counter, Counters};
use crate::gate;
use crate::http::desk::{Desk, Errand};
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::log::{self, Level};
use crate::http::requests::{Client, Requests};
use crate::http::session::{Session, Standing};
use crate::http::subject::View;
use crate::http::tally;
use crate::shared::Shared;
use crate::unborn::{self, Awaited};

/// The response of an exchange is complete.
pub(super) fn answered(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    (connection, session): Client<'_>,
    mut exchange: Box<Exchange>,
) {
    leave(shared, desk, &mut exchange);
    session.since = now;
    session.handshake = 0;
    exchange.before = session.leaving.take();
    match connection.queued() {
        0 => {
            session.leaving_len = 0;
            all_over(now, shared, desk, session, exchange, |_| ());
        }
        _ => {
            session.leaving_len += 1;
            session.leaving = Some(exchange);
        }
    }
    connection.set_held(session.is_behind());
}

/// `queued` bytes for the client are still unsent: exchanges with completely sent responses are
/// over.
pub(super) fn depart(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    queued: u64,
) {
    let mut queued = queued;
    if let Some(exchange) = &mut session.exchange {
        queued = exchange.note_unsent(queued);
    }
    let (mut at, mut left) = (&mut session.leaving, 0);
    while let Some(exchange) = at {
        queued = exchange.note_unsent(queued);
        if exchange.unsent == 0 {
            break;
        }
        left += 1;
        at = &mut at.as_mut().expect("it was just seen").before;
    }
    let Some(gone) = at.take() else { return };
    session.leaving_len = left;
    if session.exchange.is_none() && session.leaving.is_none() {
        session.since = now;
    }
    all_over(now, shared, desk, session, gone, |_| ());
}

/// Ends this exchange and those before it, the oldest first.
fn all_over(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    last: Box<Exchange>,
    change: impl Fn(&mut Exchange),
) {
    let (mut rest, mut first) = (Some(last), None);
    while let Some(mut exchange) = rest {
        rest = std::mem::replace(&mut exchange.before, first.take());
        first = Some(exchange);
    }
    while let Some(mut exchange) = first {
        first = exchange.before.take();
        change(&mut exchange);
        over(now, shared, desk, session, exchange);
    }
}

/// Ends an exchange.
fn over(
    now: Instant,
    shared: &mut Shared,
    desk: &mut Desk,
    session: &mut Session,
    mut exchange: Box<Exchange>,
) {
    count(now, shared, session, &exchange);
    log::write(now, shared, desk, session, &mut exchange); // before it leaves the current counts
    desk.give_back(exchange);
}

/// Counts an exchange for frontend, listener, backend and server.
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
        counters.add(Counter::BytesOut, exchange.sent());
        if let Some(aborted) = aborted {
            counters.add(aborted, 1);
        }
    }
    // A server counts its own responses when they are received.
    let told = tally::front(shared, session).into_iter().chain(of_backend);
    told.for_each(|counters| counters.add(tally::response(exchange.status), 1));
    if let Some(counters) = of_backend {
        counters.subtract(Counter::Sessions, 1);
    }
    if let Some(answered) = exchange.times.answered {
        let spans = spans(now, exchange, answered);
        tally::back(shared, exchange).for_each(|counters| count_times(counters, spans));
    }
}

/// The times of an exchange, in milliseconds.
fn spans(now: Instant, exchange: &Exchange, answered: Instant) -> [(Counter, u64); 4] {
    let times = &exchange.times;
    let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
        (Some(from), Some(to)) if from < to => {
            u64::try_from((to - from).as_millis()).unwrap_or(u64::MAX)
        }
        _ => 0,
    };
    [
        (Counter::QueueTime, between(times.began, times.assigned)),
        (Counter::ConnectTime, between(times.assigned, times.connected)),
        (Counter::ResponseTime, between(times.connected, Some(answered))),
        (Counter::TotalTime, between(times.began, Some(now))),
    ]
}

/// Adds the times to the means.
fn count_times(counters: &Counters, spans: [(Counter, u64); 4]) {
    for (counter, span) in spans {
        counters.add(counter, span);
    }
    counters.add(Counter::Timed, 1);
}

/// Releases the slot of an exchange, or removes it from its queue.
pub(super) fn leave(shared: &Shared, desk: &mut Desk, exchange: &mut Exchange) {
    let Some(BackendId(backend)) = exchange.backend else { return };
    let live = &shared.live.backends[backend];
    if let Some(ticket) = exchange.ticket.take() {
        desk.queues.of(backend).and_then(|queue| queue.cancel(&live.group, ticket));
        exchange.leave_line(shared);
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

/// A client's connection was closed.
pub(super) fn client_gone(shared: &Shared, session: &Session) {
    gate::leave(shared, session.bind());
}

/// A server's connection is not idle any more.
pub(super) fn idle_less(shared: &Shared, backend: usize, server: usize) {
    let server = &shared.live.backends[backend].servers[server];
    server.counters[shared.thread].subtract(Counter::IdleConnections, 1);
}

impl Requests<'_> {
    /// The response of an exchange is complete.
    pub(super) fn answered(&mut self, now: Instant, client: Client<'_>, exchange: Box<Exchange>) {
        answered(now, self.shared, self.desk, client, exchange);
    }

    /// `queued` bytes are still unsent. Resumes reading if the client was over its limit.
    pub(super) fn depart(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, session): Client<'_>,
        queued: u64,
    ) {
        let was_behind = session.is_behind();
        depart(now, self.shared, self.desk, session, queued);
        if was_behind && !session.is_behind() {
            connection.set_held(false);
            self.desk.ask(Errand::Touch(socket));
        }
    }

    /// The client has closed, or its error response was queued, before the response was complete.
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
        if !exchange.stage.is_answering() {
            exchange.status = told(end).unwrap_or(exchange.status);
        }
        exchange.ended = left(&exchange, end);
        leave(self.shared, self.desk, &mut exchange);
        over(now, self.shared, self.desk, session, exchange);
    }

    /// The client has closed: unsent bytes of its responses are lost.
    pub(super) fn part(&mut self, now: Instant, session: &mut Session, end: &End) {
        let Some(last) = session.leaving.take() else { return };
        session.leaving_len = 0;
        let ended = Ended(who(end), b'D');
        all_over(now, self.shared, self.desk, session, last, |exchange| {
            if exchange.ended.0 == b'-' && ended.0 != b'-' {
                exchange.ended = ended;
            } else if ended.0 == b'-' {
                exchange.unsent = 0;
            }
        });
    }

    /// A connection without a request in progress ends, or its error response was queued. It is
    /// logged, unless it ended regularly.
    pub(super) fn leave_unheard(&mut self, now: Instant, session: &mut Session, end: &End) {
        match session.standing {
            Standing::Unintroduced => return self.leave_unborn(now, session, Awaited::Header, end),
            Standing::Opening => return self.leave_unborn(now, session, Awaited::Handshake, end),
            Standing::Open | Standing::Told => {}
        }
        let frontend = &self.shared.live.frontends[session.bind().frontend].config;
        let began = session.kept.as_ref().is_some_and(|kept| kept.head_began.is_some());
        let is_null = !began && !matches!(end, End::Peer(_) | End::TimedOut(Some(Phase::Head)));
        let was_here = is_null && (session.requests > 0 || frontend.options.ignore_probes);
        if self.shared.ending || was_here || matches!(end, End::Cut) {
            return;
        }
        let mut exchange = self.desk.open();
        exchange.times.since = Some(session.since);
        exchange.status = told(end).unwrap_or(400);
        exchange.ended = Ended(who(end).max(b'C'), b'R');
        if is_null && frontend.log_options.dont_log_null {
            exchange.log_level = Level::Silent;
        }
        let [frontend, listener] = tally::front(self.shared, session);
        frontend.add(Counter::Requests, 1); // including an incomplete one
        [frontend, listener].iter().for_each(|it| it.add(Counter::RequestErrors, 1));
        over(now, self.shared, self.desk, session, exchange);
    }
}

impl Requests<'_> {
    /// A connection ends before it was established.
    fn leave_unborn(&mut self, now: Instant, session: &mut Session, awaited: Awaited, end: &End) {
        let (shared, bind) = (&mut *self.shared, session.bind());
        let mut exchange = self.desk.open();
        let view = View { now, shared, session, exchange: &mut exchange };
        if let Some((severity, line)) = unborn::tell(shared, bind, awaited, end, &view) {
            let frontend = Arc::clone(&shared.live.frontends[bind.frontend].config);
            shared.journal.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &line);
        }
        self.desk.give_back(exchange);
    }
}

/// How an exchange ended after its client has closed, in letters of the log.
fn left(exchange: &Exchange, end: &End) -> Ended {
    let who = who(end);
    let what = match exchange.stage {
        _ if who == b'-' => b'-',
        Stage::Routing | Stage::Collecting(_) => b'R',
        Stage::Tarpit => b'T',
        Stage::Answering(_) | Stage::Tunnel(_) => b'D',
        _ if who == b'P' => b'H',
        Stage::Queued => b'Q',
        Stage::Resting | Stage::Connecting(_) => b'C',
        Stage::Waiting(_) if exchange.body.ended => b'H',
        Stage::Waiting(_) => b'D',
    };
    Ended(who, what)
}

/// The status of the error response that was sent to the client at its end, if any.
fn told(end: &End) -> Option<u16> {
    match end {
        End::Peer(PeerError::UnexpectedEof) => None,
        End::Peer(error) => Some(error.status()),
        End::TimedOut(Some(Phase::Idle | Phase::Head | Phase::Body)) => Some(408),
        _ => None,
    }
}

/// The cause of the end of a client's connection, as a letter of the log.
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
