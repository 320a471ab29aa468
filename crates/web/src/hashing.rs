//! Threads that hash passwords, and the requests that wait for them.
//!
//! ```text
//! Guard::admit ─▶ submit ─▶ jobs (bounded) ─▶ worker: verify ─▶ Deferred::handle_again
//! ```
//!
//! Requests with the same user and password share one job. Threads start with the first job, and
//! stop when the last [`crate::auth::Guard`] of the pool is dropped. A job is dropped before it is
//! hashed if all its clients have disconnected.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fulmar_proto::UsageError;
use fulmar_semantics::auth::PendingPassword;
use fulmar_server::Deferred;

use crate::failures::Failures;
use crate::guard_options::GuardOptions;

/// The result of a check: the note for [`Deferred::handle_again`].
#[derive(Debug)]
pub(crate) struct PasswordVerdict {
    /// The pool that has made the check; a handler may have several.
    pub(crate) pool: u64,
    /// The user, if the password is correct.
    pub(crate) user: Option<String>,
}

/// Why a password check was rejected.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// The client had too many failures; it may retry after this time.
    Limited(Duration),
    /// The queue is full, or no thread can be started.
    Busy,
    /// The request could not be deferred.
    Usage(UsageError),
}

/// A login attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoginAttempt {
    /// See [`fulmar_server::Responder::peer_network`].
    pub(crate) network: u64,
    pub(crate) now: Instant,
    /// The credentials were correct before, so they are not limited.
    pub(crate) is_recognized: bool,
}

/// The owner of the threads.
pub(crate) struct HashPool {
    shared: Arc<PoolShared>,
}

struct PoolShared {
    options: GuardOptions,
    number: u64,
    salt: [u8; 32],
    state: Mutex<HashQueue>,
    has_work: Condvar,
}

struct HashQueue {
    failures: Failures,
    queued: VecDeque<HashJob>,
    running: Vec<HashJob>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

struct HashJob {
    digest: [u8; 32],
    password: PendingPassword,
    waiters: Vec<HashWaiter>,
}

struct HashWaiter {
    deferred: Deferred,
    network: u64,
    /// The time at which the attempt was counted as a failure, if it was.
    charged: Option<Instant>,
}

impl HashPool {
    pub(crate) fn new(options: GuardOptions, number: u64, salt: [u8; 32]) -> Self {
        let failures =
            Failures::new(options.failures_max, options.failure_window, options.addresses_max);
        let state = HashQueue {
            failures,
            queued: VecDeque::new(),
            running: Vec::new(),
            threads: 0,
            idle: 0,
            is_closed: false,
        };
        let (state, has_work) = (Mutex::new(state), Condvar::new());
        Self { shared: Arc::new(PoolShared { options, number, salt, state, has_work }) }
    }

    pub(crate) fn number(&self) -> u64 {
        self.shared.number
    }

    /// The time until the client may try again.
    pub(crate) fn wait(&self, network: u64, now: Instant) -> Option<Duration> {
        self.shared.state().failures.wait(network, now)
    }

    /// Counts a failure that needed no hash.
    pub(crate) fn charge(&self, network: u64, now: Instant) -> Result<(), Duration> {
        self.shared.state().failures.charge(network, now)
    }

    /// Queues a password check. `defer` keeps the request; it is called only if the queue has room.
    pub(crate) fn submit(
        &self,
        password: PendingPassword,
        attempt: LoginAttempt,
        defer: impl FnOnce() -> Result<Deferred, UsageError>,
    ) -> Result<(), Rejection> {
        let digest = password.digest(&self.shared.salt);
        let mut state = self.shared.state();
        let known = state.find(&digest);
        state.check_room(&self.shared.options, known.is_some())?;
        if known.is_none() && state.idle <= state.queued.len() {
            self.shared.start_thread(&mut state);
        }
        if state.threads == 0 {
            return Err(Rejection::Busy);
        }
        // Many requests with one password are one attempt of their client.
        let known = state.find(&digest);
        let waiters = known.map_or(&[][..], |place| &state.job(place).waiters);
        let is_counted = waiters.iter().any(|waiter| waiter.network == attempt.network);
        let charged = if is_counted || attempt.is_recognized {
            None
        } else {
            state.failures.charge(attempt.network, attempt.now).map_err(Rejection::Limited)?;
            Some(attempt.now)
        };
        let deferred = defer().map_err(Rejection::Usage)?;
        let waiter = HashWaiter { deferred, network: attempt.network, charged };
        match known {
            Some(place) => state.job(place).waiters.push(waiter),
            None => {
                state.queued.push_back(HashJob { digest, password, waiters: vec![waiter] });
                drop(state);
                self.shared.has_work.notify_one();
            }
        }
        Ok(())
    }
}

/// The state of a job.
#[derive(Clone, Copy)]
enum JobPlace {
    Queued(usize),
    Running(usize),
}

impl HashQueue {
    fn find(&self, digest: &[u8; 32]) -> Option<JobPlace> {
        let is_it = |job: &HashJob| job.digest == *digest;
        let queued = self.queued.iter().position(is_it).map(JobPlace::Queued);
        queued.or_else(|| self.running.iter().position(is_it).map(JobPlace::Running))
    }

