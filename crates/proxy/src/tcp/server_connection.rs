//! The connection to a server: selection, slot, connect, and failures.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::balance::{NextWaiting, Placement, Wants};
use fulmar_haproxy::model::BalanceAlgorithm;
use fulmar_haproxy::rules::EvalContext;
use fulmar_haproxy::{BackendConfig, BackendId, ServerId};
use fulmar_proto::{Connection, Headers, RawConnection, Segment};

use super::TcpRelay;
use super::context::SessionContext;
use super::forward::{RelayConn, SessionWork, SideKind, release};
use super::session::TcpStage;
use super::termination_state::{EndCause, EndPhase, SessionEnd};
use crate::balancing::{hasher, redispatches, retry_delay, sample_hash};
use crate::checks::Observation;
use crate::counters::Stat;
use crate::queues::Queues;
use crate::shared::ThreadContext;
use crate::upstream::{Destination, ForwardedClient, is_exhaustion, tls_server_name};

impl TcpRelay {
    /// Begins the selection of a server.
    pub(super) fn begin_server_selection(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
    ) {
        let session = self.state.sessions.of_mut(number);
        session.times.routed = Some(session.age(now));
        self.select_server(now, shared, number, None);
    }

    /// Selects a server, or queues the session. `avoid`: the server of the failed attempt.
    fn select_server(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
        avoid: Option<ServerId>,
    ) {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of(number);
        let backend = session.backend.expect("a backend is selected before a server");
        let there = &live.backends[backend.0];
        let view = SessionContext::new(shared, session, now);
        let named = there.config.use_servers.iter().find(|(server, condition)| {
            there.group.members()[server.0].is_reachable() && condition.holds(&view)
        });
        let placement = match (named, avoid) {
            (Some((server, _)), None) => there.group.try_place_at(server.0),
            (_, avoid) => {
                let key = key(&there.config, &view);
                let avoid = avoid.as_ref().map_or(&[][..], |it| std::slice::from_ref(&it.0));
                there.group.try_place(&mut shared.pickers[backend.0], key, avoid)
            }
        };
        let is_bound = named.is_some() && avoid.is_none();
        self.state.sessions.of_mut(number).is_bound = is_bound;
        match placement {
            Placement::Placed(server) => {
                let counters = [&there.servers[server].counters, &there.counters];
                counters.iter().for_each(|it| it[shared.thread].add(Stat::Balanced, 1));
                self.handle_placed(now, shared, number, ServerId(server));
            }
            Placement::Wait(wants) => self.enqueue(now, shared, number, wants),
            Placement::QueueFull(_) => {
                self.fail(now, shared, number, EndCause::Server, EndPhase::Queue)
            }
            Placement::NoServer => {
                self.fail(now, shared, number, EndCause::Server, EndPhase::Connect)
            }
        }
    }

    /// The session has a slot of this server.
    fn handle_placed(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
        server: ServerId,
    ) {
        let session = self.state.sessions.of_mut(number);
        let backend = session.backend.expect("a backend is selected before a server");
        let there = &shared.live.backends[backend.0];
        debug_assert!(!session.has_slot, "the previous slot was released");
        session.target = Some(server);
        session.has_slot = true;
        let counters = &there.servers[server.0].counters[shared.thread];
        counters.add(Stat::Sessions, 1);
        session.times.dequeued = Some(session.age(now));
        self.connect(now, shared, number);
    }

    /// All servers are full: queues the session.
    fn enqueue(&mut self, now: Instant, shared: &ThreadContext, number: u32, wants: Wants) {
        let session = self.state.sessions.of_mut(number);
        let backend = session.backend.expect("a backend is selected before a server");
        let there = &shared.live.backends[backend.0];
        let queue = self.queues.of(backend.0).expect("the backend has this mode");
        debug_assert!(session.ticket.is_none(), "a session waits in one queue");
        session.stage = TcpStage::Queued;
        if session.pending.ended {
            self.state.work.push_back(SessionWork::Received(number));
        }
        session.queue_position = there.group.queued() + 1;
        let ticket = queue.push(&there.group, wants, number);
        session.ticket = Some(Box::new(ticket));
        there.counters[shared.thread].add(Stat::Queued, 1);
        let timeouts = &there.config.timeouts;
        let deadline = timeouts.queue.or(timeouts.connect).map(|after| now + after);
        self.set_timer(number, deadline);
        // A slot may have become free meanwhile.
        self.state.work.push_back(SessionWork::Free(backend.0));
    }

    /// Removes the session from the queue.
    pub(super) fn unqueue(&mut self, shared: &ThreadContext, number: u32) {
        let session = self.state.sessions.of_mut(number);
        let (Some(backend), Some(ticket)) = (session.backend, session.ticket.take()) else {
            return;
        };
        let there = &shared.live.backends[backend.0];
        let queue = self.queues.of(backend.0);
        if queue.and_then(|queue| queue.cancel(&there.group, *ticket)).is_some() {
            self.state.work.push_back(SessionWork::Free(backend.0)); // it may be next
        }
        there.counters[shared.thread].subtract(Stat::Queued, 1);
        self.set_timer(number, None);
    }

