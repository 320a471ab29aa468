//! The state that both relays of one thread share.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::balance::Picker;
use fulmar_haproxy::model::BindAddress;
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::eval_context::Variable;

use crate::balancing;
use crate::live::Live;
use crate::proxy_log::ProxyLog;
use crate::services::Services;

/// A listening address: its frontend, and its index in the frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BindId {
    /// The frontend's index in the configuration.
    pub frontend: usize,
    /// The index of the bind in that frontend.
    pub bind: usize,
}

/// The state that both relays of one thread share.
#[derive(Debug)]
pub(crate) struct ThreadContext {
    pub(crate) live: Arc<Live>,
    /// The number of this thread, which selects its counters.
    pub(crate) thread: usize,
    /// One for each backend.
    pub(crate) pickers: Vec<Picker>,
    pub(crate) proxy_log: Box<dyn ProxyLog>,
    pub(crate) services: Box<dyn Services>,
    /// The proxy stops: no connection is kept for reuse.
    pub(crate) ending: bool,
    /// The destination of the client that is being accepted, if it was requested.
    pub(crate) local: Option<SocketAddr>,
    /// Backends with waiting sessions that this thread was woken for.
    pub(crate) woken: Vec<usize>,
    /// A client has left since this was reset.
    pub(crate) left: Cell<bool>,
    set_at: Option<Instant>,                 // the time of the last event
    wall: Cell<Option<(Instant, Duration)>>, // when the time of day was read, and its value
}

impl ThreadContext {
    pub(crate) fn new(
        live: Arc<Live>,
        thread: usize,
        proxy_log: Box<dyn ProxyLog>,
        services: Box<dyn Services>,
    ) -> Self {
        let pickers = live.backends.iter();
        let pickers = pickers.map(|it| Picker::new(balancing::rule(&it.config), thread)).collect();
        Self {
            live,
            thread,
            pickers,
            proxy_log,
            services,
            ending: false,
            local: None,
            woken: Vec::new(),
            left: Cell::new(false),
            set_at: None,
            wall: Cell::new(None),
        }
    }

    /// The time of the last event.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.set_at
    }

    /// Sets the current time. Called for every event; the time is the same throughout a turn.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        if self.set_at != Some(now) {
            self.set_at = Some(now);
            self.live.clocks[self.thread].set(self.live.millis(now));
        }
    }

    /// The time of day, since 1970.
    pub(crate) fn since_epoch(&self, now: Instant) -> Duration {
        let (at, wall) = match self.wall.get() {
            Some(known) if now.saturating_duration_since(known.0) < WALL_CLOCK_HOLDS => known,
            _ => {
                let wall = self.services.wall_clock().duration_since(UNIX_EPOCH);
                (now, wall.unwrap_or_default())
            }
        };
        self.wall.set(Some((at, wall)));
        wall + now.saturating_duration_since(at)
    }

    /// A time not after `now`, in milliseconds since 1970.
    pub(crate) fn wall_millis(&self, now: Instant, moment: Instant) -> u64 {
        let ago = now.saturating_duration_since(moment);
        let then = self.since_epoch(now).saturating_sub(ago);
        u64::try_from(then.as_millis()).unwrap_or(u64::MAX)
    }

    /// The destination of all clients of a listener, if the configuration determines it.
    pub(crate) fn address_of(&self, bind: BindId) -> Option<SocketAddr> {
        match self.live.frontends[bind.frontend].config.binds[bind.bind].address {
            BindAddress::Tcp(address) => {
                (!address.ip().is_unspecified() && address.port() != 0).then_some(address)
            }
            BindAddress::Unix(_) | BindAddress::Abstract(_) | BindAddress::Inherited(_) => None,
        }
    }
}

/// Sets or deletes a variable of a list.
pub(crate) fn set_variable(
    all: &mut Vec<(Variable, Sample<'static>)>,
    variable: &Variable,
    value: Option<Sample<'static>>,
) {
    all.retain(|(known, _)| known != variable);
    all.extend(value.map(|value| (variable.clone(), value)));
}

/// The wall clock may be set at any time: it is read again after this.
const WALL_CLOCK_HOLDS: Duration = Duration::from_secs(60);
