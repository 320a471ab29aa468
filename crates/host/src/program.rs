//! Groups of threads with their listeners: from the configuration to running threads.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use fulmar_drive::DriverInfo;

use crate::address::Address;
use crate::engine_factory::EngineFactory;
use crate::error::Error;
use crate::handover::{Control, HandoverServer, Offer, Previous, Taken, arrive, ask, offer};
use crate::listen::Listen;
use crate::opened::OpenListener;
use crate::running::{EndsAll, Running, Stopper, Thread, join};
use crate::socket_file::SocketFile;
use crate::thread::{Built, Share, WorkerSpec};

/// One or several groups of threads, which begin and end together. `R` is the report of a thread.
///
/// It starts in two steps, between which a process may give its privileges up:
/// [`Program::open`] needs them, [`Bound::start`] does not.
pub struct Program<R> {
    groups: Vec<ThreadGroup<R>>,
    hand_over: Option<PathBuf>,
    offer: Option<PathBuf>,
    predecessors: Vec<PathBuf>,
    stopper: Stopper,
}

struct ThreadGroup<R> {
    listens: Vec<Listen>,
    threads: usize,
    spawn_threads: SpawnThreads<R>,
}

type SpawnThreads<R> =
    Box<dyn FnOnce(Vec<Vec<Share>>, &Stopper) -> Result<StartedThreads<R>, Error> + Send>;

impl<R: Send + 'static> Default for Program<R> {
    fn default() -> Self {
        let (groups, stopper) = (Vec::new(), Stopper::new());
        Self { groups, hand_over: None, offer: None, predecessors: Vec::new(), stopper }
    }
}

impl<R: Send + 'static> Program<R> {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty program with an existing stopper.
    pub(crate) fn with(stopper: Stopper) -> Self {
        Self { stopper, ..Self::default() }
    }

    /// So many threads of this crew, at least one, all of which accept from `listens`. `name` is
    /// what tools show of them, with a number.
    #[must_use]
    pub fn crew<C: EngineFactory<Report = R>>(
        mut self,
        name: &'static str,
        crew: C,
        listens: Vec<Listen>,
        threads: usize,
    ) -> Self {
        let spawn_threads: SpawnThreads<R> =
            Box::new(move |shares, stopper| spawn_threads(name, crew, shares, stopper));
        self.groups.push(ThreadGroup { listens, threads: threads.max(1), spawn_threads });
        self
    }

    /// See [`crate::Host::hand_over`].
    #[must_use]
    pub fn hand_over(self, path: impl Into<PathBuf>) -> Self {
        Self { hand_over: Some(path.into()), ..self }
    }

    /// The next process takes the listeners over at this path. No listeners are requested there:
    /// for paths that belong to one process, to be taken over from with [`Program::take_over`].
    #[must_use]
    pub fn offer(self, path: impl Into<PathBuf>) -> Self {
        Self { offer: Some(path.into()), ..self }
    }

    /// Takes over, as with [`crate::Host::hand_over`], from the process that listens here: the
    /// first of them, if it is called several times. Without one, everything is opened anew.
    #[must_use]
    pub fn take_over(mut self, path: impl Into<PathBuf>) -> Self {
        self.predecessors.push(path.into());
        self
    }

    /// Stops it as [`Running::stop`] does, also if it has not started yet.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Listens; no connection is accepted yet.
    ///
    /// # Errors
    /// [`Error::Listen`], or [`Error::HandOver`] if the process before us answers with nonsense.
    pub fn open(self) -> Result<Bound<R>, Error> {
        let mut left = None;
        for path in &self.predecessors {
            if left.is_none() {
                left = ask(path)?;
            }
        }
        let mut control = self.offer.as_deref().map(offer).transpose()?;
        if let Some(path) = &self.hand_over {
            let (ours, found) = arrive(path)?;
            control = Some(ours);
            left = found.or(left);
        }
        let (mut taken, previous) = match left {
            None => (Taken::default(), None),
            Some(left) => (left.taken, Some(left.previous)),
        };
        let mut crews = Vec::new();
        for group in self.groups {
            let threads = group.threads;
            let opened = group.listens.into_iter();
            let opened = opened.map(|listen| listen.open_for(threads, &mut taken));
            let opened: Vec<OpenListener> = opened.collect::<Result<_, _>>()?;
            crews.push(BoundGroup {
                shares: deal(&opened, threads)?,
                opened,
                spawn_threads: group.spawn_threads,
            });
        }
        Ok(Bound { crews, control, previous, stopper: self.stopper })
    }
}

