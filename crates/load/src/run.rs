//! A run: one reactor per thread, and the sum of their results.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use fulmar_drive::{DriverInfo, Reactor, Waker};
use fulmar_sys as sys;

use crate::engine::{Finish, Load};
use crate::error::LoadError;
use crate::options::Options;
use crate::progress::{LoadProgress, RunShared};
use crate::report::{RunReport, Summary};
use crate::run_plan::RunPlan;
use crate::thread::{ThreadResult, spawn};

/// A run in progress.
///
/// ```no_run
/// use std::time::Duration;
/// use fulmar_load::{Options, RunUntil};
///
/// let options = Options {
///     urls: vec!["http://127.0.0.1:8080/".to_owned()],
///     until: RunUntil::Elapsed(Duration::from_secs(1)),
///     ..Options::default()
/// };
/// let running = fulmar_load::start(&options)?;
/// let report = running.finish()?;
/// println!("{}", report.text());
/// # Ok::<(), fulmar_load::LoadError>(())
/// ```
#[derive(Debug)]
pub struct LoadRun {
    plan: Arc<RunPlan>,
    url: String,
    epoch: Instant,
    stopper: LoadStopper,
    drivers: Vec<DriverInfo>,
    threads: Vec<JoinHandle<Result<ThreadResult, LoadError>>>,
}

/// Ends a run early, from any thread; its report covers what was done.
#[derive(Clone, Debug)]
pub struct LoadStopper {
    shared: Arc<RunShared>,
    wakers: Vec<Waker>,
}

/// Resolves the hosts, which may block, and starts the threads.
///
/// # Errors
/// The options or the URLs are invalid, a host has no address, or the system lacks threads or
/// descriptors.
pub fn start(options: &Options) -> Result<LoadRun, LoadError> {
    let plan = Arc::new(RunPlan::new(options)?);
    let shared = Arc::new(RunShared::new(plan.threads));
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
    let stopper = LoadStopper { shared, wakers };
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
    Ok(LoadRun { plan, url: options.urls.join(" "), epoch, stopper, drivers, threads })
}

impl LoadRun {
    /// The progress so far.
    pub fn progress(&self) -> LoadProgress {
        self.stopper.shared.read(sys::now().saturating_duration_since(self.epoch))
    }

    /// True once [`LoadRun::finish`] does not wait.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// The driver with which each thread's loop began.
    pub fn drivers(&self) -> &[DriverInfo] {
        &self.drivers
    }

    /// A handle that ends it early.
    pub fn stopper(&self) -> LoadStopper {
        self.stopper.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// No connection could be established, or an event loop failed.
    pub fn finish(self) -> Result<RunReport, LoadError> {
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

impl LoadStopper {
    /// Ends the run.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
    }
}
