//! The counter that takes no privileges: `ptrace(2)`, two stops for each call.
//!
//! `seccomp(2)` would not make it cheaper: it can leave calls out, and all are wanted, with their
//! results. What is traced belongs to the thread that traces, so that is one of our own.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fulmar_sys as sys;

use crate::counter::{End, Stopper};
use crate::counts::{Backend, Counts, Tally};
use crate::error::AuditError;
use crate::feed::Feed;
use crate::timeline::Timeline;
use crate::tracing::{self, Tracing};
use crate::watch::{children, locked, tracer_of};
use crate::{kinds, names};

/// Processes that a thread of ours traces, until they end or this is dropped.
pub(crate) struct Tracer {
    /// The number of that thread.
    thread: u32,
    /// It is to leave.
    leave: Arc<AtomicBool>,
    book: Arc<Mutex<Book>>,
    /// Readable once the end is in the book.
    ended: Arc<sys::Wakeup>,
    stop: Arc<sys::Wakeup>,
}

/// What the tracing thread writes, and others read.
#[derive(Default)]
pub(crate) struct Book {
    calls: HashMap<u32, Entry>,
    pub(crate) lost: u64,
    /// Of these, calls by numbers that mean something else.
    pub(crate) foreign: u64,
    pub(crate) threads: u64,
    pub(crate) processes: u64,
    /// There is nothing left to trace, or no tracing any more.
    pub(crate) end: Option<Result<End, io::ErrorKind>>,
    /// Each call, if somebody wants it.
    pub(crate) feed: Option<Feed>,
}

/// What is added up of a call.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    count: u64,
    bytes: u64,
    errors: HashMap<i32, u64>,
    kinds: HashMap<u32, u64>,
}

impl Tracer {
    /// Starts the command, traced; its process number.
    pub(crate) fn start(
        mut command: Command,
        feed: Option<Feed>,
    ) -> Result<(Self, u32), AuditError> {
        Self::begin(feed, move |book, ended| tracing::start(&mut command, book, ended))
    }

    /// Traces a running process and its descendants.
    pub(crate) fn join(pid: u32, feed: Option<Feed>) -> Result<Self, AuditError> {
        let begun = Self::begin(feed, move |book, ended| tracing::join(pid, book, ended));
        begun.map(|(tracer, _)| tracer)
    }

    fn begin(
        feed: Option<Feed>,
        begin: impl FnOnce(Arc<Mutex<Book>>, Arc<sys::Wakeup>) -> Result<Tracing, AuditError>
        + Send
        + 'static,
    ) -> Result<(Self, u32), AuditError> {
        let wakeup = || sys::Wakeup::new().map(Arc::new).map_err(AuditError::Wait);
        let (ended, stop) = (wakeup()?, wakeup()?);
        let book = Arc::new(Mutex::new(Book { feed, ..Book::default() }));
        let leave = Arc::default();
        let (book_there, ended_there) = (Arc::clone(&book), Arc::clone(&ended));
        let leave_there = Arc::clone(&leave);
        let (tell, begun) = mpsc::channel();
        let body = move || {
            let begun = sys::thread_number()
                .map_err(AuditError::Wait)
                .and_then(|thread| Ok((thread, begin(book_there, ended_there)?)));
            match begun {
                Ok((thread, mut tracing)) => {
                    let _ = tell.send(Ok((thread, tracing.subject()))); // who waits for it is there
                    tracing.run(&leave_there);
                }
                Err(e) => {
                    let _ = tell.send(Err(e));
                }
            }
        };
        let builder = thread::Builder::new().name("tracer".into());
        builder.spawn(body).map_err(AuditError::Thread)?;
        let (thread, pid) = begun.recv().map_err(|e| AuditError::Thread(io::Error::other(e)))??;
        Ok((Self { thread, leave, book, ended, stop }, pid))
    }

    pub(crate) fn snapshot(&self) -> Counts {
        let book = locked(&self.book);
        let mut counts = Counts::none(Backend::Ptrace);
        counts.ring_why = "tracing does not see them".to_owned();
        counts.calls = book.calls.iter().map(|(number, entry)| entry.call(*number)).collect();
        counts.lost = book.lost;
        counts.foreign = book.foreign;
        counts.threads = book.threads;
        counts.processes = book.processes;
        if let Some(feed) = &book.feed {
            counts.by_phase = feed.by_phase();
            counts.lost += feed.lost(0);
        }
        counts
    }

