//! A server's connection fails during an exchange: a retry, or an error response.
//!
//! A request that may have been executed is never repeated: unless its method is idempotent, it is
//! retried only if none of its bytes was sent. It is not retried either once a byte of the response
//! was received, except for the conditions of `retry-on`.

use std::io;
use std::time::Instant;

use crate::balance::Health;
use fulmar_engine::{End, Exchange as ExchangeId};
use fulmar_haproxy::BackendId;
use fulmar_proto::{Connection, PeerError};

use crate::balancing::{redispatches, retry_delay};
use crate::checks::Observation;
use crate::counters::Stat;
use crate::http::attempts::{AttemptFailure, FailedAttempt, GivenUp};
use crate::http::client_events::of;
use crate::http::ending;
use crate::http::exchange::{EndLetters, ExchangeStage, HttpExchange};
use crate::http::exchange_counters;
use crate::http::generated_response;
use crate::http::server_conn::ServerConn;
use crate::http::server_events::ServerEvents;
use crate::http::state::DeferredAction;
use crate::live::LiveBackend;
use crate::upstream::is_exhaustion;

impl ServerEvents<'_> {
    /// The connection of an exchange was closed.
    pub(super) fn connection_lost(
        &mut self,
        now: Instant,
        id: ExchangeId,
        conn: &ServerConn,
        end: End,
    ) {
        let shut = self.shut(conn, &end);
        let Some((_, session)) = self.clients.get_mut(id.socket) else { return };
        let Some(exchange) = of(session, id.stream) else { return };
        match exchange.stage {
            ExchangeStage::Connecting(_) | ExchangeStage::Waiting(_) => {
                let stage = exchange.stage;
                let failure = shut.unwrap_or_else(|| failure(stage, conn, end));
                let again = self.fail(now, id, conn, failure);
                if let Some(again) = again {
                    self.retry(now, id, again);
                }
            }
            ExchangeStage::Responding(_) | ExchangeStage::Tunnel(_) => self.cut(now, id, conn, end),
            ExchangeStage::Routing
            | ExchangeStage::Delayed
            | ExchangeStage::Tarpit
            | ExchangeStage::Collecting(_)
            | ExchangeStage::Queued => {} // it has left this connection
        }
    }

    /// Whether the connection was closed because its server's sessions were to be closed.
    fn shut(&self, conn: &ServerConn, end: &End) -> Option<AttemptFailure> {
        let (backend, server) = conn.place();
        let member = &self.shared.live.backends[backend].group.members()[server];
        let is_shut = matches!(end, End::Cut) && conn.kills != member.kills();
        is_shut.then(|| AttemptFailure::Shut { is_down: member.health() == Health::Down })
    }

    /// An attempt has failed: returns how to retry, or `None` after the client got an error.
    fn fail(
        &mut self,
        now: Instant,
        id: ExchangeId,
        conn: &ServerConn,
        failure: AttemptFailure,
    ) -> Option<Retry> {
        let (status, ended) = outcome_of(&failure, conn);
        let again = self.note(now, id, conn, failure);
        if again.is_some() {
            return again;
        }
        let (client, session) = self.clients.get_mut(id.socket)?;
        let mut exchange = session.exchange.take_if(|it| it.stream == id.stream)?;
        exchange.ended = ended;
        generated_response::status(now, self.shared, (client, session), &mut exchange, status);
        ending::response_complete(now, self.shared, self.state, (client, session), exchange);
        self.state.defer(DeferredAction::Touch(id.socket));
        None
    }

    /// Records a failed attempt, and decides whether and how to retry.
    fn note(
        &mut self,
        now: Instant,
        id: ExchangeId,
        conn: &ServerConn,
        failure: AttemptFailure,
    ) -> Option<Retry> {
        let (_, session) = self.clients.get_mut(id.socket)?;
        let exchange = of(session, id.stream)?;
        let (backend, server) = conn.place();
        let live = &self.shared.live.backends[backend];
        let again = retry(live, exchange, conn, &failure);
        exchange.given_up = again.err().unwrap_or_default();
        let again = again.ok();
        let counter = match failure {
            AttemptFailure::Refused(_)
            | AttemptFailure::Exhausted(_)
            | AttemptFailure::ConnectTimeout
            | AttemptFailure::Layer(_) => Some(Stat::ConnectErrors),
            // A status is forwarded after the last attempt, and a closed session is not an error.
            AttemptFailure::Status(_) | AttemptFailure::Shut { .. } => None,
            AttemptFailure::Empty
            | AttemptFailure::Reset(_)
            | AttemptFailure::Silent
            | AttemptFailure::Junk(_) => Some(Stat::ResponseErrors),
        };
        let thread = self.shared.thread;
        // As in HAProxy: a malformed or broken response counts with every attempt.
        let is_each = matches!(failure, AttemptFailure::Reset(_) | AttemptFailure::Junk(_));
        if let Some(counter) = counter.filter(|_| again.is_none() || is_each) {
            live.counters[thread].add(counter, 1);
            live.servers[server].counters[thread].add(counter, 1);
        }
        if let Some(seen) = observation_of(&failure) {
            self.shared.live.observe(BackendId(backend), server, seen);
        }
        let uses = conn.uses.saturating_sub(u32::from(conn.established));
        let age = now.saturating_duration_since(conn.since);
        exchange.attempts.push(FailedAttempt { server, uses, age, failure });
        again
    }

    /// A response has a status that `retry-on` names. False: it is forwarded.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        id: ExchangeId,
        conn: &ServerConn,
        status: u16,
    ) -> bool {
        let backend = &self.shared.live.backends[conn.place().0].config;
        if !backend.retry_on.statuses.contains(&status) {
            return false;
        }
        let again = self.note(now, id, conn, AttemptFailure::Status(status));
        if let Some(again) = again {
            self.retry(now, id, again);
        }
        again.is_some()
    }

    /// Retries the exchange, at once or after a delay.
    fn retry(&mut self, now: Instant, id: ExchangeId, again: Retry) {
        let (_, session) = self.clients.get_mut(id.socket).expect("its failure was just noted");
        let exchange = of(session, id.stream).expect("its failure was just noted");
        let (backend, server) = exchange.target();
        let live = &self.shared.live.backends[backend];
        let thread = self.shared.thread;
        exchange.times.connected = None;
        exchange.stage = ExchangeStage::Routing;
        if again == Retry::Fresh {
            exchange.was_stale = true;
        } else {
            exchange.retries -= 1;
            exchange.tried += 1;
        }
        if matches!(again, Retry::SameServer | Retry::AfterDelay) {
            live.counters[thread].add(Stat::Retries, 1);
            live.servers[server].counters[thread].add(Stat::Retries, 1);
        }
        match again {
            Retry::Fresh | Retry::SameServer => self.state.defer(DeferredAction::Continue(id)),
            Retry::AfterDelay => {
                exchange.stage = ExchangeStage::Delayed;
                let rest = retry_delay(&live.config);
                self.state.defer(DeferredAction::Timer(id.socket, Some(now + rest)));
            }
            Retry::OtherServer => {
                live.counters[thread].add(Stat::Redispatches, 1);
                live.servers[server].counters[thread].add(Stat::Redispatches, 1);
                exchange.redispatched = true;
                exchange.bound = None; // the persistent server failed
                ending::leave(self.shared, self.state, exchange);
                exchange.server = None;
                self.state.defer(DeferredAction::Continue(id));
            }
        }
    }

    /// The response cannot be completed after its beginning was forwarded.
    fn cut(&mut self, now: Instant, id: ExchangeId, conn: &ServerConn, end: End) {
        let shut = self.shut(conn, &end);
        let (client, session) = self.clients.get_mut(id.socket).expect("it was just looked up");
        let mut exchange = session.exchange.take().expect("it was just looked up");
        let tunnel = matches!(exchange.stage, ExchangeStage::Tunnel(_));
        if tunnel && matches!(end, End::Closed) {
            session.exchange = Some(exchange); // both sides have ended: the client's end follows
            return;
        }
        let who = match (shut, end) {
            (Some(shut), _) => outcome_of(&shut, conn).1.0,
            (None, End::TimedOut(_)) => b's',
            _ => b'S',
        };
        exchange.ended = EndLetters(who, b'D');
        if !tunnel && exchange.ended.0 == b'S' {
            exchange_counters::back(self.shared, &exchange)
                .for_each(|it| it.add(Stat::ResponseErrors, 1));
        }
        exchange.note_unsent(client.unsent(id.stream));
        client.cut_off(id.stream); // the client keeps the part that was received
        ending::response_complete(now, self.shared, self.state, (client, session), exchange);
        self.state.defer(DeferredAction::Touch(id.socket));
    }
}

