//! The progress of a transfer: counts, speeds, the meter, and transfers that are too slow.
//!
//! Pure: the time and the counts go in. The speed of the last seconds, by which a transfer is too
//! slow, is measured once a second, as in libcurl.

use std::time::{Duration, Instant};

use crate::code::CurlCode;
use crate::failure::Failure;
use crate::rare::ConstDefault;

/// The bytes of a request and its response so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressCounts {
    /// The declared length of the response.
    pub(crate) download_size: Option<i64>,
    pub(crate) downloaded: i64,
    /// The declared length of the request's body.
    pub(crate) upload_size: Option<i64>,
    pub(crate) uploaded: i64,
}

impl ProgressCounts {
    /// The arguments of `CURLOPT_XFERINFOFUNCTION`.
    pub(crate) fn arguments(&self) -> [i64; 4] {
        let (down, up) = (self.download_size.unwrap_or(0), self.upload_size.unwrap_or(0));
        [down, self.downloaded, up, self.uploaded]
    }
}

/// Measurements of a transfer.
#[derive(Debug, Default)]
pub(crate) struct ProgressState {
    /// The second of the last measurement.
    measured: Option<u64>,
    /// Times and bytes of the last measurements, the oldest first.
    points: Vec<(Duration, i64)>,
    speed: i64,
    has_heading: bool,
    /// Since when it has been too slow.
    slow_since: Option<Instant>,
}

/// Speeds and times of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    elapsed: Duration,
    download_speed: i64,
    upload_speed: i64,
    /// A second has passed: the meter is due.
    pub(crate) is_due: bool,
}

impl ConstDefault for ProgressState {
    const DEFAULT: &'static Self = &Self {
        measured: None,
        points: Vec::new(),
        speed: 0,
        has_heading: false,
        slow_since: None,
    };
}

impl ProgressState {
    /// Measures, at most once a second unless the transfer has ended.
    pub(crate) fn measure(
        &mut self,
        counts: &ProgressCounts,
        elapsed: Duration,
        has_ended: bool,
    ) -> Measured {
        let micros = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        let measured = Measured {
            elapsed,
            download_speed: speed(counts.downloaded, micros),
            upload_speed: speed(counts.uploaded, micros),
            is_due: has_ended || self.measured != Some(elapsed.as_secs()),
        };
        if measured.is_due {
            self.measured = Some(elapsed.as_secs());
            self.add_point(elapsed, counts.downloaded + counts.uploaded);
            if self.points.len() == 1 {
                self.speed = measured.download_speed + measured.upload_speed;
            }
        }
        measured
    }

    fn add_point(&mut self, elapsed: Duration, bytes: i64) {
        if self.points.len() == POINTS_MAX {
            self.points.remove(0);
        }
        self.points.push((elapsed, bytes));
        let (since, before) = self.points[0];
        let ms = i64::try_from(elapsed.saturating_sub(since).as_millis()).unwrap_or(i64::MAX);
        self.speed = (bytes - before).saturating_mul(1000) / ms.max(1);
    }

    /// `CURLOPT_LOW_SPEED_LIMIT` and `CURLOPT_LOW_SPEED_TIME`.
    ///
    /// # Errors
    /// The transfer has been slower than `limit` for `seconds`.
    pub(crate) fn check_speed(
        &mut self,
        now: Instant,
        limit: i64,
        seconds: i64,
    ) -> Result<(), Failure> {
        if seconds == 0 || self.speed < 0 {
            return Ok(());
        }
        if self.speed >= limit {
            self.slow_since = None;
            return Ok(());
        }
        let since = *self.slow_since.get_or_insert(now);
        let slow = now.saturating_duration_since(since);
        match slow >= Duration::from_secs(seconds.unsigned_abs()) {
            false => Ok(()),
            true => Err(Failure::new(
                CurlCode::OperationTimedOut,
                format!(
                    "Operation too slow. Less than {limit} bytes/sec transferred the last \
                     {seconds} seconds"
                ),
            )),
        }
    }

    /// Another request begins.
    pub(crate) fn restart_speed(&mut self) {
        self.slow_since = None;
    }

    /// The meter, with its heading at first. `resumed`: where a resumed download begins.
    pub(crate) fn meter(
        &mut self,
        counts: &ProgressCounts,
        measured: &Measured,
        resumed: i64,
    ) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_heading, true) {
            if resumed != 0 {
                text = format!("** Resuming transfer from byte position {resumed}\n");
            }
            text += HEADING;
        }
        text + &row(counts, measured, self.speed)
    }
}

