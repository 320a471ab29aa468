//! What is counted of frontends, listeners, backends and servers.
//!
//! A thread counts for itself, without a locked instruction; whoever wants a sum adds up the
//! threads. The names are those of HAProxy's statistics (its management guide, §9.1).

use std::sync::atomic::{AtomicU64, Ordering};

/// What one thread has counted of one frontend, listener, backend or server.
#[derive(Debug)]
pub struct Counters([AtomicU64; Counter::LEN]);

impl Default for Counters {
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
    /// When something last happened: milliseconds of a clock that never stops.
    LastSession,
}

impl Counter {
    /// How many there are.
    pub const LEN: usize = Self::LastSession as usize + 1;
}

impl Counters {
    /// Adds, by the only thread that ever does.
    pub fn add(&self, counter: Counter, amount: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Takes away again, from a gauge.
    pub fn subtract(&self, counter: Counter, amount: u64) {
        self.add(counter, amount.wrapping_neg());
    }

    /// Puts another value in its place.
    pub fn set(&self, counter: Counter, value: u64) {
        self.0[counter as usize].store(value, Ordering::Relaxed);
    }

    /// The value, for any thread.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}

/// The sum over threads; gauges may have gone up in one and down in another.
pub fn sum<'a>(threads: impl IntoIterator<Item = &'a Counters>, counter: Counter) -> u64 {
    threads.into_iter().fold(0, |sum, counters| sum.wrapping_add(counters.get(counter)))
}
