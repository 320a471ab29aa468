//! A counter starts a program or attaches to a process, and counts until all processes have ended.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use fulmar_sys as sys;

use crate::clock::ClockShim;
use crate::counts::CallCounts;
use crate::end::{CounterEnd, CounterStopper};
use crate::error::{AuditError, KernelRefusal};
use crate::feed::EventFeed;
use crate::kernel::{Extent, Kernel};
use crate::timeline::Timeline;
use crate::tracer::Tracer;
use crate::watch::{KernelWatch, joinable};

/// Counts the system calls of a program, with all its threads and descendants.
///
/// The calling process adopts orphaned descendants (daemons). So audit two commands one after the
/// other.
///
/// ```no_run
/// use std::process::Command;
/// use fulmar_audit::{Counter, BackendChoice};
///
/// let counter = Counter::start(Command::new("true"), BackendChoice::Best)?;
/// counter.wait(None)?;
/// println!("{} calls", counter.snapshot()?.total());
/// # Ok::<(), fulmar_audit::AuditError>(())
/// ```
pub struct Counter {
    backend: Counting,
    pid: u32,
    /// This process started it and may end it.
    is_ours: bool,
    began: Instant,
    refused: Option<KernelRefusal>,
    clock: Option<ClockShim>,
}

enum Counting {
    Kernel(Box<KernelWatch>),
    Trace(Tracer),
}

/// Which backend counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// eBPF; ptrace if the kernel refuses eBPF.
    #[default]
    Best,
    /// Only eBPF.
    Kernel,
    /// Only ptrace.
    Trace,
}

/// What to count, and with which backend.
///
/// Phases, times and timelines need an event for each call, which costs more than counting.
/// [`Counter::wait`] and [`Counter::snapshot`] read these events. Call one of them at least ten
/// times a second, or events are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterOptions {
    /// Which backend counts.
    pub method: BackendChoice,
    /// Group calls by the phase of their connection: [`CallCounts::by_phase`].
    pub phases: bool,
    /// Sum the time in calls and between them: [`CallCounts::times`].
    pub times: bool,
    /// Record each call: [`Counter::timeline`].
    pub timeline: bool,
}

impl From<BackendChoice> for CounterOptions {
    fn from(method: BackendChoice) -> Self {
        Self { method, ..Self::default() }
    }
}

impl Counter {
    /// Starts the command. Its `execve` is the first counted call.
    ///
    /// # Errors
    /// `Command` if it cannot be started, `Refused` if only eBPF is allowed and refused.
    pub fn start(
        mut command: Command,
        scope: impl Into<CounterOptions>,
    ) -> Result<Self, AuditError> {
        let scope = scope.into();
        sys::adopt_orphans().map_err(AuditError::Wait)?;
        let (kernel, refused) = scope.choose()?;
        let began = sys::now();
        let (backend, pid) = match kernel {
            Some(kernel) => {
                let (watch, pid) = KernelWatch::start(kernel, &mut command)?;
                (Counting::Kernel(watch.into()), pid)
            }
            None => {
                let (tracer, pid) = Tracer::start(command, scope.feed())?;
                (Counting::Trace(tracer), pid)
            }
        };
        Ok(Self { backend, pid, is_ours: true, began, refused, clock: None })
    }

    /// Attaches to a running process, with all its threads and descendants.
    ///
    /// # Errors
    /// `Gone` if there is none, `PartOf` for the number of a thread, `Process` if it cannot be
    /// watched, `Refused` if only eBPF is allowed and refused.
    pub fn join(pid: u32, scope: impl Into<CounterOptions>) -> Result<Self, AuditError> {
        let scope = scope.into();
        joinable(pid)?;
        let (kernel, refused) = scope.choose()?;
        let began = sys::now();
        let backend = match kernel {
            Some(kernel) => Counting::Kernel(KernelWatch::join(kernel, pid)?.into()),
            None => Counting::Trace(Tracer::join(pid, scope.feed())?),
        };
        Ok(Self { backend, pid, is_ours: false, began, refused, clock: None })
    }

    /// Counts clock reads too, with the library that was preloaded into the command.
    #[must_use]
    pub fn with_clock(mut self, clock: ClockShim) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The process number of the command, or of the process that the counter attached to.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The counts so far.
    ///
    /// # Errors
    /// `Read` if the maps of the kernel cannot be read.
    pub fn snapshot(&self) -> Result<CallCounts, AuditError> {
        let mut counts = match &self.backend {
            Counting::Kernel(watch) => watch.snapshot()?,
            Counting::Trace(tracer) => tracer.snapshot(),
        };
        counts.clock_reads = self.clock.as_ref().and_then(ClockShim::reads);
        counts.elapsed = sys::now().saturating_duration_since(self.began);
        Ok(counts)
    }

    /// Clears the timeline and starts a new one. The first one starts together with counting.
    ///
    /// # Errors
    /// `Read` if the maps of the kernel cannot be read.
    pub fn record(&self) -> Result<(), AuditError> {
        match &self.backend {
            Counting::Kernel(watch) => watch.record()?,
            Counting::Trace(tracer) => tracer.record(),
        }
        Ok(())
    }

    /// The timeline so far. `None` if none was requested.
    ///
    /// # Errors
    /// `Read` as above.
    pub fn timeline(&self) -> Result<Option<Timeline>, AuditError> {
        match &self.backend {
            Counting::Kernel(watch) => watch.timeline(),
            Counting::Trace(tracer) => Ok(tracer.timeline()),
        }
    }

    /// Waits until nothing is left to count, for at most `timeout`. `None` on timeout.
    ///
    /// # Errors
    /// `Wait` if waiting fails.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Option<CounterEnd>, AuditError> {
        match &self.backend {
            Counting::Kernel(watch) => watch.wait(timeout),
            Counting::Trace(tracer) => tracer.wait(timeout),
        }
    }

    /// Sends a signal to the command and to its adopted descendants. A process that the counter
    /// attached to gets no signal. Processes that have ended are skipped.
    ///
    /// # Errors
    /// `Wait` if a signal cannot be sent.
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

    /// A handle that ends a wait from another thread.
    pub fn stopper(&self) -> CounterStopper {
        match &self.backend {
            Counting::Kernel(watch) => watch.stopper(),
            Counting::Trace(tracer) => tracer.stopper(),
        }
    }

    /// Why eBPF is not used. `None` if it is.
    pub fn refused(&self) -> Option<&KernelRefusal> {
        self.refused.as_ref()
    }
}

impl CounterOptions {
    pub(crate) fn feed(self) -> Option<EventFeed> {
        EventFeed::new(self.phases, self.times, self.timeline)
    }

    fn choose(self) -> Result<(Option<Kernel>, Option<KernelRefusal>), AuditError> {
        if self.method == BackendChoice::Trace {
            return Ok((None, Some(KernelRefusal::Requested)));
        }
        match Kernel::load(self.feed(), Extent::default()) {
            Ok(kernel) => Ok((Some(kernel), None)),
            Err(refusal) if self.method == BackendChoice::Kernel => {
                Err(AuditError::Refused(refusal))
            }
            Err(refusal) => Ok((None, Some(refusal))),
        }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("pid", &self.pid).finish_non_exhaustive()
    }
}
