//! Answers, for as long as they hold.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::ResolveError;

/// What a name came to; shared by all who asked.
pub(crate) type Addresses = Result<Arc<[IpAddr]>, ResolveError>;

/// Answers by name. Never more than its bound: when it is full, what has expired goes, and if
/// that is not enough the oldest eighth, so that the search for them is paid by many inserts.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: HashMap<Box<str>, Entry>,
    len_max: usize,
    inserts: u64,
}

#[derive(Debug)]
struct Entry {
    addresses: Addresses,
    expires: Instant,
    born: u64, // the how-manieth insert
}

impl Cache {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { entries: HashMap::new(), len_max, inserts: 0 }
    }

    pub(crate) fn get(&self, now: Instant, name: &str) -> Option<Addresses> {
        let entry = self.entries.get(name).filter(|entry| now < entry.expires)?;
        Some(entry.addresses.clone())
    }

    pub(crate) fn insert(
        &mut self,
        now: Instant,
        name: Box<str>,
        answer: &Addresses,
        ttl: Duration,
    ) {
        if self.entries.len() >= self.len_max && !self.entries.contains_key(&name) {
            self.make_room(now);
        }
        if self.entries.len() < self.len_max || self.entries.contains_key(&name) {
            self.inserts += 1;
            let entry = Entry { addresses: answer.clone(), expires: now + ttl, born: self.inserts };
            self.entries.insert(name, entry);
        }
    }

    fn make_room(&mut self, now: Instant) {
        self.entries.retain(|_, entry| now < entry.expires);
        if self.entries.len() < self.len_max || self.len_max == 0 {
            return;
        }
        let mut births: Vec<u64> = self.entries.values().map(|entry| entry.born).collect();
        let (_, newest_to_go, _) = births.select_nth_unstable(self.len_max / 8);
        let newest_to_go = *newest_to_go;
        self.entries.retain(|_, entry| entry.born > newest_to_go);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn start() -> Instant {
        Instant::now()
    }

    fn answer() -> Addresses {
        Ok(Arc::from([IpAddr::from([192, 0, 2, 1])]))
    }

    #[test]
    fn answers_hold_until_they_expire() {
        let now = start();
        let second = Duration::from_secs(1);
        let mut cache = Cache::new(8);
        cache.insert(now, "a".into(), &answer(), 2 * second);
        assert_eq!(cache.get(now + second, "a"), Some(answer()));
        assert_eq!(cache.get(now + 2 * second, "a"), None);
        cache.insert(now, "a".into(), &Err(ResolveError::NotFound), 3 * second);
        assert_eq!(cache.get(now + 2 * second, "a"), Some(Err(ResolveError::NotFound)));
    }

    #[test]
    fn a_full_cache_drops_what_expired_and_then_the_oldest() {
        let now = start();
        let second = Duration::from_secs(1);
        let mut cache = Cache::new(16);
        for n in 0..8 {
            cache.insert(now, format!("short{n}").into(), &answer(), second);
            cache.insert(now, format!("long{n}").into(), &answer(), 100 * second);
        }
        let later = now + second;
        cache.insert(later, "one".into(), &answer(), second);
        assert_eq!(cache.entries.len(), 9, "the expired are gone");
        for n in 0..10_000 {
            cache.insert(later, format!("more{n}").into(), &answer(), second);
            assert!(cache.entries.len() <= 16);
        }
        assert_eq!(cache.get(later, "long0"), None, "the oldest are gone");
        assert_eq!(cache.get(later, "more9999"), Some(answer()));
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let now = start();
        let mut cache = Cache::new(0);
        cache.insert(now, "a".into(), &answer(), Duration::from_secs(1));
        assert_eq!(cache.get(now, "a"), None);
    }
}
