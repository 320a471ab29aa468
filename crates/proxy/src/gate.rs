//! Who may come in: as many as listener, frontend and process take at a time (`maxconn`), as many
//! in a second as the frontend takes (`rate-limit sessions`), and nobody while it is paused.
//!
//! Whoever may not stays in the kernel's queue: the listener is not accepted from.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::counters::{Counter, Rate, sum};
use crate::shared::{BindId, Shared};

/// True if another client may come in there.
pub(crate) fn is_open(shared: &Shared, bind: BindId) -> bool {
    let live = &shared.live;
    let frontend = &live.frontends[bind.frontend];
    let config = &frontend.config;
    let below = |max: Option<usize>, now: &dyn Fn() -> u64| {
        max.is_none_or(|max| now() < u64::try_from(max).unwrap_or(u64::MAX))
    };
    let all = || live.frontends.iter().map(|it| sum(it.counters.iter(), Counter::Sessions)).sum();
    let millis = live.clocks[shared.thread].millis();
    let total = |rate| {
        let all = live.frontends.iter().flat_map(|it| it.counters.iter());
        all.map(|it| it.rate(rate, millis)).sum::<u64>()
    };
    let rate = || frontend.counters.iter().map(|it| it.rate(Rate::Sessions, millis)).sum::<u64>();
    !frontend.paused.load(Ordering::Relaxed)
        && below(frontend.connections_max.get(), &|| {
            sum(frontend.counters.iter(), Counter::Sessions)
        })
        && below(config.binds[bind.bind].connections_max, &|| {
            sum(frontend.listeners[bind.bind].iter(), Counter::Sessions)
        })
        && below(live.connections_max.get(), &all)
        && below(live.connections_per_second_max.get(), &|| total(Rate::Connections))
        && below(live.sessions_per_second_max.get(), &|| total(Rate::Sessions))
        && config.sessions_per_second_max.is_none_or(|max| rate() < max.into())
}

/// Room that other threads make, and that the next second makes, is noticed so soon.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);
