//! What the threads of a program run: how an engine is made, what it hears, when it is done.

use std::io;

use fulmar_drive::{Driver, DriverInfo, LoopOptions, Waker};
use fulmar_engine::{Engine, ListenerId};

use crate::worker::Worker;

/// What threads of one kind run, each with an engine of its own. [`crate::Host`] is made of one
/// whose engines are servers; a proxy, or whatever looks after it, is another.
pub trait Crew: Send + Sync + 'static {
    /// What a thread drives.
    type Engine: Engine;
    /// What is left of it at the end.
    type Report: Send + 'static;

    /// Makes the engine of a thread, in that thread.
    ///
    /// # Errors
    /// It cannot be made: then no thread begins.
    fn make(&self, worker: &Worker) -> io::Result<Self::Engine>;

    /// Connections come to it from this listener, which is due to the crew's listen number
    /// [`Worker::listen`]. Told before anybody is accepted.
    fn add_listener(&self, engine: &mut Self::Engine, worker: &Worker, listener: ListenerId);

    /// How its loops work. Unless said otherwise, each operation is a call: what is little used
    /// needs no ring.
    fn loop_options(&self) -> LoopOptions {
        LoopOptions { driver: Driver::Epoll, ..LoopOptions::default() }
    }

    /// This wakes it.
    fn set_waker(&self, _engine: &mut Self::Engine, _worker: &Worker, _waker: Waker) {}

    /// What its loop runs on: told before it begins, and again should it give its ring up.
    fn on_driver_changed(&self, _worker: &Worker, _driven: &DriverInfo) {}

    /// A turn of its loop is over.
    fn after_turn(&self, _engine: &mut Self::Engine, _worker: &Worker) {}

    /// True once its thread may end: after [`Worker::stop`] was set and what had to be done is.
    fn is_done(&self, engine: &Self::Engine, worker: &Worker) -> bool;

    /// How often descriptors or memory ran out when somebody wanted to connect.
    fn accept_failures(&self, _engine: &Self::Engine) -> u64 {
        0
    }

    /// It is done.
    fn finish(&self, engine: &mut Self::Engine) -> Self::Report;
}
