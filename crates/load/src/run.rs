//! A run: one reactor a thread, and what they bring together.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fulmar_drive::{AnySelector, DriverInfo, Reactor, Stats, Waker};
use fulmar_sys::{self as sys, CpuTimes, Ledger};

use crate::engine::{Failure, Finish, Load};
use crate::error::LoadError;
use crate::options::Options;
use crate::plan::Plan;
use crate::progress::{Progress, Shared};
use crate::report::{Report, Summary};
use crate::tally::Tally;

/// A run in progress.
///
/// ```no_run
/// use std::time::Duration;
/// use fulmar_load::{Options, Until};
///
/// let options = Options {
///     urls: vec!["http://127.0.0.1:8080/".to_owned()],
///     until: Until::Elapsed(Duration::from_secs(1)),
///     ..Options::default()
/// };
/// let running = fulmar_load::start(&options)?;
/// let report = running.finish()?;
/// println!("{}", report.text());
/// # Ok::<(), fulmar_load::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Running {
    plan: Arc<Plan>,
    url: String,
    epoch: Instant,
    stopper: Stopper,
    drivers: Vec<DriverInfo>,
    threads: Vec<JoinHandle<Result<Outcome, LoadError>>>,
}

/// Ends a run early, from any thread; its report covers what was done.
#[derive(Clone, Debug)]
pub struct Stopper {
    shared: Arc<Shared>,
    wakers: Vec<Waker>,
}

/// What one thread brings home.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) finish: Finish,
    pub(crate) failure: Option<Failure>,
    pub(crate) shelved: u32,
    /// How long the oldest request without a response had waited at the end, in nanoseconds.
    pub(crate) waited: u64,
    pub(crate) total: Ledger,
    /// From when every connection stood: calls, and requests answered.
    pub(crate) steady: Option<(Ledger, u64)>,
    pub(crate) cpu: CpuTimes,
    /// Memory of the process before connections are closed; `None` if it cannot be read.
    pub(crate) resident: Option<u64>,
    pub(crate) stats: Stats,
    pub(crate) driver: DriverInfo,
}

/// Resolves the hosts, which may block, and starts the threads.
///
/// # Errors
/// Something is wrong with the options or the URLs, a host has no address, or the system lacks
/// threads or descriptors.
pub fn start(options: &Options) -> Result<Running, LoadError> {
    let plan = Arc::new(Plan::new(options)?);
    let shared = Arc::new(Shared::new(plan.threads));
    let epoch = sys::now();
    let mut wakers = Vec::new();
    let mut reactors = Vec::new();
    for thread in 0..plan.threads {
        let load = Load::new(Arc::clone(&plan), Arc::clone(&shared), thread, epoch);
        let mut reactor =
            Reactor::with_options(load, options.loop_options).map_err(LoadError::Loop)?;
        wakers.push(reactor.waker().map_err(LoadError::Thread)?);
        reactors.push(reactor);
    }
    let stopper = Stopper { shared, wakers };
    let drivers = reactors.iter().map(Reactor::driver_info).collect();
    let mut threads = Vec::new();
    for (reactor, number) in reactors.into_iter().zip(0..) {
        match spawn(reactor, number) {
            Ok(handle) => threads.push(handle),
            Err(error) => {
                stopper.stop();
                return Err(LoadError::Thread(error));
            }
        }
    }
    Ok(Running { plan, url: options.urls.join(" "), epoch, stopper, drivers, threads })
}

impl Running {
    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.stopper.shared.read(sys::now().saturating_duration_since(self.epoch))
    }

    /// True once [`Running::finish`] does not wait.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// What each thread's loop began to run on.
    pub fn drivers(&self) -> &[DriverInfo] {
        &self.drivers
    }

    /// A way to end it early.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Nothing could ever be connected, or an event loop failed.
    pub fn finish(self) -> Result<Report, LoadError> {
        let mut summary = Summary::new(&self.plan, self.url);
        let mut failure = None;
        let (mut lost, mut stopped) = (false, false);
        for handle in self.threads {
            let mut outcome = handle.join().unwrap_or_else(|e| std::panic::resume_unwind(e))?;
            lost |= matches!(outcome.finish, Finish::Unreachable(_));
            stopped |= matches!(outcome.finish, Finish::Stopped(_));
            failure = outcome.failure.take().or(failure);
            summary.add(&outcome);
        }
        let (outage, never_ended) = self.stopper.shared.outages.total(summary.ended());
        lost |= never_ended && !stopped;
        match failure {
            Some(failure) if lost && summary.has_nothing() => {
                let to = self.plan.origins[usize::from(failure.gate)].place();
                Err(LoadError::Unreachable { to, cause: failure.error })
            }
            _ => Ok(summary.report(outage, lost)),
        }
    }
}

impl Stopper {
    /// Ends the run.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
    }
}

fn spawn(
    reactor: Reactor<Load, AnySelector>,
    number: u32,
) -> std::io::Result<JoinHandle<Result<Outcome, LoadError>>> {
    let builder = thread::Builder::new().name(format!("load-{number}")).stack_size(STACK_SIZE);
    builder.spawn(move || drive(reactor))
}

/// The life of a thread.
fn drive(mut reactor: Reactor<Load, AnySelector>) -> Result<Outcome, LoadError> {
    let (ledger, cpu) = (Ledger::here(), sys::thread_cpu().map_err(LoadError::Loop)?);
    let mut warm = None;
    reactor.try_turn().map_err(LoadError::Loop)?; // the first connects
    let finish = loop {
        if let Some(finish) = reactor.engine.finish() {
            break finish;
        }
        reactor.turn().map_err(LoadError::Loop)?;
        if warm.is_none() && reactor.engine.is_warm() {
            warm = Some((Ledger::here(), reactor.engine.answered()));
        }
    };
    let here = Ledger::here();
    let answered = reactor.engine.answered();
    let after = sys::thread_cpu().map_err(LoadError::Loop)?;
    let waited = reactor.engine.waited(finish.at());
    let (tally, failure, shelved) = reactor.engine.take_parts();
    Ok(Outcome {
        tally,
        finish,
        failure,
        shelved,
        waited,
        total: here - ledger,
        steady: warm.map(|(ledger, before)| (here - ledger, answered - before)),
        cpu: CpuTimes {
            user: after.user.saturating_sub(cpu.user),
            system: after.system.saturating_sub(cpu.system),
        },
        resident: sys::resident_bytes().ok(),
        stats: reactor.stats(),
        driver: reactor.driver_info(),
    })
}

/// How long something took, in seconds.
pub(crate) fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

const STACK_SIZE: usize = 256 * 1024;
