//! The end of a side and of a session, with its log line.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{CloseKind, End, SocketEvent, SocketId};

use crate::balance::Health;
use fulmar_haproxy::{BackendId, Mode, ServerId};
use fulmar_proto::{Connection, RawConnection};

use super::TcpRelay;
use super::context::SessionContext;
use super::forward::{RelayConn, SessionWork, SideKind};
use super::session::{ProxyHeaderState, TcpSession, TcpStage};
use super::termination_state::{EndCause, EndPhase, SessionEnd};
use crate::admission;
use crate::counters::{Counters, Stat};
use crate::early_close::{self, Awaited};
use crate::proxy_log::LogSeverity;
use crate::shared::ThreadContext;

impl TcpRelay {
    /// A connection was closed.
    pub(super) fn handle_connection_closed(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
        way: SideKind,
        end: End,
    ) {
        let session = self.state.sessions.of_mut(number);
        match way {
            SideKind::Client => session.client = None,
            SideKind::Server => session.server = None,
        }
        if let (SideKind::Server, Some(answer)) = (way, &mut session.answer) {
            answer.pending.ended = true;
            self.run_response_rules(now, shared, number);
        }
        let session = self.state.sessions.of(number);
        if (way, session.stage) == (SideKind::Client, TcpStage::Opening) {
            let awaited = match session.proxy_header {
                ProxyHeaderState::Awaited => Awaited::Header,
                ProxyHeaderState::None | ProxyHeaderState::Received => Awaited::Handshake,
            };
            let view = SessionContext::new(shared, session, now);
            if let Some((severity, line)) =
                early_close::log_failed_setup(shared, session.bind, awaited, &end, &view)
            {
                let live = Arc::clone(&shared.live);
                let config = &live.frontends[session.bind.frontend].config;
                shared.proxy_log.log(&config.logs, config.log_tag.as_deref(), severity, &line);
            }
        }
        match (way, session.stage) {
            (SideKind::Server, TcpStage::Connecting) if session.ending.is_none() => {
                return self.handle_connect_failure(now, shared, number, &error_of(end));
            }
            (_, TcpStage::Relaying) => self.handle_relay_end(now, number, way, &end),
            (SideKind::Client, _) => self.handle_client_left(now, shared, number, &end),
            (SideKind::Server, _) => {}
        }
        if way == SideKind::Server {
            self.leave(shared, number);
        }
        self.finish(now, shared, number);
    }

    /// A connection has failed. If it had ended in both directions, it counts as closed in order:
    /// the kernel resets a connection that receives data after that. The session continues; the
    /// other side's remaining bytes decide whether data is lost.
    pub(super) fn handle_failure(&mut self, now: Instant, socket: SocketId, error: io::Error) {
        let (side, mut handler) = self.side(socket);
        let has_left = !side.is_sending(socket);
        let is_done = |(it, _): (&mut RawConnection, &mut RelayConn)| {
            it.has_received_end() && it.unsent(RawConnection::STREAM) == 0
        };
        if !(has_left && side.get_mut(socket).is_some_and(is_done)) {
            return side.handle(now, socket, SocketEvent::Failed(error), &mut handler);
        }
        let way = handler.from;
        if let Some(conn) = side.close(socket) {
            self.state.work.push_back(SessionWork::Closed(conn.session, way, End::Closed));
        }
    }

    /// The bytes of this side have no receiver: it need not continue.
    pub(super) fn handle_no_receiver(&mut self, now: Instant, number: u32, way: SideKind) {
        let session = self.state.sessions.of_mut(number);
        let (by, speaker) = match way {
            SideKind::Client => (EndCause::Server, session.client),
            SideKind::Server => (EndCause::Client, session.server),
        };
        session.end(SessionEnd { by, when: EndPhase::Data });
        if let Some(speaker) = speaker {
            self.finish_sending(now, way, speaker);
        }
    }

    /// Closes a connection once all queued bytes were sent.
    fn finish_sending(&mut self, now: Instant, way: SideKind, socket: SocketId) {
        let (side, mut handler) = self.side_of(way);
        if let Some((connection, _)) = side.get_mut(socket) {
            connection.finish();
            side.touch(now, socket, &mut handler);
        }
    }

