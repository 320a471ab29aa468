//! The threads of a proxy.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_drive::{LoopOptions, Waker};
use fulmar_engine::ListenerId;
use fulmar_host::{DriverInfo, EngineFactory, Worker};
use fulmar_proxy::{Checks, Live, Proxy, Wake};
use fulmar_sys as sys;

use crate::bind::BindLayers;
use crate::logs::Logs;
use crate::statistics::{Process, Reports};

/// Threads that serve clients.
pub(crate) struct Proxies {
    pub(crate) live: Arc<Live>,
    /// One per listener, in the same order.
    pub(crate) bind_layers: Vec<BindLayers>,
    pub(crate) logs: Logs,
    pub(crate) process: Arc<Process>,
    pub(crate) wakers: ThreadWakers,
    pub(crate) loop_options: LoopOptions,
}

/// Wakers of the threads that have started so far.
#[derive(Default)]
pub(crate) struct ThreadWakers(Mutex<BTreeMap<usize, Waker>>);

impl ThreadWakers {
    /// Adds this thread's waker. When all are known, the threads can wake each other.
    fn enter(&self, live: &Live, thread: usize, waker: Waker) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(thread, waker);
        if known.len() == live.threads {
            let wakers = std::mem::take(&mut *known).into_values();
            live.wakers.set(wakers.map(|waker| Box::new(move || waker.wake()) as Wake));
        }
    }
}

impl EngineFactory for Proxies {
    type Engine = Proxy;
    type Report = ();

    fn make(&self, worker: &Worker) -> io::Result<Proxy> {
        self.process.add_thread();
        let live = Arc::clone(&self.live);
        let services = Reports::new(Arc::clone(&live), Arc::clone(&self.process));
        let (journal, services) = (Box::new(self.logs.writer()), Box::new(services));
        Ok(Proxy::new(sys::now(), live, worker.number, journal, services, worker.stop()))
    }

    fn add_listener(&self, engine: &mut Proxy, worker: &Worker, listener: ListenerId) {
        let layers = &self.bind_layers[worker.listen(listener)];
        engine.add_listener(listener, layers.bind, layers.layers());
    }

    fn loop_options(&self) -> LoopOptions {
        self.loop_options
    }

    fn set_waker(&self, _: &mut Proxy, worker: &Worker, waker: Waker) {
        self.wakers.enter(&self.live, worker.number, waker);
    }

    fn on_driver_changed(&self, worker: &Worker, driver: &DriverInfo) {
        self.process.set_driver(worker.number, driver.clone());
    }

    fn is_done(&self, engine: &Proxy, _: &Worker) -> bool {
        engine.is_done()
    }

    fn finish(&self, _: &mut Proxy) {}
}

/// The thread of health checks and name resolution.
pub(crate) struct Checkers {
    pub(crate) live: Arc<Live>,
    pub(crate) logs: Logs,
    pub(crate) loop_options: LoopOptions,
}

impl EngineFactory for Checkers {
    type Engine = Checks;
    type Report = ();

    fn make(&self, _: &Worker) -> io::Result<Checks> {
        Ok(Checks::new(sys::now(), Arc::clone(&self.live), Box::new(self.logs.writer())))
    }

    fn add_listener(&self, _: &mut Checks, _: &Worker, _: ListenerId) {
        unreachable!("the checks have no listeners");
    }

    fn loop_options(&self) -> LoopOptions {
        self.loop_options
    }

    fn set_waker(&self, _: &mut Checks, _: &Worker, waker: Waker) {
        self.live.checks.set_wake(Box::new(move || waker.wake()));
    }

    /// During a soft stop, checks continue: the remaining clients still need usable servers.
    fn is_done(&self, _: &Checks, worker: &Worker) -> bool {
        worker.stop().is_set()
    }

    fn finish(&self, _: &mut Checks) {}
}
