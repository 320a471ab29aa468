//! The time of day without clock reads: `Date` (RFC 9110 §6.6.1) and the times of log lines.
//!
//! The wall clock is read once, together with the monotonic clock. Later times are that reading
//! plus the progress of the monotonic clock, which callers pass in. Texts are written again only
//! when the second changes.
//!
//! The wall clock may be set at run time, and the monotonic clock stops while the machine sleeps.
//! So the owner reads the wall clock again every [`RESYNC_AFTER`], when [`Clock::wants_resync`]
//! returns true. `Date` is wrong for at most that time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::date::{DATE_LEN, format_date};

/// The time of day, as text.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The time since 1970, at `read_at`.
    wall: Duration,
    read_at: Instant,
    /// The texts are valid before this time.
    until: Instant,
    unix: i64,
    http: [u8; DATE_LEN],
    log: [u8; LOG_TIME_LEN],
    iso: [u8; ISO_TIME_LEN],
}

impl Clock {
    /// `wall` and `now` must be read together.
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

    /// True if the last reading of the wall clock is older than [`RESYNC_AFTER`].
    pub fn wants_resync(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.read_at) >= RESYNC_AFTER
    }

    /// Updates the texts to `now`. Within the same second this is one comparison.
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

    /// The format of `Date`: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn http(&self) -> &[u8; DATE_LEN] {
        &self.http
    }

    /// The format of the combined log: `06/Nov/1994:08:49:37 +0000`.
    pub fn log(&self) -> &[u8; LOG_TIME_LEN] {
        &self.log
    }

    /// RFC 3339: `1994-11-06T08:49:37Z`.
    pub fn iso(&self) -> &[u8; ISO_TIME_LEN] {
        &self.iso
    }
}

/// Converts an IMF-fixdate into the format of the combined log.
fn log_time(http: &[u8; DATE_LEN]) -> [u8; LOG_TIME_LEN] {
    let mut text = *b"dd/Mon/yyyy:hh:mm:ss +0000";
    text[..2].copy_from_slice(&http[5..7]);
    text[3..6].copy_from_slice(&http[8..11]);
    text[7..11].copy_from_slice(&http[12..16]);
    text[12..20].copy_from_slice(&http[17..25]);
    text
}

/// Converts an IMF-fixdate into RFC 3339.
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

/// Maximum age of a reading of the wall clock.
pub const RESYNC_AFTER: Duration = Duration::from_secs(60);

/// Length of a time in the combined log.
pub const LOG_TIME_LEN: usize = 26;

/// Length of a time of RFC 3339 in whole seconds.
pub const ISO_TIME_LEN: usize = 20;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "tests need a start time")]
    fn now() -> Instant {
        Instant::now()
    }

    fn clock(millis: u64) -> (Clock, Instant) {
        let now = now();
        (Clock::new(UNIX_EPOCH + Duration::from_millis(millis), now), now)
    }

    #[test]
    fn all_formats_show_the_same_time() {
        let (clock, _) = clock(784_111_777_000);
        assert_eq!(clock.http(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(clock.log(), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(clock.iso(), b"1994-11-06T08:49:37Z");
        assert_eq!(clock.unix(), 784_111_777);
    }

    #[test]
    fn the_second_changes_with_the_wall_clock() {
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
    fn changes_of_the_wall_clock_are_applied() {
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