    /// One side of a relay was closed: its bytes are still forwarded to the other one.
    fn handle_relay_end(&mut self, now: Instant, number: u32, way: SideKind, end: &End) {
        let session = self.state.sessions.of_mut(number);
        let by = match (end, way) {
            (End::Closed, _) => None,
            (End::TimedOut(_), SideKind::Client) => Some(EndCause::ClientTimeout),
            (End::TimedOut(_), SideKind::Server) => Some(EndCause::ServerTimeout),
            (End::Cut, _) => Some(EndCause::Killed),
            (_, SideKind::Client) => Some(EndCause::Client),
            (_, SideKind::Server) => Some(EndCause::Server),
        };
        let Some(by) = by else { return };
        session.end(SessionEnd { by, when: EndPhase::Data });
        let other = if way == SideKind::Client { session.server } else { session.client };
        let Some(other) = other else { return };
        let (side, mut handler) = self.side_of(way.other());
        let speaks =
            side.get_mut(other).is_some_and(|(connection, _)| !connection.has_received_end());
        match (end, way) {
            (End::TimedOut(_) | End::Cut, _) => side.cut(now, other, &mut handler),
            // A regular end would pretend that the request is complete.
            (_, SideKind::Client) if speaks => {
                side.cut_as(now, other, CloseKind::Reset, &mut handler)
            }
            _ => self.finish_sending(now, way.other(), other),
        }
    }

    /// The client was closed before there was a server.
    fn handle_client_left(&mut self, now: Instant, shared: &ThreadContext, number: u32, end: &End) {
        self.unqueue(shared, number);
        if matches!(end, End::TimedOut(_)) {
            self.run_rules_at_timeout(now, shared, number);
        }
        let session = self.state.sessions.of_mut(number);
        let when = match session.stage {
            TcpStage::Queued => EndPhase::Queue,
            TcpStage::Pausing | TcpStage::Connecting => EndPhase::Connect,
            TcpStage::Opening | TcpStage::Inspecting(_) | TcpStage::Relaying | TcpStage::Over => {
                EndPhase::Request
            }
        };
        let by = match end {
            End::TimedOut(_) => EndCause::ClientTimeout,
            End::Cut => EndCause::Killed,
            _ => EndCause::Client,
        };
        session.end(SessionEnd { by, when });
        if let Some(server) = session.server.take() {
            self.servers.close(server);
        }
    }

    /// Closes sessions of servers that were marked down, or backups after a server came up, as
    /// configured or requested by an operator.
    pub(super) fn kill_sessions(&mut self, now: Instant, shared: &mut ThreadContext) {
        let live = Arc::clone(&shared.live);
        let kills = live.kills();
        if std::mem::replace(&mut self.kills_seen, kills) == kills {
            return;
        }
        for (backend, there) in live.backends.iter().enumerate() {
            for (server, member) in there.group.members().iter().enumerate() {
                let seen = &mut self.kills[backend][server];
                if there.config.mode == Mode::Tcp && *seen != member.kills() {
                    *seen = member.kills();
                    let by = if member.health() == Health::Down {
                        EndCause::Down
                    } else {
                        EndCause::Killed
                    };
                    self.shut_down(now, shared, (BackendId(backend), ServerId(server)), by);
                }
            }
        }
    }

    /// Closes all sessions at a server. This visits all of them.
    fn shut_down(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        (backend, server): (BackendId, ServerId),
        by: EndCause,
    ) {
        for socket in self.servers.sockets() {
            // Closed meanwhile, with another session.
            let Some((_, conn)) = self.servers.get(socket) else { continue };
            let number = conn.session;
            let session = self.state.sessions.of_mut(number);
            if (session.backend, session.target) == (Some(backend), Some(server)) {
                session.end(SessionEnd { by, when: EndPhase::Data });
                self.cut_client(now, number);
                self.work(now, shared);
            }
        }
    }

    /// The client aborts its request.
    pub(super) fn handle_abort(&mut self, now: Instant, shared: &ThreadContext, number: u32) {
        let session = self.state.sessions.of(number);
        let when = match session.stage {
            TcpStage::Queued => EndPhase::Queue,
            TcpStage::Pausing | TcpStage::Connecting => EndPhase::Connect,
            TcpStage::Opening | TcpStage::Inspecting(_) | TcpStage::Relaying | TcpStage::Over => {
                return;
            }
        };
        self.unqueue(shared, number);
        self.state.sessions.of_mut(number).end(SessionEnd { by: EndCause::Client, when });
        self.cut_client(now, number);
    }

