//! Whether the servers can be reached, and when a run is lost. Pure: time is an argument, in
//! nanoseconds of the run.
//!
//! ```text
//!        last connection lost          connect failed           give up
//!   Up ────────────────────────▶ Down ────────────────▶ Failing ─────────▶ GivenUp
//!    ▲                            │                        │                  │
//!    └────────────────────────────┴─── connection opened ──┴──────────────────┘
//! ```
//!
//! Each thread has a [`Reachability`]. The run's [`Outages`] combine them: a thread whose
//! destination is down does not end a run while other threads have connections. Only failures and
//! recoveries take the lock, so a run in which every connect succeeds never does.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether one thread reaches the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reachability {
    /// A connection is established.
    Up,
    /// None is, since then; no connect has failed.
    Down { since: u64 },
    /// None is, since then, and connects fail.
    Failing { since: u64 },
    /// Connects have failed for too long. The thread retries until every thread has given up; at
    /// `look_at` it checks whether they have.
    GivenUp { look_at: u64 },
}

impl Reachability {
    /// The last connection was lost.
    pub(crate) fn lose(&mut self, now: u64) {
        if let Self::Up = self {
            *self = Self::Down { since: now };
        }
    }

    /// A connect failed while no connection was established.
    pub(crate) fn fail(&mut self, run: &Outages) {
        if let Self::Down { since } = *self {
            run.fail(since);
            *self = Self::Failing { since };
        }
    }

    /// Connects have failed for too long.
    pub(crate) fn give_up(&mut self, now: u64, run: &Outages) {
        run.lock().given_up += 1;
        *self = Self::GivenUp { look_at: now };
    }

    /// Each connection is established and refused.
    pub(crate) fn refuse(&mut self, now: u64, run: &Outages) {
        match *self {
            Self::Up => run.fail(now),
            Self::Down { since } => run.fail(since),
            Self::Failing { .. } => {}
            Self::GivenUp { .. } => return,
        }
        self.give_up(now, run);
    }

    /// A connection was established. That has no effect if the run is lost already.
    pub(crate) fn restore(&mut self, now: u64, run: &Outages) {
        let restored = match self {
            Self::Up | Self::Down { .. } => true,
            Self::Failing { .. } => run.restore(now, 0),
            Self::GivenUp { .. } => run.restore(now, 1),
        };
        if restored {
            *self = Self::Up;
        }
    }

    /// True if the whole run is lost.
    pub(crate) fn is_lost(&mut self, now: u64, run: &Outages) -> bool {
        let Self::GivenUp { look_at } = self else { return false };
        *look_at = now + LOOK_EVERY;
        run.lock().is_lost()
    }

    /// When [`Reachability::is_lost`] has to be called again at the latest.
    pub(crate) fn deadline(self) -> Option<u64> {
        match self {
            Self::GivenUp { look_at } => Some(look_at),
            Self::Up | Self::Down { .. } | Self::Failing { .. } => None,
        }
    }

    /// This thread has made all its requests, and others may still have some. It no longer keeps
    /// the run from being lost.
    pub(crate) fn finish(self, now: u64, run: &Outages) {
        let mut book = run.lock();
        match self {
            Self::Up | Self::Down { .. } => {
                book.fail(now);
                book.given_up += 1;
                book.kept += 1;
            }
            Self::Failing { .. } => book.given_up += 1,
            Self::GivenUp { .. } => {}
        }
    }

    /// The time is over, or the run was stopped: no other thread gives up because of it.
    pub(crate) fn stop(self, run: &Outages) {
        if let Self::Up | Self::Down { .. } = self {
            run.lock().kept += 1;
        }
    }
}

/// The outages of a whole run: the times in which no thread had a connection and connects failed.
#[derive(Debug)]
pub(crate) struct Outages(Mutex<OutageTally>);

/// Threads that have made all their requests count as failing and as having given up.
#[derive(Debug, Default)]
struct OutageTally {
    threads: u32,
    failing: u32,
    given_up: u32,
    kept: u32,  // threads that ended with a connection, or without a failed connect
    since: u64, // when the last thread that fails lost its last connection
    before: u64,
}

