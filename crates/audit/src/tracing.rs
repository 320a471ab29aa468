//! The thread that traces: who stops, why, and how it goes on (`ptrace(2)`).
//!
//! ```text
//! seize ─▶ Paused ─▶ Call (enter) ─▶ Call (return: counted) ─▶ Call (enter) ─▶ … ─▶ Exited
//!                      └─▶ MadeThread, MadeProcess: the new one begins with Paused
//!                      └─▶ Executed
//! ```
//!
//! Between these, signals are passed on, and who is stopped by one stays so until it is continued.

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

use crate::counter::End;
use crate::error::AuditError;
use crate::teller::Teller;
use crate::tracer::Book;
use crate::watch::{children_of_thread, locked, threads, unstartable, unwatchable};
use crate::{names, operation};

/// What one thread traces.
pub(crate) struct Tracing {
    subject: Subject,
    threads: HashMap<u32, Thread>,
    /// Seized, and not paused yet. From its pause on, what it makes is traced; what it has made
    /// before is looked for then.
    seized: HashSet<u32>,
    book: Arc<Mutex<Book>>,
    /// What is told of calls one by one. `None` if nobody wants it.
    teller: Option<Teller>,
    /// Woken once the end is in the book.
    ended: Arc<sys::Wakeup>,
}

/// With whom it began.
enum Subject {
    /// A child of ours; how it ended.
    Command { pid: u32, status: Option<ExitStatus> },
    /// Somebody else's process.
    Joined { pid: u32 },
}

/// What a traced thread is doing.
#[derive(Clone, Copy)]
enum Thread {
    /// Its own business.
    Runs,
    /// A system call: its number, its arguments, and when it began if anybody wants that.
    Calls(u32, [u64; 6], Option<u64>),
    /// A call whose number means something else (a 32-bit program's, x32).
    CallsForeign,
}

/// Starts a program and traces it from its first instruction; the `execve` that brought it there
/// has returned by then and is entered.
///
/// A program that asks to be traced is not seized, and stops mean less to it. So it is let go at
/// its first instruction, to stop as by a signal, seized, and continued.
pub(crate) fn start(
    command: &mut Command,
    book: Arc<Mutex<Book>>,
    ended: Arc<sys::Wakeup>,
) -> Result<Tracing, AuditError> {
    may_trace()?;
    let mut child = sys::spawn_traced(command).map_err(|cause| unstartable(command, cause))?;
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
        let _ = child.kill().and_then(|()| child.wait()); // it stands, and would for ever
        AuditError::Process { pid, cause }
    })?;
    let mut tracing = Tracing::new(Subject::Command { pid, status: None }, book, ended);
    tracing.enter(pid, names::execve(), &[0; 6], None, 0);
    tracing.meet(pid);
    locked(&tracing.book).processes += 1;
    Ok(tracing)
}

/// Traces the threads of a running process, and of its descendants: all stood for a moment when this
/// returns.
pub(crate) fn join(
    pid: u32,
    book: Arc<Mutex<Book>>,
    ended: Arc<sys::Wakeup>,
) -> Result<Tracing, AuditError> {
    may_trace()?;
    let mut tracing = Tracing::new(Subject::Joined { pid }, book, ended);
    match tracing.seize(pid) {
        Ok(true) => {}
        Ok(false) => return Err(AuditError::Gone { pid }),
        Err(cause) => return Err(unwatchable(pid, cause)),
    }
    while !tracing.seized.is_empty() {
        match sys::wait_traced() {
            Ok(Some(traced)) => tracing.go_on(traced),
            Ok(None) => break,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(unwatchable(pid, cause)),
        }
    }
    Ok(tracing)
}

/// Asks of ourselves what only a tracer is told: `ESRCH` (`ptrace(2)`), unless nobody may ask.
fn may_trace() -> Result<(), AuditError> {
    match sys::event_thread(std::process::id()) {
        Err(e) if e.raw_os_error() != Some(sys::errno::ESRCH) => Err(AuditError::Untraceable(e)),
        _ => Ok(()),
    }
}

impl Tracing {
    fn new(subject: Subject, book: Arc<Mutex<Book>>, ended: Arc<sys::Wakeup>) -> Self {
        let teller = locked(&book).feed.as_ref().map(|_| Teller::default());
        let (threads, seized) = (HashMap::new(), HashSet::new());
        Self { subject, threads, seized, book, teller, ended }
    }

    /// The process that tracing began with.
    pub(crate) fn subject(&self) -> u32 {
        match self.subject {
            Subject::Command { pid, .. } | Subject::Joined { pid } => pid,
        }
    }

