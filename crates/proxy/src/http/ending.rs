//! The end of exchanges and connections.
//!
//! An exchange ends in two steps. It is answered when the response was queued: its server is free,
//! and the client may send the next request. It is over when the client has received the response,
//! or is closed: then it is counted and logged. Between the two it waits in
//! [`HttpSession::leaving`].

use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{End, SocketId};
use fulmar_haproxy::BackendId;
use fulmar_proto::{Connection, PeerError, Phase, StreamId};

use crate::admission;
use crate::counters::{Counters, Stat};
use crate::early_close::{self, Awaited};
use crate::http::client_events::{ClientEntry, ClientEvents};
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, ExchangeStage, HttpExchange};
use crate::http::exchange_counters;
use crate::http::log::{self, LogLevelOverride};
use crate::http::session::{ClientState, HttpSession};
use crate::http::state::{DeferredAction, HttpState};
use crate::shared::ThreadContext;

/// The response of an exchange is complete.
pub(super) fn response_complete(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    (connection, session): ClientEntry<'_>,
    mut exchange: Box<HttpExchange>,
) {
    leave(shared, state, &mut exchange);
    debug_assert!(exchange.ticket.is_none() && !exchange.has_place, "it has left its server");
    session.since = now;
    session.handshake = 0;
    exchange.before = session.leaving.take();
    let stream = exchange.stream;
    match connection.unsent(stream) {
        0 => {
            session.leaving_len = 0;
            finish_all(now, shared, state, session, exchange, |_| ());
        }
        _ => {
            session.leaving_len += 1;
            session.leaving = Some(exchange);
        }
    }
    connection.set_held(stream, session.is_behind());
}

/// `queued` bytes for the client are still unsent: exchanges with completely sent responses are
/// over.
pub(super) fn note_sent(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
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
    finish_all(now, shared, state, session, gone, |_| ());
}

/// Ends this exchange and those before it, the oldest first.
fn finish_all(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
    last: Box<HttpExchange>,
    change: impl Fn(&mut HttpExchange),
) {
    let (mut rest, mut first) = (Some(last), None);
    while let Some(mut exchange) = rest {
        rest = std::mem::replace(&mut exchange.before, first.take());
        first = Some(exchange);
    }
    while let Some(mut exchange) = first {
        first = exchange.before.take();
        change(&mut exchange);
        finish(now, shared, state, session, exchange);
    }
}

/// Ends an exchange.
fn finish(
    now: Instant,
    shared: &mut ThreadContext,
    state: &mut HttpState,
    session: &mut HttpSession,
    mut exchange: Box<HttpExchange>,
) {
    count(now, shared, session, &exchange);
    log::write(now, shared, state, session, &mut exchange); // before it leaves the current counts
    state.recycle(exchange);
}

/// Counts an exchange for frontend, listener, backend and server.
fn count(now: Instant, shared: &ThreadContext, session: &HttpSession, exchange: &HttpExchange) {
    let thread = shared.thread;
    let of_backend = exchange.backend.map(|at| &shared.live.backends[at.0].counters[thread]);
    let aborted = match exchange.ended {
        EndLetters(b'C' | b'c', _) => Some(Stat::ClientAborts),
        EndLetters(b'S' | b's', b'D') => Some(Stat::ServerAborts),
        _ => None,
    };
    for counters in exchange_counters::all(shared, session, exchange) {
        counters.add(Stat::BytesIn, exchange.bytes_in);
        counters.add(Stat::BytesOut, exchange.sent());
        if let Some(aborted) = aborted {
            counters.add(aborted, 1);
        }
    }
    // A server counts its own responses when they are received.
    let told = exchange_counters::front(shared, session).into_iter().chain(of_backend);
    told.for_each(|counters| counters.add(exchange_counters::response(exchange.status), 1));
    if let Some(counters) = of_backend {
        counters.subtract(Stat::Sessions, 1);
    }
    if let Some(answered) = exchange.times.answered {
        let spans = spans(now, exchange, answered);
        exchange_counters::back(shared, exchange).for_each(|counters| count_times(counters, spans));
    }
}