impl<R> fmt::Debug for Program<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("crews", &self.groups.len()).finish_non_exhaustive()
    }
}

/// A program that listens; its threads have not started.
pub struct Bound<R> {
    crews: Vec<BoundGroup<R>>,
    control: Option<Control>,
    previous: Option<Previous>,
    stopper: Stopper,
}

/// A group with its open listeners.
struct BoundGroup<R> {
    opened: Vec<OpenListener>,
    shares: Vec<Vec<Share>>,
    spawn_threads: SpawnThreads<R>,
}

impl<R> fmt::Debug for Bound<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("crews", &self.crews.len()).finish_non_exhaustive()
    }
}

impl<R: Send + 'static> Bound<R> {
    /// The addresses of each group, in the order of its listens.
    pub fn addresses(&self) -> impl Iterator<Item = Vec<Address>> {
        self.crews.iter().map(|crew| addresses(&crew.opened))
    }

    /// Starts the threads. None accepts anything until all of them could.
    ///
    /// # Errors
    /// A thread could not start, or its engine could not be made: then no thread, no listener and
    /// no file is left.
    pub fn start(self) -> Result<Running<R>, Error> {
        let Self { crews, control, previous, stopper } = self;
        let mut ready = StartedThreads::default();
        let mut opened = Vec::new();
        for crew in crews {
            match (crew.spawn_threads)(crew.shares, &stopper) {
                Ok(started) => ready.append(started),
                Err(error) => {
                    ready.dismiss();
                    return Err(error);
                }
            }
            opened.extend(crew.opened);
        }
        begin(opened, (control, previous), ready, stopper)
    }
}

/// Threads that wait for permission to begin.
struct StartedThreads<R> {
    threads: Vec<Thread<R>>,
    begins: Vec<mpsc::Sender<()>>,
    built: Vec<Built>,
    /// What the loops of the first crew run on, by their numbers.
    drivers: Vec<DriverInfo>,
}

/// One thread per share of the sockets. All of them are ready, and wait for permission to begin.
fn spawn_threads<C: EngineFactory>(
    name: &str,
    crew: C,
    shares: Vec<Vec<Share>>,
    stopper: &Stopper,
) -> Result<StartedThreads<C::Report>, Error> {
    let crew = Arc::new(crew);
    let (built, waiting) = mpsc::channel();
    let mut ready = StartedThreads::default();
    for (number, sockets) in shares.into_iter().enumerate() {
        let (begin, begun) = mpsc::channel();
        let spec = WorkerSpec {
            number,
            crew: Arc::clone(&crew),
            sockets,
            stop: stopper.engine_stop(),
            built: built.clone(),
            begin: begun,
        };
        let ends_all = EndsAll(stopper.clone());
        let body = move || {
            let _ends_all = ends_all;
            spec.run()
        };
        match thread::Builder::new().name(format!("{name} {number}")).spawn(body) {
            Ok(thread) => ready.threads.push(Thread { number, thread }),
            Err(error) => return Err(ready.dismiss().unwrap_or(Error::Thread { number, error })),
        }
        ready.begins.push(begin);
    }
    drop(built);
    ready.built = waiting.iter().collect();
    ready.built.sort_by_key(|built| built.number); // they come as they could begin
    ready.drivers = ready.built.iter().map(|built| built.driver.clone()).collect();
    if ready.built.len() < ready.threads.len() {
        return Err(ready.dismiss().expect("a thread without a report has failed"));
    }
    Ok(ready)
}

impl<R> Default for StartedThreads<R> {
    fn default() -> Self {
        let (threads, begins) = (Vec::new(), Vec::new());
        Self { threads, begins, built: Vec::new(), drivers: Vec::new() }
    }
}