/// How to retry a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Over a new connection to the same server: the old one was stale.
    Fresh,
    /// To the same server, at once.
    SameServer,
    /// To the same server, after a delay.
    AfterDelay,
    /// To another server, if there is one.
    OtherServer,
}

/// Whether and how to retry a request after this failure.
fn retry(
    live: &LiveBackend,
    exchange: &mut HttpExchange,
    conn: &ServerConn,
    failure: &AttemptFailure,
) -> Result<Retry, GivenUp> {
    let harmless = !conn.sent || exchange.is_idempotent();
    let silent =
        matches!(failure, AttemptFailure::Empty | AttemptFailure::Reset(_)) && !conn.response_begun;
    let stale = silent && conn.uses > 1 && !exchange.was_stale;
    let on = &live.config.retry_on;
    let wanted = match failure {
        AttemptFailure::Refused(_)
        | AttemptFailure::Exhausted(_)
        | AttemptFailure::ConnectTimeout
        | AttemptFailure::Layer(_) => on.connection_failure,
        AttemptFailure::Empty | AttemptFailure::Reset(_) if silent => on.empty_response,
        AttemptFailure::Silent => on.response_timeout,
        // An incomplete response counts as none.
        AttemptFailure::Empty | AttemptFailure::Reset(_) | AttemptFailure::Junk(_) => {
            on.junk_response
        }
        AttemptFailure::Status(status) => on.statuses.contains(status),
        AttemptFailure::Shut { .. } => return Err(GivenUp::Shut),
    };
    match () {
        () if !harmless => return Err(GivenUp::Executed),
        () if exchange.no_retry && conn.sent => return Err(GivenUp::Forbidden),
        () if !stale && !wanted => return Err(GivenUp::NotWanted),
        () if !stale && exchange.retries == 0 => return Err(GivenUp::NoneLeft),
        () if !exchange.body.rewind() => return Err(GivenUp::BodyGone),
        () if stale => return Ok(Retry::Fresh),
        () => {}
    }
    let attempt = live.config.retries - exchange.retries + 1;
    let elsewhere = redispatches(live, conn.place().1, attempt, exchange.bound.is_some());
    Ok(match failure {
        _ if elsewhere => Retry::OtherServer,
        AttemptFailure::Refused(_) | AttemptFailure::Layer(_) => Retry::AfterDelay,
        _ => Retry::SameServer,
    })
}

