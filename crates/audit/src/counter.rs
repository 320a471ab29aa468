//! A counter: starts a program or joins a process, counts until all has ended.

use std::fmt;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_sys as sys;

use crate::clock::Clock;
use crate::counts::Counts;
use crate::error::{AuditError, Refusal};
use crate::feed::Feed;
use crate::kernel::{Extent, Kernel};
use crate::timeline::Timeline;
use crate::tracer::Tracer;
use crate::watch::{Watch, joinable};

/// Counts what a program asks of the kernel, with all threads and processes that come of it.
///
/// The calling process adopts what the program leaves behind (daemons); so a program that audits
/// two commands does so one after the other.
///
/// ```no_run
/// use std::process::Command;
/// use fulmar_audit::{Counter, Method};
///
/// let counter = Counter::start(Command::new("true"), Method::Best)?;
/// counter.wait(None)?;
/// println!("{} calls", counter.snapshot()?.total());
/// # Ok::<(), fulmar_audit::AuditError>(())
/// ```
pub struct Counter {
    backend: Counting,
    pid: u32,
    /// Started by us, so it is ours to end.
    is_ours: bool,
    began: Instant,
    refused: Option<Refusal>,
    clock: Option<Clock>,
}

enum Counting {
    Kernel(Box<Watch>),
    Trace(Tracer),
}

/// Who is to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The kernel; if it will not, tracing.
    #[default]
    Best,
    /// The kernel or nobody.
    Kernel,
    /// Tracing, even if the kernel would.
    Trace,
}

/// What a counter is to find out, beside how often each call is made, and by whom.
///
/// Phases and timelines are made of each call, which costs more than counting them; what is told
/// of calls is taken by [`Counter::wait`] and [`Counter::snapshot`], so one of them is to be called
/// ten times a second or more, or some is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Who is to count.
    pub method: Method,
    /// Calls by the part of a connection's life that they belong to: [`Counts::by_phase`].
    pub phases: bool,
    /// Calls one after the other: [`Counter::timeline`].
    pub timeline: bool,
}

impl From<Method> for Scope {
    fn from(method: Method) -> Self {
        Self { method, ..Self::default() }
    }
}

/// Why there is nothing left to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The command and everything that it left behind have ended; how the command did.
    Ended(ExitStatus),
    /// The process that was joined has ended; how is known to its parent.
    Gone,
    /// [`Stopper::stop`] was called.
    Stopped,
}

/// Ends [`Counter::wait`] from elsewhere.
#[derive(Clone, Debug)]
pub struct Stopper(pub(crate) Arc<sys::Wakeup>);

impl Counter {
    /// Starts the command; its `execve` is the first call that is counted.
    ///
    /// # Errors
    /// `Command` if it cannot be started, `Refused` if the method allows the kernel only.
    pub fn start(mut command: Command, scope: impl Into<Scope>) -> Result<Self, AuditError> {
        let scope = scope.into();
        sys::adopt_orphans().map_err(AuditError::Wait)?;
        let (kernel, refused) = scope.choose()?;
        let began = sys::now();
        let (backend, pid) = match kernel {
            Some(kernel) => {
                let (watch, pid) = Watch::start(kernel, &mut command)?;
                (Counting::Kernel(watch.into()), pid)
            }
            None => {
                let (tracer, pid) = Tracer::start(command, scope.feed())?;
                (Counting::Trace(tracer), pid)
            }
        };
        Ok(Self { backend, pid, is_ours: true, began, refused, clock: None })
    }

    /// Joins a process that runs, with all its threads and descendants.
    ///
    /// # Errors
    /// `Gone` if there is none, `PartOf` if that is a thread's number, `Process` if it cannot be
    /// watched, `Refused` if the method allows the kernel only.
    pub fn join(pid: u32, scope: impl Into<Scope>) -> Result<Self, AuditError> {
        let scope = scope.into();
        joinable(pid)?;
        let (kernel, refused) = scope.choose()?;
        let began = sys::now();
        let backend = match kernel {
            Some(kernel) => Counting::Kernel(Watch::join(kernel, pid)?.into()),
            None => Counting::Trace(Tracer::join(pid, scope.feed())?),
        };
        Ok(Self { backend, pid, is_ours: false, began, refused, clock: None })
    }

