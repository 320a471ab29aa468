//! What waits for the disk: complete files that are synced, and existing files that are verified.
//!
//! Both may take seconds, so a thread does them while the loop goes on. Complete files are
//! collected for [`SYNC_EVERY`] and synced as a batch: a few by `fsync(2)` of each and of their
//! directories, more of them by one `syncfs(2)` of their file system, which costs less than a
//! `fsync(2)` for each. The last batch is synced at the end of a run, where nothing else waits.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fulmar_drive::Waker;
use fulmar_sys::{self as sys, Ledger};

use crate::checksum::Checksum;
use crate::journal::Key;
use crate::partial::Written;
use crate::progress::Shared;
use crate::store::Dir;

/// What waits for the disk, and the thread that works on it.
pub(crate) struct Disk {
    shared: Arc<Shared>,
    waker: Option<Waker>,
    worker: Option<Worker>,
    batch: Batch,
    /// When the batch is to be synced.
    due: Option<Instant>,
    /// The thread is syncing an earlier one.
    syncing: bool,
}

#[derive(Debug)]
struct Worker {
    tasks: Sender<Task>,
    news: Receiver<News>,
    thread: JoinHandle<Ledger>,
}

#[derive(Debug)]
enum Task {
    Sync(Batch),
    Verify(Verify),
}

/// An existing file whose checksum is to be verified.
#[derive(Debug)]
pub(crate) struct Verify {
    /// The job that waits for it.
    pub(crate) at: usize,
    pub(crate) key: Key,
    pub(crate) file: OwnedFd,
    pub(crate) checksum: Checksum,
}

/// What has been done.
#[derive(Debug)]
pub(crate) enum News {
    /// These downloads are on the disk, with their lengths, or the disk has failed.
    Synced { done: Vec<(Key, u64)>, result: io::Result<()> },
    /// The file has its checksum, or this one instead.
    Verified { at: usize, key: Key, result: io::Result<Option<Checksum>> },
}

/// Complete files that are synced together.
#[derive(Debug, Default)]
struct Batch {
    done: Vec<(Key, u64)>,
    scope: Scope,
}

/// What has to be synced for them.
#[derive(Debug)]
enum Scope {
    /// Each, and its directory.
    Files(Vec<Written>),
    /// The file systems of these directories.
    FileSystems(Vec<Arc<Dir>>),
}

impl Disk {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let batch = Batch::default();
        Self { shared, waker: None, worker: None, batch, due: None, syncing: false }
    }

    /// `waker` wakes the loop when there is news.
    pub(crate) fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// A file of `len` bytes is complete and has its name: it is to be synced.
    pub(crate) fn add(&mut self, now: Instant, (key, len): (Key, u64), written: Written) {
        self.batch.done.push((key, len));
        self.batch.scope.add(written);
        self.due.get_or_insert(now + SYNC_EVERY);
    }

    /// When [`Disk::sync_batch`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.syncing)
    }

    /// Starts to sync what has been collected, if it is time to.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn sync_batch(&mut self, now: Instant) -> io::Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            self.due = None;
            self.syncing = true;
            let batch = mem::take(&mut self.batch);
            self.send(Task::Sync(batch))?;
        }
        Ok(())
    }

    /// Starts to verify a file.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn verify(&mut self, task: Verify) -> io::Result<()> {
        self.send(Task::Verify(task))
    }

    /// What has been done meanwhile.
    pub(crate) fn poll(&mut self) -> Option<News> {
        let news = self.worker.as_ref()?.news.try_recv().ok()?;
        self.syncing &= !matches!(news, News::Synced { .. });
        Some(news)
    }

    /// Waits for the thread and syncs what is left: all the news, and the system calls of the
    /// thread.
    pub(crate) fn finish(&mut self) -> (Vec<News>, Ledger) {
        let mut ledger = Ledger::ZERO;
        let mut all = Vec::new();
        if let Some(Worker { tasks, news, thread }) = self.worker.take() {
            drop(tasks);
            all.extend(news); // until the thread has ended
            ledger = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let batch = mem::take(&mut self.batch);
        if !batch.done.is_empty() {
            all.push(batch.sync());
        }
        (all, ledger)
    }

    fn send(&mut self, task: Task) -> io::Result<()> {
        let worker = match &mut self.worker {
            Some(worker) => worker,
            none => none.insert(Worker::start(&self.shared, self.waker.clone())?),
        };
        worker.tasks.send(task).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("batch", &self.batch.done.len()).finish_non_exhaustive()
    }
}

impl Worker {
    fn start(shared: &Arc<Shared>, waker: Option<Waker>) -> io::Result<Self> {
        let (tasks, receiver) = mpsc::channel();
        let (sender, news) = mpsc::channel();
        let shared = Arc::clone(shared);
        let body = move || {
            for task in receiver {
                let done = match task {
                    Task::Sync(batch) => batch.sync(),
                    Task::Verify(verify) => verify.run(&shared),
                };
                if sender.send(done).is_ok() {
                    waker.iter().for_each(Waker::wake);
                }
            }
            Ledger::here()
        };
        let thread = thread::Builder::new().name("disk".into()).spawn(body)?;
        Ok(Self { tasks, news, thread })
    }
}

