//! The clock: one place reads it, so that reads can be counted.

use std::time::{Instant, SystemTime};

use crate::ledger;

/// The monotonic clock. Entered in the ledger as a clock read.
#[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
pub fn now() -> Instant {
    ledger::enter_clock_read();
    Instant::now()
}

/// The time of day. Entered in the ledger as a clock read.
pub fn wall_clock() -> SystemTime {
    ledger::enter_clock_read();
    SystemTime::now()
}
