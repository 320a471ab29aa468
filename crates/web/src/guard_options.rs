//! The limits of a guard.

use std::time::Duration;

/// The limits of a [`Guard`](crate::auth::Guard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardOptions {
    /// Maximum number of failures of a client within [`GuardOptions::failure_window`]; the next
    /// attempt receives 429. Default: 10.
    pub failures_max: usize,
    /// Default: one minute.
    pub failure_window: Duration,
    /// Maximum number of clients in the table of failures (default: 4,096), about 250 bytes each. A
    /// full table drops the client with the oldest last failure.
    pub addresses_max: usize,
    /// Maximum number of passwords that wait for a thread (default: 64). Beyond it: 503 with
    /// `Retry-After`.
    pub hashes_max: usize,
    /// Maximum number of requests that wait for these hashes (default: 512). Requests with the same
    /// password wait for the same hash. Beyond it: 503 with `Retry-After`.
    pub requests_max: usize,
    /// Maximum number of hashing threads, started on demand. Default: half of the processors, 1 to
    /// 4.
    pub threads: usize,
}

impl Default for GuardOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            failures_max: 10,
            failure_window: Duration::from_secs(60),
            addresses_max: 4096,
            hashes_max: 64,
            requests_max: 512,
            threads: (processors / 2).clamp(1, 4),
        }
    }
}
