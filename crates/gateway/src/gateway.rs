//! From a configuration to what runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use fulmar_drive::LoopOptions;
use fulmar_haproxy::{Bind, Config};
use fulmar_host::{Address, Bound, Program, Running, Stopper};
use fulmar_proxy::Live;

use crate::check;
use crate::crews::{Checkers, Proxies, Roll};
use crate::doors::{self, Door, binds};
use crate::error::Error;
use crate::limits::Limits;
use crate::logs::{Logs, machine_name};
use crate::restore;
use crate::runtime::{self, Certificates, Consoles};
use crate::signals;
use crate::statistics::process::Process;

/// What a command line says beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Connections of clients at a time, whatever the configuration says (`-n`).
    pub connections_max: Option<usize>,
    /// Where the process before this one hands its listeners over ([`hand_over_name`]): the first
    /// that answers. If nobody does, this one binds beside it.
    pub predecessors: Vec<PathBuf>,
    /// How the loops of the threads that serve clients work.
    pub loop_options: LoopOptions,
}

/// Where a process hands its listeners over: a name in the abstract namespace, which only its user
/// and the superuser are answered at. Names are one network's, numbers of processes are not: so
/// that containers which share a network keep apart, their namespace is part of it.
pub fn hand_over_name(process: u32) -> PathBuf {
    let space = std::fs::read_link("/proc/self/ns/pid");
    let space = space.map_or_else(|_| String::new(), |link| link.display().to_string());
    let digits: String = space.chars().filter(char::is_ascii_digit).collect();
    format!("@fulmar-proxy-{digits}-{process}").into()
}

/// A proxy that listens, and whose threads have not started.
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
    /// Listens, or takes over; reads certificates; opens logs.
    ///
    /// # Errors
    /// The first thing that is wrong. Nothing is left open then, and the process before this one
    /// goes on as if it had not been asked.
    pub fn open(mut config: Config, options: Options) -> Result<Self, Error> {
        let asked = options.connections_max.or(config.global.connections_max);
        let limits = Limits::raise(&config.global, asked)?;
        config.global.connections_max = Some(limits.connections_max);
        let threads = config.global.threads;
        let threads = threads.or_else(|| thread::available_parallelism().ok().map(Into::into));
        let threads = threads.unwrap_or(1);
        let logs = Logs::open(&config)?;
        let (mut listens, mut doors, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for (id, frontend, bind) in binds(&config) {
            let door = Door::new(id, frontend, bind)?;
            if let (Some(tls), Some(said)) = (door.tls(), &bind.tls) {
                let files = said.certificates.iter().map(|it| it.file.clone()).collect();
                shown.push((tls.clone(), files));
            }
            doors.push(door);
            listens.push(doors::listen(frontend, bind)?);
        }
        if listens.is_empty() {
            return Err(Error::NoListener);
        }
        let live = Arc::new(Live::new(config, threads));
        if let Some(wrong) = check::servers(&live).next() {
            return Err(wrong);
        }
        let now = fulmar_sys::now();
        let mut warnings = restore::restore(&live, now);
        live.follow_all(now);
        warnings.extend(limits.warning);
        let node = live.config.global.node.clone().unwrap_or_else(machine_name);
        let program = Program::new();
        let stopper = program.stopper();
        let process = Process::new(node, limits.connections_max, limits.descriptors);
        let process = Arc::new(process.telling_of(logs.clone(), stopper.clone()));
        let proxies = Proxies {
            live: Arc::clone(&live),
            doors,
            logs: logs.clone(),
            process: Arc::clone(&process),
            roll: Roll::default(),
            loop_options: options.loop_options,
        };
        let program = program.crew("proxy", proxies, listens, threads);
        let checkers = Checkers { live: Arc::clone(&live), logs: logs.clone() };
        let program = program.crew("checks", checkers, Vec::new(), 1);
        let consoles = Consoles {
            live: Arc::clone(&live),
            process: Arc::clone(&process),
            certificates: Arc::new(Certificates::new(shown)),
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

    /// What it is made of, and what it counts.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The process as a whole, for statistics.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// What is not as it was asked for, and goes on all the same.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(String::as_str)
    }

    /// Its logs.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> Vec<Address> {
        self.bound.addresses().next().unwrap_or_default()
    }

    /// Ends it gracefully, from any thread, also before it has started.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// From now on signals mean what they mean to HAProxy; SIGHUP has `tell` told how servers are.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn watch_signals(&self, tell: impl Fn(&str) + Send + 'static) -> Result<(), Error> {
        let subject = signals::Subject {
            live: Arc::clone(&self.live),
            logs: self.logs.clone(),
            stopper: self.stopper.clone(),
        };
        signals::watch(subject, tell).map_err(Error::Signals)
    }

    /// Starts the threads; then the process before this one, if listeners were taken over from
    /// it, ends gracefully.
    ///
    /// # Errors
    /// A thread could not start: then none has, and the process before this one goes on.
    pub fn start(self) -> Result<Running<()>, Error> {
        Ok(self.bound.start()?)
    }
}

/// With the line that the error is about.
fn placed(config: &Config, error: fulmar_host::Error) -> Error {
    match error {
        fulmar_host::Error::Listen { address: Some(address), error } => {
            let of = |bind: &Bind| doors::address(&bind.address).as_ref() == Some(&address);
            match binds(config).find(|(_, _, bind)| of(bind)) {
                Some((_, frontend, bind)) => doors::wrong(frontend, bind, error),
                None => Error::Host(fulmar_host::Error::Listen { address: Some(address), error }),
            }
        }
        error => Error::Host(error),
    }
}
