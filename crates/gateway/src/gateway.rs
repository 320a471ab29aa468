//! Builds a running proxy from a configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use fulmar_drive::LoopOptions;
use fulmar_haproxy::{Bind, Config};
use fulmar_host::{Address, Bound, Program, Running, Stopper};
use fulmar_proxy::Live;

use crate::bind::{self, BindLayers, binds};
use crate::check;
use crate::error::Error;
use crate::limits::ProcessLimits;
use crate::logs::{Logs, machine_name};
use crate::restore;
use crate::runtime::{self, CertificateStore, Consoles};
use crate::signals;
use crate::statistics::process::Process;
use crate::threads::{Checkers, Proxies, ThreadWakers};

/// Command-line options that are not part of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Maximum number of concurrent client connections; overrides the configuration (`-n`).
    pub connections_max: Option<usize>,
    /// Hand-over sockets ([`hand_over_name`]) of previous processes. Listeners are taken over from
    /// the first that replies. Without a reply, this process binds its own listeners next to
    /// theirs.
    pub predecessors: Vec<PathBuf>,
    /// Options for the event loops of the client threads.
    pub loop_options: LoopOptions,
}

/// The socket on which a process hands over its listeners: a name in the abstract namespace.
/// Connections of other users, except the superuser, are refused. An abstract name is visible in
/// its whole network namespace, a process number only in its PID namespace. The name therefore
/// contains the PID namespace: containers that share a network do not collide.
pub fn hand_over_name(process: u32) -> PathBuf {
    let space = std::fs::read_link("/proc/self/ns/pid");
    let space = space.map_or_else(|_| String::new(), |link| link.display().to_string());
    let digits: String = space.chars().filter(char::is_ascii_digit).collect();
    format!("@fulmar-proxy-{digits}-{process}").into()
}

/// A listening proxy with threads that are not started yet.
#[derive(Debug)]
pub struct Gateway {
    live: Arc<Live>,
    logs: Logs,
    process: Arc<Process>,
    stopper: Stopper,
    bound: Bound<()>,
    warnings: Vec<String>,
}

impl Gateway {
    /// Binds or takes over listeners, reads certificates, opens logs.
    ///
    /// # Errors
    /// The first error found. Nothing stays open then, and the previous process continues
    /// unchanged.
    pub fn open(mut config: Config, options: Options) -> Result<Self, Error> {
        let wanted_connections = options.connections_max.or(config.global.connections_max);
        let limits = ProcessLimits::raise(&config.global, wanted_connections)?;
        config.global.connections_max = Some(limits.connections_max);
        let threads = config.global.threads;
        let threads = threads.or_else(|| thread::available_parallelism().ok().map(Into::into));
        let threads = threads.unwrap_or(1);
        let logs = Logs::open(&config)?;
        let (mut listens, mut bind_layers, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for (id, frontend, bind) in binds(&config) {
            let layers = BindLayers::new(id, frontend, bind)?;
            if let (Some(tls), Some(config_tls)) = (layers.tls(), &bind.tls) {
                let files = config_tls.certificates.iter().map(|it| it.file.clone()).collect();
                shown.push((tls.clone(), files));
            }
            bind_layers.push(layers);
            listens.push(bind::listen(frontend, bind)?);
        }
        if listens.is_empty() {
            return Err(Error::NoListener);
        }
        let live = Arc::new(Live::new(config, threads));
        if let Some(bind_error) = check::servers(&live).next() {
            return Err(bind_error);
        }
        let now = fulmar_sys::now();
        let mut warnings = restore::restore(&live, now);
        live.inherit_all_health(now);
        warnings.extend(limits.warning);
        let node = live.config.global.node.clone().unwrap_or_else(machine_name);
        let program = Program::new();
        let stopper = program.stopper();
        let process = Process::new(node, limits.connections_max, limits.descriptors);
        let process = Arc::new(process.with_logs(logs.clone(), stopper.clone()));
        let proxies = Proxies {
            live: Arc::clone(&live),
            bind_layers,
            logs: logs.clone(),
            process: Arc::clone(&process),
            wakers: ThreadWakers::default(),
            loop_options: options.loop_options,
        };
        let program = program.crew("proxy", proxies, listens, threads);
        let checkers = Checkers {
            live: Arc::clone(&live),
            logs: logs.clone(),
            loop_options: options.loop_options.for_background(),
        };
        let program = program.crew("checks", checkers, Vec::new(), 1);
        let consoles = Consoles {
            live: Arc::clone(&live),
            process: Arc::clone(&process),
            certificates: Arc::new(CertificateStore::new(shown)),
            loop_options: options.loop_options.for_background(),
        };
        let sockets = runtime::listens(&live.config).map_err(Error::Descriptors)?;
        let program = match sockets.is_empty() {
            true => program,
            false => program.crew("runtime", consoles, sockets, 1),
        };
        let program = program.offer(hand_over_name(std::process::id()));
        let program = options.predecessors.into_iter().fold(program, Program::take_over);
        let bound = program.open().map_err(|error| placed(&live.config, error))?;
        Ok(Self { live, logs, process, stopper, bound, warnings })
    }

    /// The running configuration and its counters.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Process-wide values for statistics.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Settings that could not be applied in full and do not prevent the start.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(String::as_str)
    }

    /// The logs.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The listen addresses, in the order of the configuration.
    pub fn addresses(&self) -> Vec<Address> {
        self.bound.addresses().next().unwrap_or_default()
    }

    /// Stops the proxy gracefully, from any thread, also before it is started.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Handles signals as HAProxy does from now on. On SIGHUP, the state of the servers is passed
    /// to `report`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watch_signals(&self, report: impl Fn(&str) + Send + 'static) -> Result<(), Error> {
        let subject = signals::SignalContext {
            live: Arc::clone(&self.live),
            logs: self.logs.clone(),
            stopper: self.stopper.clone(),
        };
        signals::watch(subject, report).map_err(Error::Signals)
    }

    /// Starts the threads. If listeners were taken over, the previous process then stops
    /// gracefully.
    ///
    /// # Errors
    /// A thread could not be started: none is running then, and the previous process continues.
    pub fn start(self) -> Result<Running<()>, Error> {
        Ok(self.bound.start()?)
    }
}

/// Adds the position of the `bind` line to an error.
fn placed(config: &Config, error: fulmar_host::Error) -> Error {
    match error {
        fulmar_host::Error::Listen { address: Some(address), error } => {
            let of = |bind: &Bind| bind::address(&bind.address).as_ref() == Some(&address);
            match binds(config).find(|(_, _, bind)| of(bind)) {
                Some((_, frontend, bind)) => bind::bind_error(frontend, bind, error),
                None => Error::Host(fulmar_host::Error::Listen { address: Some(address), error }),
            }
        }
        error => Error::Host(error),
    }
}
