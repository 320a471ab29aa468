//! What is counted of frontends, listeners, backends and servers.
//!
//! A thread counts for itself, without a locked instruction; whoever wants a sum adds up the
//! threads. The names are those of HAProxy's statistics (its management guide, §9.1).
//!
//! What follows from counting is kept beside it, so that who counts has one thing to say: the peaks
//! of gauges, how many come in a second, and means over the last exchanges.

mod mean;
mod rate;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

use mean::Mean;
pub use mean::Timing;
use rate::PerSecond;
pub use rate::Rate;

/// What one thread has counted of one frontend, listener, backend or server.
#[derive(Debug, Default)]
pub struct Counters {
    cells: Cells,
    peaks: [AtomicU64; 2], // of `Sessions` and `Queued`
    rates: [PerSecond; Rate::LEN],
    means: [Mean; Timing::LEN],
    clock: Arc<Clock>,
}

#[derive(Debug)]
struct Cells([AtomicU64; Counter::LEN]);

impl Default for Cells {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Counter::LEN])
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// `scur`: sessions now. A gauge: goes down too.
    Sessions,
    /// `stot`.
    SessionsTotal,
    /// `bin`: bytes from the client.
    BytesIn,
    /// `bout`: bytes to the client.
    BytesOut,
    /// Of those, bytes that nobody has seen: they passed through pipes. In mode http.
    PipedIn,
    /// The same of those to the client.
    PipedOut,
    /// `dreq`: requests denied.
    DeniedRequests,
    /// `dresp`: responses denied.
    DeniedResponses,
    /// `ereq`: requests that were none.
    RequestErrors,
    /// `econ`: connections to servers that failed.
    ConnectErrors,
    /// `eresp`: responses that failed.
    ResponseErrors,
    /// `wretr`: attempts after the first.
    Retries,
    /// `wredis`: attempts at another server.
    Redispatches,
    /// `lbtot`: sessions that balancing has sent there.
    Balanced,
    /// `hrsp_1xx`.
    Responses1xx,
    /// `hrsp_2xx`.
    Responses2xx,
    /// `hrsp_3xx`.
    Responses3xx,
    /// `hrsp_4xx`.
    Responses4xx,
    /// `hrsp_5xx`.
    Responses5xx,
    /// `hrsp_other`.
    ResponsesOther,
    /// `req_tot`: requests.
    Requests,
    /// `cli_abrt`: transfers that the client ended.
    ClientAborts,
    /// `srv_abrt`: transfers that the server ended.
    ServerAborts,
    /// `conn_tot`: connections accepted by a frontend, opened to a server.
    Connections,
    /// `connect`: connections to servers that were tried.
    ConnectsTried,
    /// `reuse`: exchanges over a connection that was there.
    Reuses,
    /// `dcon`: connections denied by `tcp-request connection`.
    DeniedConnections,
    /// `dses`: by `tcp-request session`.
    DeniedSessions,
    /// `intercepted`: requests answered by ourselves.
    Intercepted,
    /// `qcur`: waiting now. A gauge.
    Queued,
    /// Idle connections to a server now (`srv_icur`). A gauge.
    IdleConnections,
    /// `qtime`, summed over exchanges, ms; the mean is over the last 1,024.
    QueueTime,
    /// `ctime`, likewise.
    ConnectTime,
    /// `rtime`, likewise.
    ResponseTime,
    /// `ttime`, likewise.
    TotalTime,
    /// Exchanges that those four were summed over.
    Timed,
    /// Handshakes of TLS that succeeded.
    TlsHandshakes,
    /// Of these, resumed ones.
    TlsResumed,
    /// Handshakes of TLS that failed (`ssl_failed_handshake`).
    TlsFailures,
    /// `wrew`: changes of fields that could not be made.
    RewriteErrors,
    /// `eint`: what should not happen.
    InternalErrors,
    /// When a session last began: milliseconds of [`Clock`](crate::Clock). Set by counting
    /// [`SessionsTotal`](Self::SessionsTotal).
    LastSession,
}

impl Counter {
    /// How many there are.
    pub const LEN: usize = Self::LastSession as usize + 1;
}

impl Counters {
    /// Nothing yet. `clock` is that of the thread that will count.
    pub fn new(clock: Arc<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Adds, by the only thread that ever does. Of the times of an exchange, `Timed` is added last.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        let value = self.get(counter).wrapping_add(amount);
        self.set(counter, value);
        match counter {
            Counter::Sessions => raise(&self.peaks[0], value),
            Counter::Queued => raise(&self.peaks[1], value),
            Counter::SessionsTotal => {
                self.tick(Rate::Sessions, amount);
                self.set(Counter::LastSession, self.clock.millis());
            }
            Counter::Requests => self.tick(Rate::Requests, amount),
            Counter::Connections => self.tick(Rate::Connections, amount),
            Counter::QueueTime => self.note(Timing::Queue, amount),
            Counter::ConnectTime => self.note(Timing::Connect, amount),
            Counter::ResponseTime => self.note(Timing::Response, amount),
            Counter::TotalTime => self.note(Timing::Total, amount),
            _ => {}
        }
    }

