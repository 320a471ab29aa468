//! The state that threads share: the configuration, the state of servers, and counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crate::balance::{ServerGroup, Wants};
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::{BackendConfig, BackendId, Config, FrontendConfig, ServerConfig};
use fulmar_proto::PipeCounts;
use fulmar_tls::{ClientTls, ConfigError};

use crate::accept_failure::Shortage;
use crate::admission::WaitingThreads;
use crate::balancing;
use crate::checks::{CheckAddress, CheckReports, LastCheck};
use crate::clock::ThreadClock;
use crate::counters::Counters;
use crate::limit::AdjustableLimit;
use crate::malformed::LastMalformed;
use crate::orders::{Order, Orders};
use crate::tracking::{self, TrackingServers};
use crate::upstream::client_tls;
use crate::wakers::Wakers;

/// A configuration in use, shared by all threads of a process.
#[derive(Debug)]
pub struct Live {
    /// The configuration.
    pub config: Config,
    /// In the order of the configuration.
    pub frontends: Vec<LiveFrontend>,
    /// In the order of the configuration.
    pub backends: Vec<LiveBackend>,
    names: HashMap<Box<[u8]>, BackendId>, // of backends
    /// Number of threads.
    pub threads: usize,
    /// One for each thread: the time of its counters.
    pub clocks: Box<[Arc<ThreadClock>]>,
    /// `maxconn` of the process: concurrent client connections.
    pub connections_max: AdjustableLimit,
    /// `set rate-limit connections global`.
    pub connections_per_second_max: AdjustableLimit,
    /// `set rate-limit sessions global`.
    pub sessions_per_second_max: AdjustableLimit,
    /// One for each thread: its pipes.
    pub pipes: Box<[Arc<PipeCounts>]>,
    /// One for each thread: orders of operators.
    pub orders: Box<[Orders]>,
    began: OnceLock<Instant>, // when the first thread started
    variables: RwLock<Vec<(String, Sample<'static>)>>, // of the process
    /// One for each thread: clients of all frontends together, for limits and rates of the process
    /// (`Connections`, `SessionsTotal`, `Sessions`).
    pub totals: Box<[Counters]>,
    /// Wakes the threads.
    pub wakers: Wakers,
    /// Threads that wait for any client to leave.
    pub(crate) waiting_threads: WaitingThreads,
    /// The servers that track another one (`track`).
    pub(crate) tracking_servers: TrackingServers,
    woken: Box<[Mutex<Vec<usize>>]>, // by thread: the backends to serve
    revision: AtomicU64,             // of limits and states of frontends, which operators set
    malformed: AtomicU32,            // malformed messages
    kills: AtomicU64,                // requests to close the sessions of a server
    /// Reports to the check thread.
    pub checks: CheckReports,
}

/// A frontend in use.
#[derive(Debug)]
pub struct LiveFrontend {
    /// The configuration.
    pub config: Arc<FrontendConfig>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// For each bind, one for each thread.
    pub listeners: Vec<Box<[Counters]>>,
    /// `disable frontend`: no client is accepted for now.
    pub paused: AtomicBool,
    /// `maxconn`: concurrent client connections.
    pub connections_max: AdjustableLimit,
    /// Threads that wait for a client of this frontend to leave.
    pub(crate) waiting_threads: WaitingThreads,
    /// `shutdown frontend`: no client is accepted any more.
    pub stopped: AtomicBool,
    /// The last malformed request.
    pub malformed: LastMalformed,
    /// The last report that no client can be accepted.
    pub(crate) shortage: Shortage,
}

/// A backend in use.
#[derive(Debug)]
pub struct LiveBackend {
    /// The configuration.
    pub config: Arc<BackendConfig>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// The state of its servers.
    pub group: ServerGroup,
    /// `fullconn` at the start: the number of sessions from which on the servers have all of their
    /// slots.
    pub connections_full: usize,
    /// Number of sessions that waited for a slot of any server, and got one.
    pub(crate) served: AtomicU64,
    /// In the order of the configuration.
    pub servers: Vec<LiveServer>,
    /// The last malformed response.
    pub malformed: LastMalformed,
}

/// A server in use; its state is in the backend's group.
#[derive(Debug)]
pub struct LiveServer {
    /// The configuration.
    pub config: Arc<ServerConfig>,
    /// One for each thread.
    pub counters: Box<[Counters]>,
    /// TLS settings of connections to the server. If its files are unusable, connections fail; the
    /// program that starts the proxy should report it.
    pub tls: Option<Result<ClientTls, ConfigError>>,
    /// The result of the last check.
    pub check: LastCheck,
    /// The address of checks.
    pub check_address: CheckAddress,
    /// Number of sessions that waited for a slot of this server, and got one.
    pub(crate) served: AtomicU64,
    /// Consecutive errors of its sessions (`observe`).
    pub(crate) errors: AtomicU32,
}

impl Live {
    /// The initial state.
    pub fn new(config: Config, threads: usize) -> Self {
        let clocks: Box<[Arc<ThreadClock>]> = (0..threads).map(|_| Arc::default()).collect();
        let frontends = config.frontends.iter().map(|it| LiveFrontend::new(it, &clocks)).collect();
        let backends = (0..config.backends.len()).map(BackendId);
        let backends = backends.map(|id| LiveBackend::new(&config, id, &clocks)).collect();
        let (wakers, began) = (Wakers::default(), OnceLock::new());
        let checks = CheckReports::default();
        let orders = clocks.iter().map(|_| Orders::default()).collect();
        let connections_max = AdjustableLimit::new(config.global.connections_max);
        let (connections_per_second_max, sessions_per_second_max) = Default::default();
        let variables = config.global.variables.iter();
        let variables = variables.map(|(name, value)| (name.to_string(), value.clone()));
        let variables = RwLock::new(variables.collect());
        let names = config.backends.iter().enumerate().rev(); // of equal ones the first
        let names = names.map(|(at, it)| (it.name.as_bytes().into(), BackendId(at))).collect();
        let tracking_servers = tracking::tracking_servers(&config);
        Self {
            config,
            tracking_servers,
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
            waiting_threads: WaitingThreads::new(threads),
            woken: (0..threads).map(|_| Mutex::default()).collect(),
            revision: AtomicU64::new(0),
            malformed: AtomicU32::new(0),
            kills: AtomicU64::new(0),
            pipes: (0..threads).map(|_| Arc::default()).collect(),
            clocks,
        }
    }