/// The failure of an attempt.
fn failure(stage: ExchangeStage, conn: &ServerConn, end: End) -> AttemptFailure {
    match end {
        End::TimedOut(None) => AttemptFailure::ConnectTimeout,
        End::TimedOut(_) if !conn.established => AttemptFailure::ConnectTimeout,
        End::Failed(error) if matches!(stage, ExchangeStage::Connecting(_)) => {
            match is_exhaustion(&error) {
                true => AttemptFailure::Exhausted(error.kind()),
                false => AttemptFailure::Refused(error.kind()),
            }
        }
        End::Failed(error) => AttemptFailure::Reset(error.kind()),
        // Closed under a request: as without a layer.
        End::Layer(_) if conn.established => AttemptFailure::Reset(io::ErrorKind::UnexpectedEof),
        End::Layer(error) => AttemptFailure::Layer(error.to_string()),
        End::TimedOut(_) => AttemptFailure::Silent,
        End::Peer(PeerError::UnexpectedEof) if !conn.response_begun => AttemptFailure::Empty,
        End::Peer(error) => AttemptFailure::Junk(error),
        End::File(error) => AttemptFailure::Reset(error.kind()),
        _ if matches!(stage, ExchangeStage::Connecting(_)) => {
            AttemptFailure::Refused(io::ErrorKind::ConnectionAborted)
        }
        _ => AttemptFailure::Empty,
    }
}

/// The observation for health checks.
fn observation_of(failure: &AttemptFailure) -> Option<Observation> {
    Some(match failure {
        AttemptFailure::Refused(_) | AttemptFailure::ConnectTimeout | AttemptFailure::Layer(_) => {
            Observation::Unconnected
        }
        AttemptFailure::Empty => Observation::Closed,
        AttemptFailure::Reset(_) => Observation::ReadFailed,
        AttemptFailure::Silent => Observation::ReadTimedOut,
        AttemptFailure::Junk(_) => Observation::Malformed,
        AttemptFailure::Status(_) => return None, // its head was observed
        // The server was not contacted, or the failure is not its fault.
        AttemptFailure::Exhausted(_) | AttemptFailure::Shut { .. } => return None,
    })
}

/// The status of an exchange after this failure of its last attempt, and the letters in the log.
fn outcome_of(failure: &AttemptFailure, conn: &ServerConn) -> (u16, EndLetters) {
    match failure {
        AttemptFailure::Shut { is_down } => {
            let who = if *is_down { b'D' } else { b'K' };
            match conn.established {
                true => (502, EndLetters(who, b'H')),
                false => (503, EndLetters(who, b'C')),
            }
        }
        AttemptFailure::Refused(_) | AttemptFailure::Layer(_) => (503, EndLetters(b'S', b'C')),
        AttemptFailure::Exhausted(_) => (503, EndLetters(b'R', b'C')),
        AttemptFailure::ConnectTimeout => (503, EndLetters(b's', b'C')),
        AttemptFailure::Silent => (504, EndLetters(b's', b'H')),
        AttemptFailure::Empty
        | AttemptFailure::Reset(_)
        | AttemptFailure::Status(_)
        | AttemptFailure::Junk(PeerError::UnexpectedEof) => (502, EndLetters(b'S', b'H')),
        AttemptFailure::Junk(_) => (502, EndLetters(b'P', b'H')),
    }
}
