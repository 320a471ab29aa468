//! From what was asked for to threads that run.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use fulmar_drive::Waker;
use fulmar_server::{Application, Calls, Handler, Limits};
use fulmar_sys as sys;

use crate::address::Address;
use crate::error::Error;
use crate::file::SocketFile;
use crate::handover::{Arrival, Desk, Previous, Taken};
use crate::listen::{Listen, Opened};
use crate::running::{EndsAll, Running, Stopper, Thread, join};
use crate::worker::{Seat, Share, Worker};

/// An application, where it listens, and how many threads run it. `R` is what is left of it at the
/// end.
pub struct Host<A: Application, R = ()> {
    make: Make<A>,
    at_end: AtEnd<A, R>,
    listens: Vec<Listen>,
    threads: usize,
    limits: Limits,
    hand_over: Option<PathBuf>,
    stopper: Stopper,
}

pub(crate) type Make<A> = Arc<dyn Fn(&Worker) -> io::Result<A> + Send + Sync>;
pub(crate) type AtEnd<A, R> = Arc<dyn Fn(&mut A) -> R + Send + Sync>;

impl<A: Application + 'static> Host<A> {
    /// `make` is called once in each thread, so an application need not know of the others.
    pub fn new(make: impl Fn(&Worker) -> io::Result<A> + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
            at_end: Arc::new(|_| ()),
            listens: Vec::new(),
            threads: 1,
            limits: Limits::default(),
            hand_over: None,
            stopper: Stopper::new(),
        }
    }
}

impl<H: Handler> Host<Calls<H>> {
    /// The same for a handler of requests; `make` is called once in each thread.
    pub fn of(make: impl Fn(&Worker) -> io::Result<H> + Send + Sync + 'static) -> Self {
        Self::new(move |worker| Ok(Calls::new(make(worker)?, sys::now(), sys::wall_clock)))
    }
}

impl<A: Application + 'static, R: Send + 'static> Host<A, R> {
    /// Listens here too.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listens.push(listen);
        self
    }

    /// So many threads, at least one; one if nothing is said.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// What each thread's server allows: connections are counted in each of them.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Calls `at_end` in each thread after its last connection: what it returns is in that thread's
    /// [`crate::Outcome`].
    #[must_use]
    pub fn at_end<T: Send + 'static>(
        self,
        at_end: impl Fn(&mut A) -> T + Send + Sync + 'static,
    ) -> Host<A, T> {
        Host {
            make: self.make,
            at_end: Arc::new(at_end),
            listens: self.listens,
            threads: self.threads,
            limits: self.limits,
            hand_over: self.hand_over,
            stopper: self.stopper,
        }
    }

    /// The next version of this program takes the listeners over, at a Unix socket of this path:
    /// it is started with the same path while this one runs, and no connection is lost.
    ///
    /// [`Host::start`] asks whoever answers there for its listeners, takes those that it was told
    /// to listen on, and opens the others. Once all of its threads run it says so: then the other
    /// process stops as by [`Running::stop`], and its [`Running::join`] returns when its last
    /// connection is gone, or its deadline has come. If the new process fails before that, nothing
    /// has happened. Nobody has to have started the other: a shell, a supervisor, a container will
    /// do, as long as both see the path and belong to one user. A listener that only the old
    /// process was told of is closed.
    ///
    /// What is taken over is the socket itself, with the connections that wait in its queue.
    /// Listening anew on the same port would share only those to come: when the old socket is
    /// closed, the kernel resets who waits there.
    #[must_use]
    pub fn hand_over(self, path: impl Into<PathBuf>) -> Self {
        Self { hand_over: Some(path.into()), ..self }
    }

    /// Stops it as [`Running::stop`] does, also if it has not started yet: for a signal's handler
    /// that is there first.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Listens, and starts the threads. None accepts anything until all of them could.
    ///
    /// # Errors
    /// There is nothing to listen on, a thread could not start, or its application could not be
    /// made: then no thread, no listener and no file is left.
    pub fn start(self) -> Result<Running<R>, Error> {
        if self.listens.is_empty() {
            return Err(Error::NoListener);
        }
        let mut arrival = self.hand_over.as_deref().map(Arrival::at).transpose()?;
        let mut nothing = Taken::default();
        let taken = arrival.as_mut().map_or(&mut nothing, |arrival| &mut arrival.taken);
        let listens = self.listens.into_iter();
        let opened = listens.map(|listen| listen.open_for(self.threads, taken));
        let opened: Vec<Opened> = opened.collect::<Result<_, _>>()?;
        let crew = Crew {
            make: self.make,
            at_end: self.at_end,
            limits: self.limits,
            stopper: self.stopper,
        };
        let ready = crew.hire(deal(&opened, self.threads)?)?;
        match arrival {
            None => Ok(finish(opened, ready, crew.stopper)),
            Some(arrival) => take_over(opened, arrival, ready, crew.stopper),
        }
    }
}

/// What all threads have in common.
struct Crew<A: Application, R> {
    make: Make<A>,
    at_end: AtEnd<A, R>,
    limits: Limits,
    stopper: Stopper,
}

