//! Assignment of servers: load balancing, slots, and queues.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::balance::hash::{domain_part, uri_part};
use crate::balance::{NextWaiting, Placement, Wants};
use fulmar_engine::Exchange as ExchangeId;
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::BalanceAlgorithm;
use fulmar_haproxy::rules::{parts, path_and_query_of};

use crate::balancing::{hasher, sample_hash};
use crate::counters::{Counters, Stat};
use crate::http::attempts::GivenUp;
use crate::http::client_events::{ClientEntry, ClientEvents, of};
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, ExchangeStage, HttpExchange};
use crate::http::exchange_counters;
use crate::http::server_conn::ConnectionUsers;
use crate::http::session::HttpSession;
use crate::http::state::DeferredAction;
use crate::live::LiveBackend;
use crate::shared::ThreadContext;

impl ClientEvents<'_> {
    /// Assigns a server to an exchange with a known backend, or queues it.
    pub(super) fn assign_server(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>) {
        let (connection, session) = client;
        let key = self.key(now, session, id);
        let last = self.last(session).filter(|_| key.is_none());
        let Some(exchange) = of(session, id.stream) else { return };
        let backend = exchange.selected_backend();
        if exchange.has_place {
            // Another attempt at the same server.
            return self.send_to_server(now, id, (connection, session));
        }
        exchange.times.routed.get_or_insert(now);
        let live = &self.shared.live.backends[backend];
        let picker = &mut self.shared.pickers[backend];
        let mut placement = match exchange.bound {
            Some(server) => live.group.try_place_at(server),
            None => match last.map(|server| live.group.try_place_at(server)) {
                Some(placed @ Placement::Placed(_)) => placed,
                _ => live.group.try_place(picker, key, &exchange.avoided()),
            },
        };
        if matches!(placement, Placement::NoServer) && exchange.bound.take().is_some() {
            placement = live.group.try_place(picker, key, &exchange.avoided());
        }
        // Rehashing would pick the same full server, so exclude it.
        if let Placement::QueueFull(server) = placement
            && live.config.options.redispatch != 0
            && exchange.bound.take().is_some()
        {
            placement = live.group.try_place(picker, key, &[server]);
        }
        match placement {
            Placement::Placed(server) => {
                exchange.place_at(now, server);
                if exchange.bound.is_none() {
                    live.counters[self.shared.thread].add(Stat::Balanced, 1);
                    live.servers[server].counters[self.shared.thread].add(Stat::Balanced, 1);
                }
                self.placed(backend, server);
                self.send_to_server(now, id, (connection, session));
            }
            Placement::Wait(wants) => self.wait(now, id, exchange, wants),
            nowhere @ (Placement::QueueFull(_) | Placement::NoServer) => {
                live.counters[self.shared.thread].add(Stat::ConnectErrors, 1);
                let what = if nowhere == Placement::NoServer { b'C' } else { b'Q' };
                self.answer(now, id, (connection, session), 503, EndLetters(b'S', what));
            }
        }
    }

    /// The server of the client's private connection, if the exchange has to reuse it: the
    /// connection is authenticated (NTLM), or `option prefer-last-server` is set.
    fn last(&self, session: &HttpSession) -> Option<usize> {
        let own = session.rare.as_ref()?.own?;
        let (_, conn) = self.servers.get(own)?;
        let (backend, server) = conn.place();
        let is_there = session.exchange.as_ref()?.backend == Some(BackendId(backend));
        let prefers = self.shared.live.backends[backend].config.options.prefer_last_server;
        ((prefers || conn.users == ConnectionUsers::Authenticated) && is_there).then_some(server)
    }

    /// Counts an exchange that got a slot of a server.
    fn placed(&self, backend: usize, server: usize) {
        let live = &self.shared.live.backends[backend];
        let counters = &live.servers[server].counters[self.shared.thread];
        counters.add(Stat::Sessions, 1);
    }

    /// Queues the exchange.
    fn wait(&mut self, now: Instant, id: ExchangeId, exchange: &mut HttpExchange, wants: Wants) {
        let backend = exchange.selected_backend();
        let live = &self.shared.live.backends[backend];
        let queue = self.state.queues.of(backend).expect("the backend has this mode");
        debug_assert!(exchange.ticket.is_none(), "an exchange waits in one queue");
        exchange.stage = ExchangeStage::Queued;
        exchange.ticket = Some(queue.push(&live.group, wants, id));
        exchange.line = Some((wants, live.served(wants).load(Ordering::Relaxed)));
        counters(self.shared, live, wants).for_each(|it| it.add(Stat::Queued, 1));
        let timeouts = &live.config.timeouts;
        if let Some(after) = timeouts.queue.or(timeouts.connect) {
            self.state.defer(DeferredAction::Timer(id.socket, Some(now + after)));
        }
        let server = match wants {
            Wants::Any => None,
            Wants::Server(server) => Some(server),
        };
        self.state.defer(DeferredAction::Serve(backend, server));
    }

    /// The exchange has exceeded the queue timeout.
    pub(super) fn queue_timeout(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>) {
        let (connection, session) = client;
        let exchange = of(session, id.stream).expect("it is queued");
        exchange_counters::back(self.shared, exchange)
            .for_each(|it| it.add(Stat::ConnectErrors, 1));
        exchange.given_up = GivenUp::Queue;
        self.answer(now, id, (connection, session), 503, EndLetters(b's', b'Q'));
    }

    /// A waiting exchange gets a slot; false if it does not exist any more.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
        server: usize,
    ) -> bool {
        let (connection, session) = client;
        let Some(exchange) = of(session, id.stream) else { return false };
        let backend = exchange.selected_backend();
        let live = &self.shared.live.backends[backend];
        if let Some(wants) = exchange.leave_queue(self.shared) {
            live.served(wants).fetch_add(1, Ordering::Relaxed);
        }
        exchange.ticket = None;
        exchange.stage = ExchangeStage::Routing;
        exchange.place_at(now, server);
        self.placed(backend, server);
        self.state.defer(DeferredAction::Timer(id.socket, None));
        self.send_to_server(now, id, (connection, session));
        true
    }

    /// The next waiting exchange, for one server or for any.
    pub(super) fn next(
        &mut self,
        backend: usize,
        server: Option<usize>,
    ) -> Option<(ExchangeId, usize)> {
        let group = &self.shared.live.backends[backend].group;
        let queue = self.state.queues.of(backend)?;
        loop {
            let next = match server {
                Some(server) => queue.next_for(group, server),
                None => queue.next(group),
            };
            match next {
                NextWaiting::Place { token, server } => return Some((token, server)),
                NextWaiting::Wake(thread) => self.shared.live.wake(thread, BackendId(backend)),
                NextWaiting::None => return None,
            }
        }
    }

    /// The key of the backend's algorithm, if it uses one.
    fn key(&self, now: Instant, session: &mut HttpSession, id: ExchangeId) -> Option<u32> {
        let of_backend = session.exchange.as_ref()?.backend?;
        let backend = &self.shared.live.backends[of_backend.0].config;
        if let BalanceAlgorithm::Hash(expression) = &backend.algorithm {
            let mut exchange = session.exchange.take()?;
            let view = ExchangeView { now, shared: self.shared, session, exchange: &mut exchange };
            let key = expression.evaluate(&view).map(|value| sample_hash(hasher(backend), &value));
            session.exchange = Some(exchange);
            return key;
        }
        let exchange = session.exchange.as_deref().filter(|it| it.stream == id.stream)?;
        let hash = |key: &[u8]| Some(hasher(backend).key(key));
        let target = &exchange.request.target[..];
        match &backend.algorithm {
            BalanceAlgorithm::Source => {
                let source = exchange.source.or_else(|| session.source());
                source.map(|source| hasher(backend).address(source.ip()))
            }
            BalanceAlgorithm::Uri { whole, len, depth, path_only } => {
                let path = path_and_query_of(target).filter(|_| *path_only);
                let target = path.unwrap_or(target);
                hash(uri_part(target, *whole, *len, *depth))
            }
            BalanceAlgorithm::UrlParameter(name) => hash(parameter(target, name.as_bytes())?),
            BalanceAlgorithm::Field { name, domain_only } => {
                let value = first_of(exchange.request.fields.as_headers().get_all(name))?;
                hash(if *domain_only { domain_part(value) } else { value })
            }
            BalanceAlgorithm::RoundRobin
            | BalanceAlgorithm::StaticRoundRobin
            | BalanceAlgorithm::LeastConnections
            | BalanceAlgorithm::First
            | BalanceAlgorithm::Random { .. } => None,
            BalanceAlgorithm::Hash(_) => unreachable!("its expression is evaluated above"),
        }
    }
}