/// The times of an exchange, in milliseconds.
fn spans(now: Instant, exchange: &HttpExchange, answered: Instant) -> [(Stat, u64); 4] {
    let times = &exchange.times;
    let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
        (Some(from), Some(to)) if from < to => {
            u64::try_from((to - from).as_millis()).unwrap_or(u64::MAX)
        }
        _ => 0,
    };
    [
        (Stat::QueueTime, between(times.began, times.assigned)),
        (Stat::ConnectTime, between(times.assigned, times.connected)),
        (Stat::ResponseTime, between(times.connected, Some(answered))),
        (Stat::TotalTime, between(times.began, Some(now))),
    ]
}

/// Adds the times to the means.
fn count_times(counters: &Counters, spans: [(Stat, u64); 4]) {
    for (counter, span) in spans {
        counters.add(counter, span);
    }
    counters.add(Stat::Timed, 1);
}

/// Releases the slot of an exchange, or removes it from its queue.
pub(super) fn leave(shared: &ThreadContext, state: &mut HttpState, exchange: &mut HttpExchange) {
    let Some(BackendId(backend)) = exchange.backend else { return };
    let live = &shared.live.backends[backend];
    if let Some(ticket) = exchange.ticket.take() {
        let queue = state.queues.of(backend).expect("the ticket is from this queue");
        queue.cancel(&live.group, ticket); // `None`: it was its turn
        exchange.leave_queue(shared);
        state.defer(DeferredAction::Serve(backend, None));
    }
    if let Some(server) = exchange.server.filter(|_| std::mem::take(&mut exchange.has_place)) {
        live.group.leave(server);
        live.servers[server].counters[shared.thread].subtract(Stat::Sessions, 1);
        if live.group.limit(server) > 0 {
            state.defer(DeferredAction::Serve(backend, Some(server)));
        }
    }
}

/// A client's connection was closed.
pub(super) fn client_left(shared: &ThreadContext, session: &HttpSession) {
    admission::count_left(shared, session.bind());
}

/// A server's connection is not idle any more.
pub(super) fn count_idle_end(shared: &ThreadContext, backend: usize, server: usize) {
    let server = &shared.live.backends[backend].servers[server];
    server.counters[shared.thread].subtract(Stat::IdleConnections, 1);
}

impl ClientEvents<'_> {
    /// The response of an exchange is complete.
    pub(super) fn response_complete(
        &mut self,
        now: Instant,
        client: ClientEntry<'_>,
        exchange: Box<HttpExchange>,
    ) {
        response_complete(now, self.shared, self.state, client, exchange);
    }

    /// `queued` bytes are still unsent. Resumes reading if the client was over its limit.
    pub(super) fn note_sent(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, session): ClientEntry<'_>,
        queued: u64,
    ) {
        let was_behind = session.is_behind();
        note_sent(now, self.shared, self.state, session, queued);
        if was_behind && !session.is_behind() {
            connection.set_held(StreamId::default(), false); // HTTP/1: any
            self.state.defer(DeferredAction::Touch(socket));
        }
    }

    /// The client has closed, or its error response was queued, before the response was complete.
    pub(super) fn abandon(
        &mut self,
        now: Instant,
        session: &mut HttpSession,
        mut exchange: Box<HttpExchange>,
        end: &End,
    ) {
        if let Some(up) = exchange.stage.up()
            && let Some((_, conn)) = self.servers.get_mut(up.socket)
        {
            conn.client = None;
            let whole = matches!((exchange.stage, end), (ExchangeStage::Tunnel(_), End::Closed));
            if !whole {
                self.state.defer(DeferredAction::Close(up.socket));
            }
        }
        if !exchange.stage.is_answering() {
            exchange.status = status_of(end).unwrap_or(exchange.status);
        }
        exchange.ended = end_letters(&exchange, end);
        leave(self.shared, self.state, &mut exchange);
        finish(now, self.shared, self.state, session, exchange);
    }

    /// The client has closed: unsent bytes of its responses are lost.
    pub(super) fn client_closed(&mut self, now: Instant, session: &mut HttpSession, end: &End) {
        let Some(last) = session.leaving.take() else { return };
        session.leaving_len = 0;
        let ended = EndLetters(end_cause(end), b'D');
        finish_all(now, self.shared, self.state, session, last, |exchange| {
            if exchange.ended.0 == b'-' && ended.0 != b'-' {
                exchange.ended = ended;
            } else if ended.0 == b'-' {
                exchange.unsent = 0;
            }
        });
    }

    /// A connection without a request in progress ends, or its error response was queued. It is
    /// logged, unless it ended regularly.
    pub(super) fn log_early_end(&mut self, now: Instant, session: &mut HttpSession, end: &End) {
        match session.state {
            ClientState::AwaitsProxyHeader => {
                return self.log_failed_setup(now, session, Awaited::Header, end);
            }
            ClientState::Opening => {
                return self.log_failed_setup(now, session, Awaited::Handshake, end);
            }
            ClientState::Open | ClientState::Reported => {}
        }
        let frontend = &self.shared.live.frontends[session.bind().frontend].config;
        let began = session.rare.as_ref().is_some_and(|rare| rare.head_began.is_some());
        let is_null = !began && !matches!(end, End::Peer(_) | End::TimedOut(Some(Phase::Head)));
        let was_here = is_null && (session.requests > 0 || frontend.options.ignore_probes);
        if self.shared.ending || was_here || matches!(end, End::Cut) {
            return;
        }
        let mut exchange = self.state.new_exchange();
        exchange.times.since = Some(session.since);
        exchange.status = status_of(end).unwrap_or(400);
        exchange.ended = EndLetters(end_cause(end).max(b'C'), b'R');
        if is_null && frontend.log_options.dont_log_null {
            exchange.log_level = LogLevelOverride::Silent;
        }
        let [frontend, listener] = exchange_counters::front(self.shared, session);
        frontend.add(Stat::Requests, 1); // including an incomplete one
        [frontend, listener].iter().for_each(|it| it.add(Stat::RequestErrors, 1));
        finish(now, self.shared, self.state, session, exchange);
    }
}

