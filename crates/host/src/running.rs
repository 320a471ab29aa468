//! Running threads, until they are stopped.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use fulmar_drive::{DriverInfo, Waker};
use fulmar_engine::Stop;
use fulmar_server::Panic;

use crate::address::Address;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::socket_file::SocketFile;

/// A host that is running. Dropping it stops it without waiting for its end.
#[derive(Debug)]
#[must_use = "dropping it stops it"]
pub struct Running<R> {
    addresses: Vec<Address>,
    drivers: Vec<DriverInfo>,
    stopper: Stopper,
    threads: Vec<Thread<R>>,
    handover: Option<JoinHandle<Result<(), Error>>>,
}

#[derive(Debug)]
pub(crate) struct Thread<R> {
    pub(crate) number: usize,
    pub(crate) thread: JoinHandle<io::Result<Option<Outcome<R>>>>,
}

impl<R> Running<R> {
    pub(crate) fn new(
        addresses: Vec<Address>,
        drivers: Vec<DriverInfo>,
        stopper: Stopper,
        threads: Vec<Thread<R>>,
        handover: Option<JoinHandle<Result<(), Error>>>,
    ) -> Self {
        Self { addresses, drivers, stopper, threads, handover }
    }

    /// The addresses, in the order of the listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The drivers of the first group's loops at their start, by the numbers of their threads: if
    /// locked memory is short, some have a ring and others none. [`crate::Host::on_driver`] reports
    /// later changes.
    pub fn drivers(&self) -> &[DriverInfo] {
        &self.drivers
    }

    /// Ends it gracefully: no connection is accepted, idle ones are closed, the others finish their
    /// exchange. Connections that are left at [`fulmar_server::Limits::drain_timeout`] are closed.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// The same, for another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// True once all threads have ended, stopped or not.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(|thread| thread.thread.is_finished())
    }

    /// Waits for the end: because it was stopped, because a new process has taken over, or
    /// because a thread failed, which stops the others.
    ///
    /// # Errors
    /// [`Error::Thread`] or [`Error::Panic`], once all threads have ended; the first of them, if
    /// several failed.
    pub fn join(mut self) -> Result<Vec<Outcome<R>>, Error> {
        let outcomes = join(std::mem::take(&mut self.threads));
        match self.handover.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => outcomes,
            Some(Ok(Err(error))) => outcomes.and(Err(error)),
            Some(Err(panic)) => std::panic::resume_unwind(panic), // ours: no application runs there
        }
    }
}

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}

/// Waits for the end of all; what they did, or why the first that failed has.
pub(crate) fn join<R>(threads: Vec<Thread<R>>) -> Result<Vec<Outcome<R>>, Error> {
    let mut outcomes = Vec::new();
    let mut failure = None;
    for Thread { number, thread } in threads {
        match thread.join() {
            Ok(Ok(outcome)) => outcomes.extend(outcome),
            Ok(Err(error)) => {
                failure.get_or_insert(Error::Thread { number, error });
            }
            Err(payload) => {
                let message = Panic::from(payload).message().into();
                failure.get_or_insert(Error::Panic { number, message });
            }
        }
    }
    failure.map_or(Ok(outcomes), Err)
}

/// Ends a host gracefully, from any thread; see [`Running::stop`].
#[derive(Clone, Debug)]
pub struct Stopper(Arc<StopperState>);

#[derive(Debug, Default)]
struct StopperState {
    stop: Stop,
    wakers: Mutex<Vec<Waker>>,
    files: Mutex<Vec<SocketFile>>,
    quit: Mutex<Option<OwnedFd>>,
}

impl Stopper {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// From now on. Files of Unix sockets are gone when this returns, so that another server
    /// may take their place at once.
    pub fn stop(&self) {
        self.remove_socket_files();
        lock(&self.0.quit).take();
        self.0.stop.set();
        lock(&self.0.wakers).iter().for_each(Waker::wake);
    }

    /// Removes the files of Unix sockets, for a process that is about to end at once. Nothing is
    /// stopped.
    pub fn remove_socket_files(&self) {
        lock(&self.0.files).clear();
    }

    /// True once [`Stopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.is_set()
    }

    pub(crate) fn engine_stop(&self) -> Stop {
        self.0.stop.clone()
    }

    /// A stop before the wakers were known takes effect now.
    pub(crate) fn set_wakers(&self, wakers: Vec<Waker>) {
        let mut known = lock(&self.0.wakers);
        *known = wakers;
        if self.0.stop.is_set() {
            known.iter().for_each(Waker::wake);
        }
    }

    /// These are removed at the end; when `quit` is closed, the hand-over thread stops.
    pub(crate) fn keep(&self, files: impl Iterator<Item = SocketFile>, quit: Option<OwnedFd>) {
        lock(&self.0.files).extend(files);
        *lock(&self.0.quit) = quit;
        if self.0.stop.is_set() {
            self.stop();
        }
    }

    /// Another process has taken our place: the files are its own now.
    pub(crate) fn leave_files(&self) {
        lock(&self.0.files).drain(..).for_each(|mut file| file.disarm());
    }
}

/// Nothing that may panic is done while one of them is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that ends, stopped or not, ends the others.
pub(crate) struct EndsAll(pub(crate) Stopper);

impl Drop for EndsAll {
    fn drop(&mut self) {
        self.0.stop();
    }
}
