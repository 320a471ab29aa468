//! A server application in threads.

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;

use fulmar_drive::{DriverInfo, LoopOptions, Waker};
use fulmar_engine::ListenerId;
use fulmar_server::{Handler, HandlerApp, Layers, Limits, Panic, ServerApp, ServerEngine};
use fulmar_sys as sys;

use crate::engine_factory::EngineFactory;
use crate::error::Error;
use crate::listen::Listen;
use crate::program::Program;
use crate::running::{Running, Stopper};
use crate::worker::Worker;

/// An application, where it listens, and how many threads run it. `R` is what is left of it at the
/// end.
pub struct Host<A: ServerApp, R = ()> {
    make: MakeApp<A>,
    at_end: AtEnd<A, R>,
    on_driver: OnDriver,
    listens: Vec<Listen>,
    threads: usize,
    limits: Limits,
    loop_options: LoopOptions,
    on_panic: OnPanic,
    hand_over: Option<PathBuf>,
    stopper: Stopper,
}

/// What a panic of application code ends besides its request or connection: see
/// [`Host::on_panic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// Nothing else.
    #[default]
    EndRequest,
    /// The server: all threads stop gracefully, and [`Running::join`] returns
    /// [`Error::Panic`].
    StopServer,
}

pub(crate) type MakeApp<A> = Arc<dyn Fn(&Worker) -> io::Result<A> + Send + Sync>;
type OnDriver = Arc<dyn Fn(&Worker, &DriverInfo) + Send + Sync>;
pub(crate) type AtEnd<A, R> = Arc<dyn Fn(&mut A) -> R + Send + Sync>;

impl<A: ServerApp + 'static> Host<A> {
    /// `make` is called once in each thread, so an application need not know of the others.
    pub fn new(make: impl Fn(&Worker) -> io::Result<A> + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
            at_end: Arc::new(|_| ()),
            on_driver: Arc::new(|_, _| ()),
            listens: Vec::new(),
            threads: 1,
            limits: Limits::default(),
            loop_options: LoopOptions::default(),
            on_panic: OnPanic::default(),
            hand_over: None,
            stopper: Stopper::new(),
        }
    }
}

impl<H: Handler> Host<HandlerApp<H>> {
    /// The same for a handler of requests; `make` is called once in each thread.
    pub fn of(make: impl Fn(&Worker) -> io::Result<H> + Send + Sync + 'static) -> Self {
        Self::new(move |worker| Ok(HandlerApp::new(make(worker)?, sys::now(), sys::wall_clock)))
    }
}

impl<A: ServerApp + 'static, R: Send + 'static> Host<A, R> {
    /// Listens here too.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listens.push(listen);
        self
    }

    /// The number of threads, at least one (default: 1).
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// What each thread's server allows: connections are counted in each of them.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The options of the threads' loops: their driver, and polling before sleeping.
    #[must_use]
    pub fn loop_options(self, loop_options: LoopOptions) -> Self {
        Self { loop_options, ..self }
    }

    /// Sets what a panic of application code ends. By default it ends the request or connection
    /// that the code was called for, and the server continues: see [`fulmar_server::Handler`] and
    /// [`fulmar_server::ServerApp`]. Choose [`OnPanic::StopServer`] if a panic may leave shared
    /// state inconsistent.
    ///
    /// A build with `panic = "abort"` has no choice: any panic ends the process.
    #[must_use]
    pub fn on_panic(self, on_panic: OnPanic) -> Self {
        Self { on_panic, ..self }
    }

    /// Calls `on_driver` in each thread with the driver of its loop: before it begins, and again if
    /// it gives up its ring.
    #[must_use]
    pub fn on_driver(
        self,
        on_driver: impl Fn(&Worker, &DriverInfo) + Send + Sync + 'static,
    ) -> Self {
        Self { on_driver: Arc::new(on_driver), ..self }
    }

    /// Calls `at_end` in each thread after its last connection: what it returns is in that thread's
    /// [`crate::Outcome`].
    #[must_use]
    pub fn at_end<T: Send + 'static>(
        self,
        at_end: impl Fn(&mut A) -> T + Send + Sync + 'static,
    ) -> Host<A, T> {
        Host {
            make: self.make,
            at_end: Arc::new(at_end),
            on_driver: self.on_driver,
            listens: self.listens,
            threads: self.threads,
            limits: self.limits,
            loop_options: self.loop_options,
            on_panic: self.on_panic,
            hand_over: self.hand_over,
            stopper: self.stopper,
        }
    }

    /// The next version of this program takes the listeners over, at a Unix socket of this path:
    /// it is started with the same path while this one runs, and no connection is lost.
    ///
    /// [`Host::start`] requests the listeners of the process there, takes those that it has to
    /// listen on, and opens the others. Once all of its threads run, it reports that: then the
    /// other process stops as by [`Running::stop`], and its [`Running::join`] returns when its last
    /// connection is gone, or its deadline has come. If the new process fails before that, nothing
    /// has happened. Neither process has to start the other: a shell, a supervisor, a container
    /// will do, as long as both see the path and belong to one user. A listener that only the old
    /// process listened on is closed.
    ///
    /// What is taken over is the socket itself, with the connections that wait in its queue.
    /// Listening anew on the same port would share only those to come: when the old socket is
    /// closed, the kernel resets the connections that wait there.
    #[must_use]
    pub fn hand_over(self, path: impl Into<PathBuf>) -> Self {
        Self { hand_over: Some(path.into()), ..self }
    }

    /// Stops it as [`Running::stop`] does, also if it has not started yet: for a signal's handler
    /// that is there first.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Listens, and starts the threads. None accepts anything until all of them could.
    ///
    /// # Errors
    /// There is nothing to listen on, a thread could not start, or its application could not be
    /// made: then no thread, no listener and no file is left.
    pub fn start(self) -> Result<Running<R>, Error> {
        if self.listens.is_empty() {
            return Err(Error::NoListener);
        }
        let servers = ServerFactory {
            make: self.make,
            at_end: self.at_end,
            on_driver: self.on_driver,
            layers: self.listens.iter().map(|listen| listen.layers.clone()).collect(),
            limits: self.limits,
            loop_options: self.loop_options,
            on_panic: self.on_panic,
            stopper: self.stopper.clone(),
        };
        let program = Program::with(self.stopper).crew("host", servers, self.listens, self.threads);
        match self.hand_over {
            Some(path) => program.hand_over(path),
            None => program,
        }
        .open()?
        .start()
    }
}

