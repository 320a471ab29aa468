//! What the threads of a program run: how an engine is made, notified and ended.

use std::io;

use fulmar_drive::{Driver, DriverInfo, LoopOptions, Waker};
use fulmar_engine::{Engine, ListenerId};

use crate::worker::Worker;

/// What threads of one kind run, each with an engine of its own. [`crate::Host`] is made of one
/// that makes server engines; a proxy and its health checks are others.
pub trait EngineFactory: Send + Sync + 'static {
    /// What a thread drives.
    type Engine: Engine;
    /// What is left of it at the end.
    type Report: Send + 'static;

    /// Makes the engine of a thread, in that thread.
    ///
    /// # Errors
    /// It cannot be made: then no thread begins.
    fn make(&self, worker: &Worker) -> io::Result<Self::Engine>;

    /// Adds a listener of the engine, before any connection is accepted. It belongs to the entry
    /// [`Worker::listen`] of the listens.
    fn add_listener(&self, engine: &mut Self::Engine, worker: &Worker, listener: ListenerId);

    /// The options of its loops. By default each operation is a call: a loop with little to do
    /// needs no ring.
    fn loop_options(&self) -> LoopOptions {
        LoopOptions { driver: Driver::Epoll, ..LoopOptions::default() }
    }

    /// The waker of its loop.
    fn set_waker(&self, _engine: &mut Self::Engine, _worker: &Worker, _waker: Waker) {}

    /// The driver of its loop: called before it begins, and again if it gives up its ring.
    fn on_driver_changed(&self, _worker: &Worker, _driven: &DriverInfo) {}

    /// A turn of its loop is over.
    fn after_turn(&self, _engine: &mut Self::Engine, _worker: &Worker) {}

    /// True once its thread may end: after [`Worker::stop`] was set and what had to be done is.
    fn is_done(&self, engine: &Self::Engine, worker: &Worker) -> bool;

    /// The number of accepts that failed because descriptors or memory ran out.
    fn accept_failures(&self, _engine: &Self::Engine) -> u64 {
        0
    }

    /// The number of connections that were cut at the end of the drain timeout.
    fn cut_connections(&self, _engine: &Self::Engine) -> u64 {
        0
    }

    /// It is done.
    fn finish(&self, engine: &mut Self::Engine) -> Self::Report;
}