fn row(counts: &ProgressCounts, measured: &Measured, speed: i64) -> String {
    let ProgressCounts { download_size, downloaded, upload_size, uploaded } = *counts;
    let estimate = |size: Option<i64>, speed| size.filter(|_| speed > 0).map(|size| size / speed);
    let share = |size: Option<i64>, done, speed: i64| {
        size.filter(|_| speed > 0).map_or(0, |size| percent(done, size))
    };
    let (up, down) = (measured.upload_speed, measured.download_speed);
    let expected = upload_size.unwrap_or(uploaded) + download_size.unwrap_or(downloaded);
    let total =
        estimate(upload_size, up).unwrap_or(0).max(estimate(download_size, down).unwrap_or(0));
    let spent = i64::try_from(measured.elapsed.as_secs()).unwrap_or(i64::MAX);
    let left = if total > 0 { total - spent } else { 0 };
    format!(
        "\r{:3} {}  {:3} {}  {:3} {}  {}  {} {} {} {} {}",
        percent(downloaded + uploaded, expected),
        short(expected),
        share(download_size, downloaded, down),
        short(downloaded),
        share(upload_size, uploaded, up),
        short(uploaded),
        short(down),
        short(up),
        clock(total),
        clock(spent),
        clock(left),
        short(speed),
    )
}

fn percent(done: i64, size: i64) -> i64 {
    match size {
        ..=0 => 0,
        1..=10_000 => done * 100 / size,
        _ => done / (size / 100),
    }
}

/// The average speed in bytes per second.
fn speed(bytes: i64, micros: i64) -> i64 {
    let exact = i128::from(bytes) * 1_000_000 / i128::from(micros.max(1));
    i64::try_from(exact).unwrap_or(i64::MAX)
}

/// Hours, minutes and seconds in eight characters; from 100 hours on, days.
fn clock(seconds: i64) -> String {
    if seconds <= 0 {
        return "--:--:--".into();
    }
    let (hours, days) = (seconds / 3600, seconds / 86_400);
    match (hours, days) {
        (..=99, _) => format!("{hours:2}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
        (_, ..=999) => format!("{days:3}d {:02}h", hours % 24),
        _ => format!("{days:7}d"),
    }
}

/// A count of bytes in five characters.
fn short(bytes: i64) -> String {
    let whole = |unit: i64, letter: char| format!("{:4}{letter}", bytes / unit);
    let tenths = |unit: i64, letter: char| {
        format!("{:2}.{}{letter}", bytes / unit, bytes % unit / (unit / 10))
    };
    match bytes {
        ..100_000 => format!("{bytes:5}"),
        _ if bytes < 10_000 * KILO => whole(KILO, 'k'),
        _ if bytes < 100 * MEGA => tenths(MEGA, 'M'),
        _ if bytes < 10_000 * MEGA => whole(MEGA, 'M'),
        _ if bytes < 100 * GIGA => tenths(GIGA, 'G'),
        _ if bytes < 10_000 * GIGA => whole(GIGA, 'G'),
        _ if bytes < 10_000 * GIGA * KILO => whole(GIGA * KILO, 'T'),
        _ => whole(GIGA * MEGA, 'P'),
    }
}

/// Measurements that are kept: of the last five seconds.
const POINTS_MAX: usize = 6;
const KILO: i64 = 1024;
const MEGA: i64 = 1024 * KILO;
const GIGA: i64 = 1024 * MEGA;
const HEADING: &str = concat!(
    "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n",
    "                                 Dload  Upload   Total   Spent    Left  Speed\n",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(counts: ProgressCounts, ms: u64) -> String {
        let mut state = ProgressState::default();
        let measured = state.measure(&counts, Duration::from_millis(ms), false);
        let text = state.meter(&counts, &measured, 0);
        text.strip_prefix(HEADING).expect("the heading comes first").to_owned()
    }

    /// Rows of libcurl's meter.
    #[test]
    fn meter_has_the_columns_of_libcurl() {
        let none = ProgressCounts::default();
        let empty =
            "\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0";
        assert_eq!(meter(none, 0), empty);
        let half = ProgressCounts {
            download_size: Some(2_000_000),
            downloaded: 1_000_000,
            ..ProgressCounts::default()
        };
        let row =
            "\r 50 1953k   50  976k    0     0   488k      0  0:00:04  0:00:02  0:00:02  488k";
        assert_eq!(meter(half, 2_000), row);
    }

    #[test]
    fn numbers_fit_into_five_and_eight_characters() {
        let shorts: Vec<_> =
            [99_999, 100_000, 10_240_000, 104_857_600, 1 << 34, 1 << 40, 1 << 55, i64::MAX]
                .map(short)
                .into();
        let expected = ["99999", "  97k", " 9.7M", " 100M", "16.0G", "1024G", "  32P", "8191P"];
        assert_eq!(shorts, expected);
        let clocks = [0, 59, 359_999, 360_000, 86_400 * 1_000].map(clock);
        assert_eq!(clocks, ["--:--:--", " 0:00:59", "99:59:59", "  4d 04h", "   1000d"]);
    }

    #[test]
    fn slow_transfer_fails_after_the_whole_time() {
        let mut state = ProgressState::default();
        let start = fulmar_sys::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let counts = ProgressCounts { downloaded: 100, ..ProgressCounts::default() };
        for second in 1..=9 {
            state.measure(&counts, Duration::from_secs(second), false);
            assert_eq!(state.check_speed(at(second), 10, 4).is_err(), second >= 6, "{second}");
        }
        state.restart_speed();
        assert_eq!(state.check_speed(at(10), 10, 4), Ok(()));
    }
}
