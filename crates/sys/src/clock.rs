//! Clock reads. All of them are here, so that the ledger can count them.

use std::time::{Instant, SystemTime};

use crate::ledger;

/// The monotonic clock. The ledger counts it as a clock read.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub fn now() -> Instant {
    ledger::enter_clock_read();
    Instant::now()
}

/// The time of day. The ledger counts it as a clock read.
pub fn wall_clock() -> SystemTime {
    ledger::enter_clock_read();
    SystemTime::now()
}