    /// Closes the client, or the server if only that is left. The reason was recorded before.
    pub(super) fn cut_client(&mut self, now: Instant, number: u32) {
        let session = self.state.sessions.of(number);
        let (way, socket) = match (session.client, session.server) {
            (Some(client), _) => (SideKind::Client, client),
            (None, Some(server)) => (SideKind::Server, server),
            (None, None) => return,
        };
        let (side, mut handler) = self.side_of(way);
        side.cut(now, socket, &mut handler);
    }

    /// Both sides are closed: counts and logs the session.
    fn finish(&mut self, now: Instant, shared: &mut ThreadContext, number: u32) {
        let session = self.state.sessions.of_mut(number);
        if session.client.is_some() || session.server.is_some() {
            return;
        }
        let known = session.stage != TcpStage::Opening;
        let told = session.times.connected.is_some() && self.early_lines[session.bind.frontend];
        let says_nothing = session.received == 0;
        session.end(SessionEnd::NORMAL);
        self.leave(shared, number);
        let session = self.state.sessions.of_mut(number);
        debug_assert!(!session.has_slot && session.ticket.is_none(), "it has left its server");
        session.stage = TcpStage::Over;
        count(now, shared, session);
        let bind = session.bind;
        let frontend = &shared.live.frontends[bind.frontend].config;
        let is_null = says_nothing && frontend.log_options.dont_log_null;
        if known && !told && !is_null {
            self.log(now, shared, number);
        }
        self.state.sessions.remove(number);
        admission::count_left(shared, bind);
    }

    /// Logs the session, if a line is due.
    pub(super) fn log(&self, now: Instant, shared: &mut ThreadContext, number: u32) {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of(number);
        let frontend = &live.frontends[session.bind.frontend].config;
        let options = frontend.log_options;
        let failed = session.redispatched
            || session.retries > 0
            || session.ending.is_some_and(|it| it.by != EndCause::Regular);
        if frontend.logs.is_empty() || (options.dont_log_normal && !failed) {
            return;
        }
        let severity = match (session.log_level, failed && options.separate_errors) {
            (Some(None), _) => return,
            (Some(Some(level)), _) => LogSeverity::of(level),
            (None, true) => LogSeverity::Error,
            (None, false) => LogSeverity::Info,
        };
        let mut line = Vec::new();
        let view = SessionContext::new(shared, session, now);
        frontend.log_format.render(&view, &mut line);
        shared.proxy_log.log(&frontend.logs, frontend.log_tag.as_deref(), severity, &line);
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
fn count(now: Instant, shared: &ThreadContext, session: &TcpSession) {
    let thread = shared.thread;
    let frontend = &shared.live.frontends[session.bind.frontend];
    let backend = session.backend.map(|it| &shared.live.backends[it.0]);
    let target = session.target.and_then(|it| backend?.servers.get(it.0));
    let front = [&frontend.counters[thread], &frontend.listeners[session.bind.bind][thread]];
    let back = [backend.map(|it| &it.counters[thread]), target.map(|it| &it.counters[thread])];
    if let Some(backend) = back[0] {
        backend.subtract(Stat::Sessions, 1);
    }
    let aborts = session.ending.and_then(|it| match it.by {
        EndCause::Client | EndCause::ClientTimeout => Some(Stat::ClientAborts),
        EndCause::Server | EndCause::ServerTimeout if it.when == EndPhase::Data => {
            Some(Stat::ServerAborts)
        }
        EndCause::Server
        | EndCause::ServerTimeout
        | EndCause::Regular
        | EndCause::Proxy
        | EndCause::Resources
        | EndCause::Down
        | EndCause::Killed => None,
    });
    if session.times.connected.is_some() {
        time(session, now, back);
    }
    for counters in front.into_iter().chain(back.into_iter().flatten()) {
        counters.add(Stat::BytesIn, session.received);
        counters.add(Stat::BytesOut, session.sent);
        if let Some(aborts) = aborts {
            counters.add(aborts, 1);
        }
    }
}

/// Counts the time in the queue, of the connect, and in total.
fn time(session: &TcpSession, now: Instant, of: [Option<&Counters>; 2]) {
    let times = &session.times;
    let between = |from: Option<u32>, to: Option<u32>| {
        u64::from(to.unwrap_or_default().saturating_sub(from.unwrap_or_default()))
    };
    for counters in of.into_iter().flatten() {
        counters.add(Stat::QueueTime, between(times.routed, times.dequeued));
        counters.add(Stat::ConnectTime, between(times.dequeued, times.connected));
        counters.add(Stat::ResponseTime, 0); // not measured in mode tcp
        counters.add(Stat::TotalTime, session.age(now).into());
        counters.add(Stat::Timed, 1);
    }
}
