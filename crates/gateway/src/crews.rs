//! The threads of a proxy.

use std::io;
use std::sync::Arc;

use fulmar_engine::ListenerId;
use fulmar_host::{Crew, Worker};
use fulmar_proxy::{Live, Proxy};
use fulmar_sys as sys;

use crate::doors::Door;
use crate::logs::Logs;
use crate::pages::Pages;

/// Threads that serve clients.
pub(crate) struct Proxies {
    pub(crate) live: Arc<Live>,
    /// As many as there are listens, in their order.
    pub(crate) doors: Vec<Door>,
    pub(crate) logs: Logs,
}

impl Crew for Proxies {
    type Engine = Proxy;
    type Report = ();

    fn make(&self, worker: &Worker) -> io::Result<Proxy> {
        let live = Arc::clone(&self.live);
        let (journal, services) = (Box::new(self.logs.writer()), Box::new(Pages));
        Ok(Proxy::new(sys::now(), live, worker.number, journal, services, worker.stop()))
    }

    fn add_listener(&self, engine: &mut Proxy, worker: &Worker, listener: ListenerId) {
        let door = &self.doors[worker.listen(listener)];
        engine.add_listener(listener, door.bind, door.layers());
    }

    fn is_done(&self, engine: &Proxy) -> bool {
        engine.is_done()
    }

    fn finish(&self, _: &mut Proxy) {}
}
