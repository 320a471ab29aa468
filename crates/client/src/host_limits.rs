//! The limits of each host: concurrent requests, their rate, and pauses that the host requested.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::deadline::later;
use crate::options::{Config, RateLimit};

/// The hosts that have waiting or active requests.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    by_name: HashMap<Box<str>, usize>,
    hosts: Slab<HostState>,
}

/// A host, with any port and any route.
#[derive(Debug)]
pub(crate) struct HostState {
    name: Box<str>,
    /// The number of its origins.
    origins: usize,
    /// The number of active requests.
    active: usize,
    /// When the next request would be due at an even rate (the generic cell rate algorithm).
    due: Option<Instant>,
    /// The end of the pause that the host requested.
    retry_at: Option<Instant>,
    /// Origins that wait for the end of an active request.
    pub(crate) waiting_origins: Vec<usize>,
}

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Go,
    /// Not before this time.
    At(Instant),
    /// After the end of another one.
    Later,
}

impl Hosts {
    /// Adds an origin of the host `name`.
    pub(crate) fn join(&mut self, name: &str) -> usize {
        if let Some(at) = self.by_name.get(name) {
            self.hosts[*at].origins += 1;
            return *at;
        }
        if self.hosts.capacity() == 0 {
            self.hosts.reserve_exact(1); // clients of one transfer are many
        }
        let at = self.hosts.insert(HostState {
            name: name.into(),
            origins: 1,
            active: 0,
            due: None,
            retry_at: None,
            waiting_origins: Vec::new(),
        });
        self.by_name.insert(name.into(), at);
        at
    }

    /// Removes an origin. A host without origins is removed.
    pub(crate) fn leave(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.origins -= 1;
        if host.origins == 0 {
            let host = self.hosts.remove(at);
            self.by_name.remove(&host.name);
        }
    }

    /// Until when the host's limits must be remembered.
    pub(crate) fn remembered_until(&self, at: usize, now: Instant) -> Option<Instant> {
        let host = &self.hosts[at];
        host.due.max(host.retry_at).filter(|until| *until > now)
    }

    /// Whether a request to host `at` may be sent.
    pub(crate) fn permit(&self, at: usize, now: Instant, config: &Config) -> Permit {
        let host = &self.hosts[at];
        if config.per_host_active.is_some_and(|max| host.active >= max) {
            return Permit::Later;
        }
        if let Some(until) = host.retry_at.filter(|until| *until > now) {
            return Permit::At(until);
        }
        if let (Some(rate), Some(due)) = (config.rate, host.due) {
            let from = due.checked_sub(slack(rate)).unwrap_or(now);
            if from > now {
                return Permit::At(from);
            }
        }
        Permit::Go
    }

    /// How many requests to host `at` may be sent together: connections for more would be idle.
    pub(crate) fn allowance(&self, at: usize, now: Instant, config: &Config) -> usize {
        if self.permit(at, now, config) != Permit::Go {
            return 0;
        }
        let host = &self.hosts[at];
        let at_once = config.per_host_active.map_or(usize::MAX, |max| max - host.active);
        let Some(rate) = config.rate else { return at_once };
        let burst = rate.burst.max(1);
        let ahead = host.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
        let begun = ahead.as_nanos().div_ceil(interval(rate).as_nanos().max(1));
        let begun = u32::try_from(begun).unwrap_or(u32::MAX);
        at_once.min(burst.saturating_sub(begun).max(1) as usize)
    }

    /// A request is sent.
    pub(crate) fn begin(&mut self, at: usize, now: Instant, config: &Config) {
        let host = &mut self.hosts[at];
        host.active += 1;
        if let Some(rate) = config.rate {
            let from = host.due.map_or(now, |due| due.max(now));
            host.due = Some(later(from, interval(rate)));
        }
    }

    /// A request has ended. Returns the origins that may continue.
    pub(crate) fn end(&mut self, at: usize) -> std::vec::Drain<'_, usize> {
        let host = &mut self.hosts[at];
        host.active -= 1;
        host.waiting_origins.drain(..)
    }

    /// An origin waits for the end of one of the host's requests.
    pub(crate) fn wait(&mut self, at: usize, origin: usize) {
        let waiting_origins = &mut self.hosts[at].waiting_origins;
        if !waiting_origins.contains(&origin) {
            waiting_origins.push(origin);
        }
    }

    /// The host requested a pause.
    pub(crate) fn rest(&mut self, at: usize, until: Instant) {
        let rest = &mut self.hosts[at].retry_at;
        *rest = (*rest).max(Some(until));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }
}

fn interval(rate: RateLimit) -> Duration {
    rate.per / rate.requests.max(1)
}

/// How far a host may be ahead of its even rate.
fn slack(rate: RateLimit) -> Duration {
    interval(rate).saturating_mul(rate.burst.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn moment() -> Instant {
        Instant::now()
    }

    fn config(requests: u32, burst: u32) -> Config {
        let rate = RateLimit { requests, per: Duration::from_secs(1), burst };
        Config { rate: Some(rate), ..Config::default() }
    }

    #[test]
    fn a_rate_lets_a_burst_go_and_then_one_at_a_time() {
        let (config, now) = (config(10, 3), moment());
        let mut hosts = Hosts::default();
        let at = hosts.join("a");
        for _ in 0..3 {
            assert_eq!(hosts.permit(at, now, &config), Permit::Go);
            hosts.begin(at, now, &config);
        }
        let next = now + Duration::from_millis(100);
        assert_eq!(hosts.permit(at, now, &config), Permit::At(next));
        assert_eq!(hosts.permit(at, next, &config), Permit::Go);
        // Nothing accumulates beyond the burst.
        let late = now + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(hosts.permit(at, late, &config), Permit::Go);
            hosts.begin(at, late, &config);
        }
        assert_ne!(hosts.permit(at, late, &config), Permit::Go);
    }

    #[test]
    fn rest_and_concurrency_hold_requests_back() {
        let now = moment();
        let config = Config { per_host_active: Some(1), ..Config::default() };
        let mut hosts = Hosts::default();
        let at = hosts.join("a");
        assert_eq!(hosts.join("a"), at);
        hosts.begin(at, now, &config);
        assert_eq!(hosts.permit(at, now, &config), Permit::Later);
        hosts.wait(at, 7);
        hosts.wait(at, 7);
        assert_eq!(hosts.end(at).collect::<Vec<_>>(), [7]);
        let until = now + Duration::from_secs(2);
        hosts.rest(at, until);
        hosts.rest(at, now);
        assert_eq!(hosts.permit(at, now, &config), Permit::At(until));
        assert_eq!(hosts.permit(at, until, &config), Permit::Go);
        hosts.leave(at);
        hosts.leave(at);
        assert_eq!(hosts.len(), 0);
    }
}
