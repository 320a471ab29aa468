//! Admission control: the limits of listener, frontend and process (`maxconn`), the frontend's rate
//! limit (`rate-limit sessions`), and paused frontends.
//!
//! While a limit is reached, the listener does not accept: clients wait in the kernel's queue.
//! There is no polling: a leaving client makes room and wakes the threads that wait for it;
//! operators wake all threads; and the end of a rate limit is known in advance.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::counters::{Counters, RateKind, Stat, sum};
use crate::live::Live;
use crate::shared::{BindId, ThreadContext};

/// Whether another client may be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Open,
    /// Not before an operator resumes the frontend.
    Paused,
    /// Not before a client of this frontend leaves.
    FrontendFull,
    /// Not before a client of any frontend leaves.
    ProcessFull,
    /// The rate limit is reached. There is room after this many milliseconds, if no other client is
    /// accepted meanwhile.
    RateLimited(u64),
}

/// Whether another client may be accepted there. Without room, this thread is woken when a client
/// leaves.
pub(crate) fn check_or_wait(shared: &ThreadContext, bind: BindId) -> Admission {
    let ThreadContext { live, thread, .. } = shared;
    let admission = check(shared, bind);
    let waiting_threads = match admission {
        Admission::Open | Admission::Paused | Admission::RateLimited(_) => return admission,
        Admission::FrontendFull => &live.frontends[bind.frontend].waiting_threads,
        Admission::ProcessFull => &live.waiting_threads,
    };
    waiting_threads.register(*thread);
    check(shared, bind) // a client that left meanwhile may have missed the registration
}

/// The same, without registering for a wake-up.
pub(crate) fn check(shared: &ThreadContext, bind: BindId) -> Admission {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    if frontend.paused.load(Ordering::Relaxed) {
        return Admission::Paused;
    }
    let sessions = |counters| sum(counters, Stat::Sessions);
    let binds_max = frontend.config.binds[bind.bind].connections_max;
    if room(frontend.connections_max.get(), || sessions(frontend.counters.iter())) == 0
        || room(binds_max, || sessions(frontend.listeners[bind.bind].iter())) == 0
    {
        return Admission::FrontendFull;
    }
    if room(live.connections_max.get(), || sessions(live.totals.iter())) == 0 {
        return Admission::ProcessFull;
    }
    let millis = live.clocks[shared.thread].millis();
    match rate_room(shared, bind, millis) {
        0 => Admission::RateLimited(millis_until_room(shared, bind, millis)),
        _ => Admission::Open,
    }
}

/// How many clients this thread may accept there without another check: its share of the room, so
/// that all threads together do not exceed the limits.
pub(crate) fn accepts_max(shared: &ThreadContext, bind: BindId) -> usize {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    let binds_max = frontend.config.binds[bind.bind].connections_max;
    let sessions = |counters| sum(counters, Stat::Sessions);
    let room = room(frontend.connections_max.get(), || sessions(frontend.counters.iter()))
        .min(room(binds_max, || sessions(frontend.listeners[bind.bind].iter())))
        .min(room(live.connections_max.get(), || sessions(live.totals.iter())))
        .min(rate_room(shared, bind, live.clocks[shared.thread].millis()));
    room / live.threads
}

/// The three counters of a listener's clients: for the listener, its frontend and the process. So
/// no limit and no rate needs a sum over listeners or frontends.
pub(crate) fn counters(shared: &ThreadContext, bind: BindId) -> [&Counters; 3] {
    let ThreadContext { live, thread, .. } = shared;
    let there = &live.frontends[bind.frontend];
    [&there.counters, &there.listeners[bind.bind], &live.totals].map(|it| &it[*thread])
}

/// Counts an accepted client.
pub(crate) fn count_accepted(shared: &ThreadContext, bind: BindId) {
    counters(shared, bind).iter().for_each(|it| it.add(Stat::Sessions, 1));
}

/// Counts a client that left. Its slot is released first, then waiting threads are looked up; a
/// waiting thread registers first, then checks for room. So at least one of them sees the other: no
/// wake-up is lost.
pub(crate) fn count_left(shared: &ThreadContext, bind: BindId) {
    let ThreadContext { live, thread, .. } = shared;
    let there = &live.frontends[bind.frontend];
    counters(shared, bind).iter().for_each(|it| it.subtract(Stat::Sessions, 1));
    shared.left.set(true);
    if live.threads > 1 {
        there.waiting_threads.wake_others(live, *thread);
        live.waiting_threads.wake_others(live, *thread);
    }
}

/// Threads that have closed a listener until a client leaves.
#[derive(Debug)]
pub(crate) struct WaitingThreads(Box<[AtomicBool]>);

impl WaitingThreads {
    /// No thread waits.
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| AtomicBool::new(false)).collect())
    }

    /// Registers a thread for a wake-up when a client leaves.
    fn register(&self, thread: usize) {
        self.0[thread].store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn wake_others(&self, live: &Live, own: usize) {
        fence(Ordering::SeqCst);
        for (thread, wants) in self.0.iter().enumerate() {
            if thread != own
                && wants.load(Ordering::Relaxed)
                && wants.swap(false, Ordering::Relaxed)
            {
                live.wakers.wake(thread);
            }
        }
    }
}

/// The room that the rate limits leave in the second that ends at `millis`.
fn rate_room(shared: &ThreadContext, bind: BindId, millis: u64) -> usize {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    let total = |rate| live.totals.iter().map(|it| it.rate(rate, millis)).sum::<u64>();
    let own =
        || frontend.counters.iter().map(|it| it.rate(RateKind::Sessions, millis)).sum::<u64>();
    let own_max = frontend.config.sessions_per_second_max.map(|max| max as usize);
    room(live.connections_per_second_max.get(), || total(RateKind::Connections))
        .min(room(live.sessions_per_second_max.get(), || total(RateKind::Sessions)))
        .min(room(own_max, own))
}

/// Milliseconds from `millis` until the rates permit a client. Rates only fall without new clients,
/// and are 0 after two seconds.
fn millis_until_room(shared: &ThreadContext, bind: BindId, millis: u64) -> u64 {
    let (mut busy, mut free) = (0, RATE_WINDOWS_MS);
    while free - busy > 1 {
        let middle = busy.midpoint(free);
        match rate_room(shared, bind, millis + middle) {
            0 => busy = middle,
            _ => free = middle,
        }
    }
    free
}

/// The distance to a limit, if there is one.
fn room(max: Option<usize>, now: impl Fn() -> u64) -> usize {
    let now = || usize::try_from(now()).unwrap_or(usize::MAX);
    max.map_or(usize::MAX, |max| max.saturating_sub(now()))
}

/// Events of a second count in the next one, but not longer.
const RATE_WINDOWS_MS: u64 = 2_000;