    /// Slots may have become free: assigns them in order of arrival.
    pub(super) fn serve_queue(&mut self, now: Instant, shared: &mut ThreadContext, backend: usize) {
        let live = Arc::clone(&shared.live);
        while let Some(queue) = self.queues.of(backend) {
            match queue.next(&live.backends[backend].group) {
                NextWaiting::Place { token, server } => {
                    self.unqueue(shared, token);
                    self.handle_placed(now, shared, token, ServerId(server));
                }
                NextWaiting::Wake(thread) => live.wake(thread, BackendId(backend)),
                NextWaiting::None => return,
            }
        }
    }

    /// Another thread has released slots, or a server became unusable.
    pub(super) fn serve_all_queues(&mut self, now: Instant, shared: &mut ThreadContext) {
        let live = Arc::clone(&shared.live);
        for backend in self.queues.woken(shared) {
            let group = &live.backends[backend].group;
            let unreachable =
                |queues: &mut Queues<u32>| queues.of(backend)?.take_unreachable(group);
            while let Some(number) = unreachable(&mut self.queues) {
                self.unqueue(shared, number);
                self.select_server(now, shared, number, None);
            }
            self.serve_queue(now, shared, backend);
        }
    }

    /// Releases the slot. Waiting sessions are served from the work queue, not from here: a session
    /// that fails would release its slot in turn, and recurse.
    pub(super) fn leave(&mut self, shared: &ThreadContext, number: u32) {
        let session = self.state.sessions.of_mut(number);
        if std::mem::take(&mut session.has_slot) {
            let (backend, target) = session.chosen();
            let there = &shared.live.backends[backend.0];
            there.group.leave(target.0);
            there.servers[target.0].counters[shared.thread].subtract(Stat::Sessions, 1);
            self.state.work.push_back(SessionWork::Free(backend.0));
        }
    }

    fn connect(&mut self, now: Instant, shared: &mut ThreadContext, number: u32) {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of_mut(number);
        let (backend, target) = session.chosen();
        debug_assert!(session.has_slot, "a session connects with a slot");
        session.stage = TcpStage::Connecting;
        if session.pending.ended {
            self.state.work.push_back(SessionWork::Received(number));
        }
        let pending = session.pending.share();
        let is_judged = !live.backends[backend.0].config.response_content_rules.is_empty();
        session.answer = is_judged.then(Box::default);
        let there = &live.backends[backend.0];
        let server = &there.servers[target.0];
        server.counters[shared.thread].add(Stat::SessionsTotal, 1);
        server.counters[shared.thread].add(Stat::ConnectsTried, 1);
        let address = there.group.members()[target.0].address();
        let destination = Destination { backend: &there.config, server, address };
        let view = SessionContext::new(shared, session, now);
        let name = server.config.tls.as_ref().and_then(|tls| tls_server_name(tls, &view));
        let tls = view.tls().map(|tls| tls.proxy_tlv());
        let client = ForwardedClient {
            source: session.source,
            destination: view.destination(),
            server_name: name.as_deref(),
            tls: tls.as_ref(),
        };
        let mut opening = match destination.open(client) {
            Ok(opening) => opening,
            Err(error) => return self.handle_connect_failure(now, shared, number, &error),
        };
        let mut connection = RawConnection::default();
        if opening.tls.is_none()
            && let Some(header) = opening.header.take()
        {
            // Sent together with the first bytes, in one packet. Nothing was sent before.
            let _ = connection.send_data(RawConnection::STREAM, Segment::Bytes(header));
        }
        // Refused only after its end, which was not sent.
        let _ = connection.send_data(RawConnection::STREAM, Segment::Bytes(pending));
        let (endpoint, layer) = opening.split();
        let socket = self.servers.connect(now, endpoint, layer, connection, RelayConn::new(number));
        self.servers.set_timeouts(socket, self.limits.of_server(backend.0));
        self.state.sessions.of_mut(number).server = Some(socket);
    }