impl<R> StartedThreads<R> {
    fn append(&mut self, mut other: Self) {
        self.threads.append(&mut other.threads);
        self.begins.append(&mut other.begins);
        self.built.append(&mut other.built);
        if self.drivers.is_empty() {
            self.drivers = other.drivers;
        }
    }

    /// They are not to begin: waits for their end, and returns why one of them could not.
    fn dismiss(self) -> Option<Error> {
        drop(self.begins);
        join(self.threads).err()
    }

    /// A stop takes effect from now on, also an earlier one.
    fn begin(self, stopper: &Stopper) -> Vec<Thread<R>> {
        stopper.set_wakers(self.built.into_iter().map(|built| built.waker).collect());
        for begin in self.begins {
            let _ = begin.send(()); // the thread waits for exactly this
        }
        self.threads
    }
}

/// Has the threads begin; then the process before us may go, and the next one may come.
fn begin<R>(
    opened: Vec<OpenListener>,
    (control, previous): (Option<Control>, Option<Previous>),
    mut ready: StartedThreads<R>,
    stopper: Stopper,
) -> Result<Running<R>, Error> {
    let addresses = addresses(&opened);
    let (mut offers, mut files) = (Vec::new(), Vec::new());
    for listener in opened {
        let (its_offers, its_file) = listener.into_offers();
        offers.extend(its_offers);
        files.extend(its_file);
    }
    let (handover, open) = match control {
        None => (None, None),
        Some(Control { path, socket, file }) => {
            files.extend(file);
            let (handover, open) = HandoverThread::new(path, socket, offers, &stopper)?;
            (Some(handover), Some(open))
        }
    };
    let drivers = std::mem::take(&mut ready.drivers);
    let threads = ready.begin(&stopper);
    if let Some(previous) = previous {
        let path = previous.path().to_owned();
        if let Err(error) = previous.dismiss() {
            stopper.stop();
            let _ = join(threads); // what they did is of no interest: this process has not started
            return Err(Error::HandOver { path, error });
        }
    }
    files.iter_mut().for_each(SocketFile::arm);
    stopper.keep(files.into_iter(), open);
    let handover = handover.map(HandoverThread::begin);
    Ok(Running::new(addresses, drivers, stopper, threads, handover))
}

/// A thread that will answer the next process, once ours is there for good.
struct HandoverThread {
    thread: thread::JoinHandle<Result<(), Error>>,
    begin: mpsc::Sender<()>,
}

impl HandoverThread {
    fn new(
        path: PathBuf,
        control: std::os::fd::OwnedFd,
        offers: Vec<Offer>,
        stopper: &Stopper,
    ) -> Result<(Self, std::os::fd::OwnedFd), Error> {
        let failed = |path: &Path, error| Error::HandOver { path: path.to_owned(), error };
        let (quit, open) = fulmar_sys::pipe().map_err(|error| failed(&path, error))?;
        let handover =
            HandoverServer { path: path.clone(), control, offers, quit, stopper: stopper.clone() };
        let (begin, begun) = mpsc::channel();
        let body = move || begun.recv().map_or(Ok(()), |()| handover.run());
        let thread = thread::Builder::new().name("hand-over".into()).spawn(body);
        let thread = thread.map_err(|error| failed(&path, error))?;
        Ok((Self { thread, begin }, open))
    }

    fn begin(self) -> thread::JoinHandle<Result<(), Error>> {
        let _ = self.begin.send(()); // the thread waits for exactly this
        self.thread
    }
}

fn addresses(opened: &[OpenListener]) -> Vec<Address> {
    opened.iter().map(|listener| listener.address.clone()).collect()
}

fn deal(opened: &[OpenListener], threads: usize) -> Result<Vec<Vec<Share>>, Error> {
    let mut shares: Vec<Vec<Share>> = (0..threads).map(|_| Vec::new()).collect();
    for (listen, listener) in opened.iter().enumerate() {
        let dealt = listener
            .deal(threads)
            .map_err(|error| Error::Listen { address: Some(listener.address.clone()), error })?;
        for (hand, sockets) in shares.iter_mut().zip(dealt) {
            hand.extend(sockets.into_iter().map(|socket| Share { listen, socket }));
        }
    }
    Ok(shares)
}
