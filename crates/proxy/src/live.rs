//! What threads share: the configuration, the state of servers, and counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crate::balance::{ServerGroup, Wants};
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::{BackendConfig, BackendId, Config, FrontendConfig, ServerConfig};
use fulmar_proto::PipeCounts;
use fulmar_tls::{ClientTls, ConfigError};

use crate::balancing;
use crate::checks::{CheckPlace, LastCheck, Mailbox};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::following::{self, Followers};
use crate::gate::Wanting;
use crate::limit::Limit;
use crate::malformed::LastMalformed;
use crate::orders::{Order, Orders};
use crate::shortage::Shortage;
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
    names: HashMap<Box<[u8]>, BackendId>, // of backends
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
    /// One for each thread: the pipes that it has.
    pub pipes: Box<[Arc<PipeCounts>]>,
    /// One for each thread: what others ask of it.
    pub orders: Box<[Orders]>,
    began: OnceLock<Instant>, // when the first thread did
    variables: RwLock<Vec<(String, Sample<'static>)>>, // of the process
    /// One for each thread: clients of all frontends together, as far as limits and rates of the
    /// process ask (`Connections`, `SessionsTotal`, `Sessions`).
    pub totals: Box<[Counters]>,
    /// How they rouse each other.
    pub wakers: Wakers,
    /// Who wants to hear of any client that leaves.
    pub(crate) wanting: Wanting,
    /// Who follows whom (`track`).
    pub(crate) followers: Followers,
    woken: Box<[Mutex<Vec<usize>>]>, // by thread: backends whose waiters it is to look after
    revision: AtomicU64,             // of what operators decide about who may come in
    malformed: AtomicU32,            // messages that were no HTTP
    sheds: AtomicU64,                // how often sessions of a server were to be shut down
    /// What they tell the thread that checks.
    pub checks: Mailbox,
}

/// A frontend at work.
#[derive(Debug)]
pub struct LiveFrontend {
    /// What it was made of.
    pub config: Arc<FrontendConfig>,
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
    /// The last request that was no HTTP.
    pub malformed: LastMalformed,
    /// When it was told that nobody can be accepted.
    pub(crate) shortage: Shortage,
}

/// A backend at work.
#[derive(Debug)]
pub struct LiveBackend {
    /// What it was made of.
    pub config: Arc<BackendConfig>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// The state of its servers.
    pub group: ServerGroup,
    /// From so many sessions on its servers have all of their places: `fullconn`, as it was at the
    /// start.
    pub connections_full: usize,
    /// How many have waited for a place at any server, and were given one.
    pub(crate) served: AtomicU64,
    /// As many as there are in the configuration, in its order.
    pub servers: Vec<LiveServer>,
    /// The last response that was no HTTP.
    pub malformed: LastMalformed,
}