impl Outages {
    pub(crate) fn new(threads: u32) -> Self {
        Self(Mutex::new(OutageTally { threads, ..OutageTally::default() }))
    }

    fn fail(&self, since: u64) {
        self.lock().fail(since);
    }

    fn restore(&self, now: u64, given_up: u32) -> bool {
        let mut book = self.lock();
        if book.is_lost() {
            return false;
        }
        book.before += book.outage(now);
        book.failing -= 1;
        book.given_up -= given_up;
        true
    }

    /// After the end, at `ended`: how long all outages took, and whether the last one never ended.
    pub(crate) fn total(&self, ended: u64) -> (u64, bool) {
        let book = self.lock();
        (book.before + book.outage(ended), book.failing == book.threads && book.kept == 0)
    }

    fn lock(&self) -> MutexGuard<'_, OutageTally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutageTally {
    fn fail(&mut self, since: u64) {
        self.failing += 1;
        self.since = self.since.max(since);
    }

    fn is_lost(&self) -> bool {
        self.given_up == self.threads
    }

    /// How long the present outage has lasted; 0 if there is none.
    fn outage(&self, now: u64) -> u64 {
        if self.failing == self.threads { now.saturating_sub(self.since) } else { 0 }
    }
}

/// The interval at which a thread checks whether the others have given up.
const LOOK_EVERY: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_lost_once_every_thread_has_given_up() {
        let run = Outages::new(2);
        let mut threads = [Reachability::Down { since: 0 }; 2];
        threads.iter_mut().for_each(|it| it.restore(1, &run));
        threads.iter_mut().for_each(|it| it.lose(10));
        threads.iter_mut().for_each(|it| it.fail(&run));
        threads[0].give_up(20, &run);
        assert!(!threads[0].is_lost(20, &run) && !threads[1].is_lost(20, &run));
        assert_eq!(threads[0].deadline(), Some(20 + LOOK_EVERY));
        threads[1].give_up(30, &run);
        assert!(threads[0].is_lost(31, &run) && threads[1].is_lost(31, &run));
        threads[0].restore(32, &run);
        assert!(threads[0].is_lost(32, &run), "the run is lost already");
        threads.iter().for_each(|it| it.stop(&run));
        assert_eq!(run.total(40), (30, true));
    }

    #[test]
    fn an_outage_is_a_time_in_which_all_threads_fail() {
        let run = Outages::new(2);
        let (mut a, mut b) = (Reachability::Up, Reachability::Up);
        a.lose(100);
        a.fail(&run);
        b.lose(300);
        b.fail(&run);
        a.restore(450, &run); // 300 to 450
        a.lose(500);
        a.fail(&run);
        b.restore(700, &run); // 500 to 700
        a.restore(800, &run);
        b.lose(900);
        b.restore(901, &run); // no connect failed
        a.stop(&run);
        b.stop(&run);
        assert_eq!(run.total(1_000), (350, false));
    }

    #[test]
    fn a_finished_thread_does_not_keep_a_lost_run_going() {
        let run = Outages::new(2);
        let mut last = Reachability::Up;
        Reachability::Up.finish(100, &run);
        last.lose(200);
        last.fail(&run);
        assert!(!last.is_lost(300, &run));
        last.give_up(300, &run);
        assert!(last.is_lost(300, &run));
        last.stop(&run);
        // The other thread finished with a connection.
        assert_eq!(run.total(300), (100, false));
    }

    #[test]
    fn a_run_that_ends_within_an_outage_has_lost_its_servers() {
        for (keeps, lost) in [(false, true), (true, false)] {
            let run = Outages::new(2);
            let (mut a, mut b) = (Reachability::Up, Reachability::Up);
            a.lose(100);
            a.fail(&run);
            if !keeps {
                b.lose(150);
                b.fail(&run);
            }
            a.stop(&run);
            b.stop(&run);
            assert_eq!(run.total(400), (if keeps { 0 } else { 250 }, lost));
        }
    }
}