impl<A: Application + 'static, R: Send + 'static> Crew<A, R> {
    /// A thread for each hand; all of them could begin, and wait for the word to do so.
    fn hire(&self, hands: Vec<Vec<Share>>) -> Result<Ready<R>, Error> {
        let (built, waiting) = mpsc::channel();
        let mut ready = Ready { threads: Vec::new(), begins: Vec::new(), wakers: Vec::new() };
        for (number, sockets) in hands.into_iter().enumerate() {
            let (begin, begun) = mpsc::channel();
            let seat = Seat {
                number,
                make: Arc::clone(&self.make),
                at_end: Arc::clone(&self.at_end),
                sockets,
                limits: self.limits,
                stop: self.stopper.engine_stop(),
                built: built.clone(),
                begin: begun,
            };
            let ends_all = EndsAll(self.stopper.clone());
            let body = move || {
                let _ends_all = ends_all;
                seat.run()
            };
            match thread::Builder::new().name(format!("host {number}")).spawn(body) {
                Ok(thread) => ready.threads.push(Thread { number, thread }),
                Err(error) => {
                    return Err(ready.dismiss().unwrap_or(Error::Thread { number, error }));
                }
            }
            ready.begins.push(begin);
        }
        drop(built);
        ready.wakers = waiting.iter().collect();
        if ready.wakers.len() < ready.threads.len() {
            return Err(ready.dismiss().expect("a thread that says nothing has failed"));
        }
        Ok(ready)
    }
}

/// Threads that wait for the word to begin.
struct Ready<R> {
    threads: Vec<Thread<R>>,
    begins: Vec<mpsc::Sender<()>>,
    wakers: Vec<Waker>,
}

impl<R> Ready<R> {
    /// They are not to begin: waits for their end, and returns why one of them could not.
    fn dismiss(self) -> Option<Error> {
        drop(self.begins);
        join(self.threads).err()
    }

    /// Whoever stops them from now on, or has done so already, is heard.
    fn begin(self, stopper: &Stopper) -> Vec<Thread<R>> {
        stopper.set_wakers(self.wakers);
        for begin in self.begins {
            let _ = begin.send(()); // it waits for this word, and for nothing else
        }
        self.threads
    }
}

/// Has the threads begin.
fn finish<R>(opened: Vec<Opened>, ready: Ready<R>, stopper: Stopper) -> Running<R> {
    let addresses = addresses(&opened);
    stopper.keep(opened.into_iter().filter_map(|listener| listener.file), None);
    let threads = ready.begin(&stopper);
    Running::new(addresses, stopper, threads, None)
}

/// The same; then the process before us may go, and the next one may come.
fn take_over<R>(
    opened: Vec<Opened>,
    arrival: Arrival,
    ready: Ready<R>,
    stopper: Stopper,
) -> Result<Running<R>, Error> {
    let Arrival { path, control, file, previous, .. } = arrival;
    let failed = |error| Error::HandOver { path: path.clone(), error };
    let addresses = addresses(&opened);
    let (mut offers, mut files) = (Vec::new(), Vec::from_iter(file));
    for listener in opened {
        let (its_offers, its_file) = listener.into_offers();
        offers.extend(its_offers);
        files.extend(its_file);
    }
    let (quit, open) = sys::pipe().map_err(failed)?;
    let desk = Desk { path: path.clone(), control, offers, quit, stopper: stopper.clone() };
    let (begin, begun) = mpsc::channel();
    let body = move || begun.recv().map_or(Ok(()), |()| desk.run());
    let desk = thread::Builder::new().name("hand-over".into()).spawn(body).map_err(failed)?;
    let threads = ready.begin(&stopper);
    if let Some(Err(error)) = previous.map(Previous::dismiss) {
        stopper.stop();
        let _ = join(threads); // what they did is of no interest: this process has not started
        return Err(failed(error));
    }
    files.iter_mut().for_each(SocketFile::arm);
    stopper.keep(files.into_iter(), Some(open));
    let _ = begin.send(()); // it waits for this word, and for nothing else
    Ok(Running::new(addresses, stopper, threads, Some(desk)))
}

fn addresses(opened: &[Opened]) -> Vec<Address> {
    opened.iter().map(|listener| listener.address.clone()).collect()
}

fn deal(opened: &[Opened], threads: usize) -> Result<Vec<Vec<Share>>, Error> {
    let mut hands: Vec<Vec<Share>> = (0..threads).map(|_| Vec::new()).collect();
    for (listen, listener) in opened.iter().enumerate() {
        let dealt = listener
            .deal(threads)
            .map_err(|error| Error::Listen { address: Some(listener.address.clone()), error })?;
        for (hand, sockets) in hands.iter_mut().zip(dealt) {
            let layers = || listener.layers.clone();
            hand.extend(sockets.into_iter().map(|socket| Share {
                listen,
                socket,
                layers: layers(),
            }));
        }
    }
    Ok(hands)
}

impl<A: Application, R> fmt::Debug for Host<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("listens", &self.listens)
            .field("threads", &self.threads)
            .field("limits", &self.limits)
            .field("hand_over", &self.hand_over)
            .finish_non_exhaustive()
    }
}
