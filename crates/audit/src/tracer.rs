//! The counter that needs no privileges: `ptrace(2)`, with two stops for each call.
//!
//! `seccomp(2)` would not make it cheaper: it can skip calls, but all calls and their results are
//! needed. Only the thread that traces a process can control it, so a separate thread traces.

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

use crate::counter::{CounterEnd, CounterStopper};
use crate::counts::{CallCounts, CallTally, CountingBackend};
use crate::error::AuditError;
use crate::feed::EventFeed;
use crate::timeline::Timeline;
use crate::tracing::{self, Tracing};
use crate::watch::{children, locked, tracer_of};
use crate::{kinds, names};

/// Processes traced by a separate thread, until they end or this is dropped.
pub(crate) struct Tracer {
    /// The number of the tracing thread.
    thread: u32,
    /// Requests the tracing thread to exit.
    leave: Arc<AtomicBool>,
    book: Arc<Mutex<TraceState>>,
    /// Readable when `end` is set.
    ended: Arc<sys::Wakeup>,
    stop: Arc<sys::Wakeup>,
}

/// State that the tracing thread writes and other threads read.
#[derive(Default)]
pub(crate) struct TraceState {
    calls: HashMap<u32, CallTotals>,
    pub(crate) lost: u64,
    /// How many of the lost calls used another numbering of calls.
    pub(crate) foreign: u64,
    pub(crate) threads: u64,
    pub(crate) processes: u64,
    /// Why tracing ended; `None` while it runs.
    pub(crate) end: Option<Result<CounterEnd, io::ErrorKind>>,
    /// Receives each event, if phases or a timeline were requested.
    pub(crate) feed: Option<EventFeed>,
}

/// The totals of one call.
#[derive(Debug, Default)]
pub(crate) struct CallTotals {
    count: u64,
    bytes: u64,
    errors: HashMap<i32, u64>,
    kinds: HashMap<u32, u64>,
}

impl Tracer {
    /// Starts the command under ptrace; returns its process number.
    pub(crate) fn start(
        mut command: Command,
        feed: Option<EventFeed>,
    ) -> Result<(Self, u32), AuditError> {
        Self::begin(feed, move |book, ended| tracing::start(&mut command, book, ended))
    }

    /// Traces a running process and its descendants.
    pub(crate) fn join(pid: u32, feed: Option<EventFeed>) -> Result<Self, AuditError> {
        let begun = Self::begin(feed, move |book, ended| tracing::join(pid, book, ended));
        begun.map(|(tracer, _)| tracer)
    }

    fn begin(
        feed: Option<EventFeed>,
        begin: impl FnOnce(Arc<Mutex<TraceState>>, Arc<sys::Wakeup>) -> Result<Tracing, AuditError>
        + Send
        + 'static,
    ) -> Result<(Self, u32), AuditError> {
        let wakeup = || sys::Wakeup::new().map(Arc::new).map_err(AuditError::Wait);
        let (ended, stop) = (wakeup()?, wakeup()?);
        let book = Arc::new(Mutex::new(TraceState { feed, ..TraceState::default() }));
        let leave = Arc::default();
        let (book_there, ended_there) = (Arc::clone(&book), Arc::clone(&ended));
        let leave_there = Arc::clone(&leave);
        let (started, begun) = mpsc::channel();
        let body = move || {
            let begun = sys::thread_number()
                .map_err(AuditError::Wait)
                .and_then(|thread| Ok((thread, begin(book_there, ended_there)?)));
            match begun {
                Ok((thread, mut tracing)) => {
                    let _ = started.send(Ok((thread, tracing.subject())));
                    tracing.run(&leave_there);
                }
                Err(e) => {
                    let _ = started.send(Err(e));
                }
            }
        };
        let builder = thread::Builder::new().name("tracer".into());
        builder.spawn(body).map_err(AuditError::Thread)?;
        let (thread, pid) = begun.recv().map_err(|e| AuditError::Thread(io::Error::other(e)))??;
        Ok((Self { thread, leave, book, ended, stop }, pid))
    }

    pub(crate) fn snapshot(&self) -> CallCounts {
        let book = locked(&self.book);
        let mut counts = CallCounts::none(CountingBackend::Ptrace);
        counts.ring_why = "ptrace does not see them".to_owned();
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

    /// The traced processes among this process's children: the command and its adopted descendants.
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

    /// As [`Counter::timeline`](crate::Counter::timeline). ptrace loses no events.
    pub(crate) fn timeline(&self) -> Option<Timeline> {
        locked(&self.book).feed.as_ref()?.timeline(0)
    }

    pub(crate) fn stopper(&self) -> CounterStopper {
        CounterStopper(Arc::clone(&self.stop))
    }

    /// As [`Counter::wait`](crate::Counter::wait).
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<Option<CounterEnd>, AuditError> {
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
                return Ok(Some(CounterEnd::Stopped));
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }
}

impl Drop for Tracer {
    /// The kernel releases traced processes when the tracing thread exits (`ptrace(2)`). Only then
    /// can another tracer attach, so this waits for the exit.
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Release);
        let thread = format!("/proc/self/task/{}", self.thread);
        let until = sys::now() + LEAVE_TIME_MAX;
        while Path::new(&thread).exists() && sys::now() < until {
            let _ = sys::interrupt_wait(self.thread); // fails if it has exited
            thread::park_timeout(LEAVE_POLL);
        }
    }
}

impl TraceState {
    /// Counts a call with another numbering.
    pub(crate) fn enter_foreign(&mut self) {
        self.lost += 1;
        self.foreign += 1;
    }

    /// Counts a call that returned.
    pub(crate) fn enter(&mut self, number: u32, arguments: &[u64; 6], result: i64) {
        let entry = self.calls.entry(number).or_default();
        entry.enter(number, result);
        if let Some(kind) = kinds::kind(number, arguments) {
            *entry.kinds.entry(kind).or_default() += 1;
        }
    }
}

impl CallTotals {
    /// Adds one call with this result.
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

    /// Adds a completed operation; only its result if the operation is not counted.
    pub(crate) fn complete(&mut self, is_counted: bool, result: i64) {
        self.count += u64::from(is_counted);
        self.conclude(result);
    }

    /// Counts an operation with received data that were not read.
    pub(crate) fn unseen(&mut self) {
        *self.kinds.entry(UNSEEN).or_default() += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The name and the tally of the operation.
    pub(crate) fn operation(&self, opcode: u32) -> (String, CallTally) {
        let name = names::operation(opcode);
        let kinds = self.kinds.values().map(|count| (kinds::UNSEEN.to_owned(), *count)).collect();
        let tally = self.tally(names::operates_on_bytes(&name), kinds);
        (name, tally)
    }

    /// The name and the tally of the call.
    pub(crate) fn call(&self, number: u32) -> (String, CallTally) {
        let name = names::call(number);
        let kind = |(kind, count): (&u32, &u64)| (kinds::name(number, *kind), *count);
        let tally = self.tally(names::moves_bytes(&name), self.kinds.iter().map(kind).collect());
        (name, tally)
    }

    fn tally(&self, moves_bytes: bool, kinds: BTreeMap<String, u64>) -> CallTally {
        let bytes = if moves_bytes { self.bytes } else { 0 };
        let errors = self.errors.iter().map(|(errno, count)| (*errno, *count)).collect();
        CallTally { count: self.count, errors, bytes, kinds }
    }
}

/// Interval of the checks whether the tracing thread has exited.
const LEAVE_POLL: Duration = Duration::from_millis(1);
/// Long enough for any machine: the thread exits almost at once.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);
/// The only kind of an operation.
const UNSEEN: u32 = 0;
