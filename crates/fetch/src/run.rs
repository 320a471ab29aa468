//! A run: a reactor on a thread of its own.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use fulmar_client::Client;
use fulmar_drive::{Driven, Epoll, Reactor, Waker};
use fulmar_names::Names;
use fulmar_sys::{self as sys, Ledger};

use crate::book::{Book, Complaints};
use crate::disk::Disk;
use crate::error::FetchError;
use crate::feed::Feed;
use crate::fetch::{Fetch, Work};
use crate::journal::{History, JOURNAL_NAME, Journal};
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::progress::{Progress, Shared};
use crate::record::Records;
use crate::report::Report;
use crate::store::{BodyOutput, Store};

/// A run in progress.
///
/// ```no_run
/// let options = fulmar_fetch::Options {
///     urls: vec!["http://127.0.0.1:8080/a".to_owned()],
///     output: fulmar_fetch::Output::Dir("downloads".into()),
///     ..Default::default()
/// };
/// let running = fulmar_fetch::start(options, |complaint| eprintln!("{complaint}"))?;
/// let report = running.finish()?;
/// println!("{}", report.text());
/// # Ok::<(), fulmar_fetch::FetchError>(())
/// ```
#[derive(Debug)]
pub struct Running {
    stopper: Stopper,
    driven: Driven,
    thread: JoinHandle<io::Result<Report>>,
}

/// Ends a run early, from any thread: what is whole stays, and so does the journal.
#[derive(Clone, Debug)]
pub struct Stopper {
    shared: Arc<Shared>,
    waker: Waker,
}

/// Opens everything and starts the thread. `on_fault` is told of each URL that fails, by a line.
///
/// # Errors
/// Something cannot be opened: the variant says what.
pub fn start(
    options: Options,
    on_fault: impl FnMut(&str) + Send + 'static,
) -> Result<Running, FetchError> {
    let shared = Arc::new(Shared::default());
    let (sender, receiver) = mpsc::channel();
    let (ours, complaints) = (Arc::clone(&shared), Box::new(on_fault));
    let body = move || match prepare(options, ours, complaints) {
        Ok(reactor) => drive(reactor, &sender),
        Err(error) => {
            let _ = sender.send(Err(error)); // whoever started us waits for it
            Err(io::ErrorKind::Other.into())
        }
    };
    let thread = thread::Builder::new().name("get".into()).spawn(body).map_err(FetchError::Loop)?;
    let gone = |_| FetchError::Loop(io::ErrorKind::Other.into());
    let (waker, driven) = receiver.recv().map_err(gone)??;
    Ok(Running { stopper: Stopper { shared, waker }, driven, thread })
}

impl Running {
    /// How far it is; only kept up to date if [`Options::watched`].
    pub fn progress(&self) -> Progress {
        self.stopper.shared.read()
    }

    /// True once [`Running::finish`] does not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// What its loop runs on.
    pub fn driven(&self) -> &Driven {
        &self.driven
    }

    /// A way to end it early.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The event loop failed.
    pub fn finish(self) -> Result<Report, FetchError> {
        let joined = self.thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        joined.map_err(FetchError::Loop)
    }
}

impl Stopper {
    /// Ends the run.
    pub fn stop(&self) {
        self.shared.stop();
        self.waker.wake();
    }
}

type Loop = Reactor<Client<Fetch>, Epoll>;
type Started = Result<(Waker, Driven), FetchError>;

