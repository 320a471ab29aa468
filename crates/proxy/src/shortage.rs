//! Nobody can be accepted, for want of descriptors or memory: what the log is told, in HAProxy's
//! words, which others' scripts look for.
//!
//! A listener that finds none tries again ten times in a second, in each thread; of each frontend one
//! line in a while is enough.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::journal::Severity;
use crate::shared::Shared;

/// When the log was told last of a frontend's, shared by all threads: in milliseconds, as
/// [`crate::Live::millis`] counts them; 0 if it never was.
#[derive(Debug, Default)]
pub(crate) struct Shortage(AtomicU64);

impl Shortage {
    /// True if it is to be told now: then it is told, by whoever has asked.
    fn take(&self, millis: u64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let is_due = last == 0 || millis.saturating_sub(last) >= TOLD_EVERY_MS;
        is_due
            && self.0.compare_exchange(last, millis, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Clients of this frontend wait, since nobody can be accepted: `error` says why.
pub(crate) fn tell(shared: &mut Shared, now: Instant, frontend: usize, error: &io::Error) {
    let Shared { live, journal, .. } = shared;
    let millis = live.millis(now);
    let frontend = &live.frontends[frontend];
    if !frontend.shortage.take(millis) {
        return;
    }
    let config = &frontend.config;
    let what = match error.raw_os_error() {
        Some(EMFILE) => "process FD limit. Please check 'ulimit-n' and restart.",
        Some(ENFILE) => "system FD limit. Please check system tunables.",
        _ => "system memory limit. Please check system tunables.",
    };
    let line = format!("Proxy {} reached {what}", config.name);
    journal.log(&config.logs, config.log_tag.as_deref(), Severity::Emergency, line.as_bytes());
}

/// The process has no more descriptors, the same number everywhere.
const EMFILE: i32 = 24;
/// Nor has the system.
const ENFILE: i32 = 23;
/// Often enough to be seen as long as it lasts, and no flood.
const TOLD_EVERY_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_in_a_minute_by_one() {
        let shortage = Shortage::default();
        let told = [1, 1, 2, 59_999, 60_000, 60_001, 60_001, 200_000, 100_000, 260_000];
        let told = told.map(|millis| shortage.take(millis));
        assert_eq!(
            told,
            [true, false, false, false, false, true, false, true, false, true],
            "the clocks of threads may differ a little"
        );
    }
}
