//! Failed logins of each client, and the time until the next attempt.
//!
//! Without I/O and clock. A client is an IPv4 address or an IPv6 /64
//! ([`fulmar_server::Responder::peer_network`]). The limit is exact: it holds for every interval of
//! the window's length.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;

/// The recent failures of each client. If the table is full, a new client replaces the one with the
/// oldest last failure.
#[derive(Debug)]
pub(crate) struct Failures {
    /// The times of a client's failures, oldest first; at most `failures_max`.
    table: LruCache<u64, VecDeque<Instant>>,
    failures_max: usize,
    window: Duration,
}

impl Failures {
    pub(crate) fn new(failures_max: usize, window: Duration, clients_max: usize) -> Self {
        let clients_max = NonZeroUsize::new(clients_max).unwrap_or(NonZeroUsize::MIN);
        Self { table: LruCache::new(clients_max), failures_max, window }
    }

    /// The time until the client's next attempt; `None` if it may try now.
    pub(crate) fn wait(&self, client: u64, now: Instant) -> Option<Duration> {
        let times = self.table.peek(&client).filter(|times| times.len() >= self.failures_max)?;
        let free = *times.front()? + self.window;
        Some(free.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// An attempt counts as failed from its start, so that parallel attempts are limited too.
    ///
    /// # Errors
    /// The time until the client's next attempt; the attempt was not counted.
    pub(crate) fn charge(&mut self, client: u64, now: Instant) -> Result<(), Duration> {
        if let Some(wait) = self.wait(client, now) {
            return Err(wait);
        }
        self.forget_before(now);
        let times = self.table.get_or_insert_mut(client, VecDeque::new);
        if times.len() >= self.failures_max {
            times.pop_front(); // older than the window
        }
        times.push_back(now);
        Ok(())
    }

    /// Removes the failure of an attempt at `then` that has succeeded.
    pub(crate) fn refund(&mut self, client: u64, then: Instant) {
        let Some(times) = self.table.peek_mut(&client) else { return };
        if let Some(at) = times.iter().rposition(|time| *time == then) {
            times.remove(at);
        }
        if times.is_empty() {
            self.table.pop(&client);
        }
    }

    /// Removes clients without a failure within the window, oldest first.
    fn forget_before(&mut self, now: Instant) {
        let is_old =
            |times: &VecDeque<Instant>| times.back().is_none_or(|last| *last + self.window <= now);
        while self.table.peek_lru().is_some_and(|(_, times)| is_old(times)) {
            self.table.pop_lru();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn ten_failures_a_minute_are_allowed() {
        let (mut failures, start) = (Failures::new(10, MINUTE, 8), fulmar_sys::now());
        for at in 0..10 {
            assert_eq!(failures.charge(1, start + seconds(at)), Ok(()));
        }
        assert_eq!(failures.charge(1, start + seconds(10)), Err(seconds(50)));
        assert_eq!(failures.charge(2, start + seconds(10)), Ok(()), "clients are independent");
        assert_eq!(failures.wait(1, start + seconds(59)), Some(seconds(1)));
        assert_eq!(failures.wait(1, start + seconds(60)), None);
        assert_eq!(failures.charge(1, start + seconds(60)), Ok(()));
        assert_eq!(failures.charge(1, start + seconds(60)), Err(seconds(1)), "one at a time");
        assert_eq!(failures.charge(1, start + seconds(61)), Ok(()));
        assert_eq!(failures.charge(1, start + seconds(600)), Ok(()), "all others are old");
        assert_eq!(failures.table.len(), 1, "old clients are removed");
    }

    #[test]
    fn a_refunded_attempt_is_no_failure() {
        let (mut failures, start) = (Failures::new(2, MINUTE, 8), fulmar_sys::now());
        for at in 0..10 {
            assert_eq!(failures.charge(1, start + seconds(at)), Ok(()));
            failures.refund(1, start + seconds(at));
        }
        assert!(failures.table.is_empty());
        assert_eq!(failures.charge(1, start), Ok(()));
        assert_eq!(failures.charge(1, start + seconds(1)), Ok(()));
        failures.refund(1, start);
        failures.refund(1, start);
        failures.refund(2, start);
        assert_eq!(failures.charge(1, start + seconds(2)), Ok(()));
        assert_eq!(failures.charge(1, start + seconds(3)), Err(seconds(58)));
    }

    #[test]
    fn a_full_table_drops_the_client_with_the_oldest_last_failure() {
        let (mut failures, start) = (Failures::new(1, MINUTE, 3), fulmar_sys::now());
        for client in 1..=4 {
            assert_eq!(failures.charge(client, start + seconds(client)), Ok(()));
        }
        assert_eq!(failures.table.len(), 3);
        assert_eq!(failures.wait(1, start + seconds(5)), None, "forgotten");
        for client in 2..=4 {
            assert_eq!(failures.wait(client, start + seconds(5)), Some(seconds(55 + client)));
        }
        for client in 100..10_000 {
            assert_eq!(failures.charge(client, start + seconds(6)), Ok(()));
        }
        assert_eq!(failures.table.len(), 3);
    }
}
