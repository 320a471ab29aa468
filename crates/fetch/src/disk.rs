//! Work that waits for the disk: complete files are synced, and existing files are verified.
//!
//! Both may take seconds, so each has a thread while the loop continues. Complete files are
//! collected for [`SYNC_EVERY`] and synced as a batch. First comes the journal: without its line a
//! file on the disk would count as another program's. A few files are synced by `fsync(2)` of each
//! and of their directories. More of them are synced by one `syncfs(2)` of their file system, which
//! costs less. The last batch is synced at the end of a run.

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

use crate::checksum::FileChecksum;
use crate::journal::DownloadKey;
use crate::output_dir::OutputDir;
use crate::partial::WrittenFile;
use crate::progress::SharedProgress;

/// Files that wait for the disk, and the threads that work on them.
pub(crate) struct Disk {
    shared: Arc<SharedProgress>,
    waker: Option<Waker>,
    journal: Option<Arc<OwnedFd>>,
    syncer: Option<DiskThread>,
    verifier: Option<DiskThread>,
    batch: Batch,
    /// When the batch is to be synced.
    due: Option<Instant>,
    /// An earlier batch is being synced.
    syncing: bool,
}

#[derive(Debug)]
struct DiskThread {
    tasks: Sender<DiskTask>,
    events: Receiver<DiskEvent>,
    thread: JoinHandle<Ledger>,
}

#[derive(Debug)]
enum DiskTask {
    Sync(Batch),
    Verify(VerifyTask),
}

/// An existing file to compare with its checksum.
#[derive(Debug)]
pub(crate) struct VerifyTask {
    /// The job that waits for it.
    pub(crate) at: usize,
    pub(crate) key: DownloadKey,
    pub(crate) file: OwnedFd,
    pub(crate) checksum: FileChecksum,
}

/// A finished task.
#[derive(Debug)]
pub(crate) enum DiskEvent {
    /// These downloads, with their lengths, are on the disk, or the disk has failed.
    Synced { done: Vec<(DownloadKey, u64)>, result: io::Result<()> },
    /// The file has the expected checksum (`None`), or this one.
    Verified { at: usize, key: DownloadKey, result: io::Result<Option<FileChecksum>> },
}

/// Complete files that are synced together.
#[derive(Debug, Default)]
struct Batch {
    done: Vec<(DownloadKey, u64)>,
    scope: SyncScope,
}

/// The descriptors to sync for them.
#[derive(Debug)]
enum SyncScope {
    /// Each, and its directory.
    Files(Vec<WrittenFile>),
    /// The file systems of these directories.
    FileSystems(Vec<Arc<OutputDir>>),
}

impl Disk {
    /// `journal` is synced before each batch.
    pub(crate) fn new(shared: Arc<SharedProgress>, journal: Option<Arc<OwnedFd>>) -> Self {
        Self {
            shared,
            waker: None,
            journal,
            syncer: None,
            verifier: None,
            batch: Batch::default(),
            due: None,
            syncing: false,
        }
    }

    /// `waker` wakes the loop when [`Disk::poll`] has something.
    pub(crate) fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// A file of `len` bytes is complete and has its name: it is to be synced.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        (key, len): (DownloadKey, u64),
        written: WrittenFile,
    ) {
        self.batch.done.push((key, len));
        self.batch.scope.add(written);
        self.due.get_or_insert(now + SYNC_EVERY);
    }

    /// When [`Disk::sync_batch`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.syncing)
    }

    /// Starts to sync the batch, if it is due. If no thread can be started, the batch stays: the
    /// next file makes it due again, and [`Disk::finish`] syncs it at the latest.
    pub(crate) fn sync_batch(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.due = None;
            let Self { syncer, shared, waker, journal, .. } = self;
            if let Ok(thread) = DiskThread::of(syncer, shared, waker.as_ref(), journal.as_ref()) {
                thread.send(DiskTask::Sync(mem::take(&mut self.batch)));
                self.syncing = true;
            }
        }
    }

    /// Starts to verify a file.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn verify(&mut self, task: VerifyTask) -> io::Result<()> {
        let Self { verifier, shared, waker, journal, .. } = self;
        let thread = DiskThread::of(verifier, shared, waker.as_ref(), journal.as_ref())?;
        thread.send(DiskTask::Verify(task));
        Ok(())
    }

    /// The next finished task.
    pub(crate) fn poll(&mut self) -> Option<DiskEvent> {
        let mut threads = [&self.syncer, &self.verifier].into_iter().flatten();
        let event = threads.find_map(|thread| thread.events.try_recv().ok())?;
        self.syncing &= !matches!(event, DiskEvent::Synced { .. });
        Some(event)
    }

    /// Syncs the journal.
    ///
    /// # Errors
    /// As [`sys::fsync`].
    pub(crate) fn sync_journal(&self) -> io::Result<()> {
        sync_journal(self.journal.as_deref())
    }

    /// Waits for the threads and syncs the last batch. Returns all remaining events, and the system
    /// calls of the threads.
    pub(crate) fn finish(&mut self) -> (Vec<DiskEvent>, Ledger) {
        let mut ledger = Ledger::ZERO;
        let mut all = Vec::new();
        for thread in [self.syncer.take(), self.verifier.take()].into_iter().flatten() {
            let DiskThread { tasks, events, thread } = thread;
            drop(tasks);
            all.extend(events); // until the thread has ended
            let calls = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ledger = ledger + calls;
        }
        let batch = mem::take(&mut self.batch);
        if !batch.done.is_empty() {
            all.push(batch.sync(self.journal.as_deref()));
        }
        (all, ledger)
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("batch", &self.batch.done.len()).finish_non_exhaustive()
    }
}