    /// Counts clock reads too, by the library that the command was started with.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The number of the command or of the process that was joined.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// `Read` if the kernel does not hand out the counts.
    pub fn snapshot(&self) -> Result<Counts, AuditError> {
        let mut counts = match &self.backend {
            Counting::Kernel(watch) => watch.snapshot()?,
            Counting::Trace(tracer) => tracer.snapshot(),
        };
        counts.clock_reads = self.clock.as_ref().and_then(Clock::reads);
        counts.elapsed = sys::now().saturating_duration_since(self.began);
        Ok(counts)
    }

    /// Begins the timeline anew: what was called so far is forgotten. It begins by itself when
    /// counting does.
    ///
    /// # Errors
    /// `Read` if the kernel does not hand out what was lost.
    pub fn record(&self) -> Result<(), AuditError> {
        match &self.backend {
            Counting::Kernel(watch) => watch.record()?,
            Counting::Trace(tracer) => tracer.record(),
        }
        Ok(())
    }

    /// The timeline so far. `None` if nobody asked for one.
    ///
    /// # Errors
    /// `Read` as above.
    pub fn timeline(&self) -> Result<Option<Timeline>, AuditError> {
        match &self.backend {
            Counting::Kernel(watch) => watch.timeline(),
            Counting::Trace(tracer) => Ok(tracer.timeline()),
        }
    }

    /// Waits until there is nothing left to count, for at most `timeout`: `None` after that.
    ///
    /// # Errors
    /// `Wait` if the system does not tell.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Option<End>, AuditError> {
        match &self.backend {
            Counting::Kernel(watch) => watch.wait(timeout),
            Counting::Trace(tracer) => tracer.wait(timeout),
        }
    }

    /// Sends a signal to the command, and to those that it left behind; to a process that was joined
    /// nothing is sent. Who has ended meanwhile does not hear it.
    ///
    /// # Errors
    /// `Wait` if the system sends none.
    pub fn signal(&self, signal: i32) -> Result<(), AuditError> {
        let ours = match &self.backend {
            _ if !self.is_ours => Vec::new(),
            Counting::Kernel(watch) => watch.children()?,
            Counting::Trace(tracer) => tracer.children(),
        };
        for target in ours.into_iter().filter_map(sys::Target::process) {
            match sys::send_signal(target, signal) {
                Err(e) if e.raw_os_error() != Some(sys::errno::ESRCH) => {
                    return Err(AuditError::Wait(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What ends a wait from another thread.
    pub fn stopper(&self) -> Stopper {
        match &self.backend {
            Counting::Kernel(watch) => watch.stopper(),
            Counting::Trace(tracer) => tracer.stopper(),
        }
    }

    /// Why the kernel does not count. `None` if it does.
    pub fn refused(&self) -> Option<&Refusal> {
        self.refused.as_ref()
    }
}

impl Scope {
    pub(crate) fn feed(self) -> Option<Feed> {
        Feed::new(self.phases, self.timeline)
    }

    fn choose(self) -> Result<(Option<Kernel>, Option<Refusal>), AuditError> {
        if self.method == Method::Trace {
            return Ok((None, Some(Refusal::Asked)));
        }
        match Kernel::load(self.feed(), Extent::default()) {
            Ok(kernel) => Ok((Some(kernel), None)),
            Err(refusal) if self.method == Method::Kernel => Err(AuditError::Refused(refusal)),
            Err(refusal) => Ok((None, Some(refusal))),
        }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Stopper {
    /// The next wait, or the one that is going on, ends with [`End::Stopped`].
    ///
    /// # Errors
    /// As `eventfd(2)` says of writing.
    pub fn stop(&self) -> io::Result<()> {
        self.0.wake()
    }
}
