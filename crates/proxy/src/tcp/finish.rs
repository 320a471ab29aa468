//! The end of a side and of a session, with its log line.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{CloseKind, End, SocketEvent, SocketId};

use crate::balance::Health;
use fulmar_haproxy::{BackendId, Mode, ServerId};
use fulmar_proto::RawConnection;

use super::Tcp;
use super::across::{Seat, Way, Work};
use super::ending::{By, Ending, When};
use super::session::{Introduction, Session, Stage};
use super::subject::View;
use crate::counters::{Counter, Counters};
use crate::gate;
use crate::journal::Severity;
use crate::shared::Shared;
use crate::unborn::{self, Awaited};

impl Tcp {
    /// A connection was closed.
    pub(super) fn handle_gone(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        number: u32,
        way: Way,
        end: End,
    ) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        match way {
            Way::Client => session.client = None,
            Way::Server => session.server = None,
        }
        if let (Way::Server, Some(answer)) = (way, &mut session.answer) {
            answer.pending.ended = true;
            self.judge(now, shared, number);
        }
        let Some(session) = self.desk.sessions.get(number) else { return };
        if (way, session.stage) == (Way::Client, Stage::Opening) {
            let awaited = match session.introduction {
                Introduction::Awaited => Awaited::Header,
                _ => Awaited::Handshake,
            };
            let view = View::new(shared, session, now);
            if let Some((severity, line)) = unborn::tell(shared, session.bind, awaited, &end, &view)
            {
                let live = Arc::clone(&shared.live);
                let config = &live.frontends[session.bind.frontend].config;
                shared.journal.log(&config.logs, config.log_tag.as_deref(), severity, &line);
            }
        }
        match (way, session.stage) {
            (Way::Server, Stage::Connecting) if session.ending.is_none() => {
                return self.handle_unreached(now, shared, number, &error_of(end));
            }
            (_, Stage::Relaying) => self.handle_relay_end(now, number, way, &end),
            (Way::Client, _) => self.handle_client_left(now, shared, number, &end),
            (Way::Server, _) => {}
        }
        if way == Way::Server {
            self.leave(shared, number);
        }
        self.finish(now, shared, number);
    }

    /// A connection has failed. If it had ended in both directions, it counts as closed in order:
    /// the kernel resets a connection that receives data after that. The session continues; the
    /// other side's remaining bytes decide whether data is lost.
    pub(super) fn lose(&mut self, now: Instant, socket: SocketId, error: io::Error) {
        let (side, mut across) = self.side(socket);
        let has_left = !side.is_sending(socket);
        let is_done = |(it, _): (&mut RawConnection, &mut Seat)| it.is_ended() && it.queued() == 0;
        if !(has_left && side.get_mut(socket).is_some_and(is_done)) {
            return side.handle(now, socket, SocketEvent::Failed(error), &mut across);
        }
        let way = across.from;
        if let Some(seat) = side.close(socket) {
            self.desk.work.push_back(Work::Gone(seat.session, way, End::Closed));
        }
    }

    /// The bytes of this side have no receiver: it need not continue.
    pub(super) fn handle_unheard(&mut self, now: Instant, number: u32, way: Way) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (by, speaker) = match way {
            Way::Client => (By::Server, session.client),
            Way::Server => (By::Client, session.server),
        };
        session.end(Ending { by, when: When::Data });
        if let Some(speaker) = speaker {
            self.dismiss(now, way, speaker);
        }
    }

    /// Closes a connection once all queued bytes were sent.
    fn dismiss(&mut self, now: Instant, way: Way, socket: SocketId) {
        let (side, mut across) = self.side_of(way);
        if let Some((connection, _)) = side.get_mut(socket) {
            connection.finish();
            side.touch(now, socket, &mut across);
        }
    }

    /// One side of a relay was closed: its bytes are still forwarded to the other one.
    fn handle_relay_end(&mut self, now: Instant, number: u32, way: Way, end: &End) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let by = match (end, way) {
            (End::Closed, _) => None,
            (End::TimedOut(_), Way::Client) => Some(By::ClientTimeout),
            (End::TimedOut(_), Way::Server) => Some(By::ServerTimeout),
            (End::Cut, _) => Some(By::Killed),
            (_, Way::Client) => Some(By::Client),
            (_, Way::Server) => Some(By::Server),
        };
        let Some(by) = by else { return };
        session.end(Ending { by, when: When::Data });
        let other = if way == Way::Client { session.server } else { session.client };
        let Some(other) = other else { return };
        let (side, mut across) = self.side_of(way.other());
        let speaks = side.get_mut(other).is_some_and(|(connection, _)| !connection.is_ended());
        match (end, way) {
            (End::TimedOut(_) | End::Cut, _) => side.cut(now, other, &mut across),
            // A regular end would pretend that the request is complete.
            (_, Way::Client) if speaks => side.cut_as(now, other, CloseKind::Reset, &mut across),
            _ => self.dismiss(now, way.other(), other),
        }
    }

    /// The client was closed before there was a server.
    fn handle_client_left(&mut self, now: Instant, shared: &Shared, number: u32, end: &End) {
        self.unqueue(shared, number);
        if matches!(end, End::TimedOut(_)) {
            self.conclude(now, shared, number);
        }
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let when = match session.stage {
            Stage::Queued => When::Queue,
            Stage::Pausing | Stage::Connecting => When::Connect,
            _ => When::Request,
        };
        let by = match end {
            End::TimedOut(_) => By::ClientTimeout,
            End::Cut => By::Killed,
            _ => By::Client,
        };
        session.end(Ending { by, when });
        if let Some(server) = session.server.take() {
            self.servers.close(server);
        }
    }

    /// Closes sessions of servers that were marked down, or backups after a server came up, as
    /// configured or requested by an operator.
    pub(super) fn shed(&mut self, now: Instant, shared: &mut Shared) {
        let live = Arc::clone(&shared.live);
        let sheds = live.sheds();
        if std::mem::replace(&mut self.sheds_seen, sheds) == sheds {
            return;
        }
        for (backend, there) in live.backends.iter().enumerate() {
            for (server, member) in there.group.members().iter().enumerate() {
                let seen = &mut self.sheds[backend][server];
                if there.config.mode == Mode::Tcp && *seen != member.sheds() {
                    *seen = member.sheds();
                    let by = if member.health() == Health::Down { By::Down } else { By::Killed };
                    self.shut_down(now, shared, (BackendId(backend), ServerId(server)), by);
                }
            }
        }
    }

    /// Closes all sessions at a server. This visits all of them.
    fn shut_down(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        (backend, server): (BackendId, ServerId),
        by: By,
    ) {
        for socket in self.servers.sockets() {
            let Some((_, seat)) = self.servers.get(socket) else { continue };
            let number = seat.session;
            let Some(session) = self.desk.sessions.get_mut(number) else { continue };
            if (session.backend, session.target) == (Some(backend), Some(server)) {
                session.end(Ending { by, when: When::Data });
                self.cut_client(now, number);
                self.work(now, shared);
            }
        }
    }

    /// The client aborts its request.
    pub(super) fn handle_left(&mut self, now: Instant, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get(number) else { return };
        let when = match session.stage {
            Stage::Queued => When::Queue,
            Stage::Pausing | Stage::Connecting => When::Connect,
            _ => return,
        };
        self.unqueue(shared, number);
        if let Some(session) = self.desk.sessions.get_mut(number) {
            session.end(Ending { by: By::Client, when });
        }
        self.cut_client(now, number);
    }

    /// Closes the client, or the server if only that is left. The reason was recorded before.
    pub(super) fn cut_client(&mut self, now: Instant, number: u32) {
        let Some(session) = self.desk.sessions.get(number) else { return };
        let (way, socket) = match (session.client, session.server) {
            (Some(client), _) => (Way::Client, client),
            (None, Some(server)) => (Way::Server, server),
            (None, None) => return,
        };
        let (side, mut across) = self.side_of(way);
        side.cut(now, socket, &mut across);
    }

    /// Both sides are closed: counts and logs the session.
    fn finish(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        if session.client.is_some() || session.server.is_some() {
            return;
        }
        let known = session.stage != Stage::Opening;
        let told = session.times.connected.is_some() && self.early_lines[session.bind.frontend];
        let says_nothing = session.received == 0;
        session.end(Ending::NORMAL);
        self.leave(shared, number);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.stage = Stage::Over;
        count(now, shared, session);
        let bind = session.bind;
        let frontend = &shared.live.frontends[bind.frontend].config;
        let is_null = says_nothing && frontend.log_options.dont_log_null;
        if known && !told && !is_null {
            self.log(now, shared, number);
        }
        self.desk.sessions.remove(number);
        gate::leave(shared, bind);
    }

    /// Logs the session, if a line is due.
    pub(super) fn log(&self, now: Instant, shared: &mut Shared, number: u32) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get(number) else { return };
        let frontend = &live.frontends[session.bind.frontend].config;
        let options = frontend.log_options;
        let failed = session.redispatched
            || session.retries > 0
            || session.ending.is_some_and(|it| it.by != By::Nobody);
        if frontend.logs.is_empty() || (options.dont_log_normal && !failed) {
            return;
        }
        let severity = match (session.log_level, failed && options.separate_errors) {
            (Some(None), _) => return,
            (Some(Some(level)), _) => Severity::of(level),
            (None, true) => Severity::Error,
            (None, false) => Severity::Info,
        };
        let mut line = Vec::new();
        let view = View::new(shared, session, now);
        frontend.log_format.render(&view, &mut line);
        shared.journal.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &line);
    }
}

