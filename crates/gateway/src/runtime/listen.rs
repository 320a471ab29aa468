//! `stats socket` lines at work: what is listened on, and the thread behind it.

use std::io;
use std::sync::Arc;

use fulmar_drive::{ListenOptions, Waker};
use fulmar_engine::ListenerId;
use fulmar_haproxy::Config;
use fulmar_haproxy::model::{BindAddress, StatsSocket};
use fulmar_host::{Crew, Listen, Worker};
use fulmar_proxy::Live;
use fulmar_sys as sys;

use super::shown::Certificates;
use super::{Runtime, World};
use crate::statistics::Process;

/// The thread that answers at runtime sockets.
pub(crate) struct Consoles {
    pub(crate) live: Arc<Live>,
    pub(crate) process: Arc<Process>,
    pub(crate) certificates: Arc<Certificates>,
}

impl Crew for Consoles {
    type Engine = Runtime;
    type Report = ();

    fn make(&self, worker: &Worker) -> io::Result<Runtime> {
        let (live, process) = (Arc::clone(&self.live), Arc::clone(&self.process));
        let world = World::new(live, process, Arc::clone(&self.certificates));
        Ok(Runtime::new(sys::now(), world, worker.stop()))
    }

    fn add_listener(&self, engine: &mut Runtime, worker: &Worker, listener: ListenerId) {
        let socket = &self.live.config.global.stats_sockets[worker.listen(listener)];
        engine.add_listener(listener, socket.level);
    }

    fn set_waker(&self, engine: &mut Runtime, _: &Worker, waker: Waker) {
        engine.world().set_wake(Box::new(move || waker.wake()));
    }

    fn is_done(&self, engine: &Runtime, _: &Worker) -> bool {
        engine.is_done()
    }

    fn finish(&self, _: &mut Runtime) {}
}

/// What the `stats socket` lines listen on, in the order of the text.
///
/// # Errors
/// A descriptor that was to be inherited is not there.
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

/// Its owner alone may connect, unless `mode` says otherwise: that takes the right to write.
const PERMISSIONS: u32 = 0o755;