    /// Until nobody is left, or we are to `leave`.
    pub(crate) fn run(&mut self, leave: &AtomicBool) {
        let end = loop {
            if leave.load(Ordering::Acquire) {
                return;
            }
            match sys::wait_traced() {
                Ok(Some(traced)) => self.go_on(traced),
                Ok(None) => break Ok(self.end()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e.kind()),
            }
        };
        self.tell(end);
    }

    /// Seizes all threads of a process, also those that it makes meanwhile. False if it is gone.
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
                        self.meet(thread);
                    }
                    Err(_) if has_ended(thread) => {
                        self.threads.insert(thread, Thread::Runs); // not to be tried again
                    }
                    // Made by one that we had seized, and so traced already.
                    Err(e) if e.raw_os_error() == Some(sys::errno::EPERM) && any => {
                        self.meet(thread);
                    }
                    Err(e) => return Err(e),
                }
            }
        }
    }

    /// A thread stands: perhaps for the first time.
    fn pause(&mut self, thread: u32) {
        self.meet(thread);
        if self.seized.remove(&thread) {
            for child in children_of_thread(thread) {
                if self.threads.contains_key(&child) {
                    continue;
                }
                if self.seize(child).is_err() {
                    locked(&self.book).lost += 1; // somebody is not followed
                }
            }
        }
    }

    /// A thread is known from now on, if it was not.
    fn meet(&mut self, thread: u32) {
        if let Entry::Vacant(unknown) = self.threads.entry(thread) {
            unknown.insert(Thread::Runs);
            locked(&self.book).threads += 1;
        }
    }

    fn go_on(&mut self, traced: Traced) {
        let Traced { thread, state } = traced;
        let seen = match state {
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
        // Whatever a seized thread stops for first takes the place of the stop that was asked for.
        self.pause(thread);
        let going = seen.and_then(|()| match state {
            TracedState::Stopped(_) => sys::leave_stopped(thread),
            TracedState::Signal(signal) => sys::resume(thread, signal),
            _ => sys::resume(thread, 0),
        });
        // Whoever was killed while it stood is heard of once more.
        if going.is_err_and(|e| e.raw_os_error() != Some(sys::errno::ESRCH)) {
            locked(&self.book).lost += 1;
        }
    }

    fn call(&mut self, thread: u32) -> io::Result<()> {
        match sys::call_stop(thread)? {
            Some(CallStop::Enter { number, arguments, native }) => {
                let is_known = |number: &u32| *number < operation::FIRST && native;
                let known = u32::try_from(number).ok().filter(is_known);
                let start = self.teller.as_ref().map(Teller::now);
                let calls = |number| Thread::Calls(number, arguments, start);
                self.threads.insert(thread, known.map_or(Thread::CallsForeign, calls));
            }
            Some(CallStop::Return { result }) => match self.threads.insert(thread, Thread::Runs) {
                Some(Thread::Calls(number, arguments, start)) => {
                    self.enter(thread, number, &arguments, start, result);
                }
                Some(Thread::CallsForeign) => locked(&self.book).enter_foreign(),
                Some(Thread::Runs) | None => locked(&self.book).lost += 1,
            },
            None => {}
        }
        Ok(())
    }

    /// A call returned.
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
        if let (Some(teller), Some(feed)) = (&mut self.teller, &mut book.feed) {
            feed.enter(teller.event(thread, number, arguments, start, result));
        }
    }

    /// Of several threads, the one that becomes another program takes the number of the first.
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

    /// A thread is gone; if it was the last of its process, with this status, as `wait(2)` has it.
    fn leave(&mut self, thread: u32, status: i32) {
        self.threads.remove(&thread);
        self.seized.remove(&thread);
        match &mut self.subject {
            Subject::Command { pid, status: of_command } if *pid == thread => {
                *of_command = Some(ExitStatus::from_raw(status));
            }
            Subject::Joined { pid } if *pid == thread => self.tell(Ok(End::Gone)),
            _ => {}
        }
    }

    fn end(&self) -> End {
        match self.subject {
            Subject::Command { status: Some(status), .. } => End::Ended(status),
            _ => End::Gone,
        }
    }

    fn tell(&self, end: Result<End, io::ErrorKind>) {
        locked(&self.book).end.get_or_insert(end);
        let _ = self.ended.wake(); // it is readable, or can be no more so
    }
}

/// True of those that nobody has heard of yet, too (`proc(5)`: state Z).
fn has_ended(thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Waits for the only thread that is traced yet.
fn await_stop(is_it: impl Fn(TracedState) -> bool) -> io::Result<()> {
    loop {
        match sys::wait_traced()? {
            Some(traced) if is_it(traced.state) => return Ok(()),
            Some(Traced { state: TracedState::Exited(_) | TracedState::Killed(_), .. }) | None => {
                return Err(io::Error::from_raw_os_error(sys::errno::ESRCH));
            }
            Some(_) => {}
        }
    }
}
