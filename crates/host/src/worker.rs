//! One thread, as the engine factory sees it.

use fulmar_engine::{ListenerId, Stop};

/// One thread, as what it runs sees it at the beginning.
#[derive(Debug)]
pub struct Worker {
    /// Which one of its kind, from 0.
    pub number: usize,
    /// The number of each listener, in the order in which the reactor names them.
    listeners: Vec<usize>,
    stop: Stop,
}

impl Worker {
    pub(crate) fn new(number: usize, listeners: Vec<usize>, stop: Stop) -> Self {
        Self { number, listeners, stop }
    }

    /// Which call of [`crate::Host::listen`], from 0, a connection of `listener` is due to. They
    /// are the same number, unless a process before us has handed over more sockets of an
    /// address than there are threads.
    pub fn listen(&self, listener: ListenerId) -> usize {
        let at = usize::try_from(listener.0).expect("few listeners");
        self.listeners[at]
    }

    /// What is set when the thread is to end; its reactor is woken then.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }
}
