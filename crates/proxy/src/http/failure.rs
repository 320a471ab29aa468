//! A server's connection fails during an exchange: a retry, or an error response.
//!
//! A request that may have been executed is never repeated: unless its method is idempotent, it is
//! retried only if none of its bytes was sent. It is not retried either once a byte of the response
//! was received, except for the conditions of `retry-on`.

use std::io;
use std::time::Instant;

use crate::balance::Health;
use fulmar_engine::{End, Exchange as Asked};
use fulmar_haproxy::BackendId;
use fulmar_proto::PeerError;

use crate::balancing::redispatches;
use crate::checks::Observation;
use crate::counters::Counter;
use crate::http::answer;
use crate::http::desk::Errand;
use crate::http::dispatch::REST;
use crate::http::ending;
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::record::{Attempt, Failure, GivenUp};
use crate::http::replies::Replies;
use crate::http::requests::of;
use crate::http::seat::Seat;
use crate::http::tally;
use crate::live::LiveBackend;
use crate::upstream::is_exhaustion;

impl Replies<'_> {
    /// The connection of an exchange was closed.
    pub(super) fn lose(&mut self, now: Instant, asked: Asked, seat: &Seat, end: End) {
        let shut = self.shut(seat, &end);
        let Some((_, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        match exchange.stage {
            Stage::Connecting(_) | Stage::Waiting(_) => {
                let stage = exchange.stage;
                let failure = shut.unwrap_or_else(|| failure(stage, seat, end));
                let again = self.fail(now, asked, seat, failure);
                if let Some(again) = again {
                    self.again(now, asked, again);
                }
            }
            Stage::Answering(_) | Stage::Tunnel(_) => self.cut(now, asked, seat, end),
            _ => {}
        }
    }

    /// Whether the connection was closed because its server's sessions were to be closed.
    fn shut(&self, seat: &Seat, end: &End) -> Option<Failure> {
        let (backend, server) = seat.place();
        let member = &self.shared.live.backends[backend].group.members()[server];
        let is_shut = matches!(end, End::Cut) && seat.sheds != member.sheds();
        is_shut.then(|| Failure::Shut { is_down: member.health() == Health::Down })
    }

    /// An attempt has failed: returns how to retry, or `None` after the client got an error.
    fn fail(&mut self, now: Instant, asked: Asked, seat: &Seat, failure: Failure) -> Option<Again> {
        let (status, ended) = told(&failure, seat);
        let again = self.note(now, asked, seat, failure);
        if again.is_some() {
            return again;
        }
        let (client, session) = self.clients.get_mut(asked.socket)?;
        let mut exchange = session.exchange.take_if(|it| it.stream == asked.stream)?;
        exchange.ended = ended;
        answer::status(now, self.shared, (client, session), &mut exchange, status);
        ending::answered(now, self.shared, self.desk, (client, session), exchange);
        self.desk.ask(Errand::Touch(asked.socket));
        None
    }

    /// Records a failed attempt, and decides whether and how to retry.
    fn note(&mut self, now: Instant, asked: Asked, seat: &Seat, failure: Failure) -> Option<Again> {
        let (_, session) = self.clients.get_mut(asked.socket)?;
        let exchange = of(session, asked.stream)?;
        let (backend, server) = seat.place();
        let live = &self.shared.live.backends[backend];
        let again = again(live, exchange, seat, &failure);
        exchange.given_up = again.err().unwrap_or_default();
        let again = again.ok();
        let counter = match failure {
            Failure::Refused(_)
            | Failure::Exhausted(_)
            | Failure::ConnectTimeout
            | Failure::Layer(_) => Some(Counter::ConnectErrors),
            // A status is forwarded after the last attempt, and a closed session is not an error.
            Failure::Status(_) | Failure::Shut { .. } => None,
            _ => Some(Counter::ResponseErrors),
        };
        let thread = self.shared.thread;
        // As in HAProxy: a malformed or broken response counts with every attempt.
        let is_each = matches!(failure, Failure::Reset(_) | Failure::Junk(_));
        if let Some(counter) = counter.filter(|_| again.is_none() || is_each) {
            live.counters[thread].add(counter, 1);
            live.servers[server].counters[thread].add(counter, 1);
        }
        if let Some(seen) = seen(&failure) {
            self.shared.live.observe(BackendId(backend), server, seen);
        }
        let uses = seat.uses.saturating_sub(u32::from(seat.stands));
        let age = now.saturating_duration_since(seat.since);
        exchange.attempts.push(Attempt { server, uses, age, failure });
        again
    }

    /// A response has a status that `retry-on` names. False: it is forwarded.
    pub(super) fn refuse(&mut self, now: Instant, asked: Asked, seat: &Seat, status: u16) -> bool {
        let backend = &self.shared.live.backends[seat.place().0].config;
        if !backend.retry_on.statuses.contains(&status) {
            return false;
        }
        let again = self.note(now, asked, seat, Failure::Status(status));
        if let Some(again) = again {
            self.again(now, asked, again);
        }
        again.is_some()
    }

    /// Retries the exchange, at once or after a delay.
    fn again(&mut self, now: Instant, asked: Asked, again: Again) {
        let Some((_, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(exchange) = of(session, asked.stream) else { return };
        let (Some(backend), Some(server)) = (exchange.backend, exchange.server) else { return };
        let live = &self.shared.live.backends[backend.0];
        let thread = self.shared.thread;
        exchange.times.connected = None;
        exchange.stage = Stage::Routing;
        if again == Again::Fresh {
            exchange.was_stale = true;
        } else {
            exchange.retries -= 1;
            exchange.tried += 1;
        }
        if matches!(again, Again::Same | Again::Rested) {
            live.counters[thread].add(Counter::Retries, 1);
            live.servers[server].counters[thread].add(Counter::Retries, 1);
        }
        match again {
            Again::Fresh | Again::Same => self.desk.ask(Errand::GoOn(asked)),
            Again::Rested => {
                exchange.stage = Stage::Resting;
                let connect = live.config.timeouts.connect;
                let rest = connect.map_or(REST, |connect| connect.min(REST));
                self.desk.ask(Errand::Timer(asked.socket, Some(now + rest)));
            }
            Again::Elsewhere => {
                live.counters[thread].add(Counter::Redispatches, 1);
                live.servers[server].counters[thread].add(Counter::Redispatches, 1);
                exchange.redispatched = true;
                exchange.bound = None; // the persistent server failed
                ending::leave(self.shared, self.desk, exchange);
                exchange.server = None;
                self.desk.ask(Errand::GoOn(asked));
            }
        }
    }

    /// The response cannot be completed after its beginning was forwarded.
    fn cut(&mut self, now: Instant, asked: Asked, seat: &Seat, end: End) {
        let shut = self.shut(seat, &end);
        let Some((client, session)) = self.clients.get_mut(asked.socket) else { return };
        let Some(mut exchange) = session.exchange.take() else { return };
        let tunnel = matches!(exchange.stage, Stage::Tunnel(_));
        if tunnel && matches!(end, End::Closed) {
            session.exchange = Some(exchange); // both sides have ended: the client's end follows
            return;
        }
        let who = match (shut, end) {
            (Some(shut), _) => told(&shut, seat).1.0,
            (None, End::TimedOut(_)) => b's',
            _ => b'S',
        };
        exchange.ended = Ended(who, b'D');
        if !tunnel && exchange.ended.0 == b'S' {
            tally::back(self.shared, &exchange).for_each(|it| it.add(Counter::ResponseErrors, 1));
        }
        exchange.note_unsent(client.queued());
        client.cut_off(); // the client keeps the part that was received
        ending::answered(now, self.shared, self.desk, (client, session), exchange);
        self.desk.ask(Errand::Touch(asked.socket));
    }
}

/// How to retry a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Over a new connection to the same server: the old one was stale.
    Fresh,
    /// To the same server, at once.
    Same,
    /// To the same server, after a delay.
    Rested,
    /// To another server, if there is one.
    Elsewhere,
}

/// Whether and how to retry a request after this failure.
fn again(
    live: &LiveBackend,
    exchange: &mut Exchange,
    seat: &Seat,
    failure: &Failure,
) -> Result<Again, GivenUp> {
    let harmless = !seat.sent || exchange.is_idempotent();
    let silent = matches!(failure, Failure::Empty | Failure::Reset(_)) && !seat.heard;
    let stale = silent && seat.uses > 1 && !exchange.was_stale;
    let on = &live.config.retry_on;
    let wanted = match failure {
        Failure::Refused(_)
        | Failure::Exhausted(_)
        | Failure::ConnectTimeout
        | Failure::Layer(_) => on.connection_failure,
        Failure::Empty | Failure::Reset(_) if silent => on.empty_response,
        Failure::Silent => on.response_timeout,
        // An incomplete response counts as none.
        Failure::Empty | Failure::Reset(_) | Failure::Junk(_) => on.junk_response,
        Failure::Status(status) => on.statuses.contains(status),
        Failure::Shut { .. } => return Err(GivenUp::Shut),
    };
    match () {
        () if !harmless => return Err(GivenUp::Executed),
        () if exchange.no_retry && seat.sent => return Err(GivenUp::Forbidden),
        () if !stale && !wanted => return Err(GivenUp::NotWanted),
        () if !stale && exchange.retries == 0 => return Err(GivenUp::NoneLeft),
        () if !exchange.body.rewind() => return Err(GivenUp::BodyGone),
        () if stale => return Ok(Again::Fresh),
        () => {}
    }
    let attempt = live.config.retries - exchange.retries + 1;
    let elsewhere = redispatches(live, seat.place().1, attempt, exchange.bound.is_some());
    Ok(match failure {
        _ if elsewhere => Again::Elsewhere,
        Failure::Refused(_) | Failure::Layer(_) => Again::Rested,
        _ => Again::Same,
    })
}

/// The failure of an attempt.
fn failure(stage: Stage, seat: &Seat, end: End) -> Failure {
    match end {
        End::TimedOut(None) => Failure::ConnectTimeout,
        End::TimedOut(_) if !seat.stands => Failure::ConnectTimeout,
        End::Failed(error) if matches!(stage, Stage::Connecting(_)) => {
            match is_exhaustion(&error) {
                true => Failure::Exhausted(error.kind()),
                false => Failure::Refused(error.kind()),
            }
        }
        End::Failed(error) => Failure::Reset(error.kind()),
        // Closed under a request: as without a layer.
        End::Layer(_) if seat.stands => Failure::Reset(io::ErrorKind::UnexpectedEof),
        End::Layer(error) => Failure::Layer(error.to_string()),
        End::TimedOut(_) => Failure::Silent,
        End::Peer(PeerError::UnexpectedEof) if !seat.heard => Failure::Empty,
        End::Peer(error) => Failure::Junk(error),
        End::File(error) => Failure::Reset(error.kind()),
        _ if matches!(stage, Stage::Connecting(_)) => {
            Failure::Refused(io::ErrorKind::ConnectionAborted)
        }
        _ => Failure::Empty,
    }
}

/// The observation for health checks.
fn seen(failure: &Failure) -> Option<Observation> {
    Some(match failure {
        Failure::Refused(_) | Failure::ConnectTimeout | Failure::Layer(_) => {
            Observation::Unconnected
        }
        Failure::Empty => Observation::Closed,
        Failure::Reset(_) => Observation::ReadFailed,
        Failure::Silent => Observation::ReadTimedOut,
        Failure::Junk(_) => Observation::Malformed,
        Failure::Status(_) => return None, // its head was observed
        // The server was not contacted, or the failure is not its fault.
        Failure::Exhausted(_) | Failure::Shut { .. } => return None,
    })
}

/// The status of an exchange after this failure of its last attempt, and the letters in the log.
fn told(failure: &Failure, seat: &Seat) -> (u16, Ended) {
    match failure {
        Failure::Shut { is_down } => {
            let who = if *is_down { b'D' } else { b'K' };
            match seat.stands {
                true => (502, Ended(who, b'H')),
                false => (503, Ended(who, b'C')),
            }
        }
        Failure::Refused(_) | Failure::Layer(_) => (503, Ended(b'S', b'C')),
        Failure::Exhausted(_) => (503, Ended(b'R', b'C')),
        Failure::ConnectTimeout => (503, Ended(b's', b'C')),
        Failure::Silent => (504, Ended(b's', b'H')),
        Failure::Empty
        | Failure::Reset(_)
        | Failure::Status(_)
        | Failure::Junk(PeerError::UnexpectedEof) => (502, Ended(b'S', b'H')),
        Failure::Junk(_) => (502, Ended(b'P', b'H')),
    }
}
