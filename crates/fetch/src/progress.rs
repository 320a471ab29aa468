//! The progress of a run: written by its thread, read by others.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchProgress {
    /// Time since the start.
    pub elapsed: Duration,
    /// URLs that have ended, including failed ones.
    pub over: u64,
    /// The number of failed ones.
    pub failed: u64,
    /// URLs in progress or next.
    pub under_way: usize,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Remaining bytes, if every remaining URL has begun and announced its length.
    pub bytes_left: Option<u64>,
    /// The finished part of the URLs, if their number or the size of their list is known.
    pub share: Option<f64>,
    /// The slowest hosts with transfers, in bytes per second, slowest first.
    pub slowest: Vec<(String, u64)>,
}

/// The remaining work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outlook {
    /// URLs in progress.
    pub(crate) under_way: usize,
    /// The sum of their finished parts.
    pub(crate) partly: f64,
    /// Remaining bytes, if known.
    pub(crate) bytes_left: Option<u64>,
    /// The part of all URLs that was taken from the list, if known.
    pub(crate) share: Option<f64>,
}

impl Outlook {
    /// The finished part of all URLs, if `over` of them have ended.
    fn done_of(&self, over: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let (over, taken) = (over as f64, over as f64 + self.under_way as f64);
        if taken > 0.0 { (over + self.partly) / taken } else { 0.0 }
    }

    pub(crate) fn done(&self, over: u64) -> Option<f64> {
        self.share.map(|share| (share * self.done_of(over)).clamp(0.0, 1.0))
    }
}

/// The data shared by the threads.
#[derive(Debug, Default)]
pub(crate) struct SharedProgress {
    stop: AtomicBool,
    progress: Mutex<FetchProgress>,
}

impl SharedProgress {
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, progress: FetchProgress) {
        *self.progress.lock().expect("no panic while it is locked") = progress;
    }

    pub(crate) fn read(&self) -> FetchProgress {
        self.progress.lock().expect("no panic while it is locked").clone()
    }
}

/// The hosts with transfers in progress.
#[derive(Debug)]
pub(crate) struct HostSpeeds {
    hosts: HashMap<Box<str>, HostSpeed>,
    since: Instant,
}

#[derive(Debug, Default)]
struct HostSpeed {
    active: u32,
    bytes: u64,
}

impl HostSpeeds {
    pub(crate) fn new(now: Instant) -> Self {
        Self { hosts: HashMap::new(), since: now }
    }

    pub(crate) fn begin(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.active += 1;
        } else {
            self.hosts.insert(name.into(), HostSpeed { active: 1, bytes: 0 });
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

    /// The slowest hosts since the previous call.
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

/// As many as fit on a line.
const SLOWEST_LEN_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_with_transfers_can_be_slowest() {
        let start = fulmar_sys::now();
        let mut hosts = HostSpeeds::new(start);
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
