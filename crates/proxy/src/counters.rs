//! Counters of frontends, listeners, backends and servers.
//!
//! Each thread has its own counters, and needs no locked instruction; a reader adds up the threads.
//! The names are those of HAProxy's statistics (its management guide, §9.1).
//!
//! Derived values are updated with the counters: peaks of gauges, events per second, and means over
//! the last exchanges.

mod mean;
mod rate;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::ThreadClock;

use mean::Mean;
pub use mean::Timing;
use rate::PerSecond;
pub use rate::RateKind;

/// The counters of one thread for one frontend, listener, backend or server.
#[derive(Debug, Default)]
pub struct Counters {
    cells: Cells,
    peaks: [AtomicU64; 2], // of `Sessions` and `Queued`
    rates: [PerSecond; RateKind::LEN],
    means: [Mean; Timing::LEN],
    clock: Arc<ThreadClock>,
}

#[derive(Debug)]
struct Cells([AtomicU64; Stat::LEN]);

impl Default for Cells {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Stat::LEN])
    }
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stat {
    /// `scur`: current sessions. A gauge.
    Sessions,
    /// `stot`.
    SessionsTotal,
    /// `bin`: bytes from the client.
    BytesIn,
    /// `bout`: bytes to the client.
    BytesOut,
    /// Of those, bytes that passed through pipes. In mode http.
    PipedIn,
    /// The same for bytes to the client.
    PipedOut,
    /// `dreq`: requests denied.
    DeniedRequests,
    /// `dresp`: responses denied.
    DeniedResponses,
    /// `ereq`: malformed requests.
    RequestErrors,
    /// `econ`: failed connections to servers.
    ConnectErrors,
    /// `eresp`: failed responses.
    ResponseErrors,
    /// `wretr`: attempts after the first.
    Retries,
    /// `wredis`: attempts at another server.
    Redispatches,
    /// `lbtot`: sessions assigned by load balancing.
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
    /// `cli_abrt`: transfers aborted by the client.
    ClientAborts,
    /// `srv_abrt`: transfers aborted by the server.
    ServerAborts,
    /// `conn_tot`: connections accepted by a frontend, or opened to a server.
    Connections,
    /// `connect`: attempts to connect to servers.
    ConnectsTried,
    /// `reuse`: exchanges over a reused connection.
    Reuses,
    /// `dcon`: connections denied by `tcp-request connection`.
    DeniedConnections,
    /// `dses`: by `tcp-request session`.
    DeniedSessions,
    /// `intercepted`: requests that the proxy responded to itself.
    Intercepted,
    /// `qcur`: waiting sessions. A gauge.
    Queued,
    /// `srv_icur`: idle connections to a server. A gauge.
    IdleConnections,
    /// `qtime`, the sum over exchanges in ms; the mean is over the last 1,024.
    QueueTime,
    /// `ctime`, likewise.
    ConnectTime,
    /// `rtime`, likewise.
    ResponseTime,
    /// `ttime`, likewise.
    TotalTime,
    /// Number of exchanges in those four sums.
    Timed,
    /// Successful TLS handshakes.
    TlsHandshakes,
    /// Of these, resumed ones.
    TlsResumed,
    /// Failed TLS handshakes (`ssl_failed_handshake`).
    TlsFailures,
    /// `wrew`: failed changes of header fields.
    RewriteErrors,
    /// `eint`: internal errors.
    InternalErrors,
    /// Time of the last new session: milliseconds of [`ThreadClock`]. Set with
    /// [`SessionsTotal`](Self::SessionsTotal).
    LastSession,
}

impl Stat {
    /// Number of counters.
    pub const LEN: usize = Self::LastSession as usize + 1;
}

