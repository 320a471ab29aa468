//! How far a run is: written by its thread, read by whoever draws it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// URLs that are over, failed ones included.
    pub over: u64,
    /// Of those, failed.
    pub failed: u64,
    /// URLs that are under way or next.
    pub under_way: usize,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Bytes still to come, if every URL that is left has begun and said its length.
    pub bytes_left: Option<u64>,
    /// The part of the URLs that is done, where their number or the size of their list is known.
    pub share: Option<f64>,
    /// Hosts that transfers are under way to, with bytes a second, slowest first; a few.
    pub slowest: Vec<(String, u64)>,
}

/// What is left to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outlook {
    /// URLs in hand.
    pub(crate) under_way: usize,
    /// How many of them are done, the parts of several together.
    pub(crate) partly: f64,
    /// Bytes still to come, if that is known.
    pub(crate) bytes_left: Option<u64>,
    /// The part of all URLs that has been taken from the list, if that is known.
    pub(crate) share: Option<f64>,
}

impl Outlook {
    /// The part of all URLs that is done, if `over` of them are over.
    fn done_of(&self, over: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        let (over, taken) = (over as f64, over as f64 + self.under_way as f64);
        if taken > 0.0 { (over + self.partly) / taken } else { 0.0 }
    }

    pub(crate) fn done(&self, over: u64) -> Option<f64> {
        self.share.map(|share| (share * self.done_of(over)).clamp(0.0, 1.0))
    }
}

/// What the threads share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    stop: AtomicBool,
    progress: Mutex<Progress>,
}

impl Shared {
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, progress: Progress) {
        *self.progress.lock().expect("nobody panics with it") = progress;
    }

    pub(crate) fn read(&self) -> Progress {
        self.progress.lock().expect("nobody panics with it").clone()
    }
}

/// Hosts that transfers are under way to: no others are remembered.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: HashMap<Box<str>, Host>,
    since: Instant,
}

#[derive(Debug, Default)]
struct Host {
    active: u32,
    bytes: u64,
}

impl Hosts {
    pub(crate) fn new(now: Instant) -> Self {
        Self { hosts: HashMap::new(), since: now }
    }

    pub(crate) fn begin(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.active += 1;
        } else {
            self.hosts.insert(name.into(), Host { active: 1, bytes: 0 });
        }
    }

    pub(crate) fn add(&mut self, name: &str, bytes: u64) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.bytes += bytes;
        }
    }

    pub(crate) fn end(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.active -= 1;
            if host.active == 0 {
                self.hosts.remove(name);
            }
        }
    }

    /// The slowest since the last look.
    pub(crate) fn slowest(&mut self, now: Instant) -> Vec<(String, u64)> {
        let span = now.saturating_duration_since(self.since).as_micros().max(1);
        self.since = now;
        let mut found: Vec<(&str, u64)> = Vec::new();
        for (name, host) in &mut self.hosts {
            let speed = u128::from(std::mem::take(&mut host.bytes)) * 1_000_000 / span;
            let speed = u64::try_from(speed).unwrap_or(u64::MAX);
            let at = found.partition_point(|other| (other.1, other.0) < (speed, name));
            if at < SLOWEST_LEN_MAX {
                found.insert(at, (name, speed));
                found.truncate(SLOWEST_LEN_MAX);
            }
        }
        found.into_iter().map(|(name, speed)| (name.to_owned(), speed)).collect()
    }
}

/// As many as there is room for in a line.
const SLOWEST_LEN_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_hosts_are_those_that_something_is_awaited_from() {
        let start = fulmar_sys::now();
        let mut hosts = Hosts::new(start);
        for (name, bytes) in [("a", 900), ("b", 0), ("c", 100), ("d", 500), ("gone", 1)] {
            hosts.begin(name);
            hosts.add(name, bytes);
        }
        hosts.end("gone");
        hosts.begin("b");
        hosts.end("b");
        let owned = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
            list.iter().map(|(name, speed)| ((*name).to_owned(), *speed)).collect()
        };
        let now = start + Duration::from_secs(2);
        assert_eq!(hosts.slowest(now), owned(&[("b", 0), ("c", 50), ("d", 250)]));
        let later = now + Duration::from_secs(1);
        assert_eq!(hosts.slowest(later), owned(&[("a", 0), ("b", 0), ("c", 0)]));
    }
}