impl HttpExchange {
    /// Sets its server.
    fn place_at(&mut self, now: Instant, server: usize) {
        debug_assert!(!self.has_place, "the previous slot was released");
        self.server = Some(server);
        self.has_place = true;
        self.times.assigned = Some(now);
    }

    /// Removes it from the statistics of its queue, and adds its position as HAProxy counts it (its
    /// manual, `%bq`): the number of exchanges served while it waited, plus one.
    pub(super) fn leave_queue(&mut self, shared: &ThreadContext) -> Option<Wants> {
        let (wants, before) = self.line.take()?;
        let backend = &shared.live.backends[self.backend?.0];
        counters(shared, backend, wants).for_each(|it| it.subtract(Stat::Queued, 1));
        let turn = backend.served(wants).load(Ordering::Relaxed) - before + 1;
        match wants {
            Wants::Any => self.turns.0 += turn,
            Wants::Server(_) => self.turns.1 += turn,
        }
        self.times.assigned = shared.now();
        Some(wants)
    }
}

/// The counters of a queue: of the backend, and of the server if it waits for that one.
fn counters<'a>(
    shared: &ThreadContext,
    backend: &'a LiveBackend,
    wants: Wants,
) -> impl Iterator<Item = &'a Counters> {
    let server = match wants {
        Wants::Any => None,
        Wants::Server(server) => Some(&backend.servers[server].counters),
    };
    let thread = shared.thread;
    [Some(&backend.counters), server].into_iter().flatten().map(move |all| &all[thread])
}

/// The first value of a list, in a field that may occur several times.
fn first_of<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    fields.find_map(|field| parts(field, b",").next().filter(|value| !value.is_empty()))
}

/// The first value of a parameter of the query.
fn parameter<'a>(target: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let start = target.iter().position(|b| *b == b'?')? + 1;
    let pairs = target[start..].split(|b| *b == b'&');
    pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"=")).next()
}