    /// A time in milliseconds for clocks and counters: since the first thread started, from 1.
    pub fn millis(&self, now: Instant) -> u64 {
        let began = *self.began.get_or_init(|| now);
        let millis = now.saturating_duration_since(began).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The value of a variable of the process.
    pub fn variable(&self, name: &str) -> Option<Sample<'static>> {
        let all = self.variables.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// Sets or deletes a variable of the process, for all threads. The rules of the configuration
    /// name the variables, so there are few.
    pub fn set_variable(&self, name: &str, value: Option<Sample<'static>>) {
        let mut all = self.variables.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| known != name);
        all.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Wakes a thread to serve the queue of a backend; its alarm has been set
    /// ([`crate::balance::ServerGroup::threads_to_wake`], [`crate::balance::NextWaiting::Wake`]).
    pub fn wake(&self, thread: usize, backend: BackendId) {
        if let Some(woken) = self.woken.get(thread) {
            woken.lock().unwrap_or_else(PoisonError::into_inner).push(backend.0);
            self.wakers.wake(thread);
        }
    }

    /// The backends that a thread was woken for. Each one is listed once for each alarm, so at most
    /// as often as the thread has queues.
    pub(crate) fn take_woken(&self, thread: usize) -> Vec<usize> {
        let mut woken = self.woken[thread].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *woken)
    }

    /// Wakes all threads after an operator changed limits or states of frontends.
    pub fn announce(&self) {
        self.revision.fetch_add(1, Ordering::Release);
        self.wakers.wake_all();
    }

    /// Increases with every [`Live::announce`].
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Wakes all threads to close the sessions of a server.
    pub(crate) fn announce_kill(&self) {
        self.kills.fetch_add(1, Ordering::Release);
        self.wakers.wake_all();
    }

    /// Number of such requests.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }

    /// Number of malformed messages.
    pub fn malformed(&self) -> u32 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Counts a malformed message, and returns the number of earlier ones.
    pub(crate) fn count_malformed(&self) -> u32 {
        self.malformed.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends an order to a thread.
    pub fn order(&self, thread: usize, order: Order) {
        if let Some(orders) = self.orders.get(thread) {
            orders.push(order);
            self.wakers.wake(thread);
        }
    }

    /// Visits every counter of one thread.
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
    fn new(config: &Arc<FrontendConfig>, clocks: &[Arc<ThreadClock>]) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            listeners: config.binds.iter().map(|_| counters(clocks)).collect(),
            paused: AtomicBool::new(false),
            connections_max: AdjustableLimit::new(config.connections_max),
            waiting_threads: WaitingThreads::new(clocks.len()),
            stopped: AtomicBool::new(false),
            malformed: LastMalformed::default(),
            shortage: Shortage::default(),
        }
    }
}

impl LiveBackend {
    /// Counter of the sessions that waited in this queue, and got a slot.
    pub(crate) fn served(&self, wants: Wants) -> &AtomicU64 {
        match wants {
            Wants::Any => &self.served,
            Wants::Server(server) => &self.servers[server].served,
        }
    }

    fn new(config: &Config, id: BackendId, clocks: &[Arc<ThreadClock>]) -> Self {
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
    fn new(config: &Arc<ServerConfig>, clocks: &[Arc<ThreadClock>]) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            tls: config.tls.as_ref().map(client_tls),
            check: LastCheck::default(),
            check_address: CheckAddress::new(config.check.as_ref()),
            served: AtomicU64::new(0),
            errors: AtomicU32::new(0),
        }
    }
}

fn counters(clocks: &[Arc<ThreadClock>]) -> Box<[Counters]> {
    clocks.iter().map(|clock| Counters::new(Arc::clone(clock))).collect()
}