impl Verify {
    fn run(self, shared: &Shared) -> News {
        let result = self.differs(shared);
        sys::close(self.file);
        News::Verified { at: self.at, key: self.key, result }
    }

    fn differs(&self, shared: &Shared) -> io::Result<Option<Checksum>> {
        let mut hasher = self.checksum.hasher();
        let mut buffer = vec![0; READ_SIZE];
        let mut at = 0;
        loop {
            if shared.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match sys::pread(self.file.as_fd(), &mut buffer, at)? {
                0 => return Ok(self.checksum.differs(hasher)),
                n => {
                    hasher.update(&buffer[..n]);
                    at += n as u64;
                }
            }
        }
    }
}

impl Batch {
    fn sync(self) -> News {
        let result = self.scope.sync();
        News::Synced { done: self.done, result }
    }
}

impl Scope {
    fn add(&mut self, written: Written) {
        match self {
            // The name of a new directory would need a sync of its parents, too.
            Self::Files(files) if files.len() < FSYNC_LEN_MAX && !written.dir.is_new() => {
                files.push(written);
            }
            Self::Files(files) => {
                let mut dirs = Vec::new();
                files.drain(..).chain([written]).for_each(|written| note(&mut dirs, written));
                *self = Self::FileSystems(dirs);
            }
            Self::FileSystems(dirs) => note(dirs, written),
        }
    }

    fn sync(self) -> io::Result<()> {
        match self {
            Self::FileSystems(dirs) => {
                dirs.iter().try_for_each(|dir| able(sys::sync_file_system(dir.as_fd())))
            }
            Self::Files(files) => {
                let mut dirs: Vec<Arc<Dir>> = Vec::new();
                let mut result = Ok(());
                for written in files {
                    let synced = able(sys::fsync((*written.file).as_fd()));
                    result = result.and(synced);
                    if !dirs.iter().any(|dir| Arc::ptr_eq(dir, &written.dir)) {
                        dirs.push(Arc::clone(&written.dir));
                    }
                    written.close();
                }
                for dir in dirs {
                    let synced = able(sys::fsync(dir.as_fd()));
                    result = result.and(synced);
                }
                result
            }
        }
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::Files(Vec::new())
    }
}

/// One directory stands for its file system.
fn note(dirs: &mut Vec<Arc<Dir>>, written: Written) {
    if !dirs.iter().any(|dir| dir.device() == written.dir.device()) {
        dirs.push(Arc::clone(&written.dir));
    }
    written.close();
}

/// Where the file system cannot sync there is nothing to wait for.
fn able(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
                    | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// The work of so long may be lost to a power failure, or be done again after a kill.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Files that are synced one by one: a `syncfs(2)` also waits for what others have written.
const FSYNC_LEN_MAX: usize = 8;
const READ_SIZE: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::partial::{Naming, Partial};
    use crate::store::Store;

    /// Fetches so many files into `prefix`, and the calls that syncing them takes.
    fn calls(count: u64, prefix: &str) -> (Ledger, Vec<(Key, u64)>) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut disk = Disk::new(Arc::default());
        for number in 0..count {
            let name = Name::given(&format!("{prefix}{number}")).unwrap();
            let place = store.place(&name).unwrap();
            let mut partial = Partial::create(&place, Key(number)).unwrap();
            partial.append(b"abc").unwrap();
            let written = partial.commit(Naming::New).unwrap().expect("a file");
            disk.add(sys::now(), (Key(number), 3), written);
        }
        let before = Ledger::here();
        let (news, _) = disk.finish();
        let [News::Synced { done, result: Ok(()) }] = &news[..] else { panic!("{news:?}") };
        (Ledger::here() - before, done.clone())
    }

    #[test]
    fn few_files_are_synced_one_by_one_and_many_by_their_file_system() {
        let of = |ledger: &Ledger, call| ledger.count(call).calls;
        for (count, prefix, fsync, syncfs) in
            [(1, "", 2, 0), (8, "", 9, 0), (9, "", 0, 1), (1_000, "", 0, 1), (2, "new/", 0, 1)]
        {
            let (ledger, done) = calls(count, prefix);
            let seen = (of(&ledger, sys::Call::fsync), of(&ledger, sys::Call::syncfs));
            assert_eq!(seen, (fsync, syncfs), "{count} files in {prefix:?}");
            assert_eq!(done.len() as u64, count);
        }
    }

    #[test]
    fn a_batch_is_synced_by_the_thread_when_it_is_due() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut disk = Disk::new(Arc::default());
        let now = sys::now();
        let place = store.place(&Name::given("a").unwrap()).unwrap();
        let partial = Partial::create(&place, Key(1)).unwrap();
        disk.add(now, (Key(1), 0), partial.commit(Naming::New).unwrap().expect("a file"));
        assert_eq!(disk.due(), Some(now + SYNC_EVERY));
        disk.sync_batch(now).unwrap();
        assert!(disk.worker.is_none(), "it is not due");
        disk.sync_batch(now + SYNC_EVERY).unwrap();
        assert_eq!(disk.due(), None);
        let (news, ledger) = disk.finish();
        assert!(matches!(&news[..], [News::Synced { result: Ok(()), .. }]), "{news:?}");
        assert_eq!(ledger.count(sys::Call::fsync).calls, 2);
    }
}
