//! A cache of lookup results.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::ResolveError;

/// The result of a lookup, shared by all waiters.
pub(crate) type ResolvedAddresses = Result<Arc<[IpAddr]>, ResolveError>;

/// Results by name. A full cache drops expired entries. If none has expired, it drops the oldest
/// eighth, so that the cost of the search is spread over many inserts.
#[derive(Debug)]
pub(crate) struct NameCache {
    entries: HashMap<Box<str>, CacheEntry>,
    len_max: usize,
    inserts: u64,
}

#[derive(Debug)]
struct CacheEntry {
    addresses: ResolvedAddresses,
    expires: Instant,
    sequence: u64, // sequence number of the insert
}

impl NameCache {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { entries: HashMap::new(), len_max, inserts: 0 }
    }

    pub(crate) fn get(&self, now: Instant, name: &str) -> Option<ResolvedAddresses> {
        let entry = self.entries.get(name).filter(|entry| now < entry.expires)?;
        Some(entry.addresses.clone())
    }

    pub(crate) fn insert(
        &mut self,
        now: Instant,
        name: Box<str>,
        answer: &ResolvedAddresses,
        ttl: Duration,
    ) {
        if self.entries.len() >= self.len_max && !self.entries.contains_key(&name) {
            self.make_room(now);
        }
        if self.entries.len() < self.len_max || self.entries.contains_key(&name) {
            self.inserts += 1;
            let entry = CacheEntry {
                addresses: answer.clone(),
                expires: now + ttl,
                sequence: self.inserts,
            };
            self.entries.insert(name, entry);
        }
    }

    fn make_room(&mut self, now: Instant) {
        self.entries.retain(|_, entry| now < entry.expires);
        if self.entries.len() < self.len_max || self.len_max == 0 {
            return;
        }
        let mut sequences: Vec<u64> = self.entries.values().map(|entry| entry.sequence).collect();
        let (_, newest_dropped, _) = sequences.select_nth_unstable(self.len_max / 8);
        let newest_dropped = *newest_dropped;
        self.entries.retain(|_, entry| entry.sequence > newest_dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "tests need a start time")]
    fn start() -> Instant {
        Instant::now()
    }

    fn answer() -> ResolvedAddresses {
        Ok(Arc::from([IpAddr::from([192, 0, 2, 1])]))
    }

    #[test]
    fn results_are_cached_until_they_expire() {
        let now = start();
        let second = Duration::from_secs(1);
        let mut cache = NameCache::new(8);
        cache.insert(now, "a".into(), &answer(), 2 * second);
        assert_eq!(cache.get(now + second, "a"), Some(answer()));
        assert_eq!(cache.get(now + 2 * second, "a"), None);
        cache.insert(now, "a".into(), &Err(ResolveError::NotFound), 3 * second);
        assert_eq!(cache.get(now + 2 * second, "a"), Some(Err(ResolveError::NotFound)));
    }

    #[test]
    fn a_full_cache_drops_expired_then_oldest_entries() {
        let now = start();
        let second = Duration::from_secs(1);
        let mut cache = NameCache::new(16);
        for n in 0..8 {
            cache.insert(now, format!("short{n}").into(), &answer(), second);
            cache.insert(now, format!("long{n}").into(), &answer(), 100 * second);
        }
        let later = now + second;
        cache.insert(later, "one".into(), &answer(), second);
        assert_eq!(cache.entries.len(), 9, "expired entries are dropped");
        for n in 0..10_000 {
            cache.insert(later, format!("more{n}").into(), &answer(), second);
            assert!(cache.entries.len() <= 16);
        }
        assert_eq!(cache.get(later, "long0"), None, "oldest entries are dropped");
        assert_eq!(cache.get(later, "more9999"), Some(answer()));
    }

    #[test]
    fn a_cache_of_size_zero_is_empty() {
        let now = start();
        let mut cache = NameCache::new(0);
        cache.insert(now, "a".into(), &answer(), Duration::from_secs(1));
        assert_eq!(cache.get(now, "a"), None);
    }
}
