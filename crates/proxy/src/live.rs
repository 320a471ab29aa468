//! What threads share: the configuration, the state of servers, and counters.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use fulmar_balance::Group;
use fulmar_haproxy::{Backend, BackendId, Config, Frontend, Server};
use fulmar_tls::{ClientTls, ConfigError};

use crate::balancing;
use crate::checks::{LastCheck, Mailbox};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::gate::Wanting;
use crate::limit::Limit;
use crate::orders::{Order, Orders};
use crate::upstream::client_tls;
use crate::wakers::Wakers;

/// A configuration at work, shared by all threads of a process.
#[derive(Debug)]
pub struct Live {
    /// What it was made of.
    pub config: Config,
    /// As many as there are in the configuration, in its order.
    pub frontends: Vec<LiveFrontend>,
    /// As many as there are in the configuration, in its order.
    pub backends: Vec<LiveBackend>,
    /// How many threads work.
    pub threads: usize,
    /// One for each thread: what counters go by.
    pub clocks: Box<[Arc<Clock>]>,
    /// `maxconn`: clients' connections at a time, of the process.
    pub connections_max: Limit,
    /// `set rate-limit connections global`.
    pub connections_per_second_max: Limit,
    /// `set rate-limit sessions global`.
    pub sessions_per_second_max: Limit,
    /// One for each thread: what others ask of it.
    pub orders: Box<[Orders]>,
    began: OnceLock<Instant>, // when the first thread did
    /// How they rouse each other.
    pub wakers: Wakers,
    /// What they tell the thread that checks.
    pub checks: Mailbox,
}

/// A frontend at work.
#[derive(Debug)]
pub struct LiveFrontend {
    /// What it was made of.
    pub config: Arc<Frontend>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// For each bind, one for each thread.
    pub listeners: Vec<Box<[Counters]>>,
    /// `disable frontend`: nobody is accepted for now.
    pub paused: AtomicBool,
    /// `maxconn`: clients' connections at a time.
    pub connections_max: Limit,
    /// Who wants to hear of clients that leave.
    pub(crate) wanting: Wanting,
    /// `shutdown frontend`: nobody is accepted any more.
    pub stopped: AtomicBool,
}

/// A backend at work.
#[derive(Debug)]
pub struct LiveBackend {
    /// What it was made of.
    pub config: Arc<Backend>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// The state of its servers.
    pub group: Group,
    /// As many as there are in the configuration, in its order.
    pub servers: Vec<LiveServer>,
}

/// A server at work: its state is in the backend's group.
#[derive(Debug)]
pub struct LiveServer {
    /// What it was made of.
    pub config: Arc<Server>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// What connections to it share, if they are TLS. Where its files cannot be used nobody gets
    /// there; whoever starts the proxy should say so.
    pub tls: Option<Result<ClientTls, ConfigError>>,
    /// How its checks stand.
    pub check: LastCheck,
    /// Errors of its sessions in a row (`observe`).
    pub(crate) errors: AtomicU32,
}

impl Live {
    /// Nothing has happened yet.
    pub fn new(config: Config, threads: usize) -> Self {
        let clocks: Box<[Arc<Clock>]> = (0..threads).map(|_| Arc::default()).collect();
        let frontends = config.frontends.iter().map(|it| LiveFrontend::new(it, &clocks)).collect();
        let backends = (0..config.backends.len()).map(BackendId);
        let backends = backends.map(|id| LiveBackend::new(&config, id, &clocks)).collect();
        let (wakers, began) = (Wakers::default(), OnceLock::new());
        let checks = Mailbox::default();
        let orders = clocks.iter().map(|_| Orders::default()).collect();
        let connections_max = Limit::new(config.global.connections_max);
        let (connections_per_second_max, sessions_per_second_max) = Default::default();
        Self {
            config,
            frontends,
            backends,
            threads,
            wakers,
            checks,
            clocks,
            connections_max,
            connections_per_second_max,
            sessions_per_second_max,
            orders,
            began,
        }
    }

    /// A moment in milliseconds, as clocks and counters tell it: since the first thread began, from
    /// 1.
    pub fn millis(&self, now: Instant) -> u64 {
        let began = *self.began.get_or_init(|| now);
        let millis = now.saturating_duration_since(began).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Asks something of a thread.
    pub fn order(&self, thread: usize, order: Order) {
        if let Some(orders) = self.orders.get(thread) {
            orders.push(order);
            self.wakers.wake(thread);
        }
    }

    /// Every counter of one thread.
    pub fn counters(&self, thread: usize, mut each: impl FnMut(&Counters)) {
        for frontend in &self.frontends {
            let listeners = frontend.listeners.iter().map(|it| &it[thread]);
            listeners.chain([&frontend.counters[thread]]).for_each(&mut each);
        }
        for backend in &self.backends {
            let servers = backend.servers.iter().map(|it| &it.counters[thread]);
            servers.chain([&backend.counters[thread]]).for_each(&mut each);
        }
    }

    /// The backend with this name.
    pub fn backend_named(&self, name: &[u8]) -> Option<BackendId> {
        let at = self.backends.iter().position(|it| it.config.name.as_bytes() == name)?;
        Some(BackendId(at))
    }
}

impl LiveFrontend {
    fn new(config: &Arc<Frontend>, clocks: &[Arc<Clock>]) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            listeners: config.binds.iter().map(|_| counters(clocks)).collect(),
            paused: AtomicBool::new(false),
            connections_max: Limit::new(config.connections_max),
            wanting: Wanting::new(clocks.len()),
            stopped: AtomicBool::new(false),
        }
    }
}

impl LiveBackend {
    fn new(config: &Config, id: BackendId, clocks: &[Arc<Clock>]) -> Self {
        let group = balancing::group(config, id, clocks.len());
        let config = &config.backends[id.0];
        let servers = config.servers.iter();
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            group,
            servers: servers.map(|it| LiveServer::new(it, clocks)).collect(),
        }
    }
}

impl LiveServer {
    fn new(config: &Arc<Server>, clocks: &[Arc<Clock>]) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            tls: config.tls.as_ref().map(client_tls),
            check: LastCheck::default(),
            errors: AtomicU32::new(0),
        }
    }
}

fn counters(clocks: &[Arc<Clock>]) -> Box<[Counters]> {
    clocks.iter().map(|clock| Counters::new(Arc::clone(clock))).collect()
}