impl ClientEvents<'_> {
    /// A connection ends before it was established.
    fn log_failed_setup(
        &mut self,
        now: Instant,
        session: &mut HttpSession,
        awaited: Awaited,
        end: &End,
    ) {
        let (shared, bind) = (&mut *self.shared, session.bind());
        let mut exchange = self.state.new_exchange();
        let view = ExchangeView { now, shared, session, exchange: &mut exchange };
        if let Some((severity, line)) =
            early_close::log_failed_setup(shared, bind, awaited, end, &view)
        {
            let frontend = Arc::clone(&shared.live.frontends[bind.frontend].config);
            shared.proxy_log.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &line);
        }
        self.state.recycle(exchange);
    }
}

/// How an exchange ended after its client has closed, in letters of the log.
fn end_letters(exchange: &HttpExchange, end: &End) -> EndLetters {
    let who = end_cause(end);
    let what = match exchange.stage {
        _ if who == b'-' => b'-',
        ExchangeStage::Routing | ExchangeStage::Collecting(_) => b'R',
        ExchangeStage::Tarpit => b'T',
        ExchangeStage::Responding(_) | ExchangeStage::Tunnel(_) => b'D',
        _ if who == b'P' => b'H',
        ExchangeStage::Queued => b'Q',
        ExchangeStage::Delayed | ExchangeStage::Connecting(_) => b'C',
        ExchangeStage::Waiting(_) if exchange.body.ended => b'H',
        ExchangeStage::Waiting(_) => b'D',
    };
    EndLetters(who, what)
}

/// The status of the error response that was sent to the client at its end, if any.
fn status_of(end: &End) -> Option<u16> {
    match end {
        End::Peer(PeerError::UnexpectedEof) => None,
        End::Peer(error) => Some(error.status()),
        End::TimedOut(Some(Phase::Idle | Phase::Head | Phase::Body)) => Some(408),
        _ => None,
    }
}

/// The cause of the end of a client's connection, as a letter of the log.
fn end_cause(end: &End) -> u8 {
    match end {
        End::Closed => b'-',
        End::TimedOut(_) => b'c',
        End::Peer(PeerError::UnexpectedEof) => b'C',
        End::Peer(_) => b'P',
        End::Cut => b'K',
        _ => b'C',
    }
}
