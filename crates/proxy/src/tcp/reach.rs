//! The way to a server: which one, a place at it, a connection, and what is done if there is none.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::balance::{NextWaiting, Placement, Wants};
use fulmar_haproxy::model::BalanceAlgorithm;
use fulmar_haproxy::rules::{EvalContext, Sample};
use fulmar_haproxy::{BackendConfig, BackendId, ServerId};
use fulmar_proto::{Connection, Headers, RawConnection, Segment};

use super::Tcp;
use super::across::{Seat, Way, Work, release};
use super::ending::{By, Ending, When};
use super::session::Stage;
use super::subject::View;
use crate::balancing::{hasher, redispatches};
use crate::checks::Observation;
use crate::counters::Counter;
use crate::queues::Queues;
use crate::shared::Shared;
use crate::upstream::{Client, Destination, is_exhaustion};

impl Tcp {
    /// A server is to be chosen.
    pub(super) fn begin_to_reach(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.times.routed = Some(session.age(now));
        self.choose(now, shared, number, None);
    }

    /// Brings a session to a server, or has it wait for one. `avoid`: the last one failed.
    fn choose(&mut self, now: Instant, shared: &mut Shared, number: u32, avoid: Option<ServerId>) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get(number) else { return };
        let Some(backend) = session.backend else { return };
        let there = &live.backends[backend.0];
        let view = View::new(shared, session, now);
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
        if let Some(session) = self.desk.sessions.get_mut(number) {
            session.is_bound = is_bound;
        }
        match placement {
            Placement::Placed(server) => {
                let counters = [&there.servers[server].counters, &there.counters];
                counters.iter().for_each(|it| it[shared.thread].add(Counter::Balanced, 1));
                self.handle_placed(now, shared, number, ServerId(server));
            }
            Placement::Wait(wants) => self.wait_for_place(now, shared, number, wants),
            Placement::Crowded(_) => self.fail(now, shared, number, By::Server, When::Queue),
            Placement::Nobody => self.fail(now, shared, number, By::Server, When::Connect),
        }
    }

    /// It has a place at this server.
    fn handle_placed(&mut self, now: Instant, shared: &mut Shared, number: u32, server: ServerId) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let Some(backend) = session.backend else { return };
        let there = &shared.live.backends[backend.0];
        session.target = Some(server);
        session.seated = true;
        let counters = &there.servers[server.0].counters[shared.thread];
        counters.add(Counter::Sessions, 1);
        session.times.dequeued = Some(session.age(now));
        self.connect(now, shared, number);
    }

    /// All servers are full: it waits for a place.
    fn wait_for_place(&mut self, now: Instant, shared: &Shared, number: u32, wants: Wants) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let Some(backend) = session.backend else { return };
        let there = &shared.live.backends[backend.0];
        let Some(queue) = self.queues.of(backend.0) else { return };
        session.stage = Stage::Queued;
        if session.pending.ended {
            self.desk.work.push_back(Work::Heard(number));
        }
        session.queue_position = there.group.queued() + 1;
        let ticket = queue.push(&there.group, wants, number);
        session.ticket = Some(Box::new(ticket));
        there.counters[shared.thread].add(Counter::Queued, 1);
        let timeouts = &there.config.timeouts;
        let deadline = timeouts.queue.or(timeouts.connect).map(|after| now + after);
        self.set_timer(number, deadline);
        self.desk.work.push_back(Work::Free(backend.0)); // a place may have become free meanwhile
    }

    /// It does not wait any more: it has a place, or has given up.
    pub(super) fn unqueue(&mut self, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (Some(backend), Some(ticket)) = (session.backend, session.ticket.take()) else {
            return;
        };
        let there = &shared.live.backends[backend.0];
        let queue = self.queues.of(backend.0);
        if queue.and_then(|queue| queue.cancel(&there.group, *ticket)).is_some() {
            self.desk.work.push_back(Work::Free(backend.0)); // it may have been its turn
        }
        there.counters[shared.thread].subtract(Counter::Queued, 1);
        self.set_timer(number, None);
    }

    /// Places may have become free: whoever waits longest gets one.
    pub(super) fn serve_queue(&mut self, now: Instant, shared: &mut Shared, backend: usize) {
        let live = Arc::clone(&shared.live);
        while let Some(queue) = self.queues.of(backend) {
            match queue.next(&live.backends[backend].group) {
                NextWaiting::Place { token, server } => {
                    self.unqueue(shared, token);
                    self.handle_placed(now, shared, token, ServerId(server));
                }
                NextWaiting::Wake(thread) => live.rouse(thread, BackendId(backend)),
                NextWaiting::Nobody => return,
            }
        }
    }

    /// Another thread has made room, or a server was taken from those who wait for it.
    pub(super) fn serve_all_queues(&mut self, now: Instant, shared: &mut Shared) {
        let live = Arc::clone(&shared.live);
        for backend in self.queues.woken(shared) {
            let group = &live.backends[backend].group;
            let unreachable =
                |queues: &mut Queues<u32>| queues.of(backend)?.take_unreachable(group);
            while let Some(number) = unreachable(&mut self.queues) {
                self.unqueue(shared, number);
                self.choose(now, shared, number, None);
            }
            self.serve_queue(now, shared, backend);
        }
    }

    /// Gives the place at the server back. Who waits for one has it a little later: whoever cannot
    /// go there either gives it back in turn, and a queue is not a stack.
    pub(super) fn leave(&mut self, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (Some(backend), Some(target)) = (session.backend, session.target) else { return };
        if std::mem::take(&mut session.seated) {
            let there = &shared.live.backends[backend.0];
            there.group.leave(target.0);
            there.servers[target.0].counters[shared.thread].subtract(Counter::Sessions, 1);
            self.desk.work.push_back(Work::Free(backend.0));
        }
    }

    fn connect(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (Some(backend), Some(target)) = (session.backend, session.target) else { return };
        session.stage = Stage::Connecting;
        if session.pending.ended {
            self.desk.work.push_back(Work::Heard(number));
        }
        let pending = session.pending.share();
        let is_judged = !live.backends[backend.0].config.response_content_rules.is_empty();
        session.answer = is_judged.then(Box::default);
        let there = &live.backends[backend.0];
        let server = &there.servers[target.0];
        server.counters[shared.thread].add(Counter::SessionsTotal, 1);
        server.counters[shared.thread].add(Counter::ConnectsTried, 1);
        let address = there.group.members()[target.0].address();
        let destination = Destination { backend: &there.config, server, address };
        let view = View::new(shared, session, now);
        let name = server.config.tls.as_ref().and_then(|tls| view.server_name(tls));
        let tls = view.tls().map(|tls| tls.told());
        let client = Client {
            source: session.source,
            destination: view.destination(),
            server_name: name.as_deref(),
            tls: tls.as_ref(),
        };
        let mut opening = match destination.open(client) {
            Ok(opening) => opening,
            Err(error) => return self.handle_unreached(now, shared, number, &error),
        };
        let mut connection = RawConnection::default();
        if opening.tls.is_none()
            && let Some(header) = opening.header.take()
        {
            // With the first bytes, in one packet. Nothing was said before that.
            let _ = connection.send_data(RawConnection::STREAM, Segment::Bytes(header));
        }
        // Refused only after its end, which has not been said.
        let _ = connection.send_data(RawConnection::STREAM, Segment::Bytes(pending));
        let (endpoint, layer) = opening.split();
        let socket = self.servers.connect(now, endpoint, layer, connection, Seat::new(number));
        self.servers.set_timeouts(socket, self.limits.of_server(backend.0));
        if let Some(session) = self.desk.sessions.get_mut(number) {
            session.server = Some(socket);
        }
    }

    /// The server's connection stands: bytes pass from now on.
    pub(super) fn handle_reached(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.stage = Stage::Relaying;
        session.times.connected = Some(session.age(now));
        session.pending.clear();
        let ended = session.pending.ended;
        let (client, server) = (session.client, session.server);
        if let (Some(backend), Some(target)) = (session.backend, session.target) {
            let there = &shared.live.backends[backend.0];
            there.servers[target.0].counters[shared.thread].add(Counter::Connections, 1);
            shared.live.observe(backend, target.0, Observation::Connected);
        }
        self.begin_to_relay(shared, number);
        let Some(server) = server else { return };
        let Some((connection, _)) = self.servers.get_mut(server) else { return };
        let full = connection.room(RawConnection::STREAM) == 0;
        if ended {
            let _ = connection.send_end(RawConnection::STREAM, Headers::EMPTY);
            self.handle_ended(now, shared, number, Way::Client);
        }
        let (servers, mut across) = self.side_of(Way::Server);
        servers.touch(now, server, &mut across);
        if let Some(client) = client.filter(|_| !full) {
            let (clients, mut across) = self.side_of(Way::Client);
            release(now, clients, client, &mut across);
        }
        let frontend = self.desk.sessions.get(number).map(|session| session.bind.frontend);
        if frontend.is_some_and(|frontend| self.early_lines[frontend]) {
            self.log(now, shared, number);
        }
        self.begin_to_judge(now, shared, number);
    }

    /// The server could not be reached: perhaps again, perhaps another one (HAProxy's manual,
    /// `retries`, `option redispatch`).
    pub(super) fn handle_unreached(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        number: u32,
        error: &io::Error,
    ) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let (Some(backend), Some(target)) = (session.backend, session.target) else { return };
        session.server = None;
        let there = &live.backends[backend.0];
        let counters =
            [&there.counters[shared.thread], &there.servers[target.0].counters[shared.thread]];
        let late = error.kind() == io::ErrorKind::TimedOut;
        if !is_exhaustion(error) {
            live.observe(backend, target.0, Observation::Unconnected);
        }
        if session.retries >= there.config.retries {
            counters.iter().for_each(|it| it.add(Counter::ConnectErrors, 1));
            let by = match late {
                true => By::ServerTimeout,
                false if is_exhaustion(error) => By::Resources,
                false => By::Server,
            };
            return self.fail(now, shared, number, by, When::Connect);
        }
        session.retries += 1;
        if redispatches(there, target.0, session.retries, session.is_bound) {
            session.redispatched = true;
            counters.iter().for_each(|it| it.add(Counter::Redispatches, 1));
            self.leave(shared, number);
            return self.choose(now, shared, number, Some(target));
        }
        counters.iter().for_each(|it| it.add(Counter::Retries, 1));
        if late {
            return self.connect(now, shared, number);
        }
        // It would fail again at once.
        session.stage = Stage::Pausing;
        let pause = there.config.timeouts.connect.map_or(PAUSE, |connect| connect.min(PAUSE));
        self.set_timer(number, Some(now + pause));
    }

    /// The time of a session has come: what it is depends on what it waits for.
    pub(super) fn handle_session_timer(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get(number) else { return };
        match session.stage {
            Stage::Inspecting(_) => self.inspect(now, shared, number),
            Stage::Queued => {
                self.unqueue(shared, number);
                if let Some(session) = self.desk.sessions.get_mut(number) {
                    session.times.dequeued = Some(session.age(now));
                }
                self.fail(now, shared, number, By::ServerTimeout, When::Queue);
            }
            Stage::Pausing => self.connect(now, shared, number),
            Stage::Relaying => self.judge(now, shared, number),
            Stage::Opening | Stage::Connecting | Stage::Over => {}
        }
    }

    /// No server for this client.
    fn fail(&mut self, now: Instant, shared: &Shared, number: u32, by: By, when: When) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.end(Ending { by, when });
        if let Some(backend) = session.backend.filter(|_| session.target.is_none()) {
            let counters = &shared.live.backends[backend.0].counters[shared.thread];
            counters.add(Counter::ConnectErrors, 1);
        }
        self.cut_client(now, number);
    }

    pub(super) fn set_timer(&mut self, number: u32, deadline: Option<Instant>) {
        if let Some(client) = self.desk.sessions.get(number).and_then(|session| session.client) {
            self.clients.set_timer(client, deadline);
        }
    }
}

/// What the backend's way of choosing goes by, if it goes by something.
fn key(backend: &BackendConfig, view: &View<'_>) -> Option<u32> {
    let hasher = hasher(backend);
    match &backend.algorithm {
        BalanceAlgorithm::Source => Some(hasher.address(view.source()?.ip())),
        BalanceAlgorithm::Hash(expression) => {
            let mut text = Vec::new();
            match expression.evaluate(view)? {
                Sample::Text(bytes) | Sample::Binary(bytes) => text.extend_from_slice(&bytes),
                Sample::Int(number) => text.extend_from_slice(number.to_string().as_bytes()),
                Sample::Bool(is) => text.push(is.into()),
                Sample::Address(address) => return Some(hasher.address(address)),
            }
            Some(hasher.key(&text))
        }
        _ => None,
    }
}

/// Before the same server is asked again (HAProxy's manual, `retries`).
const PAUSE: Duration = Duration::from_secs(1);