    /// Takes away again, from a gauge.
    #[inline]
    pub fn subtract(&self, counter: Counter, amount: u64) {
        self.set(counter, self.get(counter).wrapping_sub(amount));
    }

    /// Puts another value in its place.
    #[inline]
    pub fn set(&self, counter: Counter, value: u64) {
        self.cells.0[counter as usize].store(value, Ordering::Relaxed);
    }

    /// The value, for any thread.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.cells.0[counter as usize].load(Ordering::Relaxed)
    }

    /// The most that there have been at a time: `smax` of `Sessions`, `qmax` of `Queued`; 0 of
    /// others.
    pub fn peak(&self, counter: Counter) -> u64 {
        match counter {
            Counter::Sessions => self.peaks[0].load(Ordering::Relaxed),
            Counter::Queued => self.peaks[1].load(Ordering::Relaxed),
            _ => 0,
        }
    }

    /// How many came in the last second before `now`, milliseconds of [`Clock`](crate::Clock).
    pub fn rate(&self, rate: Rate, now: u64) -> u64 {
        self.rates[rate as usize].at(now)
    }

    /// The most that came in a second.
    pub fn rate_max(&self, rate: Rate) -> u64 {
        self.rates[rate as usize].max()
    }

    /// A time over the last exchanges, at most [`Timing::WINDOW`] of them: how many they are, and
    /// the sum of the times, ms.
    pub fn recent(&self, timing: Timing) -> (u64, u64) {
        let count = self.get(Counter::Timed).min(Timing::WINDOW);
        (count, self.means[timing as usize].sum())
    }

    /// The longest time, ms.
    pub fn longest(&self, timing: Timing) -> u64 {
        self.means[timing as usize].max()
    }

    /// Forgets peaks and maxima; with `all`, everything but gauges. By the thread that counts.
    pub fn clear(&self, all: bool) {
        self.peaks[0].store(self.get(Counter::Sessions), Ordering::Relaxed);
        self.peaks[1].store(self.get(Counter::Queued), Ordering::Relaxed);
        self.rates.iter().for_each(|rate| rate.clear(all));
        self.means.iter().for_each(|mean| mean.clear(all));
        if all {
            let gauges = [Counter::Sessions, Counter::Queued, Counter::IdleConnections];
            let kept = gauges.map(|gauge| (gauge, self.get(gauge)));
            self.cells.0.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
            kept.iter().for_each(|(gauge, value)| self.set(*gauge, *value));
        }
    }

    fn tick(&self, rate: Rate, amount: u64) {
        self.rates[rate as usize].add(self.clock.millis(), amount);
    }

    fn note(&self, timing: Timing, millis: u64) {
        self.means[timing as usize].add(millis, self.get(Counter::Timed));
    }
}

fn raise(cell: &AtomicU64, value: u64) {
    if value > cell.load(Ordering::Relaxed) {
        cell.store(value, Ordering::Relaxed);
    }
}

/// The sum over threads; gauges may have gone up in one and down in another.
pub fn sum<'a>(threads: impl IntoIterator<Item = &'a Counters>, counter: Counter) -> u64 {
    threads.into_iter().fold(0, |sum, counters| sum.wrapping_add(counters.get(counter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_keeps_its_peak_until_it_is_cleared() {
        let counters = Counters::default();
        counters.add(Counter::Sessions, 3);
        counters.subtract(Counter::Sessions, 2);
        counters.add(Counter::Sessions, 1);
        assert_eq!((counters.get(Counter::Sessions), counters.peak(Counter::Sessions)), (2, 3));
        counters.clear(false);
        assert_eq!((counters.get(Counter::Sessions), counters.peak(Counter::Sessions)), (2, 2));
    }

    #[test]
    fn sessions_have_a_rate_and_a_last_moment_by_the_clock_of_their_thread() {
        let clock = Arc::new(Clock::default());
        let counters = Counters::new(Arc::clone(&clock));
        clock.set(5_000);
        counters.add(Counter::SessionsTotal, 1);
        counters.add(Counter::SessionsTotal, 1);
        assert_eq!(counters.rate(Rate::Sessions, 5_000), 2);
        assert_eq!(counters.rate(Rate::Requests, 5_000), 0);
        assert_eq!(counters.get(Counter::LastSession), 5_000);
    }

    #[test]
    fn times_are_means_over_the_last_exchanges() {
        let counters = Counters::default();
        for _ in 0..Timing::WINDOW * 10 {
            counters.add(Counter::ResponseTime, 20);
            counters.add(Counter::Timed, 1);
        }
        let (count, sum) = counters.recent(Timing::Response);
        assert_eq!((count, sum / count), (Timing::WINDOW, 20));
        assert_eq!(counters.longest(Timing::Response), 20);
    }

    #[test]
    fn clearing_all_leaves_what_is_there_now() {
        let counters = Counters::default();
        counters.add(Counter::Sessions, 1);
        counters.add(Counter::SessionsTotal, 1);
        counters.add(Counter::BytesIn, 100);
        counters.clear(true);
        assert_eq!(counters.get(Counter::Sessions), 1);
        assert_eq!(counters.get(Counter::SessionsTotal), 0);
        assert_eq!(counters.get(Counter::BytesIn), 0);
        assert_eq!(counters.rate(Rate::Sessions, 0), 0);
    }
}