    fn job(&mut self, place: JobPlace) -> &mut HashJob {
        match place {
            JobPlace::Queued(at) => &mut self.queued[at],
            JobPlace::Running(at) => &mut self.running[at],
        }
    }

    /// Checks the limits; removes requests of disconnected clients first.
    fn check_room(&mut self, options: &GuardOptions, is_known: bool) -> Result<(), Rejection> {
        let is_full = |state: &Self| {
            let jobs = state.queued.iter().chain(&state.running);
            let requests: usize = jobs.map(|job| job.waiters.len()).sum();
            requests >= options.requests_max
                || (!is_known && state.queued.len() >= options.hashes_max)
        };
        if is_full(self) {
            self.drop_gone();
        }
        if is_full(self) { Err(Rejection::Busy) } else { Ok(()) }
    }

    /// Removes requests of disconnected clients; they do not count as attempts.
    fn drop_gone(&mut self) {
        let Self { failures, queued, .. } = self;
        queued.retain_mut(|job| {
            job.drop_gone(failures);
            !job.waiters.is_empty()
        });
    }

    /// The next job with a waiting client.
    fn next(&mut self) -> Option<HashJob> {
        loop {
            let mut job = self.queued.pop_front()?;
            job.drop_gone(&mut self.failures);
            if !job.waiters.is_empty() {
                return Some(job);
            }
        }
    }
}

impl HashJob {
    fn drop_gone(&mut self, failures: &mut Failures) {
        self.waiters.retain(|waiter| {
            if waiter.deferred.is_gone() {
                waiter.refund(failures);
            }
            !waiter.deferred.is_gone()
        });
    }
}

impl HashWaiter {
    fn refund(&self, failures: &mut Failures) {
        if let Some(then) = self.charged {
            failures.refund(self.network, then);
        }
    }
}

impl PoolShared {
    /// No application code runs while the lock is held.
    fn state(&self) -> MutexGuard<'_, HashQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_thread(self: &Arc<Self>, state: &mut HashQueue) {
        if state.threads >= self.options.threads.max(1) {
            return;
        }
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name(THREAD_NAME.to_owned());
        if thread.spawn(move || shared.work()).is_ok() {
            state.threads += 1;
        }
    }

    /// The loop of a thread.
    fn work(&self) {
        while let Some((digest, password)) = self.take() {
            // A panic of the application's `Users` fails its requests, not the thread.
            let is_right = catch_unwind(AssertUnwindSafe(|| password.verify())).ok();
            self.finish(&digest, password.user(), is_right);
        }
    }

    /// Waits for a job and marks it as running.
    fn take(&self) -> Option<([u8; 32], PendingPassword)> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.next() {
                let taken = (job.digest, job.password.clone());
                state.running.push(job);
                return Some(taken);
            }
            state.idle += 1;
            state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// `None`: the check panicked, so the waiting requests are dropped and receive 500.
    fn finish(&self, digest: &[u8; 32], user: &str, is_right: Option<bool>) {
        let mut state = self.state();
        let at = state.running.iter().position(|job| job.digest == *digest);
        let job = state.running.swap_remove(at.expect("the job is running"));
        if is_right != Some(false) {
            job.waiters.iter().for_each(|waiter| waiter.refund(&mut state.failures));
        }
        drop(state);
        let Some(is_right) = is_right else { return };
        for waiter in job.waiters {
            let user = is_right.then(|| user.to_owned());
            waiter.deferred.handle_again(PasswordVerdict { pool: self.number, user });
        }
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        let dropped = std::mem::take(&mut state.queued);
        drop(state);
        drop(dropped);
        self.shared.has_work.notify_all();
    }
}

impl fmt::Debug for HashPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        f.debug_struct("HashPool")
            .field("queued", &state.queued.len())
            .field("running", &state.running.len())
            .finish_non_exhaustive()
    }
}

/// The name of the threads in process lists.
const THREAD_NAME: &str = "fulmar-hash";