/// The error of a failed connection to a server.
fn error_of(end: End) -> io::Error {
    match end {
        End::Failed(error) => error,
        End::TimedOut(_) => io::ErrorKind::TimedOut.into(),
        End::Layer(error) => io::Error::other(error),
        _ => io::ErrorKind::ConnectionAborted.into(),
    }
}

/// Counts a session for frontend, listener, backend and server. It still counts as current session
/// of its frontend.
fn count(now: Instant, shared: &Shared, session: &Session) {
    let thread = shared.thread;
    let frontend = &shared.live.frontends[session.bind.frontend];
    let backend = session.backend.map(|it| &shared.live.backends[it.0]);
    let target = session.target.and_then(|it| backend?.servers.get(it.0));
    let front = [&frontend.counters[thread], &frontend.listeners[session.bind.bind][thread]];
    let back = [backend.map(|it| &it.counters[thread]), target.map(|it| &it.counters[thread])];
    if let Some(backend) = back[0] {
        backend.subtract(Counter::Sessions, 1);
    }
    let aborts = session.ending.and_then(|it| match it.by {
        By::Client | By::ClientTimeout => Some(Counter::ClientAborts),
        By::Server | By::ServerTimeout if it.when == When::Data => Some(Counter::ServerAborts),
        _ => None,
    });
    if session.times.connected.is_some() {
        time(session, now, back);
    }
    for counters in front.into_iter().chain(back.into_iter().flatten()) {
        counters.add(Counter::BytesIn, session.received);
        counters.add(Counter::BytesOut, session.answered);
        if let Some(aborts) = aborts {
            counters.add(aborts, 1);
        }
    }
}

/// Counts the time in the queue, of the connect, and in total.
fn time(session: &Session, now: Instant, of: [Option<&Counters>; 2]) {
    let times = &session.times;
    let between = |from: Option<u32>, to: Option<u32>| {
        u64::from(to.unwrap_or_default().saturating_sub(from.unwrap_or_default()))
    };
    for counters in of.into_iter().flatten() {
        counters.add(Counter::QueueTime, between(times.routed, times.dequeued));
        counters.add(Counter::ConnectTime, between(times.dequeued, times.connected));
        counters.add(Counter::ResponseTime, 0); // not measured in mode tcp
        counters.add(Counter::TotalTime, session.age(now).into());
        counters.add(Counter::Timed, 1);
    }
}
