//! What threads share: the configuration, the state of servers, and counters.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use fulmar_balance::{Group, Settings};
use fulmar_haproxy::{Backend, BackendId, Config, Frontend, Server};

use crate::clock::Clock;
use crate::counters::Counters;

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
    began: OnceLock<Instant>, // when the first thread did
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
}

impl Live {
    /// Nothing has happened yet.
    pub fn new(config: Config, threads: usize) -> Self {
        let clocks: Box<[Arc<Clock>]> = (0..threads).map(|_| Arc::default()).collect();
        let frontends = config.frontends.iter().map(|it| LiveFrontend::new(it, &clocks)).collect();
        let backends = config.backends.iter().map(|it| LiveBackend::new(it, &clocks)).collect();
        Self { config, frontends, backends, threads, clocks, began: OnceLock::new() }
    }

    /// A moment in milliseconds, as clocks and counters tell it: since the first thread began, from
    /// 1.
    pub fn millis(&self, now: Instant) -> u64 {
        let began = *self.began.get_or_init(|| now);
        let millis = now.saturating_duration_since(began).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(1)
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
        }
    }
}

impl LiveBackend {
    fn new(config: &Arc<Backend>, clocks: &[Arc<Clock>]) -> Self {
        let servers = config.servers.iter();
        Self {
            config: Arc::clone(config),
            counters: counters(clocks),
            group: Group::new(config.servers.iter().map(|it| settings(it))),
            servers: servers
                .map(|it| LiveServer { config: Arc::clone(it), counters: counters(clocks) })
                .collect(),
        }
    }
}

fn settings(server: &Server) -> Settings {
    Settings {
        weight: server.weight,
        backup: server.backup,
        disabled: server.disabled,
        connections_max: server.connections_max,
    }
}

fn counters(clocks: &[Arc<Clock>]) -> Box<[Counters]> {
    clocks.iter().map(|clock| Counters::new(Arc::clone(clock))).collect()
}
