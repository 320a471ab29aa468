//! The tracing thread: handles the stops of traced threads and resumes them (`ptrace(2)`).
//!
//! ```text
//! seize ─▶ Paused ─▶ Call (enter) ─▶ Call (return: counted) ─▶ Call (enter) ─▶ … ─▶ Exited
//!                      └─▶ MadeThread, MadeProcess: the new one begins with Paused
//!                      └─▶ Executed
//! ```
//!
//! Signals in between are delivered. A thread stopped by a signal stays stopped until `SIGCONT`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fulmar_sys as sys;
use sys::{CallStop, Traced, TracedState};

use crate::end::CounterEnd;
use crate::error::AuditError;
use crate::event_builder::EventBuilder;
use crate::trace_state::TraceState;
use crate::watch::{children_of_thread, locked, spawn_error, threads, tracer_of, watch_error};
use crate::{names, operation};

/// The processes and threads that one thread traces.
pub(crate) struct Tracing {
    subject: TraceTarget,
    threads: HashMap<u32, ThreadState>,
    /// Threads that were seized but have not stopped yet. After its first stop, a thread's new
    /// children are traced automatically; its existing ones are looked up then.
    seized: HashSet<u32>,
    book: Arc<Mutex<TraceState>>,
    /// Builds events. `None` if no events are needed.
    builder: Option<EventBuilder>,
    /// Woken when the end is recorded.
    ended: Arc<sys::Wakeup>,
}

/// What tracing started with.
enum TraceTarget {
    /// A command that this process started; its status once it has ended.
    Command { pid: u32, status: Option<ExitStatus> },
    /// An existing process.
    Joined { pid: u32 },
}

/// What a traced thread is doing.
#[derive(Clone, Copy)]
enum ThreadState {
    /// Running outside system calls.
    Runs,
    /// In a system call: its number, its arguments, and its start time if events are needed.
    Calls(u32, [u64; 6], Option<u64>),
    /// In a call with another numbering (32-bit program, x32).
    CallsForeign,
}

/// Starts a program and traces it from its first instruction. The `execve` has returned by then and
/// is counted.
///
/// `PTRACE_TRACEME` does not seize the program, and its stops carry less information. So the
/// program is released at its first instruction with `SIGSTOP`, then seized and continued.
pub(crate) fn start(
    command: &mut Command,
    book: Arc<Mutex<TraceState>>,
    ended: Arc<sys::Wakeup>,
) -> Result<Tracing, AuditError> {
    may_trace()?;
    let mut child = sys::spawn_traced(command).map_err(|cause| start_error(command, cause))?;
    let pid = child.id();
    let prepare = || {
        await_stop(|state| matches!(state, TracedState::Signal(_)))?;
        sys::release_thread(pid, sys::signals::SIGSTOP)?;
        sys::seize(pid)?;
        await_stop(|state| matches!(state, TracedState::Stopped(_)))?;
        let target = sys::Target::process(pid).ok_or(io::ErrorKind::NotFound)?;
        sys::send_signal(target, sys::signals::SIGCONT)?;
        sys::resume(pid, 0)
    };
    prepare().map_err(|cause| {
        let _ = child.kill().and_then(|()| child.wait()); // otherwise it stays stopped
        AuditError::Process { pid, cause }
    })?;
    let mut tracing = Tracing::new(TraceTarget::Command { pid, status: None }, book, ended);
    tracing.enter(pid, names::execve(), &[0; 6], None, 0);
    tracing.register(pid);
    locked(&tracing.book).processes += 1;
    Ok(tracing)
}

/// If this process is itself traced, with all its children, they cannot be traced again.
fn start_error(command: &Command, cause: io::Error) -> AuditError {
    let pid = std::process::id();
    match tracer_of(pid) {
        Some(by) if cause.raw_os_error() == Some(sys::errno::EPERM) => {
            AuditError::Traced { pid, by }
        }
        _ => spawn_error(command, cause),
    }
}

