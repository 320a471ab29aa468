//! The counter that needs no privileges: `ptrace(2)`, with two stops for each call.
//!
//! `seccomp(2)` would not make it cheaper: it can skip calls, but all calls and their results are
//! needed. Only the thread that traces a process can control it, so a separate thread traces.

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

use crate::counts::{CallCounts, CountingBackend};
use crate::end::{CounterEnd, CounterStopper};
use crate::error::AuditError;
use crate::feed::EventFeed;
use crate::timeline::Timeline;
use crate::trace_state::TraceState;
use crate::tracing::{self, Tracing};
use crate::watch::{children, locked, tracer_of};

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
            counts.times = feed.times();
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

/// Interval of the checks whether the tracing thread has exited.
const LEAVE_POLL: Duration = Duration::from_millis(1);
/// Long enough for any machine: the thread exits almost at once.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);
