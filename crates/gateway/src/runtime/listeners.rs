//! The `stats socket` lines: their listeners, and the thread that serves them.

use std::io;
use std::sync::Arc;

use fulmar_drive::{ListenOptions, LoopOptions, Waker};
use fulmar_engine::ListenerId;
use fulmar_haproxy::Config;
use fulmar_haproxy::model::{BindAddress, StatsSocket};
use fulmar_host::{EngineFactory, Listen, Worker};
use fulmar_proxy::Live;
use fulmar_sys as sys;

use super::certificate_store::CertificateStore;
use super::{Runtime, RuntimeContext};
use crate::statistics::Process;

/// The thread that serves runtime sockets.
pub(crate) struct Consoles {
    pub(crate) live: Arc<Live>,
    pub(crate) process: Arc<Process>,
    pub(crate) certificates: Arc<CertificateStore>,
    pub(crate) loop_options: LoopOptions,
}

impl EngineFactory for Consoles {
    type Engine = Runtime;
    type Report = ();

    fn make(&self, worker: &Worker) -> io::Result<Runtime> {
        let (live, process) = (Arc::clone(&self.live), Arc::clone(&self.process));
        let context = RuntimeContext::new(live, process, Arc::clone(&self.certificates));
        Ok(Runtime::new(sys::now(), context, worker.stop()))
    }

    fn add_listener(&self, engine: &mut Runtime, worker: &Worker, listener: ListenerId) {
        let socket = &self.live.config.global.stats_sockets[worker.listen(listener)];
        engine.add_listener(listener, socket.level);
    }

    fn loop_options(&self) -> LoopOptions {
        self.loop_options
    }

    fn set_waker(&self, engine: &mut Runtime, _: &Worker, waker: Waker) {
        engine.context().set_wake(Box::new(move || waker.wake()));
    }

    fn is_done(&self, engine: &Runtime, _: &Worker) -> bool {
        engine.is_done()
    }

    fn finish(&self, _: &mut Runtime) {}
}

/// The listeners of the `stats socket` lines, in order.
///
/// # Errors
/// A descriptor to be inherited does not exist.
pub(crate) fn listens(config: &Config) -> io::Result<Vec<Listen>> {
    config.global.stats_sockets.iter().map(listen).collect()
}

fn listen(socket: &StatsSocket) -> io::Result<Listen> {
    let listen = match &socket.address {
        BindAddress::Tcp(address) => Listen::tcp(*address),
        BindAddress::Unix(path) => Listen::unix(path),
        BindAddress::Abstract(name) => Listen::unix(format!("@{name}")),
        BindAddress::Inherited(number) => Listen::inherited(sys::inherited(*number)?),
    };
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let listen = listen.tcp_options(options).owner(socket.owner.0, socket.owner.1);
    Ok(listen.permissions(socket.permissions.unwrap_or(PERMISSIONS)))
}

/// Without `mode`, only the owner may connect: that needs write permission.
const PERMISSIONS: u32 = 0o755;
