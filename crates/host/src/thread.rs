//! One thread: an engine and its reactor, from the start to the end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use fulmar_drive::{DriverInfo, Reactor, Waker};
use fulmar_engine::Stop;
use fulmar_sys::{self as sys, Ledger};

use crate::engine_factory::EngineFactory;
use crate::outcome::{Outcome, Usage};
use crate::worker::Worker;

/// The parameters of a thread.
pub(crate) struct WorkerSpec<C> {
    pub(crate) number: usize,
    pub(crate) crew: Arc<C>,
    pub(crate) sockets: Vec<Share>,
    pub(crate) stop: Stop,
    /// Receives the report that this thread is ready.
    pub(crate) built: Sender<Built>,
    /// Returns once all others are ready; disconnected if one is not.
    pub(crate) begin: Receiver<()>,
}

/// A thread that could begin.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) number: usize,
    pub(crate) waker: Waker,
    pub(crate) driver: DriverInfo,
}

/// A listening socket of a thread.
pub(crate) struct Share {
    /// Which listen of its crew it is due to.
    pub(crate) listen: usize,
    pub(crate) socket: OwnedFd,
}

impl<C: EngineFactory> WorkerSpec<C> {
    /// Runs until the end; `None` if it was not to begin, since another thread could not.
    pub(crate) fn run(self) -> io::Result<Option<Outcome<C::Report>>> {
        sys::block_write_signals()?; // whatever the program does about them
        let crew = self.crew;
        let listeners = self.sockets.iter().map(|share| share.listen).collect();
        let worker = Worker::new(self.number, listeners, self.stop);
        let engine = crew.make(&worker)?;
        let mut reactor = Reactor::with_options(engine, crew.loop_options())?;
        for share in self.sockets {
            let id = reactor.listen(share.socket)?;
            crew.add_listener(&mut reactor.engine, &worker, id);
        }
        let waker = reactor.waker()?;
        crew.set_waker(&mut reactor.engine, &worker, waker.clone());
        let (driver, mut name) = (reactor.driver_info(), reactor.driver());
        crew.on_driver_changed(&worker, &driver);
        // The receiver is gone only if the program is: then the start is never permitted.
        let built = Built { number: worker.number, waker, driver };
        let _ = self.built.send(built);
        drop(self.built);
        if self.begin.recv().is_err() {
            return Ok(None);
        }
        // An engine may have a deadline before the first connection: it is reported.
        reactor.with(|_, _| ());
        while !crew.is_done(&reactor.engine, &worker) {
            reactor.turn()?;
            crew.after_turn(&mut reactor.engine, &worker);
            if reactor.driver() != name {
                name = reactor.driver();
                crew.on_driver_changed(&worker, &reactor.driver_info());
            }
        }
        let report = crew.finish(&mut reactor.engine);
        let usage = Usage {
            stats: reactor.stats(),
            accept_failures: crew.accept_failures(&reactor.engine),
            cut_connections: crew.cut_connections(&reactor.engine),
            ledger: Ledger::here(),
            cpu: sys::thread_cpu()?,
        };
        Ok(Some(Outcome { report, usage, driver: reactor.driver_info() }))
    }
}
