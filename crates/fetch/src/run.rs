//! A run: a reactor on a separate thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use fulmar_client::Client;
use fulmar_drive::{AnySelector, DriverInfo, Reactor, Waker};
use fulmar_names::Names;
use fulmar_sys::{self as sys, Ledger};

use crate::disk::Disk;
use crate::error::FetchError;
use crate::fetch::{Fetch, JobTable};
use crate::journal::{History, JOURNAL_NAME, Journal};
use crate::list_reader::Feed;
use crate::options::Options;
use crate::output_dir::{BodyOutput, Store};
use crate::progress::{FetchProgress, SharedProgress};
use crate::report::Report;
use crate::request_plan::{self, RequestPlan};
use crate::run_log::{Complaints, RunLog};
use crate::url_record::RecordFile;

/// A run in progress.
///
/// ```no_run
/// let options = fulmar_fetch::Options {
///     urls: vec!["http://127.0.0.1:8080/a".to_owned()],
///     output: fulmar_fetch::OutputTarget::Dir("downloads".into()),
///     ..Default::default()
/// };
/// let running = fulmar_fetch::start(options, |complaint| eprintln!("{complaint}"))?;
/// let report = running.finish()?;
/// println!("{}", report.text());
/// # Ok::<(), fulmar_fetch::FetchError>(())
/// ```
#[derive(Debug)]
pub struct RunningFetch {
    stopper: FetchStopper,
    driver: DriverInfo,
    thread: JoinHandle<io::Result<Report>>,
}

/// Ends a run early, from any thread. Finished files and the journal stay.
#[derive(Clone, Debug)]
pub struct FetchStopper {
    shared: Arc<SharedProgress>,
    waker: Waker,
}

/// Opens everything and starts the thread. `on_fault` is called with a message for each failed URL.
///
/// # Errors
/// The variant is the thing that cannot be opened.
pub fn start(
    options: Options,
    on_fault: impl FnMut(&str) + Send + 'static,
) -> Result<RunningFetch, FetchError> {
    let shared = Arc::new(SharedProgress::default());
    let (sender, receiver) = mpsc::channel();
    let (ours, complaints) = (Arc::clone(&shared), Box::new(on_fault));
    let body = move || match prepare(options, ours, complaints) {
        Ok(reactor) => drive(reactor, &sender),
        Err(error) => {
            let _ = sender.send(Err(error)); // the starting thread waits for it
            Err(io::ErrorKind::Other.into())
        }
    };
    let thread = thread::Builder::new().name("get".into()).spawn(body).map_err(FetchError::Loop)?;
    let gone = |_| FetchError::Loop(io::ErrorKind::Other.into());
    let (waker, driver) = receiver.recv().map_err(gone)??;
    Ok(RunningFetch { stopper: FetchStopper { shared, waker }, driver, thread })
}

impl RunningFetch {
    /// The progress; updated only with [`Options::watched`].
    pub fn progress(&self) -> FetchProgress {
        self.stopper.shared.read()
    }

    /// True once [`RunningFetch::finish`] does not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The driver of the event loop.
    pub fn driver(&self) -> &DriverInfo {
        &self.driver
    }

    /// A handle to end the run early.
    pub fn stopper(&self) -> FetchStopper {
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

impl FetchStopper {
    /// Ends the run.
    pub fn stop(&self) {
        self.shared.stop();
        self.waker.wake();
    }
}

type FetchLoop = Reactor<Client<Fetch>, AnySelector>;
type Started = Result<(Waker, DriverInfo), FetchError>;

/// Opens everything that a run needs.
fn prepare(
    options: Options,
    shared: Arc<SharedProgress>,
    complaints: Complaints,
) -> Result<(FetchLoop, Waker, Instant), FetchError> {
    // Independent of the program's own handlers.
    sys::block_write_signals().map_err(FetchError::Loop)?;
    let now = sys::now();
    let wall = sys::wall_clock();
    let plan = RequestPlan::new(&options, (now, wall))?;
    let names = request_plan::names(&options)?;
    let records = options.records.as_ref().map(|sink| {
        RecordFile::open(sink).map_err(|error| FetchError::Records(sink.path(), error))
    });
    let records = records.transpose()?;
    let (outlet, journal, history) = open(&options)?;
    let disk = Disk::new(Arc::clone(&shared), journal.descriptor());
    let book = RunLog::new(now, shared, records, complaints, options.watched);
    // The client needs its application, and the feed needs the reactor's waker, so the feed is
    // opened last.
    let config = request_plan::config(&options);
    let list = options.list.clone();
    let feed = Feed::new(options.urls, options.output.name());
    let work = JobTable::default();
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
            client.with(now, |fetch, _| {
                let opened = fetch.feed.open(&source, waker.clone());
                opened.inspect_err(|_| fetch.remove_traces())
            })
        });
        result.map_err(|error| FetchError::List(source.path(), error))?;
    }
    Ok((reactor, waker, now))
}

/// The output directory with its journal; or standard output, which has none.
fn open(options: &Options) -> Result<(BodyOutput, Journal, History), FetchError> {
    let Some(dir) = options.output.dir() else {
        return Ok((BodyOutput::Stdout, Journal::none(), History::default()));
    };
    let mut store = Store::open(dir).map_err(|error| FetchError::Dir(dir.to_owned(), error))?;
    let path = options.journal.clone().unwrap_or_else(|| dir.join(JOURNAL_NAME));
    let boot = sys::boot_id().ok();
    let (journal, history) = Journal::open(&path, boot.as_deref()).map_err(|error| {
        store.remove_made();
        FetchError::Journal(path, error)
    })?;
    Ok((BodyOutput::Files(Box::new(store)), journal, history))
}

/// The body of the thread.
fn drive(
    (mut reactor, waker, begun): (FetchLoop, Waker, Instant),
    started: &Sender<Started>,
) -> io::Result<Report> {
    let _ = started.send(Ok((waker, reactor.driver_info()))); // the starting thread waits for it
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
    let (stats, driver) = (reactor.stats(), reactor.driver_info());
    let connections = reactor.engine.stats().established;
    let ended = sys::now();
    let (tally, errors, list) =
        reactor.with(|client, now| client.with(now, |fetch, _| fetch.finish(stopped)));
    let resident = sys::resident_bytes().unwrap_or(0);
    let cpu = sys::process_cpu()?;
    drop(reactor);
    Ok(Report {
        tally,
        unfinished,
        stopped,
        errors,
        elapsed: ended - begun,
        connections,
        ledger: Ledger::here() + list,
        cpu,
        resident,
        stats,
        driver,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OutputTarget, ProxyChoice};

    /// A file beyond the size limit (`ulimit -f`) fails alone, independent of the program's
    /// handling of `SIGXFSZ`.
    #[test]
    fn exceeding_the_file_size_limit_kills_no_thread() {
        let dir = tempfile::tempdir().unwrap();
        let urls = vec!["no URL".to_owned()];
        let (output, proxy) = (OutputTarget::Dir(dir.path().to_owned()), ProxyChoice::None);
        let options = Options { urls, output, proxy, ..Options::default() };
        let (sender, masks) = mpsc::channel();
        let running = start(options, move |_| {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            sender.send(u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()).unwrap();
        });
        running.unwrap().finish().unwrap();
        let both = 1 << (13 - 1) | 1 << (25 - 1); // SIGPIPE, SIGXFSZ
        assert_eq!(masks.recv().unwrap() & both, both);
    }
}
