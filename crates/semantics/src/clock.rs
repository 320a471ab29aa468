//! The time of day without reading a clock: `Date` (RFC 9110 §6.6.1) and the times of log lines.
//!
//! A wall clock is read once, together with the monotonic one; from then on the time of day is
//! that reading plus what the monotonic clock has advanced, which the caller knows anyway. Text is
//! written again only when the second changes.
//!
//! The wall clock may be set while we run, and the monotonic one stands still while the machine
//! sleeps. So the owner reads the wall clock again every [`RESYNC_AFTER`], when
//! [`Clock::wants_resync`] says so: `Date` is wrong for no longer than that.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::date::{DATE_LEN, format_date};

/// The time of day, as text.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Since 1970, at `read_at`.
    wall: Duration,
    read_at: Instant,
    /// The text below holds before this.
    until: Instant,
    unix: i64,
    http: [u8; DATE_LEN],
    log: [u8; LOG_TIME_LEN],
    iso: [u8; ISO_TIME_LEN],
}

impl Clock {
    /// `wall` and `now` were read together.
    pub fn new(wall: SystemTime, now: Instant) -> Self {
        let mut clock = Self {
            wall: Duration::ZERO,
            read_at: now,
            until: now,
            unix: 0,
            http: [0; DATE_LEN],
            log: [0; LOG_TIME_LEN],
            iso: [0; ISO_TIME_LEN],
        };
        clock.resync(wall, now);
        clock
    }

    /// Sets the clock again; the time of day may jump, also backwards.
    pub fn resync(&mut self, wall: SystemTime, now: Instant) {
        self.wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        (self.read_at, self.until) = (now, now);
        self.advance(now);
    }

    /// True if the wall clock was read longer than [`RESYNC_AFTER`] ago.
    pub fn wants_resync(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.read_at) >= RESYNC_AFTER
    }

    /// It is `now`. Within the same second this is one comparison.
    pub fn advance(&mut self, now: Instant) {
        if now < self.until {
            return;
        }
        let wall = self.wall + now.saturating_duration_since(self.read_at);
        let rest = Duration::from_nanos(u64::from(1_000_000_000 - wall.subsec_nanos()));
        self.until = now + rest;
        self.unix = i64::try_from(wall.as_secs()).unwrap_or(i64::MAX);
        self.http = format_date(self.unix);
        self.log = log_time(&self.http);
        self.iso = iso_time(&self.http);
    }

    /// Seconds since 1970.
    pub fn unix(&self) -> i64 {
        self.unix
    }

    /// As in `Date`: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn http(&self) -> &[u8; DATE_LEN] {
        &self.http
    }

    /// As in a combined log: `06/Nov/1994:08:49:37 +0000`.
    pub fn log(&self) -> &[u8; LOG_TIME_LEN] {
        &self.log
    }

    /// As in RFC 3339: `1994-11-06T08:49:37Z`.
    pub fn iso(&self) -> &[u8; ISO_TIME_LEN] {
        &self.iso
    }
}

/// The pieces of an IMF-fixdate in the order of a combined log.
fn log_time(http: &[u8; DATE_LEN]) -> [u8; LOG_TIME_LEN] {
    let mut text = *b"dd/Mon/yyyy:hh:mm:ss +0000";
    text[..2].copy_from_slice(&http[5..7]);
    text[3..6].copy_from_slice(&http[8..11]);
    text[7..11].copy_from_slice(&http[12..16]);
    text[12..20].copy_from_slice(&http[17..25]);
    text
}

/// An IMF-fixdate as RFC 3339 writes it.
pub fn iso_time(http: &[u8; DATE_LEN]) -> [u8; ISO_TIME_LEN] {
    let month = MONTHS.iter().position(|name| *name == &http[8..11]).unwrap_or(0) + 1;
    let digit = |n: usize| b'0' + u8::try_from(n).expect("a month has at most two digits");
    let mut text = *b"yyyy-MM-ddThh:mm:ssZ";
    text[..4].copy_from_slice(&http[12..16]);
    text[5..7].copy_from_slice(&[digit(month / 10), digit(month % 10)]);
    text[8..10].copy_from_slice(&http[5..7]);
    text[11..19].copy_from_slice(&http[17..25]);
    text
}

/// How long a reading of the wall clock is good for.
pub const RESYNC_AFTER: Duration = Duration::from_secs(60);

/// The length of the time in a combined log.
pub const LOG_TIME_LEN: usize = 26;

/// The length of a time of RFC 3339 in whole seconds.
pub const ISO_TIME_LEN: usize = 20;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn now() -> Instant {
        Instant::now()
    }

    fn clock(millis: u64) -> (Clock, Instant) {
        let now = now();
        (Clock::new(UNIX_EPOCH + Duration::from_millis(millis), now), now)
    }

    #[test]
    fn three_texts_of_one_time() {
        let (clock, _) = clock(784_111_777_000);
        assert_eq!(clock.http(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(clock.log(), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(clock.iso(), b"1994-11-06T08:49:37Z");
        assert_eq!(clock.unix(), 784_111_777);
    }

    #[test]
    fn the_second_changes_when_the_wall_clock_says_so() {
        let (mut clock, now) = clock(784_111_777_900);
        for (millis, unix) in
            [(0, 777), (99, 777), (100, 778), (1099, 778), (1100, 779), (9100, 787)]
        {
            clock.advance(now + Duration::from_millis(millis));
            assert_eq!(clock.unix(), 784_111_000 + unix, "{millis}");
        }
        assert_eq!(clock.http(), b"Sun, 06 Nov 1994 08:49:47 GMT");
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let (mut clock, now) = clock(784_111_777_900);
        assert!(!clock.wants_resync(now + Duration::from_secs(59)));
        let later = now + Duration::from_secs(60);
        assert!(clock.wants_resync(later));
        clock.resync(UNIX_EPOCH + Duration::from_secs(784_108_177), later);
        assert_eq!(clock.iso(), b"1994-11-06T07:49:37Z");
        assert!(!clock.wants_resync(later));
    }

    #[test]
    fn a_wall_clock_before_1970_is_1970() {
        let now = now();
        let clock = Clock::new(UNIX_EPOCH - Duration::from_secs(1), now);
        assert_eq!(clock.iso(), b"1970-01-01T00:00:00Z");
    }
}
