//! Who may come in: as many as listener, frontend and process take at a time (`maxconn`), as many
//! in a second as the frontend takes (`rate-limit sessions`), and nobody while it is paused.
//!
//! Whoever may not stays in the kernel's queue: the listener is not accepted from. Nobody looks
//! again and again whether it may be: who leaves makes room, and tells the threads that want it;
//! operators rouse all threads; and when a second has room again is known beforehand.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::counters::{Counter, Counters, Rate, sum};
use crate::live::Live;
use crate::shared::{BindId, Shared};

/// Whether another client may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Not before an operator says so.
    Paused,
    /// Not before a client of this frontend leaves.
    Full,
    /// Not before any client leaves.
    Crowded,
    /// Too many have come in the last second; not before so many milliseconds, if nobody else
    /// comes meanwhile.
    Busy(u64),
}

/// Whether another client may come in there. If there is no room, this thread hears of some.
pub(crate) fn look(shared: &Shared, bind: BindId) -> Gate {
    let Shared { live, thread, .. } = shared;
    let gate = glance(shared, bind);
    let wanting = match gate {
        Gate::Open | Gate::Paused | Gate::Busy(_) => return gate,
        Gate::Full => &live.frontends[bind.frontend].wanting,
        Gate::Crowded => &live.wanting,
    };
    wanting.tell(*thread);
    glance(shared, bind) // who has left since then may not have known
}

/// The same, without a word to anybody.
pub(crate) fn glance(shared: &Shared, bind: BindId) -> Gate {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    if frontend.paused.load(Ordering::Relaxed) {
        return Gate::Paused;
    }
    let sessions = |counters| sum(counters, Counter::Sessions);
    let binds_max = frontend.config.binds[bind.bind].connections_max;
    if room(frontend.connections_max.get(), || sessions(frontend.counters.iter())) == 0
        || room(binds_max, || sessions(frontend.listeners[bind.bind].iter())) == 0
    {
        return Gate::Full;
    }
    if room(live.connections_max.get(), || sessions(live.totals.iter())) == 0 {
        return Gate::Crowded;
    }
    let millis = live.clocks[shared.thread].millis();
    match calm_room(shared, bind, millis) {
        0 => Gate::Busy(until_calm(shared, bind, millis)),
        _ => Gate::Open,
    }
}

/// So many may come in there without another look: of those for whom there is room, the share of
/// this thread, so that all threads together do not take more.
pub(crate) fn places(shared: &Shared, bind: BindId) -> usize {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    let binds_max = frontend.config.binds[bind.bind].connections_max;
    let sessions = |counters| sum(counters, Counter::Sessions);
    let room = room(frontend.connections_max.get(), || sessions(frontend.counters.iter()))
        .min(room(binds_max, || sessions(frontend.listeners[bind.bind].iter())))
        .min(room(live.connections_max.get(), || sessions(live.totals.iter())))
        .min(calm_room(shared, bind, live.clocks[shared.thread].millis()));
    room / live.threads
}

/// Where clients of a listener are counted that come in: in three places, so that no limit and no
/// rate has to be summed up over listeners or frontends.
pub(crate) fn counters(shared: &Shared, bind: BindId) -> [&Counters; 3] {
    let Shared { live, thread, .. } = shared;
    let there = &live.frontends[bind.frontend];
    [&there.counters, &there.listeners[bind.bind], &live.totals].map(|it| &it[*thread])
}

/// A client of this listener is there.
pub(crate) fn enter(shared: &Shared, bind: BindId) {
    counters(shared, bind).iter().for_each(|it| it.add(Counter::Sessions, 1));
}

/// A client of this listener is gone. Its place is given back first, then those are looked for who
/// want it; who wants one says so and then looks for a place. So one of them sees the other.
pub(crate) fn leave(shared: &Shared, bind: BindId) {
    let Shared { live, thread, .. } = shared;
    let there = &live.frontends[bind.frontend];
    counters(shared, bind).iter().for_each(|it| it.subtract(Counter::Sessions, 1));
    shared.left.set(true);
    if live.threads > 1 {
        there.wanting.wake_others(live, *thread);
        live.wanting.wake_others(live, *thread);
    }
}

/// Threads that have closed a listener until a client of a frontend leaves.
#[derive(Debug)]
pub(crate) struct Wanting(Box<[AtomicBool]>);

impl Wanting {
    /// None of so many.
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| AtomicBool::new(false)).collect())
    }

    /// This thread wants to hear of who leaves next.
    fn tell(&self, thread: usize) {
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

/// So many more may come in the second that ends at `millis`.
fn calm_room(shared: &Shared, bind: BindId, millis: u64) -> usize {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    let total = |rate| live.totals.iter().map(|it| it.rate(rate, millis)).sum::<u64>();
    let own = || frontend.counters.iter().map(|it| it.rate(Rate::Sessions, millis)).sum::<u64>();
    let own_max = frontend.config.sessions_per_second_max.map(|max| max as usize);
    room(live.connections_per_second_max.get(), || total(Rate::Connections))
        .min(room(live.sessions_per_second_max.get(), || total(Rate::Sessions)))
        .min(room(own_max, own))
}

/// How long after `millis` it will be calm: rates only fall while nobody comes, and are nothing
/// after two seconds.
fn until_calm(shared: &Shared, bind: BindId, millis: u64) -> u64 {
    let (mut busy, mut calm) = (0, FORGOTTEN_AFTER_MS);
    while calm - busy > 1 {
        let middle = busy.midpoint(calm);
        match calm_room(shared, bind, millis + middle) {
            0 => busy = middle,
            _ => calm = middle,
        }
    }
    calm
}

/// So many more than there are, as long as there is a limit.
fn room(max: Option<usize>, now: impl Fn() -> u64) -> usize {
    let now = || usize::try_from(now()).unwrap_or(usize::MAX);
    max.map_or(usize::MAX, |max| max.saturating_sub(now()))
}

/// What has come in a second counts in the next one too, and not after it.
const FORGOTTEN_AFTER_MS: u64 = 2_000;