    /// The server's connection was established: relaying begins.
    pub(super) fn handle_connected(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
    ) {
        let session = self.state.sessions.of_mut(number);
        session.stage = TcpStage::Relaying;
        session.times.connected = Some(session.age(now));
        session.pending.clear();
        let ended = session.pending.ended;
        let (client, server) = (session.client, session.server);
        let (backend, target) = session.chosen();
        let there = &shared.live.backends[backend.0];
        there.servers[target.0].counters[shared.thread].add(Stat::Connections, 1);
        shared.live.observe(backend, target.0, Observation::Connected);
        self.set_tunnel_timeout(shared, number);
        let server = server.expect("its connection was established");
        // It may have closed since.
        let Some((connection, _)) = self.servers.get_mut(server) else { return };
        let full = connection.room(RawConnection::STREAM) == 0;
        if ended {
            let _ = connection.send_end(RawConnection::STREAM, Headers::EMPTY);
            self.handle_ended(now, shared, number, SideKind::Client);
        }
        let (servers, mut handler) = self.side_of(SideKind::Server);
        servers.touch(now, server, &mut handler);
        if let Some(client) = client.filter(|_| !full) {
            let (clients, mut handler) = self.side_of(SideKind::Client);
            release(now, clients, client, &mut handler);
        }
        if self.early_lines[self.state.sessions.of(number).bind.frontend] {
            self.log(now, shared, number);
        }
        self.begin_response_rules(now, shared, number);
    }

    /// The connection failed: retries with the same or another server (HAProxy's manual, `retries`,
    /// `option redispatch`).
    pub(super) fn handle_connect_failure(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
        error: &io::Error,
    ) {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of_mut(number);
        let (backend, target) = session.chosen();
        session.server = None;
        let there = &live.backends[backend.0];
        let counters =
            [&there.counters[shared.thread], &there.servers[target.0].counters[shared.thread]];
        let late = error.kind() == io::ErrorKind::TimedOut;
        if !is_exhaustion(error) {
            live.observe(backend, target.0, Observation::Unconnected);
        }
        if session.retries >= there.config.retries {
            counters.iter().for_each(|it| it.add(Stat::ConnectErrors, 1));
            let by = match late {
                true => EndCause::ServerTimeout,
                false if is_exhaustion(error) => EndCause::Resources,
                false => EndCause::Server,
            };
            return self.fail(now, shared, number, by, EndPhase::Connect);
        }
        session.retries += 1;
        if redispatches(there, target.0, session.retries, session.is_bound) {
            session.redispatched = true;
            counters.iter().for_each(|it| it.add(Stat::Redispatches, 1));
            self.leave(shared, number);
            return self.select_server(now, shared, number, Some(target));
        }
        counters.iter().for_each(|it| it.add(Stat::Retries, 1));
        if late {
            return self.connect(now, shared, number);
        }
        // An immediate attempt would fail again.
        session.stage = TcpStage::Pausing;
        self.set_timer(number, Some(now + retry_delay(&there.config)));
    }

    /// The session's timer has expired; its meaning depends on the stage.
    pub(super) fn handle_session_timer(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
    ) {
        let session = self.state.sessions.of(number);
        match session.stage {
            TcpStage::Inspecting(_) => self.inspect(now, shared, number),
            TcpStage::Queued => {
                self.unqueue(shared, number);
                let session = self.state.sessions.of_mut(number);
                session.times.dequeued = Some(session.age(now));
                self.fail(now, shared, number, EndCause::ServerTimeout, EndPhase::Queue);
            }
            TcpStage::Pausing => self.connect(now, shared, number),
            TcpStage::Relaying => self.run_response_rules(now, shared, number),
            TcpStage::Opening | TcpStage::Connecting | TcpStage::Over => {}
        }
    }

    /// Gives up: no server for this client.
    fn fail(
        &mut self,
        now: Instant,
        shared: &ThreadContext,
        number: u32,
        by: EndCause,
        when: EndPhase,
    ) {
        let session = self.state.sessions.of_mut(number);
        session.end(SessionEnd { by, when });
        if let Some(backend) = session.backend.filter(|_| session.target.is_none()) {
            let counters = &shared.live.backends[backend.0].counters[shared.thread];
            counters.add(Stat::ConnectErrors, 1);
        }
        self.cut_client(now, number);
    }

    pub(super) fn set_timer(&mut self, number: u32, deadline: Option<Instant>) {
        if let Some(client) = self.state.sessions.of(number).client {
            self.clients.set_timer(client, deadline);
        }
    }
}

/// The key of the backend's algorithm, if it uses one.
fn key(backend: &BackendConfig, view: &SessionContext<'_>) -> Option<u32> {
    let hasher = hasher(backend);
    match &backend.algorithm {
        BalanceAlgorithm::Source => Some(hasher.address(view.source()?.ip())),
        BalanceAlgorithm::Hash(expression) => {
            expression.evaluate(view).map(|value| sample_hash(hasher, &value))
        }
        BalanceAlgorithm::RoundRobin
        | BalanceAlgorithm::StaticRoundRobin
        | BalanceAlgorithm::LeastConnections
        | BalanceAlgorithm::First
        | BalanceAlgorithm::Random { .. } => None,
        // These need a request, which a TCP session does not have.
        BalanceAlgorithm::Uri { .. }
        | BalanceAlgorithm::UrlParameter(_)
        | BalanceAlgorithm::Field { .. } => None,
    }
}
