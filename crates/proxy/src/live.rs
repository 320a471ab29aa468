//! What threads share: the configuration, the state of servers, and counters.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fulmar_balance::Group;
use fulmar_haproxy::{Backend, BackendId, Config, Frontend, Server};
use fulmar_tls::{ClientTls, ConfigError};

use crate::balancing;
use crate::counters::Counters;
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
    /// How they rouse each other.
    pub wakers: Wakers,
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
    /// What connections to it share, if they are TLS. Where its files cannot be used nobody gets
    /// there; whoever starts the proxy should say so.
    pub tls: Option<Result<ClientTls, ConfigError>>,
}

impl Live {
    /// Nothing has happened yet.
    pub fn new(config: Config, threads: usize) -> Self {
        let frontends = config.frontends.iter().map(|it| LiveFrontend::new(it, threads)).collect();
        let backends = (0..config.backends.len()).map(BackendId);
        let backends = backends.map(|id| LiveBackend::new(&config, id, threads)).collect();
        Self { config, frontends, backends, threads, wakers: Wakers::default() }
    }

    /// The backend with this name.
    pub fn backend_named(&self, name: &[u8]) -> Option<BackendId> {
        let at = self.backends.iter().position(|it| it.config.name.as_bytes() == name)?;
        Some(BackendId(at))
    }
}

impl LiveFrontend {
    fn new(config: &Arc<Frontend>, threads: usize) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(threads),
            listeners: config.binds.iter().map(|_| counters(threads)).collect(),
            paused: AtomicBool::new(false),
        }
    }
}

impl LiveBackend {
    fn new(config: &Config, id: BackendId, threads: usize) -> Self {
        let group = balancing::group(config, id, threads);
        let config = &config.backends[id.0];
        let servers = config.servers.iter();
        Self {
            config: Arc::clone(config),
            counters: counters(threads),
            group,
            servers: servers.map(|it| LiveServer::new(it, threads)).collect(),
        }
    }
}

impl LiveServer {
    fn new(config: &Arc<Server>, threads: usize) -> Self {
        Self {
            config: Arc::clone(config),
            counters: counters(threads),
            tls: config.tls.as_ref().map(client_tls),
        }
    }
}

fn counters(threads: usize) -> Box<[Counters]> {
    (0..threads).map(|_| Counters::default()).collect()
}