/// A server at work: its state is in the backend's group.
#[derive(Debug)]
pub struct LiveServer {
    /// What it was made of.
    pub config: Arc<ServerConfig>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// What connections to it share, if they are TLS. Where its files cannot be used nobody gets
    /// there; whoever starts the proxy should say so.
    pub tls: Option<Result<ClientTls, ConfigError>>,
    /// How its checks stand.
    pub check: LastCheck,
    /// Where they go.
    pub check_place: CheckPlace,
    /// How many have waited for a place at this server alone, and were given one.
    pub(crate) served: AtomicU64,
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
        let variables = config.global.variables.iter();
        let variables = variables.map(|(name, value)| (name.to_string(), value.clone()));
        let variables = RwLock::new(variables.collect());
        let names = config.backends.iter().enumerate().rev(); // of equal ones the first
        let names = names.map(|(at, it)| (it.name.as_bytes().into(), BackendId(at))).collect();
        let followers = following::followers(&config);
        Self {
            config,
            followers,
            frontends,
            backends,
            names,
            threads,
            wakers,
            checks,
            connections_max,
            connections_per_second_max,
            sessions_per_second_max,
            orders,
            began,
            variables,
            totals: counters(&clocks),
            wanting: Wanting::new(threads),
            woken: (0..threads).map(|_| Mutex::default()).collect(),
            revision: AtomicU64::new(0),
            malformed: AtomicU32::new(0),
            sheds: AtomicU64::new(0),
            pipes: (0..threads).map(|_| Arc::default()).collect(),
            clocks,
        }
    }

    /// A moment in milliseconds, as clocks and counters tell it: since the first thread began, from
    /// 1.
    pub fn millis(&self, now: Instant) -> u64 {
        let began = *self.began.get_or_init(|| now);
        let millis = now.saturating_duration_since(began).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// A variable of the process.
    pub fn variable(&self, name: &str) -> Option<Sample<'static>> {
        let all = self.variables.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// Sets a variable of the process, for all threads; or takes it away. Rules of the
    /// configuration name them, so that they are few.
    pub fn set_variable(&self, name: &str, value: Option<Sample<'static>>) {
        let mut all = self.variables.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| known != name);
        all.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Wakes a thread that is to look after waiters of a backend: its alarm has been set
    /// ([`crate::balance::ServerGroup::waiters`], [`crate::balance::NextWaiting::Wake`]).
    pub fn rouse(&self, thread: usize, backend: BackendId) {
        if let Some(woken) = self.woken.get(thread) {
            woken.lock().unwrap_or_else(PoisonError::into_inner).push(backend.0);
            self.wakers.wake(thread);
        }
    }

    /// The backends that a thread was woken for. Each stands there once for each alarm that was
    /// set, so not more often than the thread has lines.
    pub(crate) fn take_woken(&self, thread: usize) -> Vec<usize> {
        let mut woken = self.woken[thread].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *woken)
    }

    /// Wakes all threads, because an operator has decided who may come in: limits, frontends.
    pub fn announce(&self) {
        self.revision.fetch_add(1, Ordering::Release);
        self.wakers.wake_all();
    }

    /// Grows with every [`Live::announce`].
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Wakes all threads, because sessions of some server are to be shut down.
    pub(crate) fn announce_shed(&self) {
        self.sheds.fetch_add(1, Ordering::Release);
        self.wakers.wake_all();
    }

    /// How often that was.
    pub(crate) fn sheds(&self) -> u64 {
        self.sheds.load(Ordering::Acquire)
    }

    /// How many messages were no HTTP.
    pub fn malformed(&self) -> u32 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// There is one more; how many there were before.
    pub(crate) fn count_malformed(&self) -> u32 {
        self.malformed.fetch_add(1, Ordering::Relaxed)
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
        each(&self.totals[thread]);
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
        self.names.get(name).copied()
    }
}

impl LiveFrontend {
    fn new(config: &Arc<FrontendConfig>, clocks: &[Arc<Clock>]) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            listeners: config.binds.iter().map(|_| counters(clocks)).collect(),
            paused: AtomicBool::new(false),
            connections_max: Limit::new(config.connections_max),
            wanting: Wanting::new(clocks.len()),
            stopped: AtomicBool::new(false),
            malformed: LastMalformed::default(),
            shortage: Shortage::default(),
        }
    }
}

impl LiveBackend {
    /// How many have waited in this line, and were given a place.
    pub(crate) fn served(&self, wants: Wants) -> &AtomicU64 {
        match wants {
            Wants::Any => &self.served,
            Wants::Server(server) => &self.servers[server].served,
        }
    }

    fn new(config: &Config, id: BackendId, clocks: &[Arc<Clock>]) -> Self {
        let connections_full = balancing::connections_full(config, id);
        let config = &config.backends[id.0];
        let group = balancing::group(config, connections_full, clocks.len());
        let servers = config.servers.iter();
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            group,
            connections_full,
            served: AtomicU64::new(0),
            servers: servers.map(|it| LiveServer::new(it, clocks)).collect(),
            malformed: LastMalformed::default(),
        }
    }
}

impl LiveServer {
    fn new(config: &Arc<ServerConfig>, clocks: &[Arc<Clock>]) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            tls: config.tls.as_ref().map(client_tls),
            check: LastCheck::default(),
            check_place: CheckPlace::new(config.check.as_ref()),
            served: AtomicU64::new(0),
            errors: AtomicU32::new(0),
        }
    }
}

fn counters(clocks: &[Arc<Clock>]) -> Box<[Counters]> {
    clocks.iter().map(|clock| Counters::new(Arc::clone(clock))).collect()
}