impl DiskThread {
    /// The thread in `place`, which is started if there is none.
    fn of<'a>(
        place: &'a mut Option<Self>,
        shared: &Arc<SharedProgress>,
        waker: Option<&Waker>,
        journal: Option<&Arc<OwnedFd>>,
    ) -> io::Result<&'a Self> {
        Ok(match place {
            Some(thread) => thread,
            none => none.insert(Self::start(shared, waker.cloned(), journal.cloned())?),
        })
    }

    fn start(
        shared: &Arc<SharedProgress>,
        waker: Option<Waker>,
        journal: Option<Arc<OwnedFd>>,
    ) -> io::Result<Self> {
        let (tasks, receiver) = mpsc::channel();
        let (sender, events) = mpsc::channel();
        let shared = Arc::clone(shared);
        let body = move || {
            for task in receiver {
                let done = match task {
                    DiskTask::Sync(batch) => batch.sync(journal.as_deref()),
                    DiskTask::Verify(verify) => verify.run(&shared),
                };
                if sender.send(done).is_ok() {
                    waker.iter().for_each(Waker::wake);
                }
            }
            Ledger::here()
        };
        let thread = thread::Builder::new().name("disk".into()).spawn(body)?;
        Ok(Self { tasks, events, thread })
    }

    fn send(&self, task: DiskTask) {
        self.tasks.send(task).expect("the thread receives until its tasks end");
    }
}

impl VerifyTask {
    fn run(self, shared: &SharedProgress) -> DiskEvent {
        let result = self.differs(shared);
        sys::close(self.file);
        DiskEvent::Verified { at: self.at, key: self.key, result }
    }

    fn differs(&self, shared: &SharedProgress) -> io::Result<Option<FileChecksum>> {
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
    fn sync(self, journal: Option<&OwnedFd>) -> DiskEvent {
        let recorded = sync_journal(journal);
        let result = recorded.and_then(|()| self.scope.sync());
        DiskEvent::Synced { done: self.done, result }
    }
}

impl SyncScope {
    fn add(&mut self, written: WrittenFile) {
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
                let mut dirs: Vec<Arc<OutputDir>> = Vec::new();
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

impl Default for SyncScope {
    fn default() -> Self {
        Self::Files(Vec::new())
    }
}

/// Adds the directory, unless another one on the same file system is listed.
fn note(dirs: &mut Vec<Arc<OutputDir>>, written: WrittenFile) {
    if !dirs.iter().any(|dir| dir.device() == written.dir.device()) {
        dirs.push(Arc::clone(&written.dir));
    }
    written.close();
}

fn sync_journal(journal: Option<&OwnedFd>) -> io::Result<()> {
    journal.map_or(Ok(()), |journal| able(sys::fsync(journal.as_fd())))
}

/// Success also where the file system cannot sync.
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

/// A power failure may lose the downloads of so long.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Files that are synced one by one: a `syncfs(2)` also waits for what others have written.
const FSYNC_LEN_MAX: usize = 8;
const READ_SIZE: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::name::OutputName;
    use crate::output_dir::Store;
    use crate::partial::{Naming, Partial};

    /// Syncs `count` files below `prefix`, and returns the system calls for it.
    fn calls(count: u64, prefix: &str) -> (Ledger, Vec<(DownloadKey, u64)>) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut disk = Disk::new(Arc::default(), None);
        for number in 0..count {
            let name = OutputName::given(format!("{prefix}{number}")).unwrap();
            let place = store.place(&name).unwrap();
            let mut partial = Partial::create(&place, DownloadKey(number)).unwrap();
            partial.append(b"abc").unwrap();
            let written = partial.commit(Naming::New).unwrap().expect("a file");
            disk.add(sys::now(), (DownloadKey(number), 3), written);
        }
        let before = Ledger::here();
        let (events, _) = disk.finish();
        let [DiskEvent::Synced { done, result: Ok(()) }] = &events[..] else {
            panic!("{events:?}")
        };
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
        let (journal, _) = Journal::open(&dir.path().join("journal"), None).unwrap();
        let mut disk = Disk::new(Arc::default(), journal.descriptor());
        let now = sys::now();
        let place = store.place(&OutputName::given("a").unwrap()).unwrap();
        let partial = Partial::create(&place, DownloadKey(1)).unwrap();
        disk.add(now, (DownloadKey(1), 0), partial.commit(Naming::New).unwrap().expect("a file"));
        assert_eq!(disk.due(), Some(now + SYNC_EVERY));
        disk.sync_batch(now);
        assert!(disk.syncer.is_none(), "it is not due");
        disk.sync_batch(now + SYNC_EVERY);
        assert_eq!(disk.due(), None);
        let (events, ledger) = disk.finish();
        assert!(matches!(&events[..], [DiskEvent::Synced { result: Ok(()), .. }]), "{events:?}");
        assert_eq!(ledger.count(sys::Call::fsync).calls, 3, "journal, file and directory");
    }
}