/// Everything that a run needs, opened.
fn prepare(
    options: Options,
    shared: Arc<Shared>,
    complaints: Complaints,
) -> Result<(Loop, Waker, Instant), FetchError> {
    sys::block_write_signals().map_err(FetchError::Loop)?; // whatever the program does about them
    let now = sys::now();
    let wall = sys::wall_clock();
    let plan = Plan::new(&options, (now, wall))?;
    let names = plan::names(&options)?;
    let (outlet, journal, history) = open(&options)?;
    let records = options
        .records
        .as_ref()
        .map(|sink| Records::open(sink).map_err(|error| FetchError::Records(sink.path(), error)));
    let disk = Disk::new(Arc::clone(&shared), journal.descriptor());
    let book = Book::new(now, shared, records.transpose()?, complaints, options.watched);
    // The client needs its application, the feed the reactor's waker: it is opened last.
    let config = plan::config(&options);
    let list = options.list.clone();
    let feed = Feed::new(options.urls, options.output.name());
    let work = Work::default();
    let fetch = Fetch { plan, feed, outlet, disk, journal, history, book, work };
    let client = Client::new(now, wall, fetch, config);
    let mut reactor =
        Reactor::with_options(client, options.loop_options).map_err(FetchError::Loop)?;
    reactor.set_resolver(Box::new(Names::new(names)));
    let waker = reactor.waker().map_err(FetchError::Loop)?;
    reactor.with(|client, now| {
        client.with(now, |fetch, _| fetch.disk.set_waker(waker.clone()));
    });
    if let Some(source) = list {
        let result = reactor.with(|client, now| {
            client.with(now, |fetch, _| fetch.feed.open(&source, waker.clone()))
        });
        result.map_err(|error| FetchError::List(source.path(), error))?;
    }
    Ok((reactor, waker, now))
}

/// The output directory with its journal, or standard output, which has none.
fn open(options: &Options) -> Result<(BodyOutput, Journal, History), FetchError> {
    let Some(dir) = options.output.dir() else {
        return Ok((BodyOutput::Stdout, Journal::none(), History::default()));
    };
    let store = Store::open(dir).map_err(|error| FetchError::Dir(dir.to_owned(), error))?;
    let path = options.journal.clone().unwrap_or_else(|| dir.join(JOURNAL_NAME));
    let boot = sys::boot_id().ok();
    let (journal, history) =
        Journal::open(&path, boot.as_deref()).map_err(|error| FetchError::Journal(path, error))?;
    Ok((BodyOutput::Files(store), journal, history))
}

/// The life of the thread.
fn drive(
    (mut reactor, waker, begun): (Loop, Waker, Instant),
    started: &Sender<Started>,
) -> io::Result<Report> {
    let _ = started.send(Ok((waker, reactor.driven()))); // whoever started us waits for it
    reactor.with(|client, now| client.with(now, Fetch::fill));
    let mut unfinished = 0;
    let mut stopped = false;
    while !reactor.engine.application().is_finished() {
        reactor.turn()?;
        if reactor.engine.application().book.shared.is_stopped() {
            stopped = true;
            unfinished = reactor.with(|client, now| client.with(now, Fetch::stop));
        } else if reactor.engine.application().has_versions() {
            reactor.with(|client, now| client.with(now, |fetch, _| fetch.note_versions()));
        }
    }
    let (stats, driven) = (reactor.stats(), reactor.driven());
    let connections = reactor.engine.stats().connections;
    let ended = sys::now();
    let (tally, trouble, list) =
        reactor.with(|client, now| client.with(now, |fetch, _| fetch.finish(stopped)));
    let resident = sys::resident_bytes().unwrap_or(0);
    let cpu = sys::process_cpu()?;
    drop(reactor);
    Ok(Report {
        tally,
        unfinished,
        stopped,
        trouble,
        elapsed: ended - begun,
        connections,
        ledger: Ledger::here() + list,
        cpu,
        resident,
        stats,
        driven,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Output, Proxy};

    /// A file that may not be so long (`ulimit -f`) fails alone, whatever the program does about
    /// `SIGXFSZ`.
    #[test]
    fn a_thread_that_writes_files_is_not_killed_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let urls = vec!["no URL".to_owned()];
        let (output, proxy) = (Output::Dir(dir.path().to_owned()), Proxy::None);
        let options = Options { urls, output, proxy, ..Options::default() };
        let (sender, told) = mpsc::channel();
        let running = start(options, move |_| {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            sender.send(u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()).unwrap();
        });
        running.unwrap().finish().unwrap();
        let both = 1 << (13 - 1) | 1 << (25 - 1); // SIGPIPE, SIGXFSZ
        assert_eq!(told.recv().unwrap() & both, both);
    }
}
