//! One thread: an application, its engine, a reactor.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender};

use fulmar_drive::{Epoll, Reactor, Waker};
use fulmar_engine::ListenerId;
use fulmar_server::{Application, Layers, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, Ledger};

use crate::host::{AtEnd, Make};
use crate::outcome::{Outcome, Usage};

/// One thread of a host, as its application sees it at the beginning.
#[derive(Debug)]
pub struct Worker {
    /// Which one, from 0.
    pub number: usize,
    /// The number of each listener, in the order in which the reactor names them.
    listeners: Vec<usize>,
}

impl Worker {
    /// Which call of [`crate::Host::listen`], from 0, a connection of `listener` is due to. They
    /// are the same number, unless a process before us has handed over more sockets of an
    /// address than there are threads.
    pub fn listen(&self, listener: ListenerId) -> usize {
        let at = usize::try_from(listener.0).expect("few listeners");
        self.listeners[at]
    }
}

/// What a thread is given.
pub(crate) struct Seat<A: Application, R> {
    pub(crate) number: usize,
    pub(crate) make: Make<A>,
    pub(crate) at_end: AtEnd<A, R>,
    pub(crate) sockets: Vec<Share>,
    pub(crate) limits: Limits,
    pub(crate) stop: Stop,
    /// It is told that this thread could begin.
    pub(crate) built: Sender<Waker>,
    /// It tells whether all others could too; if not, it is gone without a word.
    pub(crate) begin: Receiver<()>,
}

/// A listening socket of a thread.
pub(crate) struct Share {
    /// Which call of `Host::listen` it is due to.
    pub(crate) listen: usize,
    pub(crate) socket: OwnedFd,
    pub(crate) layers: Option<Layers>,
}

impl<A: Application, R> Seat<A, R> {
    /// Runs until the end; `None` if it was not to begin, since another thread could not.
    pub(crate) fn run(self) -> io::Result<Option<Outcome<R>>> {
        let listeners = self.sockets.iter().map(|share| share.listen).collect();
        let worker = Worker { number: self.number, listeners };
        let application = (self.make)(&worker)?;
        let engine = ServerEngine::new(sys::now(), application, self.limits, self.stop);
        let mut reactor = Reactor::new(engine, Epoll::new()?);
        for share in self.sockets {
            let id = reactor.listen(share.socket)?;
            reactor.engine.add_listener(id, share.layers);
        }
        let waker = reactor.waker()?;
        reactor.engine.mailbox().set_waker(waker.clone().into());
        // Who waits for it is gone only if the host is: then nobody says that we may begin.
        let _ = self.built.send(waker);
        drop(self.built);
        if self.begin.recv().is_err() {
            return Ok(None);
        }
        while !reactor.engine.is_done() {
            reactor.turn()?;
        }
        let report = (self.at_end)(reactor.engine.application_mut());
        let usage = Usage {
            stats: reactor.stats(),
            accept_failures: reactor.engine.accept_failures(),
            ledger: Ledger::here(),
            cpu: sys::thread_cpu()?,
        };
        Ok(Some(Outcome { report, usage }))
    }
}