/// Traces the threads of a running process and of its descendants. Each has stopped once when this
/// returns.
pub(crate) fn join(
    pid: u32,
    book: Arc<Mutex<TraceState>>,
    ended: Arc<sys::Wakeup>,
) -> Result<Tracing, AuditError> {
    may_trace()?;
    let mut tracing = Tracing::new(TraceTarget::Joined { pid }, book, ended);
    match tracing.seize(pid) {
        Ok(true) => {}
        Ok(false) => return Err(AuditError::Gone { pid }),
        Err(cause) => return Err(watch_error(pid, cause)),
    }
    while !tracing.seized.is_empty() {
        match sys::wait_traced() {
            Ok(Some(traced)) => tracing.handle_stop(traced),
            Ok(None) => break,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(watch_error(pid, cause)),
        }
    }
    Ok(tracing)
}

/// Fails if `ptrace(2)` is not permitted. A request that only a tracer may make fails with `ESRCH`
/// where it is.
fn may_trace() -> Result<(), AuditError> {
    match sys::event_thread(std::process::id()) {
        Err(e) if e.raw_os_error() != Some(sys::errno::ESRCH) => Err(AuditError::Untraceable(e)),
        _ => Ok(()),
    }
}

impl Tracing {
    fn new(subject: TraceTarget, book: Arc<Mutex<TraceState>>, ended: Arc<sys::Wakeup>) -> Self {
        let builder = locked(&book).feed.as_ref().map(|_| EventBuilder::default());
        let (threads, seized) = (HashMap::new(), HashSet::new());
        Self { subject, threads, seized, book, builder, ended }
    }

    /// The process that tracing started with.
    pub(crate) fn subject(&self) -> u32 {
        match self.subject {
            TraceTarget::Command { pid, .. } | TraceTarget::Joined { pid } => pid,
        }
    }

    /// Runs until no traced process is left, or `leave` is set.
    pub(crate) fn run(&mut self, leave: &AtomicBool) {
        let end = loop {
            if leave.load(Ordering::Acquire) {
                return;
            }
            match sys::wait_traced() {
                Ok(Some(traced)) => self.handle_stop(traced),
                Ok(None) => break Ok(self.end()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e.kind()),
            }
        };
        self.finish(end);
    }

    /// Seizes all threads of a process, also those created meanwhile. False if it has ended.
    fn seize(&mut self, process: u32) -> io::Result<bool> {
        let mut any = false;
        loop {
            let mut threads = threads(process);
            threads.retain(|thread| !self.threads.contains_key(thread));
            if threads.is_empty() {
                locked(&self.book).processes += u64::from(any);
                return Ok(any);
            }
            for thread in threads {
                match sys::seize(thread).and_then(|()| sys::interrupt_thread(thread)) {
                    Ok(()) => {
                        any = true;
                        self.seized.insert(thread);
                        self.register(thread);
                    }
                    Err(_) if has_ended(thread) => {
                        self.threads.insert(thread, ThreadState::Runs); // do not try again
                    }
                    // Created by a seized thread, and so traced already.
                    Err(e) if e.raw_os_error() == Some(sys::errno::EPERM) && any => {
                        self.register(thread);
                    }
                    Err(e) => return Err(e),
                }
            }
        }
    }

    /// A thread stopped, possibly for the first time.
    fn pause(&mut self, thread: u32) {
        self.register(thread);
        if self.seized.remove(&thread) {
            for child in children_of_thread(thread) {
                if self.threads.contains_key(&child) {
                    continue;
                }
                if self.seize(child).is_err() {
                    locked(&self.book).lost += 1; // this child is not followed
                }
            }
        }
    }

    /// Registers a thread if it is new.
    fn register(&mut self, thread: u32) {
        if let Entry::Vacant(unknown) = self.threads.entry(thread) {
            unknown.insert(ThreadState::Runs);
            locked(&self.book).threads += 1;
        }
    }