impl Counters {
    /// All zero. `clock` is that of the thread that counts.
    pub fn new(clock: Arc<ThreadClock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Adds to a counter. Only the owning thread calls this. `Timed` is added after the times of an
    /// exchange.
    #[inline]
    pub fn add(&self, counter: Stat, amount: u64) {
        let value = self.get(counter).wrapping_add(amount);
        self.set(counter, value);
        match counter {
            Stat::Sessions => raise(&self.peaks[0], value),
            Stat::Queued => raise(&self.peaks[1], value),
            Stat::SessionsTotal => {
                self.tick(RateKind::Sessions, amount);
                self.set(Stat::LastSession, self.clock.millis());
            }
            Stat::Requests => self.tick(RateKind::Requests, amount),
            Stat::Connections => self.tick(RateKind::Connections, amount),
            Stat::QueueTime => self.note(Timing::Queue, amount),
            Stat::ConnectTime => self.note(Timing::Connect, amount),
            Stat::ResponseTime => self.note(Timing::Response, amount),
            Stat::TotalTime => self.note(Timing::Total, amount),
            _ => {}
        }
    }

    /// Subtracts from a gauge.
    #[inline]
    pub(crate) fn subtract(&self, counter: Stat, amount: u64) {
        self.set(counter, self.get(counter).wrapping_sub(amount));
    }

    /// Sets a value.
    #[inline]
    pub fn set(&self, counter: Stat, value: u64) {
        self.cells.0[counter as usize].store(value, Ordering::Relaxed);
    }

    /// The value; any thread may call this.
    #[inline]
    pub fn get(&self, counter: Stat) -> u64 {
        self.cells.0[counter as usize].load(Ordering::Relaxed)
    }

    /// The maximum of a gauge: `smax` of `Sessions`, `qmax` of `Queued`; 0 for other counters.
    pub fn peak(&self, counter: Stat) -> u64 {
        match counter {
            Stat::Sessions => self.peaks[0].load(Ordering::Relaxed),
            Stat::Queued => self.peaks[1].load(Ordering::Relaxed),
            _ => 0,
        }
    }

    /// Number of events in the last second before `now`, in milliseconds of [`ThreadClock`].
    pub fn rate(&self, rate: RateKind, now: u64) -> u64 {
        self.rates[rate as usize].at(now)
    }

    /// The maximum rate.
    pub fn rate_max(&self, rate: RateKind) -> u64 {
        self.rates[rate as usize].max()
    }

    /// The last exchanges, at most [`Timing::WINDOW`]: their number, and the sum of the times in
    /// ms.
    pub fn recent(&self, timing: Timing) -> (u64, u64) {
        let count = self.get(Stat::Timed).min(Timing::WINDOW);
        (count, self.means[timing as usize].sum())
    }

    /// The longest time, in ms.
    pub fn longest(&self, timing: Timing) -> u64 {
        self.means[timing as usize].max()
    }

    /// Resets peaks and maxima; with `all`, everything except gauges. Only the owning thread calls
    /// this.
    pub fn clear(&self, all: bool) {
        self.peaks[0].store(self.get(Stat::Sessions), Ordering::Relaxed);
        self.peaks[1].store(self.get(Stat::Queued), Ordering::Relaxed);
        self.rates.iter().for_each(|rate| rate.clear(all));
        self.means.iter().for_each(|mean| mean.clear(all));
        if all {
            let gauges = [Stat::Sessions, Stat::Queued, Stat::IdleConnections];
            let kept = gauges.map(|gauge| (gauge, self.get(gauge)));
            self.cells.0.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
            kept.iter().for_each(|(gauge, value)| self.set(*gauge, *value));
        }
    }

    fn tick(&self, rate: RateKind, amount: u64) {
        self.rates[rate as usize].add(self.clock.millis(), amount);
    }

    fn note(&self, timing: Timing, millis: u64) {
        self.means[timing as usize].add(millis, self.get(Stat::Timed));
    }
}

fn raise(cell: &AtomicU64, value: u64) {
    if value > cell.load(Ordering::Relaxed) {
        cell.store(value, Ordering::Relaxed);
    }
}

/// The sum over threads; a gauge may have increased on one thread and decreased on another.
pub fn sum<'a>(threads: impl IntoIterator<Item = &'a Counters>, counter: Stat) -> u64 {
    threads.into_iter().fold(0, |sum, counters| sum.wrapping_add(counters.get(counter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_keeps_its_peak_until_it_is_cleared() {
        let counters = Counters::default();
        counters.add(Stat::Sessions, 3);
        counters.subtract(Stat::Sessions, 2);
        counters.add(Stat::Sessions, 1);
        assert_eq!((counters.get(Stat::Sessions), counters.peak(Stat::Sessions)), (2, 3));
        counters.clear(false);
        assert_eq!((counters.get(Stat::Sessions), counters.peak(Stat::Sessions)), (2, 2));
    }

    #[test]
    fn sessions_update_rate_and_time_of_the_last_session() {
        let clock = Arc::new(ThreadClock::default());
        let counters = Counters::new(Arc::clone(&clock));
        clock.set(5_000);
        counters.add(Stat::SessionsTotal, 1);
        counters.add(Stat::SessionsTotal, 1);
        assert_eq!(counters.rate(RateKind::Sessions, 5_000), 2);
        assert_eq!(counters.rate(RateKind::Requests, 5_000), 0);
        assert_eq!(counters.get(Stat::LastSession), 5_000);
    }

    #[test]
    fn times_are_means_over_the_last_exchanges() {
        let counters = Counters::default();
        for _ in 0..Timing::WINDOW * 10 {
            counters.add(Stat::ResponseTime, 20);
            counters.add(Stat::Timed, 1);
        }
        let (count, sum) = counters.recent(Timing::Response);
        assert_eq!((count, sum / count), (Timing::WINDOW, 20));
        assert_eq!(counters.longest(Timing::Response), 20);
    }

    #[test]
    fn clearing_all_keeps_gauges() {
        let counters = Counters::default();
        counters.add(Stat::Sessions, 1);
        counters.add(Stat::SessionsTotal, 1);
        counters.add(Stat::BytesIn, 100);
        counters.clear(true);
        assert_eq!(counters.get(Stat::Sessions), 1);
        assert_eq!(counters.get(Stat::SessionsTotal), 0);
        assert_eq!(counters.get(Stat::BytesIn), 0);
        assert_eq!(counters.rate(RateKind::Sessions, 0), 0);
    }
}