    /// The traced processes among our children: the command, and whom it left behind.
    pub(crate) fn children(&self) -> Vec<u32> {
        let mut children = children(std::process::id());
        children.retain(|child| tracer_of(*child) == Some(self.thread));
        children
    }

    /// As [`Counter::record`](crate::Counter::record).
    pub(crate) fn record(&self) {
        if let Some(feed) = &mut locked(&self.book).feed {
            feed.record();
        }
    }

    /// As [`Counter::timeline`](crate::Counter::timeline). Nothing is lost by tracing.
    pub(crate) fn timeline(&self) -> Option<Timeline> {
        locked(&self.book).feed.as_ref()?.timeline(0)
    }

    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// As [`Counter::wait`](crate::Counter::wait).
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<Option<End>, AuditError> {
        let until = timeout.map(|timeout| sys::now() + timeout);
        loop {
            if let Some(end) = locked(&self.book).end {
                return end.map(Some).map_err(|kind| AuditError::Wait(kind.into()));
            }
            let left = until.map(|until| until.saturating_duration_since(sys::now()));
            let mut entries = [self.stop.as_fd(), self.ended.as_fd()].map(sys::PollEntry::reading);
            match sys::poll(&mut entries, left) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(AuditError::Wait(e)),
                Ok(()) => {}
            }
            if entries[0].events().is_readable() {
                self.stop.drain().map_err(AuditError::Wait)?;
                return Ok(Some(End::Stopped));
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }
}

impl Drop for Tracer {
    /// With the thread that traces them, whom it traced are let go, and go on (`ptrace(2)`); only
    /// then can somebody else trace them. So its end is waited for.
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Release);
        let thread = format!("/proc/self/task/{}", self.thread);
        let until = sys::now() + LEAVE_TIME_MAX;
        while Path::new(&thread).exists() && sys::now() < until {
            let _ = sys::interrupt_wait(self.thread); // it has ended meanwhile
            thread::park_timeout(LEAVE_LOOK);
        }
    }
}

impl Book {
    /// A call returned whose number means something else.
    pub(crate) fn enter_foreign(&mut self) {
        self.lost += 1;
        self.foreign += 1;
    }

    /// A call returned.
    pub(crate) fn enter(&mut self, number: u32, arguments: &[u64; 6], result: i64) {
        let entry = self.calls.entry(number).or_default();
        entry.enter(number, result);
        if let Some(kind) = kinds::kind(number, arguments) {
            *entry.kinds.entry(kind).or_default() += 1;
        }
    }
}

impl Entry {
    /// One more, with this result.
    pub(crate) fn enter(&mut self, number: u32, result: i64) {
        self.count += 1;
        if result >= 0 || !names::is_signal_return(number) {
            self.conclude(result);
        }
    }

    fn conclude(&mut self, result: i64) {
        match names::error(result) {
            Some(errno) => *self.errors.entry(errno).or_default() += 1,
            None => self.bytes = self.bytes.wrapping_add(result.unsigned_abs()),
        }
    }

    /// An operation was done, and is one more, or only its result is.
    pub(crate) fn complete(&mut self, is_counted: bool, result: i64) {
        self.count += u64::from(is_counted);
        self.conclude(result);
    }

    /// The name of the operation, and the sum.
    pub(crate) fn operation(&self, opcode: u32) -> (String, Tally) {
        let name = names::operation(opcode);
        let tally = self.tally(names::operates_on_bytes(&name), BTreeMap::new());
        (name, tally)
    }

    /// The name of the call, and the sum.
    pub(crate) fn call(&self, number: u32) -> (String, Tally) {
        let name = names::call(number);
        let kind = |(kind, count): (&u32, &u64)| (kinds::name(number, *kind), *count);
        let tally = self.tally(names::moves_bytes(&name), self.kinds.iter().map(kind).collect());
        (name, tally)
    }

    fn tally(&self, moves_bytes: bool, kinds: BTreeMap<String, u64>) -> Tally {
        let bytes = if moves_bytes { self.bytes } else { 0 };
        let errors = self.errors.iter().map(|(errno, count)| (*errno, *count)).collect();
        Tally { count: self.count, errors, bytes, kinds }
    }
}

/// Between two looks whether the tracing thread has ended.
const LEAVE_LOOK: Duration = Duration::from_millis(1);
/// It has nothing to wait for by then; a machine that is that slow does not wait for us either.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);