    fn handle_stop(&mut self, traced: Traced) {
        let Traced { thread, state } = traced;
        let handled = match state {
            TracedState::Exited(status) => return self.leave(thread, status << 8),
            TracedState::Killed(signal) => return self.leave(thread, signal),
            TracedState::Call => self.call(thread),
            TracedState::Executed => self.execute(thread),
            TracedState::MadeProcess => {
                locked(&self.book).processes += 1;
                Ok(())
            }
            _ => Ok(()),
        };
        // The first stop of a seized thread replaces the stop requested by `interrupt_thread`.
        self.pause(thread);
        let resumed = handled.and_then(|()| match state {
            TracedState::Stopped(_) => sys::leave_stopped(thread),
            TracedState::Signal(signal) => sys::resume(thread, signal),
            _ => sys::resume(thread, 0),
        });
        // A thread killed while it was stopped is reported once more.
        if resumed.is_err_and(|e| e.raw_os_error() != Some(sys::errno::ESRCH)) {
            locked(&self.book).lost += 1;
        }
    }

    fn call(&mut self, thread: u32) -> io::Result<()> {
        match sys::call_stop(thread)? {
            Some(CallStop::Enter { number, arguments, native }) => {
                let is_known = |number: &u32| *number < operation::FIRST && native;
                let known = u32::try_from(number).ok().filter(is_known);
                let start = self.builder.as_ref().map(EventBuilder::now);
                let calls = |number| ThreadState::Calls(number, arguments, start);
                self.threads.insert(thread, known.map_or(ThreadState::CallsForeign, calls));
            }
            Some(CallStop::Return { result }) => {
                match self.threads.insert(thread, ThreadState::Runs) {
                    Some(ThreadState::Calls(number, arguments, start)) => {
                        self.enter(thread, number, &arguments, start, result);
                    }
                    Some(ThreadState::CallsForeign) => locked(&self.book).enter_foreign(),
                    Some(ThreadState::Runs) | None => locked(&self.book).lost += 1,
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Counts a call that returned.
    fn enter(
        &mut self,
        thread: u32,
        number: u32,
        arguments: &[u64; 6],
        start: Option<u64>,
        result: i64,
    ) {
        let mut book = locked(&self.book);
        book.enter(number, arguments, result);
        if let (Some(builder), Some(feed)) = (&mut self.builder, &mut book.feed) {
            feed.enter(builder.event(thread, number, arguments, start, result));
        }
    }

    /// When one of several threads calls execve, it takes the number of the main thread.
    fn execute(&mut self, thread: u32) -> io::Result<()> {
        let former = sys::event_thread(thread)?;
        if let Some(doing) = self.threads.remove(&former) {
            self.threads.insert(thread, doing);
        }
        if self.seized.remove(&former) {
            self.seized.insert(thread);
        }
        Ok(())
    }

    /// A thread has ended. If it was the last of its process, `status` is the process's, as in
    /// `wait(2)`.
    fn leave(&mut self, thread: u32, status: i32) {
        self.threads.remove(&thread);
        self.seized.remove(&thread);
        match &mut self.subject {
            TraceTarget::Command { pid, status: of_command } if *pid == thread => {
                *of_command = Some(ExitStatus::from_raw(status));
            }
            TraceTarget::Joined { pid } if *pid == thread => self.finish(Ok(CounterEnd::Gone)),
            _ => {}
        }
    }

    fn end(&self) -> CounterEnd {
        match self.subject {
            TraceTarget::Command { status: Some(status), .. } => CounterEnd::Ended(status),
            _ => CounterEnd::Gone,
        }
    }

    fn finish(&self, end: Result<CounterEnd, io::ErrorKind>) {
        locked(&self.book).end.get_or_insert(end);
        let _ = self.ended.wake(); // fails only if it is readable already
    }
}

/// True also for zombies (`proc(5)`: state Z).
fn has_ended(thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Waits for a stop of the only traced thread.
fn await_stop(is_expected: impl Fn(TracedState) -> bool) -> io::Result<()> {
    loop {
        match sys::wait_traced()? {
            Some(traced) if is_expected(traced.state) => return Ok(()),
            Some(Traced { state: TracedState::Exited(_) | TracedState::Killed(_), .. }) | None => {
                return Err(io::Error::from_raw_os_error(sys::errno::ESRCH));
            }
            Some(_) => {}
        }
    }
}