/// The engines of a host.
struct ServerFactory<A: ServerApp, R> {
    make: MakeApp<A>,
    at_end: AtEnd<A, R>,
    on_driver: OnDriver,
    layers: Vec<Option<Layers>>,
    limits: Limits,
    loop_options: LoopOptions,
    on_panic: OnPanic,
    stopper: Stopper,
}

impl<A: ServerApp, R> ServerFactory<A, R> {
    /// The panic for which the server stops.
    fn fatal<'a>(&self, engine: &'a ServerEngine<A>) -> Option<&'a Panic> {
        match self.on_panic {
            OnPanic::EndRequest => None,
            OnPanic::StopServer => engine.first_panic(),
        }
    }
}

impl<A: ServerApp + 'static, R: Send + 'static> EngineFactory for ServerFactory<A, R> {
    type Engine = ServerEngine<A>;
    type Report = R;

    fn make(&self, worker: &Worker) -> io::Result<ServerEngine<A>> {
        let application = (self.make)(worker)?;
        Ok(ServerEngine::new(sys::now(), application, self.limits, worker.stop()))
    }

    fn add_listener(&self, engine: &mut ServerEngine<A>, worker: &Worker, listener: ListenerId) {
        engine.add_listener(listener, self.layers[worker.listen(listener)].clone());
    }

    fn loop_options(&self) -> LoopOptions {
        self.loop_options
    }

    fn set_waker(&self, engine: &mut ServerEngine<A>, _: &Worker, waker: Waker) {
        engine.mailbox().set_waker(waker.into());
    }

    fn on_driver_changed(&self, worker: &Worker, driver: &DriverInfo) {
        (self.on_driver)(worker, driver);
    }

    fn after_turn(&self, engine: &mut ServerEngine<A>, _: &Worker) {
        if self.fatal(engine).is_some() && !self.stopper.is_stopped() {
            self.stopper.stop();
        }
    }

    fn is_done(&self, engine: &ServerEngine<A>, _: &Worker) -> bool {
        engine.is_done()
    }

    fn accept_failures(&self, engine: &ServerEngine<A>) -> u64 {
        engine.accept_failures()
    }

    fn cut_connections(&self, engine: &ServerEngine<A>) -> u64 {
        engine.cut_connections()
    }

    fn finish(&self, engine: &mut ServerEngine<A>) -> R {
        let report = (self.at_end)(engine.application_mut());
        if let Some(panic) = self.fatal(engine) {
            // The thread ends as by this panic, so `join` returns the message.
            resume_unwind(Box::new(panic.message().to_owned()));
        }
        report
    }
}

impl<A: ServerApp, R> fmt::Debug for Host<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("listens", &self.listens)
            .field("threads", &self.threads)
            .field("limits", &self.limits)
            .field("hand_over", &self.hand_over)
            .finish_non_exhaustive()
    }
}
