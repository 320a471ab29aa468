//! Logs that no client can be accepted, for lack of descriptors or memory. The texts are those of
//! HAProxy, since scripts search for them.
//!
//! A listener retries ten times per second on each thread; one line per minute and frontend is
//! enough.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::proxy_log::LogSeverity;
use crate::shared::ThreadContext;

/// Time of a frontend's last line, shared by all threads: milliseconds as counted by
/// [`crate::Live::millis`]; 0: never.
#[derive(Debug, Default)]
pub(crate) struct Shortage(AtomicU64);

impl Shortage {
    /// True if a line is due; then the caller logs it, and no other thread does.
    fn take(&self, millis: u64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let is_due = last == 0 || millis.saturating_sub(last) >= LOGGED_EVERY_MS;
        is_due
            && self.0.compare_exchange(last, millis, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Logs that clients of this frontend wait because of `error`.
pub(crate) fn log_shortage(
    shared: &mut ThreadContext,
    now: Instant,
    frontend: usize,
    error: &io::Error,
) {
    let ThreadContext { live, proxy_log, .. } = shared;
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
    proxy_log.log(&config.logs, config.log_tag.as_deref(), LogSeverity::Emergency, line.as_bytes());
}

/// The process has too many open files; the same number on all systems.
const EMFILE: i32 = 24;
/// The system has too many open files.
const ENFILE: i32 = 23;
/// Visible while it lasts, without flooding the log.
const LOGGED_EVERY_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_is_logged_once_per_minute() {
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
