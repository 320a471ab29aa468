//! A running server: one reactor a thread, a listener each, until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use fulmar_drive::{Epoll, ListenOptions, Reactor, Stats, Waker, listen};
use fulmar_server::{Application, Calls, Handler, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, CpuTimes, Ledger};

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where to listen; port 0 asks for a free one.
    pub listen: SocketAddr,
    /// Threads, each with a reactor and a listener of its own.
    pub threads: usize,
    /// What the server allows; connections are counted per thread.
    pub limits: Limits,
}

/// A server that is running.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: Stop,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<io::Result<Outcome>>>,
}

/// What one thread, or all of them, did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// System calls.
    pub ledger: Ledger,
    /// Requests.
    pub requests: u64,
    /// What drove the loop.
    pub stats: Stats,
    /// Processor time.
    pub cpu: CpuTimes,
    /// How often descriptors or memory ran out when somebody wanted to connect.
    pub accept_failures: u64,
}

impl Running {
    /// Listens, then starts the threads; `make` is called once in each of them, and `on_end`
    /// when one has ended, asked or not.
    ///
    /// # Errors
    /// The address cannot be listened on, or a thread cannot start.
    pub fn start<H: Handler>(
        options: &RunOptions,
        make: impl Fn() -> io::Result<Calls<H>> + Clone + Send + 'static,
        on_end: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let reuse_port = options.threads > 1;
        let listen_options =
            ListenOptions { reuse_port, defer_accept: true, ..ListenOptions::default() };
        let (first, address) = listen(options.listen, listen_options)?;
        let mut running =
            Self { address, stop: Stop::new(), wakers: Vec::new(), threads: Vec::new() };
        let mut listeners = vec![first];
        for _ in 1..options.threads {
            listeners.push(listen(address, listen_options)?.0);
        }
        let (started, waiting) = mpsc::channel();
        for listener in listeners {
            let (started, stop) = (started.clone(), running.stop.clone());
            let (limits, make) = (options.limits, make.clone());
            let on_end = on_end.clone();
            let body = move || {
                let worker = Worker { listener, limits, stop };
                let outcome = make().and_then(|calls| worker.run(calls, &started));
                drop(started);
                on_end();
                outcome
            };
            running.threads.push(thread::Builder::new().name("serve".into()).spawn(body)?);
        }
        drop(started);
        running.wakers.extend(waiting.iter().take(options.threads));
        if running.wakers.len() < options.threads {
            return Err(running.join().err().unwrap_or_else(|| io::ErrorKind::Other.into()));
        }
        Ok(running)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks it to end gracefully: see [`Limits::drain_timeout`].
    pub fn stop(&self) {
        self.stop.set();
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// A thread failed.
    pub fn join(self) -> io::Result<Outcome> {
        let mut all = Outcome::default();
        for thread in self.threads {
            let outcome = thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
            all.add(&outcome);
        }
        Ok(all)
    }
}

impl Outcome {
    fn add(&mut self, other: &Self) {
        self.ledger = self.ledger + other.ledger;
        self.requests += other.requests;
        self.stats.turns += other.stats.turns;
        self.stats.empty += other.stats.empty;
        self.stats.events += other.stats.events;
        self.stats.timeouts += other.stats.timeouts;
        self.stats.accepted += other.stats.accepted;
        self.cpu.user += other.cpu.user;
        self.cpu.system += other.cpu.system;
        self.accept_failures += other.accept_failures;
    }
}

struct Worker {
    listener: OwnedFd,
    limits: Limits,
    stop: Stop,
}

impl Worker {
    fn run<H: Handler>(
        self,
        calls: Calls<H>,
        started: &mpsc::Sender<Waker>,
    ) -> io::Result<Outcome> {
        let engine = ServerEngine::new(sys::now(), calls, self.limits, self.stop);
        let mut reactor = Reactor::new(engine, Epoll::new()?);
        let listener = reactor.listen(self.listener)?;
        reactor.engine.add_listener(listener, None);
        let waker = reactor.waker()?;
        started.send(waker).map_err(io::Error::other)?;
        while !reactor.engine.is_done() {
            reactor.turn()?;
        }
        reactor.engine.application_mut().finish(sys::now());
        Ok(Outcome {
            stats: reactor.stats(),
            requests: reactor.engine.application().requests(),
            accept_failures: reactor.engine.accept_failures(),
            ledger: Ledger::here(),
            cpu: sys::thread_cpu()?,
        })
    }
}
