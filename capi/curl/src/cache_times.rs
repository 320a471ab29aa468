//! The times of libcurl's caches, which decide how often a transfer locks them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The entries that libcurl's caches would hold.
#[derive(Debug, Default)]
pub(crate) struct CacheTimes(Mutex<KnownNames>);

#[derive(Debug, Default)]
struct KnownNames {
    /// When dead connections were removed the last time.
    pruned: Option<Instant>,
    /// When a name was resolved.
    names: BTreeMap<(String, u16), Instant>,
}

impl CacheTimes {
    /// True once in a second: dead connections are removed.
    pub(crate) fn prunes(&self, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at| now.saturating_duration_since(at) < PRUNE_INTERVAL;
        let prunes = !known.pruned.is_some_and(is_recent);
        if prunes {
            known.pruned = Some(now);
        }
        prunes
    }

    /// True if a name is not in the cache. Then it is from now on.
    pub(crate) fn resolves(&self, host: &str, port: u16, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.names.retain(|_, at| now.saturating_duration_since(*at) < NAME_LIFETIME);
        let name = (host.to_ascii_lowercase(), port);
        let resolves = !known.names.contains_key(&name);
        if resolves {
            known.names.insert(name, now);
        }
        resolves
    }
}

const PRUNE_INTERVAL: Duration = Duration::from_secs(1);

const NAME_LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use fulmar_sys as sys;

    use super::*;

    #[test]
    fn caches_are_used_as_by_libcurl() {
        let times = CacheTimes::default();
        let start = sys::now();
        let at = |ms| start + Duration::from_millis(ms);
        let prunes: Vec<_> =
            [0, 999, 1000, 1001, 2500].into_iter().map(|ms| times.prunes(at(ms))).collect();
        assert_eq!(prunes, [true, false, true, false, true]);
        assert!(times.resolves("Name", 80, at(0)));
        assert!(!times.resolves("name", 80, at(59_999)));
        assert!(times.resolves("name", 81, at(59_999)));
        assert!(times.resolves("name", 80, at(60_000)));
    }
}
